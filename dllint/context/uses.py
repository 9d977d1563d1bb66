"""What becomes of values: whether anybody reads them, and whether gradients are computed from them."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.context.base import ProgramView
from dllint.events import Backward
from dllint.interp.run import graph
from dllint.interp.source.positions import enclosing_definition, statement_around
from dllint.sites import Site
from dllint.values import Value

_MAX_HOPS = 3  # from a variable to the next that is computed from it
_MAX_SOURCES = 2000


class Uses(ProgramView):
    """The ways that values go."""

    def goes_backward(self, value: Value) -> bool:
        """Whether some loss that is sent backward was computed from a value."""
        return id(value) in self._behind_losses

    @cached_property
    def _behind_losses(self) -> frozenset[int]:
        losses = [event.loss for event in self.all_of(Backward) if event.loss is not None]
        return frozenset(id(source) for loss in losses for source in graph.sources(loss, _MAX_SOURCES))

    def assumed_use(self, value: Value, what: str) -> Assumptions:
        """What a claim about a value assumes if nobody reads the value here: that somebody does."""
        return () if self.is_used(value) else (Assumption("effect", f"somebody reads {what}"),)

    def is_used(self, value: Value) -> bool:
        """Whether a value is ever read by anything: printed, returned, handed on, stored in an object, computed with.

        What is assigned to a variable that nobody reads, or only to compute another such variable, is not. In doubt,
        a value is used.
        """
        if self.goes_backward(value):
            return True
        return value.site is None or _is_read(value.site, _MAX_HOPS)

    def is_read_at(self, site: Site) -> bool:
        """Whether anything reads the value of the expression at a place; what is thrown away is not read."""
        return _is_read(site, _MAX_HOPS)


def _is_read(site: Site, hops: int) -> bool:
    """Whether the value of an expression is read by anything."""
    statement = statement_around(site)
    if statement is None or hops == 0:
        return True
    if isinstance(statement, ast.Expr):
        return statement.value is not site.node or _is_shown(statement, site)
    variable = _variable_of(statement)
    return variable is None or any(
        _is_read(Site(site.module, node), hops - 1) for node in _reads_of(variable, statement, site)
    )


def _is_shown(statement: ast.Expr, site: Site) -> bool:
    """Whether a notebook shows the value of an expression: that of the last one in a cell."""
    notebook, body = site.module.source.notebook, site.module.tree.body
    at = next((index for index, each in enumerate(body) if each is statement), None)
    if notebook is None or at is None:
        return False
    following = body[at + 1 : at + 2]
    return not following or notebook.locate(following[0].lineno)[0] != notebook.locate(statement.lineno)[0]


def _variable_of(statement: ast.stmt) -> str | None:
    """The variable that a plain assignment is for, if it is for nothing else."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0] if len(statement.targets) == 1 else None
    else:
        target = statement.target if isinstance(statement, ast.AnnAssign | ast.AugAssign) else None
    return target.id if isinstance(target, ast.Name) else None


def _reads_of(variable: str, statement: ast.stmt, site: Site) -> list[ast.Name]:
    """Where a variable is read in the function in which it is assigned; at the top of a module, in all of it."""
    module: Any = site.module
    around = enclosing_definition(site) or module.tree
    inside = {id(node) for node in ast.walk(statement)}
    return [
        node
        for node in ast.walk(around)
        if isinstance(node, ast.Name)
        and node.id == variable
        and isinstance(node.ctx, ast.Load)
        and id(node) not in inside
    ]
