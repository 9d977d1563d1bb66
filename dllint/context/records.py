"""The best score so far: what is compared with it, which way, and what it begins with."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.context.scores import Scores
from dllint.events import Event
from dllint.interp.source.known_settings import literal_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Site

_RISING = (ast.Gt, ast.GtE)
_FALLING = (ast.Lt, ast.LtE)
_INFINITE = frozenset(("float('inf')", "np.inf", "numpy.inf", "math.inf", "torch.inf", "float('infinity')", "np.Inf"))


@dataclass(frozen=True, slots=True)
class Record:
    """A test by which something counts as the best so far: ``if score < best: best = score``.

    ``takes_most`` tells whether a higher score is taken for a better one. ``begins`` is the number that the best begins
    with, where that is written once, in ``begun``.
    """

    test: Site
    score: ast.expr
    best: ast.expr
    takes_most: bool
    begins: float | None
    begun: Site | None


class Records(Scores):
    """Comparisons with the best so far."""

    def records(self, event: Event) -> Iterator[Record]:
        """The tests that are met where an event happens, and that put a new score in the place of the best so far."""
        places = [event.site, *(frame.call for frame in event.frame.stack() if frame.call is not None)]
        for place in places:
            around = list(ancestors(place))
            for branch, inner in zip(around[1:], around, strict=False):
                if isinstance(branch, ast.If) and inner in branch.body:
                    for comparison in _required(branch.test):
                        yield from self._record(Site(place.module, comparison), branch)

    def _record(self, test: Site, branch: ast.If) -> Iterator[Record]:
        comparison = test.node
        if not isinstance(comparison, ast.Compare) or len(comparison.ops) != 1:
            return
        operator, sides = comparison.ops[0], (comparison.left, comparison.comparators[0])
        if not isinstance(operator, _RISING + _FALLING):
            return
        for score, best, is_left in ((*sides, True), (*sides[::-1], False)):
            if isinstance(best, ast.Name | ast.Attribute) and _is_put_in_place(branch, best, score):
                yield Record(test, score, best, isinstance(operator, _RISING) is is_left, *_begun(test, best))


def _required(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a test that are all true where it is."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        yield from test.values
    else:
        yield test


def _is_put_in_place(branch: ast.If, best: ast.expr, score: ast.expr) -> bool:
    """Whether a branch assigns the score to what holds the best."""
    return any(
        ast.unparse(target) == ast.unparse(best) and ast.unparse(each.value) == ast.unparse(score)
        for statement in branch.body
        for each in ast.walk(statement)
        if isinstance(each, ast.Assign)
        for target in each.targets
    )


def _begun(test: Site, best: ast.expr) -> tuple[float | None, Site | None]:
    """The only number that is assigned to what holds the best, but for scores; and where."""
    name = ast.unparse(best)
    around: ast.AST | None = enclosing_definition(test)
    if isinstance(best, ast.Attribute):
        around = next((each for each in ancestors(test) if isinstance(each, ast.ClassDef)), None)
    root = around if around is not None else test.module.tree
    stored = [
        each
        for each in nodes_of(root).of(ast.Name, ast.Attribute)
        if not isinstance(getattr(each, "ctx", None), ast.Load) and ast.unparse(each) == name
    ]
    bound = [each for each in nodes_of(root).of(ast.Assign) if any(ast.unparse(one) == name for one in each.targets)]
    others = [each for each in bound if not _is_score(each, test)]
    if len(stored) != len(bound) or len(others) != 1:
        return None, None
    number = _number(others[0].value)
    return number, Site(test.module, others[0]) if number is not None else None


def _is_score(assignment: ast.Assign, test: Site) -> bool:
    """Whether an assignment puts what is compared in a test in the place of the best."""
    comparison = test.node
    sides = [comparison.left, *comparison.comparators] if isinstance(comparison, ast.Compare) else []
    return any(ast.unparse(side) == ast.unparse(assignment.value) for side in sides)


def _number(node: ast.expr) -> float | None:
    """The number that an expression writes out, infinity among them."""
    text = ast.unparse(node)
    if text.lstrip("-") in _INFINITE:
        return -math.inf if text.startswith("-") else math.inf
    is_known, value = literal_of(node)
    return float(value) if is_known and isinstance(value, int | float) and not isinstance(value, bool) else None
