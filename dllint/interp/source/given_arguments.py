"""What the calls of a function give a parameter, where the project shows them all: `size=None`, and no call says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dllint.dataclass import dataclass
from dllint.interp.source.known_settings import default_of, literal_of
from dllint.interp.source.looked_up import may_be_looked_up
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.not_none import Something, is_something
from dllint.interp.source.positions import ancestors
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TAKE_CLASSES = frozenset(("super", "isinstance", "issubclass"))
_MAX_DEPTH = 3


@dataclass(frozen=True, slots=True)
class _Expression:
    """An expression and the file it stands in."""

    module: SourceModule
    node: ast.expr


def values_given(
    project: Project, module: SourceModule, function: ast.AST, name: str, reader: ast.expr | None = None
) -> Sequence[Any]:
    """All values that calls of a function, or of a class whose constructor it is, give one of its parameters.

    Args:
        project: where the calls are.
        module: the file at whose top the function or class stands.
        function: the function.
        name: the parameter.
        reader: where its value is asked for; what the function binds the name to after that does not matter.

    Returns:
        The values; none where a call may give any other one, where the function is handed on, or nothing calls it.
        Of some it is known only that they are not `None` (`Something`).
    """
    return _Search(project).given(module, function, name, 0, reader) or ()


def is_always_given(project: Project, module: SourceModule, function: ast.AST, name: str) -> bool:
    """Whether all calls of a function, or of a class whose constructor it is, give one of its parameters, and not what
    it has by default: there are some, and nothing else is done with it.

    Args:
        project: where the calls are.
        module: the file at whose top the function or class stands.
        function: the function.
        name: the parameter.
    """
    called = _called_as(module, function) if isinstance(function, _FUNCTION) else None
    if called is None or not isinstance(function, _FUNCTION):
        return False
    default, place = default_of(function.args, name), place_of(function, name, is_method=called[1])
    calls = _Search(project).calls_of(module, called[0]) or []
    given = [argument_of(call, name, place) for _, call in calls]
    return bool(given) and all(each is not None and not _is_same(each, default) for each in given)


class _Search:
    """The search for what reaches one parameter: literals, constants of files, and parameters of the callers."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def given(
        self, module: SourceModule, function: ast.AST, name: str, depth: int, reader: ast.expr | None
    ) -> list[Any] | None:
        """The values of a parameter; ``None`` where not all are known."""
        if not isinstance(function, _FUNCTION) or depth > _MAX_DEPTH or _binds(function, name, reader):
            return None
        called = _called_as(module, function)
        if called is None:
            return None
        named, is_method = called
        default = default_of(function.args, name)
        place = place_of(function, name, is_method=is_method)
        found: list[Any] = []
        for user, call in self.calls_of(module, named) or ():
            given = argument_of(call, name, place)
            is_open = any(isinstance(each, ast.Starred) for each in call.args)
            if is_open or (given is None and any(each.arg is None for each in call.keywords)):
                return None  # what is expanded may give it
            value = _Expression(user, given) if given is not None else None
            if value is None and default is not None:
                value = _Expression(module, default)
            values = self._values_of(value, depth) if value is not None else None
            if values is None:
                return None
            found.extend(values)
        return found or None

    def calls_of(self, module: SourceModule, name: str) -> list[tuple[SourceModule, ast.Call]] | None:
        """The calls of what a file defines under a name; ``None`` if it is used in other ways."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        users = (*self._project.mentioning(word), *self._project.notebooks_with(name))
        found: list[tuple[SourceModule, ast.Call]] = []
        is_looked_up = may_be_looked_up(self._project, module)
        if (is_looked_up and self._project.is_configured(name)) or self._project.is_configured(name, with_path=True):
            return None
        for user in self._project.reading_each(users):
            if not user.has_tree or _hands_on(user, name) or (is_looked_up and _has_text(user, name)):
                return None
            found.extend((user, call) for call in user.calls.get(name, ()))
        return found

    def _values_of(self, given: _Expression, depth: int) -> list[Any] | None:
        """The values that an expression may have; ``None`` where not all are known."""
        module, node = given.module, given.node
        is_known, value = literal_of(node)
        if is_known:
            return [value]
        if isinstance(node, ast.Name):
            around = (each for each in ancestors(Site(module, node)) if isinstance(each, _FUNCTION))
            function = next(around, None)
            if function is not None and node.id in _parameters_of(function):
                return self.given(module, function, node.id, depth + 1, node)
            if function is None or not _binds(function, node.id):
                return _constant(module, node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            imported = self._module_called(module, node.value.id)
            is_set = re.compile(rf"\.{re.escape(node.attr)}\s*=(?!=)")
            if imported is not None and not any(self._project.mentioning(is_set)):
                return _constant(imported, node.attr)
        return [Something()] if is_something(module, node) else None

    def _module_called(self, importer: SourceModule, name: str) -> SourceModule | None:
        """The file of the project that another one imports under a name."""
        bound = importer.bindings.names.get(name, [])
        if len(bound) != 1 or not isinstance(bound[0], ast.Import | ast.ImportFrom):
            return None
        statement = bound[0]
        alias = next((each for each in statement.names if (each.asname or each.name) == name), None)
        if alias is None:
            return None
        if isinstance(statement, ast.Import):
            return self._project.find(importer, alias.name, 0)
        dotted = f"{statement.module}.{alias.name}" if statement.module else alias.name
        return self._project.find(importer, dotted, statement.level)


def place_of(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, *, is_method: bool) -> int | None:
    """At which place calls give a parameter by position; ``None`` where they cannot."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return names.index(name) - is_method if name in names else None


