"""Where events of a run happen, in the words of the vocabulary."""

from __future__ import annotations

import ast
from typing import Any

from dllint.confirm.evidence import Stack
from dllint.events import Frame
from dllint.sites import Site


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


_places: dict[Stack, Place] = {}  # stacks are known by themselves


def place(stack: Stack) -> Place:
    """The place that a stack leads to."""
    known = _places.get(stack)
    if known is None:
        known = _places[stack] = Place(stack)
    return known
