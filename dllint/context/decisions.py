"""Decisions that stand as long as a program runs, such as ``if args.amp``: only one of their arms ever happens."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dllint.context.base import E
from dllint.context.paths import Paths
from dllint.events import CallRefused, Event
from dllint.interp.run.classes import set_attributes
from dllint.interp.run.guards import contradict
from dllint.interp.run.refusals import fits
from dllint.interp.source.sibling_calls import goes_with_branch
from dllint.sites import Guard
from dllint.structure import Loop, walk
from dllint.values import Class, Instance


class Decisions(Paths):
    """Which events go together."""

    _last_tested: tuple[Event, dict[str, list[Guard]]] | None = None

    def never_both(self, left: Event, right: Event) -> bool:
        """Whether of two events only one ever happens, in all iterations of the loops around them.

        Conditions that merely contradict each other do not say so: another iteration may decide otherwise.
        """
        if not left.guards or not right.guards:
            return False
        tested = self._tested_by(left)
        pairs = [
            (one, other) for other in right.guards for one in tested.get(other.subject, ()) if contradict(one, other)
        ]
        if not pairs:
            return False
        around = self.loops_around(left)
        shared = [loop for loop in self.loops_around(right) if loop in around]
        owners = [frame.receiver for event in (left, right) for frame in event.frame.stack()]
        changing = {f"self.{name}" for owner in owners for name in _changing_attributes(owner)}
        return any(
            _stands(one, shared) and _stands(other, shared) and changing.isdisjoint(one.names | other.names)
            for one, other in pairs
        )

    def goes_with_branch(self, event: CallRefused) -> bool:
        """Whether a refused call is of another class's method, as the other arm of a branch calls this one rightly.

        ``if on_policy: self.brain.learn(a, b)`` and ``else: self.brain.learn(a)``: one setting decides on both.
        """
        return goes_with_branch(self._machine.project, event.site, event.function.node, fits)

    def _tested_by(self, event: Event) -> dict[str, list[Guard]]:
        """The conditions of an event by what they are about. One event is compared with many others in turn."""
        if self._last_tested is None or self._last_tested[0] is not event:
            by_subject: dict[str, list[Guard]] = {}
            for guard in event.guards:
                by_subject.setdefault(guard.subject, []).append(guard)
            self._last_tested = (event, by_subject)
        return self._last_tested[1]

    def happens_once(self, event: Event, loop: Loop) -> bool:
        """Whether an event happens in one iteration of a loop: where what the loop counts equals something.

        Not that of every so many iterations, as ``step % 100 == 0`` says.
        """
        target = loop.site.node.target if isinstance(loop.site.node, ast.For) else None
        counted = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)} if target is not None else set()
        return any(
            guard.holds
            and guard.relation == "=="
            and not guard.periodic
            and not counted.isdisjoint(name.rpartition(":")[2] for name in guard.names & loop.targets)
            for guard in event.guards
        )

    def together_with(self, event: Event, others: Iterable[E]) -> list[E]:
        """Those of some events that may happen in a run in which an event does."""
        return [other for other in others if other is event or not self.never_both(event, other)]

    def beside(self, event: Event, loop: Loop) -> list[Event]:
        """What happens in a loop in a run in which an event does, in the order of the text."""
        return self.together_with(event, walk(loop.body))

    def since_last(self, kind: type[Event], *, before: Event, within: Loop | None = None) -> list[Event]:
        """What happens before an event, in the order of the text, since the last event of a kind.

        Args:
            kind: of what to look for the last one; if there is none, everything before the event counts.
            before: the event. What only happens in runs in which it does not is left out.
            within: the loop in which all of it must happen.
        """
        found: list[Event] = []
        for other in reversed(self._structure.events[: self.position(before)]):
            if (within is not None and within not in self.loops_around(other)) or self.never_both(before, other):
                continue
            if isinstance(other, kind):
                break
            found.append(other)
        return found[::-1]


def _stands(guard: Guard, loops: list[Loop]) -> bool:
    """Whether no iteration of some loops can change a condition."""
    scope, _, rest = guard.subject.partition(":")
    is_computed = "(" in guard.subject or guard.periodic
    is_scoped = bool(rest) and scope.replace(".", "").isidentifier() and not rest.startswith("self.")
    for loop in loops:
        is_local = is_scoped and all(scope != frame.scope for frame in loop.frame.stack())
        if is_computed or is_local or not guard.names.isdisjoint(loop.targets):
            return False  # a variable of a function that is called in each iteration has another value each time
    return True


def _changing_attributes(owner: object) -> frozenset[str]:
    """The attributes of an object that its methods assign."""
    return set_attributes(owner.cls) if isinstance(owner, Instance) and isinstance(owner.cls, Class) else frozenset()
