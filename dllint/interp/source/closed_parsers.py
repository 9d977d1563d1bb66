"""Parsers of command lines that have no other options than those written beside them, and what is made of these."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.nodes import Nodes, nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule

_GROUPS = frozenset(("add_argument_group", "add_mutually_exclusive_group"))
_PARSES = frozenset(("parse_args", "parse_known_args", "parse_intermixed_args"))
_KNOWN = (
    _GROUPS | _PARSES | {"add_argument", "set_defaults", "print_help", "print_usage", "format_help", "error", "exit"}
)
_COMPUTE = frozenset(("torch", "numpy", "math", "cmath", "jax", "tensorflow"))
_READS = frozenset((  # what gets options and sets none
    "print", "str", "repr", "vars", "len", "type", "dict", "isinstance", "hasattr", "getattr", "Namespace", "deepcopy",
    "info", "debug", "warning", "append", "dump", "dumps", "save", "pprint", "format", "copy", "asdict", "write", "log",
))  # fmt: skip

_SETS_ANY = (
    r"\b(setattr|SimpleNamespace|exec)\s*\((?!\s*self\b)|['\"]__dict__['\"]|__setattr__"
    r"|=\s*vars\(|\bvars\([^()]*\)\s*[\[.|]"
)


def lacks_option(call: Site, name: str) -> bool:
    """Whether ``parser.parse_args()`` certainly gives no option of a name: each is written out beside the parser.

    Where one option of several has to be given, a branch for none of them is never taken, and what it reads does not
    matter.
    """
    calls = calls_of_parser(call)
    if calls is None or any(map(_asks_for_one, calls)):
        return False
    return name not in {option for each in calls for option in _options_of(each)}


def flags_of_parser(call: Site) -> frozenset[str] | None:
    """The flags that ``parser.parse_args()`` knows, those of other parsers in the file too; ``None`` if there are more.

    There may be where another one than Python's own does it, or where an option takes all the rest of a command.
    """
    calls = calls_of_parser(call)
    if calls is None:
        return None
    added = [each for each in calls if _name_of(each.func) == "add_argument"]
    settings = [keyword.value for each in added for keyword in each.keywords if keyword.arg in ("nargs", "action")]
    if any(not isinstance(each, ast.Constant) and _name_of(each) != "BooleanOptionalAction" for each in settings):
        return None
    if any(isinstance(each, ast.Constant) and each.value == "..." for each in settings):
        return None
    return frozenset({flag for call in added for flag in _flags_of(call)} | {"-h", "--help"})


def calls_of_parser(call: Site) -> tuple[ast.Call, ...] | None:
    """The calls of the methods of a parser up to ``parser.parse_args()``, if all of its options are written out so.

    The parser has to be a variable of the same function (or of the same file, at its top) that nobody else gets. The
    calls of other parsers of the file are among them.
    """
    parser = _parser_of(call.node)
    around = enclosing_definition(call) or call.module.tree
    if parser is None or isinstance(around, ast.ClassDef):
        return None
    nodes = nodes_of(call.module.tree)  # a function within could get hold of it, too
    if parser not in {each.id for each in nodes_of(around).of(ast.Name) if isinstance(each.ctx, ast.Store)}:
        around = call.module.tree  # which has the parser, though a function adds options and has them parsed
    names = {parser, *_groups(nodes_of(around), parser)}
    uses = [each for name in names for each in nodes.names.get(name, ())]
    bound = [each for each in uses if not isinstance(each.ctx, ast.Load)]
    inside = {id(each) for each in nodes_of(around).all}
    if len(bound) != len(names) or any(id(each) not in inside for each in bound):
        return None
    plain = [each for each in nodes.of(ast.Call) if _is_plain(each)]
    handled = {id(each.func.value) for each in plain if isinstance(each.func, ast.Attribute)}
    if any(id(each) not in handled for each in uses if each not in bound):
        return None
    return tuple(plain) if _makes(nodes_of(around), parser, imported_names(call.module.tree)) else None


def _parser_of(node: ast.AST) -> str | None:
    """The variable of ``parser.parse_args()``; ``None`` where it is another call, or is given a namespace."""
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) > 1:
        return None
    parser = node.func.value if isinstance(node.func, ast.Attribute) else None
    return parser.id if isinstance(parser, ast.Name) else None


def _options_of(call: ast.Call) -> Iterator[str]:
    """The names that a call may give to options: one for each flag, as any of them may be the one."""
    for each in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value.lstrip("-").replace("-", "_")
    yield from (keyword.arg for keyword in call.keywords if keyword.arg)


def _flags_of(call: ast.Call) -> Iterator[str]:
    """The flags that a call of `add_argument` makes: ``--x``, and ``--no-x`` if it can be negated."""
    is_negated = any(_name_of(keyword.value) == "BooleanOptionalAction" for keyword in call.keywords)
    for flag in (str(each.value) for each in call.args if isinstance(each, ast.Constant)):
        yield flag
        if is_negated and flag.startswith("--"):
            yield f"--no-{flag.removeprefix('--')}"


def _groups(nodes: Nodes, parser: str) -> Iterator[str]:
    for each in nodes.of(ast.Assign):
        made, target = each.value, each.targets[0]
        is_group = isinstance(made, ast.Call) and _name_of(made.func) in _GROUPS
        if is_group and isinstance(target, ast.Name) and ast.unparse(made).startswith(f"{parser}."):
            yield target.id


def _asks_for_one(call: ast.Call) -> bool:
    """Whether a call makes a group of options one of which has to be given."""
    return _name_of(call.func) == "add_mutually_exclusive_group" and any(
        keyword.arg == "required" for keyword in call.keywords
    )


def _makes(nodes: Nodes, parser: str, imported: Mapping[str, str]) -> bool:
    """Whether a variable is bound to a new parser of Python's own that inherits no options."""
    made = [each.value for each in nodes.of(ast.Assign) if ast.unparse(each.targets[0]) == parser]
    return len(made) == 1 and all(
        isinstance(each, ast.Call)
        and dotted_name(each, imported) == "argparse.ArgumentParser"
        and all(keyword.arg not in (None, "parents", "fromfile_prefix_chars") for keyword in each.keywords)
        for each in made
    )


