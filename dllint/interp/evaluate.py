"""Evaluation of expressions to abstract values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dllint.interp import containers, names
from dllint.interp.attributes import get_attribute
from dllint.interp.graph import sources
from dllint.interp.guards import guards_of, marked, text_of
from dllint.values import (
    Arguments,
    Choice,
    Const,
    Function,
    Guards,
    Items,
    Scope,
    Setting,
    Site,
    Symbol,
    Table,
    Value,
    choose,
)

if TYPE_CHECKING:
    from dllint.interp.machine import Machine

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


def evaluate(machine: Machine, node: ast.expr, scope: Scope) -> Value:
    """The abstract value of an expression. Calls in it are interpreted, and emit their events, in order."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return Symbol("unknown", site=Site(scope.module, node))
    return handler(machine, node, scope)


def _constant(machine: Machine, node: ast.Constant, scope: Scope) -> Value:
    return Const(node.value, Site(scope.module, node))


def _name(machine: Machine, node: ast.Name, scope: Scope) -> Value:
    return names.lookup(machine, node.id, scope)


def _attribute(machine: Machine, node: ast.Attribute, scope: Scope) -> Value:
    base = evaluate(machine, node.value, scope)
    return get_attribute(machine, base, node.attr, Site(scope.module, node))


def _call(machine: Machine, node: ast.Call, scope: Scope) -> Value:
    from dllint.interp.calls import call, call_method, super_of

    site = Site(scope.module, node)
    func = node.func
    if isinstance(func, ast.Attribute):
        base = evaluate(machine, func.value, scope)
        return call_method(machine, base, func.attr, arguments_of(machine, node, scope), site)
    if isinstance(func, ast.Name) and func.id == "super":
        return super_of(machine, scope, site)
    callee = evaluate(machine, func, scope)
    return call(machine, callee, arguments_of(machine, node, scope), site)


