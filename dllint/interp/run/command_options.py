"""Options that click and typer hand to the parameters of a command: settings, with the defaults the program gives.

And those that a program looks for by itself.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.sites import Site
from dllint.values import Const, External, Function, Instance, Setting, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_DECLARED = frozenset(("typer.Option", "typer.Argument"))  # as the default of a parameter
_DECORATORS = frozenset(("click.option", "click.argument"))


def is_declaration(value: Value) -> bool:
    """Whether the default of a parameter is not what a command gets, but says what that is."""
    return isinstance(value, Instance) and value.library_name in _DECLARED


def declared(name: str, declaration: Value) -> Setting:
    """The setting of ``name: int = typer.Option(3)``; without a first argument, or with ``...``, it has no default."""
    assert isinstance(declaration, Instance)
    default = declaration.arguments.get(0, "default")
    is_required = isinstance(default, Const) and default.value is ...
    return Setting(name, None if is_required else default, declaration.site)


def decorated(machine: Machine, function: Function, name: str) -> Setting | None:
    """The setting that ``@click.option("--name", default=3)`` over a function makes of its parameter."""
    if isinstance(function.node, ast.Lambda):
        return None
    for decorator in function.node.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Name | ast.Attribute):
            continue
        with machine.aside():
            callee = machine.evaluate(decorator.func, function.scope)
            if not isinstance(callee, External) or callee.name not in _DECORATORS:
                continue
            keywords = {k.arg: machine.evaluate(k.value, function.scope) for k in decorator.keywords if k.arg}
            flags = [machine.evaluate(argument, function.scope) for argument in decorator.args]
        texts = [flag.value for flag in flags if isinstance(flag, Const) and isinstance(flag.value, str)]
        if _destination(texts) == name:
            default = _default(keywords, is_argument=callee.name == "click.argument", flags=texts)
            return Setting(name, default, Site(function.module, decorator))
    return None


def _destination(flags: list[str]) -> str:
    """The parameter that an option is handed to: its plain name if it has one, else its longest flag."""
    plain = [flag for flag in flags if flag.isidentifier()]
    if plain:
        return plain[0]
    names = [flag.partition("/")[0].lstrip("-").replace("-", "_").lower() for flag in flags]
    long = [name for flag, name in zip(flags, names, strict=True) if flag.startswith("--")] or names
    return long[0] if long else ""


def _default(keywords: dict[str, Value], flags: list[str], *, is_argument: bool) -> Value | None:
    given = keywords.get("default")
    required = keywords.get("required")
    if isinstance(required, Const) and required.value:
        return None
    if given is not None:
        return given
    if is_argument and required is None:
        return None
    is_flag = keywords.get("is_flag")
    is_switch = any("/" in flag for flag in flags) or (isinstance(is_flag, Const) and is_flag.value)
    return Const(False if is_switch else None)


def looked_for(op: ast.cmpop, left: Value, right: Value, site: Site) -> Setting | None:
    """The setting that ``"--resume" in sys.argv`` asks for, which is off where nobody gives it."""
    is_asked = isinstance(op, ast.In | ast.NotIn) and isinstance(right, External) and right.name == "sys.argv"
    name = left.value if isinstance(left, Const) else None
    if not is_asked or not isinstance(name, str) or not name.startswith("-"):
        return None
    return Setting(name, Const(False, site), site)
