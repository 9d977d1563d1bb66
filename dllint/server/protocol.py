"""The protocol without pygls' own copies of the open documents.

Ours split lines as the protocol does; those of pygls also split at form feeds and other characters, after which an
incremental edit would land in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from lsprotocol import types
from pygls.protocol import LanguageServerProtocol, lsp_method

Handled = Generator[Any, Any, None]


class Protocol(LanguageServerProtocol):
    """Hands notifications about documents to our own handlers alone, and ends with requests that are under way."""

    def _execute_handler(
        self,
        msg_id: str | int,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Let a handler deal with a message. pygls keeps the future of each for ever, but for those of requests."""

        def done(future: Any) -> None:
            self._request_futures.pop(msg_id, None)
            callback(future)

        super()._execute_handler(msg_id, handler, done, args, kwargs)

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *params: Any) -> Handled:
        """The client is about to leave."""
        own = self.msg_id
        yield self.fm.features[types.SHUTDOWN], params, None
        for request, future in list(self._request_futures.items()):  # those of pygls fall out of it while it counts
            if request != own:
                future.cancel()
        self._shutdown = True

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Handled:
        """A file was opened."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Handled:
        """A file was edited."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Handled:
        """A file was closed."""
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CLOSE], (params,), None

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> Handled:
        """A notebook was opened."""
        yield self.fm.features[types.NOTEBOOK_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: types.DidChangeNotebookDocumentParams) -> Handled:
        """A notebook was edited."""
        yield self.fm.features[types.NOTEBOOK_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: types.DidCloseNotebookDocumentParams) -> Handled:
        """A notebook was closed."""
        yield self.fm.features[types.NOTEBOOK_DOCUMENT_DID_CLOSE], (params,), None
