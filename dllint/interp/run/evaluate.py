"""Evaluation of expressions to abstract values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dllint.choices import choose
from dllint.events import UnpackingRefused
from dllint.forms import is_part_of_shape
from dllint.interp.run import command_options, comprehensions, containers, names, nothing
from dllint.interp.run.attributes import get_attribute
from dllint.interp.run.chances import outcome_of_chance
from dllint.interp.run.conditions import guards_under, sides, sides_by_default, test_guards, truth
from dllint.interp.run.guards import text_of
from dllint.interp.run.joining import CallError, outcome_of
from dllint.interp.run.missing_attributes import missing_member
from dllint.interp.run.missing_names import missing_name, missing_option
from dllint.interp.run.operators import combine, compare
from dllint.interp.run.refusals import cannot_be_looked_up
from dllint.interp.run.reorders import note_pick
from dllint.interp.run.supers import super_of
from dllint.sites import Guards, Site
from dllint.values import Arguments, Const, Function, Instance, Items, Nothing, Scope, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_WITH_CONDITION = re.compile(r"[<>=^+]?[\d,]*\.\d+[efgEFG%]? +if\b")  # f"{loss:.4f if loss else 0}"


def evaluate(machine: Machine, node: ast.expr, scope: Scope) -> Value:
    """The abstract value of an expression. Calls in it are interpreted, and emit their events, in order."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return Symbol("unknown", site=Site(scope.module, node))
    return handler(machine, node, scope)


def _constant(machine: Machine, node: ast.Constant, scope: Scope) -> Value:
    return Const(node.value, Site(scope.module, node))


def _name(machine: Machine, node: ast.Name, scope: Scope) -> Value:
    value = names.lookup(machine, node.id, scope)
    missing = missing_name(machine, node, scope, value)
    if missing is not None:
        raise CallError(machine.emit(missing).site)
    return value


def _attribute(machine: Machine, node: ast.Attribute, scope: Scope) -> Value:
    base, site = _base(machine, node, scope), Site(scope.module, node)
    missing = missing_option(machine, base, site)
    if missing is not None:
        machine.emit(missing)
        raise CallError(site)
    return get_attribute(machine, base, node.attr, site)


def _base(machine: Machine, node: ast.Attribute, scope: Scope) -> Value:
    """What an attribute is of.

    Raises:
        CallError: a module or an object of the project has no such attribute.
    """
    base = evaluate(machine, node.value, scope)
    missing = missing_member(machine, base, node, scope.module)
    if missing is not None:
        raise CallError(machine.emit(missing).site)
    return base


def _call(machine: Machine, node: ast.Call, scope: Scope) -> Value:
    site = Site(scope.module, node)
    func = node.func
    if isinstance(func, ast.Attribute):
        base = _base(machine, func, scope)
        return machine.call_method(base, func.attr, arguments_of(machine, node, scope), site)
    if isinstance(func, ast.Name) and func.id == "super":
        return super_of(scope, site, evaluate(machine, node.args[0], scope) if node.args else None)
    callee = evaluate(machine, func, scope)
    return machine.call(callee, arguments_of(machine, node, scope), site)


