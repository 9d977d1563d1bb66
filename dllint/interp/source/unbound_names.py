"""Names that are read where nothing binds them, although another function of the same file may bind one for itself."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from dllint.interp.source.bindings import Definition, bound_in
from dllint.interp.source.early_reads import reads_unbound
from dllint.interp.source.missing_names import has_only_what_is_written, is_closed
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.stars import may_give
from dllint.interp.source.trees import evaluated, walk
from dllint.interp.source.trials import has_main_guard, is_plain_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_OF_PYTHON_2 = frozenset((
    "basestring", "cmp", "execfile", "file", "long", "raw_input", "reduce", "reload", "unichr", "unicode", "xrange",
))  # fmt: skip
_PROVIDED = frozenset(dir(builtins)) | {  # in Python 3, and where tools run a file
    "_", "display", "get_ipython", "profile", "reveal_type", "WindowsError",
}  # fmt: skip
_MAKES_CELLS_OF = re.compile(r"%(run|load|pylab|store|cpaste)|import_ipynb|\b(exec|globals|locals|vars|setattr)\(")
_MAX_DEPTH = 4  # of files that take all names of others
_SINCE_PYTHON_3 = (ast.JoinedStr, ast.AnnAssign, ast.AsyncFunctionDef, ast.NamedExpr, ast.Nonlocal)


def is_provided(module: SourceModule, name: str) -> bool:
    """Whether a name is there in a file without being bound: by Python, which may be Python 2, or by a tool."""
    if name in _OF_PYTHON_2:
        return not nodes_of(module.tree).of(*_SINCE_PYTHON_3)
    return name in _PROVIDED or name.startswith("__")


def is_unbound(project: Project, module: SourceModule, name: str, node: ast.AST) -> bool:
    """Whether a name that some other function may bind is missing where it is read.

    Args:
        project: the project, whose files may give the module all of their names.
        module: the file.
        name: a variable that nobody gives to the module from outside.
        node: where it is read.
    """
    around = _scope_around(module, node)
    if (around is not None and name in _bound_inside(module, around)) or module.is_package:
        return False
    return not may_have(project, module, name)


def lack_names(project: Project, module: SourceModule) -> frozenset[int]:
    """The lines of the functions and methods of a file that read a name which nothing has bound; found once."""
    known: frozenset[int] | None = module.told.get(lack_names)
    if known is None:
        known = module.told[lack_names] = frozenset(
            function.lineno
            for function in _functions_in(module.tree.body)
            if any(not may_have(project, module, name) for name in _names_from_outside(module, function))
            or reads_unbound(module, function)
        )
    return known


def _functions_in(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions and methods that are in no other function."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions_in(statement.body)


def _names_from_outside(module: SourceModule, function: ast.stmt) -> set[str]:
    """The names that a function reads and does not bind, and that Python does not have."""
    nodes = list(walk(function))
    read = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return {name for name in read.difference(bound_in(nodes)) if not is_provided(module, name)}


def may_have(project: Project, module: SourceModule, name: str, depth: int = 0) -> bool:
    """Whether the top level of a file may bind a name, or take it from a file or a library all of whose names it takes.

    What a function binds for itself is no name of the file.
    """
    return name in _top_of(module) or _may_be_given(project, module, name, depth)


def _may_be_given(project: Project, module: SourceModule, name: str, depth: int = 0) -> bool:
    """Whether code that makes names, or a star, may give a file a name that it does not bind itself."""
    if not is_closed(module) or depth > _MAX_DEPTH:
        return True
    for origin, level in module.stars:
        other = project.find(module, origin, level)
        if other is None:
            if level or may_give(origin, name):
                return True
        else:
            with project.glancing_at(other):
                if not _is_the_one(project, module, other, level) or may_have(project, other, name, depth + 1):
                    return True
    return False


def _is_the_one(project: Project, importer: SourceModule, module: SourceModule, level: int) -> bool:
    """Whether a star import is of this very file: it lies beside the script, or no other file is called so."""
    if module.is_package:
        return False
    is_beside = module.folder == importer.folder and has_main_guard(importer)
    return bool(level) or is_beside or sum(each.name == module.file.name for each in project.files) == 1


def is_of_script_alone(project: Project, module: SourceModule, name: str, node: ast.AST) -> bool:
    """Whether a file that is imported lacks a name where it is read: it has one only when it is run itself."""
    if name not in _bound_for_main(module) or is_provided(module, name):
        return False
    around = _statement_around(module, node)
    if not isinstance(around, Definition) or name in _bound_inside(module, around):
        return False
    return not _may_be_given(project, module, name)


def _bound_for_main(module: SourceModule) -> frozenset[str]:
    """The names that a file binds below ``if __name__ == "__main__":`` and nowhere else at its top, found once."""
    known: frozenset[str] | None = module.told.get(_bound_for_main)
    if known is None:
        guards = [each for each in module.tree.body if is_plain_main_guard(each)]
        inside = {name for each in guards for name in _bound_by(each.body)}
        others = _bound_by([each for each in module.tree.body if each not in guards]) if inside else ()
        declared = (name for each in nodes_of(module.tree).of(ast.Global) for name in each.names) if inside else ()
        known = module.told[_bound_for_main] = frozenset(inside.difference(others, declared))
    return known


def names_missing(project: Project, module: SourceModule) -> frozenset[str]:
    """The names that the top of a file reads, under any condition, and that nothing binds there; found once."""
    known: frozenset[str] | None = module.told.get(names_missing)
    if known is None:
        done = [each for each in module.tree.body if not isinstance(each, Definition)]
        reads = {
            node.id: node
            for each in done
            for node in nodes_of(each).of(ast.Name)
            if isinstance(node.ctx, ast.Load) and not is_provided(module, node.id)
        }
        known = module.told[names_missing] = frozenset(
            name for name, node in reads.items() if is_unbound(project, module, name, node)
        )
    return known


def unbound_in_cell(module: SourceModule, line: int) -> str:
    """A name that a cell of a notebook reads at its top up to a line, and that no cell binds; empty without one."""
    source = module.source
    if source.notebook is None or module.parse_error is not None or module.stars:
        return ""
    if _MAKES_CELLS_OF.search(source.notebook.raw):
        return ""
    cell = source.cell_of(line)
    above = (each for each in module.tree.body if each.lineno <= line and source.cell_of(each.lineno) == cell)
    reads = (
        node.id
        for statement in above
        if not isinstance(statement, Definition)
        for node in nodes_of(statement).of(ast.Name)
        if isinstance(node.ctx, ast.Load) and node.lineno <= line
    )
    return next((name for name in reads if not module.binds(name) and not is_provided(module, name)), "")


def _top_of(module: SourceModule) -> frozenset[str]:
    """What the top level of a file binds, found once."""
    known: frozenset[str] | None = module.told.get(_top_of)
    if known is None:
        known = module.told[_top_of] = frozenset(_bound_at_top(module.tree))
    return known


def _bound_inside(module: SourceModule, statement: ast.stmt) -> Set[str]:
    """All names that a statement at the top of a file binds, found once."""
    known: dict[int, Set[str]] = module.told.setdefault(_bound_inside, {})
    if statement.lineno not in known:
        known[statement.lineno] = bound_in(walk(statement))
    return known[statement.lineno]


def _statement_around(module: SourceModule, node: ast.AST) -> ast.stmt | None:
    """The statement at the top of a file that a place is in: a definition, or one with comprehensions of its own."""
    line = getattr(node, "lineno", 0)
    inside = (each for each in module.tree.body if each.lineno <= line <= (each.end_lineno or each.lineno))
    return next(inside, None)


def _scope_around(module: SourceModule, node: ast.AST) -> ast.stmt | None:
    """The statement at the top of a file that a place is in, or the method of a class whose body it is in.

    What else is in a class is no variable of its methods.
    """
    around = _statement_around(module, node)
    place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
    while isinstance(around, ast.ClassDef):
        inside = (each for each in around.body if isinstance(each, Definition) and _begins(each) <= place < _end(each))
        inner = next(inside, None)
        if inner is None:
            break
        around = inner
    return around


def _begins(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> tuple[int, int]:
    """Where the body of a definition does: defaults and bases are still what the class around it sees."""
    return definition.body[0].lineno, definition.body[0].col_offset


def _end(statement: ast.stmt) -> tuple[int, int]:
    return statement.end_lineno or statement.lineno, statement.end_col_offset or 0


def _bound_at_top(tree: ast.Module) -> Iterator[str]:
    """The names that the top level of a file binds, at any depth, and those that functions bind for it."""
    yield from _bound_by(tree.body)
    yield from (name for each in nodes_of(tree).of(ast.Global) for name in each.names)


def _bound_by(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that statements bind at any depth, but for those inside of definitions and comprehensions."""
    for statement in body:
        if isinstance(statement, Definition):
            yield statement.name
        else:
            within = {id(name) for each in nodes_of(statement).of(ast.comprehension) for name in walk(each.target)}
            yield from bound_in(each for each in walk(statement) if id(each) not in within)


