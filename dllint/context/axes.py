"""What is known of the axes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from dllint.context.base import ProgramView
from dllint.interp.ask.axes import Axes, Shape
from dllint.interp.ask.reshapes import Mixture, mixture
from dllint.values import Value


class AxesOfTensors(ProgramView):
    """Shapes, as far as layers and the sizes that a program reads tell them."""

    @cached_property
    def _axes(self) -> Axes:
        return Axes(self._machine)

    def axes(self, tensor: Value) -> Shape:
        """The axes of a tensor. What is unknown is an axis of its own, equal to no other."""
        return self._axes.of(tensor)

    def mixed_by_view(self, tensor: Value, sizes: Sequence[Value]) -> Mixture | None:
        """The axis that ``tensor.view(*sizes)`` mixes with others, if that is certain."""
        wanted = self._axes.sizes(sizes)
        return mixture(self._axes.of(tensor), wanted) if wanted is not None else None
