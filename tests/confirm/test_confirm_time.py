"""What observing may take of the time, whatever the loop looks like."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise

import pytest

pytest.importorskip("torch")

from dllint.confirm.evidence import Settings
from dllint.confirm.inside import rests
from dllint.confirm.inside import run as module
from dllint.confirm.inside.run import Run
from dllint.confirm.probes.base import Probe


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


class Counted:
    """Stands for an optimizer."""


class Loop:
    """A training loop: each step takes some time, and looking at it takes some more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        monkeypatch.setattr(module, "time", self.clock)
        monkeypatch.setattr(rests, "time", self.clock)
        self.run = Run(Settings(records="", steps=0))
        self.optimizer = Counted()
        self.looked_at: list[int] = []  # steps
        self.steps = 0
        self.started = self.clock.now

    def train(self, steps: int, *, step: float, look: float, has_optimizer: bool = True) -> Loop:
        for _ in range(steps):
            self.clock.spend(step)
            if not self.run.rests.are_on:
                self.run.guard(self.clock.spend, look)
                self.looked_at.append(self.steps)
            if has_optimizer:
                self.run.count_step(self.optimizer)
                self.run.end_round()
            else:
                self.run.count_backward()
            self.steps += 1
        return self

    def share(self) -> float:
        """What looking took of the time."""
        return self.run._spent / (self.clock.now - self.started)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


@pytest.mark.parametrize("step", [0.0001, 0.001, 0.02])
@pytest.mark.parametrize("look", [0.0005, 0.002, 0.01])
@pytest.mark.parametrize("has_optimizer", [True, False])
def test_looking_takes_a_small_share_of_the_time(loop: Loop, step: float, look: float, has_optimizer: bool) -> None:
    loop.train(round(60 / step), step=step, look=look, has_optimizer=has_optimizer)
    assert loop.share() < 0.03 + 1.3 / 60  # what is free at first


def test_the_first_second_of_looking_is_free(loop: Loop) -> None:
    assert len(loop.train(99, step=0.001, look=0.009).looked_at) == 99


def test_after_a_hundred_steps_nothing_is_free(loop: Loop) -> None:
    assert 100 < len(loop.train(1500, step=0.001, look=0.0005).looked_at) < 300


def test_the_steps_of_a_budget_are_looked_at_whatever_that_takes(loop: Loop) -> None:
    assert loop.train(48, step=0.001, look=1.0).looked_at == list(range(48))


def test_a_small_share_changes_nothing(loop: Loop) -> None:
    assert len(loop.train(100_000, step=0.001, look=0.00002).looked_at) == 100_000


def test_steps_are_looked_at_in_a_row(loop: Loop) -> None:
    looked_at = loop.train(20_000, step=0.001, look=0.001).looked_at
    starts = [step for step, before in zip(looked_at[1:], looked_at, strict=False) if step > before + 1]
    lengths = [sum(start <= step < start + 16 for step in looked_at) for start in starts[:-1]]
    assert set(lengths) == {2, 16}
    assert max(after - before for before, after in pairwise(looked_at)) <= 65


def test_experiments_do_not_rest(loop: Loop) -> None:
    loop.run.settings = replace(loop.run.settings, mode="lr-range")
    assert len(loop.train(5000, step=0.001, look=0.001).looked_at) == 5000


def test_an_evaluation_is_told_of(loop: Loop) -> None:
    def call(*, evaluates: bool) -> bool:
        return loop.run.is_due(sys._getframe(), evaluates=evaluates)

    assert call(evaluates=False) and call(evaluates=False)
    while not loop.run.rests.are_on:
        loop.train(1, step=0.001, look=0.001)
    assert not call(evaluates=False)
    assert call(evaluates=True) and not loop.run.rests.are_on


def test_a_call_that_is_new_is_told_of(loop: Loop) -> None:
    while not loop.run.rests.are_on:
        loop.train(1, step=0.001, look=0.001)
    assert loop.run.is_due(sys._getframe()) and not loop.run.rests.are_on


def test_no_kind_of_loop_is_told_of_for_ever(loop: Loop) -> None:
    """An agent that acts without gradients between its steps disturbs each rest, until there is no time for it."""
    told = 0
    for _ in range(20_000):
        if loop.run.is_due(sys._getframe(), evaluates=True):
            loop.run.guard(loop.clock.spend, 0.001)
            told += 1
        loop.train(1, step=0.001, look=0.0005)
    assert loop.share() < 0.08
    assert told > 200


def test_probes_know_of_gaps_and_of_steps_that_were_passed_over(loop: Loop) -> None:
    told: list[str] = []

    class Listener(Probe):
        name = "listener"

        def on_gap(self) -> None:
            told.append("gap")

        def on_step_passed_over(self, optimizer: object) -> None:
            told.append("step")

    loop.run.watch([Listener])
    loop.run.wake()
    loop.run.pass_over(loop.optimizer)  # type: ignore[arg-type]
    loop.run.tells_of_each_step = True
    loop.run.pass_over(loop.optimizer)  # type: ignore[arg-type]
    assert told == ["gap", "step"]
    assert loop.run.all_steps == 2