def needed_unbound(module: SourceModule) -> str:
    """A name that a file reads in any case while it is imported, and that is missing; empty if there is none.

    That is what its statements at the top read, the bodies of its classes, decorators, and defaults of parameters.
    """
    known: str | None = module.told.get(needed_unbound)
    if known is None:
        known = module.told[needed_unbound] = _find_unbound(module)
    return known


def _find_unbound(module: SourceModule) -> str:
    if module.parse_error is not None or module.source.has_cells or not has_only_what_is_written(module):
        return ""
    for node, own in _read_when_imported(module.tree.body, frozenset()):
        if node.id not in own and not is_provided(module, node.id) and node.id not in _top_of(module):
            return node.id
    return ""


def _read_when_imported(body: list[ast.stmt], own: frozenset[str]) -> Iterator[tuple[ast.Name, frozenset[str]]]:
    """The variables that statements read, one after the other, each with what the class around it binds."""
    for statement in body:
        for part in _parts(statement):
            for node in evaluated(part):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    yield node, own
        if isinstance(statement, ast.ClassDef) and not statement.keywords:
            inside = own.union(_bound_by(statement.body), (each.name for each in getattr(statement, "type_params", ())))
            yield from _read_when_imported(statement.body, inside)
        if isinstance(statement, ast.Raise | ast.Return):
            return


def _parts(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that are evaluated in any case."""
    if getattr(statement, "type_params", ()):
        return
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from statement.decorator_list
        yield from statement.args.defaults
        yield from (each for each in statement.args.kw_defaults if each is not None)
    elif isinstance(statement, ast.ClassDef):
        yield from (*statement.decorator_list, *statement.bases)
    elif isinstance(statement, ast.If | ast.While):
        yield statement.test
    elif isinstance(statement, ast.For):
        yield statement.iter
    elif isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign):
        yield statement.value
    elif isinstance(statement, ast.AnnAssign):
        yield from (each for each in (statement.value,) if each is not None)
