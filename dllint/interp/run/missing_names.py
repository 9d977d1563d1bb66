"""Names that are not there: of an imported file, that nothing in a file binds, of an option that no parser has.

Only what is certain counts: the file is the one that Python finds, and nothing in it can make names that are not
written there.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from dllint.events import Absence, NameMissing, OptionMissing
from dllint.interp.run.handed_on import NAMESPACE
from dllint.interp.source.closed_parsers import lacks_option, may_be_set, variables_of
from dllint.interp.source.early_reads import is_read_unbound
from dllint.interp.source.imported import ALSO_KNOWN
from dllint.interp.source.missing_names import lacks
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_scope
from dllint.interp.source.top_imports import is_one_of_several
from dllint.interp.source.trials import has_main_guard
from dllint.interp.source.unbound_names import is_of_script_alone, is_provided, is_unbound, names_missing
from dllint.sites import Site
from dllint.values import Instance, ModuleReference, Symbol

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule
    from dllint.values import Scope, Value

_MANY_STATEMENTS = 20
_SEARCH_PATH = re.compile(r"\bsys\.path\b")


def missing_import(machine: Machine, statement: ast.ImportFrom, importer: SourceModule) -> NameMissing | None:
    """That a `from … import …` raises `ImportError`, if so: the file that it names binds no such name."""
    if not _is_run(machine):
        return None
    module = machine.project.find(importer, statement.module or "", statement.level)
    if module is None or module is importer or not _is_the_one(machine, statement, importer, module):
        return None
    with machine.project.reading(module):
        missing = next((each.name for each in statement.names if lacks(machine.project, module, each.name)), "")
    return NameMissing(Site(importer, statement), missing, "import", *named(module)) if missing else None


def named(module: SourceModule) -> tuple[str, Site]:
    """The name of a file, and the place where it begins."""
    return module.file.name, Site(module, module.tree)


def missing_name(machine: Machine, node: ast.Name, scope: Scope, value: Value) -> NameMissing | None:
    """That a variable cannot be read, if so: nothing has bound it, or nothing will have where it is read.

    ``value`` is what is known of it.
    """
    absence: Absence | None = None
    if isinstance(value, Symbol) and value.name == "unknown" and _is_forgotten(machine, node, scope):
        absence = "unbound"
    elif _is_of_another_script(machine, node, scope):
        absence = "main"
    elif _is_read_too_early(machine, node, scope):
        absence = "early"
    if absence is None:
        return None
    function = scope.function if absence == "early" else None
    owner = named(scope.module) if function is None else (function.qualified_name, Site(scope.module, function.node))
    return NameMissing(Site(scope.module, node), node.id, absence, *owner)


def _is_forgotten(machine: Machine, node: ast.Name, scope: Scope) -> bool:
    """Whether a name raises `NameError`: nothing binds it where it is read, and Python has none of its own.

    What functions bind for themselves is missing at the top of a file, nor in other functions. Of a file that stands
    alone, and in an editor, where all may be unfinished, only modules of Python's that it does not import are such
    names: a program has a main guard, or imports others of its project, and what it imports is a part of it.
    """
    module, name = scope.module, node.id
    if not _is_run(machine) or is_provided(module, name):
        return False
    project = machine.project
    is_whole = name in sys.stdlib_module_names or is_of_project(machine, module) or is_of_project(machine, machine.main)
    if not is_whole and not _lacks_nothing_else(machine, name, module):
        return False
    if not module.binds(name) and lacks(project, module, name):
        return True
    return is_unbound(project, module, name, node) and not _is_set_from_outside(machine, name)


def _lacks_nothing_else(machine: Machine, name: str, module: SourceModule) -> bool:
    """Whether a script does much at its top and binds all that it reads but for one name: no piece of another one."""
    project = machine.project
    is_script = module is machine.main and len(module.tree.body) >= _MANY_STATEMENTS
    if not is_script or project.is_edited or not project.is_whole_around(module):
        return False
    return names_missing(project, module) == {name}


def _is_of_another_script(machine: Machine, node: ast.Name, scope: Scope) -> bool:
    """Whether a name raises `NameError` as its file is imported, and binds it only when it is run itself."""
    module = scope.module
    if module is machine.main or not is_of_script_alone(machine.project, module, node.id, node):
        return False
    if not _is_run(machine) or not is_of_project(machine, machine.main):
        return False
    return not _is_set_from_outside(machine, node.id)


def _is_read_too_early(machine: Machine, node: ast.Name, scope: Scope) -> bool:
    """Whether a name raises `UnboundLocalError`: it is one of a function, which binds it only after that.

    Of a function that stands alone in a file it may be left out where it begins: that is a piece, too.
    """
    function = scope.function.node if scope.function is not None else None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    if node.id in scope.variables and node not in nodes_of(function).handled:  # after a part of what is tried
        return False
    if not _is_run(machine) or not is_read_unbound(scope.module, function, node):
        return False
    main, project = machine.main, machine.project
    is_called = main.calls_its_own and project.is_whole_around(main) and not project.is_edited
    return is_called or is_of_project(machine, main)


def _is_set_from_outside(machine: Machine, name: str) -> bool:
    """Whether a file of the program may give another one a variable: ``module.name = …``, or by its name as a text."""
    assigned = re.compile(
        rf"\.{name}\s*(:[^=\n]+)?=[^=]|\b(?:setattr|__dict__|vars|modules|builtins)\b.*['\"]{name}['\"]"
    )
    return any(each.contains(assigned) for each in machine.project.closure(machine.main))


def is_of_project(machine: Machine, module: SourceModule) -> bool:
    """Whether a file of a project, which is there as a whole and on the disk, is a program or imports others.

    A file alone is one if it defines classes and loops at its top, too: no piece that takes a model and data for given.
    """
    project = machine.project
    if project.is_edited or not project.is_whole_around(module):
        return False
    kinds = {type(statement) for statement in module.tree.body}
    is_program = has_main_guard(module) or (ast.ClassDef in kinds and not kinds.isdisjoint((ast.For, ast.While)))
    return is_program or any(
        project.find(module, name, level) not in (None, module) for name, level in module.top_imports
    )


def is_not_in(machine: Machine, base: Value, name: str) -> bool:
    """Whether ``module.name`` raises `AttributeError`: a file of the project has no such name.

    It lies beside the script or in a folder below.
    """
    if not isinstance(base, ModuleReference) or not _is_run(machine):
        return False
    module = base.module
    with machine.project.reading(module):
        is_below = machine.main.folder in (module.folder, *module.folder.parents)
        if not is_below or module.is_package or not lacks(machine.project, module, name):
            return False
    return _is_found_beside(machine, module) and not _is_set_from_outside(machine, name)


def _is_found_beside(machine: Machine, module: SourceModule) -> bool:
    """Whether a file by the script is what Python finds by its name: no library is called so, nor the folder that it
    lies in, and the script is run itself. What files of another folder import, directly or not, finds other files,
    and a file of a package may be meant to be found from above."""
    project, main = machine.project, machine.main
    if _is_library(machine, module.file.stem) or module.file.stem == module.folder.name:
        return False
    if "__init__.py" in project.names_in(main.folder):
        return False
    if module.folder != main.folder and is_one_of_several(project, module):
        return False
    importers: dict[SourceModule, list[SourceModule]] = {}
    for each in project.mentioning():
        for imported in project.imported_by(each):
            importers.setdefault(imported, []).append(each)
    users = {main}
    pending = [main]
    for imported in pending:  # which grows meanwhile
        found = [each for each in importers.get(imported, ()) if each not in users]
        users.update(found)
        pending += found
    folders = {main.folder, module.folder}
    return all(each.folder in folders and not any(project.notebooks_with(each.file.stem)) for each in users)


def missing_option(machine: Machine, base: Value, read: Site) -> OptionMissing | None:
    """That ``args.name`` raises `AttributeError`, if so: the parser has no such option, and no code sets it."""
    if not isinstance(base, Instance) or base.library_name != NAMESPACE or base.site is None:
        return None
    node = read.node
    if not isinstance(node, ast.Attribute) or not _is_held(node.value) or not _is_run(machine):
        return None
    name = node.attr
    if name in base.attributes or name.startswith("__") or not lacks_option(base.site, name):
        return None
    if base in machine.handed_on:
        return None
    holder = getattr(node.value, "id", "") or getattr(node.value, "attr", "")
    holders = {holder, *variables_of(base.site)}
    is_set = may_be_set(name, holders, machine.project.closure(machine.main), is_kept=machine.as_script)
    return None if is_set else OptionMissing(read, name, base.site)


def _is_held(holder: ast.expr) -> bool:
    """Whether options are read from a variable, or from an attribute that an object has them in: ``self.args``."""
    is_attribute = (
        isinstance(holder, ast.Attribute) and isinstance(holder.value, ast.Name) and holder.value.id == "self"
    )
    return is_attribute or isinstance(holder, ast.Name)


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
    if importer is not machine.main or _is_library(machine, parts[0]):
        return False
    if module.file == machine.main.folder.joinpath(*parts).with_suffix(".py"):
        return _is_found_beside(machine, module)
    return _is_in_function(importer, statement) and _is_nowhere_else(machine, importer, module)


def _is_in_function(importer: SourceModule, statement: ast.ImportFrom) -> bool:
    """Whether an import is made when a function is called; what is imported at the top is asked for by itself."""
    return bool(enclosing_scope(Site(importer, statement)))


def _is_nowhere_else(machine: Machine, importer: SourceModule, module: SourceModule) -> bool:
    """Whether a file above a script is the only one of its name in a whole project, in which all is found by names."""
    project = machine.project
    if project.is_edited or project.sets_search_path or importer.contains(_SEARCH_PATH):
        return False
    return project.is_whole_around(importer) and not is_one_of_several(project, module)


def _is_library(machine: Machine, name: str) -> bool:
    return name in sys.stdlib_module_names or name in ALSO_KNOWN or name in machine.facts.packages
