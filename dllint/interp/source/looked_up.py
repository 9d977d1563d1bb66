"""Where a project gets at definitions by their names as texts: `getattr(models, config.name)`, `globals()[name]`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from dllint.interp.source.imported import KNOWN, imported_names
from dllint.interp.source.known_settings import SETTINGS, last_name

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_NAMESPACES = ("globals", "locals", "vars", "eval", "exec")  # of the file that they stand in
_TABLES = re.compile(r"\b__dict__\b|\bmodules\[")
_ANYWHERE = re.compile(
    r"__import__\(|\bimport_\w+\(|\blocate\(|\binstantiate\b|\binit_obj\b|\bbuild_from_cfg\b|\bget_class\b|\bload_class\b"
    r"|\bget_obj\w*\(|\b\w*CLI\b|\bfire\b|\bgin\b"
)
_HERE = re.compile(r"\bgetattr\(|\b__dict__\b|\bmodules\[|\b(?:globals|locals|vars)\(|(?<!\.)\b(?:eval|exec)\(")


def may_be_looked_up(project: Project, module: SourceModule) -> bool:
    """Whether some code may get at what the top of a file defines by a name that it computes."""
    if any(project.mentioning(_ANYWHERE)):
        return True
    users = project.reading_each(project.mentioning(_HERE))
    return any(not user.has_tree or _looks_up(project, user, module) for user in users)


def _looks_up(project: Project, user: SourceModule, module: SourceModule) -> bool:
    """Whether a file reads attributes of another one, or of one that imports that, by names that it computes."""
    reads_all = user.contains(_TABLES) or any(user.calls.get(name) for name in _NAMESPACES)
    if reads_all and (user.file == module.file or module in project.imported_by(user)):
        return True
    return any(_leads_to(project, user, module, call) for call in user.calls.get("getattr", ()))


def _leads_to(project: Project, user: SourceModule, module: SourceModule, call: ast.Call) -> bool:
    """Whether `getattr(owner, name)` may get at what a file defines: not of a library, or of settings."""
    if len(call.args) < 2 or isinstance(call.args[1], ast.Constant):
        return False  # a name that is written there is found as such
    owner = root = call.args[0]
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(owner, ast.Subscript) and ast.unparse(owner).endswith("modules[__name__]"):
        return False  # the file itself
    if not isinstance(root, ast.Name) or (root.id == "self" and owner is not root):
        return True
    if root.id == "self" or SETTINGS.search(last_name(owner)):
        return False
    dotted = imported_names(user.tree).get(root.id)
    if dotted is None:
        return True
    found = None if dotted.partition(".")[0] in KNOWN else project.find(user, dotted, 0)
    return found is not None and (found.file == module.file or module in project.imported_by(found))
