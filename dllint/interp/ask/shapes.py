"""Shapes of tensors, as far as layers, reshapes, reductions and loaders tell them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from dllint.interp.run.modules import force
from dllint.values import Choice, Const, Instance, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

Axis = int | Literal["many"] | None
"""The size of an axis: a number, one that is not known but grows with the batch, or one that is not known at all."""

_MAX_DEPTH = 40
_OPERATORS = frozenset(("+", "-", "*", "/", "**"))
_SAME = frozenset(
    ("float", "double", "half", "long", "int", "to", "cuda", "cpu", "type", "type_as", "detach", "clone", "contiguous",
     "requires_grad_", "exp", "log", "sqrt", "abs", "neg", "clamp", "clip", "sigmoid", "tanh", "relu", "softplus",
     "leaky_relu", "elu", "gelu", "silu", "dropout", "softmax", "log_softmax", "Variable", "tensor", "as_tensor",
     "from_numpy", "FloatTensor", "Tensor", "astype", "to_numpy", "array", "asarray", "copy")
)  # fmt: skip
_SAME_LAYERS = frozenset(
    ("ReLU", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softplus", "Softmax", "Dropout",
     "BatchNorm1d", "LayerNorm", "Identity", "Hardtanh")
)  # fmt: skip
_REDUCTIONS = frozenset(("max", "min", "amax", "amin", "mean", "sum", "prod", "logsumexp"))
_OF_PAIRS = frozenset(("max", "min"))  # which return values and indices where they are given an axis
_TABLES = ("pandas.read_", "pandas.DataFrame")


@dataclass(frozen=True, slots=True)
class Shape:
    """The last axes of a tensor. They are all where ``is_whole`` says so; of others, one before them is the batch's
    where ``is_batch`` says so."""

    axes: tuple[Axis, ...]
    is_whole: bool = False
    is_batch: bool = False

    @property
    def is_column(self) -> bool:
        """Whether it is a batch of single numbers with an axis for them: (N, 1)."""
        if not self.axes or self.axes[-1] != 1:
            return False
        return self.axes[:-1] == ("many",) if self.is_whole else len(self.axes) == 1 and self.is_batch

    @property
    def is_row(self) -> bool:
        """Whether it is a batch of single numbers without an axis for them: (N,)."""
        return self.axes == ("many",)


Known = dict[int, tuple[Value, Shape | None]]  # by the identity of the value, which is held so that it stays its own


def shape_of(machine: Machine, value: Value) -> Shape | None:
    """The shape of a value; ``None`` where nothing is known of it."""
    return _shape_of(machine, value, 0, {})


def _shape_of(machine: Machine, value: Value, depth: int, known: Known) -> Shape | None:
    """As :func:`shape_of`. Each value is looked at once: those of a U-Net are joined again and again."""
    if depth > _MAX_DEPTH:
        return None
    if id(value) not in known:
        known[id(value)] = (value, None)  # what a value that comes back to itself adds: nothing
        known[id(value)] = (value, _work_out(machine, value, depth, known))
    return known[id(value)][1]


def _work_out(machine: Machine, value: Value, depth: int, known: Known) -> Shape | None:
    if isinstance(value, Setting | Const):
        return Shape((), is_whole=True) if isinstance(getattr(value, "value", None), int | float) else None
    if isinstance(value, Choice):
        found = {_shape_of(machine, option, depth + 1, known) for _, option in value.options}
        return found.pop() if len(found) == 1 else None
    if not isinstance(value, Symbol):
        return None
    inner: Callable[[Value], Shape | None] = lambda each: _shape_of(machine, each, depth + 1, known)  # noqa: E731
    forced = force(machine, value)
    if forced is not value:
        return _of_model(inner(forced), [inner(given) for given in value.inputs[1:]])
    if value.name in _OPERATORS and len(value.inputs) == 2:
        return _broadcast(inner(value.inputs[0]), inner(value.inputs[1]))
    if value.name == "item":
        return _of_item(value, inner)
    if not value.inputs:
        return None
    if value.name.endswith("()"):
        return _of_layer(value, inner)
    if value.name == "attribute":
        return _of_attribute(value, inner)
    return _of_function(value, inner)


def _of_layer(value: Symbol, inner: Callable[[Value], Shape | None]) -> Shape | None:
    layer = value.inputs[0]
    given = inner(value.inputs[1]) if len(value.inputs) > 1 else None
    if not isinstance(layer, Instance):
        return None
    kind = layer.library_name.removeprefix("torch.nn.")
    if kind in _SAME_LAYERS:
        return given
    if kind == "Linear":
        out = layer.arguments.get(1, "out_features")
        size = out.value if isinstance(out, Const) and isinstance(out.value, int) else None
        return _with_last(given, size)
    if kind == "Flatten" and not layer.arguments.all():
        return Shape(("many", None), is_whole=True)
    return _batch_of(given)


def _of_model(returned: Shape | None, given: list[Shape | None]) -> Shape | None:
    """What a model returns: a batch, if it is given one."""
    if returned is None or returned.is_whole or not any(_batch_of(each) for each in given):
        return returned
    return replace(returned, is_batch=True)


def _with_last(given: Shape | None, size: Axis) -> Shape:
    """What a linear layer makes: another last axis."""
    if given is None:
        return Shape((size,))
    return replace(
        given, axes=(*given.axes[:-1], size), is_batch=given.is_batch or (not given.is_whole and bool(given.axes[1:]))
    )


def _batch_of(given: Shape | None) -> Shape | None:
    """What is known of the result of a layer that keeps the batch."""
    is_batch = given is not None and (given.is_batch or (given.is_whole and given.axes[:1] == ("many",)))
    return Shape((), is_batch=True) if is_batch else None


def _of_item(value: Symbol, inner: Callable[[Value], Shape | None]) -> Shape | None:
    base = value.inputs[0]
    index = value.inputs[1] if len(value.inputs) > 1 else None
    if isinstance(base, Symbol) and base.name == "element":
        return _of_batch(base, value.detail, inner)
    if isinstance(base, Symbol) and base.name.rpartition(".")[2] in _OF_PAIRS:
        return inner(base)
    if isinstance(base, Symbol) and base.name.endswith(".train_test_split") and isinstance(value.detail, int):
        given = base.inputs[value.detail // 2] if value.detail // 2 < len(base.inputs) else None
        return inner(given) if given is not None else None
    if isinstance(index, Const) and isinstance(index.value, str):
        is_column = isinstance(base, Symbol) and base.name.startswith(_TABLES)
        return Shape(("many",), is_whole=True) if is_column else None
    if isinstance(index, Items):
        return _indexed(inner(base), index)
    return None


def _indexed(given: Shape | None, index: Items) -> Shape | None:
    """``x[:, 0]`` and ``x[:, None]`` of what is known to have two axes or one."""
    last = index.items[-1] if len(index.items) == 2 else None
    if given is None or not given.is_whole or not isinstance(last, Const):
        return None
    if last.value is None and len(given.axes) == 1:
        return replace(given, axes=(*given.axes, 1))
    is_number = isinstance(last.value, int) and not isinstance(last.value, bool)
    return replace(given, axes=given.axes[:1]) if is_number and len(given.axes) == 2 else None


def _of_batch(element: Symbol, place: object, inner: Callable[[Value], Shape | None]) -> Shape | None:
    """A part of a batch of a loader: what a dataset of tensors holds, with as many samples as the batch has."""
    loader = element.inputs[0] if element.inputs else None
    if not isinstance(loader, Instance) or loader.library_name != "torch.utils.data.DataLoader":
        return None
    dataset = loader.arguments.get(0, "dataset")
    if isinstance(dataset, Instance) and dataset.library_name.endswith(".TensorDataset") and isinstance(place, int):
        held = dataset.arguments.positional
        whole = inner(held[place]) if place < len(held) else None
        if whole is not None and whole.is_whole and whole.axes:
            return replace(whole, axes=("many", *whole.axes[1:]))
    return Shape((), is_batch=True)


def _of_attribute(value: Symbol, inner: Callable[[Value], Shape | None]) -> Shape | None:
    """``values`` of a reduction with an axis, or of a column of a table; ``data`` of a tensor."""
    return inner(value.inputs[0]) if value.detail in ("values", "data") else None


def _of_function(value: Symbol, inner: Callable[[Value], Shape | None]) -> Shape | None:
    name = value.name.rpartition(".")[2]
    if value.arguments is None:
        return None
    first = 0 if value.name.startswith(".") else 1  # where the arguments begin that stand after the tensor
    positional, keywords = value.arguments.positional[first:], value.arguments.keywords
    given = inner(value.inputs[0])
    if name in _SAME:
        return given
    if name in ("view", "reshape"):
        return _reshaped(positional)
    axis = positional[0] if positional else keywords.get("dim", keywords.get("axis", keywords.get("start_dim")))
    place = axis.value if isinstance(axis, Const) and isinstance(axis.value, int) else None
    if name in ("flatten", "ravel"):
        return Shape(("many", None) if place == 1 else ("many",), is_whole=True)
    if name == "squeeze":
        return _squeezed(given, place, is_all=axis is None)
    if name == "unsqueeze":
        return _unsqueezed(given, place)
    if name == "gather" and place in (1, -1):
        return _gathered(given, positional[1] if len(positional) > 1 else keywords.get("index"), inner)
    if name in _REDUCTIONS and place is not None and len(positional) < 2 and "keepdim" not in keywords:
        return _reduced(given, place)
    return None


def _reshaped(sizes: tuple[Value, ...]) -> Shape | None:
    if len(sizes) == 1 and isinstance(sizes[0], Items):
        sizes = sizes[0].items
    numbers = [size.value if isinstance(size, Const) and isinstance(size.value, int) else None for size in sizes]
    if not numbers or (len(numbers) == 1 and numbers[0] is None):
        return None  # `view(other.shape)`
    axes: list[Axis] = [None if number == -1 else number for number in numbers]
    if axes[0] is None:
        axes[0] = "many"  # `view(-1)`, and mostly `view(x.size(0), -1)`
    return Shape(tuple(axes), is_whole=True)


def _squeezed(given: Shape | None, place: int | None, *, is_all: bool) -> Shape | None:
    if given is None or not given.axes:
        return None
    if is_all:
        if not given.is_whole:
            return Shape(("many",)) if given.is_column else None
        return None if None in given.axes else replace(given, axes=tuple(axis for axis in given.axes if axis != 1))
    if given.is_row and place == 1:
        return given
    if given.is_column and place in (1, -1):
        return replace(given, axes=given.axes[:-1]) if given.is_whole else Shape(("many",))
    return None


def _unsqueezed(given: Shape | None, place: int | None) -> Shape | None:
    if given is not None and given.is_row and given.is_whole and place in (1, -1):
        return replace(given, axes=(*given.axes, 1))
    return None


def _gathered(given: Shape | None, index: Value | None, inner: Callable[[Value], Shape | None]) -> Shape | None:
    """What is taken out of each row: one number, where the place of it is given as ``actions.unsqueeze(1)``."""
    if not isinstance(index, Symbol) or given is None:
        return None
    is_one = index.name in (".unsqueeze", "torch.unsqueeze") and len(index.inputs) > 1
    if is_one and getattr(index.inputs[1], "value", None) in (1, -1):
        return Shape(("many", 1), is_whole=True)
    return inner(index)


def _reduced(given: Shape | None, place: int) -> Shape | None:
    """A matrix without its last axis is a row; what a linear layer makes of a batch is taken for a matrix."""
    if given is None or place not in (1, -1) or len(given.axes) > 2 or not given.axes:
        return None
    if given.is_whole:
        return replace(given, axes=given.axes[:-1]) if len(given.axes) == 2 else None
    return Shape(("many",)) if len(given.axes) == 1 and isinstance(given.axes[0], int) else None


def _broadcast(left: Shape | None, right: Shape | None) -> Shape | None:
    """What comes of two tensors. One that is not known has the last axis of the other, if that is the batch's."""
    if left is None or right is None:
        known = left or right
        return Shape(("many",)) if known is not None and known.is_row else None
    if not left.axes and left.is_whole:
        return right
    if (not right.axes and right.is_whole) or left == right:
        return left
    return Shape(("many",)) if left.is_row and right.is_row else None
