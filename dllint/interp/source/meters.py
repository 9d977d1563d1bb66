"""Objects that add up by themselves what they are told, until they are reset: meters and running metrics."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_APPENDING = ("append", "extend")
_FORGETTING = frozenset(("pop", "popleft", "clear"))
_SHOWING = ("format", "print")


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of meters: which methods add to them, and what is worked out from all that was added."""

    adding: frozenset[str]
    results: frozenset[str]


TORCHMETRICS = Kind(frozenset(("update", "forward", "__call__")), frozenset(("compute",)))


@dataclass(frozen=True, slots=True)
class Meter:
    """A variable with a meter that is made before a loop and never reset in it.

    Attributes:
        name: the variable.
        made: the assignment that makes it, or the call that is the default of a parameter.
        cls: the class of which it is made, as it is written.
        added: the calls that add to it in the loop.
        results: where the loop reads what is worked out from all that was added.
    """

    name: str
    made: ast.Assign | ast.Call
    cls: str
    added: tuple[ast.Call, ...]
    results: tuple[ast.Attribute, ...]


def kind_of_class(definition: ast.ClassDef) -> Kind | None:
    """The meters that a class describes: ``reset`` begins again what other methods do nothing with but add to it.

    ``None`` where it describes no meters, or those that may forget what is older by themselves.
    """
    methods = {each.name: each for each in definition.body if isinstance(each, _FUNCTIONS)}
    reset = methods.get("reset")
    if reset is None or _forgets(definition):
        return None
    begun = _begun(reset)
    summed: set[str] = set()
    adding: set[str] = set()
    for name, method in methods.items():
        grown = _grown(method) & begun
        if name not in ("reset", "__init__") and grown:
            adding.add(name)
            summed |= grown
    for name, method in methods.items():
        calls_reset = any(node.attr == "reset" for node in _own_attributes(method))
        if name not in ("reset", "__init__") and (calls_reset or (_stored(method) - _grown(method)) & summed):
            return None
    results = {name for name, method in methods.items() if _read(method) & summed} - adding - {"reset", "__init__"}
    for method in (methods[name] for name in adding):
        for node in nodes_of(method).of(ast.Assign):
            if _attributes_in(node.value) & summed:
                results |= _attributes_in(*node.targets) - summed
    return Kind(frozenset(adding), frozenset(results)) if adding and results else None


def _forgets(definition: ast.ClassDef) -> bool:
    return any(each.attr in _FORGETTING for each in nodes_of(definition).of(ast.Attribute))


def meters_in(loop: ast.stmt, around: ast.AST, kinds: dict[str, Kind]) -> Iterator[Meter]:
    """The meters that a function makes before a loop and that nothing in the loop resets or gets hold of.

    Args:
        loop: the loop.
        around: the function that it stands in, or the file.
        kinds: the meters by the variables that are bound to one.
    """
    inside = {id(node) for node in walk(loop)}
    parents = {id(child): node for node in walk(around) for child in ast.iter_child_nodes(node)}
    for name, kind in kinds.items():
        uses = nodes_of(around).names.get(name, ())
        made = [parents[id(use)] for use in uses if not isinstance(use.ctx, ast.Load)]
        begins = made[0] if len(made) == 1 else None
        if not isinstance(begins, ast.Assign) or begins.lineno >= loop.lineno:
            continue
        meter = _used_in(inside, name, begins, kind, uses, parents)
        if meter is not None:
            yield meter


def default_meters(function: ast.AST, kinds: dict[str, Kind]) -> Iterator[Meter]:
    """The meters that are the default of a parameter, and that nothing in the function resets or gets hold of."""
    if not isinstance(function, _FUNCTIONS):
        return
    inside = {id(node) for statement in function.body for node in walk(statement)}
    parents = {id(child): node for node in walk(function) for child in ast.iter_child_nodes(node)}
    for name, begins in defaults_of(function).items():
        uses = nodes_of(function).names.get(name, ())
        is_bound = any(not isinstance(use.ctx, ast.Load) for use in uses)
        if isinstance(begins, ast.Call) and name in kinds and not is_bound:
            meter = _used_in(inside, name, begins, kinds[name], uses, parents)
            if meter is not None:
                yield meter


def defaults_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, ast.expr]:
    """The defaults of the parameters of a function that have one."""
    taken = function.args
    named = [*taken.posonlyargs, *taken.args]
    pairs = [
        *zip(named[len(named) - len(taken.defaults) :], taken.defaults, strict=True),
        *zip(taken.kwonlyargs, taken.kw_defaults, strict=True),
    ]
    return {parameter.arg: default for parameter, default in pairs if default is not None}


