"""What is fitted on parts of data that are joined for it: on those for training, and on one that is held out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from dllint.interp.source.bindings import Definition
from dllint.interp.source.fitted_whole import Transformed, blocks_around, called_of, calls_in
from dllint.interp.source.positions import ancestors
from dllint.interp.source.sliced import statements_of
from dllint.interp.source.topics import speaks_of
from dllint.sites import Site

_JOINING = frozenset(("concatenate", "concat", "cat", "vstack", "append", "chain"))
_FITTING = frozenset(("fit", "fit_transform", "partial_fit"))
_TRANSFORMING = frozenset(("transform",))
_PARTS: tuple[Literal["training", "test-set", "validation-set"], ...] = ("training", "test-set", "validation-set")
_MAX_HOPS = 4  # from what is fitted on to where it is joined


def transformed_after_joining(fit: Site, transformer: str) -> Transformed | None:
    """Where what is fitted on joined parts transforms the one for training, and the one that is held out.

    A validation part counts as held out only if no test part is transformed as well: who fits on both of them before a
    test has chosen the model already.

    Args:
        fit: a call of the method `fit`.
        transformer: the variable or attribute that has what is fitted, as it is written.
    """
    around = next((each for each in ancestors(fit) if isinstance(each, Definition)), None)
    statements = statements_of(around or fit.module.tree)
    given = fit.node.args[0] if isinstance(fit.node, ast.Call) and fit.node.args else None
    parts = {_named(each) for each in _joined(given, statements, fit.line)} if given is not None and transformer else ()
    train = next((each for each in parts if speaks_of("training", each)), "")
    if not train:
        return None
    calls = [node for each in statements for node in calls_in(each) if (node.lineno, node.col_offset) > _place(fit)]
    again = min((each.lineno for each in calls if called_of(each, _FITTING) == transformer), default=None)
    needed = blocks_around(fit)
    transformed = {
        _named(call.args[0]): call
        for call in calls
        if call.args and called_of(call, _TRANSFORMING) == transformer and (again is None or call.lineno < again)
        if needed <= blocks_around(Site(fit.module, call))
    }
    has_test = any(speaks_of("test-set", each) for each in transformed)
    topic: Literal["test-set", "validation-set"] = "test-set" if has_test else "validation-set"
    held_out = (each for each in parts if speaks_of(topic, each) and not speaks_of("training", each))
    other = next((each for each in held_out if each in transformed), "")
    return Transformed(transformed[train], transformed[other]) if other and train in transformed else None


def _place(site: Site) -> tuple[int, int]:
    return getattr(site.node, "lineno", 0), getattr(site.node, "col_offset", 0)


def _joined(data: ast.expr, statements: list[ast.stmt], line: int) -> Iterator[ast.expr]:
    """The parts of which an expression is joined, there or where its variable is bound: `concatenate((a, b))`."""
    for _ in range(_MAX_HOPS):
        if isinstance(data, ast.Name):
            bound = _bound_to(data.id, statements, line)
            if bound is None:
                return
            data = bound
        elif isinstance(data, ast.BinOp) and isinstance(data.op, ast.Add):
            yield from (data.left, data.right)
            return
        elif isinstance(data, ast.Call) and getattr(data.func, "attr", getattr(data.func, "id", "")) in _JOINING:
            parts = data.args[0].elts if data.args and isinstance(data.args[0], ast.List | ast.Tuple) else data.args
            yield from parts
            return
        elif (inner := _within(data)) is not None:
            data = inner


def _bound_to(name: str, statements: list[ast.stmt], line: int) -> ast.expr | None:
    """What a variable was last assigned before a line, if it is assigned by its own."""
    found = [
        each.value
        for each in statements
        if isinstance(each, ast.Assign) and each.lineno < line and [ast.unparse(one) for one in each.targets] == [name]
    ]
    return found[-1] if found else None


def _named(data: ast.expr) -> str:
    """The variable, attribute or entry with a name that an expression takes data of: ``x`` in ``x.reshape(-1, 1)``."""
    while (inner := _within(data)) is not None:
        data = inner
    return ast.unparse(data) if isinstance(data, ast.Name | ast.Attribute | ast.Subscript) else ""


def _within(data: ast.expr) -> ast.expr | None:
    """What an expression is a part of, or has another form of: a method's object, what is cut, those in `.values`."""
    if isinstance(data, ast.Call) and isinstance(data.func, ast.Attribute):
        return data.func.value
    if isinstance(data, ast.Attribute) and data.attr in ("values", "T"):
        return data.value
    if isinstance(data, ast.Subscript):
        key = data.slice.value if isinstance(data.slice, ast.Constant) else None
        is_part = isinstance(key, str) and any(speaks_of(topic, key) for topic in _PARTS)
        return None if is_part else data.value
    return None
