"""Masks of ones that are made of a list when it is padded already, as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

MASKS = ("attention_mask", "attention_masks", "attn_mask", "input_mask")
"""What people call masks of what is no padding."""

_CHANGING = frozenset(("append", "extend", "insert", "pop", "remove", "clear", "reverse", "sort"))
_KEEPING = "convert_tokens_to_ids"  # which gives an id for each token
_MAX_HOPS = 4


@dataclass(frozen=True, slots=True)
class LateMask:
    """A mask of ones for all of a list, and the statement above it that pads the list to a length of its own."""

    mask: ast.Assign
    padding: ast.stmt


def late_masks(tree: ast.Module) -> Iterator[LateMask]:
    """The masks of ones for lists that are padded above, in the same block, and which nothing changes afterwards."""
    counted = {each: _counted(each) for each in nodes_of(tree).of(ast.Assign)}
    if not any(counted.values()):
        return
    for owner in (tree, *nodes_of(tree).of(ast.FunctionDef)):
        for block in _blocks(owner):
            for number, statement in enumerate(block):
                names = counted.get(statement) if isinstance(statement, ast.Assign) else None
                padding = _padding_of(names[1], block[:number]) if names is not None else None
                if names is None or padding is None or not isinstance(statement, ast.Assign):
                    continue
                if _is_for_attention(names[0], owner) and _is_only_read_below(names[0], statement, owner):
                    yield LateMask(statement, padding)


def _blocks(owner: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a function or file, without those of the functions and classes in it."""
    pending = [owner]
    for node in pending:  # which grows meanwhile
        for field in ("body", "orelse", "finalbody", "handlers"):
            held = getattr(node, field, None)
            if isinstance(held, list):
                if field != "handlers":
                    yield held
                inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
                pending.extend(each for each in held if not isinstance(each, inner))


def _counted(statement: ast.Assign) -> tuple[str, str] | None:
    """The names of a mask and of a list, of ``mask = [1] * len(ids)``."""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return None
    filler, count = (value.left, value.right) if isinstance(value.left, ast.List) else (value.right, value.left)
    of = _length_of(count)
    if not isinstance(filler, ast.List) or len(filler.elts) != 1 or not of:
        return None
    one = filler.elts[0]
    is_one = isinstance(one, ast.IfExp) or (isinstance(one, ast.Constant) and bool(one.value))
    return (target.id, of) if is_one else None


def _length_of(node: ast.expr) -> str:
    """The variable whose length an expression is."""
    is_length = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    given = node.args[0] if isinstance(node, ast.Call) and is_length and len(node.args) == 1 else None
    return given.id if isinstance(given, ast.Name) else ""


def _padding_of(name: str, above: Sequence[ast.stmt], hops: int = _MAX_HOPS) -> ast.stmt | None:
    """The last statement that writes a list, or the tokens whose ids it has, if it pads it."""
    written = _last_written(name, above)
    if not written or hops == 0:
        return None
    last = written[-1]
    if _pads(last, name, written[:-1]):
        return last
    value = last.value if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name) else None
    is_of_tokens = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == _KEEPING
    tokens = value.args[0] if isinstance(value, ast.Call) and is_of_tokens and len(value.args) == 1 else None
    return _padding_of(tokens.id, written[:-1], hops - 1) if isinstance(tokens, ast.Name) else None


def _pads(statement: ast.stmt, name: str, above: Sequence[ast.stmt]) -> bool:
    """Whether a statement certainly brings a list to a length of its own; ``above`` is what stands above it."""
    if isinstance(statement, ast.If):
        arms = [_last_written(name, arm) for arm in (statement.body, statement.orelse)]
        padded = [_pads(arm[-1], name, [*above, *arm[:-1]]) for arm in arms if arm and not _is_cut(arm[-1], name)]
        is_sure = _compares_length(statement.test, name) or (len(padded) == len(arms))
        return is_sure and bool(padded) and all(padded)
    if isinstance(statement, ast.While):
        calls = (each for each in walk(statement) if isinstance(each, ast.Call))
        return _compares_length(statement.test, name) and any(_is_call_of(each, name, "append") for each in calls)
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.op, ast.Add) and _is_filler(statement.value, above)
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp):
        sides = (statement.value.left, statement.value.right)
        is_sum = isinstance(statement.value.op, ast.Add) and isinstance(statement.targets[0], ast.Name)
        kept = any(isinstance(each, ast.Name) and each.id == name for each in sides)
        return is_sum and kept and any(_is_filler(each, above) for each in sides)
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and _is_call_of(call, name, "extend") and _is_filler(call.args[0], above)


