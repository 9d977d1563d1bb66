"""An option of the command line that nothing reads, or of which nothing comes.

The parser takes it, and whoever sets it believes that it counts: `--weight-decay 0.1` trains without any weight decay,
two runs of a comparison are one and the same. It is left of an earlier version, or it is read under another name. Or it
is read, and lost on its way: `Attention(hidden=args.hidden)` for a class that does not use its parameter `hidden`, or
keeps it in an attribute that no code reads. Or the call that it is for has all the other options and not this one.

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
as a text (of a name with dots also its parts), but for files that do not share it and add an option of that name
themselves, what imported files read only where they are run themselves, and attributes that a class sets itself, to
something else than the option (`self.classes = classes`); all options where files are imported by names that may be
those of any (those of one package of the project are read, `import_module("models." + name)`); all options where they
are handed to code that is not seen (`f(**vars(args))`, `deepspeed.initialize(args)`) or are read by names that are
computed; options that launchers pass (`--local_rank`), that the parser itself reads (files of settings), the opposites
of switches that are off (`--unweighted` beside `--weighted`), switches that are on anyway (`store_true` with
`default=True`), options that have one choice, that say of themselves that they do nothing or (a switch) what happens by
default, those of a notebook that asks its parser about an empty list or text, or that the user does not have to know of
(positional ones, hidden ones); `-f` without any help, which takes the file that the kernel of a notebook is started
with; files that only parse, or show what they were told; options in whose place somebody has put a constant (`verbose =
True # args.verbose`). An option that a call leaves out is reported only where that hands on three others under their
own names, takes one of its name, and nothing but a dict that is written down has it, or what makes the same class of a
checkpoint instead. Options that are read count as used where anything may come of them: where they get to code that is
not seen, to one of several functions of a name that uses them, or to an attribute of which somebody reads one of its
name; where they are only shown; and where a function that gets them is not written yet, or says that it ignores them.
What may be left of another script is a question: options of training where nothing is trained (`--lr`, `--patience`),
as where an agent only plays, of a model where none is made (`--arch`), of results where nothing is written
(`--outdir`), of data, batches, a device or a seed where there is nothing of the kind, those of a script that trains in
one without any framework, and labels of a run that are written down with all options (`--exp_name`, `--message`); so is
what an exercise has for what is to be filled in (`optimizer = ...`).

## On real code
276 public repositories: 50 findings in 20 of them, 48 true, 24 of these in the scripts of one repository (`--n_cpu`).
2 were false: options of a script that others import, and that are read by what those import. They are silent now. In
160 others 27 findings: 26 true, and 1 false, of options that other files import as they were parsed, silent now. In
276 more 61: 50 true, 8 doubtful and 3 false, of a file that loses statements, of one that is imported under another
name of its package, and of a group of which one is required; these three are silent now. In 189 more 85: 71 true and
14 doubtful; of these, 6 are silent now or questions (leftovers of a script that trains, a switch that is on anyway),
the others are of scripts that fail before it matters. In 322 more 88: 74 true and 14 doubtful, most of them in such
scripts. Of options that are read and lost there are 29 findings in 644 repositories: 27 true, 1 false (a variable that
a query of pandas takes up by its name) and 1 doubtful (given in a call that Python refuses); both are silent now.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile

from dllint.api import (
    Context,
    External,
    Finding,
    Instance,
    Items,
    LeftOut,
    LibraryCall,
    LostValue,
    Rule,
    nodes_of,
    receiver_of,
)

_ACTIONS = ("store", "store_true", "store_false", "append", "store_const")
_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_NEGATING = ("no_", "not_", "non_", "without_", "un", "non", "no", "in", "dis")  # longer ones first
_NEAR = 8  # lines
_MOST_PLACES = 3  # that a trace tells
_OF_CONFIGARGPARSE = frozenset(("is_config_file", "is_config_file_arg", "is_write_out_config_file_arg"))
_OF_NO_USE = (
    "suppress", "unused", "not used", "deprecated", "ignored", "no longer", "legacy", "todo", "compatib", "placeholder",
    "obsolete", "not implemented", "no effect", "is fixed", "fixed at", "fixed to",
)  # fmt: skip
_OF_LAUNCHERS = ("local_rank", "local-rank", "deepspeed", "help")
_SAYS_DEFAULT = re.compile(r"(?i)\bdefault (?:if|when|unless|mode|behaviou?r)\b|\((?:the )?default\)")
_OF_KERNELS = re.compile(r"jupyter|ipython|notebook|colab|kernel|dummy", re.IGNORECASE)


# ------------------------------------------------------------------------------------------------- excuses


def is_passed_by_launchers(event: LibraryCall, name: str, ctx: Context) -> bool:
    """a launcher passes it, whether it is wanted or not"""
    return name in _OF_LAUNCHERS


def is_passed_by_kernels(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is `-f`, which the kernel of a notebook gets with the file of its connection, and only takes that away"""
    given = event.arguments.keywords
    flags = [ctx.constant(flag) for flag in event.arguments.positional[1:]]
    is_f = re.fullmatch("f+", name) is not None
    if not (is_f or "-f" in flags) or not given.keys() <= {"help", "default", "type"}:
        return False
    said = ctx.constant(given["help"]) if "help" in given else ""
    return (is_f and not said) or _OF_KERNELS.search(str(said)) is not None


