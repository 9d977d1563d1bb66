"""By which words the code of a file refers to the files that it imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project
from dllint.interp.source.words import WORD

_NAMELESS = re.compile(r"^[ \t]*from[ \t]*(?:\.+[ \t]*import|.*import[ \t]*\*)", re.MULTILINE)


class Imports:
    """The project files that a file imports, directly or not, each with the words without which code cannot use it.

    Those are the name of the imported file (or package), and what imports of it bind at the top level.
    """

    def __init__(self, module: SourceModule, project: Project) -> None:
        self._behind: list[tuple[frozenset[str], frozenset[Path]]] = []
        self.everything = frozenset(other.file for other in project.closure(module) if other is not module)
        self._is_clear = _NAMELESS.search(module.source.text) is None
        bound = _bound_by_imports(module)
        for imported in project.imported_by(module):
            name = imported.file.parent.name if imported.is_package else imported.file.stem
            words = frozenset({name, *(each for each, origins in bound.items() if name in origins)})
            self._behind.append((words, frozenset(other.file for other in project.closure(imported))))

    def behind(self, words: Collection[str]) -> frozenset[Path]:
        """The files that code with these words may use."""
        if not self._is_clear:
            return self.everything
        return frozenset().union(*(files for names, files in self._behind if not names.isdisjoint(words)))


def _bound_by_imports(module: SourceModule) -> dict[str, set[str]]:
    """The names that imports bind at the top level, with the words of where they come from."""
    bound: dict[str, set[str]] = {}
    for name, statements in module.bindings.names.items():
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                origins = [alias.name for alias in statement.names]
                if isinstance(statement, ast.ImportFrom):
                    origins.append(statement.module or "")
                bound.setdefault(name, set()).update(WORD.findall(" ".join(origins)))
    return bound
