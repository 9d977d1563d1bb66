"""Lists of a dataset that are made together, entry by entry, and of which one is filtered afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import permutations

from dllint.dataclass import dataclass
from dllint.interp.source.bindings import blocks_of
from dllint.interp.source.trees import walk

_TAKES_OUT = frozenset(("pop", "remove", "clear", "insert", "sort", "reverse"))
_SAME_ROWS = frozenset(("astype", "tolist", "to_numpy", "copy"))
_PUTS_IN = frozenset(("append", "extend"))


@dataclass(frozen=True, slots=True)
class Filtered:
    """An attribute that holds the entries of a list which fulfil a condition, while ``other`` holds all of the list
    that was made beside it. ``node`` is the expression that leaves entries out."""

    name: str
    other: str
    node: ast.expr


@dataclass(frozen=True, slots=True)
class _Made:
    """A list as it leaves the function that makes it."""

    function: ast.FunctionDef
    value: ast.expr


def filtered_beside(owner: ast.ClassDef, names: Sequence[str]) -> Iterator[Filtered]:
    """The attributes of a class, among some, that are filtered after others were made beside them."""
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    if "__init__" not in methods:
        return
    for name, other in permutations(names, 2):
        node = _filtered_column(name, other, owner, methods["__init__"])
        if node is not None:
            yield Filtered(name, other, node)
    made = {name: found for name in names if (found := _made(name, owner, methods)) is not None}
    for name, other in permutations(made, 2):
        if made[name].function is made[other].function:
            node = _left_out(made[name], made[other].value)
            if node is not None:
                yield Filtered(name, other, node)


def _filtered_column(name: str, other: str, owner: ast.ClassDef, init: ast.FunctionDef) -> ast.expr | None:
    """What leaves entries out of a column of a table that an attribute holds, while another holds one with all rows."""
    held, beside = f"self.{name}", f"self.{other}"
    assigned = [node for node in walk(owner) if isinstance(node, ast.Assign)]
    own = [node for node in assigned if held in _targets(node)]
    others = [node for node in assigned if beside in _targets(node)]
    if [len(own), len(others)] != [2, 1] or _is_changed(held, init) or _is_changed(beside, init):
        return None
    first, second = sorted(own, key=lambda node: node.lineno)
    table = _table_of(first.value)
    is_same = bool(table) and table == _table_of(others[0].value) and _filtered(second.value) == held
    made = [node.lineno for node in assigned if table in _targets(node)]
    between = range(min(first.lineno, others[0].lineno), max(second.lineno, others[0].lineno))
    if not is_same or any(line in between for line in made):
        return None
    inside = (block for node in walk(init) if isinstance(node, ast.stmt) for block in blocks_of(node))
    together = any(first in block and second in block and others[0] in block for block in inside)
    return second.value if together else None


def _table_of(value: ast.expr) -> str:
    """The table of which a value is a column or several, with all rows: `df["a"].values`, `df.iloc[:, 1:]`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SAME_ROWS:
        value = value.func.value
    if isinstance(value, ast.Attribute) and value.attr == "values":
        value = value.value
    if not isinstance(value, ast.Subscript):
        return ""
    index, held = value.slice, value.value
    if isinstance(index, ast.Tuple):
        rows = index.elts[0]
        is_whole = isinstance(rows, ast.Slice) and rows.lower is rows.upper is rows.step is None
        is_of_all = is_whole and isinstance(held, ast.Attribute) and held.attr in ("iloc", "loc")
        return ast.unparse(held.value) if is_of_all and isinstance(held, ast.Attribute) else ""
    columns = index.elts if isinstance(index, ast.List) else [index]
    is_named = all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in columns)
    return ast.unparse(held) if is_named else ""