def arguments_of(machine: Machine, node: ast.Call, scope: Scope) -> Arguments:
    """Evaluate the arguments of a call; ``*`` and ``**`` are expanded where their contents are known."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    exact = True
    mapping: Value | None = None
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = evaluate(machine, argument.value, scope)
            held = value if isinstance(value, Items) else containers.modules_held(value)
            if held is not None:
                positional.extend(held.items)
                exact = exact and held.exact
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
            mapping = value if isinstance(value, Symbol) else mapping
    return Arguments(tuple(positional), keywords, exact, mapping)


def _sequence(machine: Machine, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> Value:
    kind = type(node).__name__.lower()
    items: list[Value] = []
    exact = True
    for element in node.elts:
        if isinstance(element, ast.Starred):
            value = evaluate(machine, element.value, scope)
            held = value if isinstance(value, Items) else containers.modules_held(value)
            if held is not None:
                items.extend(held.items)
                exact = exact and held.exact
            elif is_part_of_shape(value) and element is node.elts[-1] and exact:
                return Symbol("+", (Items(kind, items), value), Site(scope.module, node))
            else:
                items.append(Symbol("element", (value,), value.site))
                exact = False
        else:
            items.append(evaluate(machine, element, scope))
    return machine.fresh(Items(kind, items, Site(scope.module, node), exact=exact))


def _dict(machine: Machine, node: ast.Dict, scope: Scope) -> Value:
    table = Table({}, Site(scope.module, node))
    machine.made(table.contents)
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
        try:
            value = evaluate(machine, operand, scope)
        except CallError:
            if not options:
                raise
            break  # the operands before it may say that it is not evaluated
        known = truth(machine, value)
        if known is (not wanted):
            if wanted or (isinstance(value, Const) and value.value is True):
                return value  # whatever comes before it, the whole is false, or true
            options.append((reached, value))
            break
        if known is None and operand is not node.values[-1]:
            holding, failing = sides_by_default(machine, operand, value)
            options.append((reached + (failing if wanted else holding), value))
            reached += holding if wanted else failing
        elif operand is node.values[-1]:
            options.append((reached, value))
    return options[0][1] if len(options) == 1 else choose(options)


def _compare(machine: Machine, node: ast.Compare, scope: Scope) -> Value:
    left = evaluate(machine, node.left, scope)
    rights = [evaluate(machine, comparator, scope) for comparator in node.comparators]
    site = Site(scope.module, node)
    if len(rights) == 1:
        if machine.block is not None and cannot_be_looked_up(node.ops[0], left, rights[0]):
            raise CallError(site)
        known = compare(node.ops[0], left, rights[0])
        if known is None and nothing.is_asked_of_tensor(machine, node, left, scope):
            known = isinstance(node.ops[0], ast.IsNot)
        if known is None:
            known = outcome_of_chance(node.ops[0], left, rights[0])
            machine.settled[node] = known if machine.settled.get(node, known) is known else None
        if known is not None:
            return Const(known, site)
        if (flag := command_options.looked_for(node.ops[0], left, rights[0], site)) is not None:
            return flag if isinstance(node.ops[0], ast.In) else Symbol("not", (flag,), site)
    return Symbol("compare", (left, *rights), site, detail=type(node.ops[0]).__name__)


def _if_exp(machine: Machine, node: ast.IfExp, scope: Scope) -> Value:
    test = evaluate(machine, node.test, scope)
    known = truth(machine, test)
    if known is not None:
        depth = len(machine.path)
        if isinstance(test, Symbol):  # the training path is taken, and what happens there happens in training only
            machine.path.extend(guards_under(machine, node.test, known, test))
        value = evaluate(machine, node.body if known else node.orelse, scope)
        del machine.path[depth:]
        return value
    positive, negative = test_guards(machine, sides(machine, node.test, test), test)
    site = Site(scope.module, node)
    outcomes = machine.branch(
        site,
        [
            (positive, lambda: (None, evaluate(machine, node.body, scope))),
            (negative, lambda: (None, evaluate(machine, node.orelse, scope))),
        ],
    )
    return outcome_of(outcomes, (positive, negative), site)


def _subscript(machine: Machine, node: ast.Subscript, scope: Scope) -> Value:
    base = evaluate(machine, node.value, scope)
    site = Site(scope.module, node)
    if isinstance(base, Nothing) and machine.block is not None:
        raise CallError(machine.emit(UnpackingRefused(site, base, 0, ())).site)
    if isinstance(node.slice, ast.Slice):
        bounds = [
            evaluate(machine, bound, scope) if bound is not None else Const(None)
            for bound in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        part = containers.get_slice(machine, base, bounds, site)
        note_pick(part)
        return part
    index = evaluate(machine, node.slice, scope)
    if isinstance(base, Instance) and base.library_name == "argparse.Namespace":
        raise CallError(site)  # which has attributes alone
    item = containers.get_item(machine, base, index, text_of(node.slice), site)
    note_pick(item)
    return item


def _stretch(machine: Machine, node: ast.Slice, scope: Scope) -> Value:
    """A stretch of one axis among several (``x[i : i + n, :]``): its bounds are known where no call computes them."""
    stretch = Symbol("unknown", site=Site(scope.module, node))
    bounds = (node.lower, node.upper, node.step)
    if node.lower is not None and node.upper is not None and not any(map(_has_call, filter(None, bounds))):
        stretch.arguments = Arguments(
            tuple(evaluate(machine, bound, scope) if bound is not None else Const(None) for bound in bounds)
        )
    return stretch


def _has_call(node: ast.expr) -> bool:
    return not all(isinstance(each, _PLAIN) for each in ast.walk(node))


def _lambda(machine: Machine, node: ast.Lambda, scope: Scope) -> Value:
    return Function(node, scope.module, scope)


def _joined_string(machine: Machine, node: ast.JoinedStr, scope: Scope) -> Value:
    parts: list[Value] = []
    for part in node.values:
        value = part.value if isinstance(part, ast.FormattedValue) else part
        parts.append(evaluate(machine, value, scope))
        if isinstance(part, ast.FormattedValue) and _is_no_format(part.format_spec):
            raise CallError(Site(scope.module, node))
    if all(isinstance(part, Const) for part in parts):
        return Const("".join(str(part.value) for part in parts if isinstance(part, Const)), Site(scope.module, node))
    return Symbol("format", tuple(parts), Site(scope.module, node))


def _is_no_format(spec: ast.expr | None) -> bool:
    """Whether a format is none of a number, and fails: with a condition after it, which is part of the format."""
    first = spec.values[0] if isinstance(spec, ast.JoinedStr) and spec.values else None
    return isinstance(first, ast.Constant) and _WITH_CONDITION.match(str(first.value)) is not None


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
    return comprehensions.comprehend(machine, node, scope)


_PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.operator, ast.expr_context)  # what runs nothing

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
    ast.Slice: _stretch,
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
