"""Returns of episodes, and what is said of their trend."""

from __future__ import annotations

import pytest
from confirm_support import SCRIPTS, observed

pytest.importorskip("gymnasium")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("trend", "verdict"), [(-0.1, "CONFIRMED"), (0.1, "REFUTED"), (0.0, "INCONCLUSIVE")])
def test_trend_of_returns(trend: float, verdict: str) -> None:
    (record,) = observed(SCRIPTS / "episodes.py", str(trend)).records
    assert (record.errors, record.stop, record.error) == ([], "end", "")
    assert [item.verdict for item in record.judgements if item.rule == "return-trend"] == [verdict]
    assert len(record.traces["return"]) == 210
    speaking = {item.rule for item in record.judgements if item.verdict == "CONFIRMED" and item.voice == "alarm"}
    assert speaking == set()
