"""What a script certainly does not get to, as can be told without interpreting it: it reads what is missing before."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.closed_parsers import lacks_option, may_be_set
from dllint.interp.source.trees import evaluated
from dllint.interp.source.trials import has_main_guard, is_main_guard
from dllint.interp.source.unbound_names import is_provided, is_unbound
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


Place = tuple[int, int]
"""Where a statement begins: its line, and its column."""


def left_out(module: SourceModule, project: Project) -> frozenset[Place]:
    """The statements of a script that are never done: those that certainly fail, and what comes after in their block.

    It reads an option that its parser does not have or, at the top of the file or below its main guard, a name that
    nothing binds. Functions are looked at, too, and what only branches do.
    """
    return frozenset() if module.source.has_cells else _Search(module, project).left_out()


class _Search:
    """One search for what fails in a script; ``_found`` is what comes after it."""

    def __init__(self, module: SourceModule, project: Project) -> None:
        self._module = module
        self._project = project
        self._is_whole = not project.is_edited and project.is_whole_around(module) and has_main_guard(module)
        self._has_parser = bool(module.words & {"parse_args", "parse_known_args"})
        self._found: set[Place] = set()

    def left_out(self) -> frozenset[Place]:
        if self._is_whole or self._has_parser:
            self._fails(self._module.tree.body, {}, at_top=True)
        return frozenset(self._found)

    def _fails(self, body: list[ast.stmt], parsed: dict[str, Site], *, at_top: bool) -> bool:
        """Whether what is done one after the other certainly fails.

        Args:
            body: the statements.
            parsed: the variables that have something so far that may be the options of a command line.
            at_top: whether the file does this when it is run, and not one of its functions when it is called.
        """
        for index, statement in enumerate(body):
            is_begun = not self._reads_missing(statement, parsed, at_top)
            if not is_begun or self._is_last(statement, parsed, at_top):
                self._found.update((each.lineno, each.col_offset) for each in body[index + is_begun :])
                return True
            if isinstance(statement, ast.Assign):
                place = Site(self._module, statement.value)
                parsed.update((name.id, place) for name in statement.targets if isinstance(name, ast.Name))
        return False

    def _is_last(self, statement: ast.stmt, parsed: dict[str, Site], at_top: bool) -> bool:
        """Whether what is inside a statement certainly fails."""
        if isinstance(statement, _FUNCTION) and self._has_parser:
            self._fails(statement.body, {}, at_top=False)
        elif isinstance(statement, ast.With) or (isinstance(statement, ast.If) and is_main_guard(statement)):
            return self._fails(statement.body, parsed, at_top=at_top)
        elif isinstance(statement, ast.If) and self._has_parser:
            arms = [self._fails(arm, dict(parsed), at_top=False) for arm in (statement.body, statement.orelse)]
            return all(arms)
        return False

    def _reads_missing(self, statement: ast.stmt, parsed: dict[str, Site], at_top: bool) -> bool:
        part = _done_in_any_case(statement)
        return part is not None and any(self._is_missing(node, parsed, at_top) for node in evaluated(part))

    def _is_missing(self, node: ast.AST, parsed: dict[str, Site], at_top: bool) -> bool:
        if at_top and self._is_whole and isinstance(node, ast.Name):
            is_read = isinstance(node.ctx, ast.Load) and not is_provided(self._module, node.id)
            return is_read and is_unbound(self._project, self._module, node.id, node)
        holder = node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
        if not isinstance(node, ast.Attribute) or holder not in parsed or not lacks_option(parsed[holder], node.attr):
            return False
        return not may_be_set(node.attr, {holder}, self._project.closure(self._module))


def _done_in_any_case(statement: ast.stmt) -> ast.AST | None:
    """The statement itself if it is a simple one, of others what they begin with: the test of an ``if``."""
    if isinstance(statement, ast.If | ast.While):
        return None if is_main_guard(statement) else statement.test
    if isinstance(statement, ast.For):
        return statement.iter
    return statement if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign) else None


def without(tree: ast.AST, left: frozenset[Place]) -> Iterator[ast.AST]:
    """The nodes below one, but for the statements at some places and what is in these."""
    pending = [tree]
    for node in pending:  # which grows meanwhile
        if not (left and isinstance(node, ast.stmt) and (node.lineno, node.col_offset) in left):
            yield node
            pending.extend(ast.iter_child_nodes(node))
