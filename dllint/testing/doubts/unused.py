"""Doubts about an effect: nobody iterates over the loader, nobody reads the result."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.testing.doubts.decisive import innermost
from dllint.testing.doubts.rewriting import (
    Draft,
    assigned_name,
    dotted,
    header,
    reads,
    scope_of,
    stands_alone,
    statement_of,
)
from dllint.testing.doubts.subject import Claim, Subject, Twin
from dllint.testing.variations.source import Code

_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Assert)


def without_readers(subject: Subject) -> Iterator[Twin]:
    """The marked statement binds a name, and all that reads it, or what is made of it, is gone.

    A function whose name ends in ``_`` changes what it is given, and is not called for its result.
    """
    for claim in subject.claims:
        code = subject.code(claim.place.file)
        statement = statement_of(code, innermost(code, claim.place))
        name = assigned_name(statement)
        called = dotted(getattr(getattr(statement, "value", statement), "func", statement))
        is_value = bool(name) and "." not in name and not called.endswith("_")
        readers = _readers(code, statement, name) if is_value else None
        if readers and not any(subject.marks_in(claim.place.file, reader) for reader in readers):
            yield from _without(subject, claim, code, readers)


def _readers(code: Code, statement: ast.stmt, name: str) -> Sequence[ast.stmt] | None:
    """The statements that use a name or what is made of it; nothing if they cannot be taken out."""
    scope = scope_of(code, statement)
    names, found = [name], dict[ast.stmt, None]()
    for each in names:
        for node in ast.walk(scope):
            if not isinstance(node, ast.Name) or node.id != each or isinstance(node.ctx, ast.Store):
                continue
            reader = statement_of(code, node)
            if scope_of(code, node) is not scope or not isinstance(reader, _SIMPLE) or not stands_alone(code, reader):
                return None
            if reader is statement:
                return None
            found[reader] = None
            made = [
                dotted(target) for target in getattr(reader, "targets", [getattr(reader, "target", None)]) if target
            ]
            if not all(made):
                return None
            names += [new for new in made if new not in names]
    return list(found)


def without_iteration(subject: Subject) -> Iterator[Twin]:
    """The loops over a loader that the claim speaks of are gone, if it is used for nothing else."""
    for claim in subject.claims:
        code = subject.code(claim.place.file)
        for name, made in _loaders(subject, claim, code):
            scope = scope_of(code, made)
            uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == name]
            uses = [node for node in uses if not isinstance(node.ctx, ast.Store)]
            loops = list(dict.fromkeys(statement_of(code, node) for node in uses))
            span_of = code.span
            is_inside = any(claim.place.lies_in(claim.place.file, span_of(loop)) for loop in loops)
            if loops and not is_inside and all(_is_loop_over(code, loop, name) for loop in loops):
                yield from _without(subject, claim, code, loops)
                break


def _loaders(subject: Subject, claim: Claim, code: Code) -> Iterator[tuple[str, ast.stmt]]:
    """The loaders that the marked statement or the trace of a claim makes or reads."""
    places = [place for place in (claim.place, *claim.hops) if place.file == claim.place.file]
    statements = [statement_of(code, innermost(code, place)) for place in places]
    for node in code.nodes:
        name = assigned_name(node)
        made = getattr(node, "value", None)
        if isinstance(node, ast.stmt) and name and isinstance(made, ast.Call) and _is_loader(made):
            read = frozenset().union(*(reads(statement) for statement in statements))
            if node in statements or name in read:
                yield name, node


def _is_loader(call: ast.Call) -> bool:
    return dotted(call.func).rpartition(".")[2].endswith("Loader")


def _is_loop_over(code: Code, statement: ast.stmt, name: str) -> bool:
    """Whether a statement is a loop over a name, and no part of what it does uses the name."""
    if not isinstance(statement, ast.For) or not stands_alone(code, statement):
        return False
    return any(isinstance(node, ast.Name) and node.id == name for node in header(statement))


def _without(subject: Subject, claim: Claim, code: Code, statements: Sequence[ast.stmt]) -> Iterator[Twin]:
    file = claim.place.file
    outermost = [node for node in statements if not any(_is_within(code, node, other) for other in statements)]
    gone = {mark for node in outermost for mark in subject.marks_in(file, node)}
    draft = Draft(code)
    for statement in outermost:
        draft.replace(statement, "pass")
    text = draft.text()
    if text is not None and claim.mark not in gone:
        yield Twin({**subject.files, file: text}, frozenset((claim.mark,)), total=True)


def _is_within(code: Code, node: ast.stmt, other: ast.stmt) -> bool:
    start, end = code.span(other)
    return node is not other and start <= code.span(node)[0] < end
