"""``dllint check --why-silent FILE:LINE``: what kept a rule from reporting a line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asking import ask, last

from dllint.api import OptimizerCreated
from dllint.cli import main
from dllint.findings import Silence

SCRIPT = """\
import torch
import torch.nn as nn

net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def evaluate(model, loader):
    # batch norm stays in training mode on purpose
    with torch.no_grad():
        for x in loader:
            print(model(x))


def validate(model, loader):
    with torch.no_grad():
        for x in loader:
            print(model(x))


for x in some_loader:
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
evaluate(net, some_loader)
validate(net, some_loader)
adam = torch.optim.Adam(net.parameters(), weight_decay=1e-4)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return "train.py"


def told(script: str, line: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["check", "--isolated", "--extend-select", "PREVIEW", "--why-silent", f"{script}:{line}"]) == 0
    return capsys.readouterr().out


def test_an_excuse(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(script, 12, capsys)
    assert "DL207 missing-eval-mode: not reported: a comment in the function speaks of the mode, or in " in found


def test_an_excuse_for_a_value_has_its_place() -> None:
    rule = SimpleNamespace(code="AXC98", name="of-values", excuses=(lambda value, ctx: True,))

    def question(ctx: Any) -> list[Silence]:
        ctx.silences = []
        ctx.excused(rule, last(ctx, OptimizerCreated).optimizer)
        return list(ctx.silences)

    assert [each.code for each in ask("", question)] == ["AXC98"]


def test_what_is_reported(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "DL207 missing-eval-mode: reported\n" in told(script, 18, capsys)


def test_what_does_no_harm(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "DL301 adam-weight-decay: not reported: it does no harm here" in told(script, 27, capsys)


def test_nothing_in_view(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(script, 2, capsys) == "train.py:2\n  no rule had anything in view here\n"


def test_what_assumes_too_much(
    script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no kind of assumption to rely on, whatever assumes something is a question."""
    monkeypatch.setattr("dllint.tiers.reliable_kinds", lambda: frozenset())
    assert "DL207 missing-eval-mode: not reported: it would have to assume that `validate`" in told(script, 18, capsys)


def test_it_is_noted_only_on_request(script: str, tmp_path: Path) -> None:
    main(["check", "--isolated", script])
    assert main(["check", "--isolated", script]) == 1, "from the cache"


@pytest.mark.parametrize("place", ["train.py", "train.py:x", ":3"])
def test_a_place_of_another_form(script: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--isolated", "--why-silent", place]) == 2
    assert "is not of the form FILE:LINE" in capsys.readouterr().err
