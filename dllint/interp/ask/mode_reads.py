"""Whether a class asks for the mode of its objects, ``self.training``, in a way that changes what they compute."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from itertools import takewhile

from dllint.choices import alternatives
from dllint.interp.ask.dropout import is_rate, is_written_as_zero
from dllint.interp.source.known_settings import SETTINGS, last_name
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Class, Instance, Setting

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_SIMPLE = ast.Assign | ast.AnnAssign | ast.For | ast.Expr


def asks_for_mode(value: Instance, cls: Class, methods: Set[int]) -> bool | None:
    """Whether what a module of the project computes depends on the mode by what its own code asks, in those of its
    methods that are called, by identity. ``None`` where that is dropout alone, of a rate that nothing tells."""
    answers = {
        _changes_result(Site(ancestor.module, node), node, value)
        for ancestor in cls.lineage
        for method in ancestor.members.values()
        if id(method) in methods
        for node in nodes_of(method).attributes.get("training", ())
        if isinstance(node.ctx, ast.Load)
    }
    return True if True in answers else None if None in answers else False


def _changes_result(site: Site, node: ast.Attribute, value: Instance) -> bool | None:
    """Whether the result depends on a mode that is read, which does not only save memory or get put back later.

    ``None`` where that is for dropout of a rate that nothing tells.
    """
    if SETTINGS.search(last_name(node.value)):
        return False  # `args.training`, which is no mode of a module
    around = list(ancestors(site))
    inside = [node, *takewhile(lambda each: isinstance(each, ast.expr | ast.keyword), around)]
    outer = [each for each in around if isinstance(each, ast.stmt)]
    statement = outer[0] if outer else None
    if any(isinstance(each, ast.Attribute) for each in inside[1:2]):
        return False  # `config.training.epochs`
    if "checkpoint" in ast.unparse(inside[-1]) or isinstance(statement, ast.Assert):
        return False
    dropouts = [each for each in inside if isinstance(each, ast.Call) and "dropout" in last_name(each.func)]
    choices = [each for each in inside if isinstance(each, ast.IfExp) and each.test is node]
    for drops in (*(_drops(each, value) for each in dropouts), *(_drops_by_choice(each, value) for each in choices)):
        if drops is not True:
            return drops
    function = next((each for each in outer if isinstance(each, _FUNCTION)), None)
    if function is None or statement is None:
        return True
    if isinstance(statement, ast.If) and inside[-1] is statement.test:
        return not _computes_the_same(statement, node, function)
    return not _is_kept_to_be_set_back(statement, node, function)


def _drops(call: ast.Call, value: Instance) -> bool | None:
    """Whether a functional dropout drops anything, at the rate that is written there or an attribute of the module."""
    named = (each.value for each in call.keywords if each.arg == "p")
    rate = next(iter((*call.args[1:2], *named)), None)
    return True if rate is None else _has_rate(rate, value)


def _drops_by_choice(choice: ast.IfExp, value: Instance) -> bool | None:
    """Whether the arms differ, `dropout_p=self.rate if self.training else 0.0`: not where both are rates of zero.

    Of one that is zero by default, and that a user may set, nothing tells.
    """
    if _has_rate(choice.orelse, value) is not False:
        return True
    rate = value.attributes.get(choice.body.attr) if isinstance(choice.body, ast.Attribute) else None
    is_set = any(isinstance(option, Setting) for _, option in alternatives(rate)) if rate is not None else False
    drops = _has_rate(choice.body, value)
    return None if is_set and not drops else drops


def _has_rate(rate: ast.expr, value: Instance) -> bool | None:
    """Whether a rate is not zero, as it is written or as an attribute of the module; ``None`` where nothing tells."""
    if isinstance(rate, ast.Attribute) and getattr(rate.value, "id", "") == "self":
        kept = value.attributes.get(rate.attr)
        return is_rate(kept) if kept is not None else None
    if is_written_as_zero(rate):
        return False
    return True if isinstance(rate, ast.Constant) else None


def _is_kept_to_be_set_back(statement: ast.stmt, node: ast.Attribute, function: ast.AST) -> bool:
    """Whether a mode is kept in a variable in order to set it again: `was = self.training`, `self.train(was)`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is node else None
    if not isinstance(target, ast.Name):
        return False
    nodes = nodes_of(function)
    given = {id(each) for call in nodes.of(ast.Call) if _sets_mode(call) for each in call.args}
    tests = {id(each.test) for each in nodes.of(ast.If) if all(map(_is_switch, each.body)) and not each.orelse}
    reads = (each for each in nodes.names.get(target.id, ()) if isinstance(each.ctx, ast.Load))
    return all(id(each) in given or id(each) in tests for each in reads)


