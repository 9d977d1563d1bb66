"""Command-line options: an argument parser's options become settings with the defaults the program gives them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.events import LibraryCall
from dllint.interp.run.joining import CallError
from dllint.sites import Site
from dllint.values import Arguments, Class, Const, External, Instance, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

ADD = "argparse.ArgumentParser.add_argument"  # whatever the parser is called
PARSE = "argparse.ArgumentParser.parse_args"
_PARSERS = frozenset(("argparse.ArgumentParser", "configargparse.ArgParser", "configargparse.ArgumentParser"))
_GROUPS = frozenset(("add_argument_group", "add_mutually_exclusive_group"))
_OF_VALUES = frozenset(("choices", "const", "metavar", "nargs", "type"))
_MAX_PARENTS = 4


def call_method(machine: Machine, base: Instance, name: str, arguments: Arguments, site: Site) -> Value | None:
    """A method of ``argparse.ArgumentParser``, or ``None`` if it does not concern options."""
    if name == "add_argument":
        _add_option(machine, base, arguments, site)
        return _told(machine, base, arguments, site)
    if name in _GROUPS:
        return base
    if name == "set_defaults":
        for key, value in arguments.keywords.items():
            machine.write(base.attributes, key, Setting(key, value, site))
        if not arguments.exact:  # `parser.set_defaults(**yaml.safe_load(file))`
            _unfix(machine, base)
        return Const(None)
    if name in ("parse_args", "parse_known_args", "parse_intermixed_args"):
        namespace = Instance("argparse.Namespace", Arguments(), site)
        options = _options(base)
        is_left = name != "parse_args" or not arguments.keywords
        namespace.attributes.update({key: _parsed(each) if is_left else each for key, each in options.items()})
        if name == "parse_args":
            machine.emit(LibraryCall(site, PARSE, Arguments((base, *arguments.positional)), namespace))
        return namespace if name != "parse_known_args" else Items("tuple", (namespace, Symbol("unknown")), site)
    return None


def _parsed(option: Value) -> Value:
    """An option as it is parsed: a switch that is set by default to what it sets is no setting, whatever is given."""
    return option.default if isinstance(option, Setting) and option.is_fixed else option


def _unfix(machine: Machine, parser: Instance) -> None:
    """Take the switches of a parser for settings: it gets defaults that are not known."""
    for name, option in list(parser.attributes.items()):
        if isinstance(option, Setting) and option.is_fixed:
            machine.write(parser.attributes, name, Setting(name, option.default, option.site))


def _options(parser: Instance, depth: int = 0) -> dict[str, Value]:
    """The options of a parser, those of its ``parents`` included."""
    parents = parser.arguments.keywords.get("parents")
    found: dict[str, Value] = {}
    for parent in parents.items if isinstance(parents, Items) and depth < _MAX_PARENTS else ():
        if isinstance(parent, Instance) and parent.library_name == parser.library_name:
            found.update(_options(parent, depth + 1))
    return {**found, **parser.attributes}


def add_to_unknown(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``add_argument("--lr", ...)`` of something that a function was given: its first argument says what it is."""
    cls = base.cls if isinstance(base, Instance) else None
    first = arguments.get(0, None)
    is_option = isinstance(first, Const) and isinstance(first.value, str) and first.value.startswith("-")
    if isinstance(cls, Class) and not _PARSERS.isdisjoint(cls.library_bases):
        return _told(machine, base, arguments, site)
    return _told(machine, base, arguments, site) if is_option and not isinstance(base, Instance) else None


def _told(machine: Machine, base: Value, arguments: Arguments, site: Site) -> Value:
    result = Symbol(".add_argument", (base,), site)
    given = Arguments((base, *arguments.positional), arguments.keywords, arguments.exact)
    machine.emit(LibraryCall(site, ADD, given, result))
    return result


