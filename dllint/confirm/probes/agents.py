"""Agents of Stable-Baselines3: what is saved with them, and restored (DL952, DL953).

An agent knows nothing of what normalizes its observations, and nothing of its replay buffer: both are saved and loaded
on their own. A normalizer that is restored goes on to learn, also while the agent is only evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, Probe


@dataclass(slots=True, eq=False)
class _Normalizer:
    """What normalizes observations."""

    with_agent: Stack = ()  # where an agent that uses it was saved
    is_saved: bool = False
    restored: Stack = ()
    learns: bool = False  # an agent learns with it
    moving: int = 0  # steps in which it learned
    fixed: int = 0


@dataclass(slots=True, eq=False)
class _Resumed:
    """An agent with a past that begins to learn in this process."""

    stack: Stack
    steps: int  # that it has made before
    samples: int  # in its replay buffer


class Agents(Probe):
    """Follows agents, and what normalizes their observations."""

    name = "agents"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._known: WeakKeyDictionary[Any, _Normalizer] = WeakKeyDictionary()
        self._all: list[_Normalizer] = []
        self._learning: WeakSet[Any] = WeakSet()
        self._resumed: list[_Resumed] = []

    def _of(self, normalizer: Any) -> _Normalizer:
        known = self._known.get(normalizer)
        if known is None:
            known = self._known[normalizer] = _Normalizer()
            self._all.append(known)
        return known

    def on_agent_learns(self, agent: Any, stack: Stack) -> None:
        normalizer = agent.get_vec_normalize_env()
        if normalizer is not None:
            self._of(normalizer).learns = True
        if agent in self._learning:
            return
        self._learning.add(agent)
        buffer, steps = getattr(agent, "replay_buffer", None), int(agent.num_timesteps)
        if buffer is not None and steps:
            self._resumed.append(_Resumed(stack, steps, int(buffer.size())))

    def on_agent_saved(self, agent: Any, stack: Stack) -> None:
        normalizer = agent.get_vec_normalize_env()
        if normalizer is not None:
            self._of(normalizer).with_agent = stack

    def on_normalizer(self, what: str, normalizer: Any, stack: Stack) -> None:
        known = self._of(normalizer)
        if what == "saved":
            known.is_saved = True
        elif what == "restored":
            known.restored = stack
        else:
            known.moving += bool(normalizer.training)
            known.fixed += not normalizer.training

    def judge(self) -> Iterator[Judgement]:
        for known in self._all:
            if known.with_agent:
                is_over = self.run.ended_by == "end"
                verdict: Verdict = "REFUTED" if known.is_saved else "CONFIRMED" if is_over else "INCONCLUSIVE"
                what = "with" if known.is_saved else "without"
                yield self._judgement(
                    "DL952",
                    verdict,
                    f"an agent was saved {what} what normalizes its observations",
                    "an agent that is saved, and no normalizer until the script ends; both refute",
                    known.with_agent,
                )
            if known.restored and known.moving + known.fixed >= ENOUGH:
                moves = bool(known.moving) and not known.learns
                yield self._judgement(
                    "DL952",
                    "CONFIRMED" if moves else "REFUTED",
                    f"what normalizes observations went on to learn in {known.moving} of {known.moving + known.fixed} "
                    "steps after it was restored, " + ("though no agent did" if moves else "as it should"),
                    "any step in which it learns, and no agent; else 3 or more steps refute",
                    known.restored,
                )
        for resumed in self._resumed:
            yield self._judgement(
                "DL953",
                "REFUTED" if resumed.samples else "CONFIRMED",
                f"an agent that has made {resumed.steps} steps goes on to learn with {resumed.samples} samples in its "
                "replay buffer",
                "no sample; any refutes",
                resumed.stack,
            )

    def _judgement(self, rule: str, verdict: Verdict, what: str, threshold: str, stack: Stack) -> Judgement:
        voice: Any = "note" if rule == "DL953" else "alarm"
        return Judgement(rule, self.name, verdict, what, threshold, {}, 1, (0, self.run.steps), (stack,), voice)
