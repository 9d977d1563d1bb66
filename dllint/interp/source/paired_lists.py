"""Places that pair two lists by position of which each is in the order of a listing of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations

from dllint.dataclass import dataclass
from dllint.interp.source.joined_reads import come_together
from dllint.interp.source.listing_order import Definition, Leaf, ListingOrder, last_name, own_nodes, parameters_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk


@dataclass(frozen=True, slots=True)
class Column:
    """One of several lists that are read at one index."""

    text: str
    behind: frozenset[Leaf]
    node: ast.expr


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two lists, each in the order of a listing of its own, that ``place`` takes to belong together by position."""

    first: Column
    second: Column
    place: ast.AST


class Listings(ListingOrder):
    """The lists of a file that are in the order of listings, and what pairs them."""

    def pairings(self) -> Iterator[Pairing]:
        """The places of the file that pair two lists of different listings."""
        for place, columns in self.columns:
            for first, second in combinations(columns, 2):
                if not first.behind & second.behind and not _are_of_one(first, second):
                    yield Pairing(first, second, place)

    @cached_property
    def columns(self) -> Sequence[tuple[ast.AST, Sequence[Column]]]:
        """The lists, in the order of listings or of parameters, that some place takes to belong together."""
        found: list[tuple[ast.AST, Sequence[Column]]] = []
        for call in nodes_of(self.tree).of(ast.Call):
            columns = [self._column(each) for each in self._read_of(call, _taken_together(call))]
            found.append((call, [each for each in columns if each is not None]))
        for function in (self.tree, *nodes_of(self.tree).of(ast.FunctionDef)):
            found.extend(self._read_at_one_index(function))
        return [(place, columns) for place, columns in found if len(columns) > 1]

    def _read_of(self, call: ast.Call, lists: list[ast.expr]) -> list[ast.expr]:
        """The lists of a `zip` whose entries the loop around it reads: all, where it stands in none."""
        node: ast.AST = call
        is_counted = False
        while isinstance(self.parents.get(node), ast.Call):
            node = self.parents[node]
            is_counted |= isinstance(node, ast.Call) and last_name(node.func) == "enumerate"
        loop = self.parents.get(node)
        if not lists or not isinstance(loop, ast.For | ast.comprehension) or loop.iter is not node:
            return lists
        target = loop.target
        if is_counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        around = loop if isinstance(loop, ast.For) else self.parents[loop]
        read = {each.id for each in walk(around) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        targets = target.elts if isinstance(target, ast.Tuple) and len(target.elts) == len(lists) else []
        unread = [isinstance(each, ast.Name) and each.id not in read for each in targets] or [False] * len(lists)
        return [each for each, is_unread in zip(lists, unread, strict=True) if not is_unread]

    def handed_on(self) -> Iterator[Pairing]:
        """The calls of the file whose function, or constructor, pairs two lists that it is given."""
        for call in nodes_of(self.tree).of(ast.Call):
            given = [*call.args, *(each.value for each in call.keywords if each.arg)]
            if len(given) < 2 or any(isinstance(each, ast.Starred) for each in call.args):
                continue
            columns = {id(each): column for each in given if (column := self._column(each)) is not None}
            known = self.find(last_name(call.func)) if len(columns) > 1 else None
            if known is not None and isinstance(known[0], Listings):
                bound = _bound(call, known[1])
                for left, right in known[0].paired_parameters(known[1]):
                    pair = [columns.get(id(bound.get(name))) for name in (left, right)]
                    first, second = pair
                    if first and second and not first.behind & second.behind and not _are_of_one(first, second):
                        yield Pairing(first, second, call)

    def paired_parameters(self, definition: Definition) -> set[tuple[str, str]]:
        """The parameters of a function, or of a constructor, that are lists which it takes to belong together."""
        if not self.columns:
            return set()
        within = {*walk(definition)}
        found = set()
        for place, columns in self.columns:
            for first, second in combinations(columns if place in within else (), 2):
                pair = [next(iter(each.behind)) for each in (first, second) if len(each.behind) == 1]
                names = [each.arg for each in pair if isinstance(each, ast.arg) and each in within]
                if len(names) == 2 and names[0] != names[1]:
                    found.add((names[0], names[1]))
        return found

    def _column(self, node: ast.expr) -> Column | None:
        behind = self.behind(node)
        return Column(ast.unparse(node), behind, node) if behind else None

    def _read_at_one_index(self, function: ast.AST) -> Iterator[tuple[ast.AST, list[Column]]]:
        """The lists that a function reads at one index, or goes over with it."""
        reads: dict[str, list[tuple[ast.AST, Column]]] = {}
        for node in own_nodes(function):
            index, held = _indexed(node)
            column = self._column(held) if held is not None else None
            if column is not None:
                reads.setdefault(index, []).append((node, column))
        for index, found in reads.items():
            if self.times_bound(index, function) <= 1:
                each_once = {column.text: (node, column) for node, column in found}.values()
                for (node, first), (other, second) in combinations(each_once, 2):
                    if not self._are_exclusive(node, other) and come_together(node, other, function, self.parents):
                        yield other, [first, second]

    def _are_exclusive(self, left: ast.AST, right: ast.AST) -> bool:
        """Whether two nodes stand in different arms of one condition."""
        arms = dict(self._arms(left))
        return any(arms.get(branch, arm) != arm for branch, arm in self._arms(right))

    def _arms(self, node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
        while node in self.parents:
            parent = self.parents[node]
            if isinstance(parent, ast.If | ast.IfExp) and node is not parent.test:
                rest = parent.orelse if isinstance(parent.orelse, list) else [parent.orelse]
                yield parent, node in rest
            node = parent

    def are_compared(self, pairing: Pairing) -> bool:
        """Whether code of the file compares entries of the one list, or what they give, with those of the other."""
        texts = (pairing.first.text, pairing.second.text)
        return any(
            self._compares(function, texts) for function in (self.tree, *nodes_of(self.tree).of(ast.FunctionDef))
        )

    def _compares(self, function: ast.AST, texts: tuple[str, str]) -> bool:
        made: dict[str, set[str]] = {}

        def told(part: ast.AST) -> set[str]:
            """The lists of which entries are in an expression."""
            held = (ast.unparse(held) for each in walk(part) if (held := _indexed(each)[1]) is not None)
            names = (each.id for each in walk(part) if isinstance(each, ast.Name))
            return {text for text in held if text in texts}.union(*(made.get(name, ()) for name in names))

        def bind(target: ast.AST, lists: set[str]) -> None:
            for name in walk(target):
                if isinstance(name, ast.Name):
                    made.setdefault(name.id, set()).update(lists)

        for node in own_nodes(function):
            match node:
                case ast.For(target=ast.Tuple(elts=targets), iter=ast.Call(args=lists) as call) if (
                    last_name(call.func) == "zip"
                ):
                    for target, each in zip(targets, lists, strict=False):
                        bind(target, {ast.unparse(each)} & {*texts})
                case ast.Assign(targets=[target], value=value):
                    bind(target, told(value))
        compared = [
            node for node in own_nodes(function) if isinstance(node, ast.Compare) and "shape" not in ast.unparse(node)
        ]
        sides = [(told(node.left), told(node.comparators[0])) for node in compared]
        return any(len(left) == 1 and len(right) == 1 and left != right for left, right in sides)


def _taken_together(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that belong together by position."""
    name = last_name(call.func)
    if name in ("zip", "train_test_split", "zip_longest"):
        return call.args
    if name == "DataFrame" and call.args and isinstance(call.args[0], ast.Dict):
        return call.args[0].values
    return []


def _indexed(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The index at which a list is read, and the list: `images[i]`, `lists[k][i]`, `enumerate(images)`."""
    match node:
        case ast.Subscript(slice=ast.Name(id=index), value=held, ctx=ast.Load()):
            while isinstance(held, ast.Subscript) and not isinstance(held.slice, ast.Slice):
                held = held.value
            return index, held
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=index), _]), iter=ast.Call(args=[held, *_]) as call):
            return (index, held) if last_name(call.func) == "enumerate" else ("", None)
    return "", None


def _bound(call: ast.Call, definition: Definition) -> dict[str, ast.expr]:
    """The arguments of a call by the names of the parameters that get them."""
    function: ast.stmt | None = definition
    if isinstance(definition, ast.ClassDef):
        function = next((each for each in definition.body if getattr(each, "name", "") == "__init__"), None)
    names = list(parameters_of(function)) if isinstance(function, ast.FunctionDef) else []
    return dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}


def _are_of_one(first: Column, second: Column) -> bool:
    """Whether two lists come from the same folder by the same call."""
    return bool({ast.unparse(each) for each in first.behind} & {ast.unparse(each) for each in second.behind})
