"""Command-line options: an argument parser's options become settings with the defaults the program gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.sites import Site
from dllint.values import Arguments, Const, Instance, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_GROUPS = frozenset(("add_argument_group", "add_mutually_exclusive_group"))


def call_method(machine: Machine, base: Instance, name: str, arguments: Arguments, site: Site) -> Value | None:
    """A method of ``argparse.ArgumentParser``, or ``None`` if it does not concern options."""
    if name == "add_argument":
        _add_option(machine, base, arguments, site)
        return Symbol(".add_argument", (base,), site)
    if name in _GROUPS:
        return base
    if name == "set_defaults":
        for key, value in arguments.keywords.items():
            machine.write(base.attributes, key, Setting(key, value, site))
        return Const(None)
    if name in ("parse_args", "parse_known_args", "parse_intermixed_args"):
        namespace = Instance("argparse.Namespace", Arguments(), site)
        namespace.attributes.update(base.attributes)
        return namespace if name != "parse_known_args" else Items("tuple", (namespace, Symbol("unknown")), site)
    return None


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
    machine.write(parser.attributes, name, Setting(name, _default(arguments), site))


def _default(arguments: Arguments) -> Value:
    given = arguments.keywords.get("default")
    if given is not None:
        return given
    action = arguments.keywords.get("action")
    if isinstance(action, Const) and action.value == "store_true":
        return Const(False)
    if isinstance(action, Const) and action.value == "store_false":
        return Const(True)
    return Const(None)
