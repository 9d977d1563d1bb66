"""What is fitted on data as a whole, and then transforms the parts of it: the one for training, and one held out."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.interp.source.bindings import Definition, blocks_of
from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.phases import phases_in
from dllint.interp.source.positions import ancestors, statement_around
from dllint.interp.source.sliced import cuts_in, statements_of
from dllint.interp.source.trees import walk
from dllint.sites import Module, Site

_SPLIT = "sklearn.model_selection.train_test_split"
_FITTING = frozenset(("fit", "fit_transform", "partial_fit"))
_AS_THEY_ARE = frozenset(("to_numpy", "copy", "astype"))  # methods that keep the samples


@dataclass(frozen=True, slots=True)
class Transformed:
    """Where something transforms a part of data for training, and one that is held out."""

    train: ast.Call
    held_out: ast.Call


@dataclass(frozen=True, slots=True)
class _Part:
    """A name for a part of some data, and the statement that cuts it off."""

    name: str
    statement: ast.stmt


def transformed_after(fit: Site, transformer: str) -> Transformed | None:
    """Where what is fitted on data transforms parts of them, in the same scope, and is fitted on nothing else there.

    Args:
        fit: a call of the method `fit`.
        transformer: the variable or attribute that has what is fitted, as it is written.
    """
    call = fit.node
    root, form = _described(call.args[0]) if isinstance(call, ast.Call) and call.args else ("", "")
    if not root or not transformer or "training" in phases_in(root):
        return None
    around = next((each for each in ancestors(fit) if isinstance(each, Definition)), None)
    statements = statements_of(around or fit.module.tree)
    calls = [node for each in statements for node in calls_in(each)]
    if any(each is not call and called_of(each, _FITTING) == transformer for each in calls):
        return None
    later = [each for each in calls if called_of(each, {"transform"}) == transformer and each.lineno >= fit.line]
    for pair in _pairs(_while_bound(root, statements, fit.line), root, fit.module):
        found = [_transform(later, part, form, fit, statements) for part in pair]
        if found[0] is not None and found[1] is not None:
            return Transformed(found[0], found[1])
    return None


def _described(data: ast.expr) -> tuple[str, str]:
    """The variable that an expression takes data of, and what it takes of it: ``frame[columns]``, of any frame."""
    node = data
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    root = node.id if isinstance(node, ast.Name) else ""
    while not isinstance(data, ast.Name) and (bare := _without_form(data)) is not None:
        data = bare
    written = copy.deepcopy(data)
    for each in ast.walk(written):
        if isinstance(each, ast.Name) and each.id == root:
            each.id = "_"
    return root, ast.unparse(written)


def _without_form(data: ast.expr) -> ast.expr | None:
    """The samples of which an expression makes an array: those in ``frame.values``."""
    if isinstance(data, ast.Attribute) and data.attr == "values":
        return data.value
    called = data.func if isinstance(data, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) and called.attr in _AS_THEY_ARE else None


def calls_in(statement: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement that has no others inside."""
    if not isinstance(statement, Definition) and not any(blocks_of(statement)):
        yield from (node for node in walk(statement) if isinstance(node, ast.Call))


def called_of(call: ast.Call, methods: frozenset[str] | set[str]) -> str:
    """What some method is called of, as it is written; empty for another call."""
    called = call.func
    return ast.unparse(called.value) if isinstance(called, ast.Attribute) and called.attr in methods else ""


def _while_bound(name: str, statements: Sequence[ast.stmt], line: int) -> list[ast.stmt]:
    """The statements in which a variable has the value that it has at a line."""
    bound = [each.lineno for each in statements if name in _bound_by(each)]
    first = max((each for each in bound if each < line), default=0)
    end = min((each for each in bound if each >= line), default=None)
    return [each for each in statements if each.lineno > first and (end is None or each.lineno <= end)]


def _bound_by(statement: ast.stmt) -> set[str]:
    """The variables that a statement itself assigns to, without those inside of it."""
    heads: list[ast.AST] = [] if isinstance(statement, Definition) or any(blocks_of(statement)) else [statement]
    if isinstance(statement, ast.For | ast.AsyncFor):
        heads = [statement.target]
    elif isinstance(statement, ast.With | ast.AsyncWith):
        heads = [each.optional_vars for each in statement.items if each.optional_vars is not None]
    return {
        node.id
        for head in heads
        for node in walk(head)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _pairs(statements: list[ast.stmt], root: str, module: Module) -> Iterator[tuple[_Part, _Part]]:
    """The parts into which some data are cut by slices, or by a function that does so."""
    for train, held_out in cuts_in(statements, root):
        yield _Part(train.name, train.statement), _Part(held_out.name, held_out.statement)
    for statement in statements:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        made = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(target, ast.Tuple) or not isinstance(made, ast.Call):
            continue
        names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
        if dotted_name(made, imported_names(module.tree)) == _SPLIT and len(names) == 2 * len(made.args):
            places = (place for place, each in enumerate(made.args) if _described(each) == (root, "_"))
            for place in places:
                yield _Part(names[2 * place], statement), _Part(names[2 * place + 1], statement)


def _transform(
    calls: list[ast.Call], part: _Part, form: str, fit: Site, statements: Sequence[ast.stmt]
) -> ast.Call | None:
    """The first call that transforms a part in any case where that was cut off, and the whole fitted on."""
    needed = blocks_around(fit) | blocks_around(Site(fit.module, part.statement))
    for call in calls:
        between = [each for each in statements if part.statement.lineno < each.lineno < call.lineno]
        is_kept = all(_keeps(each, part.name) for each in between if part.name in _bound_by(each))
        is_later = call.lineno > part.statement.lineno
        is_of_it = bool(call.args) and _described(call.args[0]) == (part.name, form)
        if is_later and is_of_it and is_kept and needed <= blocks_around(Site(fit.module, call)):
            return call
    return None


def _keeps(statement: ast.stmt, name: str) -> bool:
    """Whether a variable gets something that is made of what it has had."""
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in walk(statement)
    )


def blocks_around(site: Site) -> set[int]:
    """The blocks of statements around a place: of two arms of a condition, the one."""
    around: list[ast.AST] = [statement_around(site) or site.node, *ancestors(site)]
    inside = [each for each in around if isinstance(each, ast.stmt)]
    return {
        id(block)
        for outer in inside
        if not isinstance(outer, Definition)
        for block in blocks_of(outer)
        if any(each is inner for each in block for inner in inside)
    }
