"""What is found in a definition by itself: who calls it has the say, whichever file that is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from importing_projects import write

from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.findings import Finding, Location
from dllint.merging import by_file
from dllint.outcomes import Analysis
from dllint.runner import lint_files
from dllint.worker import Worker

CALLED_BY_ITSELF = """\
def fit(model, loader, optimizer, criterion):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""
CALLER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from engine import fit


class Clearing(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        self.zero_grad()


model = nn.Linear(3, 2)
fit(model, DataLoader([], shuffle=True), {optimizer}(model.parameters(), lr=0.1), nn.CrossEntropyLoss())
"""


def codes_of(tmp_path: Path, files: dict[str, str]) -> list[tuple[str, bool]]:
    """What is found in engine.py: each code, and whether it was found in a definition by itself."""
    project = write(tmp_path, files)
    settings = resolve(ConfigLoader().load(project))
    analyst = Worker(settings, project)
    analyses = [analyst.analyse(project / name).analysis for name in sorted(files)]
    found = by_file(analyses).get(str(project / "engine.py"), [])
    return [(finding.code, finding.alone is not None) for finding in found]


def test_what_nobody_calls_speaks_for_itself(tmp_path: Path) -> None:
    assert codes_of(tmp_path, {"engine.py": CALLED_BY_ITSELF}) == [("DL202", True)]
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": "from engine import fit\nprint(fit)\n"}
    assert codes_of(tmp_path, files) == [("DL202", True)]


def test_a_caller_that_shows_it_is_right_has_the_say(tmp_path: Path) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": CALLER.format(optimizer="Clearing")}
    assert codes_of(tmp_path, files) == []


def test_so_has_one_that_shows_it_is_wrong(tmp_path: Path) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": CALLER.format(optimizer="torch.optim.SGD")}
    assert codes_of(tmp_path, files) == [("DL202", False)]
    both = {**files, "right.py": CALLER.format(optimizer="Clearing")}
    assert codes_of(tmp_path, both) == [("DL202", False)]


def test_a_unit_test_shows_nothing(tmp_path: Path) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "tests/test_engine.py": CALLER.format(optimizer="Clearing")}
    assert codes_of(tmp_path, files) == [("DL202", True)]


def test_a_caller_that_a_rule_has_not_seen_has_no_say_about_it(tmp_path: Path) -> None:
    caller = "from engine import fit\n\n\ndef main(model, loader):\n    fit(model, loader, None, None)\n"
    assert codes_of(tmp_path, {"engine.py": CALLED_BY_ITSELF, "train.py": caller}) == [("DL202", True)]


def test_two_that_call_each_other_do_not_silence_each_other() -> None:
    place = Location("a.py", 5, 1, 5, 2)
    one = Finding("DL202", "a", "b", place, "error", "correctness", alone=("a.py", 1))
    other = Finding("DL202", "a", "b", place, "error", "correctness", alone=("b.py", 1))
    seen = frozenset(["DL202"])
    first = Analysis(findings=[one], reached={("b.py", 1): seen})
    second = Analysis(findings=[other], reached={("a.py", 1): seen})
    assert [finding.location for finding in by_file([first, second])["a.py"]] == [place]
    assert by_file([first, Analysis(reached={("a.py", 1): seen})]) == {}
    assert by_file([first, Analysis(reached={("a.py", 1): frozenset()})]) == {"a.py": [one]}


def test_it_is_kept_with_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": CALLER.format(optimizer="Clearing")}
    project = write(tmp_path, files)
    monkeypatch.chdir(project)
    settings = resolve(ConfigLoader().load(project))
    paths = [project / name for name in files]
    for _ in range(2):
        assert lint_files(paths, settings).findings == []
    from dllint.cache import Cache

    outcome = Cache.open(settings).get(project / "train.py")
    assert outcome is not None
    assert "DL202" in outcome.analysis.reached["engine.py", 1]
