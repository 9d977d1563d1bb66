"""Whether code that runs uses a definition, as far as names tell: not only what nobody uses, or a trial of its file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.bindings import Definition
from dllint.interp.source.failing import Place, without
from dllint.interp.source.imported import KNOWN, imported_names
from dllint.interp.source.imported_by_name import may_be_imported_by_name
from dllint.interp.source.left_behind import folder_set_aside
from dllint.interp.source.looked_up import may_be_looked_up
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk
from dllint.interp.source.trials import (
    PARSING,
    call_left_out,
    is_example,
    is_main_guard,
    is_trained_on_numbers,
    is_trial,
    is_tried_out,
    needs_more_to_be_shown,
)
from dllint.interp.source.unreached_files import PACKAGING

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_IDENTIFIERS = re.compile(r"[^\s]*")  # a text without spaces: a path, a key, an entry point
_HEAD = re.compile(r"\[\w+\]:?")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


def is_used(project: Project, module: SourceModule, definition: ast.stmt) -> bool:
    """Whether code that runs may use a definition at the top of a module: names in it lead there, or a decorator does.

    Args:
        project: where it is searched.
        module: the file of the definition.
        definition: a function or class.
    """
    return _Search(project).is_used(module, definition)


def is_offered(project: Project, module: SourceModule, name: str) -> bool:
    """Whether a definition is for the users of a library: its package passes it on, and the notes name it.

    A project that is not installed has no users but its own scripts.
    """
    if name.startswith("_") or PACKAGING.isdisjoint(project.names_in(project.root)) or not project.is_noted(name):
        return False
    naming = project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))
    return any(each.is_package and module in project.imported_by(each) for each in naming)


def is_there_for_others(project: Project, module: SourceModule) -> bool:
    """Whether other files or a package import a file, and no command that is written down runs it."""
    if module.file.stem in project.scripts_run:
        return False
    return any(each is not module and module in project.imported_by(each) for each in project.mentioning())


def is_only_trial(project: Project, module: SourceModule) -> bool:
    """Whether all that a file does when it is run is to try out what it defines, or to show how that is used."""
    if is_tried_out(module) or (is_tried_out(module, with_options=True) and call_left_out(module)):
        return True
    is_trial = is_example(module) or is_tried_out(module, with_options=True)
    if is_trial and (is_there_for_others(project, module) or is_beside_modules(project, module)):
        return True
    return is_trained_on_numbers(module) and is_there_for_others(project, module)


def is_beside_modules(project: Project, module: SourceModule) -> bool:
    """Whether a file that defines classes lies in a folder of modules: scripts elsewhere import others of the folder.

    So does one of functions for which only what is below its main guard needs some imports or classes. A command that
    is written down makes it a script.
    """
    folder = module.file.parent
    defines = any(isinstance(each, ast.ClassDef) for each in module.tree.body) or needs_more_to_be_shown(module)
    if folder == project.root or not defines or module.file.stem in project.scripts_run:
        return False
    users = (each for each in project.mentioning() if each.file.parent != folder)
    imported = (each for user in users for each in project.imported_by(user) if not each.is_package)
    return any(each.file.parent == folder and each.file != module.file for each in imported)


class _Search:
    """One search for users; ``_seen`` are the definitions that were come by."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen: set[tuple[Path, int]] = set()

    def is_used(self, module: SourceModule, definition: ast.stmt) -> bool:
        name = getattr(definition, "name", "")
        if getattr(definition, "decorator_list", None) or _is_collected(module, definition, name):
            return True
        place = module.file, definition.lineno
        if place in self._seen:
            return False
        self._seen.add(place)
        word = re.compile(rf"\b{re.escape(name)}\b")
        others = [each for each in self._project.mentioning(word) if each.file != module.file]
        notebooks = (each for each in self._project.notebooks_with(name) if each.file != module.file)
        users = (module, *(each for each in others if self._is_importer(each, module)), *notebooks)
        is_run = any(self._is_run(user, name, module) for user in self._project.reading_each(users))
        if is_run or self._is_configured(module, name):
            return True
        return self._is_imported_by_name(module) or is_offered(self._project, module, name)

    def _is_configured(self, module: SourceModule, name: str) -> bool:
        """Whether a configuration names a definition, and something gets at it by that name, or by its whole path."""
        if not self._project.is_configured(name):
            return False
        return self._project.is_configured(name, with_path=True) or may_be_looked_up(self._project, module)

    def _is_importer(self, user: SourceModule, module: SourceModule) -> bool:
        """Whether a file imports another, or one of its name: paths may be changed so that nobody can follow."""
        stem, find = module.file.stem.lower(), self._project.find
        imports = user.top_imports if stem in user.imported_stems else ()
        alike = ((name, level) for name, level in imports if name.rpartition(".")[2].lower() == stem)
        named = any(find(user, name, level) in (None, module) for name, level in alike)
        return named or module in self._project.closure(user)

    def _is_imported_by_name(self, module: SourceModule) -> bool:
        """Whether no import statement leads to a file of a project that imports files by names which it computes."""
        modules = list(self._project.mentioning())
        each_module = self._project.reading_each(modules)
        return may_be_imported_by_name(module, each_module, lambda: self._is_told(module)) and not any(
            self._is_importer(each, module) for each in modules if each.file != module.file
        )

    def _is_told(self, module: SourceModule) -> bool:
        """Whether anything else in the project has the name of a file in it."""
        stem = module.file.stem
        named = self._project.mentioning(re.compile(rf"\b{re.escape(stem)}\b"))
        others = (each for each in named if not folder_set_aside(each.file, self._project.root))
        return any(each.file != module.file for each in others) or self._project.is_noted(stem)

    def _is_run(self, user: SourceModule, name: str, module: SourceModule) -> bool:
        """Whether a file that runs uses a name of a module, or a definition of the file does that is used itself.

        What another file calls by a name that it defines itself, or imports from where it is defined, is something
        else: its own ``main``. Nobody runs what is in a folder of old files.
        """
        is_own = user.file == module.file
        if folder_set_aside(user.file, self._project.root) and not is_own:
            return False
        if not user.has_tree:
            return True
        if self._project.obstacles(user).any:
            return False
        names = {name, *_aliases(user, name)}
        others = _libraries(user) | (frozenset() if is_own else self._of_others(user, names, module))
        left = self._project.left_out(user)
        for statement in (each for each in user.tree.body if (each.lineno, each.col_offset) not in left):
            if (user.file, statement.lineno) in self._seen or _passes_on(statement):
                continue
            if user.words_in(statement).isdisjoint(names):
                continue
            if not any(mentions(statement, each, but_of=others, left=left) for each in names):
                continue
            if isinstance(statement, Definition):
                if user.source.notebook is not None or self.is_used(user, statement):
                    return True
            elif not (is_main_guard(statement) and self._is_tried(user, statement)):
                return True
        return False

    def _of_others(self, user: SourceModule, names: AbstractSet[str], module: SourceModule) -> AbstractSet[str]:
        """Those of some names that a file binds to nothing but what it, or a file other than the module, defines."""
        bound = {name: user.bindings.names.get(name, ()) for name in names}
        return {
            name
            for name, places in bound.items()
            if places and all(self._is_other(user, each, name, module) for each in places)
        }

    def _is_other(self, user: SourceModule, statement: ast.stmt, name: str, module: SourceModule) -> bool:
        """Whether a statement that binds a name binds it to something that is defined elsewhere than in a module."""
        if not isinstance(statement, ast.ImportFrom):
            return isinstance(statement, Definition)
        original = next((each.name for each in statement.names if (each.asname or each.name) == name), "")
        source = self._project.find(user, statement.module or "", statement.level)
        if source is None or source.file == module.file or not source.has_tree:
            return False
        places = source.bindings.names.get(original, ())
        return bool(places) and all(isinstance(each, Definition) for each in places)

    def _is_tried(self, user: SourceModule, guard: ast.stmt) -> bool:
        """Whether a file only tries out what it defines; it may read options for that if others import it."""
        if is_trial(user, guard):
            return True
        return is_trial(user, guard, allowed=PARSING) and is_there_for_others(self._project, user)


