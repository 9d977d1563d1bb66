"""What expressions stand for, as they are written in one function: for values that the interpreter does not follow."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator

from dllint.context.base import ProgramView
from dllint.interp.source.batchwise import last_bound
from dllint.interp.source.later_reads import later_reads
from dllint.interp.source.positions import enclosing_definition
from dllint.interp.source.trees import walk
from dllint.sites import Module, Site

_KEEPING = frozenset(
    ("cpu", "numpy", "detach", "squeeze", "unsqueeze", "contiguous", "flatten", "reshape", "view", "transpose",
     "permute", "float", "double", "round", "rint", "floor", "asarray", "array", "copy", "astype", "to", "type",
     "short", "byte")
)  # fmt: skip
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow}
_MAX_HOPS = 12
_MAX_POWER = 64


class Expressions(ProgramView):
    """Expressions, and the variables in them."""

    def stands_for(self, place: Site, expression: ast.expr) -> Iterator[ast.expr]:
        """An expression without what keeps its numbers (`x.cpu()`, `x.astype(t)`), and what its variable stands for."""
        around = _around(place)
        line = expression.lineno
        for _ in range(_MAX_HOPS):
            yield expression
            inner = _inside(expression)
            if inner is None and isinstance(expression, ast.Name):
                inner = last_bound(expression.id, around, line)
            if inner is None:
                return
            expression, line = inner, min(line, inner.lineno)

    def made_of(self, place: Site, expression: ast.expr) -> Iterator[ast.expr]:
        """An expression and those that its variables were bound to before, in the same function."""
        around = _around(place)
        seen: set[str] = set()
        pending = [expression]
        for current in pending:  # which grows meanwhile
            yield current
            for name in (each.id for each in walk(current) if isinstance(each, ast.Name)):
                bound = last_bound(name, around, current.lineno) if name not in seen else None
                seen.add(name)
                if bound is not None and len(pending) < _MAX_HOPS:
                    pending.append(bound)

    def bound_to(self, name: str, place: Site) -> ast.expr | None:
        """What an assignment above a place has last bound a variable to, in the same function."""
        return last_bound(name, _around(place), place.line)

    def reads_after(self, name: str, place: Site) -> Iterator[ast.Name]:
        """Where the value that a variable has at a place is read later on; functions within may read it at any time."""
        return later_reads(name, place, place.module)

    def code_says(self, pattern: str) -> bool:
        """Whether code of the program's file or of one that it imports has a regular expression: no comment, no prose.

        Strings of one word are code: they may be names that something is looked up by.
        """
        compiled = re.compile(pattern)
        project = self._machine.project
        modules = (module for module in project.closure(self.program.module) if module.contains(compiled))
        return any(compiled.search(module.code) is not None for module in project.reading_each(modules))

    def number_at(self, place: Site) -> float | None:
        """The number that an expression is: written out, computed from such, or a constant at the top of the file."""
        return _number(place.node, place.module, _MAX_HOPS)


def _around(place: Site) -> ast.AST:
    module = place.module
    return enclosing_definition(place) or module.tree


def _inside(expression: ast.expr) -> ast.expr | None:
    """What an expression takes its numbers from, if it keeps them."""
    if isinstance(expression, ast.Subscript) or (
        isinstance(expression, ast.Attribute) and expression.attr in ("T", "data")
    ):
        return expression.value
    if not isinstance(expression, ast.Call):
        return None
    name = getattr(expression.func, "attr", getattr(expression.func, "id", ""))
    if name not in _KEEPING:
        return None
    owner = expression.func.value if isinstance(expression.func, ast.Attribute) else None
    is_function = owner is None or (isinstance(owner, ast.Name) and owner.id in ("np", "numpy", "torch"))
    return next(iter(expression.args), None) if is_function else owner


def _number(node: ast.AST, module: Module, hops: int) -> float | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) and not isinstance(node.value, bool) else None
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _number(node.left, module, hops), _number(node.right, module, hops)
        if left is None or right is None or (isinstance(node.op, ast.Pow) and max(abs(left), abs(right)) > _MAX_POWER):
            return None
        return float(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.Name) and hops:
        bound = [
            each.value
            for each in module.tree.body
            if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
        ]
        return _number(bound[0], module, hops - 1) if len(bound) == 1 else None
    return None
