"""The decisive values of a claim: those without which it is not made.

A value is decisive if the claim is gone, or assumes more, where something unknown stands in its place. What is
decisive need not be told for each rule, then: it is tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import TypeGuard

from dllint.dataclass import dataclass
from dllint.testing.doubts.rewriting import Draft, assigned_name, dotted, header, reads, statement_of
from dllint.testing.doubts.subject import Claim, Place, Subject
from dllint.testing.variations.source import Code

_MAX_TRIED = 5
_MAX_DECISIVE = 2
_DEPTH = 3
_NOT_MOVED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Starred, ast.JoinedStr)


@dataclass(frozen=True, slots=True)
class Value:
    """An expression of a file that a claim rests on. ``is_all`` says that nothing is reported without it."""

    claim: Claim
    file: str
    node: ast.expr
    is_all: bool


def decisive(subject: Subject, claim: Claim) -> list[Value]:
    """Some decisive values of a claim."""
    if claim.mark not in subject.decisive:
        tried = islice(_values(subject, claim), _MAX_TRIED)
        found = (value for node in tried if (value := _tried(subject, *node)) is not None)
        subject.decisive[claim.mark] = list(islice(found, _MAX_DECISIVE))
    return subject.decisive[claim.mark]


def _tried(subject: Subject, claim: Claim, file: str, node: ast.expr) -> Value | None:
    """The value that an expression is, if the claim is in doubt with something unknown in its place."""
    draft = Draft(subject.code(file))
    draft.replace(node, f"{draft.unknown('other_value')}()")
    text = draft.text()
    if text is None or not subject.is_in_doubt(claim.mark, files := {**subject.files, file: text}):
        return None
    left = subject.strengths(files).get(claim.mark)
    return Value(claim, file, node, is_all=left is None or not left.is_reported)


def _values(subject: Subject, claim: Claim) -> Iterator[tuple[Claim, str, ast.expr]]:
    """What a claim may rest on: what its trace leads to, what was assigned before, what is given in its calls."""
    seen: set[ast.expr] = set()
    for node, place in _candidates(subject, claim, [claim.place, *claim.hops]):
        if node not in seen and _is_replaceable(subject.code(place.file), node, claim, place.file):
            seen.add(node)
            yield claim, place.file, node


def _candidates(subject: Subject, claim: Claim, places: list[Place]) -> Iterator[tuple[ast.expr, Place]]:
    statements: list[tuple[ast.stmt, Place]] = []
    marked = statement_of(subject.code(claim.place.file), innermost(subject.code(claim.place.file), claim.place))
    for place in places:
        node = innermost(subject.code(place.file), place)
        if place is not claim.place and _is_source(node, marked):
            yield node, place
        statements.append((statement_of(subject.code(place.file), node), place))
    for statement, place in statements:
        yield from ((node, place) for node in _assigned_before(subject.code(place.file), statement))
    for statement, place in statements:
        yield from ((node, place) for node in header(statement) if _is_source(node, marked))
    for statement, place in statements:
        for node in header(statement):
            given = [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
            yield from ((value, place) for value in given if isinstance(value, ast.Constant | ast.List | ast.Tuple))


def innermost(code: Code, place: Place) -> ast.AST:
    """The smallest expression or statement that a place lies in."""
    found: ast.AST = code.tree
    for node, span in code.spans:  # inner nodes come later
        if place.lies_in(place.file, span):
            found = node
    return found if not isinstance(found, ast.Module) else code.tree.body[0]


def _is_source(node: ast.AST, marked: ast.stmt) -> TypeGuard[ast.Call]:
    """Whether a node is a call that makes something, rather than one that uses what the marked statement made."""
    func = node.func if isinstance(node, ast.Call) else None
    while isinstance(func, ast.Attribute):
        func = func.value
    made = assigned_name(marked)
    is_use = bool(made) and any(dotted(part) == made for part in ast.walk(node))
    return isinstance(func, ast.Name) and func.id != "super" and not is_use


def _assigned_before(code: Code, statement: ast.stmt) -> Iterator[ast.expr]:
    """What was assigned to the names that a statement reads, and to those that this was made of, the nearest first."""
    assignments = [node for node in code.nodes if isinstance(node, ast.Assign | ast.AnnAssign)]
    names = reads(statement)
    done: set[str] = set()
    for _ in range(_DEPTH):
        found = [node for node in assignments if assigned_name(node) in names - done]
        for node in sorted(
            found, key=lambda node: (node.lineno > statement.lineno, abs(node.lineno - statement.lineno))
        ):
            assert node.value is not None
            yield node.value
        done |= names
        names = frozenset().union(*(reads(node) for node in found))


def _is_replaceable(code: Code, node: ast.expr, claim: Claim, file: str) -> bool:
    """Whether another expression can stand in the place of one, and the claim is not about the expression itself."""
    if claim.place.lies_in(file, code.span(node)) or any(isinstance(part, _NOT_MOVED) for part in ast.walk(node)):
        return False
    if isinstance(code.parents[node], ast.Expr):
        return False  # it is there for what it does
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _functions_around(code, claim, file):
        return False  # it is what runs the marked statement: where it does not, nothing is claimed
    around: ast.AST = node
    while not isinstance(around, ast.stmt):
        around = code.parents[around]
        if isinstance(around, ast.JoinedStr | ast.arguments):
            return False
    return node not in getattr(around, "decorator_list", ()) and node is not getattr(around, "annotation", None)


def _functions_around(code: Code, claim: Claim, file: str) -> set[str]:
    """The functions of a file that a claim is about a statement of."""
    defined = (node for node in code.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in defined if claim.place.lies_in(file, code.span(node))}
