"""``dllint server``: the language server."""

from __future__ import annotations

import click

from dllint.errors import UserError


@click.command("server", short_help="Serve an editor: diagnostics, fixes and explanations as you type.")
@click.option("--tcp", metavar="[HOST:]PORT", help="Listen on this address instead of standard input and output.")
@click.option("--stdio", is_flag=True, hidden=True, help="The default; some editors say so.")
def command(tcp: str | None, stdio: bool) -> None:
    """Serve one editor by the language server protocol, over standard input and output unless --tcp is given."""
    address = _address(tcp) if tcp else None
    try:
        from dllint.server.main import serve
    except ModuleNotFoundError as error:
        if error.name not in ("pygls", "lsprotocol"):
            raise
        raise UserError("the language server needs the extra `lsp`: pip install 'dllint[lsp]'") from error
    serve(address)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise click.BadParameter(f"{text!r} is not of the form [HOST:]PORT", param_hint="--tcp")
    return host or "127.0.0.1", int(port)
