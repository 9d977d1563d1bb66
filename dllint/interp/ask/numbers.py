"""What kind of numbers a tensor holds, as far as casts, creations and operations tell it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

from dllint.choices import Choice
from dllint.interp.ask.samples import batch_behind, in_samples
from dllint.interp.run.modules import force
from dllint.interp.run.roles import name_of
from dllint.values import Const, External, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

NumberKind = Literal["integer", "floating", "boolean", ""]

_TYPES: dict[str, NumberKind] = {
    **dict.fromkeys(("long", "int", "short", "int64", "int32", "int16", "int8", "uint8", "LongTensor", "IntTensor",
                     "ByteTensor", "ShortTensor"), "integer"),
    **dict.fromkeys(("float", "double", "half", "bfloat16", "float16", "float32", "float64", "FloatTensor",
                     "DoubleTensor", "HalfTensor"), "floating"),
    **dict.fromkeys(("bool", "BoolTensor"), "boolean"),
}  # fmt: skip
_METHODS: dict[str, NumberKind] = {
    ".long": "integer", ".int": "integer", ".short": "integer", ".argmax": "integer", ".argsort": "integer",
    ".float": "floating", ".double": "floating", ".half": "floating", ".bfloat16": "floating", ".bool": "boolean",
}  # fmt: skip
_FUNCTIONS: dict[str, NumberKind] = {
    "torch.nn.functional.one_hot": "integer", "torch.argmax": "integer", "torch.randint": "integer",
    "torch.LongTensor": "integer", "torch.FloatTensor": "floating",
    "torch.sigmoid": "floating", "torch.softmax": "floating", "torch.nn.functional.softmax": "floating",
    "torch.rand": "floating", "torch.randn": "floating", "torch.zeros": "floating", "torch.ones": "floating",
    "torch.full": "", "torch.empty": "floating", ".sigmoid": "floating", ".softmax": "floating",
    "compare": "boolean",
}  # fmt: skip
_OF_NUMBERS = frozenset(("torch.tensor", "torch.as_tensor"))
_PYTHON: dict[type, NumberKind] = {int: "integer", float: "floating", bool: "boolean"}
_LIKE = frozenset(f"torch.{name}_like" for name in ("zeros", "ones", "empty", "rand", "randn"))
_KEEPING = frozenset((".clone", ".detach", ".contiguous", ".cuda", ".cpu", ".scatter", ".scatter_", ".requires_grad_"))
_DTYPED = (
    "torch.zeros",
    "torch.ones",
    "torch.empty",
    "torch.rand",
    "torch.randn",
    "torch.randint",
    *_OF_NUMBERS,
    *_LIKE,
)
_MAX_DEPTH = 20


def number_kind(machine: Machine, value: Value | None, depth: int = 0) -> NumberKind:
    """What kind of numbers a tensor certainly holds; empty where that is not known."""
    if depth > _MAX_DEPTH:
        return ""
    if isinstance(value, Choice):
        kinds = {number_kind(machine, option, depth + 1) for _, option in value.options}
        return kinds.pop() if len(kinds) == 1 else ""
    if not isinstance(value, Symbol):
        return ""
    forced = force(machine, value)
    if forced is not value:
        return number_kind(machine, forced, depth + 1)
    told = _told(value)
    if told is not None:
        return told
    if value.name in _OF_NUMBERS and value.inputs:
        return _of_python(machine, value.inputs[0], depth + 1)
    if value.name == "item" and batch_behind(value) is not None:
        return _of_batch(machine, value, depth + 1)
    if value.name in _METHODS:
        return _METHODS[value.name]
    if value.name in _FUNCTIONS:
        return _FUNCTIONS[value.name]
    if _keeps(machine, value) and value.inputs:
        return number_kind(machine, value.inputs[0], depth + 1)
    return ""


def _of_python(machine: Machine, value: Value, depth: int) -> NumberKind:
    """The kind of a tensor that is made of a number of Python's, of a list of such, or of another tensor.

    Of what a loop has put into a list that began empty, each is like those that its one turn shows; what is not known
    is among them.
    """
    if isinstance(value, Const):
        return _PYTHON.get(type(value.value), "")
    if isinstance(value, Choice | Items) and depth < _MAX_DEPTH:
        parts = value.items if isinstance(value, Items) else [option for _, option in value.options]
        kinds = {_of_python(machine, each, depth + 1) for each in parts}
        is_seen = isinstance(value, Choice) or value.exact or _is_written_out(value)
        return kinds.pop() if len(kinds) == 1 and is_seen else ""
    return number_kind(machine, value, depth)


def _is_written_out(value: Items) -> bool:
    """Whether a list is one of the program's own, and no rest of something: `[]`, to which much is appended."""
    return value.site is not None and isinstance(value.site.node, ast.List | ast.ListComp)


def _of_batch(machine: Machine, part: Symbol, depth: int) -> NumberKind:
    """The kind of a part of a batch: that of the same part of a sample."""
    parts = in_samples(machine, part)
    kinds = {_of_python(machine, each, depth) if each is not None else "" for each in parts}
    return kinds.pop() if len(kinds) == 1 else ""


def _told(value: Symbol) -> NumberKind | None:
    """The kind that a cast or a creation is given as a type; ``None`` where it is given none."""
    if value.name not in (".to", ".type", *_DTYPED) or value.arguments is None:
        return None
    given = value.arguments.keywords.get("dtype")
    options = (
        [given] if given is not None else list(value.arguments.positional) if value.name in (".to", ".type") else []
    )
    for option in options:
        name = option.name if isinstance(option, External) else option.value if isinstance(option, Const) else ""
        kind = _TYPES.get(str(name).rpartition(".")[2])
        if kind is not None and (isinstance(option, External) or value.name == ".type"):
            return kind
    is_unknown = given is not None or value.name == ".type" or any(_may_be_type(each) for each in options)
    return "" if is_unknown else None


def _may_be_type(value: Value) -> bool:
    """Whether something that ``to`` is given may be a type, or another tensor that has one."""
    if isinstance(value, Choice):
        return any(_may_be_type(option) for _, option in value.options)
    if isinstance(value, Const | Items):
        return False
    if isinstance(value, Symbol) and value.name.startswith(_DEVICES):
        return False
    return not isinstance(value, Symbol) or "device" not in name_of(value)


_DEVICES = ("torch.device", "torch.accelerator.", "torch.cuda.")


def _keeps(machine: Machine, value: Symbol) -> bool:
    """Whether an operation returns numbers of the kind that it is given."""
    name = value.name
    if name in (".type_as", ".type"):
        return False
    if name in (".to", *_LIKE) or name in _KEEPING or name in ("item", "slice"):
        return True
    return name in machine.facts.shape_only or (name[:1] == "." and name[1:] in machine.facts.shape_only_methods)
