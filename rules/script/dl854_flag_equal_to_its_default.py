"""A flag that sets what is the default anyway: `action="store_true", default=True`.

The option looks like a switch, and is none: without it the value is true, with it too, and there is no other way to
say otherwise. Who wants to compare a run without mixed precision, on the CPU or without the extra loss finds no way to
on the command line, and who leaves the flag out, which is how flags are switched off, gets what the flag stands for. So
the two halves of an ablation are the same run.

Measured on Python 3.11 with `parser.add_argument("--amp", action="store_true", default=True)`: the value is `True` with
and without `--amp`, and `--amp False`, `--no-amp` and `--amp=0` end with an error and the exit code 2.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true", default=True)
    args = parser.parse_args()
    with torch.autocast("cuda", enabled=args.amp):
        loss = criterion(model(inputs), targets)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    with torch.autocast("cuda", enabled=args.amp):
        loss = criterion(model(inputs), targets)

## Not reported
Flags beside which another one sets the same value (`--no-amp` with `dest="amp"`), or says the opposite (`--no-amp`,
`--disable-amp`); those whose value `set_defaults`, a file of settings or the script changes, whose help says that they
are kept for old command lines, or that nobody reads (DL846); parsers that are only asked about an empty list;
notebooks, where nobody writes a command line.

## Fix (safe)
Makes it `argparse.BooleanOptionalAction`, where the file imports `argparse` by name: command lines that worked go on
doing so, and `--no-amp` switches it off.

## On real code
1,216 public repositories: 55 findings in 41 of them, 42 true, 3 false and 10 doubtful, mostly because the other value
makes no sense in that script. The false ones had an opposite that is called otherwise (`--use-amp` and `--no-amp`), or
a file of settings; these are passed over since. In 368 others, read by people who had seen none of it, 8 findings: 7
true, and one doubtful, which nothing read; that is asked since.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import Const, Context, Edits, Finding, Instance, LibraryCall, Rule, set_argument

_SETS = {"store_true": True, "store_false": False}
_OPPOSITES = ("no", "not", "non", "disable", "without", "skip", "dont")
_DOING = re.compile(r"^(?:use|do|enable|is|run)_?")
_KEPT = re.compile(r"(?i)deprecat|compatib|no effect|ignored|obsolete")

# ------------------------------------------------------------------------------------------------- excuses


def is_typed_nowhere(event: LibraryCall, ctx: Context) -> bool:
    """it stands in a notebook, or the parser is only asked about an empty list: nobody writes a command line"""
    return event.site.module.source.notebook is not None or ctx.has_no_command_line(event.site.module)


def is_changed_after(event: LibraryCall, ctx: Context) -> bool:
    """`set_defaults` or code of the file gives it another value: `args.amp = torch.cuda.is_available()`"""
    calls = (site.node for site in ctx.method_calls("set_defaults"))
    given = {each.arg for call in calls if isinstance(call, ast.Call) for each in call.keywords}
    if ctx.is_option_overwritten(event) or ctx.are_options_set_by_name(event.site.module):
        return True
    return not given.isdisjoint((None, ctx.option_name(event)))


def has_an_opposite(event: LibraryCall, ctx: Context) -> bool:
    """another flag sets the same value, or says the opposite: `--no-amp` of `--use-amp`"""
    name = ctx.option_name(event)
    added = (each for each in ctx.all_of(LibraryCall) if each.name == event.name and each.site.node != event.site.node)
    names = {ctx.option_name(each) for each in added}
    stems = (name, _DOING.sub("", name))
    return name in names or any(
        f"{word}{line}{stem}" in names for word in _OPPOSITES for line in ("_", "") for stem in stems
    )


def is_kept_for_old_commands(event: LibraryCall, ctx: Context) -> bool:
    """its help says that it is kept for old command lines"""
    said = event.arguments.keywords.get("help")
    return said is not None and _KEPT.search(str(ctx.constant(said))) is not None


def is_read_by_nobody(event: LibraryCall, ctx: Context) -> bool:
    """nothing that shares the parser does anything with it: it has no effect in any case (DL846)"""
    return ctx.is_read_nowhere(event)


class FlagEqualToItsDefault(Rule):
    code = "DL854"
    name = "flag-equal-to-its-default"
    category = "correctness"
    severity = "warning"
    triggers = (("add_argument",), ("default",))
    fix_safety = "safe"
    references = ("https://docs.python.org/3/library/argparse.html#action",)
    excuses = (is_typed_nowhere, is_changed_after, has_an_opposite, is_kept_for_old_commands, is_read_by_nobody)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "argparse.ArgumentParser.add_argument" or not event.arguments.exact:
            return
        flag, given = ctx.flag_of_option(event), event.arguments.keywords
        action, default = given.get("action"), given.get("default")
        if not flag or not isinstance(action, Const) or not isinstance(default, Const):
            return
        if action.value not in _SETS or default.value is not _SETS[action.value] or ctx.excused(self, event):
            return
        parser = event.arguments.positional[0]
        made = parser.site if isinstance(parser, Instance) else None
        is_on = bool(default.value)
        yield ctx.finding(
            self,
            event,
            f"`{flag}` sets `{default.value}`, which is the default",
            on=[default],
            effect=f"it changes nothing, and no command line can switch it {'off' if is_on else 'on'}",
            help=f"use `action=argparse.BooleanOptionalAction`, or `default={not is_on}`",
            trace=[
                *([(made, "the parser is made here")] if made is not None and made.module is event.site.module else []),
                (event.site, f"with the flag it is `{default.value}`, and without it too"),
            ],
            fix=("Let `--no-` switch it off", _negatable(event)) if is_on else None,
        )


def _negatable(event: LibraryCall) -> Edits:
    """The edits that make a flag one which can be negated, where the file knows `argparse` by its name."""
    imports = (each for each in ast.walk(event.site.module.tree) if isinstance(each, ast.Import))
    names = {alias.name for each in imports for alias in each.names if alias.asname is None}
    return set_argument(event.site, "action", "argparse.BooleanOptionalAction") if "argparse" in names else Edits()
