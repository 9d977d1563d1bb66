"""How a class is used that nobody calls: its outer methods, and those that it inherits and that call its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dllint.interp.run.classes import framework_of
from dllint.interp.sieve.word_graph import called_on_self
from dllint.values import Class

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule

Method = ast.FunctionDef | ast.AsyncFunctionDef


def inherited_drivers(machine: Machine, cls: Class, own: Sequence[Method]) -> dict[Method, frozenset[str]]:
    """The methods that a class inherits from others of the project and that lead to methods of its own.

    A base class that calls ``self.train_epoch`` says how an epoch is used that only the class defines. Each comes with
    the names of all methods that it leads to.
    """
    if len(cls.lineage) == 1 or framework_of(machine, cls):
        return {}
    names = {method.name for method in own}
    inherited = {method.name: (module, method) for module, method in _inherited(cls)}
    calls = {name: called_on_self(module, method) for name, (module, method) in inherited.items()}
    found: dict[Method, frozenset[str]] = {}
    for name, (_, method) in inherited.items():
        reached: set[str] = set()
        pending = [name]
        while pending:
            new = (calls.get(pending.pop(), frozenset()) & (names | inherited.keys())) - reached
            reached |= new
            pending.extend(new)
        if not reached.isdisjoint(names):
            found[method] = frozenset(reached - {name})
    return found


def _inherited(cls: Class) -> Iterator[tuple[SourceModule, Method]]:
    seen = set(cls.members)
    for ancestor in cls.lineage[1:]:
        for name, member in ancestor.members.items():
            if name not in seen and isinstance(member, Method) and not name.startswith("__"):
                yield ancestor.module, member
        seen.update(ancestor.members)


def outer_methods_first(
    module: SourceModule, methods: Sequence[Method], drivers: Mapping[Method, frozenset[str]]
) -> list[Method]:
    """Methods that no other method calls come first: they are how the class is used."""
    names = {method.name for method in methods}
    inherited = {driver.name for driver in drivers}
    called = set().union(*drivers.values())
    for method in methods:
        called.update((names & module.words_in(method)) - {method.name})
        if inherited:
            called.update(inherited.intersection(called_on_self(module, method)))
    return sorted([*drivers, *methods], key=lambda method: method.name in called)
