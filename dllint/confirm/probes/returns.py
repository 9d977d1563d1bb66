"""How well an agent does: the sum of rewards of each episode. A loss need not fall in reinforcement learning, since its
targets move; whether the agent gets better shows here."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any
from weakref import WeakKeyDictionary

from dllint.confirm.probes.base import Judgements, Probe, decided
from dllint.confirm.probes.events import Stack

_EPISODES = 40
_STEPS = 200  # of the optimizer: at the beginning agents explore less from step to step, and have learned nothing yet
_MOST = 20_000
_ERRORS = 3.0  # standard errors by which the means of the first and the last quarter differ


class Returns(Probe):
    def begin(self) -> None:
        self._sums: WeakKeyDictionary[Any, float] = WeakKeyDictionary()  # of episodes that are not over
        self._returns: list[float] = []

    def on_reward(self, environment: Any, reward: float, is_terminal: bool) -> None:
        self._sums[environment] = self._sums.get(environment, 0.0) + reward
        if is_terminal:
            self._end(environment)

    def on_episode(self, environment: Any, stack: Stack) -> None:
        self._end(environment)

    def _end(self, environment: Any) -> None:
        total = self._sums.pop(environment, None)
        if total is not None and len(self._returns) < _MOST:
            self._returns.append(total)
            self.run.trace("return", total)

    def judge(self) -> Judgements:
        number = len(self._returns)
        if number < _EPISODES:
            return
        first, last = self._returns[: number // 4], self._returns[-(number // 4) :]
        change = mean(last) - mean(first)
        error = ((stdev(first) ** 2 + stdev(last) ** 2) / (number // 4)) ** 0.5
        rises, falls = change > _ERRORS * error, change < -_ERRORS * error
        verdict, found = decided(falls and self.run.steps >= _STEPS, rises), {"first": mean(first), "last": mean(last)}
        yield self.judgement("return-trend", self.whole(looks=number), verdict, error=error, **found)
