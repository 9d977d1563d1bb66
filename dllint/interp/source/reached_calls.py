"""What the code calls that a script may get to, of the files that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dllint.interp.source.bindings import Definition
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trials import is_main_guard

_GETTING = frozenset(("getattr", "attrgetter", "methodcaller"))
_GUARDED = "below the main guard"
_BY_TEXT = frozenset(("globals", "__import__", "eval", "exec", "locals"))


class _Unit(NamedTuple):
    """A function, a method, or what is at the top of a file or a class, with the calls in it.

    ``words`` are the variables in it, and the attributes of what is imported; ``attributes`` are those of anything.
    ``looks_up`` tells of what may get to any code, by a text.
    """

    name: str
    is_method: bool
    looks_up: bool
    words: frozenset[str]
    attributes: frozenset[str]
    calls: tuple[ast.Call, ...]


def reached_calls(script: SourceModule, modules: Iterable[SourceModule]) -> Iterator[ast.Call]:
    """The calls in a script, and in what it and what it leads to name of the files that it imports.

    All calls, where something may be looked up by a text.

    Args:
        script: the file that is run.
        modules: what it imports, directly or not, each to be read in turn.
    """
    reached = _units_of(script)
    others = [unit for each in modules if each is not script for unit in _units_of(each)]
    words = {word for unit in reached for word in unit.words}
    attributes = {word for unit in reached for word in unit.attributes}
    is_growing = True
    while is_growing:
        found = [unit for unit in others if _is_named(unit, words, attributes)]
        others = [unit for unit in others if unit not in found]
        words.update(word for unit in found for word in unit.words)
        attributes.update(word for unit in found for word in unit.attributes)
        reached, is_growing = [*reached, *found], bool(found)
    for unit in (*reached, *others) if any(each.looks_up for each in reached) else reached:
        yield from unit.calls


def _looks_up(call: ast.Call, imported: frozenset[str]) -> bool:
    """Whether a call gets something by a text, which is no constant: `getattr(trainers, name)`; no options."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in _GETTING:
        is_of_code = not call.args or getattr(call.args[0], "id", "self") in (*imported, "self")
        return is_of_code and not (len(call.args) > 1 and isinstance(call.args[1], ast.Constant))
    return name == "import_module" or (isinstance(call.func, ast.Name) and name in _BY_TEXT)


def _is_named(unit: _Unit, words: set[str], attributes: set[str]) -> bool:
    """Whether Python gets to a unit by itself, or something names it."""
    if not unit.name or unit.name == "forward" or unit.name.startswith("__"):
        return True
    return unit.name in (attributes if unit.is_method else words)


def _units_of(module: SourceModule) -> list[_Unit]:
    known: list[_Unit] | None = module.derived.get(_units_of)
    if known is None:
        imported = frozenset(
            alias.asname or alias.name.partition(".")[0]
            for each in nodes_of(module.tree).of(ast.Import, ast.ImportFrom)
            for alias in each.names
        )
        known = module.derived[_units_of] = [*_find_units(module.tree, imported)]
    return known


def _find_units(root: ast.Module | ast.ClassDef, imported: frozenset[str]) -> Iterator[_Unit]:
    """The units of a file or a class; what a class has at its top, such as the names of its bases, is always read.

    What is below a main guard is a unit of its own, as nothing gets to it in a file that is imported.
    """
    inside = [each for each in root.body if isinstance(each, Definition)]
    top = [each for each in root.body if not isinstance(each, Definition)]
    is_class = isinstance(root, ast.ClassDef)
    guarded = [each for each in top if is_main_guard(each)]
    yield _unit("", False, [*(each for each in top if each not in guarded), *getattr(root, "bases", ())], imported)
    yield _unit(_GUARDED, False, guarded, imported)
    for each in inside:
        if isinstance(each, ast.ClassDef):
            yield from _find_units(each, imported)
        else:
            yield _unit(each.name, is_class, [each], imported)


def _unit(name: str, is_method: bool, code: Iterable[ast.AST], imported: frozenset[str]) -> _Unit:
    inside = [nodes_of(each) for each in code]
    attributes = [pair for each in inside for pair in each.attributes.items()]
    of_imported = (
        word for word, nodes in attributes if any(getattr(each.value, "id", "") in imported for each in nodes)
    )
    words = frozenset((*(word for each in inside for word in each.names), *of_imported))
    calls = tuple(call for each in inside for call in each.of(ast.Call))
    looks_up = any(_looks_up(call, imported) for call in calls)
    return _Unit(name, is_method, looks_up, words, frozenset(word for word, _ in attributes), calls)
