"""What an editor offers at a finding: fixes, a suppression, the baseline, the rule's page, a run that settles it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

from lsprotocol import types

from dllint.config.selectors import ENGINE_CODES
from dllint.config.settings import Settings
from dllint.dataclass import dataclass
from dllint.files.source import SourceFile
from dllint.findings import Edit, Finding, Fix
from dllint.server.convert import key_of, place_of, range_in, text_edits, workspace_edit
from dllint.server.documents import Document, OpenNotebook
from dllint.server.pages import known_rules
from dllint.server.session import Result
from dllint.server.text import Text
from dllint.syntax.comment_edits import with_suppression

FIX_ALL = "source.fixAll.dllint"
ADD_TO_BASELINE = "dllint.addToBaseline"
EXPLAIN = "dllint.explain"
CONFIRM = "dllint.confirm"
FIX_ALL_COMMAND = "dllint.fixAll"

_LABELS = {"safe": "", "unsafe": " (unsafe: changes the numbers of a run)", "suggestion": " (suggestion)"}


@dataclass(slots=True)
class Offers:
    """The actions for the findings of one document.

    Args:
        document: what is open.
        result: what was found in it as it is now.
        settings: the configuration of its project.
        diagnostics: what the client shows, to which actions are attached.
        versioned: whether edits carry versions.
    """

    document: Document | OpenNotebook
    result: Result
    settings: Settings
    diagnostics: Sequence[types.Diagnostic]
    versioned: bool

    def at(self, uri: str, where: types.Range) -> Iterator[types.CodeAction]:
        """The actions for findings on the lines of a range: the cursor need not be on the squiggle."""
        findings = [finding for finding in self.result.findings if self._touches(finding, uri, where)]
        for finding in findings:
            yield from self._fixes(finding)
        for finding in findings:
            yield from self._suppression(finding)
        for finding in findings:
            yield from self._commands(finding)

    def _touches(self, finding: Finding, uri: str, where: types.Range) -> bool:
        place = place_of(self.document, finding.location)
        if place is None or place[0] != uri:
            return False
        found = range_in(place[1], finding.location)
        return found.start.line <= where.end.line and where.start.line <= found.end.line

    def _fixes(self, finding: Finding) -> Iterator[types.CodeAction]:
        """The fixes of a finding, safe ones first. Only the first safe one is preferred."""
        preferred = next((fix for fix in finding.fixes if fix.safety == "safe"), None)
        for fix in sorted(finding.fixes, key=lambda fix: list(_LABELS).index(fix.safety)):
            edit = self._edit(fix.edits)
            if edit is not None:
                yield types.CodeAction(
                    f"{fix.message}{_LABELS[fix.safety]}",
                    kind=types.CodeActionKind.QuickFix,
                    diagnostics=self._shown(finding),
                    is_preferred=fix is preferred,
                    edit=edit,
                )

    def _suppression(self, finding: Finding) -> Iterator[types.CodeAction]:
        source = self.result.source
        if source is None or finding.code in ENGINE_CODES:
            return
        (offered,) = with_suppression(source, [finding], known_rules(self.settings))
        for fix in offered.fixes:
            yield from self._plain(f"Ignore {finding.name} on this line", fix, finding)

    def _plain(self, title: str, fix: Fix, finding: Finding) -> Iterator[types.CodeAction]:
        edit = self._edit(fix.edits)
        if edit is not None:
            shown = self._shown(finding)
            yield types.CodeAction(title, kind=types.CodeActionKind.QuickFix, diagnostics=shown, edit=edit)

    def _commands(self, finding: Finding) -> Iterator[types.CodeAction]:
        uri, key = self.document.uri, key_of(finding)
        commands: list[tuple[str, str, list[Any]]] = []
        if finding.code not in ENGINE_CODES:
            commands.append((f"Add {finding.name} to the baseline", ADD_TO_BASELINE, [uri, key]))
            commands.append((f"Explain {finding.name} ({finding.code})", EXPLAIN, [uri, finding.code]))
        if finding.confirmable and isinstance(self.document, Document):
            commands.append((f"Confirm {finding.name} at run time", CONFIRM, [uri, key]))
        for title, name, arguments in commands:
            command = types.Command(title, name, arguments=arguments)
            shown = self._shown(finding)
            yield types.CodeAction(title, kind=types.CodeActionKind.QuickFix, diagnostics=shown, command=command)

    def _edit(self, edits: Sequence[Edit]) -> types.WorkspaceEdit | None:
        source = self.result.source
        changes = text_edits(self.document, source, edits) if source is not None else None
        if changes is None:
            return None
        return workspace_edit(changes, versions_of(self.document), versioned=self.versioned)

    def _shown(self, finding: Finding) -> list[types.Diagnostic]:
        """The diagnostics of the client that are about a finding."""
        key = key_of(finding)
        return [each for each in self.diagnostics if isinstance(each.data, dict) and each.data.get("finding") == key]


def versions_of(document: Document | OpenNotebook) -> dict[str, int]:
    """The version of each text of a document, by URI."""
    if isinstance(document, Document):
        return {document.uri: document.version}
    return {cell.uri: cell.version for cell in document.cells}


def find(result: Result, key: Any) -> Finding | None:
    """The finding with a key."""
    return next((finding for finding in result.findings if key_of(finding) == key), None)


def changes_between(document: Document | OpenNotebook, after: SourceFile) -> dict[str, list[types.TextEdit]]:
    """The edits, by URI, that make a document what it should be."""
    if isinstance(document, Document):
        texts = [(document.uri, document.text, after.text)]
    else:
        assert after.notebook is not None  # it was made of a notebook
        new = {cell.number: "".join(cell.original) for cell in after.notebook.cells}
        texts = [
            (cell.uri, cell.text, new[number] if cell.text.content.endswith("\n") else new[number].removesuffix("\n"))
            for number, cell in enumerate(document.cells, 1)
            if cell.text is not None and number in new
        ]
    return {uri: list(_line_edits(text, wanted)) for uri, text, wanted in texts if text.content != wanted}


def _line_edits(text: Text, wanted: str) -> Iterator[types.TextEdit]:
    """Edits of whole lines that make one text another, so that what stays is not touched."""
    before, after = text.content.splitlines(keepends=True), wanted.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, before))]
    for tag, start, end, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield types.TextEdit(text.range(starts[start], starts[end]), "".join(after[first:last]))
