"""What the mutators have in common, each of which writes the bug of one rule into code in which it does not stand.

A mutator looks at the tree of a file and yields every place at which it can write its bug, as an edit of the text. It
looks at no more than the syntax: whether the bug does harm there is asked of whoever reads the case.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MUTATORS: dict[str, Callable[[Code], Iterator[Edit]]] = {}


_IMPORTED = re.compile(r"(?m)^\s*(?:from\s+\.*([\w.]+)\s+import|import\s+([\w.]+))")
_REQUIREMENTS = ("requirement", "environment", "setup", "pyproject", "pipfile", "poetry", "readme", "conda", "env")


@dataclass(frozen=True)
class Edit:
    """What replaces the text from ``start`` to ``end`` (offsets), and the line on which the bug then stands."""

    start: int
    end: int
    text: str
    line: int


class Repository:
    """The files of a repository, which are read when one asks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _texts(self) -> dict[Path, str]:
        files = (path for path in self.folder.rglob("*") if path.suffix in (".py", ".sh", ".yaml", ".ipynb"))
        return {path: path.read_text("utf-8", "replace") for path in files if path.is_file()}

    def text_but(self, path: Path) -> str:
        """The text of all files but one."""
        return "\n".join(text for other, text in self._texts.items() if other != path)

    def imported_by(self, path: Path) -> dict[Path, str]:
        """The files that one imports, or that these import: of several with a name those beside it."""
        found: dict[Path, str] = {}
        pending = [path]
        for current in pending:  # which grows meanwhile
            for name in {first or second for first, second in _IMPORTED.findall(self._texts.get(current, ""))}:
                for other in self._modules_named(name, current.parent):
                    if other != path and other not in found:
                        found[other] = self._texts[other]
                        pending.append(other)
        return found

    def _modules_named(self, name: str, folder: Path) -> list[Path]:
        """The files of a module or package, by its dotted name as it is imported in a folder."""
        parts = tuple(part for part in name.split(".") if part)
        if not parts:  # `from . import utils`, of which the second name says what it is
            return []
        named = [
            path
            for path in self._files_by_name.get(parts[-1], ())
            if path.with_suffix("").parts[-len(parts) :] == parts
        ]
        packages = [path for path in self._files_in.get(parts[-1], ()) if path.parent.parts[-len(parts) :] == parts]
        beside = [path for path in named if path.parent == folder] or [
            path for path in packages if path.parent.parent == folder
        ]
        return beside or [*named, *packages]

    @cached_property
    def _files_by_name(self) -> dict[str, list[Path]]:
        return self._grouped(lambda path: path.stem)

    @cached_property
    def _files_in(self) -> dict[str, list[Path]]:
        return self._grouped(lambda path: path.parent.name)

    def _grouped(self, key: Callable[[Path], str]) -> dict[str, list[Path]]:
        groups: dict[str, list[Path]] = {}
        for path in self._texts:
            if path.suffix == ".py":
                groups.setdefault(key(path), []).append(path)
        return groups

    @cached_property
    def requirements(self) -> str:
        """What the files say that tell which releases of packages the project runs with."""
        files = (path for path in self.folder.rglob("*") if path.name.lower().startswith(_REQUIREMENTS))
        return "\n".join(path.read_text("utf-8", "replace") for path in files if path.is_file()).lower()

    @cached_property
    def modules(self) -> set[str]:
        """The names by which files and folders can be imported."""
        paths = (path.relative_to(self.folder) for path in self._texts if path.suffix == ".py")
        return {part.removesuffix(".py") for path in paths for part in path.parts}


class Code:
    """The text of a file with its tree, each node of which knows its parent."""

    def __init__(self, text: str, path: Path = Path("code.py"), repository: Repository | None = None) -> None:
        self.text = text
        self.path = path
        self.repository = repository or Repository(path)
        self.tree = ast.parse(text)
        self.nodes = list(ast.walk(self.tree))
        self.parents = {id(child): node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)

    def offset(self, line: int, column: int) -> int:
        """The place in the text of a place that ``ast`` gives, whose columns count bytes."""
        before = self._lines[line - 1].encode()[:column].decode() if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(*self.span(node), text, node.lineno)

    def outer(self, node: ast.AST, kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> ast.AST | None:
        """The innermost node of a kind around a node."""
        parent = self.parents.get(id(node))
        while parent is not None and not isinstance(parent, kind):
            parent = self.parents.get(id(parent))
        return parent

    def others(self) -> str:
        """The text of the other files of the repository."""
        return self.repository.text_but(self.path)

    def imported(self) -> str:
        """The text of the files of the repository that the file imports, directly or not."""
        return "\n".join(self.repository.imported_by(self.path).values())

    def imports_own(self) -> bool:
        """Whether the file imports others of its repository."""
        imports = [node for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" if not node.level else "." for node in imports if isinstance(node, ast.ImportFrom)]
        return any(name == "." or name.partition(".")[0] in self.repository.modules for name in names)

    def around(self, node: ast.AST) -> str:
        """The text of the function around a node, or else of the file."""
        function = self.outer(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        return self.source(function) if isinstance(function, ast.stmt) else self.text

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Calls of functions and methods with one of these names, whatever they belong to."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and name_of(node.func) in names:
                yield node


def name_of(node: ast.AST) -> str:
    """The last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def names_in(text: str) -> list[str]:
    """The words of a text that can be names."""
    return "".join(sign if sign.isalnum() or sign == "_" else " " for sign in text).split()


def keyword_of(call: ast.Call, name: str) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def without_keyword(code: Code, call: ast.Call, name: str) -> Edit:
    """The call without one of its keyword arguments."""
    kept = [code.source(each) for each in call.args]
    kept += [
        f"{each.arg}={code.source(each.value)}" if each.arg else f"**{code.source(each.value)}"
        for each in call.keywords
        if each.arg != name
    ]
    return code.replace(call, f"{code.source(call.func)}({', '.join(kept)})")


def mutates(code: str) -> Callable[[Callable[[Code], Iterator[Edit]]], Callable[[Code], Iterator[Edit]]]:
    """Enter a mutator for a rule."""

    def enter(mutator: Callable[[Code], Iterator[Edit]]) -> Callable[[Code], Iterator[Edit]]:
        MUTATORS[code] = mutator
        return mutator

    return enter
