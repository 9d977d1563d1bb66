"""Applying fixes: edits that do not get in each other's way, round after round until nothing is left to mend.

Nothing a rule proposes is trusted. A round that leaves a file that Python cannot compile, or a finding that its own
fix did not remove, is done again without the fix in question, which is reported. Files are written atomically, and
only if they are still what was read.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from hashlib import blake2b
from itertools import pairwise

from dllint.dataclass import dataclass
from dllint.files.parsing import parse_module
from dllint.files.source import SourceError, SourceFile, os_reason, read_bytes, source_from_bytes
from dllint.findings import Edit, Finding, Problem

Lint = Callable[[SourceFile], list[Finding]]

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of one round: the new source, the findings whose fix is in it, and those whose fix is not.

    ``skipped`` has only findings with a fix that may be applied; it overlaps with that of another finding, or cannot be
    brought back into the notebook.
    """

    source: SourceFile
    applied: list[Finding]
    skipped: list[Finding]

    @property
    def text(self) -> str:
        return self.source.text


@dataclass(slots=True)
class FixOutcome:
    """What became of a file.

    ``applied`` are the findings that were mended, in the order of the rounds (the locations of a later round are about
    the text of that round), ``remaining`` what the last linting found. ``reverted`` are the findings whose fix was
    taken back, each with what the fix did wrong. ``unsettled`` are the codes of rules that kept proposing fixes, and
    whose fixes were therefore all left out.
    """

    before: SourceFile
    source: SourceFile
    applied: list[Finding] = field(default_factory=list)
    remaining: list[Finding] = field(default_factory=list)
    reverted: list[tuple[Finding, str]] = field(default_factory=list)
    unsettled: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.source.file_text != self.before.file_text

    @property
    def problems(self) -> list[Problem]:
        """The fixes that were taken back or left out, as problems: each is a bug of the rule."""
        messages = [
            f"{finding.code}: the fix at line {finding.location.line} was left out: {fault}"
            for finding, fault in self.reverted
        ]
        messages += [f"{code}: its fixes were left out: they lead to ever more of them" for code in self.unsettled]
        return [Problem("crash", message, self.before.display) for message in messages]

    def patch(self) -> str:
        """The change of the whole file as a patch; empty if there is none.

        Bytes of a file in another encoding than UTF-8 are kept as surrogate escapes. Written to a stream with
        ``errors="surrogateescape"``, the patch fits the file.
        """
        from dllint.patch import diff

        before, after = (source.to_bytes().decode("utf-8", "surrogateescape") for source in (self.before, self.source))
        return diff(before, after, self.before.display)


def apply_fixes(source: SourceFile, findings: Sequence[Finding], *, unsafe: bool) -> Applied:
    """Apply one fix of each finding that has one, once.

    That is the first ``safe`` one or, with ``unsafe``, the first that is ``safe`` or ``unsafe``; suggestions are never
    applied. Of fixes that overlap, the first by position wins. An edit that two fixes have in common is made once, and
    insertions at one place keep the order of their fixes.

    Raises:
        UnicodeEncodeError: an edit brings a character that the file's encoding does not have.
        SourceError: the notebook has become too large.
    """
    edits, applied, skipped = _select(source, findings, unsafe)
    return Applied(_edited(source, edits) if edits else source, applied, skipped)


def _select(
    source: SourceFile, findings: Iterable[Finding], unsafe: bool
) -> tuple[list[Edit], list[Finding], list[Finding]]:
    """The edits to make, the findings they are for, and the findings left out."""
    candidates = [(edits, finding) for finding in findings if (edits := _chosen(finding, unsafe))]
    candidates.sort(key=lambda candidate: candidate[0][0].start)
    taken: list[Edit] = []
    applied: list[Finding] = []
    skipped: list[Finding] = []
    for edits, finding in candidates:
        if _is_possible(source, edits) and not any(_overlap(edit, other) for edit in edits for other in taken):
            taken += [edit for edit in edits if edit not in taken]
            applied.append(finding)
        else:
            skipped.append(finding)
    return taken, applied, skipped


def _chosen(finding: Finding, unsafe: bool) -> list[Edit]:
    """The edits of the fix to apply, by position; none if the finding has no such fix."""
    allowed = ("safe", "unsafe") if unsafe else ("safe",)
    fix = next((fix for fix in finding.fixes if fix.safety in allowed and fix.edits), None)
    return sorted(fix.edits, key=_place) if fix is not None else []