def argument_of(call: ast.Call, name: str, place: int | None) -> ast.expr | None:
    """What a call gives a parameter, by name or by its place, as far as it is written out."""
    given = next((each.value for each in call.keywords if each.arg == name), None)
    is_open = any(isinstance(each, ast.Starred) for each in call.args)
    if given is None and place is not None and place < len(call.args) and not is_open:
        return call.args[place]
    return given


def _is_same(given: ast.expr, default: ast.expr | None) -> bool:
    return default is not None and ast.dump(given) == ast.dump(default)


def _called_as(module: SourceModule, function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, bool] | None:
    """What calls of a function name, and whether that is its class; ``None`` for other methods, and what is inside."""
    if function.decorator_list:
        return None
    if function in module.tree.body:
        return function.name, False
    owners = (each for each in module.tree.body if isinstance(each, ast.ClassDef) and function in each.body)
    owner = next(owners, None)
    if owner is None or owner.decorator_list or function.name != "__init__":
        return None
    return owner.name, True


def _hands_on(user: SourceModule, name: str) -> bool:
    """Whether a file does something else with a name than to define, to import or to call it."""
    nodes = nodes_of(user.tree)
    called = {id(call.func) for call in nodes.of(ast.Call)}
    for call in nodes.of(ast.Call):
        if getattr(call.func, "id", "") in _TAKE_CLASSES:
            called.update(map(id, call.args))
    variables = (node for node in nodes.of(ast.Name) if node.id == name)
    attributes = (node for node in nodes.of(ast.Attribute) if node.attr == name)
    return any(id(node) not in called for node in (*variables, *attributes))


def _has_text(user: SourceModule, name: str) -> bool:
    return any(node.value == name for node in nodes_of(user.tree).of(ast.Constant))


def _parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = function.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _binds(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, reader: ast.expr | None = None) -> bool:
    """Whether the body of a function binds a name; with a reader, before it is read there, or in a loop around."""
    nodes = nodes_of(function)
    bound = [node for node in nodes.of(ast.Name) if node.id == name and not isinstance(node.ctx, ast.Load)]
    is_inside = reader is not None and function.lineno <= reader.lineno <= (function.end_lineno or 0)
    if reader is None or not is_inside:
        return bool(bound)
    around = [each for each in nodes.of(*_LOOPS) if each.lineno <= reader.lineno <= (each.end_lineno or 0)]
    first = min((each.lineno for each in around), default=reader.lineno)
    last = max((each.end_lineno or 0 for each in around), default=reader.lineno)
    return any(node.lineno <= reader.lineno or first <= node.lineno <= last for node in bound)


def _constant(module: SourceModule, name: str) -> list[Any] | None:
    """The literal that the top of a file binds a name to, and nothing else."""
    bound = module.bindings.names.get(name, [])
    if len(bound) != 1 or not isinstance(bound[0], ast.Assign) or bound[0] not in module.tree.body:
        return None
    if module.contains(re.compile(rf"\bglobal\b.*\b{re.escape(name)}\b")):
        return None
    is_single = len(bound[0].targets) == 1 and isinstance(bound[0].targets[0], ast.Name)
    is_known, value = literal_of(bound[0].value)
    return [value] if is_known and is_single else None