def _is_plain(call: ast.Call) -> bool:
    """Whether a call is of a method that makes no other options than it says."""
    method = _name_of(call.func)
    if method not in _KNOWN or any(keyword.arg is None for keyword in call.keywords):
        return False
    if method != "add_argument":
        return True
    named = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "dest")]
    return all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in named)


def may_be_set(name: str, holders: AbstractSet[str], modules: Sequence[SourceModule], *, is_kept: bool = False) -> bool:
    """Whether code may give the options of a command line an attribute that is no option.

    Args:
        name: the attribute.
        holders: the variables and attributes that have the options; other files mostly call them the same.
        modules: the files of the program.
        is_kept: no code got the options of which it is not known what it does.
    """
    stores = rf"(?<!\bself)\.{name}\s*(=[^=]|:[^\n]*=|[-+*/|]=)|['\"]{name}['\"]|--[\w-]*{name.replace('_', '-')}\b"
    sets = re.compile(f"{_sets_any_of(holders) if is_kept else _SETS_ANY}|{stores}")
    if any(module.parse_error is not None or _contains(module, sets) for module in modules):
        return True
    return not is_kept and (any(map(_writes_attributes, modules)) or _may_get(holders, modules))


def _contains(module: SourceModule, sets: re.Pattern[str]) -> bool:
    """Whether code of a file matches; what other parsers in it are given is not about this one."""
    if not module.contains_in_code(sets):
        return False
    added = [call for call in module.calls.get("add_argument", ()) if isinstance(call.func, ast.Attribute)]
    if not added:
        return True
    inside = {line for call in added for line in range(call.lineno, (call.end_lineno or call.lineno) + 1)}
    lines = module.source.text.splitlines()
    return bool(sets.search("\n".join(line for number, line in enumerate(lines, 1) if number not in inside)))


def _sets_any_of(holders: AbstractSet[str]) -> str:
    """What gives variables of some names attributes that it computes."""
    names = "|".join(sorted(map(re.escape, holders)))
    of = rf"\s*\((\w+\.)?({names})\b"
    return rf"\bsetattr{of}|=\s*vars{of}|\bvars{of}\s*\)\s*[\[.|]|\b({names})\.__dict__|\bexec\s*\("


def _may_get(holders: AbstractSet[str], modules: Sequence[SourceModule]) -> bool:
    """Whether code that is not of the project may get what variables of some names have."""
    own = {each.name for module in modules for each in nodes_of(module.tree).of(ast.FunctionDef, ast.ClassDef)}
    imports = (each for module in modules for each in nodes_of(module.tree).of(ast.ImportFrom))
    own |= {alias.asname for each in imports for alias in each.names if alias.asname and alias.name in own}
    return any(
        not (_name_of(call.func) in own or only_reads(_name_of(call.func)))
        and _gets(call, holders)
        and not _computes(call, module)
        for module in modules
        for call in nodes_of(module.tree).of(ast.Call)
    )


def only_reads(function: str) -> bool:
    """Whether a function that gets options sets none, as its name tells, with or without its module."""
    return function.rpartition(".")[2] in _READS or function.partition(".")[0] in _COMPUTE


def _writes_attributes(module: SourceModule) -> bool:
    """Whether a file does more with the attributes of something than look one up: ``models.__dict__[name]()``."""
    nodes = nodes_of(module.tree)
    taken = nodes.attributes.get("__dict__", ())
    if not taken:
        return False
    asked = [each.value for each in nodes.of(ast.Subscript) if isinstance(each.ctx, ast.Load)]
    asked += [each.iter for each in nodes.of(ast.comprehension, ast.For)]
    asked += [each for compared in nodes.of(ast.Compare) for each in compared.comparators]
    looked_up = {id(each) for each in asked}
    return any(id(each) not in looked_up for each in taken)


def _computes(call: ast.Call, module: SourceModule) -> bool:
    """Whether a call is of a library that computes: what it gets are numbers which somebody calls the same."""
    return dotted_name(call, imported_names(module.tree)).partition(".")[0] in _COMPUTE


def _gets(call: ast.Call, holders: AbstractSet[str]) -> bool:
    given = (*call.args, *(each.value for each in call.keywords if each.arg is not None))
    return any(isinstance(each, ast.Name | ast.Attribute) and _name_of(each) in holders for each in given)


def variables_of(call: Site) -> Iterator[str]:
    """The variables that the options are bound to where they are parsed."""
    for each in nodes_of(call.module.tree).of(ast.Assign):
        if any(node is call.node for node in ast.walk(each.value)):
            yield from (name.id for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name))


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