def _is_collected(module: SourceModule, definition: ast.stmt, name: str) -> bool:
    """Whether a runner of tests may find a definition by its name: not a class that is made with arguments."""
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    is_made_with = any(getattr(each, "name", "") == "__init__" for each in body)
    return name.lower().startswith("test") and not is_made_with and not is_trial(module, definition)


def mentions(
    tree: ast.AST, name: str, *, but_of: AbstractSet[str] = frozenset(), left: frozenset[Place] = frozenset()
) -> bool:
    """Whether code uses a name, or a text of one word has it (``getattr``, a registry, an entry point).

    Args:
        tree: the code.
        name: a variable, attribute or method.
        but_of: variables that are something else, and so are their attributes.
        left: where statements stand that do not count.
    """
    return any(_is_use(node, name, but_of) for node in without(tree, left))


def callers_of_method(tree: ast.AST, name: str, owner: str) -> Iterator[str]:
    """Where code may call the method of a class by its name, or has that as a text.

    Other classes with a method of this name call their own by ``self.name()``, and functions of this name hand on what
    they are asked: ``super().name()``.

    Returns:
        The method of the same class that calls it on its own object; empty for any other place.
    """
    nodes = list(walk(tree))
    within: dict[ast.AST, str] = {}  # what is read of `self`, and the method of the class that reads it
    for each in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for statement in each.body if each.name == owner or name in _names_in(each) else ():
            for read in nodes_of(statement).attributes.get(name, ()):
                if getattr(read.value, "id", "") == "self":
                    within[read] = getattr(statement, "name", "") if each.name == owner else name
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    inside = {node for function in functions if function.name == name for node in walk(function)}
    for node in nodes:
        if _is_use(node, name) and within.get(node) != name and node not in inside:
            yield within.get(node, "")


def _names_in(owner: ast.ClassDef) -> list[str]:
    return [getattr(statement, "name", "") for statement in owner.body]


def _is_use(node: ast.AST, name: str, but_of: AbstractSet[str] = frozenset()) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name and getattr(node.value, "id", "") not in but_of
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _names(node.value, name)
    return name == getattr(node, "id", "") and name not in but_of


def _passes_on(statement: ast.stmt) -> bool:
    """Whether a statement only hands names on to others: an import, or ``__all__ = [...]``."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [getattr(target, "id", "") for target in targets] == ["__all__"]
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _names(text: str, name: str) -> bool:
    """Whether a text without spaces has a name in it; the heads of a log's lines, `[Train]`, are no names of code."""
    if _HEAD.fullmatch(text):
        return False
    return name in text and _IDENTIFIERS.fullmatch(text) is not None and name in _IDENTIFIER.findall(text)


def _aliases(module: SourceModule, name: str) -> Iterator[str]:
    """What a file calls a name that it imports: ``import Net as Network``."""
    for statement in nodes_of(module.tree).of(ast.ImportFrom):
        yield from (alias.asname for alias in statement.names if alias.name == name and alias.asname)


def _libraries(module: SourceModule) -> AbstractSet[str]:
    """What a file calls well-known libraries and their modules, whose attributes are not of the project."""
    return {name for name, dotted in imported_names(module.tree).items() if dotted.partition(".")[0] in KNOWN}
