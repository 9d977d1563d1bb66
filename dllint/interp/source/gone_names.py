"""Names of libraries that a program needs in order to start, and that later releases do not have.

What is needed for certain is what stands at the top of its file, or below its main guard, and at the top of the files
that these import, outside of any condition: imported there, or read as an attribute of what is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.dataclass import dataclass
from dllint.interp.source.imported import dotted_name, imported_names, prefixes
from dllint.interp.source.library_names import Gone, gone
from dllint.interp.source.patterns import AnyOf
from dllint.interp.source.trials import is_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

PUTS_NAMES = AnyOf(  # in place of modules, or into them
    ("modules", r"\bsys\.modules\b"), ("setattr", r"\bsetattr\("), ("monkeypatch", r"\bmonkeypatch\b")
)
_LATER = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_MAYBE = ast.If | ast.IfExp | ast.Try | ast.For | ast.While | ast.BoolOp | ast.ListComp | ast.SetComp | ast.DictComp


@dataclass(frozen=True, slots=True)
class Need:
    """A name that is gone: the lines, of the program's file and on, on which Python gets to it, and what ran before."""

    gone: Gone
    way: tuple[tuple[Path, int], ...]
    done: frozenset[Path]

    def is_after(self, file: Path, line: int) -> bool:
        """Whether Python gets to a line at the top of a file before, or at the same time."""
        return file in self.done or any(file == each and line <= last for each, last in self.way)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a line at the top of a file needs: a module, and a name in it; of what is read, the name alone."""

    line: int
    module: str | None
    level: int
    name: str


def gone_names(project: Project, module: SourceModule) -> tuple[Need, ...]:
    """The names that a file needs to be run, and that are gone from their libraries, in the order of their use."""
    found = tuple(_Start(project).of(module, (), is_main=True))
    if found and any(each.contains(PUTS_NAMES) for each in project.closure(module)):
        return ()
    return found


class _Start:
    """What happens when a program starts: which files have been run."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.begun: set[Path] = set()
        self.done: set[Path] = set()

    def of(self, module: SourceModule, way: tuple[tuple[Path, int], ...], *, is_main: bool = False) -> Iterator[Need]:
        """The names that are gone of what a file needs, and of what it imports."""
        if module.file in self.begun:
            return
        self.begun.add(module.file)
        with self.project.glancing_at(module):
            steps = _steps(module, is_main=is_main)
        for step in steps:
            here = (*way, (module.file, step.line))
            found = self._found(module, step)
            for each in found:
                yield from self.of(each, here)
            dotted = f"{step.module}.{step.name}" if step.module and step.name else step.module or step.name
            missing = gone(dotted) if not found and not step.level else None
            if missing is not None and not is_of_project(self.project, module, missing.name.partition(".")[0]):
                yield Need(missing, here, frozenset(self.done))
        self.done.add(module.file)

    def _found(self, module: SourceModule, step: _Step) -> list[SourceModule]:
        """The files of the project that a line imports, packages first."""
        if step.module is None:
            return []
        names = list(prefixes(step.module))
        if step.name and step.name != "*":
            names.append(f"{step.module}.{step.name}" if step.module else step.name)
        found = (self.project.find(module, name, step.level) for name in names)
        return [each for each in found if each is not None]


def is_of_project(project: Project, module: SourceModule, library: str) -> bool:
    """Whether a folder or a file of the project is called like a library: it may be its own copy."""
    return project.find(module, library) is not None or any(
        library in (*file.parent.parts, file.stem) for file in project.files
    )


def _steps(module: SourceModule, *, is_main: bool) -> tuple[_Step, ...]:
    if module.parse_error is not None:
        return ()
    known: dict[bool, tuple[_Step, ...]] = module.told.setdefault(_steps, {})
    if is_main not in known:
        body = (_main_body(statement) if is_main else [statement] for statement in module.tree.body)
        imported = imported_names(module.tree)
        known[is_main] = tuple(step for each in chain.from_iterable(body) for step in _steps_of(each, imported))
    return known[is_main]


def _main_body(statement: ast.stmt) -> list[ast.stmt]:
    """What is run of a statement at the top of the file that is started: of the main guard, the statements below it."""
    if not isinstance(statement, ast.If) or not is_main_guard(statement):
        return [statement]
    is_plain = isinstance(statement.test, ast.Compare) and isinstance(statement.test.ops[0], ast.Eq)
    return statement.body if is_plain else []


def _steps_of(statement: ast.stmt, imported: Mapping[str, str]) -> Iterator[_Step]:
    if isinstance(statement, ast.Import):
        yield from (_Step(_end(statement), alias.name, 0, "") for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        origin, level = statement.module or "", statement.level
        yield from (_Step(_end(statement), origin, level, alias.name) for alias in statement.names)
    else:
        for node in _run_at_once(statement):
            if isinstance(node, ast.Attribute) and (dotted := dotted_name(node, imported)):
                yield _Step(_end(node), None, 0, dotted)


def _end(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno


def _run_at_once(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that are evaluated when Python gets there, whatever holds."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, _LATER):
            pending += [*getattr(node, "decorator_list", ()), *node.args.defaults]
        elif not isinstance(node, _MAYBE):
            pending += ast.iter_child_nodes(node)
