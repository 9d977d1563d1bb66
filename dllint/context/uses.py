"""What becomes of values: whether anybody reads them, and whether gradients are computed from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.context.base import ProgramView
from dllint.events import Backward
from dllint.interp.run import graph
from dllint.interp.source.positions import enclosing_definition, statement_around
from dllint.sites import Site
from dllint.values import Value, alternatives

_MAX_HOPS = 3  # from a variable to the next that is computed from it
_MAX_SOURCES = 2000


@dataclass(frozen=True, slots=True)
class Kept:
    """A place where a value is added to something, or appended to it: ``total += loss``. ``target`` is what it is added
    to, as it is written; ``is_added`` tells the two apart."""

    target: str
    site: Site
    is_added: bool


class Uses(ProgramView):
    """The ways that values go."""

    def kept_in(self, value: Value) -> list[Kept]:
        """Where a value that is assigned to a variable is added to another, or appended to a list, as it is.

        Terms of it count (``total += loss * n``), and what is made of it by a call or an attribute does not
        (``loss.item()``, ``float(loss)``). What is one of several things is kept where one of them is.
        """
        found = (kept for _, option in alternatives(value) for kept in _keepings(option))
        return list({id(kept.site.node): kept for kept in found}.values())

    def names_sent_backward(self, site: Site) -> frozenset[str]:
        """What the function around a place computes gradients of, and what that is computed from, as it is written."""
        module: Any = site.module
        around = enclosing_definition(site) or module.tree
        nodes = list(ast.walk(around))
        calls = [node for node in nodes if isinstance(node, ast.Call) and _is_backward(node.func)]
        found = {text for call in calls for text in _named_in(call)}
        bindings = [node for node in nodes if isinstance(node, ast.Assign | ast.AugAssign)]
        for _ in range(_MAX_HOPS):
            for binding in bindings:
                targets = binding.targets if isinstance(binding, ast.Assign) else [binding.target]
                if any(ast.unparse(target) in found for target in targets):
                    found |= _named_in(binding.value)
        return frozenset(found)

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
        return value.site is None or is_read(value.site)

    def is_read_at(self, site: Site) -> bool:
        """Whether anything reads the value of the expression at a place; what is thrown away is not read."""
        return is_read(site)


def _keepings(value: Value) -> Iterator[Kept]:
    """Where a value is kept that is no choice."""
    statement = statement_around(value.site) if value.site is not None else None
    variable = _variable_of(statement) if statement is not None else None
    if statement is None or value.site is None or variable is None:
        return
    made: Any = getattr(statement, "value", None)
    if value.site.node is not statement and not _is_term(value.site.node, made):
        return  # it may be one of several things, or go through something
    module: Any = value.site.module
    around = enclosing_definition(value.site) or module.tree
    places = (Site(module, node) for node in _reads_of(variable, statement, value.site))
    for place in places:
        kept = _kept_at(place) if not _is_rebound(variable, around, statement, place.line) else None
        if kept is not None:
            yield kept


def is_read(site: Site, hops: int = _MAX_HOPS) -> bool:
    """Whether the value of an expression is read by anything."""
    statement = statement_around(site)
    if statement is None or hops == 0:
        return True
    if isinstance(statement, ast.Expr):
        return statement.value is not site.node or _is_shown(statement, site)
    variable = _variable_of(statement)
    return variable is None or any(
        is_read(Site(site.module, node), hops - 1) for node in _reads_of(variable, statement, site)
    )


def _is_shown(statement: ast.Expr, site: Site) -> bool:
    """Whether a notebook shows the value of an expression: that of the last one in a cell."""
    source, body = site.module.source, site.module.tree.body
    at = next((index for index, each in enumerate(body) if each is statement), None)
    if at is None or not source.has_cells:
        return False
    following = body[at + 1 : at + 2]
    return not following or source.cell_of(following[0].lineno) != source.cell_of(statement.lineno)


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


def _is_rebound(variable: str, around: ast.AST, statement: ast.stmt, line: int) -> bool:
    """Whether a variable gets another value, or is detached, between a statement and a later line; in doubt, it is.

    What is added to it leaves in it what was there.
    """
    if line <= statement.lineno:
        return True
    between = [node for node in ast.walk(around) if statement.lineno < getattr(node, "lineno", 0) < line]
    grown = {id(node.target) for node in between if isinstance(node, ast.AugAssign)}
    for node in between:
        is_bound = isinstance(node, ast.Name) and node.id == variable and isinstance(node.ctx, ast.Store)
        if is_bound and id(node) not in grown:
            return True
        if isinstance(node, ast.Attribute) and node.attr == "detach_" and ast.unparse(node.value) == variable:
            return True
    return False


def _kept_at(place: Site) -> Kept | None:
    """How the statement around a read of a variable keeps it, if it does."""
    statement = statement_around(place)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        is_term = _is_term(place.node, statement.value)
        return Kept(ast.unparse(statement.target), place, is_added=True) if is_term else None
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        target = ast.unparse(statement.targets[0])
        sides = (statement.value.left, statement.value.right)
        is_sum = isinstance(statement.value.op, ast.Add) and target in map(ast.unparse, sides)
        return Kept(target, place, is_added=True) if is_sum and _is_term(place.node, statement.value) else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        return Kept(ast.unparse(call.func.value), place, is_added=False) if place.node in call.args else None
    return None


def _is_term(node: ast.AST, expression: ast.expr) -> bool:
    """Whether a node is an expression, or a term or a factor of it."""
    if isinstance(expression, ast.BinOp) and expression is not node:
        return _is_term(node, expression.left) or _is_term(node, expression.right)
    return expression is node


def _is_backward(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in ("backward", "manual_backward", "step", "grad")


def _named_in(node: ast.AST) -> set[str]:
    return {ast.unparse(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)}
