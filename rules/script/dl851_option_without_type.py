"""An option whose default is a number or a truth value, and that has no type: what somebody gives it is a text.

Without `type`, `argparse` gives the text that the user wrote, and the default as it is. So the script works until
somebody gives the option: `--epochs 10` is `"10"`, and `range("10")` a `TypeError`. Worse is what goes on with a text:
`"8" * 2` is `"88"`, `"3" == 3` is false, and `--shuffle False` is `"False"`, which is as true as any other text.

Measured on Python 3.11 and torch 2.13 with `parser.add_argument("--lr", default=0.001)`: with `--lr 0.01`,
`torch.optim.Adam(..., lr=args.lr)` ends with `'<=' not supported between instances of 'float' and 'str'`; a text as
`batch_size` of a `DataLoader`, as a size of `nn.Linear` and in `range` ends the run as well. `torch.manual_seed("3")`
converts the text itself, and is silent. With `default=False`, `--amp False` takes the branch of `if args.amp:`.

## Bad
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", default=0.001)
    args = parser.parse_args()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

## Good
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.001)
    args = parser.parse_args()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

## Not reported
Numbers that no code reckons with, counts up to, or hands to torch as such, as far as it can be followed; options that
somebody converts (`int(args.epochs)`), compares with a text or asks by a method, and those that unknown code may read;
truth values that cuDNN is told (`cudnn.benchmark = args.benchmark`), which takes no text, so that nothing is switched
on unseen; options that the file sets itself after the parsing, that nobody reads, or that have choices; parsers that
are only asked about an empty list; notebooks, where nobody writes a command line; `click`, which takes the type of the
default, and parsers that are not known in files which use `jsonargparse`, `tap` or Lightning's command line.
`type=bool` is of DL841.

## Fix (safe)
Adds the type of the default: command lines without the option go on as they did. A truth value is read off the text.

## On real code
1,032 public repositories, of which 44 have such an option: 19 findings in 13 of them, 18 true; one, in the example of a
library that is kept beside the project, was doubtful. In 184 others, read by people who had seen none of it, 6
findings, all true.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Const, Context, Finding, Instance, LibraryCall, Rule, Site, set_argument

_OTHERWISE = frozenset(("type", "action", "nargs", "choices", "const"))
_OTHER_PARSERS = (
    "jsonargparse",
    "tap",
    "typed_argparse",
    "simple_parsing",
    "pytorch_lightning.cli",
    "lightning.pytorch.cli",
)
_OF_TRUTH = 'lambda text: text.lower() in ("1", "true", "yes")'

# ------------------------------------------------------------------------------------------------- excuses


def is_cell(event: LibraryCall, ctx: Context) -> bool:
    """it stands in a notebook, where nobody writes a command line"""
    return event.site.module.source.notebook is not None


def is_given_anew(event: LibraryCall, ctx: Context) -> bool:
    """code of the file gives the option a value of its own after the parsing: `args.lr = float(args.lr)`"""
    return ctx.is_option_overwritten(event)


def is_never_given(event: LibraryCall, ctx: Context) -> bool:
    """the parser is only asked about an empty list: `parser.parse_args(args=[])`"""
    return ctx.has_no_command_line(event.site.module)


def is_of_another_parser(event: LibraryCall, ctx: Context) -> bool:
    """the parser is not known, and the file uses a library whose parsers read options in their own way"""
    return not isinstance(event.arguments.positional[0], Instance) and ctx.imports(*_OTHER_PARSERS)


class OptionWithoutType(Rule):
    code = "DL851"
    name = "option-without-type"
    category = "correctness"
    severity = "warning"
    triggers = (("add_argument",), ("default",))
    fix_safety = "safe"
    references = ("https://docs.python.org/3/library/argparse.html#type",)
    excuses = (is_cell, is_given_anew, is_never_given, is_of_another_parser)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        default = _default_of(event)
        if default is None or ctx.excused(self, event) or ctx.is_idle_option(event):
            return
        uses = ctx.option_uses(event) or []
        wanted = ("number", "truth", "any") if isinstance(default, bool) else ("number",)
        reader = next((place for use, place in uses if use in wanted), None)
        if reader is not None and all(use not in ("text", "switch") for use, _ in uses):
            yield self._report(event, default, reader, ctx)

    def _report(self, event: LibraryCall, default: float, reader: Site, ctx: Context) -> Finding:
        option, is_flag = ctx.flag_of_option(event) or "the option", isinstance(default, bool)
        kind = _OF_TRUTH if is_flag else type(default).__name__
        parser = event.arguments.positional[0].site
        is_here = parser is not None and parser.module is event.site.module
        return ctx.finding(
            self,
            event,
            f"`{option}` has no type: `{option} False` is a text, which is true"
            if is_flag
            else f"`{option}` has no type: what is given is a text, while the default is `{default:g}`",
            on=[event.arguments.keywords["default"]],
            effect="who writes `False` or `0` on the command line switches it on"
            if is_flag
            else "the script fails, or goes on with a text, as soon as somebody gives the option",
            help="use `action=argparse.BooleanOptionalAction`, or a type that reads the text"
            if is_flag
            else f"add `type={kind}`",
            trace=[
                *([(parser, "the parser is made here")] if is_here and parser is not None else []),
                (event.site, "without a type, `argparse` gives the text as it was written"),
                (reader, "and here a truth value is meant" if is_flag else "and here a number is needed"),
            ],
            fix=("Read the text as what it says", set_argument(event.site, "type", kind)),
        )


def _default_of(event: LibraryCall) -> float | None:
    """The number or truth value that an option is by default, if it has no type and takes one text."""
    if event.name != "argparse.ArgumentParser.add_argument" or not event.arguments.exact:
        return None
    default = event.arguments.keywords.get("default")
    if not _OTHERWISE.isdisjoint(event.arguments.keywords) or not isinstance(default, Const):
        return None
    return default.value if isinstance(default.value, int | float) else None
