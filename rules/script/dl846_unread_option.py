"""An option of the command line that nothing reads.

The parser takes it, and whoever sets it believes that it counts: `--weight-decay 0.1` trains without any weight decay,
two runs of a comparison are one and the same. It is left of an earlier version, or it is read under another name.

Measured on torch 2.13 (a perceptron, 500 steps of AdamW): with a `--weight-decay` that nothing reads, the last losses
of runs with 0 and with 0.1 are equal to the last bit, .000411; with one that is read, they are .000317 and .001454.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    args = parser.parse_args()
    optimizer = optim.AdamW(model.parameters(), lr=args.lr)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    args = parser.parse_args()
    optimizer = optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)

## Not reported
Options that any file of the script, or of the project where files share a parser, has as an attribute of something or
as a text; all options where they are handed to code that is not seen (`f(**vars(args))`, `deepspeed.initialize(args)`)
or are read by names that are computed; options that launchers pass (`--local_rank`), that say of themselves that they
do nothing, or that the user does not have to know of (positional ones, hidden ones).

## On real code
276 public repositories: 50 findings in 20 of them, 48 true, 24 of these in the scripts of one repository (`--n_cpu`). 2
were false: options of a script that others import, and that are read by what those import. They are silent now.
In 160 others 27 findings: 26 true, and 1 false, of options that other files import as they were parsed, silent now.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Const, Context, External, Finding, Instance, LibraryCall, Rule

_ACTIONS = ("store", "store_true", "store_false", "append", "store_const")
_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_NEAR = 8  # lines
_OF_LAUNCHERS = ("local_rank", "local-rank", "deepspeed", "help")


# ------------------------------------------------------------------------------------------------- excuses


def is_passed_by_launchers(event: LibraryCall, name: str, ctx: Context) -> bool:
    """a launcher passes it, whether it is wanted or not"""
    return name in _OF_LAUNCHERS


def does_something_itself(event: LibraryCall, name: str, ctx: Context) -> bool:
    """its action does something of its own"""
    action = event.arguments.keywords.get("action")
    is_usual = isinstance(action, External) and action.name == "argparse.BooleanOptionalAction"
    return action is not None and not is_usual and ctx.constant(action) not in _ACTIONS


def says_so(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is hidden, or its help or a comment says that it is of no use"""
    above = event.site.module.source.text.split("\n")[max(0, event.site.line - _NEAR) : event.site.line - 1]
    comments = [line for line in above if line.lstrip().startswith("#")][-1:]  # the heading of the group
    said = " ".join([*comments, *ctx.lines_at(event.site)[1:]]).lower()
    return "suppress" in said or any(
        word in said for word in ("unused", "not used", "deprecated", "ignored", "no longer", "legacy", "todo")
    )


class UnreadOption(Rule):
    code = "DL846"
    name = "unread-option"
    category = "correctness"
    severity = "warning"
    triggers = (("add_argument",), _PARSING)
    references = ("https://docs.python.org/3/library/argparse.html#dest",)
    excuses = (is_passed_by_launchers, does_something_itself, says_so)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "argparse.ArgumentParser.add_argument" or ctx.program.kind != "module":
            return
        parser, flag = event.arguments.positional[0], _flag(event)
        is_asked = any(True for parse in _PARSING for _ in ctx.method_calls(parse))
        if not isinstance(parser, Instance) or parser.site is None or not flag or not is_asked:
            return
        destination = event.arguments.keywords.get("dest")
        name = ctx.constant(destination) if destination is not None else flag.lstrip("-").replace("-", "_")
        if not isinstance(name, str) or ctx.excused(self, event, name) or ctx.is_option_read(name, event.site.module):
            return
        yield ctx.finding(
            self,
            event,
            f"nothing reads `{flag}`",
            on=event.arguments.positional[1:],
            effect="whoever sets it trains as if it were not set",
            help=f"read `{name}` where it is meant to count, or remove the option",
            trace=[(parser.site, "the parser is built here"), (event.site, f"and takes `{flag}`")],
        )


def _flag(event: LibraryCall) -> str:
    """The name of an option on the command line, the long one if there are two; empty for a positional argument."""
    texts = [each.value for each in event.arguments.positional[1:] if isinstance(each, Const)]
    flags = [text for text in texts if isinstance(text, str) and text.startswith("-")]
    long = [flag for flag in flags if flag.startswith("--")]
    return (long or flags)[0] if flags and len(flags) == len(texts) else ""
