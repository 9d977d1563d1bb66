"""Whether a test is true, and what is known on either side of it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.interp.run import containers
from dllint.interp.run.guards import guards_of, marked
from dllint.interp.run.operators import compare, is_whole
from dllint.interp.source.phases import topic_of
from dllint.sites import Guard, Guards
from dllint.values import Const, External, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_COMPUTED = frozenset(("compare", "not", "negative", "+", "-", "*", "/", "//", "call", "bool", "int"))


def test_guards(machine: Machine, of_sides: tuple[Guards, Guards], value: Value) -> tuple[Guards, Guards]:
    """The guards of the two ``sides`` of a test, marked with which one the program's own defaults take."""
    positive, negative = _marked_sides(machine, of_sides, value)
    return positive + _guards_behind(machine, value, True), negative + _guards_behind(machine, value, False)


def sides_by_default(machine: Machine, node: ast.expr, value: Value) -> tuple[Guards, Guards]:
    """The conditions on the two sides of a test, marked like those of a branch."""
    return _marked_sides(machine, sides(machine, node, value), value)


def _marked_sides(machine: Machine, of_sides: tuple[Guards, Guards], value: Value) -> tuple[Guards, Guards]:
    default = default_truth(machine, value)
    periodic = _has_remainder(value)
    holding, failing = of_sides
    return marked(holding, default, periodic), marked(failing, None if default is None else not default, periodic)


def guards_under(machine: Machine, node: ast.expr, holds: bool, value: Value) -> Guards:
    """The conditions that are certain when a test, whose value is given, is true (or false)."""
    return sides(machine, node, value)[0 if holds else 1]


def sides(machine: Machine, node: ast.expr, value: Value) -> tuple[Guards, Guards]:
    """The conditions that are certain when a test, whose value is given, is true, and those when it is false.

    A flag keeps the name by which it was tested first: ``self.parallel``, passed on as ``parallel``, is one condition,
    and so is ``self.kind == "ce"`` in two methods.
    """
    scope = machine.scope_of(node)
    holding, failing = guards_of(node, True, scope), guards_of(node, False, scope)
    tested = _flag(node, value)
    if tested is None:
        return holding, failing
    first = machine.tested.setdefault(id(tested), (tested, holding[0]))[1]
    if first.subject == holding[0].subject:
        return holding, failing
    return (_renamed(holding[0], first),), (_renamed(failing[0], first),)


def _renamed(guard: Guard, first: Guard) -> Guard:
    """A condition under the name by which the same thing was tested first."""
    names = first.names | guard.names
    return Guard(first.subject, guard.relation, guard.operand, guard.holds, names, node=guard.node, topic_of=topic_of)


def _flag(node: ast.expr, value: Value) -> Setting | Symbol | None:
    """What a test is about if that is one named thing: itself, or compared with a constant."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    if isinstance(value, Symbol) and value.name == "not":
        value = value.inputs[0]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and _is_written(node.comparators[0]):
        if not isinstance(value, Symbol) or value.name != "compare":
            return None
        node, value = node.left, value.inputs[0]
    is_named = isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
    return value if is_named and isinstance(value, Setting | Symbol) else None


def _is_written(operand: ast.expr) -> bool:
    """Whether a test is against a constant, or against a list of them."""
    listed = operand.elts if isinstance(operand, ast.List | ast.Tuple | ast.Set) else [operand]
    return all(isinstance(each, ast.Constant) for each in listed)


def _has_remainder(value: Value, depth: int = 4) -> bool:
    """Whether a remainder takes part in a test, as in ``(step + 1) % 4 == 0 or last``."""
    if isinstance(value, Symbol):
        return value.name == "%" or (
            depth > 0 and value.name in _COMPUTED and any(_has_remainder(part, depth - 1) for part in value.inputs)
        )
    return isinstance(value, Choice) and depth > 0 and any(_has_remainder(o, depth - 1) for _, o in value.options)


def _guards_behind(machine: Machine, value: Value, holds: bool) -> Guards:
    """What must have held for a value to be true (or false): ``return False`` stood under a condition.

    So it is where a number that a condition chose is compared: ``first = 1 if resumed else 0``, and ``if first > 0``.
    """
    if isinstance(value, Symbol) and value.name == "not":
        return _guards_behind(machine, value.inputs[0], not holds)
    if isinstance(value, Symbol) and value.name == "compare" and len(value.inputs) == 2:
        return _guards_behind_comparison(value, holds)
    if not isinstance(value, Choice):
        return ()
    known = [(truth(machine, option), guards) for guards, option in value.options]
    fitting = [guards for outcome, guards in known if outcome is not (not holds)]
    return fitting[0] if len(fitting) == 1 else ()


def _guards_behind_comparison(value: Symbol, holds: bool) -> Guards:
    """What must have held for a comparison of one of several values with another one to be true (or false).

    A value which is only assumed to be the one of several gives no condition.
    """
    left, right = value.inputs
    relation = getattr(ast, value.detail)()
    if isinstance(left, Choice) and not isinstance(right, Choice):
        known = [(compare(relation, option, right), guards) for guards, option in left.options]
    elif isinstance(right, Choice) and not isinstance(left, Choice):
        known = [(compare(relation, left, option), guards) for guards, option in right.options]
    else:
        return ()
    fitting = [guards for outcome, guards in known if outcome is not (not holds)]
    is_certain = len(fitting) == 1 and all(guard.assumption is None for guard in fitting[0])
    return fitting[0] if is_certain else ()


def truth(machine: Machine, value: Value) -> bool | None:
    """Whether a value is true in a test, or ``None`` when that is not certain."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Symbol):
        return True if value.name == "training-mode" else False if is_whole(value) else None
    if isinstance(value, Setting | External):  # what a library has under a name may be a constant, such as a flag
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
        left, right = (_by_default(side) for side in value.inputs)
        return compare(getattr(ast, value.detail)(), left, right)
    if isinstance(value, Choice):
        option = _default_option(value)
        return truth(machine, value) if option is None else default_truth(machine, option)
    return truth(machine, _by_default(value))


def _default_option(choice: Choice) -> Value | None:
    """The option that a value is when settings have their defaults and nothing is raised, if that is known."""
    options = [option for guards, option in choice.options if all(guard.by_default for guard in guards)]
    return options[0] if len(options) == 1 else None


def _by_default(value: Value) -> Value:
    """A value, or a remainder, as it is when settings have their defaults and nothing is raised."""
    if isinstance(value, Symbol) and value.name == "%":
        return Symbol("%", tuple(_by_default(side) for side in value.inputs), value.site)
    if isinstance(value, Choice):
        option = _default_option(value)
        return value if option is None else _by_default(option)
    return value.default if isinstance(value, Setting) else value
