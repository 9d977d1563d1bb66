"""Making instances of project classes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.events import DatasetCreated, OptimizerCreated, SchedulerCreated
from dllint.interp.run import containers, library
from dllint.interp.run.classes import find_member, is_foreign_trainer, role_of, set_attributes
from dllint.sites import Site
from dllint.values import Arguments, Class, Const, Function, Instance, Setting, Symbol

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def instantiate(machine: Machine, cls: Class, arguments: Arguments, site: Site) -> Instance:
    """Make an instance: bind the fields of a dataclass, or interpret ``__init__``."""
    instance = Instance(cls, arguments, site)
    machine.made(instance.attributes)
    if is_foreign_trainer(machine, cls):
        return instance
    if any(ancestor.dataclass for ancestor in cls.lineage):
        _bind_fields(machine, cls, instance, arguments, site)
    init = find_member(machine, cls, "__init__")
    if isinstance(init, Function):
        machine.invoke(init, arguments, site, receiver=instance)
    else:
        library.initialise_base(machine, instance, arguments, site)
    post_init = find_member(machine, cls, "__post_init__")
    if isinstance(post_init, Function):
        machine.invoke(post_init, Arguments(), site, receiver=instance)
    _soften(cls, instance)
    _announce(machine, instance, arguments, site)
    return instance


def _bind_fields(machine: Machine, cls: Class, instance: Instance, arguments: Arguments, site: Site) -> None:
    fields = {name: has_default for ancestor in reversed(cls.lineage) for name, has_default in _fields(ancestor)}
    for index, (name, has_default) in enumerate(fields.items()):
        given = arguments.get(index, name)
        if given is None and not has_default and arguments.mapping is not None:  # which must have it
            given = containers.get_item(machine, arguments.mapping, Const(name), repr(name), site)
        if given is None:
            given = find_member(machine, cls, name)
            if isinstance(given, Symbol) and given.name == "dataclasses.field" and given.arguments is not None:
                given = given.arguments.keywords.get("default", given)
            if isinstance(given, Const) and not arguments.exact:
                given = Setting(name, given, given.site)  # ``Config(**options)`` may say otherwise
        if given is not None:
            instance.attributes[name] = given


def _fields(cls: Class) -> list[tuple[str, bool]]:
    """The names of the fields that a class declares, each with whether it has a default."""
    return [
        (statement.target.id, statement.value is not None)
        for statement in cls.node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]


def _soften(cls: Class, instance: Instance) -> None:
    """Constants that other methods reassign are only what the attributes start with."""
    for name in set_attributes(cls):
        value = instance.attributes.get(name)
        if isinstance(value, Const):
            instance.attributes[name] = Setting(f"self.{name}", value, value.site)


def _announce(machine: Machine, instance: Instance, arguments: Arguments, site: Site) -> None:
    """Emit the event of a project class that derives from an optimizer, scheduler or dataset."""
    role = role_of(machine, instance)
    if role == "optimizer":
        machine.emit(OptimizerCreated(site, instance, arguments.get(0, "params")))
    elif role == "scheduler":
        machine.emit(SchedulerCreated(site, instance, arguments.get(0, "optimizer")))
    elif role == "dataset":
        machine.emit(DatasetCreated(site, instance, arguments))