def _made(name: str, owner: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> _Made | None:
    """Where the list comes from that an attribute holds: the constructor, or a method that it calls for several."""
    init, held = methods["__init__"], f"self.{name}"
    assigned = [node for node in walk(owner) if isinstance(node, ast.Assign) and held in _targets(node)]
    value: ast.expr = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
    if len(assigned) == 1 and isinstance(assigned[0].value, ast.Name):
        value = assigned[0].value
        held = value.id
    if not all(_is_within(node, init) for node in assigned):
        return None
    for node in walk(init):
        if isinstance(node, ast.Assign) and held in _targets(node) and isinstance(node.value, ast.Call):
            called = methods.get(getattr(node.value.func, "attr", ""))
            return _returned(called, _targets(node).index(held)) if called is not None else None
    return _Made(init, value)


def _returned(function: ast.FunctionDef, position: int) -> _Made | None:
    """What the only `return` of a method returns at a position of a tuple."""
    returns = [node for node in walk(function) if isinstance(node, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    if not isinstance(value, ast.Tuple) or position >= len(value.elts):
        return None
    return _Made(function, value.elts[position])


def _left_out(made: _Made, other: ast.expr) -> ast.expr | None:
    """What leaves entries out of a list, after it was made beside another one that keeps all of its own."""
    function, beside = made.function, ast.unparse(other)
    source = _filtered(made.value) or ast.unparse(made.value)
    filters = [made.value] if _filtered(made.value) else []
    assigned = [node for node in walk(function) if isinstance(node, ast.Assign) and source in _targets(node)]
    filters += [node.value for node in assigned if _targets(node) == [source] and _filtered(node.value) == source]
    if len(filters) != 1 or _is_changed(source, function):
        return None
    first = filters[0].lineno
    if any(node.lineno >= first and node.value is not filters[0] for node in assigned):
        return None
    return filters[0] if _are_made_together(source, beside, function, first) else None


def _are_made_together(source: str, beside: str, function: ast.FunctionDef, before: int) -> bool:
    """Whether one loop appends to two lists in the same turns, before a line, and nothing changes the second else."""
    puts = [_put_into(name, function) for name in (source, beside)]
    if [len(each) for each in puts] != [1, 1] or _is_changed(beside, function):
        return False
    together = next((block for block in _blocks(function) if puts[0][0] in block), [])
    assigned = [node for node in walk(function) if isinstance(node, ast.Assign) and beside in _targets(node)]
    is_early = puts[0][0].lineno < before and all(node.lineno < puts[1][0].lineno for node in assigned)
    return is_early and puts[1][0] in together


def _put_into(name: str, function: ast.FunctionDef) -> list[ast.Expr]:
    """The statements that append to a list."""
    return [
        node
        for node in walk(function)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _tells(node.value, name, _PUTS_IN)
    ]


def _is_changed(name: str, function: ast.FunctionDef) -> bool:
    """Whether something takes entries out of a list, or moves them."""
    deleted = (target for node in walk(function) if isinstance(node, ast.Delete) for target in node.targets)
    if any(name in ast.unparse(target) for target in deleted):
        return True
    return any(isinstance(node, ast.Call) and _tells(node, name, _TAKES_OUT) for node in walk(function))


def _tells(call: ast.Call, name: str, methods: frozenset[str]) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in methods and ast.unparse(call.func.value) == name


def _filtered(value: ast.expr) -> str:
    """The list of which a value is the entries that fulfil a condition, as they are."""
    if not isinstance(value, ast.ListComp) or len(value.generators) != 1 or not value.generators[0].ifs:
        return ""
    one = value.generators[0]
    return ast.unparse(one.iter) if ast.unparse(value.elt) == ast.unparse(one.target) else ""


def _targets(node: ast.Assign) -> list[str]:
    """What an assignment binds, as it is written: the parts of a tuple one by one."""
    return [ast.unparse(each) for target in node.targets for each in getattr(target, "elts", [target])]


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The blocks of statements inside the loops of a function."""
    for loop in walk(function):
        if isinstance(loop, ast.For | ast.While):
            for node in walk(loop):
                if isinstance(node, ast.stmt):
                    yield from blocks_of(node)


def _is_within(node: ast.AST, around: ast.AST) -> bool:
    return any(each is node for each in walk(around))
