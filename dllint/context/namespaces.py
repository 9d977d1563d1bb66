"""Dicts of the options of a command line: where they go as a whole.

`vars(args)` is seldom expanded where it is taken: it is assigned, copied, filtered by what a constructor takes, merged
with a configuration, or passed to a function that builds the model. Names are those of one function each, attributes
those of a file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dllint.context.option_names import ALL
from dllint.dataclass import dataclass
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TAKING = frozenset(("vars", "__dict__", "_get_kwargs"))
_COPYING = frozenset(("dict", "OrderedDict", "copy", "deepcopy", "items", "keys", "list", "sorted", "SimpleNamespace"))
_SHOWING = frozenset(
    ("print", "info", "debug", "warning", "write", "format", "log", "dump", "dumps", "pprint", "pformat", "add_text",
     "str", "repr", "echo")
)  # fmt: skip
_OWN = ("self", "cls")
_MAX_ROUNDS = 3  # from one function to the next, or one name


@dataclass(frozen=True, slots=True)
class Handed:
    """An argument that is a dict of options: what takes it, and as which one, by number or by name; `**` for all."""

    function: str
    place: int | str


@dataclass(frozen=True, slots=True)
class _Scope:
    """A function without those within, or what is at the top of a file.

    ``name`` is by what it is called, that of the class for a constructor; ``rest`` is its parameter for all keywords
    that it does not name; ``bases`` are those of the class around it, ``own`` what it calls itself and its class.
    """

    name: str
    parameters: tuple[str, ...]
    rest: str
    bases: tuple[str, ...]
    own: tuple[str, ...]
    nodes: Sequence[ast.AST]


class _Dicts:
    """The names and attributes of a file that hold dicts of options, given what its functions are handed."""

    def __init__(self, scopes: Sequence[_Scope], given: Iterable[Handed]) -> None:
        self.attributes: set[str] = set()
        self.names = [
            {name for each in given if each.function == scope.name for name in _parameter(scope, each.place)}
            for scope in scopes
        ]
        for _ in range(_MAX_ROUNDS):
            for scope, names in zip(scopes, self.names, strict=True):
                names |= self.names[0] - _bound_in(scope)
                for node in scope.nodes:
                    self._follow(node, names)

    def _follow(self, node: ast.AST, names: set[str]) -> None:
        """Learn from a statement what else is a dict of options."""
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and self.holds(node.value, names):
            self._add(node.targets if isinstance(node, ast.Assign) else [node.target], names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            if any(self.holds(each, names) for each in node.args):
                self._add([node.func.value], names)
        elif isinstance(node, ast.For) and self.holds(node.iter, names):
            stored = (each for each in walk(node) if isinstance(each, ast.Subscript))
            self._add([each.value for each in stored if isinstance(each.ctx, ast.Store)], names)

    def _add(self, targets: Iterable[ast.expr], names: set[str]) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                names.add(target.id)
            elif isinstance(target, ast.Attribute):
                self.attributes.add(target.attr)

    def holds(self, node: ast.AST | None, names: set[str]) -> bool:
        """Whether an expression is a dict of options, or made of one."""
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes or (node.attr == "__dict__" and _may_be_namespace(node.value))
        if isinstance(node, ast.Call):
            called = _called(node)
            if called == "vars":
                return bool(node.args) and _may_be_namespace(node.args[0])
            parts = [*node.args, *(each.value for each in node.keywords if each.arg is None)]
            parts += [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return called == "_get_kwargs" or (called in _COPYING and any(self.holds(each, names) for each in parts))
        if isinstance(node, ast.DictComp | ast.ListComp | ast.GeneratorExp):
            return any(self.holds(each.iter, names) for each in node.generators)
        if isinstance(node, ast.Dict):
            merged = (value for key, value in zip(node.keys, node.values, strict=True) if key is None)
            return any(self.holds(each, names) for each in merged)
        if isinstance(node, ast.BinOp | ast.IfExp | ast.BoolOp):
            return any(self.holds(each, names) for each in ast.iter_child_nodes(node))
        return False


def expansions(module: SourceModule, given: frozenset[Handed], own: Mapping[str, str]) -> Iterator[Handed | None]:
    """The calls of a file that a dict of options is expanded into; ``None`` for each whose reader is not seen.

    That is also what looks up in the dict whatever a variable names.

    Args:
        module: the file.
        given: the dicts of options that functions of the project are handed.
        own: the names in the file for what the project defines, with what it is called where that is.
    """
    for scope, names, dicts in _read(module, given):
        over_all = {name for node in scope.nodes for name in _keys_of_all(node, dicts, names)}
        shown = {id(part) for node in scope.nodes if _is_shown(node) for part in walk(node)}
        for node in scope.nodes:
            if isinstance(node, ast.Call) and _is_expanding(node, dicts, names):
                yield from _readers(node, scope, own)
            elif id(node) not in shown and _is_lookup(node, dicts, names) and not _is_of_all(node, over_all):
                yield None

    for cls in _classes_made(module, given):
        yield from (_handed_to(base, own) for base in map(ast.unparse, cls.bases))


def taken_by_name(module: SourceModule, given: frozenset[Handed]) -> Iterator[str]:
    """The options that functions and classes take out of a dict which is expanded into calls of them, by name."""
    names = {each.function for each in given if each.place == ALL}
    if not names.isdisjoint(module.words):
        for scope in _scopes_of(module):
            yield from scope.parameters if scope.name in names else ()
        for cls in _classes_made(module, given):
            fields = (each.target for each in cls.body if isinstance(each, ast.AnnAssign))
            yield from (field.id for field in fields if isinstance(field, ast.Name))


def takers_named(module: SourceModule, names: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """The functions and constructors of some names in a file, each with whether it takes any keywords."""
    if not names.isdisjoint(module.words):
        yield from ((scope.name, bool(scope.rest)) for scope in _scopes_of(module) if scope.name in names)


def renames_all(module: SourceModule) -> bool:
    """Whether a file goes over a dict of options and looks them up without a prefix: `key.replace("aug_", "")`."""
    if _TAKING.isdisjoint(module.words):
        return False
    for loop in nodes_of(module.tree).of(ast.For, ast.comprehension):
        keys = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
        is_over_all = any(getattr(each, "attr", getattr(each, "id", "")) in _TAKING for each in walk(loop.iter))
        if is_over_all and any(_renames(call, keys) for call in nodes_of(module.tree).of(ast.Call)):
            return True
    return False


def _renames(call: ast.Call, keys: set[str]) -> bool:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in keys and _called(call) in ("replace", "removeprefix", "lstrip")


def _classes_made(module: SourceModule, given: frozenset[Handed]) -> Iterator[ast.ClassDef]:
    """The classes that a dict is expanded into and that have no constructor: data classes, and those with one above."""
    names = {each.function for each in given if each.place == ALL}
    for cls in nodes_of(module.tree).of(ast.ClassDef) if not names.isdisjoint(module.words) else ():
        if cls.name in names and not any(getattr(each, "name", "") == "__init__" for each in cls.body):
            yield cls


def _handed_to(base: str, own: Mapping[str, str]) -> Handed | None:
    """What the constructor of a base class gets; ``None`` where the project has not written it."""
    return Handed(own.get(base, base.rpartition(".")[2]), ALL) if base.partition(".")[0] in own else None


def handed_on(module: SourceModule, given: frozenset[Handed], own: Mapping[str, str]) -> Iterator[Handed]:
    """The dicts of options that a file passes to functions."""
    for scope, names, dicts in _read(module, given):
        for node in scope.nodes:
            if isinstance(node, ast.Call) and _called(node) not in ("", *_SHOWING, *_COPYING):
                places: list[tuple[int | str, ast.expr]] = list(enumerate(node.args))
                places += [(each.arg, each.value) for each in node.keywords if each.arg]
                taker = own.get(_called(node), _called(node))
                yield from (Handed(taker, place) for place, value in places if dicts.holds(value, names))


def _read(module: SourceModule, given: frozenset[Handed]) -> Iterator[tuple[_Scope, set[str], _Dicts]]:
    """The functions of a file, each with the names in it that hold dicts of options."""
    if _is_concerned(module, given):
        scopes = _scopes_of(module)
        dicts = _Dicts(scopes, given)
        yield from ((scope, names, dicts) for scope, names in zip(scopes, dicts.names, strict=True))


def _readers(call: ast.Call, scope: _Scope, own: Mapping[str, str]) -> Iterator[Handed | None]:
    """What gets the keywords of a call; ``None`` where that is no code of the project, or not known."""
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Call) and _called(root) == "super":
        yield from (_handed_to(base, own) for base in scope.bases)
    elif isinstance(root, ast.Name) and (root.id in scope.own or root.id in own):
        yield from (Handed(name, ALL) for name in {own.get(root.id, root.id), own.get(_called(call), _called(call))})
    else:
        yield None


def _is_concerned(module: SourceModule, given: frozenset[Handed]) -> bool:
    """Whether a file takes options out of a namespace, or may define what is handed some."""
    return not _TAKING.isdisjoint(module.words) or any(each.function in module.words for each in given)


def _scopes_of(module: SourceModule) -> Sequence[_Scope]:
    known: Sequence[_Scope] | None = module.derived.get(_scopes_of)
    if known is None:
        known = module.derived[_scopes_of] = tuple(_find_scopes(module.tree))
    return known


def _find_scopes(tree: ast.Module) -> Iterator[_Scope]:
    pending: list[tuple[ast.AST, ast.ClassDef | None]] = [(tree, None)]
    for root, cls in pending:  # which grows meanwhile
        own: list[ast.AST] = []
        inner: list[tuple[ast.AST, ast.ClassDef | None]] = [(each, None) for each in ast.iter_child_nodes(root)]
        for node, around in inner:
            if isinstance(node, _FUNCTIONS):
                pending.append((node, around))
                continue
            own.append(node)
            within = node if isinstance(node, ast.ClassDef) else around
            inner.extend((each, within) for each in ast.iter_child_nodes(node))
        yield _scope(root, cls, own)


def _scope(root: ast.AST, cls: ast.ClassDef | None, nodes: Sequence[ast.AST]) -> _Scope:
    if not isinstance(root, _FUNCTIONS):
        return _Scope("", (), "", (), (), nodes)
    given = [*root.args.posonlyargs, *root.args.args, *root.args.kwonlyargs]
    rest = root.args.kwarg.arg if root.args.kwarg is not None else ""
    name = cls.name if cls is not None and root.name == "__init__" else root.name
    bases = tuple(ast.unparse(base) for base in cls.bases) if cls is not None else ()
    names = [each.arg for each in given]
    own = tuple(each for each in names if each in _OWN)
    return _Scope(name, tuple(each for each in names if each not in _OWN), rest, bases, own, nodes)


def _parameter(scope: _Scope, place: int | str) -> Iterator[str]:
    if place == ALL:
        yield from (scope.rest,) if scope.rest else ()
    elif isinstance(place, str):
        yield from (name for name in scope.parameters if name == place)
    else:
        yield from scope.parameters[place : place + 1]


def _bound_in(scope: _Scope) -> set[str]:
    names = (node for node in scope.nodes if isinstance(node, ast.Name))
    return {*scope.parameters, scope.rest, *(node.id for node in names if isinstance(node.ctx, ast.Store))}


def _may_be_namespace(node: ast.expr) -> bool:
    """Whether an object may be what a parser returned: a name for it, an attribute, or the call itself."""
    return not (isinstance(node, ast.Name) and node.id in _OWN)


def _is_expanding(node: ast.Call, dicts: _Dicts, names: set[str]) -> bool:
    """Whether a call gets a dict of options as its keywords, other than to copy or to show them."""
    return _called(node) not in _COPYING | _SHOWING and any(
        each.arg is None and dicts.holds(each.value, names) for each in node.keywords
    )


def _is_lookup(node: ast.AST, dicts: _Dicts, names: set[str]) -> bool:
    """Whether something is looked up in a dict of options, by a key that is no constant."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return not isinstance(node.slice, ast.Constant) and dicts.holds(node.value, names)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    is_constant = isinstance(node.args[0], ast.Constant)
    return node.func.attr in ("get", "pop") and not is_constant and dicts.holds(node.func.value, names)


def _keys_of_all(node: ast.AST, dicts: _Dicts, names: set[str]) -> Iterator[str]:
    """What a loop over a dict of options calls the keys: `for key in vars(args)`."""
    if isinstance(node, ast.For | ast.comprehension) and dicts.holds(node.iter, names):
        yield from (each.id for each in walk(node.target) if isinstance(each, ast.Name))


def _is_of_all(lookup: ast.AST, keys: set[str]) -> bool:
    """Whether something is looked up by each key in turn: what all options have in common, none of them is read for."""
    key = lookup.slice if isinstance(lookup, ast.Subscript) else None
    return isinstance(key, ast.Name) and key.id in keys


def _is_shown(node: ast.AST) -> bool:
    """Whether what stands in an expression is printed, logged or made a text."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _called(node) in _SHOWING)


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
