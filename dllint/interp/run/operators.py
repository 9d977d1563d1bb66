"""Operators on abstract values: folded where both sides are known, else kept as a symbol."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dllint.choices import Choice, alternatives
from dllint.events import LibraryCall
from dllint.interp.run import containers
from dllint.interp.run.joining import CallError
from dllint.sites import Site
from dllint.values import Arguments, Class, Const, Function, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_OPERATORS: dict[type[ast.AST], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.MatMult: ("@", operator.matmul),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
}

_ASKS_WHETHER_SAME = ast.Is | ast.IsNot | ast.Eq | ast.NotEq | ast.In | ast.NotIn
_DEVICES = frozenset(("torch.device", "torch.accelerator.current_accelerator", "torch.get_default_device"))

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
"""What a comparison of two known values gives, by the class of its operator."""


def combine(machine: Machine, op: ast.operator, left: Value, right: Value, site: Site) -> Value:
    """The value of ``left op right``.

    Raises:
        CallError: the operands are known, and of kinds that do not go together.
    """
    symbol, function = _OPERATORS[type(op)]
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _fold(symbol, function, left.value, right.value)
        if folded is not None:
            return Const(folded, site)
        if symbol in "+-/" and machine.block is not None and _are_text_and_number(left.value, right.value):
            raise CallError(site)
    if symbol == "+" and isinstance(left, Items) and isinstance(right, Items):
        return machine.fresh(containers.added(left, right, site))
    if symbol == "|" and isinstance(left, Table) and isinstance(right, Table):
        return Table({**left.contents, **containers.merged(left.contents, right.contents)}, site)
    if symbol == "*" and isinstance(left, Items):
        repeated = isinstance(right, Const) and isinstance(right.value, int) and len(left.items) * right.value <= 16
        count = right.value if repeated and isinstance(right, Const) else 2 if _may_be_many(left, right) else 1
        made = Items(left.kind, left.items * count, site, exact=left.exact and repeated)
        if not repeated:
            made.contents["times"] = right
        return machine.fresh(made)
    result = Symbol(symbol, (left, right), site, grad=machine.grad)
    if symbol == "@":
        machine.emit(LibraryCall(site, "@", Arguments((left, right)), result))
    return result


def _are_text_and_number(left: Any, right: Any) -> bool:
    """Whether one of two constants is a text, and the other one a number."""
    return isinstance(left, str) != isinstance(right, str) and all(
        isinstance(each, str | int | float) for each in (left, right)
    )


def _may_be_many(items: Items, times: Value) -> bool:
    """Whether objects are repeated so often as nobody knows: that it is the same ones again has to be seen."""
    default = times.default if isinstance(times, Setting) else times
    is_one = isinstance(default, Const) and default.value in (0, 1)
    return not is_one and any(isinstance(item, Instance) for item in items.items)


def _fold(symbol: str, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compute with constants, unless the result could be huge or is an error."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    text = isinstance(left, str) and symbol in "+%" and len(left) < 1000
    if not (numbers or text) or (symbol in ("**", "<<") and (abs(left) > 1e6 or abs(right) > 64)):
        return None
    try:
        return function(left, right)
    except (ArithmeticError, TypeError, ValueError):
        return None


def compare(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    if isinstance(left, Const) and isinstance(right, Const):
        return _compare_constants(op, left.value, right.value)
    if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) and isinstance(right, Const) and right.value is None:
        if isinstance(left, Symbol | Setting | Choice):
            return None
        return isinstance(op, ast.IsNot | ast.NotEq)
    if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) and isinstance(left, Class) and isinstance(right, Class):
        return (left.node is right.node) is isinstance(op, ast.Is | ast.Eq)
    wanted = Items if isinstance(op, ast.In | ast.NotIn) else Function
    if isinstance(left, Function) and isinstance(op, _ASKS_WHETHER_SAME) and isinstance(right, wanted):
        same = _is_one_of(left, right)
        return same if same is None else same is isinstance(op, ast.Is | ast.Eq | ast.In)
    if isinstance(op, ast.Eq | ast.NotEq) and is_whole(left) and isinstance(right, Const) and right.value == 0:
        return isinstance(op, ast.Eq)
    if isinstance(op, ast.In | ast.NotIn) and isinstance(left, Const):
        if isinstance(right, Items) and right.exact and all(isinstance(item, Const) for item in right.items):
            present = any(isinstance(item, Const) and item.value == left.value for item in right.items)
            return present is isinstance(op, ast.In)
        if isinstance(right, Table) and right.exact:
            return containers.has_key(right, left.value, isinstance(op, ast.In))
    return _compare_device(op, left, right)


def _is_one_of(left: Function, right: Value) -> bool | None:
    """Whether a function is another one, or among those of a list or set that is written out.

    Functions of different definitions differ. Of one definition there is one function, if it stands at the top.
    """
    others = right.items if isinstance(right, Items) and right.exact else (right,)
    if not others or not all(isinstance(each, Function) for each in others):
        return None
    if all(isinstance(each, Function) and each.node is not left.node for each in others):
        return False
    return True if left.node in left.module.tree.body else None


def _compare_device(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """What comes of comparing a `torch.device` with a text: it equals none, not even ``"cuda"`` that of CUDA."""
    if isinstance(op, ast.In | ast.NotIn):
        listed = right.items if isinstance(right, Items) and right.exact else ()
        is_known = _is_device(left) and bool(listed) and all(map(_is_text, listed))
        return isinstance(op, ast.NotIn) if is_known else None
    is_known = (_is_device(left) and _is_text(right)) or (_is_text(left) and _is_device(right))
    if not is_known or not isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        return None
    return isinstance(op, ast.NotEq | ast.IsNot)


def _is_device(value: Value) -> bool:
    """Whether a value is a `torch.device`, whichever of several it is."""
    return all(isinstance(each, Symbol) and each.name in _DEVICES for _, each in alternatives(value))


def _is_text(value: Value) -> bool:
    return all(isinstance(each, Const) and isinstance(each.value, str) for _, each in alternatives(value))


def is_whole(value: Value) -> bool:
    """Whether a value is ``step % 1``: what happens in each of so many steps happens in all."""
    divisor = value.inputs[1] if isinstance(value, Symbol) and value.name == "%" else None
    return isinstance(divisor, Const) and type(divisor.value) is int and divisor.value == 1


def _compare_constants(op: ast.cmpop, left: Any, right: Any) -> bool | None:
    try:
        return bool(COMPARISONS[type(op)](left, right))
    except TypeError:
        return None
