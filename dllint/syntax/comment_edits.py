"""Edits that take suppression comments out of a file, and that put new ones in.

They touch only what is dllint's: the codes of other tools and other words in a comment stay as they are, and no white
space is left behind at the end of a line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dllint.findings import Edit, Finding, Fix
from dllint.syntax.directives import Directive, Mention, read_directives
from dllint.syntax.statements import Comment, Statement, read_layout

if TYPE_CHECKING:
    from dllint.files.source import SourceFile


def removal(source: SourceFile, directive: Directive, useless: Collection[Mention]) -> Edit:
    """The edit that removes some words of a directive, or all of it where none is named or none would be left."""
    comment = directive.comment
    base = offset_of(source, comment)
    kept = [mention for mention in directive.mentions if mention not in useless]
    if useless and kept:
        first, last = directive.mentions[0], directive.mentions[-1]
        return Edit(base + first.start, base + last.end, _join(comment.text, directive.mentions, kept))
    before, after = comment.text[: directive.start], comment.text[directive.end :]
    if not before and not after.strip():
        return _whole_comment(source, comment)
    end = directive.end + len(after) - len(after.lstrip(" \t,;:-"))
    is_words = bool(after.strip()) and comment.text[end : end + 1] != "#"
    if before:
        end = directive.end if after.strip() else len(comment.text)
        return Edit(base + len(before.rstrip()), base + end, "  #" if is_words else "")
    return Edit(base, base + end, "# " if is_words else "")


def offset_of(source: SourceFile, comment: Comment) -> int:
    """Where a comment starts in the text of its file."""
    return source.line_starts[comment.line - 1] + comment.column


def _join(text: str, mentions: Sequence[Mention], kept: Collection[Mention]) -> str:
    """The words that are kept, each but the first behind the separator it had."""
    joined = ""
    for previous, mention in zip((None, *mentions), mentions, strict=False):
        if mention in kept:
            separator = text[previous.end : mention.start] if joined and previous else ""
            joined += separator + mention.word
    return joined


def _whole_comment(source: SourceFile, comment: Comment) -> Edit:
    """Remove a comment with the white space before it, or with its line if it has one of its own."""
    starts = source.line_starts
    start = starts[comment.line - 1]
    line = source.line_text(comment.line)
    if not comment.own_line:
        return Edit(start + len(line[: comment.column].rstrip()), start + len(line), "")
    if comment.line == len(starts):
        return Edit(start, start + len(line), "")
    return Edit(start, starts[comment.line], "")


def with_suppression(
    source: SourceFile, findings: Iterable[Finding], known: Mapping[str, str], reason: str = ""
) -> list[Finding]:
    """Give findings the fix that suppresses them where they are, instead of their own.

    A comment goes behind the last line of the finding's statement, which is never inside a string nor behind a
    backslash. Where the statement has an ``ignore`` with a list, the list is made longer instead.

    Args:
        source: the file.
        findings: what to suppress; all of this file.
        known: the code of each rule, by its name and by its code.
        reason: what to write behind the names, if anything.

    Returns:
        The findings, in their order. Those of one statement share an edit. One that stands in no statement, or in a
        file that Python cannot read, has no fix.
    """
    layout = read_layout(source)
    places: list[tuple[Finding, Statement | None]] = []
    names: dict[Statement, list[str]] = {}
    for finding in findings:
        line = source.position(source.span(finding.location)[0])[0]
        statement = layout.statement_at(line) if layout.exact else None
        places.append((finding, statement))
        if statement is not None and finding.name not in names.setdefault(statement, []):
            names[statement].append(finding.name)
    present = {
        (directive.first, directive.last): directive
        for directive in read_directives(layout, known, require_reason=False)
        if directive.verb == "ignore" and directive.mentions
    }
    fixes: dict[Statement | None, tuple[Fix, ...]] = {None: ()}
    for statement, missing in names.items():
        directive = present.get((statement.first, statement.last))
        edit = _longer(source, directive, missing) if directive else _new(source, statement, missing, reason)
        fixes[statement] = (Fix("Suppress it here", (edit,), "safe"),)
    return [replace(finding, fixes=fixes[statement]) for finding, statement in places]


def _longer(source: SourceFile, directive: Directive, names: Sequence[str]) -> Edit:
    end = offset_of(source, directive.comment) + directive.mentions[-1].end
    return Edit(end, end, "".join(f", {name}" for name in names))


def _new(source: SourceFile, statement: Statement, names: Sequence[str], reason: str) -> Edit:
    start, line = source.line_starts[statement.last - 1], source.line_text(statement.last)
    comment = f"  # dllint: ignore[{', '.join(names)}]" + (f" -- {reason}" if reason else "")
    return Edit(start + len(line.rstrip()), start + len(line), comment)
