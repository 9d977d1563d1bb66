"""The forms of values: how one that is not known came about, which it is of a tensor, and what people call it."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.values import BoundMethod, Class, Const, External, Function, Instance, Symbol, Value

FORMS = {
    "unknown": "nothing is known of it",
    "parameter": "what a function is given by a caller who is not seen; ``detail`` is its name",
    "attribute": "an attribute of the first input; ``detail`` is its name",
    "item": "what the first input has under the key that the second one is",
    "slice": "a part of the first input between bounds",
    "element": "what an iteration over the first input yields",
    "key": "a key of a dict",
    "counter": "a number that an iteration counts",
    "forward": "what a module, the first input, returns for the others",
    "call": "what something unresolved, the first input, returns for the others",
    "generator": "what a generator function returns; the input is what it yields, the detail may be `endless`",
    "filter": "those of some values that fulfil a condition",
    "format": "a text with values in it",
    "compare": "the outcome of a comparison; ``detail`` is the class of the operator in ``ast``",
    "not": "the opposite of the input",
    "negative": "the input with its sign changed",
    "scaled": "what a gradient scaler, the first input, makes of a loss",
    "training-mode": "whether a module is in training mode",
    "index": "the index of a sample, as a loader asks a dataset for it",
    "batch": "what a collate function is given",
    "sample": "what a composition of transforms is given",
    "samples": "the samples that a loader, the input, gives its collate function",
    "state_dict": "the state of an object",
    "modules": "the modules in the input, itself among them",
}
"""The names of symbols that are no library's, each with what it stands for."""


def attribute_of(value: Value | None, *names: str) -> Value | None:
    """The object that a value is an attribute of, if it is one (with one of some names) that nobody has set."""
    if not isinstance(value, Symbol) or value.name != "attribute" or not value.inputs:
        return None
    return value.inputs[0] if not names or value.detail in names else None


_SAME_STORAGE = ((".detach", None), ("attribute", "data"))  # name and detail


def storage_of(value: Value) -> Value:
    """The tensor that a value shares its numbers with: it is detached from it, its ``.data``, or the tensor itself."""
    while isinstance(value, Symbol) and value.inputs and (value.name, value.detail) in _SAME_STORAGE:
        value = value.inputs[0]
    return value


def element_of(value: Value | None) -> Value | None:
    """What an iteration goes over that yields a value, if the value is what one yields."""
    return value.inputs[0] if isinstance(value, Symbol) and value.name == "element" and value.inputs else None


def summands(value: Value) -> Iterator[Value]:
    """The terms of a sum or difference."""
    if isinstance(value, Symbol) and value.name in ("+", "-"):
        for term in value.inputs:
            yield from summands(term)
    else:
        yield value


def added(value: Value) -> Iterator[Value]:
    """The terms of a sum or difference that make it more: of ``total - warmup`` the first."""
    if isinstance(value, Symbol) and value.name in ("+", "-") and value.inputs:
        for term in value.inputs[:1] if value.name == "-" else value.inputs:
            yield from added(term)
    else:
        yield value


def shaped_tensor(value: Value) -> Value | None:
    """The tensor of which ``x.shape`` or ``x.size()`` is the shape."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    is_shape = (
        value.detail == "shape" if value.name == "attribute" else value.name == ".size" and len(value.inputs) == 1
    )
    return value.inputs[0] if is_shape else None


def is_part_of_shape(value: Value) -> bool:
    """Whether a value is a shape, or a slice of one."""
    is_slice = isinstance(value, Symbol) and value.name == "slice"
    return shaped_tensor(value.inputs[0] if is_slice and isinstance(value, Symbol) else value) is not None


def described(value: Value) -> str:
    """A value in a few words, for people: its class, its name, or that it is unresolved."""
    if isinstance(value, Const):
        return f"`{value.value!r}`"
    if isinstance(value, Instance):
        return f"`{class_of(value)}`"
    if isinstance(value, Class | Function):
        return f"`{value.name}`"
    if isinstance(value, BoundMethod):
        return f"`{value.function.name}`"
    if isinstance(value, External):
        return f"`{value.name.rpartition('.')[2]}`"
    name = (
        value.hint or (value.detail if value.name in ("parameter", "attribute") else "")
        if isinstance(value, Symbol)
        else ""
    )
    return f"`{name}`" if name else "something unresolved"


def class_of(value: Value) -> str:
    """The name of the class of an object; empty for what is none."""
    if not isinstance(value, Instance):
        return ""
    return value.cls.name if isinstance(value.cls, Class) else value.cls.rpartition(".")[2]
