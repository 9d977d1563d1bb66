"""As what code reads an option of a command line: as a number, as a truth value, or as the text that a user wrote."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.context.option_effects import OptionEffects
from dllint.events import LibraryCall
from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.positions import ancestors
from dllint.sites import Module, Site

_NUMERIC = ast.Sub | ast.Mult | ast.Div | ast.FloorDiv | ast.Pow | ast.Mod | ast.Add
_ORDERED = ast.Lt | ast.LtE | ast.Gt | ast.GtE
_OF_NUMBERS = ("torch.nn.", "torch.optim.", "torch.utils.data.", "numpy.random.")
_SWITCHES = frozenset(
    f"torch.backends.cudnn.{name}" for name in ("enabled", "benchmark", "deterministic", "allow_tf32")
)
_COUNTS = frozenset(("range",))
_CONVERTS = frozenset(("int", "float", "bool", "eval", "literal_eval", "complex", "Decimal", "Fraction", "strtobool"))


class OptionUses(OptionEffects):
    """What those who read an option take it for."""

    def option_uses(self, event: LibraryCall) -> list[tuple[str, Site]] | None:
        """As what code that shares a parser reads an option: ``"number"``, ``"truth"``, ``"text"``, ``"switch"`` or
        ``"any"``.

        A switch is what torch takes as such, and refuses a text for (``cudnn.benchmark = args.benchmark``). A text is
        what is compared with one, converted, or asked by a method (``args.sizes.split(",")``). A number is what is
        reckoned with, counted up to, or handed to a library that takes numbers there.

        Args:
            event: a call of `add_argument`.

        Returns:
            Each use with its place; ``None`` where unknown code may read the option.
        """
        name, where = self.option_name(event), event.site.module
        read = self._read_by_sharing(where) if name else None
        if read is None or any(each.takes(name) for each in read.values()) or self._is_text_in(read, name):
            return None
        reading = self._machine.project.reading_each
        naming = reading(module for module in read if name in module.words)
        places = (Site(module, node) for module in naming for node in self._reads(module, name))
        return [(_use_of(place), place) for place in places]


def _use_of(place: Site) -> str:
    """As what one place reads an option."""
    node = place.node
    around = ancestors(place)
    outer = next(around, None)
    if isinstance(outer, ast.keyword):
        outer = next(around, None)
    match outer:
        case ast.Attribute():
            return "text"
        case ast.Call() if outer.func is not node:
            return _use_in_call(place.module, outer)
        case ast.Assign(targets=targets) if any(_is_switch(place.module, each) for each in targets):
            return "switch"
        case ast.Compare(ops=ops):
            return _use_in_comparison(outer, ops, node)
        case ast.BinOp(op=op):
            return _use_in_operation(outer, op, node)
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
            return "truth"
        case ast.UnaryOp():
            return "number"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if test is node:
            return "truth"
    return "any"


def _is_switch(module: Module, target: ast.expr) -> bool:
    """Whether what is set is a switch of cuDNN, whose setter raises `RuntimeError` for anything but a truth value."""
    written, imported = ast.unparse(target), imported_names(module.tree)
    root, _, rest = written.partition(".")
    return f"{imported.get(root, root)}.{rest}" in _SWITCHES


def _use_in_call(module: Module, call: ast.Call) -> str:
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called in _COUNTS:
        return "number"
    if called in _CONVERTS or "bool" in called.lower() or "parse" in called.lower():
        return "text"
    is_library = isinstance(module, SourceModule) and dotted_name(call, imported_names(module.tree)).startswith(
        _OF_NUMBERS
    )
    return "number" if is_library else "any"


def _use_in_comparison(comparison: ast.Compare, ops: list[ast.cmpop], node: ast.AST) -> str:
    others = [each for each in (comparison.left, *comparison.comparators) if each is not node]
    if any(isinstance(op, ast.In | ast.NotIn) for op in ops) or any(_is_text(each) for each in _flat(others)):
        return "text"
    return "number" if isinstance(ops[0], _ORDERED) else "any"


def _use_in_operation(operation: ast.BinOp, op: ast.operator, node: ast.AST) -> str:
    other = operation.right if operation.left is node else operation.left
    if _is_text(other) or isinstance(other, ast.Tuple | ast.List):
        return "any"
    return "number" if isinstance(op, _NUMERIC) else "any"


def _flat(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    for node in nodes:
        yield from node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else (node,)


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a text, or is joined with one."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, right=right):
            return _is_text(left) or _is_text(right)
        case ast.Call(func=ast.Name(id="str")) | ast.Call(func=ast.Attribute(attr="join" | "format")):
            return True
    return False
