"""Where events of a run happen, in the words of the vocabulary."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from dllint.confirm.evidence import Stack
from dllint.confirm.inside.stacks import stack as present_stack
from dllint.events import Event, Frame
from dllint.sites import Site

E = TypeVar("E", bound=Event)


class Place(Site):
    """A line that was being executed, with the user's lines that led to it."""

    __slots__ = ("frame", "stack")

    def __init__(self, stack: Stack) -> None:
        nowhere: Any = None  # there is no syntax tree
        super().__init__(nowhere, ast.Pass())
        self.stack = stack
        self.frame = Frame(stack[0].function if stack else "")

    @property
    def path(self) -> str:
        """The file; empty where no line of the user's had a part in it."""
        return self.stack[0].path if self.stack else ""

    @property
    def line(self) -> int:
        """The line in that file."""
        return self.stack[0].line if self.stack else 0


@cache
def place(stack: Stack) -> Place:
    """The place that a stack leads to."""
    return Place(stack)


def here(kind: Callable[..., E], *details: Any, **more: Any) -> E:
    """An event that happens at the lines of the user's which are being executed."""
    site = place(present_stack())
    return kind(site, *details, frame=site.frame, **more)


def stack_of(event: Event) -> Stack:
    """The lines of the user's that an event comes from, innermost first."""
    site: Any = event.site
    found: Stack = site.stack
    return found