def _add_option(machine: Machine, parser: Instance, arguments: Arguments, site: Site) -> None:
    flags = [flag.value for flag in arguments.positional if isinstance(flag, Const) and isinstance(flag.value, str)]
    destination = arguments.keywords.get("dest")
    if isinstance(destination, Const) and isinstance(destination.value, str):
        name = destination.value
    else:
        long = [flag for flag in flags if flag.startswith("--")] or flags
        if not long:
            return
        name = long[0].lstrip("-").replace("-", "_")
    is_positional = any(not flag.startswith("-") for flag in flags)
    if _is_there_already(parser, name, flags, site) or _is_refused(machine, parser, arguments):
        raise CallError(site)
    default = None if _is_required(arguments, is_positional) else _default(machine, arguments, site)
    is_fixed = name not in parser.attributes and _is_set_anyway(parser, arguments)
    machine.write(parser.attributes, name, Setting(name, default, site, is_fixed=is_fixed))


def _is_set_anyway(parser: Instance, arguments: Arguments) -> bool:
    """Whether an option is a switch that is set by default to what it sets: `action="store_true", default=True`."""
    is_known = parser.library_name == "argparse.ArgumentParser" and arguments.exact
    action, default = (arguments.keywords.get(key) for key in ("action", "default"))
    if not is_known or not isinstance(action, Const) or not isinstance(default, Const):
        return False
    return (action.value == "store_true" and default.value is True) or (
        action.value == "store_false" and default.value is False
    )


def _is_there_already(parser: Instance, name: str, flags: list[str], site: Site) -> bool:
    """Whether the parser certainly has an option of these flags, so that it raises `ArgumentError`."""
    known = parser.attributes.get(name)
    if not isinstance(known, Setting) or known.site is None or "conflict_handler" in parser.arguments.keywords:
        return False
    call = known.site.node
    if (
        known.site.node is site.node
        or not isinstance(call, ast.Call)
        or getattr(call.func, "attr", "") != "add_argument"
    ):
        return False
    return any(isinstance(each, ast.Constant) and each.value in flags for each in call.args)


def _is_refused(machine: Machine, parser: Instance, arguments: Arguments) -> bool:
    """Whether Python refuses an option: it has a name without a dash beside another, or takes no value and says which.

    `ValueError` is raised then, or `TypeError`. A notebook goes on with its next cell.
    """
    names = [each.value for each in arguments.positional if isinstance(each, Const) and isinstance(each.value, str)]
    is_known = parser.library_name == "argparse.ArgumentParser" and parser.arguments.exact and arguments.exact
    if not is_known or len(names) < len(arguments.positional) or "prefix_chars" in parser.arguments.keywords:
        return False
    if machine.block is None or machine.main.source.notebook is not None:
        return False
    is_mixed = len(names) > 1 and any(not name.startswith("-") for name in names)
    action = arguments.keywords.get("action")
    takes_none = isinstance(action, Const) and action.value in ("store_true", "store_false")
    return is_mixed or (takes_none and not _OF_VALUES.isdisjoint(arguments.keywords))


def _is_required(arguments: Arguments, is_positional: bool) -> bool:
    """Whether the user has to say something, so that a default would never be used."""
    if is_positional:
        number = arguments.keywords.get("nargs")
        return not (isinstance(number, Const) and number.value in ("?", "*"))
    required = arguments.keywords.get("required")
    return isinstance(required, Const) and bool(required.value)


def _default(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """The default of an option; ``None`` where the option is then not among the arguments at all."""
    given = arguments.keywords.get("default")
    if given is not None:
        is_left_out = isinstance(given, External) and given.name == "argparse.SUPPRESS"
        return None if is_left_out else _converted(machine, given, arguments.keywords.get("type"), site)
    action = arguments.keywords.get("action")
    if isinstance(action, Const) and action.value in ("store_true", "store_false"):
        return Const(action.value == "store_false")
    return Const(None)


def _converted(machine: Machine, default: Value, kind: Value | None, site: Site) -> Value:
    """A default as the parser hands it out: it converts texts, and nothing else."""
    if not isinstance(default, Const) or not isinstance(default.value, str) or kind is None:
        return default
    if isinstance(kind, External) and kind.name == "str":
        return default
    converted = machine.call(kind, Arguments((default,)), site)
    return converted if isinstance(converted, Const) else Symbol("unknown", (default,), site)
