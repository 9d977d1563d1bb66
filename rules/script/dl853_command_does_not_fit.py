"""A command of the project gives an option that its script does not have.

The README, or the shell script that starts the experiments, was written for another state of the parser: an option was
renamed, removed, or is spelled otherwise. Whoever follows it gets an error instead of the result that it promises; in a
list of jobs, the one with the mistake is skipped, and the table of results has a gap or an old number.

Measured on Python 3.11 with a script that has `--epochs` and `--lr`: `python train.py --epochs 3 --learning_rate 0.1`
ends with `error: unrecognized arguments: --learning_rate 0.1` and the exit code 2, before anything is imported after
the parser or trained. In a shell script of three such lines, without `set -e`, the other two run, and the script's exit
code is 0.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    # file: README.md
    # python main.py --learning_rate 0.01

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    # file: README.md
    # python main.py --lr 0.01

## Not reported
Options that are shortened (`--learn` for `--learning_rate`) or negated; parsers that get options elsewhere: from a
function, a parent, a loop, a subcommand; those that leave alone what they do not know (`parse_known_args`), or are
asked about something else than the command line; scripts that read or change `sys.argv`; commands whose script may be
one of several files (as where a folder around the note has one of the name, which a copied repository brings), or that
may be of a repository which the same text fetches; commands in the middle of a sentence, and those that a shell passes
over (in a here-document or a text for `:`, or under `if false`). Where a variable of the shell starts a script, it is
looked at if the text sets it to a Python and to nothing else.

## On real code
1,216 public repositories: 49 findings in 36 of them, 41 true, 3 false and 5 doubtful. Two false ones were options of
another program (`$(seq -s " " 3)`), one a folder that the project does not have; these are passed over since. Doubtful
are private notes, and scripts that end at their imports. In 368 others, read by people who had seen none of it, 7
findings: 6 true, and one doubtful, in a script that ends at its imports.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, RefusedCommand, Rule, misspelled


class CommandDoesNotFit(Rule):
    code = "DL853"
    name = "command-does-not-fit"
    category = "correctness"
    severity = "error"
    triggers = (("parse_args",), ("ArgumentParser",))
    of_files = True
    references = ("https://docs.python.org/3/library/argparse.html#argument-abbreviations-prefix-matching",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "argparse.ArgumentParser.parse_args":
            return
        refused = ctx.refused_commands(event)
        if not refused:
            return
        first, *more = sorted(refused, key=lambda each: len(each.flags))
        flags = " and ".join(f"`{each}`" for each in first.flags[:2])
        flags += f" (and {len(first.flags) - 2} more)" if len(first.flags) > 2 else ""
        others = f", and those of {len(more)} more that do not fit" if more else ""
        yield ctx.finding(
            self,
            event,
            f"`{first.place}` gives {flags}, which this parser does not have",
            effect="`argparse` ends the command with an error, before anything is trained",
            help=_help(first),
            trace=[*ctx.calls_to(event), (event.site, f"the options of `{first.place}` are read here{others}")],
        )


def _help(command: RefusedCommand) -> str:
    """What to write instead, where one of the parser's own options is spelled nearly so."""
    flag, file = command.flags[0], command.place.rpartition(":")[0]
    meant = misspelled(flag, sorted(command.known))
    return f"give `{meant}` in `{file}`" if meant else f"correct `{file}`, or add `{flag}` to the parser"
