"""Constants that the user can override: what may set the attributes of an object makes settings of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dllint.choices import alternatives
from dllint.interp.run.classes import find_member, role_of
from dllint.interp.run.handed_on import options_in
from dllint.sites import Site
from dllint.values import Arguments, Class, Const, Function, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_SETS = re.compile(r"_*(parse|update|merge|overr|load|read|set|init|config|apply|from_|add_|fill|populate)")
_CONFIGURATION = re.compile(r"arg|opt|conf|cfg|param|setting|flag", re.IGNORECASE)
_MAX_NESTING = 4
OF_PARSERS = {  # of library classes that are given classes of options
    "transformers.HfArgumentParser": (
        "parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file", "parse_dict",
    ),
    "trl.TrlParser": ("parse_args_and_config", "parse_args_into_dataclasses"),
}  # fmt: skip


def sets_attributes(method: str) -> bool:
    """Whether a method sets attributes of its object, by its name."""
    return bool(_SETS.match(method))


def sets_options(function: str) -> bool:
    """Whether a function sets attributes of an object that it is given, by its name: ``merge_config(cfg, args)``."""
    return sets_attributes(function) and bool(_CONFIGURATION.search(function))


def overridden(machine: Machine, value: Value, depth: int = 0) -> None:
    """Something that is not known may have set the attributes or entries of an object: they are what it starts with.

    Modules, optimizers and the like are not configured in this way.
    """
    machine.handed_on.update(options_in([value]))
    for _, option in alternatives(value):
        if isinstance(option, Table):
            _make_settings(machine, option.contents, option.entries(), depth)
            if option.holder is not None:
                overridden(machine, option.holder, depth)
        elif isinstance(option, Class):
            _make_settings(machine, option.values, _class_constants(machine, option), depth)
        elif isinstance(option, Instance) and not role_of(machine, option):
            given = option.arguments.keywords if isinstance(option.cls, str) else _class_constants(machine, option.cls)
            _make_settings(machine, option.attributes, {**given, **option.attributes}, depth)


def _make_settings(machine: Machine, holder: dict[Any, Any], values: Mapping[Any, Value], depth: int) -> None:
    for name, value in values.items():
        if isinstance(value, Const):
            machine.write(holder, name, Setting(str(name), value, value.site))
        elif depth < _MAX_NESTING and (isinstance(value, Table) or is_record(value)):
            overridden(machine, value, depth + 1)


def is_record(value: Value) -> bool:
    """Whether a value is a dataclass, or a library's object that has what attributes one gives it."""
    if not isinstance(value, Instance):
        return False
    if isinstance(value.cls, Class):
        return any(ancestor.dataclass for ancestor in value.cls.lineage)
    return value.cls.endswith(("SimpleNamespace", "Namespace", "CfgNode", "ConfigDict", "EasyDict", "HParams"))


def _class_constants(machine: Machine, cls: Class) -> dict[str, Value]:
    """What the bodies of a class and its ancestors assign."""
    found: dict[str, Value] = {}
    for ancestor in reversed(cls.lineage):
        for name, statement in ancestor.members.items():
            value = find_member(machine, cls, name) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
            if value is not None:
                found[name] = value
    return found


def set_entries(machine: Machine, table: Table, entries: Mapping[Any, Value], *, exact: bool) -> None:
    """Entries of a dict were set; of ``vars(x)``, the attributes of ``x``. Others may have been, if not ``exact``."""
    if not exact:
        overridden(machine, table)
    if table.holder is not None:
        for name, value in entries.items():
            if isinstance(name, str):
                machine.write(table.holder.attributes, name, value)


def parsed(machine: Machine, options: Value | None, site: Site) -> Value:
    """What a command-line parser makes of a class of options, or of several: each field is a setting."""
    if isinstance(options, Items):
        return Items("tuple", [parsed(machine, each, site) for each in options.items], site, exact=options.exact)
    if not isinstance(options, Class | Function):
        return Symbol("unknown", (options,) if options is not None else (), site)
    made = machine.call(options, Arguments(exact=False), site)
    if isinstance(options, Class):
        overridden(machine, made)
    return made
