"""Where a script certainly fails, as can be told without interpreting it: it reads what is missing."""

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


def line_of_failure(module: SourceModule, project: Project) -> int | None:
    """The line in which a script reads an option that its parser does not have, or a name that nothing binds.

    ``None`` where it may go on. Only what is done in any case counts, at the top of the file and below its main guard.
    """
    if module.source.has_cells:
        return None
    is_whole = not project.is_edited and project.is_whole_around(module) and has_main_guard(module)
    parsed: dict[str, Site] = {}
    for part in _done_in_any_case(module.tree.body):
        for node in evaluated(part):
            if is_whole and isinstance(node, ast.Name) and _is_unbound(project, module, node):
                return node.lineno
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in parsed:
                holder = node.value.id
                if lacks_option(parsed[holder], node.attr) and not may_be_set(
                    node.attr, {holder}, project.closure(module)
                ):
                    return node.lineno
        if isinstance(part, ast.Assign):
            parsed.update((name.id, Site(module, part.value)) for name in part.targets if isinstance(name, ast.Name))
    return None


def _is_unbound(project: Project, module: SourceModule, node: ast.Name) -> bool:
    is_read = isinstance(node.ctx, ast.Load) and not is_provided(module, node.id)
    return is_read and is_unbound(project, module, node.id, node)


def _done_in_any_case(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The statements that are reached one after the other, of others what they begin with: the test of an ``if``."""
    for statement in body:
        if is_main_guard(statement) and isinstance(statement, ast.If):
            yield from _done_in_any_case(statement.body)
        elif isinstance(statement, ast.If | ast.While):
            yield statement.test
        elif isinstance(statement, ast.For):
            yield statement.iter
        elif isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign):
            yield statement
