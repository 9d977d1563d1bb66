"""The language server: what the client says reaches the documents and the workspace, results reach the client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from lsprotocol import types
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.lsp.server import LanguageServer

from dllint import __version__
from dllint.files.source import SourceError, read_source
from dllint.findings import Finding
from dllint.server.checker import Checker
from dllint.server.convert import SOURCE, Diagnostics
from dllint.server.documents import Document, Documents, OpenNotebook, path_of, uri_of
from dllint.server.options import Options
from dllint.server.protocol import Protocol
from dllint.server.session import Result
from dllint.server.sweeping import Order, Sweeper, Swept
from dllint.server.text import Text
from dllint.server.workspace import Workspace

T = TypeVar("T")

NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="jupyter-notebook", cells=[types.NotebookCellLanguage(language="python")]
        )
    ],
    save=False,
)


class Server(LanguageServer):
    """The server and all that it knows of its one client."""

    checker: Checker

    def __init__(self) -> None:
        super().__init__(SOURCE, __version__, notebook_document_sync=NOTEBOOKS, protocol_cls=Protocol)
        self.documents = Documents("utf-16")
        self.projects = Workspace()
        self.options = Options()
        self.applied: tuple[Options, Mapping[Path, Options]] = (self.options, {})  # for all folders, for single ones
        self._shown: dict[str, tuple[str, list[types.Diagnostic]]] = {}  # result id and diagnostics by URI
        self._verdicts: dict[Path, tuple[str, dict[Finding, str]]] = {}  # and the text that was run
        self._count = 0
        self._at_work: set[asyncio.Future[Any]] = set()
        self._is_leaving = False
        self._sweeper: Sweeper | None = None
        self._swept: Mapping[Path, Swept] = {}

    def begin(self, params: types.InitializeParams) -> None:
        """A client has connected: take over what it can do and what it wants."""
        encoding = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
        self.documents = Documents(str(getattr(encoding, "value", encoding)))
        self.options = Options.of(params.initialization_options)
        self.applied = (self.options, {})
        self.checker = Checker(self.documents, self.projects, self.show, self.tell)
        self.projects.configure(self.folders(), self.options, {})
        if self.options.workspace:
            self._sweeper = Sweeper(lambda: Order(self.folders(), *self.applied), self.show_swept)

    def sweep(self) -> None:
        """Check the files on disk, if the client wants to know of them."""
        if self._sweeper is not None:
            self._sweeper.request()

    async def close(self) -> None:
        """The client leaves: end what is under way."""
        self._is_leaving = True
        self.checker.close()
        if self._sweeper is not None:
            self._sweeper.close()
        for task in self._at_work:
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Tell the user of an error, while there is somebody to tell: to fail at that is an error, too."""
        if not self._is_leaving:
            super().report_server_error(error, source)

    def folders(self) -> list[Path]:
        """The workspace folders."""
        uris = list(self.workspace.folders) or [self.workspace.root_uri]
        return [path for uri in uris if uri and (path := path_of(uri)) is not None]

    # ---------------------------------------------------------------------------------- what the client can do

    @property
    def pulls(self) -> bool:
        """Whether the client asks for diagnostics itself."""
        text = self.client_capabilities.text_document
        return text is not None and text.diagnostic is not None

    @property
    def shows_related(self) -> bool:
        """Whether the client shows other places beside a diagnostic."""
        text = self.client_capabilities.text_document
        published = text.publish_diagnostics if text is not None else None
        return self.pulls or (published is not None and bool(published.related_information))

    @property
    def takes_versions(self) -> bool:
        """Whether edits can carry the version of the document that they are for."""
        workspace = self.client_capabilities.workspace
        edits = workspace.workspace_edit if workspace is not None else None
        return edits is not None and bool(edits.document_changes)

    @property
    def watches(self) -> bool:
        """Whether the client can be asked to watch files."""
        workspace = self.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace is not None else None
        return watching is not None and bool(watching.dynamic_registration)

    @property
    def has_configuration(self) -> bool:
        """Whether the client can be asked for its settings."""
        workspace = self.client_capabilities.workspace
        return workspace is not None and bool(workspace.configuration)

    @property
    def resolves(self) -> bool:
        """Whether the client asks for the edit of a code action when it is chosen."""
        text = self.client_capabilities.text_document
        action = text.code_action if text is not None else None
        support = action.resolve_support if action is not None else None
        return support is not None and "edit" in support.properties

    @property
    def opens_documents(self) -> bool:
        """Whether the client can be asked to show a document."""
        window = self.client_capabilities.window
        return window is not None and window.show_document is not None and window.show_document.support

    async def work(self, title: str, job: Coroutine[Any, Any, T]) -> T:
        """Do something that takes long: shown, where the client can, and given up when the user or the client leaves.

        Raises:
            asyncio.CancelledError: it was given up.
        """
        task = asyncio.ensure_future(job)
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)
        window = self.client_capabilities.window
        if window is None or not window.work_done_progress:
            return await task
        token = str(uuid4())
        await self.work_done_progress.create_async(token)
        self.work_done_progress.begin(token, types.WorkDoneProgressBegin(title, cancellable=True))
        self.work_done_progress.tokens[token].add_done_callback(lambda _: task.cancel())
        try:
            return await task
        finally:
            if not self._is_leaving:
                self.work_done_progress.end(token, types.WorkDoneProgressEnd())

    # ------------------------------------------------------------------------------------------------- results

    def show(self, path: Path, result: Result) -> None:
        """There is a new result: publish it, or let the client know that what it has may be old."""
        document = self.documents.at(path)
        if document is None:
            return
        changed = False
        for uri, diagnostics in self.diagnostics(document, result).items():
            changed |= self._remember(uri, diagnostics)
            if not self.pulls:
                version = _version(document, uri)
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))
        if changed and self.pulls:
            self._refresh()

    def diagnostics(self, document: Document | OpenNotebook, result: Result) -> Mapping[str, list[types.Diagnostic]]:
        """The diagnostics of a document by URI. Verdicts of runs stay until the text changes."""
        text, verdicts = self._verdicts.get(document.path, ("", {}))
        if text != document.source:
            self._verdicts.pop(document.path, None)
            verdicts = {}
        return Diagnostics(document, result, self.text_at, self.shows_related, verdicts).collect()

    def settle(self, path: Path, text: str, finding: Finding, verdict: str) -> None:
        """Show what a run of a file with this text has said about a finding in it."""
        known = self._verdicts.get(path)
        verdicts = known[1] if known is not None and known[0] == text else {}
        self._verdicts[path] = (text, {**verdicts, finding: verdict})
        result = self.checker.results.get(path)
        if result is not None:
            self.show(path, result)

    def _remember(self, uri: str, diagnostics: list[types.Diagnostic]) -> bool:
        """Note what the diagnostics are now. Returns whether they are others than before."""
        known = self._shown.get(uri)
        if known is not None and known[1] == diagnostics:
            return False
        self._count += 1
        self._shown[uri] = (str(self._count), diagnostics)
        return known is not None

    def _refresh(self) -> None:
        workspace = self.client_capabilities.workspace
        diagnostics = workspace.diagnostics if workspace is not None else None
        if diagnostics is not None and diagnostics.refresh_support:
            self.workspace_diagnostic_refresh(None)

    async def report(self, uri: str, previous: str | None) -> types.DocumentDiagnosticReport:
        """The diagnostics of a document as it is now."""
        await self.checker.settled()
        identifier, diagnostics = self._shown.get(uri, ("0", []))
        if identifier == previous:
            return types.RelatedUnchangedDocumentDiagnosticReport(identifier)
        return types.RelatedFullDocumentDiagnosticReport(diagnostics, result_id=identifier)

    def show_swept(self, found: Mapping[Path, Swept]) -> None:
        """Files on disk have been checked: show what was found in those that are not open."""
        before, self._swept = self._swept, found
        for path in sorted({*before, *found}):
            if self.documents.at(path) is None:
                self._show_unopened(path)
        self._refresh()

    def _show_unopened(self, path: Path) -> None:
        """Show what was found in a file on disk. Cells of a notebook have no names before it is opened."""
        text = self.text_at(path)
        if text is None:
            return
        swept = self._swept.get(path, Swept())
        document = Document(uri_of(path), path, 0, text)
        result = Result(None, swept.findings, swept.known)
        diagnostics = Diagnostics(document, result, self.text_at, self.shows_related).collect()[document.uri]
        self._remember(document.uri, diagnostics)
        if not self.pulls:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, diagnostics))

    async def report_unopened(self, previous: Mapping[str, str]) -> list[types.WorkspaceDocumentDiagnosticReport]:
        """The diagnostics of all files that are not open, as they are on disk; ``previous`` are known result ids."""
        if self._sweeper is not None:
            await self._sweeper.settled()
        reports: list[types.WorkspaceDocumentDiagnosticReport] = []
        for uri, (identifier, diagnostics) in list(self._shown.items()):
            if self.documents.find(uri) is not None:
                continue
            if previous.get(uri) == identifier:
                reports.append(types.WorkspaceUnchangedDocumentDiagnosticReport(uri, identifier))
            else:
                reports.append(types.WorkspaceFullDocumentDiagnosticReport(uri, diagnostics, result_id=identifier))
        return reports

    def clear(self, uris: Sequence[str]) -> None:
        """Documents were closed: nothing is shown in them any more but what was found in the files on disk."""
        for uri in uris:
            self._shown.pop(uri, None)
            path = path_of(uri)
            if path is not None and path in self._swept:
                self._show_unopened(path)
            elif not self.pulls:
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def text_at(self, path: Path) -> Text | None:
        """The text of a file: the unsaved one if it is open. None for a notebook and for what cannot be read."""
        document = self.documents.at(path)
        if isinstance(document, Document):
            return document.text
        if path.suffix == ".ipynb":
            return None
        try:
            return Text(read_source(path).text, self.documents.encoding)
        except SourceError:
            return None

    def tell(self, message: str) -> None:
        """Show a message to the user."""
        self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"dllint: {message}"))


def _version(document: Document | OpenNotebook, uri: str) -> int | None:
    if isinstance(document, Document):
        return document.version
    return next((cell.version for cell in document.cells if cell.uri == uri), None)


def uris_of(document: Document | OpenNotebook) -> list[str]:
    """The URIs that diagnostics of a document are published for."""
    return [document.uri] if isinstance(document, Document) else [cell.uri for cell in document.cells]