def _last_written(name: str, block: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The part of a block up to the last statement that writes a list; nothing if none does."""
    place = next((i for i in reversed(range(len(block))) if _writes(block[i], name)), -1)
    return block[: place + 1]


def _is_cut(statement: ast.stmt, name: str) -> bool:
    """Whether a statement cuts a list: ``ids = ids[:longest]``."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice) and _reads(value.value, name)


def _compares_length(test: ast.expr, name: str) -> bool:
    """Whether a test compares the length of a list."""
    sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
    return any(_length_of(side) == name for side in sides)


def _is_filler(node: ast.expr, above: Sequence[ast.stmt]) -> bool:
    """Whether an expression is ``[pad] * n``, with what is missing to some length for a number."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    filler, count = (node.left, node.right) if isinstance(node.left, ast.List) else (node.right, node.left)
    return isinstance(filler, ast.List) and len(filler.elts) == 1 and _is_missing(count, above)


def _is_missing(count: ast.expr, above: Sequence[ast.stmt]) -> bool:
    """Whether a number is what is missing to some length: ``longest - len(ids)``."""
    if isinstance(count, ast.Name):
        bound = next((each for each in reversed(above) if _binds(each, count.id)), None)
        value = bound.value if isinstance(bound, ast.Assign) else None
        return value is not None and not isinstance(value, ast.Name) and _is_missing(value, above)
    if isinstance(count, ast.Call) and isinstance(count.func, ast.Name) and count.func.id == "max":
        return any(_is_missing(each, above) for each in count.args)
    return isinstance(count, ast.BinOp) and isinstance(count.op, ast.Sub) and bool(_length_of(count.right))


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement binds a variable, perhaps in its block."""
    names = (each for each in walk(statement) if isinstance(each, ast.Name))
    return any(each.id == name and isinstance(each.ctx, ast.Store | ast.Del) for each in names)


def _writes(node: ast.stmt, name: str) -> bool:
    """Whether a statement binds a list or changes it, perhaps in its block."""
    return _binds(node, name) or any(_is_change(each, name) for each in walk(node))


def _is_change(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return any(_is_call_of(node, name, method) for method in _CHANGING)
    is_item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    return isinstance(node, ast.Subscript) and is_item and getattr(node.value, "id", "") == name


def _is_call_of(call: ast.Call, name: str, method: str) -> bool:
    """Whether a method of a variable is called, with something."""
    function = call.func
    is_method = isinstance(function, ast.Attribute) and function.attr == method
    return isinstance(function, ast.Attribute) and is_method and getattr(function.value, "id", "") == name


def _is_for_attention(name: str, owner: ast.AST) -> bool:
    """Whether a variable is a mask for attention: by its own name, or by that under which it is handed on."""
    if name in MASKS:
        return True
    for node in walk(owner):
        if isinstance(node, ast.keyword) and node.arg in MASKS and _reads(node.value, name):
            return True
        if isinstance(node, ast.Dict):
            entries = zip(node.keys, node.values, strict=True)
            if any(getattr(key, "value", "") in MASKS and _reads(value, name) for key, value in entries):
                return True
    return False


def _reads(node: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in walk(node))


def _is_only_read_below(name: str, statement: ast.stmt, owner: ast.AST) -> bool:
    """Whether a function reads a variable below a statement, and does not write it again."""
    below = [each for each in walk(owner) if getattr(each, "lineno", 0) > statement.lineno]
    named = [each for each in below if isinstance(each, ast.Name) and each.id == name]
    is_kept = all(isinstance(each.ctx, ast.Load) for each in named) and not any(
        _is_change(each, name) for each in below
    )
    return bool(named) and is_kept
