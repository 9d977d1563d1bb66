"""An option that cannot be switched off: `type=bool` on the command line.

`argparse` calls the type with the text that the user wrote, and `bool` of any text but the empty one is true. So
`--shuffle False` shuffles, `--pretrained 0` is pretrained, and an option whose default is `True` is always on.

Measured on Python 3.11: with `type=bool`, `--shuffle False`, `false`, `no` and `0` all give `True`, also with
`choices=[True, False]`; `default="False"` is `True` even if the option is not given. Only `--shuffle ""` gives `False`.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", type=bool, default=True)
    args = parser.parse_args()
    loader = DataLoader(dataset, batch_size=64, shuffle=args.shuffle)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True)
    args = parser.parse_args()
    loader = DataLoader(dataset, batch_size=64, shuffle=args.shuffle)

## Not reported
Types that read the text: `str2bool`, `lambda x: bool(strtobool(x))`, `lambda x: bool(int(x))`; parsers that know what
`bool` is to mean (`parser.register("type", bool, ...)`, jsonargparse, Lightning's command line, `click`, `typer`);
notebooks, where nobody writes a command line; options of which the help says that any value switches them on; those
that the script of the parser, and what shares it, does not read (DL846), only prints or logs, asks about to do the same
either way or to set variables that nobody reads, keeps in variables, attributes and fields that nobody reads, or reads
in functions that nobody calls; those that the file sets itself after the parsing.

## Fix (safe)
Reads the text: `type=lambda text: text.lower() in ("1", "true", "yes")`. Command lines that switch the option on go on
doing so; those that switch it off do so now. There is none where the default is a text, which is converted, too.

## On real code
138 public repositories: 62 findings in 18 of them, 61 true; one was doubtful, since nobody reads the option, and is
silent now. In 127 others 27 findings, all true. In 189 more 50: 41 true and 9 doubtful, 4 of them since nothing comes
of what is read; these are silent now.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Const,
    Context,
    Edits,
    External,
    Finding,
    Function,
    Instance,
    LibraryCall,
    Rule,
    Site,
    Value,
    replace_range,
)

_READS_THE_TEXT = 'lambda text: text.lower() in ("1", "true", "yes")'
_ANY_TEXT = re.compile(r"(?i)\b(?:any|non-?empty) (?:value|text|string|argument|input)\b")
_OTHER_PARSERS = ("jsonargparse", "click", "typer", "pytorch_lightning.cli", "lightning.pytorch.cli")


# ------------------------------------------------------------------------------------------------- excuses


def is_registered(event: LibraryCall, ctx: Context) -> bool:
    """a parser is told what `bool` is to mean, by `register`"""
    calls = (site.node for site in ctx.method_calls("register"))
    return any(
        isinstance(call, ast.Call)
        and len(call.args) > 1
        and isinstance(call.args[1], ast.Name)
        and call.args[1].id == "bool"
        for call in calls
    )


def is_parsed_otherwise(event: LibraryCall, ctx: Context) -> bool:
    """the parser is not known, and the file uses a library whose parsers understand `bool`"""
    return not isinstance(event.arguments.positional[0], Instance) and (
        ctx.imports(*_OTHER_PARSERS) or event.frame.function == "add_arguments_to_parser"
    )


def is_in_notebook(event: LibraryCall, ctx: Context) -> bool:
    """it stands in a notebook, where nobody writes a command line"""
    return event.site.module.source.notebook is not None


def is_not_read(event: LibraryCall, ctx: Context) -> bool:
    """the script parses it, and nothing that shares the parser does anything with it but show it: it has no effect"""
    return ctx.is_idle_option(event)


def is_set_afterwards(event: LibraryCall, ctx: Context) -> bool:
    """code of the file gives the option a value of its own after the parsing: `opt.train = self.train`"""
    return ctx.is_option_overwritten(event)


def says_so(event: LibraryCall, ctx: Context) -> bool:
    """its help says that any text switches it on"""
    said = event.arguments.keywords.get("help")
    return said is not None and _ANY_TEXT.search(str(ctx.constant(said))) is not None


def has_no_command_line(event: LibraryCall, ctx: Context) -> bool:
    """the parser is only asked about an empty list: `parser.parse_args(args=[])`"""
    return ctx.has_no_command_line(event.site.module)


class ArgparseTypeBool(Rule):
    code = "DL841"
    name = "argparse-type-bool"
    category = "correctness"
    severity = "error"
    triggers = (("add_argument",), ("bool",))
    fix_safety = "safe"
    references = ("https://docs.python.org/3/library/argparse.html#type",)
    excuses = (
        is_in_notebook, is_registered, is_parsed_otherwise, is_set_afterwards, says_so, has_no_command_line,
        is_not_read,
    )  # fmt: skip

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "argparse.ArgumentParser.add_argument" or _takes_no_text(event, ctx):
            return
        kind = event.arguments.keywords.get("type")
        if kind is not None and _is_bool(kind) and not ctx.excused(self, event):
            yield self._report(event, kind, ctx)

    def _report(self, event: LibraryCall, kind: Value, ctx: Context) -> Finding:
        option, default = _name_of_option(event, ctx), event.arguments.keywords.get("default")
        is_on = default is not None and bool(ctx.constant(default))
        return ctx.finding(
            self,
            event,
            f"`type=bool`: `{option} False` is true, as is every other text",
            on=[kind],
            effect=f"`{option}` is always on: its default is true, and no text switches it off"
            if is_on
            else "who writes `False` or `0` on the command line switches it on",
            help="use `action=argparse.BooleanOptionalAction`, or a type that reads the text",
            trace=[
                *_parser(event),
                (event.site, "`argparse` calls `bool` with the text, and that of any text is true"),
            ],
            fix=("Read the text", _read_text(event.site) if not _is_text(default, ctx) else Edits()),
        )


def _parser(event: LibraryCall) -> list[tuple[Site, str]]:
    """Where the parser comes from: all of its options of this kind are one finding."""
    site = event.arguments.positional[0].site
    return [(site, "the parser is made here")] if site is not None and site.module is event.site.module else []


def _is_bool(kind: Value) -> bool:
    """Whether a type is ``bool``, or a function that does nothing but call it."""
    if isinstance(kind, External):
        return kind.name == "bool"
    if not isinstance(kind, Function) or not isinstance(kind.node, ast.Lambda):
        return False
    body, names = kind.node.body, [argument.arg for argument in kind.node.args.args]
    if not isinstance(body, ast.Call) or not isinstance(body.func, ast.Name) or body.func.id != "bool":
        return False
    return [ast.unparse(argument) for argument in body.args] == names


def _name_of_option(event: LibraryCall, ctx: Context) -> str:
    texts = [str(ctx.constant(flag)) for flag in event.arguments.positional[1:] if isinstance(flag, Const)]
    return next((text for text in texts if text.startswith("--")), texts[0] if texts else "the option")


def _is_text(default: Value | None, ctx: Context) -> bool:
    return default is not None and (isinstance(ctx.constant(default), str) or not isinstance(default, Const))


def _read_text(site: Site) -> Edits:
    given = {each.arg: each.value for each in site.node.keywords} if isinstance(site.node, ast.Call) else {}
    return replace_range(Site(site.module, given["type"]), _READS_THE_TEXT) if "type" in given else Edits()


def _takes_no_text(event: LibraryCall, ctx: Context) -> bool:
    """Whether an action decides what the option is: `BooleanOptionalAction` takes no text at all."""
    action = event.arguments.keywords.get("action")
    return action is not None and ctx.constant(action) != "store"
