"""Whether anything comes of a value that is read somewhere, but that it is shown, or kept where nobody looks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dllint.interp.source.bindings import Definition
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Site

_MAX_HOPS = 5  # from one variable, attribute or parameter to the next
_SHOWING = frozenset(("print", "pprint", "info", "debug", "warning", "warn", "secho"))
_WRITING_TEXT = frozenset(("write", "writelines"))
_AS_TEXT = frozenset(("str", "repr", "format", "join"))
_CONVERTING = frozenset(("bool", "int", "float", "len", *_AS_TEXT))
_PARTS = (
    ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.Dict,
)  # fmt: skip
_PLAIN_BASES = frozenset(("object", "nn.Module", "Module", "torch.nn.Module"))
_OF_ALL_VARIABLES = frozenset(("locals", "globals", "exec", "eval"))
_OF_ALL_ATTRIBUTES = frozenset(("__dict__", "setattr", "getattr"))


class _Read(NamedTuple):
    """A place at which a value is read; ``is_text`` if it is but a part of a text there."""

    module: SourceModule
    node: ast.AST
    is_text: bool = False


class Effects:
    """Follows values through the statements of some files; in doubt, something comes of them."""

    def __init__(self, modules: Sequence[SourceModule], may_run: Callable[[Site], bool]) -> None:
        """Take the files in which values are followed.

        Args:
            modules: the files; nothing else reads what these keep.
            may_run: whether somebody may get to a place.
        """
        self._modules = modules
        self._may_run = may_run
        self._seen: set[tuple[object, ...]] = set()

    def has_effect(self, module: SourceModule, node: ast.AST) -> bool:
        """Whether something comes of a value that is read at a node of a file."""
        return self._follow(_Read(module, node), 0)

    def _follow(self, read: _Read, hops: int) -> bool:
        place = read.module.file, getattr(read.node, "lineno", 0), getattr(read.node, "col_offset", 0)
        if hops > _MAX_HOPS:
            return True
        if place in self._seen or not self._may_run(Site(read.module, read.node)):
            return False  # what was seen is being followed, or came to nothing
        self._seen.add(place)
        inner, is_text = read.node, read.is_text
        for outer in ancestors(Site(read.module, read.node)):
            if isinstance(outer, ast.stmt):
                return self._in_statement(_Read(read.module, inner, is_text), outer, hops)
            if isinstance(outer, ast.Call) and inner is not outer.func:
                name = _last(outer.func)
                if name in _SHOWING or (name in _WRITING_TEXT and is_text):
                    return False
                if name not in _CONVERTING:
                    return self._given(_Read(read.module, inner, is_text), outer, hops)
                is_text = is_text or name in _AS_TEXT
            elif isinstance(outer, ast.IfExp | ast.BoolOp):
                if any(isinstance(each, ast.Call) for each in ast.walk(outer)):
                    return True  # whether it is called
            elif not isinstance(outer, _PARTS):
                return True
            is_text = is_text or isinstance(outer, ast.JoinedStr)
            inner = outer
        return True

    def _in_statement(self, read: _Read, statement: ast.stmt, hops: int) -> bool:
        """Whether something comes of a value that is a part of a statement."""
        if isinstance(statement, ast.Expr):
            return False
        if isinstance(statement, ast.If):
            return not all(_only_shows(each) for each in (*statement.body, *statement.orelse))
        targets: Sequence[ast.expr] = ()
        if isinstance(statement, ast.Assign) and read.node is statement.value:
            targets = statement.targets
        elif isinstance(statement, ast.AugAssign | ast.AnnAssign) and read.node is statement.value:
            targets = [statement.target]
        return not targets or any(self._kept(read, target, hops) for target in targets)

    def _kept(self, read: _Read, target: ast.expr, hops: int) -> bool:
        """Whether somebody makes use of what a variable or an attribute is set to."""
        if isinstance(target, ast.Name):
            reads = self._reads_of_variable(read, target)
        elif isinstance(target, ast.Attribute) and _is_of_plain_object(Site(read.module, target)):
            reads = self._reads_of_attribute(target.attr)
        else:
            return True
        return reads is None or any(self._follow(_Read(module, node, read.is_text), hops + 1) for module, node in reads)

    def _reads_of_variable(self, read: _Read, target: ast.Name) -> list[tuple[SourceModule, ast.AST]] | None:
        """Where a variable is read; ``None`` where that cannot be told."""
        scope = enclosing_definition(Site(read.module, target))
        if isinstance(scope, ast.ClassDef) or not _OF_ALL_VARIABLES.isdisjoint(read.module.words):
            return None
        if scope is None and any(target.id in each.words for each in self._modules if each is not read.module):
            return None
        around = scope if scope is not None else read.module.tree
        if any(target.id in each.names for each in nodes_of(around).of(ast.Global, ast.Nonlocal)):
            return None
        return [(read.module, node) for node in nodes_of(around).names.get(target.id, ()) if _is_read(node)]

    def _reads_of_attribute(self, name: str) -> list[tuple[SourceModule, ast.AST]] | None:
        """Where an attribute is read, of whatever object; ``None`` where that cannot be told."""
        found: list[tuple[SourceModule, ast.AST]] = []
        for module in self._modules:
            if name not in module.words:
                continue
            if not _OF_ALL_ATTRIBUTES.isdisjoint(module.words):
                return None
            nodes = nodes_of(module.tree)
            if any(node.value == name for node in nodes.of(ast.Constant)):
                return None
            found += [(module, node) for node in nodes.attributes.get(name, ()) if _is_read(node)]
        return found

    def _given(self, read: _Read, call: ast.Call, hops: int) -> bool:
        """Whether what is called, wherever something of its name is defined, does something with what it is given."""
        name = _last(call.func)
        functions = [(module, each) for module in self._modules for each in _functions_of(module, name)]
        if not functions or name.startswith("__"):
            return True
        for module, function in functions:
            parameter = _parameter(function, call, read.node)
            if not parameter:
                return True
            reads = (node for node in nodes_of(function).names.get(parameter, ()) if _is_read(node))
            if any(self._follow(_Read(module, node, read.is_text), hops + 1) for node in reads):
                return True
        return False


def _functions_of(module: SourceModule, name: str) -> Iterator[ast.FunctionDef]:
    """What a call of a name may run in a file: functions of it, and constructors of classes."""
    if name not in module.words:
        return
    for each in nodes_of(module.tree).of(ast.FunctionDef, ast.ClassDef):
        if each.name == name and isinstance(each, ast.FunctionDef):
            yield each
        elif each.name == name and isinstance(each, ast.ClassDef):
            yield from (e for e in each.body if isinstance(e, ast.FunctionDef) and e.name == "__init__")


def _parameter(function: ast.FunctionDef, call: ast.Call, given: ast.AST) -> str:
    """The parameter of a function that gets an argument of a call; empty where that is not clear."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if isinstance(given, ast.keyword):
        return given.arg if given.arg in (*names, *(each.arg for each in arguments.kwonlyargs)) else ""
    if any(isinstance(each, ast.Starred) for each in call.args) or given not in call.args:
        return ""
    place = call.args.index(given) + (names[:1] == ["self"])
    return names[place] if place < len(names) else ""


def _only_shows(statement: ast.stmt) -> bool:
    """Whether a statement prints something that is there already, or does nothing."""
    if isinstance(statement, ast.Pass):
        return True
    calls = [_last(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return isinstance(statement, ast.Expr) and all(name in _SHOWING or name in _CONVERTING for name in calls)


def _is_of_plain_object(target: Site) -> bool:
    """Whether an attribute is one of `self` in a class of which no library reads any, but for the mode of a module."""
    owner = next((each for each in definitions_around(target) if isinstance(each, ast.ClassDef)), None)
    node = target.node
    return (
        owner is not None
        and isinstance(node, ast.Attribute)
        and ast.unparse(node.value) == "self"
        and node.attr != "training"
        and {ast.unparse(base) for base in owner.bases} <= _PLAIN_BASES
    )


def _is_read(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def definitions_around(site: Site) -> list[ast.AST]:
    """The functions and classes around a place, the innermost first."""
    return [node for node in ancestors(site) if isinstance(node, Definition)]
