"""What the sieve knows of a module: for each name of its top level, the words of interest and what it names.

It is made in one go and stands without the syntax tree. Whoever follows names through a project comes through many
modules of which nothing is interpreted, and their trees would take most of the memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from typing import NamedTuple

from dllint.dataclass import dataclass

NO_WORDS: frozenset[str] = frozenset()  # Python makes each empty one anew


class Imported(NamedTuple):
    """What an import binds a name to: a ``name`` in a module, or, where that is empty, the whole module."""

    module: str
    level: int
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands under one name, as far as the sieve asks.

    ``mask`` are the words of interest of its code and of what it imports, ``class_mask`` those in the text of the class
    that it is, ``mentions`` the other names of the module in its text, and ``words`` all words there, in modules that
    import stars.
    """

    mask: int = 0
    class_mask: int = 0
    imports: tuple[Imported, ...] = ()
    mentions: tuple[str, ...] = ()
    words: frozenset[str] = NO_WORDS


@dataclass(slots=True)
class Outline:
    """The names of a module's top level, and the modules whose stars it imports; ``mask`` is of all its words."""

    mask: int
    entries: dict[str, Entry] = field(default_factory=dict)
    stars: tuple[Imported, ...] = ()


def imported_as(statement: ast.Import | ast.ImportFrom, name: str) -> Iterator[Imported]:
    """What an import may bind to a name: of plain imports, each module that it loads."""
    if isinstance(statement, ast.Import):
        yield from (Imported(alias.name, 0, "") for alias in statement.names)
        return
    for alias in statement.names:
        if (alias.asname or alias.name) == name:
            yield Imported(statement.module or "", statement.level, alias.name)
