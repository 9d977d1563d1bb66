"""Whose attribute is read: that of an object of some class, of something else, or of what nobody knows.

Names tell: what a variable or an attribute of `self` was assigned, what a parameter is annotated with, which class a
method belongs to. Where they do not, what else is read of the same object does: what has a `layer4` is no object of a
class that has none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from dllint.interp.source.bindings import Definition
from dllint.interp.source.imported import imported_names
from dllint.interp.source.kin import Kin
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, statement_around
from dllint.interp.source.topics import speaks_of
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_VALUES = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.BinOp,
    ast.Compare, ast.Lambda,
)  # fmt: skip
_PASSING_ON = frozenset(("to", "cuda", "cpu", "eval", "train", "half", "float", "double", "requires_grad_", "module"))
_WRAPPING = ("DataParallel", "DistributedDataParallel", "deepcopy", "compile", "copy", "DDP")
_OF_LIBRARIES = (  # what they make is nothing of the project's, unless they are given it
    "torchvision.", "transformers.", "argparse.", "numpy.", "pandas.", "torch.nn.", "torch.optim.",
)  # fmt: skip
_PLAIN = frozenset(
    ("str", "int", "float", "bool", "dict", "list", "tuple", "Dict", "List", "Tuple", "Tensor", "Namespace", "ndarray",
     "DataLoader", "Dataset", "DataFrame", "Path", "Optimizer", "device")
)  # fmt: skip
_MAX_STEPS = 5  # from a variable to what it was assigned


class Owners:
    """Tells of expressions whether they are objects of a class, or of one that is related to it."""

    def __init__(self, project: Project, kin: Kin) -> None:
        self._project = project
        self._kin = kin

    def is_kin(self, owner: ast.expr, module: SourceModule) -> bool | None:
        """Whether an expression whose attribute is read is an object of the class; ``None`` where it may be one."""
        at = Site(module, owner)
        told = self._is(owner, at, 0)
        return False if told is None and self._has_others(owner, at) else told

    # ------------------------------------------------------------------------------------------- what names tell

    def _is(self, node: ast.expr | None, at: Site, steps: int) -> bool | None:
        if steps > _MAX_STEPS or node is None:
            return None
        if isinstance(node, _VALUES):
            return False
        if isinstance(node, ast.IfExp):
            return _of_all(self._is(each, at, steps + 1) for each in (node.body, node.orelse))
        if isinstance(node, ast.Call):
            return self._is_made(node, at, steps)
        if isinstance(node, ast.Name):
            return self._is_variable(node.id, at, steps)
        if isinstance(node, ast.Attribute):
            return self._is_attribute(node, at, steps)
        return None

    def _is_attribute(self, node: ast.Attribute, at: Site, steps: int) -> bool | None:
        dotted = ast.unparse(node)
        if any(speaks_of("options", part) for part in dotted.split(".")) or self._is_imported(dotted, at):
            return False
        if node.attr in _PASSING_ON:
            return self._is(node.value, at, steps + 1)
        cls = _class_of_self(node.value, at)
        if cls is None:
            return None
        stored = (each for each in nodes_of(cls).attributes.get(node.attr, ()) if isinstance(each.ctx, ast.Store))
        return _of_all(
            self._is_assigned(each, Site(at.module, each), steps) for each in stored if _is_self(each.value, at, cls)
        )

    def _is_variable(self, name: str, at: Site, steps: int) -> bool | None:
        if speaks_of("options", name) or self._is_imported(name, at):
            return False
        for around in ancestors(at):
            if isinstance(around, _FUNCTIONS):
                parameter = next((each for each in _parameters(around) if each.arg == name), None)
                if parameter is not None:
                    return self._is_parameter(parameter, around, at)
            if isinstance(around, (*_FUNCTIONS, ast.Module)):
                stored = [each for each in nodes_of(around).names.get(name, ()) if isinstance(each.ctx, ast.Store)]
                if stored:
                    return _of_all(self._is_assigned(each, Site(at.module, each), steps) for each in stored)
        return None

    def _is_parameter(self, parameter: ast.arg, function: ast.AST, at: Site) -> bool | None:
        cls = _class_around(Site(at.module, function))
        if cls is not None and parameter is next(_parameters(function), None):
            return self._kin.has(_file(at), cls)
        if parameter.annotation is None:
            return None
        return self._is_annotated(parameter.annotation, at)

    def _is_annotated(self, annotation: ast.expr, at: Site) -> bool | None:
        text = annotation.value if isinstance(annotation, ast.Constant) else ast.unparse(annotation)
        name = str(text).partition("[")[0].rpartition(".")[2]
        if name in _PLAIN or speaks_of("options", name):
            return False
        defined = self._definition(name, _file(at))
        return self._kin.has(*defined) if defined is not None and isinstance(defined[1], ast.ClassDef) else None

    def _is_assigned(self, target: ast.expr, at: Site, steps: int) -> bool | None:
        statement = statement_around(at)
        if isinstance(statement, ast.Assign) and target in statement.targets:
            return self._is(statement.value, at, steps + 1)
        if isinstance(statement, ast.AnnAssign) and statement.target is target:
            of_value = self._is(statement.value, at, steps + 1) if statement.value is not None else None
            return of_value if of_value is not None else self._is_annotated(statement.annotation, at)
        return None

    def _is_made(self, call: ast.Call, at: Site, steps: int) -> bool | None:
        function = call.func
        dotted = ast.unparse(function)
        last = dotted.rpartition(".")[2]
        if last in _WRAPPING and call.args:
            return self._is(call.args[0], at, steps + 1)
        if isinstance(function, ast.Attribute) and last in _PASSING_ON:
            return self._is(function.value, at, steps + 1)
        library = imported_names(at.module.tree).get(dotted.partition(".")[0], "")
        if f"{library}.{dotted.partition('.')[2]}".startswith(_OF_LIBRARIES):
            return False
        defined = self._definition(dotted, _file(at))
        if defined is None:
            return None
        module, definition = defined
        if isinstance(definition, ast.ClassDef):
            return self._kin.has(module, definition)
        returned = (each for each in nodes_of(definition).of(ast.Return) if each.value is not None)
        return _of_all(self._is(each.value, Site(module, each), steps + 1) for each in returned)

    def _definition(self, dotted: str, module: SourceModule) -> tuple[SourceModule, Definition] | None:
        """The class or function of the project that a name means in a file, if it is a single one."""
        first, _, last = dotted.rpartition(".")
        if first:
            place = imported_names(module.tree).get(first.partition(".")[0])
            source = self._project.find(module, place) if place is not None and "." not in first else None
            return self._bound_in(source, last) if source is not None else None
        return self._bound_in(module, last)

    def _bound_in(self, module: SourceModule, name: str, steps: int = 0) -> tuple[SourceModule, Definition] | None:
        places = module.bindings.names.get(name, ()) if module.has_tree else ()
        if len(places) != 1 or steps > _MAX_STEPS:
            return None
        (place,) = places
        if isinstance(place, Definition):
            return module, place
        if not isinstance(place, ast.ImportFrom):
            return None
        source = self._project.find(module, place.module or "", place.level)
        original = next((each.name for each in place.names if (each.asname or each.name) == name), name)
        return self._bound_in(source, original, steps + 1) if source is not None else None

    def _is_imported(self, dotted: str, at: Site) -> bool:
        """Whether a name is a module, or what a library has, or a class or function of the project: no object of it."""
        root = dotted.partition(".")[0]
        if _is_bound_around(root, at):
            return False
        name = imported_names(at.module.tree).get(root)
        if name is not None and self._project.find(_file(at), name.partition(".")[0]) is None:
            return True
        return dotted == root and (
            self._bound_in(_file(at), root) is not None
            or (name is not None and self._project.find(_file(at), name) is not None)
        )

    # -------------------------------------------------------------------------- what else is read of the same object

    def _has_others(self, owner: ast.expr, at: Site) -> bool:
        """Whether attributes are read of an object that no object of the class has."""
        attributes = self._kin.attributes
        scope = self._scope(owner, at) if attributes is not None else None
        if attributes is None or scope is None:
            return False
        last, text = getattr(owner, "attr", getattr(owner, "id", "")), ast.unparse(owner)
        same = [
            node
            for node in nodes_of(scope).of(ast.Attribute)
            if last == getattr(node.value, "attr", getattr(node.value, "id", "")) and ast.unparse(node.value) == text
        ]
        read = {node.attr for node in same if isinstance(node.ctx, ast.Load)}
        set_ = {
            node.attr
            for node in nodes_of(at.module.tree).of(ast.Attribute)
            if isinstance(node.ctx, ast.Store) and not _is_self(node.value, Site(at.module, node), None)
        }
        return not read <= attributes | set_

    def _scope(self, owner: ast.expr, at: Site) -> ast.AST | None:
        """Where an expression means one object: the function that binds a variable once, or the class of `self.x`."""
        if isinstance(owner, ast.Attribute):
            return _class_of_self(owner.value, at)
        if not isinstance(owner, ast.Name):
            return None
        for around in ancestors(at):
            if not isinstance(around, (*_FUNCTIONS, ast.Module)):
                continue
            stored = [each for each in nodes_of(around).names.get(owner.id, ()) if isinstance(each.ctx, ast.Store)]
            given = [each for each in _parameters(around) if each.arg == owner.id]
            if stored or given:
                return around if len(stored) + len(given) == 1 else None
        return None


def _file(at: Site) -> SourceModule:
    module: Any = at.module
    return module  # type: ignore[no-any-return]


def _parameters(function: ast.AST) -> Iterator[ast.arg]:
    if isinstance(function, _FUNCTIONS):
        given = function.args
        yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)


def _class_around(function: Site) -> ast.ClassDef | None:
    """The class whose method a function is."""
    around = next((each for each in ancestors(function) if isinstance(each, (*_FUNCTIONS, ast.ClassDef))), None)
    return around if isinstance(around, ast.ClassDef) else None


def _class_of_self(node: ast.expr, at: Site) -> ast.ClassDef | None:
    """The class of which a name is the object, as the first parameter of the method around it."""
    if not isinstance(node, ast.Name):
        return None
    for around in ancestors(at):
        if isinstance(around, _FUNCTIONS):
            first = next(_parameters(around), None)
            if first is not None and first.arg == node.id:
                return _class_around(Site(at.module, around))
    return None


def _is_self(node: ast.expr, at: Site, cls: ast.ClassDef | None) -> bool:
    """Whether a name is the object whose method is around it: one of a class, where that is asked for."""
    found = _class_of_self(node, at)
    return found is not None and (cls is None or found.lineno == cls.lineno)


def _is_bound_around(name: str, at: Site) -> bool:
    """Whether a function around a place binds a name."""
    return any(
        any(each.arg == name for each in _parameters(around))
        or any(isinstance(each.ctx, ast.Store) for each in nodes_of(around).names.get(name, ()))
        for around in ancestors(at)
        if isinstance(around, _FUNCTIONS)
    )


def _of_all(answers: Iterable[bool | None]) -> bool | None:
    """Whether one of several things is what is asked for; no answer where nothing is there."""
    found = list(answers)
    if True in found:
        return True
    return False if found and None not in found else None