def arguments_of(machine: Machine, node: ast.Call, scope: Scope) -> Arguments:
    """Evaluate the arguments of a call; ``*`` and ``**`` are expanded where their contents are known."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    exact = True
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = evaluate(machine, argument.value, scope)
            if isinstance(value, Items):
                positional.extend(value.items)
                exact = exact and value.exact
            else:
                positional.append(Symbol("element", (value,), value.site))
                exact = False
        else:
            positional.append(evaluate(machine, argument, scope))
    for keyword in node.keywords:
        value = evaluate(machine, keyword.value, scope)
        if keyword.arg is not None:
            keywords[keyword.arg] = value
        else:
            entries, known = containers.entries_of(value)
            keywords.update({str(key): item for key, item in entries.items()})
            exact = exact and known
    return Arguments(tuple(positional), keywords, exact)


def _sequence(machine: Machine, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Value:
    kind = type(node).__name__.lower()
    items: list[Value] = []
    exact = True
    for element in node.elts:
        if isinstance(element, ast.Starred):
            value = evaluate(machine, element.value, scope)
            if isinstance(value, Items):
                items.extend(value.items)
                exact = exact and value.exact
            else:
                exact = False
        else:
            items.append(evaluate(machine, element, scope))
    made = Items(kind, items, Site(scope.module, node), exact=exact)
    made.contents["depth"] = machine.loop_depth
    return made


def _dict(machine: Machine, node: ast.Dict, scope: Scope) -> Value:
    table = Table({}, Site(scope.module, node))
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = evaluate(machine, value_node, scope)
        if key_node is None:
            if isinstance(value, Table):
                table.contents.update(containers.merged(table.contents, value.contents))
            else:
                table.contents[Table.REST] = value
            continue
        key = evaluate(machine, key_node, scope)
        if isinstance(key, Const) and isinstance(key.value, str | int | float | bool | None):
            table.contents[key.value] = value
        else:
            table.contents[Table.REST] = value
    return table


def _binary(machine: Machine, node: ast.BinOp, scope: Scope) -> Value:
    chain = [node]  # left-deep chains are long in generated code, so they are not followed by recursion
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    value = evaluate(machine, chain[-1].left, scope)
    for part in reversed(chain):
        value = combine(machine, part.op, value, evaluate(machine, part.right, scope), Site(scope.module, part))
    return value


def combine(machine: Machine, op: ast.operator, left: Value, right: Value, site: Site) -> Value:
    """The value of ``left op right``."""
    symbol, function = _OPERATORS[type(op)]
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _fold(symbol, function, left.value, right.value)
        if folded is not None:
            return Const(folded, site)
    if symbol == "+" and isinstance(left, Items) and isinstance(right, Items):
        return Items(left.kind, left.items + right.items, site, exact=left.exact and right.exact)
    if symbol == "|" and isinstance(left, Table) and isinstance(right, Table):
        return Table({**left.contents, **containers.merged(left.contents, right.contents)}, site)
    if symbol == "*" and isinstance(left, Items):
        repeated = isinstance(right, Const) and isinstance(right.value, int) and len(left.items) * right.value <= 16
        count = right.value if repeated and isinstance(right, Const) else 1
        return Items(left.kind, left.items * count, site, exact=left.exact and repeated)
    return Symbol(symbol, (left, right), site, grad=machine.grad)


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


def _unary(machine: Machine, node: ast.UnaryOp, scope: Scope) -> Value:
    value = evaluate(machine, node.operand, scope)
    site = Site(scope.module, node)
    if isinstance(node.op, ast.Not):
        known = truth(machine, value)
        return Symbol("not", (value,), site) if known is None else Const(not known, site)
    if isinstance(node.op, ast.USub):
        if isinstance(value, Const) and isinstance(value.value, int | float):
            return Const(-value.value, site)
        return Symbol("negative", (value,), site, grad=machine.grad)
    return value if isinstance(node.op, ast.UAdd) else Symbol("~", (value,), site)


def _bool_op(machine: Machine, node: ast.BoolOp, scope: Scope) -> Value:
    """``a and b`` and ``a or b``: what is returned, with later operands only where the earlier ones let them be."""
    wanted = isinstance(node.op, ast.And)
    options: list[tuple[Guards, Value]] = []
    reached: Guards = ()
    for operand in node.values:
        value = evaluate(machine, operand, scope)
        known = truth(machine, value)
        if known is (not wanted):
            options.append((reached, value))
            break
        if known is None and operand is not node.values[-1]:
            options.append((reached + guards_of(operand, not wanted, machine.frame.scope), value))
            reached += guards_of(operand, wanted, machine.frame.scope)
        elif operand is node.values[-1]:
            options.append((reached, value))
    return options[0][1] if len(options) == 1 else choose(options)


def _compare(machine: Machine, node: ast.Compare, scope: Scope) -> Value:
    left = evaluate(machine, node.left, scope)
    rights = [evaluate(machine, comparator, scope) for comparator in node.comparators]
    site = Site(scope.module, node)
    if len(rights) == 1:
        known = _compare_values(node.ops[0], left, rights[0])
        if known is not None:
            return Const(known, site)
    return Symbol("compare", (left, *rights), site, detail=type(node.ops[0]).__name__)


def _compare_values(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    if isinstance(left, Const) and isinstance(right, Const):
        return _compare_constants(op, left.value, right.value)
    if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) and isinstance(right, Const) and right.value is None:
        if isinstance(left, Symbol | Setting | Choice):
            return None
        return isinstance(op, ast.IsNot | ast.NotEq)
    if isinstance(op, ast.In | ast.NotIn) and isinstance(left, Const):
        if isinstance(right, Items) and right.exact and all(isinstance(item, Const) for item in right.items):
            present = any(isinstance(item, Const) and item.value == left.value for item in right.items)
            return present is isinstance(op, ast.In)
        if isinstance(right, Table) and right.exact:
            return containers.has_key(right, left.value, isinstance(op, ast.In))
    return None


def _compare_constants(op: ast.cmpop, left: Any, right: Any) -> bool | None:
    functions: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
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
    try:
        return bool(functions[type(op)](left, right))
    except TypeError:
        return None


def _if_exp(machine: Machine, node: ast.IfExp, scope: Scope) -> Value:
    test = evaluate(machine, node.test, scope)
    known = truth(machine, test)
    if known is not None:
        depth = len(machine.path)
        if isinstance(test, Symbol):  # the training path is taken, and what happens there happens in training only
            machine.path.extend(guards_of(node.test, known, machine.frame.scope))
        value = evaluate(machine, node.body if known else node.orelse, scope)
        del machine.path[depth:]
        return value
    positive, negative = test_guards(machine, node.test, test)
    outcomes = machine.branch(
        Site(scope.module, node),
        [
            (positive, lambda: (None, evaluate(machine, node.body, scope))),
            (negative, lambda: (None, evaluate(machine, node.orelse, scope))),
        ],
    )
    return choose([(positive, outcomes[0][1]), (negative, outcomes[1][1])])


def test_guards(machine: Machine, node: ast.expr, value: Value) -> tuple[Any, Any]:
    """The guards of the two sides of a test, marked with which side the program's own defaults take."""
    default = default_truth(machine, value)
    periodic = any(isinstance(source, Symbol) and source.name == "%" for source in sources(value, 12))
    positive = marked(guards_of(node, True, machine.frame.scope), default, periodic)
    negative = marked(guards_of(node, False, machine.frame.scope), None if default is None else not default, periodic)
    return positive + _guards_behind(machine, value, True), negative + _guards_behind(machine, value, False)


