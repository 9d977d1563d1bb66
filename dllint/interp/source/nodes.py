"""The nodes of a syntax tree by type and by name: one walk for all who ask about a file or a function."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import TypeVar, overload

from dllint.interp.source.trees import children, walk

A = TypeVar("A", bound=ast.AST)
B = TypeVar("B", bound=ast.AST)
C = TypeVar("C", bound=ast.AST)
D = TypeVar("D", bound=ast.AST)
_KEPT = "nodes below"  # no field of any node is called so


class Nodes:
    """A node and all below it, in the order of :func:`ast.walk`, without contexts and operators."""

    def __init__(self, root: ast.AST) -> None:
        self.all: Sequence[ast.AST] = tuple(walk(root))
        self._of: dict[tuple[type[ast.AST], ...], Sequence[ast.AST]] = {}

    @overload
    def of(self, kind: type[A], /) -> Sequence[A]: ...
    @overload
    def of(self, kind: type[A], other: type[B], /) -> Sequence[A | B]: ...
    @overload
    def of(self, kind: type[A], other: type[B], third: type[C], /) -> Sequence[A | B | C]: ...
    @overload
    def of(self, kind: type[A], other: type[B], third: type[C], fourth: type[D], /) -> Sequence[A | B | C | D]: ...
    @overload
    def of(self, *kinds: type[ast.AST]) -> Sequence[ast.AST]: ...
    def of(self, *kinds: type[ast.AST]) -> Sequence[ast.AST]:
        """The nodes of some kinds."""
        known = self._of.get(kinds)
        if known is None:
            if not self._of:
                self._sort()
            found = [node for node in self.all if isinstance(node, kinds)] if len(kinds) > 1 else ()
            known = self._of.setdefault(kinds, found)
        return known

    def _sort(self) -> None:
        by_kind: dict[tuple[type[ast.AST], ...], list[ast.AST]] = {}
        for node in self.all:
            by_kind.setdefault((type(node),), []).append(node)
        self._of.update(by_kind)

    @cached_property
    def names(self) -> Mapping[str, Sequence[ast.Name]]:
        """The variables, read or bound, by name."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.of(ast.Name):
            found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def around(self) -> Mapping[ast.AST, ast.AST]:
        """The node around each node below this one."""
        return {inner: node for node in self.all for inner in children(node)}

    @cached_property
    def handled(self) -> Set[ast.AST]:
        """The variables in what is done where an error is caught."""
        handlers = self.of(ast.ExceptHandler)
        return frozenset(node for each in handlers for node in walk(each) if isinstance(node, ast.Name))

    @cached_property
    def attributes(self) -> Mapping[str, Sequence[ast.Attribute]]:
        """The attributes of anything, read or bound, by name."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.of(ast.Attribute):
            found.setdefault(node.attr, []).append(node)
        return found


def nodes_of(root: ast.AST) -> Nodes:
    """The nodes of a module, a function, a class or a loop, which many rules ask about in turn.

    They are kept with the node, for as long as its tree is.
    """
    kept = vars(root)
    known: Nodes | None = kept.get(_KEPT)
    if known is None:
        known = kept[_KEPT] = Nodes(root)
    return known


def forget_nodes(root: ast.AST) -> None:
    """Let go of what is kept with a tree and with nodes below it.

    A list of nodes has the node in it that it is kept with: a circle, which waits for the garbage collector.
    """
    kept: Nodes | None = vars(root).get(_KEPT)
    for node in kept.all if kept is not None else ():
        vars(node).pop(_KEPT, None)


def take_apart(root: ast.AST) -> None:
    """Let go of a tree of which nobody has a use for any node, though values that are garbage hold some of them.

    A node without fields is freed at once, or found by the garbage collector without all that was below it.
    """
    kept: Nodes | None = vars(root).get(_KEPT)
    for node in kept.all if kept is not None else ():
        vars(node).clear()
