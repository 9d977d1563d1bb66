"""Starting the server."""

from __future__ import annotations

import logging

from dllint.server import commands, features, syncing
from dllint.server.server import Server


def create() -> Server:
    """A server with all its features."""
    server = Server()
    syncing.register(server)
    features.register(server)
    commands.register(server)
    return server


def serve(address: tuple[str, int] | None) -> None:
    """Serve one client, until it leaves: at an address or, without one, over standard input and output."""
    logging.basicConfig(level=logging.WARNING)  # to standard error, which editors keep as the server's log
    server = create()
    if address is None:
        server.start_io()
    else:
        logging.getLogger("pygls.server").setLevel(logging.INFO)  # it says which port it is, where any would do
        server.start_tcp(*address)
