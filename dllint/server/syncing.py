"""What the client tells without asking for anything: its life cycle, documents, settings and files on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsprotocol import types

from dllint.config.load import FILE_NAMES
from dllint.config.schema import BASELINE_FILE
from dllint.server.documents import Document, OpenNotebook, path_of
from dllint.server.features import report_everything
from dllint.server.options import Options
from dllint.server.server import Server, uris_of

_SECTION = "dllint"
_WATCHED = (*(f"**/{name}" for name in FILE_NAMES), "**/*.py", f"**/{BASELINE_FILE}", "**/requirements*.txt")


def register(server: Server) -> None:
    """Add the handlers to a server."""
    _life_cycle(server)
    _files(server)
    _notebooks(server)
    _surroundings(server)


def _life_cycle(server: Server) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.begin(params)
        if server.options.workspace:
            report_everything(server)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        if server.watches:
            watchers = [types.FileSystemWatcher(glob) for glob in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration("files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await server.client_register_capability_async(types.RegistrationParams([registration]))
        await configure(server)

    @server.feature(types.SHUTDOWN)
    async def shutdown(params: None) -> None:
        await server.close()


def _files(server: Server) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.documents.open(params.text_document)
        server.checker.poke()

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.documents.change(params.text_document.uri, params.text_document.version, params.content_changes)
        server.checker.poke()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        document = server.documents.find(params.text_document.uri)
        server.documents.close(params.text_document.uri)
        _closed(server, document)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.sweep()
        if not server.watches:  # then a save is the occasion to look at what else has changed
            await server.checker.run(server.projects.reload)
            server.checker.poke()


def _notebooks(server: Server) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenNotebookDocumentParams) -> None:
        server.documents.open_notebook(params.notebook_document, params.cell_text_documents)
        server.checker.poke()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeNotebookDocumentParams) -> None:
        document = params.notebook_document
        before = server.documents.find(document.uri)
        uris = set(uris_of(before)) if before is not None else set()
        server.documents.change_notebook(document.uri, document.version, params.change)
        after = server.documents.find(document.uri)
        server.clear(sorted(uris - set(uris_of(after) if after is not None else ())))
        server.checker.poke()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseNotebookDocumentParams) -> None:
        document = server.documents.find(params.notebook_document.uri)
        server.documents.close_notebook(params.notebook_document.uri)
        _closed(server, document)


def _closed(server: Server, document: Document | OpenNotebook | None) -> None:
    if document is not None:
        server.clear(uris_of(document))
        server.checker.forget(document.path)
        server.checker.poke()


def _surroundings(server: Server) -> None:
    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def on_disk(params: types.DidChangeWatchedFilesParams) -> None:
        server.sweep()
        paths = [path for change in params.changes if (path := path_of(change.uri)) is not None]
        if all(path.suffix == ".py" for path in paths):
            closed = [path for path in paths if server.documents.at(path) is None]
            if not closed:
                return  # the editor has saved what we know already
            await server.checker.run(server.projects.reread)
        else:
            await server.checker.run(server.projects.reload)
        server.checker.poke()

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def settings(params: types.DidChangeConfigurationParams) -> None:
        await configure(server, params.settings)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        await configure(server)


async def configure(server: Server, given: Any = None) -> None:
    """Take over the client's settings: those it is asked for or, where it cannot be asked, those it has sent."""
    folders = server.folders()
    own: dict[Path, Options] = {}
    if server.has_configuration:
        items = [types.ConfigurationItem(scope_uri=folder.as_uri(), section=_SECTION) for folder in folders]
        items.append(types.ConfigurationItem(section=_SECTION))
        *of_folders, of_all = await server.workspace_configuration_async(types.ConfigurationParams(items))
        options = Options.of(of_all, server.options)
        own = {folder: Options.of(each, options) for folder, each in zip(folders, of_folders, strict=True)}
    else:
        section = given.get(_SECTION, given) if isinstance(given, dict) else None
        options = Options.of(section, server.options)
    server.applied = (options, own)
    server.sweep()
    await server.checker.run(lambda: server.projects.configure(folders, options, own))
    server.checker.poke()
