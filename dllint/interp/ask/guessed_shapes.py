"""Shapes that a program suggests without telling them: rewards are numbers, and so is what is added up from zero."""

from __future__ import annotations

from dllint.interp.ask.axes import Axes, is_running
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import of_axis
from dllint.interp.source.topics import speaks_of
from dllint.values import Const, Symbol, Value

_OF_STEP = (1, 2)  # what `environment.step(action)` returns after the state: the reward, and whether it has ended
_FROM_LISTS = frozenset(
    ("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.FloatTensor", "torch.Tensor", "numpy.array")
)


class GuessedAxes(Axes):
    """The same, and where a program tells nothing, what it suggests: for questions only."""

    def _found(self, tensor: Value) -> Shape | None:
        found = super()._found(tensor)
        is_told = found is not None and (found.rank is not None or bool(found.back) or len(found.sizes) > 1)
        guessed = self._guessed(tensor) if isinstance(tensor, Symbol) and not is_told else None
        return guessed if guessed is not None else found

    def _guessed(self, tensor: Symbol) -> Shape | None:
        first = tensor.inputs[0] if tensor.inputs else None
        if tensor.name == "item" and isinstance(first, Symbol) and first.name == ".step" and tensor.detail in _OF_STEP:
            return Shape(())
        if tensor.name == "+" and any(map(_adds_up, tensor.inputs)):
            return Shape(())
        if tensor.name in _FROM_LISTS and first is not None and any(map(_is_of_numbers, (tensor, first))):
            return Shape((of_axis(tensor, 0, meaning="batch"),))
        return None


def _adds_up(value: Value) -> bool:
    """Whether a value is what a loop has added up so far, from a number on: perhaps a part of it."""
    if isinstance(value, Symbol) and value.name == "*":
        return any(map(_adds_up, value.inputs))
    return not isinstance(value, Const) and is_running(value)


def _is_of_numbers(value: Value) -> bool:
    """Whether a name says that there is one number for each sample."""
    if not isinstance(value, Symbol):
        return False
    named = value.detail if value.name in ("parameter", "attribute") else ""
    return any(isinstance(name, str) and speaks_of("one-number", name) for name in (value.hint, named) if name)
