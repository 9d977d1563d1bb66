"""Names that code of a program uses and that later releases of their libraries do not have, wherever it does so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.bindings import Definition
from dllint.interp.source.gone_names import PUTS_NAMES, is_of_project
from dllint.interp.source.imported import dotted_uses
from dllint.interp.source.library_names import Gone, gone

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project


def early_names(project: Project, module: SourceModule) -> tuple[Gone, ...]:
    """The names that are gone of what a file uses, and of what it imports does, in code that something runs.

    When they are used is not asked: who keeps them runs with releases that have them. What is read only if it is there
    does not count.
    """
    modules = project.closure(module)
    found = {each for used in project.reading_each(modules) for each in _used_in(project, used)}
    if found and any(each.contains(PUTS_NAMES) for each in modules):
        return ()
    return tuple(sorted(found, key=lambda each: each.name))


def _used_in(project: Project, module: SourceModule) -> Iterator[Gone]:
    if module.parse_error is not None:
        return
    for node, dotted in dotted_uses(module.tree):
        name = gone(dotted)
        if name is None or is_of_project(project, module, name.name.partition(".")[0]):
            continue
        around = next((each for each in module.tree.body if each.lineno <= node.lineno <= (each.end_lineno or 0)), None)
        if not isinstance(around, Definition) or project.uses(module, around):
            yield name