def _is_switch(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and _sets_mode(statement.value)


def _sets_mode(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("train", "eval")


# ------------------------------------------------------------------------------------------- both arms of a test


def _computes_the_same(branch: ast.If, node: ast.Attribute, function: ast.AST) -> bool:
    """Whether what is done in evaluation mode is done in training mode, too, besides more that changes none of it.

    What is done besides is only kept in variables of its own, or as further entries of a dict.
    """
    is_negated = isinstance(branch.test, ast.UnaryOp) and isinstance(branch.test.op, ast.Not)
    if (branch.test.operand if isinstance(branch.test, ast.UnaryOp) and is_negated else branch.test) is not node:
        return False
    training, evaluation = (branch.orelse, branch.body) if is_negated else (branch.body, branch.orelse)
    more = _besides(training, evaluation)
    if more is None:
        return False
    own = {name.id for each in more for name in nodes_of(each).of(ast.Name) if isinstance(name.ctx, ast.Store)}
    if not all(_stays_inside(each, own) for each in more):
        return False
    here = {id(each) for statement in more for each in nodes_of(statement).all}
    elsewhere = [each for each in nodes_of(function).all if id(each) not in here]
    bound = {id(part) for each in elsewhere if isinstance(each, ast.For) for part in _bound_by(each)}
    return not any(_reads(each, own, more) for each in elsewhere if id(each) not in bound)


def _bound_by(loop: ast.For) -> Iterator[ast.Name]:
    """The places of the variable of a loop in it, which has nothing of what the variable was before."""
    target = loop.target
    if isinstance(target, ast.Name):
        yield target
        yield from (each for part in loop.body for each in nodes_of(part).names.get(target.id, ()))


def _besides(many: Sequence[ast.stmt], few: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """The statements of a block that another does not have, if it has all others in the same order."""
    pending = [ast.dump(each) for each in few]
    more = []
    for statement in many:
        if pending and ast.dump(statement) == pending[0]:
            del pending[0]
        else:
            more.append(statement)
    return None if pending else more


def _stays_inside(statement: ast.stmt, own: set[str]) -> bool:
    """Whether a statement changes nothing but variables of its own, and adds entries to a dict."""
    if not isinstance(statement, _SIMPLE) or any(map(_is_more, nodes_of(statement).all)):
        return False
    return all(_is_harmless(each, own) for each in _effects_of(statement))


def _is_more(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt) and not isinstance(node, _SIMPLE)


def _effects_of(statement: ast.stmt) -> Iterator[ast.expr]:
    nodes = nodes_of(statement)
    yield from (each for each in nodes.of(ast.Attribute) if isinstance(each.ctx, ast.Store))
    yield from (each for each in nodes.of(ast.Subscript) if isinstance(each.ctx, ast.Store))
    yield from (each.value for each in nodes.of(ast.Expr))


def _is_harmless(effect: ast.expr, own: set[str]) -> bool:
    if isinstance(effect, ast.Subscript):
        return isinstance(effect.slice, ast.Constant)
    if isinstance(effect, ast.Call) and isinstance(effect.func, ast.Attribute):
        return getattr(effect.func.value, "id", "") in own
    return isinstance(effect, ast.Constant)


def _reads(node: ast.AST, own: set[str], more: Sequence[ast.stmt]) -> bool:
    """Whether a node reads one of some variables, or an entry that some statements set."""
    if isinstance(node, ast.Name):
        return node.id in own
    if not isinstance(node, ast.Subscript):
        return False
    entries = (each for statement in more for each in nodes_of(statement).of(ast.Subscript))
    text = ast.unparse(node)
    return any(isinstance(each.ctx, ast.Store) and ast.unparse(each) == text for each in entries)
