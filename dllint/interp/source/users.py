"""Whether code that runs uses a definition, as far as names tell: not only what nobody uses, or a trial of its file."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.bindings import Definition

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_IDENTIFIERS = re.compile(r"[^\s]*")  # a text without spaces: a path, a key, an entry point
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_BY_NAME = re.compile(r"\bimport_module\(|\b__import__\(|\brunpy\b|\bspec_from_file_location\(")
_LIBRARIES = frozenset(("torch", "nn", "F", "np", "numpy", "time", "torchinfo", "torchsummary", "thop", "pprint"))
_FILES = frozenset(("save", "load", "savez", "savetxt", "loadtxt", "genfromtxt"))
_LOOKS = frozenset(
    ("size", "shape", "dim", "numel", "parameters", "named_parameters", "modules", "named_modules", "children", "to",
     "cuda", "cpu", "eval", "float", "half", "item", "mean", "sum", "forward", "state_dict", "keys", "items", "values",
     "format", "tolist", "detach", "numpy", "view", "reshape", "permute", "unsqueeze", "squeeze", "append", "join")
)  # fmt: skip
_HARMLESS = frozenset(
    ("summary", "profile", "get_model_complexity_info", "Variable", "FlopCountAnalysis", "clever_format")
)
_WORKERS = re.compile(r"Loader|Dataset|Data$|Trainer|Parser|Config|Optim|Adam|SGD|Env|Agent|App|Tk|Server")
_MAX_DEPTH = 4


def is_used(project: Project, module: SourceModule, definition: ast.stmt) -> bool:
    """Whether code that runs may use a definition at the top of a module: names in it lead there, or a decorator does.

    Args:
        project: where it is searched.
        module: the file of the definition.
        definition: a function or class.
    """
    return _Search(project).is_used(module, definition)


def is_tried_out(module: SourceModule) -> bool:
    """Whether all that a file does when it is run is to try out what it defines: no data, no training, no files."""
    guards = [statement for statement in module.tree.body if is_main_guard(statement)]
    return bool(guards) and all(_is_trial(module, guard) for guard in guards)


def is_main_guard(statement: ast.stmt) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


class _Search:
    """One search for users; ``_seen`` are the definitions that were come by."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen: set[tuple[Path, int]] = set()

    def is_used(self, module: SourceModule, definition: ast.stmt) -> bool:
        name = getattr(definition, "name", "")
        if getattr(definition, "decorator_list", None) or name.lower().startswith("test"):
            return True
        place = module.file, definition.lineno
        if place in self._seen:
            return False
        self._seen.add(place)
        word = re.compile(rf"\b{re.escape(name)}\b")
        others = [each for each in self._project.mentioning(word) if each.file != module.file]
        users = (module, *(each for each in others if self._is_importer(each, module)))
        if any(self._is_run(user, name) for user in users) or self._project.is_named_outside_modules(
            name, but_in=module.file
        ):
            return True
        return self._is_imported_by_name(module)

    def _is_importer(self, user: SourceModule, module: SourceModule) -> bool:
        """Whether a file imports another, or one of its name: paths may be changed so that nobody can follow."""
        stem = module.file.stem.lower()
        named = any(name.rpartition(".")[2].lower() == stem for name, _ in user.top_imports)
        return named or module in self._project.closure(user)

    def _is_imported_by_name(self, module: SourceModule) -> bool:
        """Whether no import statement leads to a file of a project that imports files by names which it computes."""
        modules = list(self._project.mentioning())
        return any(each.contains(_BY_NAME) for each in modules) and not any(
            self._is_importer(each, module) for each in modules if each.file != module.file
        )

    def _is_run(self, user: SourceModule, name: str) -> bool:
        """Whether a file that runs uses a name, or a definition of the file does that is used itself."""
        if not user.has_tree:
            return True
        names = {name, *_aliases(user, name)}
        for statement in user.tree.body:
            if (user.file, statement.lineno) in self._seen or isinstance(statement, ast.Import | ast.ImportFrom):
                continue
            if user.words_in(statement).isdisjoint(names) or not any(mentions(statement, each) for each in names):
                continue
            if isinstance(statement, Definition):
                if self.is_used(user, statement):
                    return True
            elif not (is_main_guard(statement) and _is_trial(user, statement)):
                return True
        return False


def mentions(tree: ast.AST, name: str) -> bool:
    """Whether code uses a name, or a text of one word has it (``getattr``, a registry, an entry point)."""
    return any(
        name in (getattr(node, "id", ""), getattr(node, "attr", ""))
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and _names(node.value, name))
        for node in ast.walk(tree)
    )


def _names(text: str, name: str) -> bool:
    return name in text and _IDENTIFIERS.fullmatch(text) is not None and name in _IDENTIFIER.findall(text)


def _aliases(module: SourceModule, name: str) -> Iterator[str]:
    """What a file calls a name that it imports: ``import Net as Network``."""
    for statement in ast.walk(module.tree):
        if isinstance(statement, ast.ImportFrom):
            yield from (alias.asname for alias in statement.names if alias.name == name and alias.asname)


def _is_trial(module: SourceModule, block: ast.stmt, depth: int = 0) -> bool:
    """Whether statements only make objects, call them on numbers that they make up, and show what comes of it."""
    calls = [node for node in ast.walk(block) if isinstance(node, ast.Call)]
    return depth < _MAX_DEPTH and all(_is_harmless(module, call, depth) for call in calls)


def _is_harmless(module: SourceModule, call: ast.Call, depth: int) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        root = function.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in _LIBRARIES:
            return function.attr not in _FILES
        return function.attr in _LOOKS
    if not isinstance(function, ast.Name):
        return isinstance(function, ast.Call)  # `Net()(x)`: the call within is looked at, too
    name = function.id
    if name in _HARMLESS or (hasattr(builtins, name) and name not in ("open", "exec", "eval", "input", "__import__")):
        return True
    bound = module.bindings.names.get(name, [])
    own = [each for each in bound if isinstance(each, Definition)]
    if own:
        return all(isinstance(each, ast.ClassDef) or _is_trial(module, each, depth + 1) for each in own)
    if module.binds(name) and not any(isinstance(each, ast.Import | ast.ImportFrom) for each in bound):
        return True  # a variable that holds what was made
    return name[:1].isupper() and not _WORKERS.search(name)
