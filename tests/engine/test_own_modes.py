"""A module whose class has a `train` of its own says which mode it is in."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import ModeChange

PAIR = """
from torch import nn


class Pair(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def train(self, mode=True, with_encoder=True):
        self.training = mode
        self.encoder.train(mode and with_encoder)
        return self


class Counter:
    def __init__(self):
        self.training = 0


count = Counter()
encoder = nn.Linear(8, 8)
pair = Pair(encoder)
pair.{call}
"""


@pytest.mark.parametrize(
    ("call", "mode"), [("train()", True), ("train(with_encoder=False)", True), ("train(False)", False)]
)
def test_its_mode_is_what_it_keeps(tmp_path: Path, call: str, mode: bool) -> None:
    program = run(tmp_path, PAIR.format(call=call))
    changes = program.all_of(ModeChange)
    assert [each.training for each in changes if each.model is program.variables["pair"]] == [mode]
    assert not any(each.model is program.variables["count"] for each in changes)
