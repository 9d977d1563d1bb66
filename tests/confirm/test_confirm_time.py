"""What observing may take of the time, whatever the loop looks like."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from dllint.confirm.evidence import Settings
from dllint.confirm.inside import run as module
from dllint.confirm.inside.run import Run


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Has a run observe steps that take some time, each with something that probes look at."""

    def make(steps: int, *, step: float, look: float, optimizer: bool = False) -> Run:
        clock = Clock()
        monkeypatch.setattr(module, "time", clock)
        run = Run(Settings(records=""))
        owner = Counted()
        for _ in range(steps):
            clock.spend(step)
            run.guard(clock.spend, look)
            if optimizer:
                run.count_step(owner)
        return run

    return make


class Counted:
    """Stands for an optimizer."""


def test_tiny_steps_without_an_optimizer_are_looked_at_less_often(train: Callable[..., Run]) -> None:
    assert train(3000, step=0.001, look=0.001).every > 10


def test_the_first_second_of_looking_is_free(train: Callable[..., Run]) -> None:
    assert train(900, step=0.001, look=0.001).every == 10


def test_after_a_hundred_steps_nothing_is_free(train: Callable[..., Run]) -> None:
    assert train(1500, step=0.001, look=0.0005).every == 10
    assert train(1500, step=0.001, look=0.0005, optimizer=True).every > 10


def test_a_small_share_changes_nothing(train: Callable[..., Run]) -> None:
    assert train(100_000, step=0.001, look=0.00002, optimizer=True).every == 10


def test_at_worst_one_in_a_thousand_is_looked_at(train: Callable[..., Run]) -> None:
    assert train(100_000, step=0.0001, look=0.001).every == 1000


def test_the_first_call_of_each_evaluation_is_told(train: Callable[..., Run]) -> None:
    run, owner = train(100_000, step=0.0001, look=0.001), Counted()

    def evaluate(*, once_a_step: bool) -> bool:
        return run.is_due(sys._getframe(), once_a_step=once_a_step)

    assert all(evaluate(once_a_step=False) for _ in range(100))
    for _ in range(3):
        run.count_step(owner)
        assert [evaluate(once_a_step=True) for _ in range(5)] == [True, False, False, False, False]
    run.count_step(owner)
    assert not evaluate(once_a_step=False)
