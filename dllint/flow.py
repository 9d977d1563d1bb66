"""Following an object through a program: which states it can be in at each event, over all paths.

A rule gives a start state and a function ``step(event, state)`` that returns the next state. Branches are followed
separately and joined, tests that are repeated are taken the same way within an iteration, loops run to a fixed point
(every loop at least once), calls are followed into the functions called.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from typing import Any, Generic, TypeVar

from dllint.dataclass import dataclass
from dllint.events import Event, OptimizerCreated
from dllint.interp.run.guards import consistent
from dllint.interp.run.renewed import Renewed, is_renewed, renewed_in
from dllint.sites import Guard
from dllint.structure import Arm, Block, Branch, Invocation, Leave, Loop, Node, walk

State = TypeVar("State", bound=Hashable)

_MAX_SITUATIONS = 24
_MAX_ASSUMPTIONS = 6
_MAX_ROUNDS = 6
_MAX_WALKS = 4_000  # behind that, no more assumptions are kept: what can still be told apart is the states


@dataclass()
class Flow(Generic[State]):
    """``arrivals`` holds, for each event, all states in which it is reached; ``final`` those at the end."""

    arrivals: dict[Event, set[State]] = field(default_factory=dict)
    final: set[State] = field(default_factory=set)


class Structure:
    """A program's structure, indexed so that what concerns a few of its events is found without a walk over all.

    ``events`` are all events, and ``loops`` all loops with those around them, innermost first, in program order. A loop
    over a few known things is not around anything.
    """

    def __init__(self, body: Block) -> None:
        self.body = body
        self.events: list[Event] = []
        self.loops: list[tuple[Loop, tuple[Loop, ...]]] = []
        self.around: dict[Event, tuple[Loop, ...]] = {}
        self._by_kind: dict[type[Event], list[int]] = {}
        self._ranges: dict[int, tuple[int, int]] = {}
        self._leaving: set[int] = set()
        self._index(body, ())

    def _index(self, node: Node, around: tuple[Loop, ...]) -> bool:
        """Number the events below a node; returns whether control may leave it other than by its end."""
        events, by_kind = self.events, self._by_kind
        start = len(events)
        leaves = False
        for part in _parts(node):  # each is numbered, whether or not one before it leaves
            if isinstance(part, Event):
                kind = type(part)
                if kind in by_kind:
                    by_kind[kind].append(len(events))
                else:
                    by_kind[kind] = [len(events)]
                events.append(part)
                if around:
                    self.around[part] = around
            elif isinstance(part, Leave):
                leaves = True
            elif isinstance(part, Loop):
                self.loops.append((part, around))
                self._index(part, around if part.kind == "once" else (part, *around))
            else:
                leaves |= self._index(part, around)
        leaves &= isinstance(node, Block | Branch)
        self._ranges[id(node)] = (start, len(events))
        if leaves:
            self._leaving.add(id(node))
        return leaves

    def all_of(self, *kinds: type[Event]) -> list[Event]:
        """The events of some kinds, in order."""
        found = [index for kind in kinds for index in self._by_kind.get(kind, ())]
        return [self.events[index] for index in (found if len(kinds) == 1 else sorted(found))]

    def reduced(self, kinds: Iterable[type[Event]], relevant: Callable[[Event], bool]) -> Block:
        """The same structure with only the relevant events of some kinds, and without what has become empty."""
        candidates = sorted(index for kind in kinds for index in self._by_kind.get(kind, ()))
        wanted = [index for index in candidates if relevant(self.events[index])]
        return self._reduce(self.body, wanted) if wanted else Block()

    def _reduce(self, node: Block, wanted: list[int]) -> Block:
        reduced = Block()
        position = self._ranges[id(node)][0]
        for item in node.items:
            if isinstance(item, Event):
                if _contains(wanted, position, position + 1):
                    reduced.items.append(item)
                position += 1
                continue
            if isinstance(item, Leave):
                reduced.items.append(item)
                continue
            start, position = self._ranges[id(item)]
            has_events = _contains(wanted, start, position)
            if has_events or id(item) in self._leaving:
                self._reduce_into(reduced, item, wanted, has_events)
        return reduced

    def _reduce_into(self, reduced: Block, item: Node, wanted: list[int], has_events: bool) -> None:
        if isinstance(item, Block):
            reduced.items.extend(self._reduce(item, wanted).items)
        elif isinstance(item, Branch):
            arms = [Arm(arm.guards, self._reduce(arm.body, wanted)) for arm in item.arms]
            going_on = [arm for arm in arms if not _only_raises(arm.body)] or arms
            if any(arm.body.items for arm in going_on):
                reduced.items.append(Branch(item.site, going_on))
        elif isinstance(item, Loop) and has_events:
            inner = self._reduce(item.body, wanted)
            loop = Loop(item.kind, item.site, item.iterable, item.element, inner, item.frame, item.targets)
            reduced.items.append(loop)
        elif isinstance(item, Invocation) and has_events:
            reduced.items.append(Invocation(item.frame, item.site, self._reduce(item.body, wanted)))


def _parts(node: Node) -> Sequence[Node]:
    if isinstance(node, Block):
        return node.items
    if isinstance(node, Branch):
        return [arm.body for arm in node.arms]
    return [node.body] if isinstance(node, Loop | Invocation) else []


def _contains(wanted: list[int], start: int, end: int) -> bool:
    """Whether a sorted list has a number in the range."""
    index = bisect_left(wanted, start)
    return index < len(wanted) and wanted[index] < end


def _only_raises(block: Block) -> bool:
    return len(block.items) == 1 and isinstance(block.items[0], Leave) and block.items[0].kind == "raise"


def is_of_runs(loop: Loop) -> bool:
    """Whether each iteration of a loop is a training run of its own, with an optimizer that is made for it."""
    return any(isinstance(event, OptimizerCreated) for event in walk(loop.body))


def follow(
    structure: Structure,
    start: State,
    step: Callable[[Event, State], State],
    kinds: Iterable[type[Event]],
    relevant: Callable[[Event], bool],
) -> Flow[State]:
    """Follow the paths through a program; only ``relevant`` events of these kinds change the state or are recorded."""
    reduced = structure.reduced(kinds, relevant)
    walker = _Walker(step, _tests_ahead(reduced))
    final = walker.walk(reduced, {(start, frozenset())})
    ends = {state for kind in ("next", "return") for state, _ in final.get(kind, ())}
    return Flow(walker.arrivals, ends)


Subjects = frozenset[str]


def _tests_ahead(body: Block) -> dict[int, Subjects]:
    """The subjects that are tested behind each node, in other iterations too, by the identity of the node.

    For the body of an arm they are those that are tested inside of it, too.
    """
    tested: dict[int, Subjects] = {}

    def collect(node: Node) -> Subjects:
        found: Subjects = frozenset()
        if isinstance(node, Branch):
            found = frozenset(guard.subject for arm in node.arms for guard in arm.guards)
        for part in _parts(node):
            found = _both(found, collect(part))
        tested[id(node)] = found
        return found

    ahead: dict[int, Subjects] = {}

    def spread(node: Node, behind: Subjects) -> None:
        ahead[id(node)] = _both(behind, tested[id(node)]) if isinstance(node, Block) else behind
        if isinstance(node, Loop):
            behind = _both(behind, tested[id(node)])
        for part in reversed(_parts(node)):
            spread(part, behind)
            if isinstance(node, Block):
                behind = _both(behind, tested[id(part)])

    collect(body)
    spread(body, frozenset())
    return ahead


def _both(some: Subjects, others: Subjects) -> Subjects:
    """What two sets have in them. Most nodes of a long program have the same tests ahead: that is held once."""
    return some if others <= some else others if some <= others else some | others


Situation = tuple[Any, frozenset[Guard]]
Exits = dict[str, set[Situation]]


class _Walker:
    """Walks each node once for each situation in which it is reached, however often loops come back to it."""

    def __init__(self, step: Callable[[Event, Any], Any], ahead: dict[int, Subjects]) -> None:
        self._step = step
        self._ahead = ahead
        self._canonical: dict[tuple[str, str, str, bool], Guard] = {}
        self._known: dict[tuple[int, Situation], Exits] = {}
        self._renewed: dict[int, Renewed] = {}
        self._walks = 0
        self.arrivals: dict[Event, set[Any]] = {}

    def walk(self, node: Node, situations: set[Situation]) -> Exits:
        """The situations in which control goes on (``next``) or leaves, by kind."""
        if isinstance(node, Leave):
            return {node.kind: situations}
        if isinstance(node, Block):
            return self._block(node, situations)
        exits: Exits = {}
        for situation in situations:
            known = self._walk_once(node, situation)
            if len(situations) == 1:
                exits = known
                break
            for kind, leaving in known.items():
                exits.setdefault(kind, set()).update(leaving)
        return {kind: self._limit(leaving) for kind, leaving in exits.items()}

    def _walk_once(self, node: Node, situation: Situation) -> Exits:
        key = (id(node), situation)
        known = self._known.get(key)
        if known is None:
            self._known[key] = {}  # what a walk that comes back to itself adds: nothing new
            known = self._known[key] = self._walk_one(node, situation)
        return known

    def _event(self, event: Event, situations: set[Situation]) -> set[Situation]:
        self.arrivals.setdefault(event, set()).update(state for state, _ in situations)
        return {(self._step(event, state), assumed) for state, assumed in situations}

    def _walk_one(self, node: Node, situation: Situation) -> Exits:
        self._walks += 1
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
            if isinstance(item, Event):
                situations = self._event(item, situations)
                continue
            outcome = self.walk(item, situations)
            ahead = self._ahead[id(item)]
            situations = {(state, _about(assumed, ahead)) for state, assumed in outcome.get("next", ())}
            for kind, leaving in outcome.items():
                if kind != "next":
                    exits.setdefault(kind, set()).update(leaving)
        exits["next"] = situations
        return exits

    def _branch(self, branch: Branch, situation: Situation) -> Exits:
        state, assumed = situation
        exits: Exits = {}
        for arm in branch.arms:
            if assumed and not consistent(arm.guards, assumed):
                continue
            entering = (state, self._assume(assumed, arm))
            for kind, leaving in self.walk(arm.body, {entering}).items():
                exits.setdefault(kind, set()).update(leaving)
        return exits

    def _assume(self, assumed: frozenset[Guard], arm: Arm) -> frozenset[Guard]:
        ahead = self._ahead[id(arm.body)]
        new = [guard for guard in arm.guards if guard.subject in ahead]
        if self._walks > _MAX_WALKS:
            return frozenset()
        if not new or len(assumed) >= _MAX_ASSUMPTIONS:
            return assumed
        return assumed | {self._canonical.setdefault(guard.key(), guard) for guard in new}

    def _limit(self, situations: set[Situation]) -> set[Situation]:
        """With too many combinations of assumptions, forget them; the states stay."""
        if len(situations) <= _MAX_SITUATIONS and self._walks <= _MAX_WALKS:
            return situations
        return {(state, frozenset()) for state, _ in situations}

    def _loop(self, loop: Loop, situation: Situation) -> Exits:
        exits: Exits = {}
        after: set[Situation] = set()
        entering = {situation}
        renewed = self._renewed.get(id(loop))
        if renewed is None:
            renewed = self._renewed[id(loop)] = renewed_in(loop)
        for _ in range(1 if loop.kind == "once" else _MAX_ROUNDS):
            outcome = self.walk(loop.body, {(s, _without(a, loop.targets, renewed)) for s, a in entering})
            ended = outcome.pop("next", set()) | outcome.pop("continue", set())
            broken = outcome.pop("break", set())
            for kind, leaving in outcome.items():
                exits.setdefault(kind, set()).update(leaving)
            ended = {(s, _without(a, loop.targets, renewed)) for s, a in ended}
            entering = ended - after
            after = after | ended | broken
            if not entering:
                break
        exits["next"] = after
        return exits


def _about(assumed: frozenset[Guard], subjects: Subjects) -> frozenset[Guard]:
    """The assumptions about some subjects."""
    if not assumed:
        return assumed
    kept = [guard for guard in assumed if guard.subject in subjects]
    return assumed if len(kept) == len(assumed) else frozenset(kept)


def _without(assumed: frozenset[Guard], changed: frozenset[str], renewed: Renewed) -> frozenset[Guard]:
    """Assumptions that another iteration does not overturn."""
    if not assumed or not (changed or renewed):
        return assumed
    kept = [guard for guard in assumed if guard.names.isdisjoint(changed) and not is_renewed(guard, renewed)]
    return assumed if len(kept) == len(assumed) else frozenset(kept)
