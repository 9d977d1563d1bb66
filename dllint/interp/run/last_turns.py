"""What a loop leaves behind: in its last turn it goes where ``if i < len(layers) - 1`` sends all but the last."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dllint.choices import Choice
from dllint.interp.run.guards import guards_of, text_of
from dllint.interp.run.names import under_path
from dllint.interp.source.bindings import Definition
from dllint.interp.source.trees import walk
from dllint.values import Scope

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_RELATIONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_OTHER_TURNS = ast.For | ast.AsyncFor | ast.While | ast.Lambda | Definition
_Number = tuple[str, int]
"""A number as the text of something that is not known, and what is added to it."""


def keep_last(machine: Machine, node: ast.For | ast.AsyncFor, targets: frozenset[str], scope: Scope) -> None:
    """Take from the variables that a loop assigns what only its other turns give them."""
    tests = _tests_of_last(node)
    if not tests:
        return
    guards = tuple(guard for test, holds in tests for guard in guards_of(test, holds, machine.scope_of(test)))
    with machine.assuming(guards):
        for name in targets:
            value = scope.variables.get(name)
            if isinstance(value, Choice):
                machine.write(scope.variables, name, under_path(machine, value))


@lru_cache(maxsize=4096)
def _tests_of_last(node: ast.For | ast.AsyncFor) -> tuple[tuple[ast.expr, bool], ...]:
    """The tests in the body of a loop that its last turn decides, each with whether it holds there."""
    counter, turns = _counted(node)
    if turns is None:
        return ()
    outcomes = ((test, _outcome(test, counter, turns)) for test in _tests_in(node.body))
    return tuple((test, outcome) for test, outcome in outcomes if outcome is not None)


def _counted(node: ast.For | ast.AsyncFor) -> tuple[str, _Number | None]:
    """The variable that counts the turns of a loop from zero, and how many there are."""
    call, target = node.iter, node.target
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or len(call.args) != 1 or call.keywords:
        return "", None
    if call.func.id == "range" and isinstance(target, ast.Name):
        return target.id, _number(call.args[0])
    if call.func.id == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
        return target.elts[0].id, (f"len({text_of(call.args[0])})", 0)
    return "", None


def _number(node: ast.expr) -> _Number:
    """An expression as something and a whole number that is added to it."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return text_of(node), 0
    if not isinstance(node.right, ast.Constant) or not isinstance(node.right.value, int):
        return text_of(node), 0
    text, before = _number(node.left)
    return text, before + (node.right.value if isinstance(node.op, ast.Add) else -node.right.value)


def _tests_in(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """The tests that each turn of a loop may make, and their parts, but for those of loops and functions in it."""
    pending: list[ast.AST] = [*body]
    for node in pending:  # which grows meanwhile
        if isinstance(node, ast.If | ast.IfExp):
            yield from (each for each in walk(node.test) if isinstance(each, ast.Compare | ast.BoolOp))
        if not isinstance(node, _OTHER_TURNS):
            pending.extend(ast.iter_child_nodes(node))


def _outcome(test: ast.expr, counter: str, turns: _Number) -> bool | None:
    """Whether a test holds in the last turn, if that is all that it asks or decides it."""
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        return decisive if any(_outcome(each, counter, turns) is decisive for each in test.values) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _RELATIONS:
        return None
    left, right = _number(test.left), _number(test.comparators[0])
    if {left[0], right[0]} != {counter, turns[0]}:
        return None
    last = {counter: turns[1] - 1, turns[0]: 0}
    return _RELATIONS[type(test.ops[0])](last[left[0]] + left[1], last[right[0]] + right[1])
