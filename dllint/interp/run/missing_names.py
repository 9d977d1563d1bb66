"""Names that are not there: of an imported file, that nothing in a file binds, of an option that no parser has.

Only what is certain counts: the file is the one that Python finds, and nothing in it can make names that are not
written there.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from typing import TYPE_CHECKING

from dllint.events import OptionMissing
from dllint.interp.source.closed_parsers import lacks_option, may_be_set
from dllint.interp.source.imported import ALSO_KNOWN
from dllint.interp.source.missing_names import has_only_what_is_written, lacks
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trials import has_main_guard
from dllint.values import Instance, ModuleReference

# What is there without being bound: in Python 3, in Python 2 (for which a file may be), and where tools run a file.
_PROVIDED = frozenset(dir(builtins)) | {
    "basestring", "cmp", "execfile", "file", "long", "raw_input", "reduce", "reload", "unichr", "unicode", "xrange",
    "display", "get_ipython", "profile", "reveal_type", "WindowsError",
}  # fmt: skip

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule
    from dllint.sites import Site
    from dllint.values import Scope, Value


def is_refused(machine: Machine, statement: ast.ImportFrom, importer: SourceModule) -> bool:
    """Whether a `from … import …` raises `ImportError`: the file that it names binds no such name."""
    if not _is_run(machine):
        return False
    module = machine.project.find(importer, statement.module or "", statement.level)
    if module is None or module is importer or not _is_the_one(machine, statement, importer, module):
        return False
    with machine.project.reading(module):
        return any(lacks(machine.project, module, alias.name) for alias in statement.names)


def is_forgotten(machine: Machine, name: str, scope: Scope) -> bool:
    """Whether a name raises `NameError`: nothing in the file binds it, and Python has none of its own.

    At the top of a file what its functions bind for themselves is not there; in a function anything may be that is
    bound at any depth. Of a file that stands alone, and in an editor, where all may be unfinished, only modules of
    Python's that it does not import are such names: a program has a main guard, or imports others of its project.
    """
    if name in _PROVIDED or name.startswith("__") or not _is_run(machine):
        return False
    module = scope.module
    is_whole = name in sys.stdlib_module_names or _is_of_project(machine, module)
    if not is_whole:
        return False
    if scope.parent is not None or not module.binds(name):
        return lacks(machine.project, module, name)
    return (
        has_only_what_is_written(module)
        and name not in module.bindings.names
        and not any(name in each.names for each in nodes_of(module.tree).of(ast.Global))
    )


def _is_of_project(machine: Machine, module: SourceModule) -> bool:
    """Whether a file of a project, which is there as a whole and on the disk, is a program or imports others."""
    project = machine.project
    if project.is_edited or not project.is_whole_around(module):
        return False
    return has_main_guard(module) or any(
        project.find(module, name, level) not in (None, module) for name, level in module.top_imports
    )


def is_not_in(machine: Machine, base: Value, name: str) -> bool:
    """Whether ``module.name`` raises `AttributeError`: a file of the project, beside the script, has no such name."""
    if not isinstance(base, ModuleReference) or not _is_run(machine):
        return False
    module, assigned = base.module, re.compile(rf"\.{name}\s*(:[^=\n]+)?=[^=]")
    with machine.project.reading(module):
        if module.folder != machine.main.folder or module.is_package or not lacks(machine.project, module, name):
            return False
    return not any(each.contains(assigned) for each in machine.project.closure(machine.main))


def missing_option(machine: Machine, base: Value, read: Site) -> OptionMissing | None:
    """That ``args.name`` raises `AttributeError`, if so: the parser has no such option, and no code sets it."""
    if not isinstance(base, Instance) or base.library_name != "argparse.Namespace" or base.site is None:
        return None
    node = read.node
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or not _is_run(machine):
        return None
    name, holder = node.attr, node.value.id
    if name in base.attributes or name.startswith("__") or not lacks_option(base.site, name):
        return None
    is_set = may_be_set(name, holder, machine.project.closure(machine.main))
    return None if is_set else OptionMissing(read, name, base.site)


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


def _is_library(machine: Machine, name: str) -> bool:
    return name in sys.stdlib_module_names or name in ALSO_KNOWN or name in machine.facts.packages
