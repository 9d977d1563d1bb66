"""The folders in which a file makes Python look for modules: what it puts on ``sys.path``, worked out from its code."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.known_settings import last_name
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.top_imports import look_at, needed_by
from dllint.interp.source.trees import walk
from dllint.interp.source.trials import is_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_SEARCH_PATH = re.compile(r"\bsys\.path\b")
_OTHERWISE = re.compile(  # who reads an entry of `sys.modules`, or asks for one, puts none into it
    r"\bfrom sys import\b.*\bpath\b|\baddsitedir\b|\b__path__\b|\bgit clone\b|%%writefile\b"
    r"|(?<!\bin )\bsys\.modules\b(?!\[[^\]\n]*\](?!\s*=[^=]))"
)
_CHANGES_FOLDER = re.compile(r"\bchdir\b")
_OF_A_MACHINE = re.compile(r"[~/$%]|\w:|.*\\")  # or written for Windows
_ADDS = ("append", "insert")
_SAME = frozenset(("Path", "PurePath", "str", "fspath", "normpath", "as_posix"))  # as far as where it leads goes
_FROM_THE_ROOT = frozenset(("abspath", "realpath", "resolve", "absolute"))
_METHODS = frozenset(("resolve", "absolute", "as_posix", "joinpath"))  # of paths
_WHERE_IT_RUNS = frozenset(("getcwd", "cwd"))
_CONSTANTS = {"pardir": "..", "curdir": ".", "sep": "/"}
_MAX_DEPTH = 12  # of expressions
_MAX_WAYS = 64  # to read one, as it depends on where the script is started

Texts = frozenset[str]


def added_folders(project: Project, module: SourceModule) -> frozenset[Path] | None:
    """The folders of a project that a program puts on the search path, there or not; ``None`` where more may be on it.

    That is done by its file and by those without which it cannot be imported. A folder that is given from where the
    program is started counts as if that was the folder of its file, or any above up to the root of the project. What is
    above this root has none of its modules in it.
    """
    found: set[Path] = set()
    program = (module, *needed_by(project, module))
    for each in program:
        folders = _added_by(project, each, module)
        if folders is None:
            return None
        found |= folders
    if any(_added_by(project, each, module) != set() for each in _found_there(project, program, found)):
        return None  # a file that is found by these makes Python look elsewhere
    return frozenset(found)


def changes_search_path(module: SourceModule) -> bool:
    """Whether a file itself says where Python is to look."""
    return module.contains(_SEARCH_PATH)


def _found_there(project: Project, modules: Iterable[SourceModule], folders: Iterable[Path]) -> Iterator[SourceModule]:
    """The files in some folders that modules import, and that are found nowhere else."""
    for module in modules if folders else ():
        for name, level in look_at(project, module).top_imports:
            for folder in () if level or project.find(module, name) is not None else folders:
                path = folder.joinpath(*name.split("."))
                files = [path.with_suffix(".py"), path / "__init__.py"]
                there = (project.module(file) for file in files if file.name in project.names_in(file.parent))
                yield from (each for each in there if each is not None)


def _added_by(project: Project, module: SourceModule, program: SourceModule) -> set[Path] | None:
    """As `added_folders`, of what one file adds."""
    start = program.folder
    changes = _told(project, module, start, is_main=module is program)
    folders: set[Path] = set()
    for text in (each for each in chain.from_iterable(changes or ()) if not each.endswith(".py")):  # no folder
        places = {Path(os.path.normpath(each / text)) for each in _starts(start, project.root)}
        inside = {place for place in places if place == project.root or project.root in place.parents}
        outside = {place for place in places - inside if place not in project.root.parents}
        is_there = any(map(project.names_in, inside))
        if not is_there and (outside or not all(_is_elsewhere(project, place) for place in inside)):
            return None
        folders |= inside
    return folders if changes is not None else None


def _is_elsewhere(project: Project, folder: Path) -> bool:
    """Whether a folder that is not there is at another place of the project: whoever looks for it has miscounted."""
    above = next(each for each in folder.parents if each == project.root or project.names_in(each))
    tail = folder.relative_to(above).parts
    return any(tail == around.parts[-len(tail) :] for file in project.files for around in file.parents)


def _told(project: Project, module: SourceModule, start: Path, *, is_main: bool) -> tuple[Texts, ...] | None:
    """What each change of the search path may add to it; ``None`` where that is not known. Found once."""
    known: dict[tuple[Path, bool], tuple[Texts, ...] | None] = module.told.setdefault(_told, {})
    if (start, is_main) not in known:
        with project.glancing_at(module):
            known[start, is_main] = _read_changes(module, _starts(start, project.root), is_main=is_main)
    return known[start, is_main]


def _read_changes(module: SourceModule, starts: Sequence[Path], *, is_main: bool) -> tuple[Texts, ...] | None:
    if module.contains(_OTHERWISE) or _may_change_folder(module):
        return None
    if not module.contains(_SEARCH_PATH):
        return ()
    changes = _changes(module, is_main=is_main) if module.parse_error is None else None
    if changes is None:
        return None
    reader = _Reader(module, starts)
    found = [reader.texts(each) for each in changes]
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(found) else None


def _starts(folder: Path, root: Path) -> Sequence[Path]:
    """The folders in which who runs a file may be: its own, and those above in the project."""
    return (folder, *(each for each in folder.parents if each == root or root in each.parents))


def _may_change_folder(module: SourceModule) -> bool:
    """Whether a file goes to another folder before it has imported all that it needs at its top."""
    if not module.contains(_CHANGES_FOLDER):
        return False
    if module.parse_error is not None:
        return True
    if module.source.has_cells:  # which may be run in another order
        return bool(module.calls.get("chdir"))
    imports = [each.lineno for each in module.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    calls = (call.lineno for call in module.calls.get("chdir", ()))
    return bool(imports) and any(line < imports[-1] for line in calls)


def _changes(module: SourceModule, *, is_main: bool) -> list[ast.expr] | None:
    """What a file adds to the search path; ``None`` if it does anything else with it than to look at it, too.

    What is below its main guard is done by the file that is started alone.
    """
    nodes = nodes_of(module.tree)
    guards = [] if is_main else filter(is_main_guard, module.tree.body)
    told = {id(each) for guard in guards for each in walk(guard)}
    found: list[ast.expr] = []
    for call in nodes.of(ast.Call):
        holder = call.func.value if isinstance(call.func, ast.Attribute) else None
        adds = _is_search_path(holder) and last_name(call.func) in _ADDS and call.args and not call.keywords
        if adds and id(holder) not in told:
            found.append(call.args[-1])
            told.add(id(holder))
        elif isinstance(call.func, ast.Name) and call.func.id == "print":
            told |= {id(each) for each in call.args}
    told |= {id(each) for compared in nodes.of(ast.Compare) for each in compared.comparators}
    return found if all(id(each) in told for each in nodes.of(ast.Attribute) if _is_search_path(each)) else None


def _is_search_path(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "path" and last_name(node.value) == "sys"


class _Reader:
    """Works out what the expressions of a file for folders may be, as texts: one for each folder of the start."""

    def __init__(self, module: SourceModule, starts: Sequence[Path]) -> None:
        self._module = module
        self._starts = starts

    def texts(self, expression: ast.expr) -> Texts | None:
        """What an expression may be; ``None`` if that is not known."""
        return self._texts(expression, 0)

    def _texts(self, node: ast.expr, depth: int) -> Texts | None:
        if depth > _MAX_DEPTH:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return None if _OF_A_MACHINE.match(text) else frozenset((text,))
            case ast.Name(id="__file__"):
                return frozenset((str(self._module.file),))
            case ast.Name(id=name):
                bound = self._bound(name)
                return self._texts(bound, depth + 1) if bound is not None else None
            case ast.Attribute(attr=("pardir" | "curdir" | "sep") as name):
                return frozenset((_CONSTANTS[name],))
            case ast.Attribute(attr="parent", value=inner):
                return self._each(os.path.dirname, self._from_root(inner, depth))
            case ast.Subscript(value=ast.Attribute(attr="parents", value=inner), slice=ast.Constant(value=int(times))):
                return self._each(lambda text: _up(text, times + 1), self._from_root(inner, depth))
            case ast.Subscript(value=ast.Call(func=function, args=[inner]), slice=ast.Constant(value=0)):
                is_split = ast.unparse(function).endswith("path.split")
                return self._each(os.path.dirname, self._texts(inner, depth + 1)) if is_split else None
            case ast.BinOp(op=ast.Div(), left=left, right=right):
                return self._joined((left, right), depth)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self._together((left, right), depth)
            case ast.JoinedStr(values=parts):
                values = [each.value if isinstance(each, ast.FormattedValue) else each for each in parts]
                return self._together(values, depth)
            case ast.Call():
                return self._called(node, depth)
        return None

    def _called(self, call: ast.Call, depth: int) -> Texts | None:
        name, arguments = last_name(call.func), call.args
        if call.keywords or any(isinstance(each, ast.Starred) for each in arguments):
            return None
        if name in _WHERE_IT_RUNS and not arguments:
            return frozenset(map(str, self._starts))
        if name == "getfile":
            return frozenset((str(self._module.file),))
        if name in _METHODS and isinstance(call.func, ast.Attribute):
            arguments = [call.func.value, *arguments]
        if name in ("join", "joinpath") or (name == "Path" and len(arguments) > 1):
            return self._joined(arguments, depth) if arguments else None
        if len(arguments) != 1:
            return None
        if name == "dirname":
            return self._each(os.path.dirname, self._texts(arguments[0], depth + 1))
        if name in _FROM_THE_ROOT:
            return self._from_root(arguments[0], depth)
        return self._texts(arguments[0], depth + 1) if name in _SAME else None

    def _from_root(self, node: ast.expr, depth: int) -> Texts | None:
        """What a path may be, taken from the root of the disk."""
        texts = self._texts(node, depth + 1)
        if texts is None:
            return None
        return frozenset(os.path.normpath(start / text) for start in self._starts for text in texts)

    def _joined(self, parts: Iterable[ast.expr], depth: int) -> Texts | None:
        return self._combined(lambda texts: os.path.join(*texts), parts, depth)

    def _together(self, parts: Iterable[ast.expr], depth: int) -> Texts | None:
        """What texts may be that follow each other: but for the first, one may begin with a slash."""
        return self._combined("".join, parts, depth, is_one_text=True)

    def _combined(
        self,
        combine: Callable[[Sequence[str]], str],
        parts: Iterable[ast.expr],
        depth: int,
        *,
        is_one_text: bool = False,
    ) -> Texts | None:
        known: list[Texts] = []
        for each in parts:
            rest = _text_of(each) if known and is_one_text else ""
            texts = frozenset((rest,)) if rest.startswith("/") else self._texts(each, depth + 1)
            if texts is None:
                return None
            known.append(texts)
        found = frozenset(combine(texts) for texts in product(*known))
        return found if len(found) <= _MAX_WAYS else None

    def _each(self, change: Callable[[str], str], texts: Texts | None) -> Texts | None:
        return frozenset(map(change, texts)) if texts is not None else None

    def _bound(self, name: str) -> ast.expr | None:
        """What a variable is bound to, if that happens once, by a plain assignment."""
        nodes = nodes_of(self._module.tree)
        stored = [each for each in nodes.names.get(name, ()) if isinstance(each.ctx, ast.Store)]
        bound = [each.value for each in nodes.of(ast.Assign) if [*map(id, each.targets)] == [*map(id, stored)]]
        is_parameter = any(each.arg == name for each in nodes.of(ast.arg))
        return bound[0] if len(bound) == 1 and not is_parameter else None


def _text_of(node: ast.expr) -> str:
    """The text that an expression is, unless it may be a path of Windows."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and "\\" not in node.value
    return str(ast.literal_eval(node)) if is_text else ""


def _up(text: str, times: int) -> str:
    for _ in range(times):
        text = os.path.dirname(text)
    return text
