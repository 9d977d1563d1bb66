"""Names that a file of the project certainly does not have, so that an import of them fails."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_MAKES_NAMES = re.compile(
    r"\b(globals|locals|vars)\s*\(\s*\)|\b(exec|execfile|setattr|update_wrapper)\s*\(|\b__getattr__\b|\b__dict__\b|\bsys\.modules\b"
)
_MAX_DEPTH = 4  # of modules that take all names of others
_IMPLICIT = re.compile(r"__\w+__")


def has_only_what_is_written(module: SourceModule) -> bool:
    """Whether all names of a file are written in it: no code makes others, and no other file gives it all of its."""
    return is_closed(module) and not module.stars


def lacks(project: Project, module: SourceModule, name: str, depth: int = 0) -> bool:
    """Whether ``from module import name`` fails: nothing binds the name, and no file of its package is called so.

    Of a module that takes all names of others, these must lack it, too.
    """
    if name == "*" or _IMPLICIT.fullmatch(name) or module.binds(name) or not is_closed(module) or depth > _MAX_DEPTH:
        return False
    for origin, level in module.stars:
        other = project.find(module, origin, level)
        if other is None or not lacks(project, other, name, depth + 1):
            return False
    return not module.is_package or not any(
        each == name or each.startswith(f"{name}.") for each in project.names_in(module.file.parent)
    )


def is_closed(module: SourceModule) -> bool:
    """Whether no code of a file makes names for it that are not written there."""
    is_plain = module.parse_error is None and module.source.notebook is None
    return is_plain and not module.contains(_MAKES_NAMES)