def does_something_itself(event: LibraryCall, name: str, ctx: Context) -> bool:
    """its action does something of its own, or the parser does, which reads a file of settings that it names"""
    action = event.arguments.keywords.get("action")
    is_usual = isinstance(action, External) and action.name == "argparse.BooleanOptionalAction"
    if action is not None and not is_usual and ctx.constant(action) not in _ACTIONS:
        return True
    return not _OF_CONFIGARGPARSE.isdisjoint(event.arguments.keywords)


def says_so(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is hidden, or its help or a comment says that it is of no use"""
    lines = event.site.module.source.text.split("\n")[: event.site.line - 1]
    paragraph = list(takewhile(str.strip, reversed(lines)))
    above = lines[-max(_NEAR, len(paragraph)) :]
    comments = [line for line in above if line.lstrip().startswith("#")][-1:]  # the heading of the group
    said = " ".join([*comments, *ctx.lines_at(event.site)[1:]]).lower()
    return any(word in said for word in _OF_NO_USE)


def is_of_no_code(event: LibraryCall, name: str, ctx: Context) -> bool:
    """the file only parses, and shows what it was told, and no other one imports it: the code that would read it is not
    written yet, or it is a trial"""
    return event.site.module is ctx.program.module and ctx.is_only_parsed()


def says_the_default(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is the opposite of a switch that is off by default: whoever sets it gets what it says"""
    action = event.arguments.keywords.get("action")
    opposite = next((name[len(no) :].lstrip("_") for no in _NEGATING if name.startswith(no)), "")
    if not opposite or action is None or ctx.constant(action) not in ("store_true", "store_false"):
        return False
    others = ctx.library_calls(event.name)
    return any(ctx.option_name(other) == opposite and _is_off_unless_given(other, opposite, ctx) for other in others)


def has_one_choice(event: LibraryCall, name: str, ctx: Context) -> bool:
    """there is one choice: nobody can set it to anything else"""
    choices = event.arguments.keywords.get("choices")
    return isinstance(choices, Items) and choices.exact and len(choices.items) == 1


def is_set_anyway(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is a switch that is set by default to what it sets: whoever gives it gets what there is without it"""
    action, default = (event.arguments.keywords.get(key) for key in ("action", "default"))
    if action is None or default is None:
        return False
    return (ctx.constant(action), ctx.constant(default)) in (("store_true", True), ("store_false", False))


def is_what_happens_anyway(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is a switch, and its help says that it is the default: `--interactive`, "default if no question is given\""""
    action, said = (event.arguments.keywords.get(key) for key in ("action", "help"))
    is_switch = action is not None and ctx.constant(action) == "store_true"
    return is_switch and said is not None and _SAYS_DEFAULT.search(str(ctx.constant(said))) is not None


def has_no_command_line(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it stands in a notebook, whose parser is only asked about an empty list: `parser.parse_args([])`"""
    return event.site.module.source.notebook is not None and ctx.has_no_command_line(event.site.module)


def is_the_rest_of_a_choice(event: LibraryCall, name: str, ctx: Context) -> bool:
    """it is in a group of which one has to be given: that the others are not given tells it"""
    node = event.site.node
    group = receiver_of(node) if isinstance(node, ast.Call) else ""
    for made in ctx.method_calls("add_mutually_exclusive_group") if group else ():
        statement = next(ctx.ancestors(made, ast.Assign), None)
        keywords = made.node.keywords if isinstance(made.node, ast.Call) else []
        is_required = any(each.arg == "required" and getattr(each.value, "value", False) for each in keywords)
        if statement is not None and is_required and ast.unparse(statement.targets[0]) == group:
            return True
    return False


def is_fixed_by_hand(event: LibraryCall, name: str, ctx: Context) -> bool:
    """a constant stands in its place, beside a comment that has it: `verbose = True  # args.verbose`"""
    module = event.site.module
    lines = [line for line, text in module.comments.items() if re.search(rf"\w\.{re.escape(name)}\b", text)]
    fixed = (each for each in nodes_of(module.tree).of(ast.Assign) if isinstance(each.value, ast.Constant))
    return bool(lines) and any(each.lineno in lines for each in fixed)


class UnreadOption(Rule):
    code = "DL846"
    name = "unread-option"
    category = "correctness"
    severity = "warning"
    triggers = (("add_argument",), _PARSING)
    of_files = True
    references = ("https://docs.python.org/3/library/argparse.html#dest",)
    excuses = (
        is_passed_by_launchers,
        is_passed_by_kernels,
        does_something_itself,
        says_so,
        is_of_no_code,
        says_the_default,
        has_one_choice,
        is_set_anyway,
        is_the_rest_of_a_choice,
        is_what_happens_anyway,
        has_no_command_line,
        is_fixed_by_hand,
    )

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "argparse.ArgumentParser.add_argument":
            return
        parser, flag = event.arguments.positional[0], ctx.flag_of_option(event)
        if not isinstance(parser, Instance) or parser.site is None or not flag:
            return
        name = ctx.option_name(event)
        is_read = bool(name) and ctx.is_option_read(name, event.site.module)
        lost = ctx.where_option_is_lost(name, event.site.module) if is_read else ()
        left_out = ctx.where_option_is_left_out(name, event.site.module) if is_read and not lost else None
        if not name or (is_read and not lost and left_out is None):
            return
        is_asked = any(True for parse in _PARSING for _ in ctx.method_calls(parse))
        if not is_asked or ctx.excused(self, event, name):
            return
        if left_out is not None:
            yield self._report_left_out(event, flag, left_out, ctx)
            return
        yield ctx.finding(
            self,
            event,
            f"`{flag}` has no effect: {_told_of(lost[0])}" if lost else f"nothing reads `{flag}`",
            on=event.arguments.positional[1:],
            assuming=ctx.assumed_meant(event, name),
            effect="whoever sets it trains as if it were not set",
            help=f"{'use' if lost else 'read'} `{name}` where it is meant to count, or remove the option",
            trace=[
                (parser.site, "the parser is built here"),
                (event.site, f"and takes `{flag}`"),
                *((place.site, _told_of(place)) for place in lost[:_MOST_PLACES]),
            ],
        )

    def _report_left_out(self, event: LibraryCall, flag: str, left_out: LeftOut, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            f"`{flag}` does not get to `{left_out.owner}`, which takes `{left_out.name}`",
            on=event.arguments.positional[1:],
            assuming=ctx.assumed_meant(event, left_out.name),
            effect="it has its default there, whatever the option says",
            help=f"pass `{left_out.name}` with the other options",
            trace=[(event.site, "the option is added here"), (left_out.site, "and left out, unlike the others")],
        )


def _told_of(place: LostValue) -> str:
    """What is said of where a value is lost."""
    return f"`{place.owner}` does not use `{place.name}`" if place.is_given else f"nothing reads `{place.name}`"


def _is_off_unless_given(event: LibraryCall, name: str, ctx: Context) -> bool:
    """Whether a switch is off unless it is given, also by what `set_defaults` says of it."""
    action, default = (event.arguments.keywords.get(key) for key in ("action", "default"))
    calls = (site.node for site in ctx.method_calls("set_defaults"))
    given = [keyword.value for call in calls for keyword in getattr(call, "keywords", ()) if keyword.arg == name]
    if any(getattr(value, "value", True) for value in given):
        return False
    is_switch = action is not None and ctx.constant(action) == "store_true"
    return not ctx.constant(default) if default is not None else is_switch or bool(given)
