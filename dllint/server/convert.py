"""Findings as the language server protocol has them: diagnostics, and edits of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from lsprotocol import types

from dllint.dataclass import dataclass
from dllint.files.notebook import EditRefused
from dllint.files.source import SourceFile
from dllint.findings import Edit, Finding, Hop, Location, Problem
from dllint.report.text import assumed
from dllint.server.documents import Document, OpenNotebook, uri_of
from dllint.server.session import Result
from dllint.server.text import Text

SOURCE = "dllint"
TextAt = Callable[[Path], Text | None]  # the text of a file, open or not

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Hint,
}
_UNNECESSARY = ("DL004",)  # comments without effect are shown faded


def absolute(location: Location) -> Path:
    """The path of a location."""
    return Path(location.path).absolute()


def range_in(text: Text, location: Location) -> types.Range:
    """A location in the text that it counts lines of: a file's, or a cell's."""
    return text.range(
        _offset(text, location.line, location.column), _offset(text, location.end_line, location.end_column)
    )


def _offset(text: Text, line: int, column: int) -> int:
    starts = text.starts
    if line > len(starts):
        return len(text.content)
    return starts[max(line, 1) - 1] + column - 1


@dataclass(slots=True)
class Diagnostics:
    """The diagnostics of a document, by URI: of a notebook, each cell has its own."""

    document: Document | OpenNotebook
    result: Result
    text_at: TextAt
    with_related: bool = True
    verdicts: Mapping[Finding, str] = field(default_factory=dict)
    by_uri: dict[str, list[types.Diagnostic]] = field(default_factory=dict)

    def collect(self) -> Mapping[str, list[types.Diagnostic]]:
        """All diagnostics. Every cell of a notebook has an entry."""
        document = self.document
        cells = document.cells if isinstance(document, OpenNotebook) else ()
        self.by_uri = {cell.uri: [] for cell in cells if cell.text is not None} or {document.uri: []}
        for finding in self.result.findings:
            self._add(finding)
            if finding in self.verdicts:
                self._add_verdict(finding, self.verdicts[finding])
        for finding in self.result.known:
            self._add(finding, is_known=True)
        for problem in self.result.problems:
            if problem.kind != "crash":  # that one is a finding too
                self._add_problem(problem)
        return self.by_uri

    def _add(self, finding: Finding, *, is_known: bool = False) -> None:
        place = place_of(self.document, finding.location)
        if place is None:
            return
        uri, text = place
        note = order_note(self.result.source)
        self.by_uri.setdefault(uri, []).append(
            types.Diagnostic(
                range=range_in(text, finding.location),
                severity=types.DiagnosticSeverity.Hint if is_known else _SEVERITIES[finding.severity],
                code=finding.code,
                code_description=types.CodeDescription(finding.url) if finding.url else None,
                source=SOURCE,
                message=message_of(finding, is_known=is_known) + note,
                tags=[types.DiagnosticTag.Unnecessary] if is_known or finding.code in _UNNECESSARY else None,
                related_information=list(self._related(finding.trace)) if self.with_related else None,
                data={"finding": key_of(finding)},
            )
        )

    def _add_verdict(self, finding: Finding, verdict: str) -> None:
        """What a run has said about a finding, at its place."""
        place = place_of(self.document, finding.location)
        if place is not None:
            uri, text = place
            where = range_in(text, finding.location)
            severity = types.DiagnosticSeverity.Information
            self.by_uri[uri].append(types.Diagnostic(where, verdict, severity, finding.code, source=SOURCE))

    def _related(self, trace: Iterable[Hop]) -> Iterable[types.DiagnosticRelatedInformation]:
        for hop in trace:
            place = self._anywhere(hop.location)
            if place is not None:
                uri, text = place
                location = types.Location(uri, range_in(text, hop.location))
                yield types.DiagnosticRelatedInformation(location, hop.message)

    def _anywhere(self, location: Location) -> tuple[str, Text] | None:
        """The URI and the text of a place in this document or another."""
        path = absolute(location)
        if path == self.document.path:
            return place_of(self.document, location)
        text = self.text_at(path)
        return (uri_of(path), text) if text is not None else None

    def _add_problem(self, problem: Problem) -> None:
        uri = next(iter(self.by_uri))
        start = types.Position(0, 0)
        diagnostic = types.Diagnostic(
            types.Range(start, start), problem.message, types.DiagnosticSeverity.Warning, source=SOURCE
        )
        self.by_uri[uri].append(diagnostic)


def key_of(finding: Finding) -> list[str | int | None]:
    """What tells the findings of one document apart, as the client keeps it for us."""
    place = finding.location
    return [finding.code, place.cell, place.line, place.column, place.end_line, place.end_column]


def place_of(document: Document | OpenNotebook, location: Location) -> tuple[str, Text] | None:
    """The URI and the text that a location in an open document is in; None if its cell is gone."""
    if isinstance(document, Document):
        return document.uri, document.text
    index = (location.cell or 1) - 1
    cell = document.cells[index] if index < len(document.cells) else None
    return (cell.uri, cell.text) if cell is not None and cell.text is not None else None


def offset_at(
    document: Document | OpenNotebook, source: SourceFile | None, uri: str, where: types.Position
) -> int | None:
    """The offset in a source of a position in the open document that it was made of; None if it has none."""
    if isinstance(document, Document):
        return document.text.offset(where)
    number = next((number for number, cell in enumerate(document.cells, 1) if cell.uri == uri), 0)
    text = document.cells[number - 1].text if number else None
    cells = source.notebook.cells if source is not None and source.notebook is not None else ()
    cell = next((cell for cell in cells if cell.number == number), None)
    return cell.to_module(text.offset(where)) if cell is not None and text is not None else None


def message_of(finding: Finding, *, is_known: bool = False) -> str:
    """The message with what it does to training, what to do, and how sure that is, one to a line."""
    lines = [f"{finding.message} [{finding.name}]"]
    if finding.effect:
        lines.append(finding.effect)
    if finding.help:
        lines.append(f"help: {finding.help}")
    if finding.confidence != "certain":
        lines.append(finding.confidence + ("; a run can settle it" if finding.confirmable else ""))
    lines += [f"assuming: {text}" for text in assumed(finding)]
    if is_known:
        lines.append("in the baseline")
    return "\n".join(lines)


def order_note(source: SourceFile | None) -> str:
    """A line for findings in a notebook whose cells were last run in another order than they stand in; else nothing."""
    note = source.notebook.order_note() if source is not None and source.notebook is not None else ""
    return f"\n{note}" if note else ""


def text_edits(
    document: Document | OpenNotebook, source: SourceFile, edits: Sequence[Edit]
) -> Mapping[str, list[types.TextEdit]] | None:
    """Edits of a source as edits of open documents, by URI; None if they cannot be brought back into a notebook."""
    if isinstance(document, Document):
        text = document.text
        return {document.uri: [types.TextEdit(text.range(e.start, e.end), _ends(text, e.text)) for e in edits]}
    notebook = source.notebook
    if notebook is None or not notebook.accepts(edits):
        return None
    found: dict[str, list[types.TextEdit]] = {}
    for edit in edits:
        try:
            cell = notebook.cell_at(edit.start)
            start, end = cell.to_source(edit.start), cell.to_source(edit.end)
        except EditRefused:
            return None
        target = document.cells[cell.number - 1]
        if target.text is None:
            return None
        content = target.text.content
        new = edit.text.removesuffix("\n") if end > len(content) and start <= len(content) else edit.text
        if start > len(content):  # behind the line end that the module added to the cell
            new, start = "\n" + new.removesuffix("\n"), len(content)
        found.setdefault(target.uri, []).append(types.TextEdit(target.text.range(start, min(end, len(content))), new))
    return found


def _ends(text: Text, new: str) -> str:
    """An edit's text with the line ends of the document."""
    return new.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in text.content else new


def workspace_edit(
    edits: Mapping[str, Sequence[types.TextEdit]], versions: Mapping[str, int], *, versioned: bool
) -> types.WorkspaceEdit:
    """Edits of documents as one edit; with the versions they are for, where the client looks at them."""
    if not versioned:
        return types.WorkspaceEdit(changes={uri: list(each) for uri, each in edits.items()})
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, versions.get(uri)), list(each))
            for uri, each in edits.items()
        ]
    )
