"""An option whose default is a fraction, and that takes only whole numbers: `type=int, default=0.001`.

`argparse` calls the type with the text that the user wrote, and `int("0.01")` is an error. So the script stops at every
fraction, which is all that makes sense for a rate, a share or a decay, and takes 0 and 1. Only the default is never
converted: the script works until somebody tries another value, as a search over learning rates does.

Measured on Python 3.11 with `parser.add_argument("--lr", type=int, default=0.001)`: `--lr 0.01`, `--lr 1e-3` and
`--lr 1.0` end with `invalid int value` and the exit code 2, `--lr 1` and `--lr 0` are taken, and without the option the
rate is 0.001.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=int, default=0.001)
    args = parser.parse_args()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.001)
    args = parser.parse_args()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

## Not reported
Defaults that are whole, however they are written (`1e6`, `5.0`), or infinite, as for numbers that have no limit; types
that convert a text themselves (`lambda text: int(float(text))`), and parsers whose `int` is registered to mean
something else; notebooks, where nobody writes a command line; options that the script of the parser does not read
(DL846), or only shows; those that the file sets itself after the parsing; parsers that are only asked about an empty
list. `click` is left out: it converts the default, too.

## Fix (safe)
Sets `type=float`: command lines that worked go on doing so, and the default is what it was.

## On real code
390 public repositories, of which 11 have such an option in a script: 11 findings in 5 of them, all true. Silent are
those that nobody reads, whole numbers (`1e4`) and `inf`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from dllint.api import (
    Const,
    Context,
    Edits,
    External,
    Finding,
    Items,
    LibraryCall,
    Rule,
    Site,
    Value,
    replace_range,
)

# ------------------------------------------------------------------------------------------------- excuses


def is_of_notebook(event: LibraryCall, ctx: Context) -> bool:
    """it stands in a notebook, where nobody writes a command line"""
    return event.site.module.source.notebook is not None


def is_converted_otherwise(event: LibraryCall, ctx: Context) -> bool:
    """a parser is told what `int` is to mean, by `register`"""
    calls = (site.node for site in ctx.method_calls("register"))
    return any(
        isinstance(call, ast.Call) and [ast.unparse(each) for each in call.args[1:2]] == ["int"] for call in calls
    )


def is_overwritten(event: LibraryCall, ctx: Context) -> bool:
    """code of the file gives the option a value of its own after the parsing: `args.lr = 0.01`"""
    return ctx.is_option_overwritten(event)


def is_asked_nothing(event: LibraryCall, ctx: Context) -> bool:
    """the parser is only asked about an empty list: `parser.parse_args(args=[])`"""
    return ctx.has_no_command_line(event.site.module)


def is_idle(event: LibraryCall, ctx: Context) -> bool:
    """the script parses it, and nothing that shares the parser does anything with it but show it: it has no effect"""
    return ctx.is_idle_option(event)


class IntegerOptionWithFractionalDefault(Rule):
    code = "DL850"
    name = "integer-option-with-fractional-default"
    category = "correctness"
    severity = "warning"
    triggers = (("add_argument",), ("int",))
    fix_safety = "safe"
    references = ("https://docs.python.org/3/library/argparse.html#type",)
    excuses = (is_of_notebook, is_converted_otherwise, is_overwritten, is_asked_nothing, is_idle)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        kind, default = event.arguments.keywords.get("type"), event.arguments.keywords.get("default")
        if event.name != "argparse.ArgumentParser.add_argument" or "action" in event.arguments.keywords:
            return
        if isinstance(kind, External) and kind.name == "int" and default is not None:
            fraction = next((number for number in _numbers(default) if _has_rest(number)), None)
            if fraction is not None and not ctx.excused(self, event):
                yield self._report(event, kind, default, fraction, ctx)

    def _report(self, event: LibraryCall, kind: Value, default: Value, fraction: float, ctx: Context) -> Finding:
        option = ctx.flag_of_option(event) or "the option"
        parser = event.arguments.positional[0].site
        is_here = parser is not None and parser.module is event.site.module
        return ctx.finding(
            self,
            event,
            f"`type=int`: `{option}` takes no fraction, and its default is {fraction:g}",
            on=[kind, default],
            effect="the script stops at every fraction that is given, and takes whole numbers only",
            help="use `type=float`",
            trace=[
                *([(parser, "the parser is made here")] if is_here and parser is not None else []),
                (event.site, "`argparse` calls `int` with the text, and that fails for a fraction"),
            ],
            fix=("Take fractions", _take_fractions(event.site)),
        )


def _numbers(default: Value) -> list[float]:
    """The numbers that a default is, or a list of them."""
    items = default.items if isinstance(default, Items) else (default,)
    numbers = [item.value for item in items if isinstance(item, Const)]
    return [number for number in numbers if isinstance(number, float)]


def _has_rest(number: float) -> bool:
    return math.isfinite(number) and not number.is_integer()


def _take_fractions(site: Site) -> Edits:
    given = {each.arg: each.value for each in site.node.keywords} if isinstance(site.node, ast.Call) else {}
    return replace_range(Site(site.module, given["type"]), "float") if "type" in given else Edits()
