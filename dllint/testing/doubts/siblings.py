"""Doubts about a path: another arm does it right, or the value comes from an arm that was not taken."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.findings import Fix
from dllint.testing.doubts.decisive import Value, decisive, innermost
from dllint.testing.doubts.rewriting import (
    Draft,
    assigned_name,
    block_of,
    column,
    scope_of,
    stands_alone,
    statement_of,
)
from dllint.testing.doubts.subject import Claim, Subject, Twin
from dllint.testing.variations.source import Code, Definition, first_line, last_line

_MAX_CLAIMS = 2
_OPTIONS = ('"--cpu", action="store_true"', '"--count", type=int, required=True')


def right_under_a_compound_condition(subject: Subject) -> Iterator[Twin]:
    """What its fix does is done if ``not args.cpu and args.count > 1``, and not otherwise."""
    if subject.case.fix:
        return  # it is not right, or not enough
    for claim in subject.reported[:_MAX_CLAIMS]:
        for fix in claim.finding.fixes[:1]:
            draft = Draft(subject.code(claim.place.file))
            args = draft.arguments(*_OPTIONS)
            if _fixed_if(draft, claim, fix, f"not {args}.cpu and {args}.count > 1"):
                yield from _twin(subject, claim, draft, total=False)


def made_under_a_compound_condition(subject: Subject) -> Iterator[Twin]:
    """``if not args.cpu and args.count > 1: x = bad``, and the marked statement under ``if args.count == 1:``."""
    yield from _exclusive(subject, _OPTIONS, "not {args}.cpu and {args}.count > 1", "{args}.count == 1")


def made_under_an_exclusive_condition(subject: Subject) -> Iterator[Twin]:
    """``if args.amp: x = bad``, and the marked statement under ``if not args.amp:``."""
    yield from _exclusive(subject, ('"--amp", action="store_true"',), "{args}.amp", "not {args}.amp")


def _exclusive(subject: Subject, options: tuple[str, ...], made: str, used: str) -> Iterator[Twin]:
    for claim in subject.reported[:_MAX_CLAIMS]:
        for value in decisive(subject, claim):
            draft = Draft(subject.code(value.file))
            args = draft.arguments(*options)
            if value.file == claim.place.file and _split(draft, value, made.format(args=args), used.format(args=args)):
                yield from _twin(subject, claim, draft, total=value.is_all)
                break


def _twin(subject: Subject, claim: Claim, draft: Draft, *, total: bool) -> Iterator[Twin]:
    text = draft.text()
    if text is not None:
        yield Twin({**subject.files, claim.place.file: text}, frozenset((claim.mark,)), total)


def _split(draft: Draft, value: Value, made: str, used: str) -> bool:
    """Let a value be assigned under one condition, and the marked statement and what follows it run under another."""
    code = draft.code
    assignment, marked = statement_of(code, value.node), statement_of(code, innermost(code, value.claim.place))
    name = assigned_name(assignment)
    rest = _from_here_on(code, marked)
    if not name or not rest or value.node is not getattr(assignment, "value", None):
        return False
    if isinstance(scope_of(code, assignment), ast.ClassDef) or not stands_alone(code, assignment):
        return False
    if last_line(assignment) >= first_line(marked) or any(isinstance(node, Definition) for node in rest):
        return False
    _indent(draft, [assignment], f"if {made}:")
    other = draft.unknown("other_value")
    indent = code.lines[assignment.lineno - 1][: column(code, assignment)]
    _indent(draft, rest, f"if {used}:")
    end = last_line(assignment) + 1
    draft.edits.append(code.insert(end, 0, f"{indent}else:\n{indent}    {name} = {other}()\n"))
    return True


def _from_here_on(code: Code, statement: ast.stmt) -> list[ast.stmt]:
    """A statement and those after it in its block, if they can be indented."""
    block = block_of(code, statement)
    rest = block[block.index(statement) :] if block else []
    lines = {line for node in rest for line in range(first_line(node), last_line(node) + 1)}
    is_plain = all(stands_alone(code, node) for node in rest) and lines.isdisjoint(code.string_lines)
    return rest if is_plain and not isinstance(code.parents[statement], ast.ClassDef) else []


def _indent(draft: Draft, statements: list[ast.stmt], condition: str) -> None:
    """Put statements that stand one after the other under a condition."""
    code = draft.code
    indent = code.lines[statements[0].lineno - 1][: column(code, statements[0])]
    first, last = first_line(statements[0]), last_line(statements[-1])
    for number in range(first, last + 1):
        above = f"{indent}{condition}\n" if number == first else ""
        if above or code.lines[number - 1].strip():
            draft.edits.append(code.insert(number, 0, f"{above}    "))


def _fixed_if(draft: Draft, claim: Claim, fix: Fix, condition: str) -> bool:
    """Let what a fix changes be so under a condition: an expression, or statements that it adds."""
    code, edits = draft.code, fix.edits
    if not edits:
        return False
    start, end = min(edit.start for edit in edits), max(edit.end for edit in edits)
    around = [
        node for node, (first, last) in code.spans if first <= start and end <= last and isinstance(node, ast.expr)
    ]
    node = around[-1] if around else None
    if node is not None and start < end and not claim.place.lies_in(claim.place.file, code.span(node)):
        begin, stop = code.span(node)
        growth = sum(len(edit.text) - (edit.end - edit.start) for edit in edits)
        right = code.edited(edits)[begin : stop + growth]
        draft.replace(node, f"({right} if {condition} else {code.segment(node)})")
        return True
    return _added_if(draft, code.edited(edits), condition)


def _added_if(draft: Draft, fixed: str, condition: str) -> bool:
    """Put the lines that a fix adds, and it does nothing else, under a condition."""
    before, after = draft.code.lines, fixed.split("\n")
    differing = (number for number, (old, new) in enumerate(zip(before, after, strict=False)) if old != new)
    line = next(differing, len(before))
    added = after[line : line + len(after) - len(before)]
    if not added or after[:line] + after[line + len(added) :] != before or not added[0].strip():
        return False
    indent = added[0][: len(added[0]) - len(added[0].lstrip())]
    text = "".join(f"    {each}\n" if each.strip() else "\n" for each in added)
    draft.edits.append(draft.code.insert(line + 1, 0, f"{indent}if {condition}:\n{text}"))
    return True
