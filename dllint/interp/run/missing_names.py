"""Names that are not there: imports that Python refuses as the file has no such name, modules that nobody imported.

Only what is certain counts: the file is the one that Python finds, and nothing in it can make names that are not
written there.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule

_MAKES_NAMES = re.compile(
    r"\b(globals|locals|vars)\s*\(\s*\)|\b(exec|execfile|setattr|update_wrapper)\s*\(|\b__getattr__\b|\b__dict__\b|\bsys\.modules\b"
)
_LIBRARIES = frozenset(("clip", "datasets", "evaluate", "peft", "tokenizers", "trl"))  # names that files have, too
_IMPLICIT = re.compile(r"__\w+__")


def is_refused(machine: Machine, statement: ast.ImportFrom, importer: SourceModule) -> bool:
    """Whether a `from … import …` raises `ImportError`: the file that it names binds no such name."""
    if not _is_run(machine):
        return False
    module = machine.project.find(importer, statement.module or "", statement.level)
    if module is None or module is importer or not _is_the_one(machine, statement, importer, module):
        return False
    wanted = [alias.name for alias in statement.names if alias.name != "*" and not _IMPLICIT.fullmatch(alias.name)]
    return not all(name in module.words for name in wanted) and _is_plain(module)


def is_forgotten(machine: Machine, name: str, module: SourceModule) -> bool:
    """Whether a name raises `NameError`: that of a module of Python's, in a file that imports no such thing."""
    is_module = name in sys.stdlib_module_names and _is_run(machine)
    return is_module and not module.binds(name) and _is_plain(module)


def _is_run(machine: Machine) -> bool:
    """Whether this is a script that is run: not a look at a name, nor a notebook, which goes on with its next cell."""
    return machine.block is not None and machine.main.source.notebook is None


def _is_the_one(machine: Machine, statement: ast.ImportFrom, importer: SourceModule, module: SourceModule) -> bool:
    """Whether Python finds this very file: run from another folder, an absolute name may be that of a library."""
    if module.is_package:
        return False  # a name may be that of a compiled module in it
    if statement.level:
        return True
    parts = (statement.module or "").split(".")
    beside = machine.main.folder.joinpath(*parts).with_suffix(".py")
    return importer is machine.main and module.file == beside and not _is_library(machine, parts[0])


def _is_plain(module: SourceModule) -> bool:
    """Whether all names of a file are written in it."""
    is_closed = not module.contains(_MAKES_NAMES) and not module.bindings.stars
    return is_closed and module.syntax_error is None and module.source.notebook is None


def _is_library(machine: Machine, name: str) -> bool:
    return name in sys.stdlib_module_names or name in _LIBRARIES or name in machine.facts.packages
