"""A doubt about objects: a call of unknown code gets hold of them before the claim is true of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.testing.doubts.decisive import innermost
from dllint.testing.doubts.rewriting import Draft, assigned_name, dotted, reads, scope_of, stands_alone, statement_of
from dllint.testing.doubts.subject import Claim, Subject, Twin
from dllint.testing.variations.source import Code

_OBJECT = re.compile(
    r"(^|_)(model|net|network|encoder|decoder|generator|discriminator|student|teacher|optim|optimizer|opt|criterion"
    r"|loss_(fn|func|function)|scheduler|sched|warmup|scaler|dataset|sampler|transforms?|pipeline)(_|\d*$)|loader$",
    re.IGNORECASE,
)
_NO_OBJECT = re.compile(r"Tensor$|^Variable$|^Parameter$|^Accelerator$|^Fabric$|Parser$|Writer$")
"""Classes whose instances no call changes in a way that has to do with training."""


def into_unknown_code(subject: Subject) -> Iterator[Twin]:
    """``adjust(model, optimizer)`` in front of the marked statement, if the claim rests on what these objects are."""
    for claim in subject.reported:
        code = subject.code(claim.place.file)
        statement = statement_of(code, innermost(code, claim.place))
        names = sorted(_objects(subject, claim, code, statement)) if stands_alone(code, statement) else []
        if not names or isinstance(scope_of(code, statement), ast.ClassDef):
            continue
        unknown, known = Draft(code), Draft(code)
        other = unknown.unknown("other_value")
        unknown.above(statement, *(f"{name} = {other}()" for name in names))
        known.above(statement, f"{known.unknown('adjust')}({', '.join(names)})")
        without, text = unknown.text(), known.text()
        if without is None or text is None:
            continue
        file = claim.place.file
        if subject.is_in_doubt(claim.mark, {**subject.files, file: without}):
            yield Twin({**subject.files, file: text}, frozenset((claim.mark,)))


def _objects(subject: Subject, claim: Claim, code: Code, statement: ast.stmt) -> Iterator[str]:
    """The objects that a claim speaks of, and that are there before a statement: no tensors and no numbers."""
    places = [place for place in (claim.place, *claim.hops) if place.file == claim.place.file]
    statements = [statement_of(code, innermost(code, place)) for place in places]
    names = frozenset().union(*(reads(each) | {assigned_name(each)} for each in statements))
    scope = scope_of(code, statement)
    given = {node.arg for node in ast.iter_child_nodes(getattr(scope, "args", scope)) if isinstance(node, ast.arg)}
    given -= {"self"}
    made: dict[str, bool] = {}
    for node in ast.walk(scope):
        if (name := assigned_name(node)) and (name.startswith("self.") or _is_before(node, statement, scope, code)):
            made[name] = made.get(name, False) or _makes_object(node)
    for name in names:
        is_there = name in given or name in made or name.startswith("self.")
        if is_there and (made.get(name) or _OBJECT.search(name.rpartition(".")[2])):
            yield name


def _is_before(node: ast.AST, statement: ast.stmt, scope: ast.AST, code: Code) -> bool:
    assert isinstance(node, ast.stmt)
    return scope_of(code, node) is scope and (node.end_lineno or 0) < statement.lineno


def _makes_object(statement: ast.AST) -> bool:
    """Whether an assignment calls a class: ``model = Net().to(device)``."""
    value = getattr(statement, "value", None)
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call)
    ):
        value = value.func.value
    name = dotted(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return name[:1].isupper() and not _NO_OBJECT.search(name)
