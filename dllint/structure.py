"""The structure that events stand in: blocks, loops, branches, calls, and programs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from dllint.dataclass import dataclass
from dllint.events import Event, Frame
from dllint.sites import Guards, Site
from dllint.values import Value


@dataclass(slots=True, eq=False)
class Leave:
    """Control leaves: ``break``, ``continue``, ``return`` or ``raise``."""

    kind: str
    site: Site


@dataclass(slots=True, eq=False)
class Block:
    """Things that happen one after another."""

    items: list[Node] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Loop:
    """A loop. ``iterable`` is what a ``for`` goes over, ``element`` what it yields.

    ``kind`` is ``for`` or ``while``, ``once`` for one of several iterations that are told apart, or ``calls`` for a
    method that is called again and again by somebody who is not seen.
    ``targets`` are the names that the loop binds or changes in each iteration.
    """

    kind: str
    site: Site
    iterable: Value | None
    element: Value | None
    body: Block
    frame: Frame
    targets: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Arm:
    """One way through a branch, taken when ``guards`` hold."""

    guards: Guards
    body: Block


@dataclass(slots=True, eq=False)
class Branch:
    """Exactly one of the arms happens."""

    site: Site
    arms: list[Arm]


@dataclass(slots=True, eq=False)
class Invocation:
    """The body of a project function, interpreted where it is called."""

    frame: Frame
    site: Site
    body: Block


Node = Event | Leave | Block | Loop | Branch | Invocation


@dataclass(slots=True, eq=False)
class Program:
    """Everything that happens from one entry point: a module run as a script, or one function or class on its own.

    ``kind`` is ``module``, ``function`` or ``class``. ``complete`` is true for a module run as a script: its objects
    are not used by anybody else. ``truncated`` programs were too long to be followed to the end: what is missing in
    them may happen all the same. ``alone`` is the definition that was interpreted by itself, as nothing that could be
    followed calls it; of what a library calls (``forward``, ``training_step``) that is no assumption.
    """

    kind: str
    name: str
    module: Any
    body: Block
    truncated: bool = False
    alone: Site | None = None

    @property
    def complete(self) -> bool:
        return self.kind == "module"

    def events(self) -> Iterator[Event]:
        """All events, in program order; those of every arm of a branch."""
        yield from walk(self.body)


def walk(node: Node) -> Iterator[Event]:
    """The events below a node, in program order."""
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Event):
            yield current
        elif isinstance(current, Branch):
            stack.extend(arm.body for arm in reversed(current.arms))
        elif isinstance(current, Block):
            stack.extend(reversed(current.items))
        elif isinstance(current, Loop | Invocation):
            stack.append(current.body)


def entered(node: Node) -> Iterator[Site]:
    """The functions of the project that are entered below a node, in program order."""
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, Branch):
            stack.extend(arm.body for arm in reversed(current.arms))
        elif isinstance(current, Block):
            stack.extend(reversed(current.items))
        elif isinstance(current, Loop):
            stack.append(current.body)
        elif isinstance(current, Invocation):
            if current.frame.definition is not None:
                yield current.frame.definition
            stack.append(current.body)
