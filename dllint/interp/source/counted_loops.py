"""Loops that end by a count, before what they go over does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_REACHED = (ast.Eq, ast.GtE, ast.Gt)
_FEW = 10


def ends_by_count(loop: ast.AST) -> bool:
    """Whether each run of a loop breaks after a number of rounds: `if i == STEPS: break`, or after the first one.

    What else decides, such as a flag or a value that was computed, may be false throughout.
    """
    return any(True for _ in _ends(loop))


def is_of_few_rounds(loop: ast.AST) -> bool:
    """Whether a loop breaks after some rounds that one can count on two hands: `if i == 2: break`, as trials do."""
    numbers = (getattr(test.comparators[0], "value", None) for test in _ends(loop) if test is not None)
    return any(isinstance(number, int) and number <= _FEW for number in numbers)


def _ends(loop: ast.AST) -> Iterator[ast.Compare | None]:
    """The tests of the number of rounds with which a loop ends; ``None`` where it ends without any."""
    for statement in _always(loop.body) if isinstance(loop, ast.For | ast.AsyncFor) else ():
        if isinstance(statement, ast.Break):
            yield None
        elif isinstance(statement, ast.If) and isinstance(statement.test, ast.Compare):
            breaks = any(isinstance(each, ast.Break) for each in statement.body)
            if breaks and isinstance(loop, ast.For | ast.AsyncFor) and _asks_for_count(statement.test, loop):
                yield statement.test


def _always(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block that happen in each round, up to one that may skip the rest."""
    for statement in body:
        if isinstance(statement, ast.With | ast.AsyncWith):
            yield from _always(statement.body)
        else:
            yield statement
        if any(isinstance(node, ast.Continue) for node in ast.walk(statement)):
            return


def _asks_for_count(test: ast.Compare, loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a test compares the number of rounds, and it alone, with a number that the loop does not change."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], _REACHED):
        return False
    right = test.comparators[0]
    is_number = isinstance(right, ast.Name | ast.Attribute) or (
        isinstance(right, ast.Constant) and type(right.value) is int
    )
    return is_number and _without_offset(test.left) in _counters(loop)


def _without_offset(node: ast.expr) -> str:
    """The name `i` of `i` and `i + 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        node = node.left
    return node.id if isinstance(node, ast.Name) else ""


def _counters(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The variables that count the rounds of a loop: that of `enumerate`, and those that grow by one in each."""
    found = {
        each.target.id
        for each in _always(loop.body)
        if isinstance(each, ast.AugAssign)
        and isinstance(each.op, ast.Add)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Constant)
        and each.value.value == 1
    }
    calls = [node.func for node in ast.walk(loop.iter) if isinstance(node, ast.Call)]
    is_enumerated = any(isinstance(each, ast.Name) and each.id == "enumerate" for each in calls)
    if is_enumerated and isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
        found.add(loop.target.elts[0].id)
    return found
