"""The shapes of tensors, and what is known of their axes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from dllint.choices import Choice
from dllint.context.base import ProgramView
from dllint.events import LibraryCall
from dllint.interp.ask.axes import Axes
from dllint.interp.ask.axis_moves import number, squeezed
from dllint.interp.ask.contractions import Contraction, contractions, is_of_products, sums_another_axis, told_axis
from dllint.interp.ask.exchanges import is_exchanged_around
from dllint.interp.ask.guessed_shapes import GuessedAxes
from dllint.interp.ask.mixing import is_mix
from dllint.interp.ask.reshapes import Mixture, mixture
from dllint.interp.ask.sequences import (
    Steps,
    first_step,
    is_batch_first,
    is_bidirectional,
    last_step,
    layer_call,
    pooled,
    steps_of,
)
from dllint.interp.ask.shape import Shape
from dllint.interp.run.graph import inputs_of
from dllint.interp.run.modules import force
from dllint.interp.source.axis_facts import axis_facts
from dllint.sites import Guard, Site
from dllint.values import Instance, Symbol, Value

_MAX_SOURCES = 400
_ASKS_RANK = re.compile(r"\bdim\(|\bndim\b|\blen\(.*(\.shape|\.size\()")
_ASKS_SIZE = re.compile(r"\bshape\b|\bsize\(")
_MATRIX = 2  # axes: of a vector or a matrix nothing is mixed


class AxesOfTensors(ProgramView):
    """Shapes, as far as layers, data and the sizes that a program reads tell them."""

    @cached_property
    def _axes(self) -> Axes:
        return Axes(self._machine)

    def shape(self, tensor: Value | None) -> Shape:
        """The axes of a tensor: their sizes and what they mean. What is unknown is an axis equal to no other."""
        return self._axes.of(tensor) if tensor is not None else Shape((), (Value(), 0))

    @cached_property
    def _guessed_axes(self) -> GuessedAxes:
        return GuessedAxes(self._machine)

    def guessed_shape(self, tensor: Value | None) -> Shape:
        """The same with what the program only suggests, as that rewards are numbers: for questions."""
        return self._guessed_axes.of(tensor) if tensor is not None else self.shape(None)

    def shapes(self, tensor: Value | None) -> list[Shape]:
        """The shapes that a tensor may have: several where the model that returns it is one of several."""
        returned = force(self._machine, tensor) if tensor is not None else None
        options = returned.options if isinstance(returned, Choice) else ()
        return [self._axes.of(option) for _, option in options] or [self.shape(tensor)]

    def mixed_by_view(self, tensor: Value, sizes: Sequence[Value]) -> Mixture | None:
        """The axis that ``tensor.view(*sizes)`` mixes with others, if that is certain."""
        wanted = self._axes.sizes(sizes)
        return mixture(self._axes.of(tensor), wanted) if wanted is not None else None

    def wanted_size(self, layer: Instance) -> tuple[int, int] | None:
        """The axis of which a layer wants a certain size, and this size, if it is a number."""
        fact = axis_facts().takes.get(layer.library_name)
        size = number(layer.arguments.get(0, fact[0])) if fact is not None else None
        return (fact[1], size) if fact is not None and size is not None else None

    def made_size(self, layer: Instance) -> int | None:
        """The number of channels or features that a layer makes, if it is a number."""
        facts = axis_facts()
        fact = facts.channels.get(layer.library_name) or facts.features.get(layer.library_name)
        return number(layer.arguments.get(fact.position, fact.argument)) if fact is not None and fact.argument else None

    def keeps_size(self, layer: Instance) -> bool:
        """Whether a layer returns as many channels or features as it gets."""
        facts = axis_facts()
        fact = facts.channels.get(layer.library_name)
        return layer.library_name in facts.same_modules or (fact is not None and not fact.argument)

    def is_batch_first(self, layer: Value) -> bool | None:
        """Whether a layer for sequences takes the batch before the time; ``None`` where that is not known."""
        return is_batch_first(layer)

    def is_bidirectional(self, layer: Instance) -> bool | None:
        """Whether a recurrent layer reads in both directions; ``None`` where that is not known."""
        return is_bidirectional(layer)

    def layer_call(self, value: Value) -> Steps | None:
        """The call of a layer for sequences (recurrent, attention) that a value is the result of."""
        return layer_call(value)

    def steps_of(self, value: Value) -> Steps | None:
        """The layer for sequences whose outputs for each step a value holds, if no axis was moved since."""
        return steps_of(value)

    def pooled(self, value: Value) -> tuple[Steps, Symbol] | None:
        """The outputs of a layer of which a value is one step along axis 1 (`[:, -1]`), or a mean over it."""
        return pooled(value)

    def last_step(self, value: Value) -> Steps | None:
        """The outputs of a recurrent layer of which a value is the last step, in the order that the layer has."""
        return last_step(value)

    def first_step(self, value: Value) -> Steps | None:
        """The outputs of a recurrent layer of which a value is the first step, or a part of it (`out[:, 0, n:]`)."""
        return first_step(value)

    def squeezed(self, value: Value) -> Iterator[Symbol]:
        """The `squeeze()` without an axis behind a value, if only layers that keep the number of axes came after it."""
        return squeezed(value, lambda each: force(self._machine, each))

    def inside(self, value: Value) -> tuple[Value, ...]:
        """What a value was directly made from; for the call of a model of the project, what its forward returns."""
        forced = force(self._machine, value)
        return (forced,) if forced is not value else inputs_of(value)

    def sources_inside(self, value: Value, *, deep: bool = True) -> Iterator[Value]:
        """The value and what it was certainly computed from, nearest first: `deep` in the forwards of models too."""
        pending, seen = [value], set[int]()
        for current in pending:  # which grows meanwhile
            if len(seen) >= _MAX_SOURCES:
                return
            if id(current) not in seen and not isinstance(current, Choice):
                seen.add(id(current))
                yield current
                pending.extend(self.inside(current) if deep else inputs_of(current))

    def contractions(self, product: Symbol) -> Iterator[Contraction]:
        """The operands of a matrix product or of `einsum` that are weights of a softmax, and how they are summed."""
        return contractions(product, self.shape)

    def is_mix(self, product: Symbol, found: Contraction) -> bool:
        """Whether a product that sums weights of a softmax only mixes them with each other, over the heads or before
        they are applied: another product sums the axis that they sum to one over."""
        results = (event.result for event in self.all_of(LibraryCall))
        return is_mix(product, found, [each for each in results if isinstance(each, Symbol)], self.shape)

    def are_weights_of_another_axis(self, softmax: Symbol) -> bool:
        """Whether a product sums what a softmax made over another axis than its own, masked and scaled or not."""
        results = (event.result for event in self.all_of(LibraryCall))
        products = (each for each in results if isinstance(each, Symbol))
        return any(sums_another_axis(product, softmax, self.shape) for product in products)

    def axis_of_softmax(self, softmax: Symbol) -> int | None:
        """The axis that a softmax is told, as a number."""
        return told_axis(softmax)

    def is_exchanged_around(self, given: Value, axis: int, result: Site) -> bool:
        """Whether an operation stands between an exchange that brings another axis of what it is given to some place,
        and the same exchange again, of its result: `F.softmax(x.transpose(axis, 0)).transpose(axis, 0)`."""
        return is_exchanged_around(given, axis, result)

    def is_of_products(self, value: Value) -> bool:
        """Whether a tensor holds products of vectors, perhaps scaled and masked: the scores of attention."""
        return is_of_products(value)

    def asks_of_other_axes(self, guard: Guard, rank: int | None) -> bool:
        """Whether a condition may hold for tensors only that have other axes than one of so many (``rank``).

        That two sizes are equal, or that one is large enough, says nothing of the axes: such tests refuse what cannot
        fit.
        """
        text, is_equal = str(guard.subject), guard.relation == "==" and isinstance(guard.operand, int)
        if _ASKS_RANK.search(text):
            is_this = is_equal and (guard.operand == rank if rank is not None else guard.operand > _MATRIX)
            return not is_equal or is_this is not guard.holds
        return _ASKS_SIZE.search(text) is not None and (is_equal or guard.relation == "truthy")
