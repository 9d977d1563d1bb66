"""What calls of libraries return, as far as it is sure: what holds it, and which of its methods are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dllint.interp.source.imported import dotted_name, guarded_nodes, imported_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site

_OF_THE_SAME_KIND = frozenset(
    ("append", "assign", "astype", "copy", "drop", "drop_duplicates", "dropna", "fillna", "head", "interpolate",
     "merge", "query", "rename", "replace", "reset_index", "sample", "set_index", "sort_index", "sort_values", "tail",
     "value_counts")
)  # fmt: skip
_NO_COLUMNS = frozenset(
    ("at", "attrs", "axes", "cat", "columns", "dt", "dtype", "dtypes", "empty", "flags", "iat", "iloc", "index", "loc",
     "name", "ndim", "plot", "shape", "size", "str", "style", "values")
)  # fmt: skip
_IN_PLACE = "inplace"
_MAX_DEPTH = 6


def methods_of_returned(module: SourceModule, makers: Mapping[str, str]) -> Iterator[tuple[ast.Call, str]]:
    """The calls of methods of what library calls returned, with dotted names: `pandas.DataFrame().append`.

    Args:
        module: a file.
        makers: of what kind each of some calls makes an object: ``{"pandas.read_csv": "pandas.DataFrame"}``.
    """
    imported = imported_names(module.tree)
    packages = {name.partition(".")[0] for name in makers}
    if not any(dotted.partition(".")[0] in packages for dotted in imported.values()):
        return
    guarded = guarded_nodes(module.tree)
    for call in nodes_of(module.tree).of(ast.Call):
        if isinstance(call.func, ast.Attribute) and id(call) not in guarded:
            kind = _Kinds(module, imported, makers).of(call.func.value)
            if kind:
                yield call, f"{kind}().{call.func.attr}"


class _Kinds:
    """Of what kind the objects are that expressions of a file stand for."""

    def __init__(self, module: SourceModule, imported: Mapping[str, str], makers: Mapping[str, str]) -> None:
        self._module, self._imported, self._makers = module, imported, makers
        self._asked: set[str] = set()

    def of(self, node: ast.expr, depth: int = 0) -> str:
        """The kind of an object, or nothing where that is not sure."""
        if depth > _MAX_DEPTH:
            return ""
        if isinstance(node, ast.Call):
            return self._returned(node, depth)
        if isinstance(node, ast.Subscript) and _is_part_of_table(node.slice):
            is_located = isinstance(node.value, ast.Attribute) and node.value.attr in ("loc", "iloc")
            table = node.value.value if is_located and isinstance(node.value, ast.Attribute) else node.value
            return self._of_table(table, depth)
        if isinstance(node, ast.Attribute) and node.attr not in _NO_COLUMNS:
            return self._of_table(node.value, depth)
        return self._held(node, depth) if isinstance(node, ast.Name) else ""

    def _of_table(self, table: ast.expr, depth: int) -> str:
        """The kind of a part of something: of a table a table, or a column, which has the same methods."""
        kind = self.of(table, depth + 1)
        return kind if kind in ("pandas.DataFrame", "itself") else ""

    def _returned(self, call: ast.Call, depth: int) -> str:
        made = self._makers.get(dotted_name(call, self._imported), "")
        if made or not isinstance(call.func, ast.Attribute) or call.func.attr not in _OF_THE_SAME_KIND:
            return made
        is_changed = any(each.arg in (None, _IN_PLACE) for each in call.keywords)
        return "" if is_changed else self.of(call.func.value, depth + 1)

    def _held(self, node: ast.Name, depth: int) -> str:
        """The kind of what a variable holds: of all that its function assigns to it, where that is by plain
        assignments alone; what is computed from the variable itself is of the same kind as it was."""
        if node.id in self._asked:
            return "itself"
        scope = enclosing_definition(Site(self._module, node)) or self._module.tree
        nodes = nodes_of(scope)
        stored = [each for each in nodes.names.get(node.id, ()) if isinstance(each.ctx, ast.Store)]
        plain = {
            id(each.targets[0]): each.value for each in nodes.of(ast.Assign) if isinstance(each.targets[0], ast.Name)
        }
        taken = {each.arg for each in nodes.of(ast.arg)} | {
            name for each in nodes.of(ast.Global) for name in each.names
        }
        if not stored or node.id in taken or any(id(each) not in plain for each in stored):
            return ""
        self._asked.add(node.id)
        kinds = {self.of(plain[id(each)], depth + 1) for each in stored} - {"itself"}
        self._asked.discard(node.id)
        return next(iter(kinds)) if len(kinds) == 1 else ""


def _is_part_of_table(place: ast.expr) -> bool:
    """Whether an index is that of a column by its name, of several columns, or of rows that a test or a slice takes."""
    if isinstance(place, ast.Constant):
        return isinstance(place.value, str)
    if isinstance(place, ast.List):
        return True
    is_test = isinstance(place, ast.BinOp) and isinstance(place.op, ast.BitAnd | ast.BitOr)
    return is_test or isinstance(place, ast.Compare | ast.Slice) or _is_turned_round(place)


def _is_turned_round(place: ast.expr) -> bool:
    return isinstance(place, ast.UnaryOp) and isinstance(place.op, ast.Invert)
