"""Starting the server."""

from __future__ import annotations

import logging

from lsprotocol import types

from dllint.server import syncing
from dllint.server.server import Server


def create() -> Server:
    """A server with all its features."""
    server = Server()
    syncing.register(server)
    _register_diagnostics(server)
    return server


def _register_diagnostics(server: Server) -> None:
    options = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="dllint")

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    async def diagnose(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        return await server.report(params.text_document.uri, params.previous_result_id)


def serve(address: tuple[str, int] | None) -> None:
    """Serve one client, until it leaves: at an address or, without one, over standard input and output."""
    logging.basicConfig(level=logging.WARNING)  # to standard error, which editors keep as the server's log
    server = create()
    if address is None:
        server.start_io()
    else:
        logging.getLogger("pygls.server").setLevel(logging.INFO)  # it says which port it is, where any would do
        server.start_tcp(*address)
