"""``dllint check``: lint, and report, mend or suppress what is found."""

from __future__ import annotations

from typing import Any

import click

from dllint.cli.options import color_option, possible_option, project_options, selection_options

WORDS = "dllint.words"  # of the command line, but for --watch


class CheckCommand(click.Command):
    """Lets ``--add-ignore`` stand without a reason: a word after it is a path, a reason is joined by ``=``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write a bare ``--add-ignore`` as one with an empty reason."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[WORDS] = [word for word in args[:end] if word != "--watch"] + args[end:]
        words = ["--add-ignore=" if word == "--add-ignore" else word for word in args[:end]]
        return super().parse_args(ctx, words + args[end:])


def _formats(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from dllint.report import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


@click.command(
    "check",
    cls=CheckCommand,
    short_help="Lint files and folders (also without the word `check`).",
    epilog="Exit code: 0 clean, 1 findings at or above --fail-on, 2 broken configuration, unreadable file or crash.",
)
@selection_options
@click.option("--fix", is_flag=True, help="Apply the fixes that keep the numbers of a run as they are.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: also the fixes that change them.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, as a patch, and change nothing.")
@click.option("--show-fixes", is_flag=True, help="List the fixes that were applied.")
@click.option("--statistics", is_flag=True, help="Show how often each rule is reported, instead of the findings.")
@click.option("--output-format", metavar="FORMAT", shell_complete=_formats, help="The format on standard output.")
@click.option("--output", "outputs", multiple=True, metavar="FORMAT:FILE", help="Write a report to a file as well.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    help="The severity from which findings make the exit code 1.  [default: warning]",
)
@possible_option
@click.option("--notes/--no-notes", default=None, help="List the findings of severity info, or leave them out.")
@click.option("--show-suppressed", is_flag=True, help="List in SARIF also what is suppressed or in the baseline.")
@click.option("--stdin-filename", type=click.Path(), metavar="FILE", help="What the code on standard input is called.")
@click.option(
    "--why-silent", metavar="FILE:LINE", help="Tell what kept rules from reporting a line, and report nothing."
)
@click.option("--verbose", "-v", is_flag=True, help="Tell what a run goes by, and which imports it could not follow.")
@click.option("--timing", is_flag=True, help="Show how long each rule took.")
@click.option("--watch", is_flag=True, help="Run again whenever a file changes, until Ctrl-C.")
@click.option("--add-ignore", metavar="[=REASON]", help="Suppress what is found, by comments with this reason.")
@click.option("--since", metavar="REV", help="Report only what changes since a revision of git bring.")
@click.option("--confirm", metavar="COMMAND", help="Run this under probes, and drop what the run refutes.")
@click.option("--executor", default="", metavar="dask://HOST:PORT", help="Let a Dask cluster do the work.")
@click.option("--strict-baseline", is_flag=True, help="Exit with 1 if the baseline has entries that are not needed.")
@color_option
@project_options
def command(**given: Any) -> int:
    """Lint files and folders, `.` by default; `-` is standard input.

    RULES are codes (DL101), prefixes (DL1), names (softmax-before-cross-entropy), categories (correctness), PREVIEW
    (the rules that are off until they are right more often) or ALL, with commas between them.
    """
    if given["why_silent"]:
        from dllint.cli.silence import explain

        return explain(given)
    if given["watch"]:
        if "-" in given["paths"] or given["add_ignore"] is not None:
            raise click.UsageError("--watch cannot be combined with `-` or --add-ignore")
        from dllint.cli.watch import watch

        return watch(click.get_current_context().meta[WORDS], given["paths"] or (".",))
    from dllint.cli.run import Run  # what a run needs is not needed to show the help

    return Run(given).execute()
