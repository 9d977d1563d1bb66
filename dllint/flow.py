"""Following an object through a program: which states it can be in at each event, over all paths.

A rule gives a start state and a function ``step(event, state)`` that returns the next state. Branches are followed
separately and joined, tests that are repeated are taken the same way within an iteration, loops run to a fixed point
(every loop at least once), calls are followed into the functions called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from dllint.events import Arm, Block, Branch, Event, Invocation, Leave, Loop, Node
from dllint.interp.guards import contradict
from dllint.values import Guard

State = TypeVar("State", bound=Hashable)

_MAX_SITUATIONS = 24
_MAX_ASSUMPTIONS = 4
_MAX_ROUNDS = 6


@dataclass
class Flow(Generic[State]):
    """``arrivals`` holds, for each event, all states in which it is reached; ``final`` those at the end."""

    arrivals: dict[Event, set[State]] = field(default_factory=dict)
    final: set[State] = field(default_factory=set)


def follow(
    body: Block,
    start: State,
    step: Callable[[Event, State], State],
    relevant: Callable[[Event], bool],
) -> Flow[State]:
    """Follow the paths through ``body``. Only ``relevant`` events change the state or are recorded."""
    reduced = _reduce(body, relevant)
    walker = _Walker(step, _repeated_guards(reduced))
    final = walker.walk(reduced, {(start, frozenset())})
    ends = {state for kind in ("next", "return") for state, _ in final.get(kind, ())}
    return Flow(walker.arrivals, ends)


def _reduce(node: Node, relevant: Callable[[Event], bool]) -> Block:
    """The same structure with only the relevant events, and without what has become empty."""
    reduced = Block()
    items = node.items if isinstance(node, Block) else [node]
    for item in items:
        if isinstance(item, Event):
            if relevant(item):
                reduced.items.append(item)
        elif isinstance(item, Leave):
            reduced.items.append(item)
        elif isinstance(item, Block):
            reduced.items.extend(_reduce(item, relevant).items)
        elif isinstance(item, Branch):
            arms = [Arm(arm.guards, _reduce(arm.body, relevant)) for arm in item.arms]
            going_on = [arm for arm in arms if not _only_raises(arm.body)] or arms
            if any(arm.body.items for arm in going_on):
                reduced.items.append(Branch(item.site, going_on))
        else:
            inner = _reduce(item.body, relevant)
            if isinstance(item, Loop) and _has_events(inner):
                loop = Loop(item.kind, item.site, item.iterable, item.element, inner, item.frame, item.targets)
                reduced.items.append(loop)
            elif isinstance(item, Invocation) and inner.items and _has_events(inner):
                reduced.items.append(Invocation(item.frame, item.site, inner))
    return reduced


def _only_raises(block: Block) -> bool:
    return len(block.items) == 1 and isinstance(block.items[0], Leave) and block.items[0].kind == "raise"


def _has_events(block: Block) -> bool:
    return any(
        isinstance(item, Event | Loop | Invocation)
        or (isinstance(item, Branch) and any(_has_events(arm.body) for arm in item.arms))
        for item in block.items
    )


def _repeated_guards(body: Block) -> frozenset[str]:
    """The subjects that several branches test: only these need to be remembered."""
    counts: Counter[str] = Counter()
    pending: list[Node] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, Branch):
            counts.update({guard.subject for arm in node.arms for guard in arm.guards})
            pending.extend(arm.body for arm in node.arms)
        elif isinstance(node, Block):
            pending.extend(node.items)
        elif isinstance(node, Loop | Invocation):
            pending.append(node.body)
    return frozenset(subject for subject, count in counts.items() if count > 1)


Situation = tuple[Any, frozenset[Guard]]
Exits = dict[str, set[Situation]]


class _Walker:
    """Walks each node once for each situation in which it is reached, however often loops come back to it."""

    def __init__(self, step: Callable[[Event, Any], Any], remembered: frozenset[str]) -> None:
        self._step = step
        self._remembered = remembered
        self._canonical: dict[tuple[str, str, str, bool], Guard] = {}
        self._known: dict[tuple[int, Situation], Exits] = {}
        self.arrivals: dict[Event, set[Any]] = {}

    def walk(self, node: Node, situations: set[Situation]) -> Exits:
        """The situations in which control goes on (``next``) or leaves, by kind."""
        if isinstance(node, Leave):
            return {node.kind: situations}
        if isinstance(node, Block):
            return self._block(node, situations)
        exits: Exits = {}
        for situation in situations:
            key = (id(node), situation)
            known = self._known.get(key)
            if known is None:
                self._known[key] = {}  # what a walk that comes back to itself adds: nothing new
                known = self._known[key] = self._walk_one(node, situation)
            for kind, leaving in known.items():
                exits.setdefault(kind, set()).update(leaving)
        return {kind: self._limit(leaving) for kind, leaving in exits.items()}

    def _walk_one(self, node: Node, situation: Situation) -> Exits:
        if isinstance(node, Event):
            state, assumed = situation
            self.arrivals.setdefault(node, set()).add(state)
            return {"next": {(self._step(node, state), assumed)}}
        if isinstance(node, Branch):
            return self._branch(node, situation)
        if isinstance(node, Loop):
            return self._loop(node, situation)
        assert isinstance(node, Invocation)
        exits = self.walk(node.body, {situation})
        going_on = exits.pop("next", set()) | exits.pop("return", set())
        return {"next": going_on, **{kind: exits[kind] for kind in exits if kind == "raise"}}

    def _block(self, block: Block, situations: set[Situation]) -> Exits:
        exits: Exits = {}
        for item in block.items:
            if not situations:
                break
            outcome = self.walk(item, situations)
            situations = outcome.get("next", set())
            for kind, leaving in outcome.items():
                if kind != "next":
                    exits.setdefault(kind, set()).update(leaving)
        exits["next"] = situations
        return exits

    def _branch(self, branch: Branch, situation: Situation) -> Exits:
        state, assumed = situation
        exits: Exits = {}
        for arm in branch.arms:
            if any(contradict(left, right) for left in assumed for right in arm.guards):
                continue
            entering = (state, self._assume(assumed, arm.guards))
            for kind, leaving in self.walk(arm.body, {entering}).items():
                exits.setdefault(kind, set()).update(leaving)
        return exits

    def _assume(self, assumed: frozenset[Guard], guards: tuple[Guard, ...]) -> frozenset[Guard]:
        new = [guard for guard in guards if guard.subject in self._remembered]
        if not new or len(assumed) >= _MAX_ASSUMPTIONS:
            return assumed
        return assumed | {self._canonical.setdefault(guard.key(), guard) for guard in new}

    def _limit(self, situations: set[Situation]) -> set[Situation]:
        """With too many combinations of assumptions, forget them; the states stay."""
        if len(situations) <= _MAX_SITUATIONS:
            return situations
        return {(state, frozenset()) for state, _ in situations}

    def _loop(self, loop: Loop, situation: Situation) -> Exits:
        exits: Exits = {}
        after: set[Situation] = set()
        entering = {situation}
        for _ in range(1 if loop.kind == "once" else _MAX_ROUNDS):
            outcome = self.walk(loop.body, {(s, _without(a, loop.targets)) for s, a in entering})
            ended = outcome.pop("next", set()) | outcome.pop("continue", set())
            broken = outcome.pop("break", set())
            for kind, leaving in outcome.items():
                exits.setdefault(kind, set()).update(leaving)
            ended = {(s, _without(a, loop.targets)) for s, a in ended}
            entering = ended - after
            after = after | ended | broken
            if not entering:
                break
        exits["next"] = after
        return exits


def _without(assumed: frozenset[Guard], changed: frozenset[str]) -> frozenset[Guard]:
    """Assumptions that another iteration does not overturn."""
    return frozenset(guard for guard in assumed if guard.names.isdisjoint(changed))
