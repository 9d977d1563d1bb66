"""Agents: what is saved with those of Stable-Baselines3, and restored (DL952, DL953), and how well they do.

An agent knows nothing of what normalizes its observations, and nothing of its replay buffer: both are saved and loaded
on their own. A normalizer that is restored goes on to learn, also while the agent is only evaluated. A loss need not
fall in reinforcement learning, since its targets move: whether an agent gets better shows in the sums of the rewards of
its episodes.
"""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any
from weakref import WeakKeyDictionary

from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, Stack, decided

_EPISODES = 40
_STEPS = 200  # of the optimizer: at the beginning agents explore less from step to step, and have learned nothing yet
_MOST = 20_000
_ERRORS = 3.0  # standard errors by which the means of the first and the last quarter differ


class _Normalizer(Samples):
    with_agent: Stack = ()  # where an agent that uses it was saved
    is_saved: bool = False
    restored: Stack = ()
    learns: bool = False  # an agent learns with it
    moving: int = 0  # steps in which it learned
    fixed: int = 0


class Agents(ObjectProbe[_Normalizer]):
    _sums: WeakKeyDictionary[Any, float] = WeakKeyDictionary()  # of episodes that are not over
    _returns: list[float] = []

    def on_reward(self, environment: Any, reward: float, is_terminal: bool) -> None:
        self._sums[environment] = self._sums.get(environment, 0.0) + reward
        if is_terminal:
            self.on_episode(environment)

    def on_episode(self, environment: Any, stack: Stack = ()) -> None:
        total = self._sums.pop(environment, None)
        if total is not None and len(self._returns) < _MOST:
            self._returns.append(total)
            self.run.trace("return", total)

    def on_agent_learns(self, agent: Any, stack: Stack) -> None:
        self._normalizer_of(agent).learns = True
        buffer, steps = getattr(agent, "replay_buffer", None), int(agent.num_timesteps)
        if self.is_new(agent) and buffer is not None and steps:
            samples = int(buffer.size())
            self.judge_now("DL953", self.now(stack), not samples, steps=steps, samples=samples)

    def on_agent_saved(self, agent: Any, stack: Stack) -> None:
        self._normalizer_of(agent).with_agent = stack

    def _normalizer_of(self, agent: Any) -> _Normalizer:
        """What normalizes its observations; one that is not judged where nothing does."""
        normalizer = agent.get_vec_normalize_env()
        return (None if normalizer is None else self.of(normalizer)) or _Normalizer()

    def on_normalizer(self, what: str, normalizer: Any, stack: Stack) -> None:
        known = self.of(normalizer)
        if known is not None and what == "saved":
            known.is_saved = True
        elif known is not None and what == "restored":
            known.restored = stack
        elif known is not None:
            known.moving += bool(normalizer.training)
            known.fixed += not normalizer.training

    def judge(self) -> Judgements:
        yield from super().judge()
        number = len(self._returns)
        if number >= _EPISODES:
            first, last = self._returns[: number // 4], self._returns[-(number // 4) :]
            error = ((stdev(first) ** 2 + stdev(last) ** 2) / (number // 4)) ** 0.5
            found, change = {"first": mean(first), "last": mean(last)}, mean(last) - mean(first)
            falls = change < -_ERRORS * error and self.run.steps >= _STEPS
            verdict, seen = decided(falls, change > _ERRORS * error), self.whole(looks=number)
            yield self.judgement("return-trend", seen, verdict, error=error, **found)

    def judge_each(self, seen: _Normalizer) -> Judgements:
        if seen.with_agent:
            verdict = decided(not seen.is_saved and self.run.ended_by == "end", seen.is_saved)
            told = f"an agent was saved {'with' if seen.is_saved else 'without'} what normalizes its observations"
            yield self.judgement("DL952", self.whole(seen.with_agent), verdict, told)
        steps = seen.moving + seen.fixed
        if seen.restored and steps >= ENOUGH:
            moves = bool(seen.moving) and not seen.learns
            told = f"what normalizes observations went on to learn in {seen.moving} of {steps} steps after it was "
            told += f"restored, {'though no agent did' if moves else 'as it should'}"
            yield self.judgement("DL952", self.whole(seen.restored), decided(moves, True), told)
