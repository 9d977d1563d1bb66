"""Entries of dicts that nothing asks for: a table of transforms of which one is never chosen."""

from __future__ import annotations

import ast
import re

from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.interp.source.project import Project
from dllint.sites import Site


def unread_entry(site: Site, project: Project) -> tuple[str, str]:
    """The dict at the top of a file, and its key, in whose entry a place is, if nothing reads that entry.

    All that is done with the dict is that other entries are looked up by constants. Two empty texts in doubt.
    """
    module, inner = site.module, site.node
    if not isinstance(module, SourceModule):
        return "", ""
    for outer in ancestors(site):
        if isinstance(outer, ast.Dict):
            name = _name_of(outer, module)
            keys = [key for key, value in zip(outer.keys, outer.values, strict=True) if value is inner]
            key = keys[0].value if keys and isinstance(keys[0], ast.Constant) else None
            if name and isinstance(key, str) and _is_left_out(name, key, module, project):
                return name, key
        inner = outer
    return "", ""


def _name_of(table: ast.Dict, module: SourceModule) -> str:
    """The variable at the top of a file that a dict is assigned to."""
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and statement.value is table and len(statement.targets) == 1:
            target = statement.targets[0]
            return target.id if isinstance(target, ast.Name) else ""
    return ""


def _is_left_out(name: str, key: str, module: SourceModule, project: Project) -> bool:
    """Whether all entries of a dict that are asked for are others, and no other file has anything of its name."""
    asked = [
        _key_asked_for(Site(module, node))
        for node in nodes_of(module.tree).names.get(name, ())
        if not _is_definition(Site(module, node))
    ]
    if not asked or None in asked or key in asked:
        return False
    word = re.compile(rf"\b{re.escape(name)}\b")
    is_elsewhere = any(each is not module for each in project.mentioning(word)) or any(project.notebooks_with(name))
    return project.is_whole_around(module) and not is_elsewhere


def _key_asked_for(place: Site) -> object:
    """The constant that a variable is looked up by; ``None`` where something else is done with it."""
    around = next(iter(ancestors(place)), None)
    if isinstance(around, ast.Subscript) and around.value is place.node and isinstance(around.slice, ast.Constant):
        return around.slice.value
    return None


def _is_definition(place: Site) -> bool:
    around = next(iter(ancestors(place)), None)
    return isinstance(around, ast.Assign) and isinstance(around.value, ast.Dict) and place.node in around.targets