def may_be_given(function: ast.FunctionDef, name: str, tree: ast.Module) -> bool:
    """Whether a call in a file may hand something over for a parameter, or the function itself is handed on."""
    taken = function.args
    named = [each.arg for each in (*taken.posonlyargs, *taken.args)]
    place = named.index(name) if name in named else len(named)
    place -= named[:1] == ["self"]
    nodes = nodes_of(tree)
    functions = {id(call.func) for call in nodes.of(ast.Call)}
    names, attributes = nodes.names.get(function.name, ()), nodes.attributes.get(function.name, ())
    uses: list[ast.Name | ast.Attribute] = [*names, *attributes]
    if any(isinstance(use.ctx, ast.Load) and id(use) not in functions for use in uses):
        return True
    written = {id(use) for use in uses}
    return any(
        len(call.args) > place
        or any(isinstance(each, ast.Starred) for each in call.args)
        or any(each.arg in (None, name) for each in call.keywords)
        for call in nodes.of(ast.Call)
        if id(call.func) in written
    )


def _used_in(
    inside: set[int],
    name: str,
    begins: ast.Assign | ast.Call,
    kind: Kind,
    uses: Sequence[ast.Name],
    parents: dict[int, ast.AST],
) -> Meter | None:
    """A meter with what adds to it and reads it at some places; none if something resets it there, or may anywhere."""
    reads = [use for use in uses if isinstance(use.ctx, ast.Load)]
    if not all(_is_harmless(use, parents) for use in reads):
        return None
    within = [use for use in reads if id(use) in inside]
    attributes = [each for use in within if isinstance(each := parents[id(use)], ast.Attribute)]
    if any(each.attr in ("reset", "__init__") or not isinstance(each.ctx, ast.Load) for each in attributes):
        return None
    direct = within if "__call__" in kind.adding else []
    called = [parents[id(each)] for each in (*(e for e in attributes if e.attr in kind.adding), *direct)]
    added = tuple(each for each in called if isinstance(each, ast.Call))
    results = tuple(each for each in attributes if each.attr in kind.results)
    call = begins.value if isinstance(begins, ast.Assign) else begins
    cls = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
    return Meter(name, begins, cls, added, results) if added and results else None


def _is_harmless(use: ast.Name, parents: dict[int, ast.AST]) -> bool:
    """Whether a variable is read for an attribute, called, or shown: nobody else gets hold of what it is."""
    parent = parents[id(use)]
    if isinstance(parent, ast.Attribute | ast.FormattedValue):
        return True
    shown = parents[id(parent)] if isinstance(parent, ast.keyword) else parent
    if not isinstance(shown, ast.Call):
        return False
    return shown.func is use or getattr(shown.func, "attr", getattr(shown.func, "id", "")) in _SHOWING


def _grown(method: ast.AST) -> frozenset[str]:
    """The attributes of an object that a method adds to: ``self.sum += x``, ``self.all.append(x)``."""
    nodes = nodes_of(method)
    grown: list[ast.expr] = [each.target for each in nodes.of(ast.AugAssign) if isinstance(each.op, ast.Add)]
    for each in nodes.of(ast.Assign):
        value = each.value
        sides = (value.left, value.right) if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) else ()
        written = [ast.unparse(target) for target in each.targets]
        grown += [target for target in each.targets if any(ast.unparse(side) in written for side in sides)]
    functions = (each.func for each in nodes.of(ast.Call))
    grown += [each.value for each in functions if isinstance(each, ast.Attribute) and each.attr in _APPENDING]
    return frozenset(each.attr for each in grown if isinstance(each, ast.Attribute) and _is_own(each))


def _begun(reset: ast.AST) -> frozenset[str]:
    """The attributes that a method begins again: with nothing, as far as it is written out, or with a tensor."""
    pairs = [
        (target, value)
        for node in nodes_of(reset).of(ast.Assign)
        for whole in node.targets
        for target, value in _pairs(whole, node.value)
    ]
    return frozenset(
        target.attr
        for target, value in pairs
        if isinstance(target, ast.Attribute) and _is_own(target) and not _may_be_bounded(value)
    )


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def _may_be_bounded(value: ast.expr) -> bool:
    """Whether a container is made that may keep only so many things, as ``deque(maxlen=100)`` does."""
    return isinstance(value, ast.Call) and any(keyword.arg == "maxlen" for keyword in value.keywords)


def _stored(method: ast.AST) -> frozenset[str]:
    return frozenset(each.attr for each in _own_attributes(method) if not isinstance(each.ctx, ast.Load))


def _read(method: ast.AST) -> frozenset[str]:
    return frozenset(each.attr for each in _own_attributes(method) if isinstance(each.ctx, ast.Load))


def _attributes_in(*roots: ast.AST) -> set[str]:
    return {each.attr for root in roots for each in _own_attributes(root)}


def _own_attributes(root: ast.AST) -> Iterable[ast.Attribute]:
    return (each for each in nodes_of(root).of(ast.Attribute) if _is_own(each))


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
