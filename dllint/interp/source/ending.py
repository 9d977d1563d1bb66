"""Files that end the run of whoever imports them: they exit or raise at their top, or beside their main guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.trials import is_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule

_EXITS = frozenset(("exit", "quit", "sys.exit", "os._exit"))


def ends_when_imported(module: SourceModule) -> bool:
    """Whether a file certainly exits, or raises an error, while it is imported: ``raise Exception("deprecated")``.

    It does so in any case, or in the ``else`` of ``if __name__ == "__main__":``.
    """
    if module.words.isdisjoint(("exit", "quit", "_exit", "raise")):
        return False
    return any(map(_is_exit, _done_when_imported(module.tree.body)))


def _done_when_imported(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements at the top of a file that an import does in any case."""
    for statement in body:
        if isinstance(statement, ast.If) and is_main_guard(statement):
            yield from _done_when_imported(_arm_of_imports(statement))
        else:
            yield statement


def _arm_of_imports(guard: ast.If) -> list[ast.stmt]:
    """The arm of a main guard that an import takes; nothing where more than the name decides."""
    match guard.test:
        case ast.Compare(ops=[ast.Eq()]):
            return guard.orelse
        case ast.Compare(ops=[ast.NotEq()]):
            return guard.body
    return []


def _is_exit(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS
