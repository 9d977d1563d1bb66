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
_IMPLICIT = re.compile(r"__\w+__")


def has_only_what_is_written(module: SourceModule) -> bool:
    """Whether all names of a file are written in it: no code makes others, and no other file gives it all of its."""
    is_closed = not module.contains(_MAKES_NAMES) and not module.bindings.stars
    return is_closed and module.syntax_error is None and module.source.notebook is None


def lacks(project: Project, module: SourceModule, name: str) -> bool:
    """Whether ``from module import name`` fails: nothing binds the name, and no file of its package is called so."""
    if name == "*" or _IMPLICIT.fullmatch(name) or module.binds(name) or not has_only_what_is_written(module):
        return False
    return not module.is_package or not any(
        each == name or each.startswith(f"{name}.") for each in project.names_in(module.file.parent)
    )
