"""Where values go: whether calls of certain names are all that gets them."""

from __future__ import annotations

import ast
from collections.abc import Set
from typing import Any

from dllint.context.base import ProgramView
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Site

_MAX_HOPS = 3  # from a variable to the next
_KEEPING = frozenset(
    ("data", "detach", "cpu", "cuda", "to", "float", "clone", "contiguous", "view", "reshape", "flatten", "squeeze",
     "unsqueeze")
)  # fmt: skip


class Destinations(ProgramView):
    """The calls that values are given to."""

    def goes_only_into(self, site: Site, names: Set[str]) -> bool:
        """Whether calls of some names are all that gets the value of an expression, as it is or in another shape.

        Args:
            site: the expression.
            names: how the functions or methods are called: `x.topk(3)`, `torch.topk(x, 3)`.
        """
        return _goes_only_into(site, names)


def _goes_only_into(site: Site, names: Set[str], hops: int = _MAX_HOPS) -> bool:
    node: ast.AST = site.node
    for parent in ancestors(site):
        if isinstance(parent, ast.Attribute):
            if parent.attr in names:
                return True
            if parent.attr not in _KEEPING:
                return False
        elif isinstance(parent, ast.Call):
            if parent.func is not node:
                return node in parent.args[:1] and _last(parent.func) in names
        elif isinstance(parent, ast.Assign) and parent.value is node and len(parent.targets) == 1:
            target = parent.targets[0]
            reads = _reads_behind(target.id, parent, site) if isinstance(target, ast.Name) and hops else []
            return bool(reads) and all(_goes_only_into(Site(site.module, read), names, hops - 1) for read in reads)
        else:
            return False
        node = parent
    return False


def _reads_behind(variable: str, statement: ast.Assign, site: Site) -> list[ast.Name]:
    """Where a variable is read after a statement has set it: further down, or further up in the loop around it."""
    module: Any = site.module
    around = enclosing_definition(site) or module.tree
    names = [node for node in ast.walk(around) if isinstance(node, ast.Name) and node.id == variable]
    reads = [node for node in names if isinstance(node.ctx, ast.Load)]
    behind = [node for node in reads if node.lineno > (statement.end_lineno or statement.lineno)]
    loop = next((each for each in ancestors(site) if isinstance(each, ast.For | ast.AsyncFor | ast.While)), None)
    if loop is None or not _is_inside(loop, around):
        return behind
    inside = {id(node) for node in ast.walk(loop)}
    set_first = min(node.lineno for node in names if id(node) in inside and not isinstance(node.ctx, ast.Load))
    carried = [node for node in reads if loop.lineno <= node.lineno <= min(set_first, statement.lineno - 1)]
    return behind + carried


def _is_inside(node: ast.AST, around: ast.AST) -> bool:
    return any(child is node for child in ast.walk(around))


def _last(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
