"""``dllint completion``: the script that makes a shell complete dllint's words."""

from __future__ import annotations

import click

from dllint.cli import streams


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
def command(shell: str) -> int:
    """Print a script for SHELL that completes commands, options and files.

    For bash: `dllint completion bash > ~/.local/share/bash-completion/completions/dllint`.
    """
    from click.shell_completion import get_completion_class

    from dllint.cli import group

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"the installed version of click cannot complete in {shell}; 8.5 and later can")
    streams.write(completion(group, {}, "dllint", "_DLLINT_COMPLETE").source() + "\n")
    return 0