def _guards_behind(machine: Machine, value: Value, holds: bool) -> Guards:
    """What must have held for a value to be true (or false): ``return False`` stood under a condition."""
    if isinstance(value, Symbol) and value.name == "not":
        return _guards_behind(machine, value.inputs[0], not holds)
    if not isinstance(value, Choice):
        return ()
    known = [(truth(machine, option), guards) for guards, option in value.options]
    fitting = [guards for outcome, guards in known if outcome is not (not holds)]
    return fitting[0] if len(fitting) == 1 else ()


def truth(machine: Machine, value: Value) -> bool | None:
    """Whether a value is true in a test, or ``None`` when that is not certain."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Symbol):
        return True if value.name == "training-mode" else None
    if isinstance(value, Setting):
        return None
    if isinstance(value, Choice):
        known = {truth(machine, option) for _, option in value.options}
        return known.pop() if len(known) == 1 else None
    if isinstance(value, Items):
        return bool(value.items) if value.exact and not containers.is_conditional(value) else None
    if isinstance(value, Table):
        return bool(value.contents) if value.exact else None
    return True


def default_truth(machine: Machine, value: Value) -> bool | None:
    """Whether a test is true when every setting has its default, or ``None`` when that is not known."""
    if isinstance(value, Setting):
        return truth(machine, value.default)
    if isinstance(value, Symbol) and value.name == "not":
        inner = default_truth(machine, value.inputs[0])
        return None if inner is None else not inner
    if isinstance(value, Symbol) and value.name == "compare" and len(value.inputs) == 2:
        sides = [side.default if isinstance(side, Setting) else side for side in value.inputs]
        return _compare_values(getattr(ast, value.detail)(), sides[0], sides[1])
    return truth(machine, value)


def _subscript(machine: Machine, node: ast.Subscript, scope: Scope) -> Value:
    base = evaluate(machine, node.value, scope)
    site = Site(scope.module, node)
    if isinstance(node.slice, ast.Slice):
        bounds = [
            evaluate(machine, bound, scope) if bound is not None else Const(None)
            for bound in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        return containers.get_slice(machine, base, bounds, site)
    index = evaluate(machine, node.slice, scope)
    return containers.get_item(machine, base, index, text_of(node.slice), site)


def _lambda(machine: Machine, node: ast.Lambda, scope: Scope) -> Value:
    return Function(node, scope.module, scope)


def _joined_string(machine: Machine, node: ast.JoinedStr, scope: Scope) -> Value:
    parts: list[Value] = []
    for part in node.values:
        value = part.value if isinstance(part, ast.FormattedValue) else part
        parts.append(evaluate(machine, value, scope))
    if all(isinstance(part, Const) for part in parts):
        return Const("".join(str(part.value) for part in parts if isinstance(part, Const)), Site(scope.module, node))
    return Symbol("format", tuple(parts), Site(scope.module, node))


def _named(machine: Machine, node: ast.NamedExpr, scope: Scope) -> Value:
    value = evaluate(machine, node.value, scope)
    machine.write(scope.variables, node.target.id, value)
    return value


def _yield(machine: Machine, node: ast.Yield | ast.YieldFrom, scope: Scope) -> Value:
    value: Value = Const(None)
    if node.value is not None:
        value = evaluate(machine, node.value, scope)
        if isinstance(node, ast.YieldFrom):
            value = containers.element_of(machine, value, Site(scope.module, node))
    if machine.activation is not None:
        guards = tuple(machine.path[machine.activation.path_start :])
        machine.activation.yielded.append((guards, value))
    return Symbol("unknown", site=Site(scope.module, node))


def _await(machine: Machine, node: ast.Await, scope: Scope) -> Value:
    return evaluate(machine, node.value, scope)


def _starred(machine: Machine, node: ast.Starred, scope: Scope) -> Value:
    return evaluate(machine, node.value, scope)


def _comprehension(
    machine: Machine, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
) -> Value:
    from dllint.interp.comprehensions import comprehend

    return comprehend(machine, node, scope)


_HANDLERS: dict[type[ast.AST], Callable[[Machine, Any, Scope], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.IfExp: _if_exp,
    ast.Subscript: _subscript,
    ast.Lambda: _lambda,
    ast.JoinedStr: _joined_string,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield,
    ast.Await: _await,
    ast.Starred: _starred,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
}

__all__ = ["arguments_of", "combine", "default_truth", "evaluate", "test_guards", "truth"]
