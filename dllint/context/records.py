"""The best score so far: what is compared with it, which way, and what it begins with."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from dllint.context.batch_values import BatchValues
from dllint.dataclass import dataclass
from dllint.events import Event, Frame
from dllint.interp.source.given_arguments import argument_of, place_of
from dllint.interp.source.known_settings import literal_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Site

_RISING = (ast.Gt, ast.GtE)
_FALLING = (ast.Lt, ast.LtE)
_MAX_NAMES = 4
_INFINITE = frozenset(("float('inf')", "np.inf", "numpy.inf", "math.inf", "torch.inf", "float('infinity')", "np.Inf"))


@dataclass(frozen=True, slots=True)
class Record:
    """A test by which something counts as the best so far: ``if score < best: best = score``.

    ``takes_most`` tells whether a higher score is taken for a better one. ``begins`` is the number that the best begins
    with, where that is written once, in ``begun``. ``frame`` is the activation of the function that tests.
    """

    test: Site
    score: ast.expr
    best: ast.expr
    takes_most: bool
    begins: float | None
    begun: Site | None
    frame: Frame


@dataclass(frozen=True, slots=True)
class GivenScore:
    """What a caller gives for the score, without a minus before it; whether most of that is taken for the best."""

    place: Site
    score: ast.expr
    takes_most: bool


class Records(BatchValues):
    """Comparisons with the best so far."""

    def records(self, event: Event) -> Iterator[Record]:
        """The tests that are met where an event happens, and that put a new score in the place of the best so far."""
        inner = event.site
        for frame in event.frame.stack():
            around = list(ancestors(inner))
            for branch, within in zip(around[1:], around, strict=False):
                if isinstance(branch, ast.If) and within is not branch.test:
                    is_met = within in branch.body
                    arm = branch.body if is_met else branch.orelse
                    for comparison in _decided(branch.test, is_met):
                        yield from self._record(Site(inner.module, comparison), arm, is_met, frame)
            if frame.call is None:
                return
            inner = frame.call

    def _record(self, test: Site, arm: list[ast.stmt], is_met: bool, frame: Frame) -> Iterator[Record]:
        comparison = test.node
        if not isinstance(comparison, ast.Compare) or len(comparison.ops) != 1:
            return
        operator, sides = comparison.ops[0], (comparison.left, comparison.comparators[0])
        if not isinstance(operator, _RISING + _FALLING):
            return
        for score, other, is_left in ((*sides, True), (*sides[::-1], False)):
            best = _without_margin(other)
            if self._is_swapped(score, best):
                continue
            if isinstance(best, ast.Name | ast.Attribute) and _is_put_in_place(arm, best, score):
                takes_most = (isinstance(operator, _RISING) is is_left) is is_met
                begun = _begun(test, best) if best is other else (None, None)
                yield Record(test, score, best, takes_most, *begun, frame)

    def _is_swapped(self, score: ast.expr, best: ast.expr) -> bool:
        """Whether what would be the score is called the best, and what would be the best is not: then an assignment is
        the wrong way round, as `accuracy = best_accuracy`, and the comparison tells nothing."""
        return self.speaks_of("record", ast.unparse(score)) and not self.speaks_of("record", ast.unparse(best))

    def given_for(self, record: Record) -> Iterator[GivenScore]:
        """What callers give for the score, outermost last, where a function hands it on as it is or turned round."""
        score, takes_most = record.score, record.takes_most
        for frame in record.frame.stack():
            function = frame.definition.node if frame.definition is not None else None
            if not isinstance(function, ast.FunctionDef):
                return
            score, takes_most = _before(score, takes_most, function)
            argument = _argument_for(score, function, frame)
            if argument is None or frame.call is None:
                return
            score, takes_most = _upright(argument, takes_most)
            yield GivenScore(Site(frame.call.module, score), score, takes_most)


def _upright(score: ast.expr, takes_most: bool) -> tuple[ast.expr, bool]:
    """A score without the minus before it, and whether most of that is taken for the best."""
    while isinstance(score, ast.UnaryOp) and isinstance(score.op, ast.USub):
        score, takes_most = score.operand, not takes_most
    return score, takes_most


def _before(score: ast.expr, takes_most: bool, function: ast.FunctionDef) -> tuple[ast.expr, bool]:
    """What a function makes a score of by turning it round or naming it anew, and whether most of that is the best."""
    for _ in range(_MAX_NAMES):
        score, takes_most = _upright(score, takes_most)
        value = _only_value(score.id, function) if isinstance(score, ast.Name) else None
        score = value if value is not None else score
    return score, takes_most


def _only_value(name: str, function: ast.FunctionDef) -> ast.expr | None:
    """The variable, turned round or not, that a function binds a local name to in its one assignment to that."""
    bound = [each for each in nodes_of(function).names.get(name, ()) if not isinstance(each.ctx, ast.Load)]
    if len(bound) != 1 or _is_parameter(name, function):
        return None
    assigned = (each for each in nodes_of(function).of(ast.Assign) if each.targets == bound)
    value = next((each.value for each in assigned), None)
    return value if value is not None and isinstance(_upright(value, True)[0], ast.Name) else None


def _argument_for(score: ast.expr, function: ast.FunctionDef, frame: Frame) -> ast.expr | None:
    """What the call of a function gives for a score that is a parameter of it, which it never binds anew."""
    call = frame.call.node if frame.call is not None else None
    if not isinstance(score, ast.Name) or not isinstance(call, ast.Call) or not _is_parameter(score.id, function):
        return None
    if any(not isinstance(each.ctx, ast.Load) for each in nodes_of(function).names.get(score.id, ())):
        return None
    is_method = bool(frame.owner) and not function.decorator_list
    return argument_of(call, score.id, place_of(function, score.id, is_method=is_method))


def _is_parameter(name: str, function: ast.FunctionDef) -> bool:
    given = function.args
    return any(each.arg == name for each in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def _decided(test: ast.expr, is_met: bool) -> Iterator[ast.expr]:
    """The parts of a test that are all true where it is, or all false where it is not; ``best is None or`` is none."""
    if is_met and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        others = [each for each in test.values if not _asks_for_none(each)]
        yield others[0] if len(others) == 1 else test
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if is_met else ast.Or):
        yield from test.values
    else:
        yield test


def _asks_for_none(test: ast.expr) -> bool:
    is_asked = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is)
    return isinstance(test, ast.Compare) and is_asked and literal_of(test.comparators[0]) == (True, None)


def _without_margin(best: ast.expr) -> ast.expr:
    """The best so far, without the margin by which a score has to be better: ``best + delta``."""
    is_moved = isinstance(best, ast.BinOp) and isinstance(best.op, ast.Add | ast.Sub)
    return best.left if isinstance(best, ast.BinOp) and is_moved else best


def _is_put_in_place(arm: list[ast.stmt], best: ast.expr, score: ast.expr) -> bool:
    """Whether an arm of a branch assigns the score to what holds the best."""
    return any(
        ast.unparse(target) == ast.unparse(best) and ast.unparse(each.value) == ast.unparse(score)
        for statement in arm
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
