"""Checking fixes: each one alone must mend its finding; what all change is in the ``.fixed.diff`` beside a fixture."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dllint.files.source import SourceFile, source_from_text
from dllint.findings import CONFIDENCE_RANK, Edit, Finding, Fix
from dllint.fixes import apply_fixes
from dllint.patch import diff
from dllint.testing.cases import Case, Fixture, parse_fixture
from dllint.testing.linting import Linted, LintError, Setup, lint

MAX_ROUNDS = 10


def fix_faults(files: Mapping[str, str], linted: Sequence[Linted], setup: Setup, *, stays: bool) -> Iterator[str]:
    """What the fixes of a project's findings do wrong, each applied alone.

    Args:
        files: the texts that were linted.
        linted: what was found in them.
        setup: what they were linted with.
        stays: whether a fix need not remove its finding.
    """
    for file in linted:
        for finding in file.findings:
            for fix in finding.fixes:
                fault = _fault(files, linted, file, finding, fix, setup, stays)
                if fault:
                    place = f"{file.name}:{file.line_of(finding)}"
                    yield f"{place}: {finding.code}: the fix {fix.message!r} {fault}"


def _fault(
    files: Mapping[str, str],
    linted: Sequence[Linted],
    file: Linted,
    finding: Finding,
    fix: Fix,
    setup: Setup,
    stays: bool,
) -> str:
    """What is wrong with one fix; nothing if it is sound."""
    bulk = replace(fix, safety="unsafe")  # so that suggestions are applied here, too
    applied = apply_fixes(file.source, [replace(finding, fixes=(bulk,))], unsafe=True)
    if not applied.applied:
        return "cannot be applied: it is empty, or its edits overlap or lie outside the file"
    try:
        garbled = _modules_as_values(applied.text) - _modules_as_values(file.source.text)
        after = lint({**files, file.name: applied.text}, setup)
    except (SyntaxError, LintError) as error:
        return f"breaks the file: {error}\n{applied.text}"
    if garbled:
        return f"leaves the module {garbled.pop()} where a value was; the file is then:\n{applied.text}"
    if fix.safety != "suggestion" and not stays and _weight(after, finding.code) >= _weight(linted, finding.code):
        return f"does not remove the finding; the file is then:\n{applied.text}"
    return ""


def _modules_as_values(text: str) -> set[str]:
    """The modules that a text imports and uses otherwise than by an attribute: what is left of ``F.softmax(x)``."""
    tree = ast.parse(text)
    owners = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    plain = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    modules = {alias.asname or alias.name.partition(".")[0] for alias in plain}
    used = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in owners)
    return {node.id for node in used if node.id in modules}


def _weight(linted: Sequence[Linted], code: str) -> int:
    """How much a rule has to say about a project: a finding that a fix makes a question of weighs less."""
    found = (finding for file in linted for finding in file.findings if finding.code == code)
    return sum(CONFIDENCE_RANK[finding.confidence] + 1 for finding in found)


def fixed_path(fixture: Path) -> Path:
    """Where the changes that all its fixes make to a fixture are kept."""
    return fixture.with_suffix(".fixed.diff")


def fixed_diff(fixture: Fixture, setup: Setup) -> str:
    """What all fixes change in a fixture, as a patch for the folder it lies in; empty if they change nothing."""
    return diff(fixture.text, fixed_text(fixture, setup), fixture.path.name)


def fixed_text(fixture: Fixture, setup: Setup) -> str:
    """The text of a fixture after all fixes, those that become possible through others included."""
    text = fixture.text
    for _ in range(MAX_ROUNDS):
        source = source_from_text(text, fixture.path)
        current = parse_fixture(text, fixture.path)
        findings = [finding for case in current.cases for finding in _findings_in(case, setup, source)]
        outcome = apply_fixes(source, findings, unsafe=True)
        if not outcome.applied:
            return text
        text = outcome.text
    raise LintError(f"{fixture.path.name}: after {MAX_ROUNDS} rounds of fixing there is still something to fix")


def _findings_in(case: Case, setup: Setup, fixture: SourceFile) -> Iterator[Finding]:
    """The findings of a case, with their fixes as edits of the fixture: a case keeps the lines of its fixture.

    A case whose fix is not right, or not enough, stays as it is.
    """
    if case.fix:
        return
    for file in lint(case.files, setup.for_case(case.versions, case.explicit, case.notes)):
        for finding in file.findings:
            fixes = [
                replace(fix, edits=tuple(_moved(edit, file, fixture) for edit in fix.edits)) for fix in finding.fixes
            ]
            yield replace(finding, fixes=tuple(fixes))


def _moved(edit: Edit, file: Linted, fixture: SourceFile) -> Edit:
    start, end = (_offset(fixture, *file.source.position(offset)) for offset in (edit.start, edit.end))
    return Edit(start, end, edit.text)


def _offset(source: SourceFile, line: int, column: int) -> int:
    starts = source.line_starts
    return starts[line - 1] + column - 1 if line <= len(starts) else len(source.text)
