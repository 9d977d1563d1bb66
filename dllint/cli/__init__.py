"""The command line. Each command is the module of its name here, imported only when it is asked for.

This module is on the way of every start, so it imports click and nothing else that costs time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

import click

from dllint import __version__
from dllint.cli import streams
from dllint.collector import collect_seldom
from dllint.errors import Terminated, UserError

FAILURE = 2
INTERRUPTED, TERMINATED = 130, 143
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommandGroup(click.Group):
    """A group that imports its commands when they are asked for, and runs the first one where none is named.

    Args:
        places: the module and attribute of each command, as ``module:attribute``, by name.
    """

    def __init__(self, places: Mapping[str, str], *, name: str, help: str, short_help: str | None = None) -> None:
        super().__init__(name=name, help=help, short_help=short_help, context_settings=CONTEXT)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of the help."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._places:
            return None
        module, _, attribute = self._places[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the first command before arguments that begin with none."""
        own = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        completing_a_command = not args and ctx.resilient_parsing
        if not completing_a_command and not (args and (args[0] in self._places or args[0] in own)):
            args = [next(iter(self._places)), *args]
        return super().parse_args(ctx, args)


group = CommandGroup(
    {
        "check": "dllint.cli.check:command",
        "confirm": "dllint.cli.confirm:command",
        "rule": "dllint.cli.rule:command",
        "config": "dllint.cli.config:command",
        "baseline": "dllint.cli.baseline:command",
        "server": "dllint.cli.server:command",
        "clean": "dllint.cli.clean:command",
        "audit": "dllint.cli.audit:command",
        "new": "dllint.cli.new:command",
        "completion": "dllint.cli.completion:command",
    },
    name="dllint",
    help="Find the bugs in training code that run to the end and leave a worse model.\n\n"
    "`dllint PATH...` is `dllint check PATH...`.",
)
group = click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")(group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run dllint.

    Args:
        arguments: the words of the command line after the program's name; those of the process by default.

    Returns:
        The exit code: 0 clean, 1 findings, 2 dllint could not do its work, 130 interrupted.
    """
    collect_seldom()
    streams.prepare()
    try:
        status = group.main(arguments, prog_name="dllint", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except Terminated:
        return TERMINATED
    except (click.Abort, KeyboardInterrupt):
        streams.note("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        streams.fail(error.format_message().replace("\n\t", " "))  # click puts the choices on lines of their own
        if isinstance(error, click.UsageError) and error.ctx is not None:
            streams.note(f"`{error.ctx.command_path} --help` lists what can be given")
        return FAILURE
    except UserError as error:
        streams.fail(str(error))
        return FAILURE
    except SystemExit:  # click's answer to a reader of the help that has gone
        return 0
    except Exception:
        import traceback

        streams.draw(traceback.format_exc())
        streams.fail("this is a bug in dllint; please report it with the lines above")
        return FAILURE
