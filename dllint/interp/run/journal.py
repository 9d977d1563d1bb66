"""What branches write: each of them begins with the same state, and what they leave is joined."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dllint.interp.run.joining import MISSING, agree, join_values, unset_options
from dllint.sites import Guard, Guards
from dllint.values import Value

Writes = dict[tuple[int, Any], tuple[dict[Any, Any], Any, Any]]


class Activation:
    """What a running function has returned and yielded so far, each value with the guards on the way to it.

    ``ended`` holds what the branches that returned have written, but for the function's own ``variables``.
    ``refused`` says that a call in it was refused.
    """

    __slots__ = ("caller", "ended", "path_start", "refused", "returned", "variables", "yielded")

    def __init__(self, path_start: int, variables: dict[str, Value], caller: Activation | None) -> None:
        self.path_start = path_start
        self.variables = variables
        self.caller = caller
        self.returned: list[tuple[Guards, Value]] = []
        self.yielded: list[tuple[Guards, Value]] = []
        self.ended: list[tuple[Guards, Writes]] = []
        self.refused = False

    def end(self, guards: Guards, writes: Writes) -> None:
        """Remember what a branch that returned has written."""
        lasting = {where: entry for where, entry in writes.items() if entry[0] is not self.variables}
        if lasting:
            self.ended.append((guards, lasting))

    def grad_after(self, before: str, last: str) -> str:
        """The gradient mode after the call: what a statement of the function has set stays, if it was reached."""
        may_return_early = len(self.returned) > 1 or any(guards for guards, _ in self.returned)
        if last == before or self.yielded:
            return before
        return "unknown" if may_return_early else last


class _Journal:
    """What an arm of a branch has overwritten, and which containers it has ``made`` itself."""

    __slots__ = ("entries", "made")

    def __init__(self) -> None:
        self.entries: list[tuple[dict[Any, Any], Any, Any]] = []
        self.made: set[int] = set()


class State:
    """The variables, attributes and containers of a program, where it is interpreted, and under which conditions.

    Every change goes through :meth:`write`, so that the branches of a condition can be interpreted one after the other
    from the same state and joined.
    """

    def __init__(self) -> None:
        self.path: list[Guard] = []
        self.held: Guards = ()  # at the end of the block that was executed last, more than at its beginning
        self._journal: _Journal | None = None

    def write(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        """Set ``container[key]``; inside a branch the old value is kept for the other arms."""
        journal = self._journal
        if journal is not None and id(container) not in journal.made:
            journal.entries.append((container, key, container.get(key, MISSING)))
        container[key] = value

    def made(self, container: dict[Any, Any]) -> None:
        """A container is made here: the other arms of the branch we are in never see it, so nothing need be kept."""
        if self._journal is not None:
            self._journal.made.add(id(container))

    def delete(self, container: dict[Any, Any], key: Any) -> None:
        """Remove ``container[key]``, if it is there; inside a branch it is kept for the other arms."""
        if key in container:
            journal = self._journal
            if journal is not None and id(container) not in journal.made:
                journal.entries.append((container, key, container[key]))
            del container[key]

    def run_arm(self, guards: Guards, body: Any) -> tuple[Any, Writes]:
        """Interpret ``body()`` under guards, undo its writes, and return its result and the writes."""
        outer, journal = self._journal, _Journal()
        self._journal = journal
        self.path.extend(guards)
        try:
            result = body()
        finally:
            if guards:
                del self.path[-len(guards) :]
            self._journal = outer
            if outer is not None:  # what is made in an arm is made in those around it
                outer.made |= journal.made
            writes: Writes = {}
            for container, key, _ in journal.entries:
                where = (id(container), key)
                if where not in writes:
                    writes[where] = (container, key, container.get(key, MISSING))
            for container, key, old in reversed(journal.entries):
                if old is MISSING:
                    container.pop(key, None)
                else:
                    container[key] = old
        return result, writes

    def join(self, arms: list[tuple[Guards, Writes]]) -> None:
        """Apply the writes of the arms that go on, each under its guards."""
        if len(arms) == 1:
            for container, key, value in arms[0][1].values():
                self._set(container, key, value)
            return
        touched = {where: entry for _, writes in arms for where, entry in writes.items()}
        for where, (container, key, _) in touched.items():
            before = container.get(key, MISSING)
            options = [(guards, writes[where][2] if where in writes else before) for guards, writes in arms]
            if agree(options):
                self._set(container, key, options[0][1])
                continue
            there = [(guards, value) for guards, value in options if value is not MISSING]
            if there and len(there) < len(options):
                there.extend(unset_options(container, key, options))
            self._set(container, key, join_values(there, before))

    def _set(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        if value is MISSING:
            self.delete(container, key)
        else:
            self.write(container, key, value)

    @contextmanager
    def assuming(self, guards: Guards) -> Iterator[None]:
        """Interpret something under further conditions."""
        depth = len(self.path)
        self.path.extend(guards)
        try:
            yield
        finally:
            del self.path[depth:]
