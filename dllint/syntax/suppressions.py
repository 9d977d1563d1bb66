"""Suppression comments: what they hide, which of them are of no use, and which make no sense.

``# dllint: ignore[name-or-code, ...] -- reason`` covers the statement it stands in or above, ``file-ignore`` the file,
``disable`` the lines down to its ``enable`` or to the end of its block. ``# noqa: DL101`` is read as well; the codes of
other tools in it are none of dllint's business.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dllint.engine_rules import InvalidSuppressionRule, UnusedSuppressionRule
from dllint.findings import Finding, Fix, Held
from dllint.syntax.comment_edits import offset_of, removal
from dllint.syntax.directives import Directive, Mention, may_suppress, read_directives
from dllint.syntax.statements import Layout, read_layout

if TYPE_CHECKING:
    from dllint.files.source import SourceFile
    from dllint.rule import Rule

_Stretch = tuple[int, int, Directive]  # first and last line


class Suppressions:
    """The suppression comments of one file.

    Use it in this order: :meth:`apply` on all findings of the file, then :meth:`invalid`, then :meth:`unused`.

    Attributes:
        held: what :meth:`apply` has taken out, with the reasons that the comments give.
    """

    def __init__(self, source: SourceFile, layout: Layout, directives: list[Directive]) -> None:
        self._source = source
        self._layout = layout
        self._directives = directives
        self.held: list[Held] = []
        self._of_statement: dict[int, list[Directive]] = defaultdict(list)  # by its first line
        blocks = (directive for directive in directives if directive.verb in ("file-ignore", "disable"))
        self._blocks = sorted(blocks, key=lambda block: block.first)
        self._of_code: dict[str, list[_Stretch]] = {}
        for directive in directives:
            if directive.verb in ("ignore", "noqa") and directive.last:  # else it stands above nothing
                self._of_statement[directive.first].append(directive)

    @classmethod
    def parse(cls, source: SourceFile, known: Mapping[str, str], *, require_reason: bool = False) -> Suppressions:
        """Read the comments of a file. No text makes this fail.

        Args:
            source: the file; a notebook counts as one module.
            known: the code of each rule, by its name and by its code.
            require_reason: find fault with comments that give no reason.
        """
        if not may_suppress(source.text, known):
            return cls(source, Layout([]), [])
        layout = read_layout(source)
        return cls(source, layout, read_directives(layout, known, require_reason))

    def apply(self, findings: Iterable[Finding]) -> tuple[list[Finding], int]:
        """Take out the suppressed findings, and note which comments were of use.

        Returns:
            The findings that are left, in their order, and the number of those that are not.
        """
        everything = list(findings)
        if not self._directives:
            return everything, 0
        kept = []
        for finding in everything:
            if hiding := self._suppresses(finding):
                self.held.append(Held(finding, "comment", hiding[0].reason))
            else:
                kept.append(finding)
        return kept, len(everything) - len(kept)

    def unused(self, ran: Collection[str], *, blanket: bool = False) -> list[Finding]:
        """Report (DL004) the comments, and the words in them, that have suppressed nothing.

        Args:
            ran: the codes of the rules that ran on all of this file. Of others nothing can be said.
            blanket: whether a comment without codes can be judged, because every rule that is on by default ran.
        """
        if not self._layout.exact:
            return []
        found = self._find_unused(ran, blanket)
        return [finding for directive, finding in found if not self._suppresses(finding, directive)]

    def invalid(self) -> list[Finding]:
        """Report (DL005) the comments that name an unknown rule, make no sense, or lack a required reason."""
        if not self._layout.exact:
            return []
        found = [
            (directive, self._finding(InvalidSuppressionRule, directive, directive.fault, directive.cure))
            for directive in self._directives
            if directive.fault
        ]
        return [finding for directive, finding in found if not self._suppresses(finding, directive)]

    def _suppresses(self, finding: Finding, about: Directive | None = None) -> list[Directive]:
        """The comments that hide a finding; a comment without codes does not hide what is said ``about`` itself."""
        line = self._source.position(self._source.span(finding.location)[0])[0]
        hiding = [
            directive
            for directive in (*self._near(line, finding.code), *self._around(line, finding.code))
            if directive is not about or directive.mentions
        ]
        for directive in hiding:
            directive.used.add(finding.code)
        return hiding

    def _near(self, line: int, code: str) -> list[Directive]:
        """The comments about a rule that belong to the statement on a line."""
        statement = self._layout.statement_at(line)
        directives = self._of_statement.get(statement.first, ()) if statement else ()
        return [directive for directive in directives if directive.names(code)]

    def _around(self, line: int, code: str) -> list[Directive]:
        """The comment about a rule that covers a line with many others; of several, the one that starts first."""
        if code not in self._of_code:
            self._of_code[code] = list(_stretches(self._blocks, code))
        stretches = self._of_code[code]
        index = bisect_right(stretches, line, key=lambda stretch: stretch[0]) - 1
        return [stretches[index][2]] if index >= 0 and line <= stretches[index][1] else []

    def _find_unused(self, ran: Collection[str], blanket: bool) -> Iterator[tuple[Directive, Finding]]:
        for directive in self._directives:
            if directive.verb == "enable":
                if directive.idle and not directive.fault:
                    yield self._unused(directive, (), "`enable` of what nothing above disables")
            elif not directive.verb:
                continue  # it is of no known form, which is said elsewhere
            elif not directive.mentions:
                if blanket and not directive.used:
                    yield self._unused(directive, (), "suppression comment that suppresses nothing")
            elif useless := [m for m in directive.mentions if m.code in ran and m.code not in directive.used]:
                words = ", ".join(mention.word for mention in useless)
                yield self._unused(directive, useless, f"suppression of {words}, which is not reported here")

    def _unused(self, directive: Directive, useless: Collection[Mention], message: str) -> tuple[Directive, Finding]:
        fix = Fix("Remove the suppression", (removal(self._source, directive, useless),), "safe")
        return directive, self._finding(UnusedSuppressionRule, directive, message, "remove it", fix)

    def _finding(self, rule: type[Rule], directive: Directive, message: str, help: str, *fixes: Fix) -> Finding:
        start = offset_of(self._source, directive.comment)
        return Finding(
            code=rule.code,
            name=rule.name,
            message=message,
            location=self._source.location_of(start + directive.start, start + directive.end),
            severity=rule.severity,
            category=rule.category,
            help=help,
            statement=" ".join(directive.comment.text.split()),
            fixes=fixes,
        )


def _stretches(blocks: Iterable[Directive], code: str) -> Iterator[_Stretch]:
    """The lines on which blocks suppress a rule, in order and apart, each stretch with the block that does it."""
    done = 0
    for block in blocks:
        end = block.ends.get(code, block.last)
        if block.names(code) and end > done:
            yield max(block.first, done + 1), end, block
            done = end