def _place(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _overlap(one: Edit, other: Edit) -> bool:
    return one != other and one.start < other.end and other.start < one.end


def _is_possible(source: SourceFile, edits: Sequence[Edit]) -> bool:
    if any(not 0 <= edit.start <= edit.end <= len(source.text) for edit in edits):
        return False
    if any(one.end > other.start for one, other in pairwise(edits)):
        return False
    return source.notebook is None or source.notebook.accepts(edits)


def _edited(source: SourceFile, edits: Sequence[Edit]) -> SourceFile:
    """The source after edits that do not overlap. Their ``\\n`` become the line end of the file."""
    if source.notebook is not None:
        return source_from_bytes(source.notebook.apply_edits(edits), source.path, display=source.display)
    parts: list[str] = []
    done = 0
    for edit in sorted(edits, key=_place):
        parts += [source.text[done : edit.start], edit.text.replace("\r\n", "\n").replace("\n", source.newline)]
        done = edit.end
    text = "".join([*parts, source.text[done:]])
    digest = blake2b(text.encode(source.encoding), digest_size=16).hexdigest()
    return SourceFile(source.path, source.display, text, source.encoding, source.notebook, digest)


def fix_source(source: SourceFile, lint: Lint, *, unsafe: bool, rounds: int = 10) -> FixOutcome:
    """Fix a file until linting proposes nothing more.

    Args:
        source: the file as it is.
        lint: the findings of a version of the file, suppressed ones left out.
        unsafe: whether fixes that change the numbers of a run are wanted too.
        rounds: how often to lint and fix. Rules that still propose fixes after that are left out, and all is done
            again from the start, so that the outcome is one that fixing again does not change.
    """
    left_out: set[str] = set()
    while True:
        outcome, unsettled = _Rounds(source, lint, unsafe, left_out).run(rounds)
        if not unsettled:
            outcome.unsettled = sorted(left_out)
            return outcome
        left_out |= unsettled


class _Rounds:
    """The rounds of fixing one file, without the fixes of the rules in ``left_out``."""

    def __init__(self, source: SourceFile, lint: Lint, unsafe: bool, left_out: set[str]) -> None:
        self._lint = lint
        self._unsafe = unsafe
        self._left_out = left_out
        self._refused: set[_Key] = set()
        self._outcome = FixOutcome(source, source)

    def run(self, rounds: int) -> tuple[FixOutcome, set[str]]:
        """The outcome, and the codes of the rules that would go on."""
        outcome = self._outcome
        outcome.remaining = self._lint(outcome.source)
        if _soundness(outcome.source)[1] == 0:
            return outcome, set()  # no fix of a file that does not parse can be checked
        for _ in range(rounds):
            if not self._round():
                return outcome, set()
        return outcome, {finding.code for finding in self._candidates()}

    def _candidates(self) -> list[Finding]:
        return [
            finding
            for finding in self._outcome.remaining
            if finding.code not in self._left_out
            and _key(finding) not in self._refused
            and _chosen(finding, self._unsafe)
        ]

    def _round(self) -> bool:
        """Fix and lint once, without fixes that turn out to be wrong. False if there was nothing to fix."""
        outcome = self._outcome
        while True:
            taken_back = len(outcome.reverted)
            step = self._sound_step(self._candidates())
            if step.applied:
                found = self._lint(step.source)
                without_effect = _without_effect(step.applied, outcome.remaining, found)
                if not without_effect:
                    outcome.applied += step.applied
                    outcome.source, outcome.remaining = step.source, found
                    return True
                self._take_back(without_effect, "it does not remove the finding")
            if len(outcome.reverted) == taken_back:
                return False

    def _sound_step(self, findings: Sequence[Finding]) -> Applied:
        """Apply fixes; where the outcome is broken, one by one without those that break it."""
        source = self._outcome.source
        step = self._attempt(findings)
        if step is not None:
            return step
        kept: list[Finding] = []
        for finding in _select(source, findings, self._unsafe)[1]:
            if self._attempt([*kept, finding]) is not None:
                kept.append(finding)
            else:
                self._take_back([finding], "the file would no longer be valid")
        return apply_fixes(source, kept, unsafe=self._unsafe)

    def _attempt(self, findings: Sequence[Finding]) -> Applied | None:
        source = self._outcome.source
        try:
            step = apply_fixes(source, findings, unsafe=self._unsafe)
        except (UnicodeEncodeError, SourceError):
            return None
        was, now = _soundness(source), _soundness(step.source)
        return step if now[0] <= was[0] and now[1] >= was[1] else None

    def _take_back(self, findings: Iterable[Finding], fault: str) -> None:
        for finding in findings:
            self._refused.add(_key(finding))
            self._outcome.reverted.append((finding, fault))


def _key(finding: Finding) -> _Key:
    """What makes a finding the same one in the next round, when lines may have moved."""
    return finding.code, finding.scope, finding.statement, finding.message


def _without_effect(applied: Sequence[Finding], before: Iterable[Finding], after: Iterable[Finding]) -> list[Finding]:
    """The findings of which there are not fewer by as many as were fixed."""
    was, now, mended = (Counter(map(_key, findings)) for findings in (before, after, applied))
    return [finding for finding in applied if now[_key(finding)] > was[_key(finding)] - mended[_key(finding)]]


def _soundness(source: SourceFile) -> tuple[int, int]:
    """How many cells are broken (fewer is better), and 2 if the module compiles, 1 if it only parses, 0 if neither."""
    broken = len(source.notebook.broken) if source.notebook is not None else 0
    failures = (SyntaxError, ValueError, RecursionError, MemoryError)
    try:
        tree = parse_module(source.text)
    except failures:
        return broken, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(tree, "<module>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except failures:
            return broken, 1
    return broken, 2


def write_source(outcome: FixOutcome) -> None:
    """Write the new version of a file in place of the old one, if there is a change.

    Encoding, byte order mark, line ends, permissions and symbolic links stay.

    Raises:
        SourceError: the file has changed since it was read, or cannot be written; it is as it was.
    """
    from dllint.files.atomic import write_atomic

    if not outcome.changed:
        return
    before = outcome.before
    present = read_bytes(before.path)
    if blake2b(present, digest_size=16).hexdigest() != before.digest:
        raise SourceError("changed while it was being fixed, and left as it is")
    if before.to_bytes() != present:
        raise SourceError(f"cannot be written in {before.encoding} without loss, and left as it is")
    try:
        write_atomic(before.path, outcome.source.to_bytes())
    except OSError as error:
        raise SourceError(f"cannot be written: {os_reason(error, before.path)}") from error
