"""An editor for the tests: pytest-lsp's client, connected to the real server in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Union

from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

TIMEOUT = 60.0

PUSH = "neovim@0.7.0"
PULL = "neovim@0.11.0"


class Editor:
    """What a user does in an editor, and what it shows."""

    def __init__(self, client: LanguageClient, root: Path, capabilities: types.ServerCapabilities) -> None:
        self.client = client
        self.capabilities = capabilities
        self.root = root
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    def open(self, name: str, text: str | None = None) -> str:
        """Open a file, with its text on disk or another one."""
        uri = self.uri(name)
        self.texts[uri] = (self.root / name).read_text("utf-8") if text is None else text
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, "python", 1, self.texts[uri])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def change(self, name: str, text: str) -> None:
        """Replace all of the text."""
        self._send(self.uri(name), types.TextDocumentContentChangeWholeDocument(text))
        self.texts[self.uri(name)] = text

    def edit(self, name: str, line: int, start: int, end: int, text: str) -> None:
        """Replace a part of a line; all counted from 0, in the units of the connection."""
        where = types.Range(types.Position(line, start), types.Position(line, end))
        self._send(self.uri(name), types.TextDocumentContentChangePartial(where, text))

    def _send(self, uri: str, *changes: types.TextDocumentContentChangeEvent) -> None:
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, list(changes)))

    def close(self, name: str) -> None:
        document = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    def save(self, name: str) -> None:
        document = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    async def pull(self, uri: str, previous: str | None = None) -> types.DocumentDiagnosticReport:
        """Ask for diagnostics."""
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri), previous_result_id=previous)
        return await asyncio.wait_for(self.client.text_document_diagnostic_async(params), TIMEOUT)

    async def diagnostics(self, name: str) -> Sequence[types.Diagnostic]:
        """The diagnostics of a file as it is now."""
        report = await self.pull(self.uri(name))
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def codes(self, name: str) -> list[tuple[str, int]]:
        """The codes of the diagnostics, each with its line from 1."""
        return codes(await self.diagnostics(name))

    async def published(self, uri: str, wanted: Callable[[Sequence[types.Diagnostic]], bool]) -> list[tuple[str, int]]:
        """Wait until what is published of a document is as wanted."""
        async with asyncio.timeout(TIMEOUT) if sys.version_info >= (3, 11) else _no_timeout():
            while uri not in self.client.diagnostics or not wanted(self.client.diagnostics[uri]):
                await self.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        return codes(self.client.diagnostics[uri])


@asynccontextmanager
async def _no_timeout() -> AsyncIterator[None]:
    yield


def codes(diagnostics: Sequence[types.Diagnostic]) -> list[tuple[str, int]]:
    """The codes of diagnostics, each with its line from 1, in the order of the lines."""
    found = [(str(each.code), each.range.start.line + 1) for each in diagnostics]
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


def run(
    scenario: Callable[[Editor], Coroutine[Any, Any, None]],
    root: Path,
    *,
    client: str = PULL,
    options: dict[str, Any] | None = None,
    encodings: Sequence[types.PositionEncodingKind | str] = (),
    prepare: Callable[[LanguageClient], None] = lambda client: None,
    seconds: float = 4 * TIMEOUT,
) -> None:
    """Run a scenario with an editor whose workspace is a folder.

    Args:
        scenario: what happens.
        root: the workspace folder.
        client: whose capabilities the editor has (a name that pytest-lsp knows).
        options: the initialization options.
        encodings: what the editor can count columns in, the best first.
        prepare: called with the client before it connects.
        seconds: how long it may take.
    """
    made = _client()
    prepare(made)
    asyncio.run(asyncio.wait_for(_run(made, scenario, root, client, options, encodings), seconds))


def _client() -> LanguageClient:
    """A client that takes a code action with a command for what it is; lsprotocol takes it for the command."""
    client = make_test_lsp_client()
    converter = client.protocol._converter
    converter.register_structure_hook(
        Union[types.Command, types.CodeAction],  # noqa: UP007 - the key of the hook that is replaced
        lambda given, _: converter.structure(given, types.CodeAction),
    )
    return client


async def _run(
    client: LanguageClient,
    scenario: Callable[[Editor], Coroutine[Any, Any, None]],
    root: Path,
    name: str,
    options: dict[str, Any] | None,
    encodings: Sequence[types.PositionEncodingKind | str],
) -> None:
    await client.start_io(sys.executable, "-m", "dllint", "server")
    capabilities = client_capabilities(name)
    if encodings:
        capabilities.general = types.GeneralClientCapabilities(position_encodings=list(encodings))
    try:
        answer = await client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities,
                workspace_folders=[types.WorkspaceFolder(root.as_uri(), root.name)],
                root_uri=root.as_uri(),
                initialization_options=options,
            )
        )
        await scenario(Editor(client, root, answer.capabilities))
    finally:
        await asyncio.wait_for(client.shutdown_session(), TIMEOUT)
        await client.stop()
