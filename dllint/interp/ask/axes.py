"""The axes of a tensor, as far as the program tells: from layers, data, sizes that are read, and what moves axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.forms import shaped_tensor
from dllint.interp.ask import (
    axis_indexing,
    axis_joins,
    axis_moves,
    collected,
    data_shapes,
    graph_shapes,
    layer_shapes,
    made_shapes,
    sequences,
)
from dllint.interp.ask.attempts import attribute_left_out, returned
from dllint.interp.ask.axis_annotations import annotated
from dllint.interp.ask.axis_patterns import by_einsum, by_pattern, rearranged
from dllint.interp.ask.pipelines import sample_of
from dllint.interp.ask.shape import Shape, combined, joined
from dllint.interp.ask.shape_parts import parts_given, reshaped
from dllint.interp.ask.sizes import Meaning, Size, of_axis, of_part, of_value, product
from dllint.interp.run.containers import RANK
from dllint.interp.run.modules import force, sequence_items
from dllint.interp.source.axis_facts import Layer, axis_facts
from dllint.values import Const, External, Instance, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_DEPTH = 60
_ELEMENTWISE = frozenset(
    ("+", "-", "*", "/", "**", "compare", "&", "|", "torch.add", "torch.sub", "torch.mul", "torch.div", "torch.pow")
)
_SPATIAL: dict[int, tuple[Meaning, ...]] = {1: ("",), 2: ("height", "width"), 3: ("", "height", "width")}
_RESHAPES = frozenset((".view", ".reshape", "torch.reshape"))
_DIVISIONS = ("//", "/")
_CONSTANTS = frozenset(f"{package}.pi" for package in ("numpy", "math", "torch"))
_NUMBERS = frozenset(("float", "int", "len", ".item"))  # functions that return numbers
_HIDDEN_STATE = "last_hidden_state"  # of the models of `transformers`


class Axes:
    """The shapes of the tensors of one program. A tensor of which nothing is known has axes of its own."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._facts = axis_facts()
        self._known: dict[Value, Shape] = {}
        self._samples: dict[int, Value | None] = {}
        self._depth = 0

    def of(self, tensor: Value) -> Shape:
        """The axes of a tensor."""
        known = self._known.get(tensor)
        if known is None:
            self._depth += 1
            found = self._found(tensor) if self._depth < _MAX_DEPTH else None
            self._depth -= 1
            known = _of_known_rank(tensor, found if found is not None else Shape((), (tensor, 0)))
            self._known[tensor] = known
        return known

    def size(self, value: Value) -> Size | None:
        """The size that a value means; ``None`` for ``-1``, which stands for what is left."""
        if isinstance(value, Const):
            whole = isinstance(value.value, int) and not isinstance(value.value, bool) and value.value > 0
            return Size(value.value) if whole else None
        if isinstance(value, Symbol):
            if value.name == "*" and len(value.inputs) == 2:
                parts = [self.size(part) for part in value.inputs]
                known = [part for part in parts if part is not None]
                return product(known) if len(known) == 2 else None
            if value.name in _DIVISIONS and len(value.inputs) == 2:
                divided, count = (self.size(part) for part in value.inputs)
                return of_part(value, divided, count) if divided is not None and count is not None else of_value(value)
            if value.name == "int" and value.inputs and getattr(value.inputs[0], "name", "") in _DIVISIONS:
                return self.size(value.inputs[0])
            read = _axis_read_by(value)
            if read is not None:
                tensor, index = read
                shape = self.of(tensor)
                return shape.axis(index) or of_axis(shape.rest[0] if shape.rest is not None else tensor, index)
        return of_value(value)

    def sizes(self, given: Sequence[Value]) -> list[Size | None] | None:
        """The sizes that ``view`` and its like are given, one by one or in a tuple, if they are told."""
        if len(given) == 1 and isinstance(given[0], Items):
            given = given[0].items if given[0].exact else ()
        if not given or any(isinstance(each, Choice | Items) for each in given):
            return None
        if len(given) == 1 and isinstance(given[0], Symbol) and _axis_read_by(given[0]) is None:
            return None  # a whole shape, or a dtype
        return [self.size(each) for each in given]

    # ---------------------------------------------------------------------------------------------- by operation

    def _found(self, tensor: Value) -> Shape | None:
        if isinstance(tensor, Const | Setting):
            return Shape(()) if isinstance(getattr(tensor, "value", 0), int | float) else None
        if isinstance(tensor, External):
            return Shape(()) if tensor.name in _CONSTANTS else None
        if isinstance(tensor, Items):
            return data_shapes.listed(tensor, self.of)
        if isinstance(tensor, Choice):
            options = [option for _, option in tensor.options if not axis_indexing.is_new_axis(option)]  # no `None`
            return joined([self.of(option) for option in options], tensor) if options else None
        if isinstance(tensor, Instance) and tensor.library_name == "torch.nn.Parameter":
            held = tensor.arguments.get(0, "data")
            return self.of(held) if held is not None else None
        if not isinstance(tensor, Symbol):
            return None
        if not tensor.inputs:
            return annotated(tensor) if tensor.name == "parameter" else made_shapes.of_made(tensor, self.sizes)
        if tensor.name in _NUMBERS or tensor.name.startswith("math.") or _axis_read_by(tensor) is not None:
            return Shape(())
        if tensor.name in ("element", "next"):
            return data_shapes.of_whole_batch(tensor) or self._of_element(tensor)
        if (layer := layer_shapes.without_norm(tensor.inputs[0])) is not tensor.inputs[0]:
            name = f"{layer.library_name}()" if isinstance(layer, Instance) and layer.library_name else "forward"
            return self.of(Symbol(name, (layer, *tensor.inputs[1:]), tensor.site))
        forced = self._through_sequence(tensor) or force(self._machine, tensor)
        if forced is not tensor:
            return self._of_model(tensor, forced)
        result = returned(self._machine, tensor)
        if result is not None:
            return self.of(result)
        if tensor.name.endswith("()"):
            return self._of_layer(tensor)
        if tensor.name == "item":
            return self._of_item(tensor)
        if tensor.name == "attribute":
            return self._of_attribute(tensor)
        return self._of_operation(tensor)

    def _of_model(self, result: Symbol, returned: Value) -> Shape:
        """What a model returns: a batch, if it is given one."""
        shape = self.of(returned)
        is_open = shape.rest is not None and not shape.sizes
        batch = next((given.sizes[0] for given in map(self.of, result.inputs[1:]) if given.is_batch), None)
        return Shape((batch,), (returned, 1), shape.back) if is_open and batch is not None else shape

    def _through_sequence(self, result: Symbol) -> Value | None:
        """What the layers of a ``Sequential`` make of what it is given, one after the other.

        Of the value that is computed, only the last of them are known.
        """
        model = result.inputs[0]
        if result.name != "torch.nn.Sequential()" or not isinstance(model, Instance) or len(result.inputs) < 2:
            return None
        if not model.arguments.exact or "<items>" in model.attributes:
            return None
        value: Value = result.inputs[1]
        for layer in sequence_items(self._machine, model) or (model,):
            layer = layer_shapes.without_norm(layer)
            if not isinstance(layer, Instance) or layer is model:
                return None
            called = f"{layer.library_name}()" if layer.library_name else "forward"
            value = Symbol(called, (layer, value), result.site)
        return value

    def _of_element(self, element: Symbol) -> Shape | None:
        """A step of a tensor, or of several that are gone through side by side."""
        base = self.of(element.inputs[0])
        return Shape(base.sizes[1:]) if base.rank else None

    def _of_operation(self, tensor: Symbol) -> Shape | None:
        by_parts = self._by_parts_of_shapes(tensor)
        if by_parts is not None:
            return by_parts
        if tensor.name in made_shapes.MADE:
            return data_shapes.of_batch_size(tensor) or made_shapes.of_made(tensor, self.sizes)
        if (sized := made_shapes.of_given_sizes(tensor, self.sizes)) is not None:
            return sized
        if tensor.name in _ELEMENTWISE:
            left, right = tensor.inputs[:2] if len(tensor.inputs) >= 2 else (tensor.inputs[0], Const(1))
            if is_running(left) or is_running(right):
                return self.of(left if is_running(right) else right)
            return combined(self.of(left), self.of(right), tensor)
        if (scaled := made_shapes.of_scaled(tensor, self.of)) is not None:
            return scaled
        same = tensor.inputs[0] if tensor.name == "negative" else axis_moves.before_same_axes(tensor)
        if same is not None:
            return self.of(same)
        if tensor.name == "slice":
            return axis_indexing.sliced(tensor, self.of(tensor.inputs[0]))
        if tensor.arguments is not None and not tensor.arguments.exact:
            return None
        if tensor.name == "torch.einsum":
            return by_einsum(tensor, self.of)
        if tensor.name.startswith("einops."):
            return by_pattern(tensor, self.of)
        if tensor.name.startswith(data_shapes.TABLE_CALLS):
            return data_shapes.of_table(tensor)
        if tensor.name in data_shapes.POOLS_OF_GRAPHS:
            return data_shapes.of_graphs(tensor, self.of(tensor.inputs[0]))
        several = axis_joins.OF_SEVERAL.get(tensor.name)
        if several is not None:
            return several(self, tensor)
        is_of_python = "." not in tensor.name  # `sum(terms)`, which adds up what there is along the first axis
        move = None if is_of_python else axis_moves.MOVES.get(tensor.name.removeprefix("torch.").removeprefix("."))
        return move(self, tensor, self.of(tensor.inputs[0])) if move is not None else None

    def _by_parts_of_shapes(self, tensor: Symbol) -> Shape | None:
        """What is made, or viewed, with sizes that are read off a shape several at once."""
        arguments = tensor.arguments
        if arguments is None or not (tensor.name in made_shapes.MADE or tensor.name in _RESHAPES):
            return None
        given = arguments.positional[1:] if tensor.name == "torch.reshape" else arguments.positional
        parts = parts_given(given, self.of, exact=arguments.exact)
        viewed = self.of(tensor.inputs[0]) if tensor.name in _RESHAPES else Shape(())
        return reshaped(tensor, viewed, parts, self.size) if parts is not None else None

    def _of_attribute(self, tensor: Symbol) -> Shape | None:
        if data_shapes.is_drawn_from_memory(tensor.inputs[0]):
            return data_shapes.of_memory(tensor)
        if (known := made_shapes.of_samples(tensor)) is not None:
            return known
        if tensor.detail in data_shapes.ROWS:
            return data_shapes.of_table(tensor.inputs[0])
        set_there = collected.part(tensor) or attribute_left_out(self._machine, tensor)
        if set_there is not None:
            return self.of(set_there)
        if (of_graphs := graph_shapes.of_label(self._machine, tensor, self.of)) is not None:
            return of_graphs
        base = self.of(tensor.inputs[0])
        if tensor.detail == "values" and base.is_unknown:
            return data_shapes.of_column(tensor) or data_shapes.of_table(tensor.inputs[0])
        if tensor.detail in ("values", "indices", "data", "real", "grad"):
            return base
        if tensor.detail == "T":
            return Shape(base.sizes[::-1]) if base.rank is not None else None
        if tensor.detail == _HIDDEN_STATE:
            meanings: tuple[Meaning, ...] = ("batch", "time", "feature")
            return Shape(tuple(of_axis(tensor, index, meaning=meaning) for index, meaning in enumerate(meanings)))
        return None

    # ------------------------------------------------------------------------------------------------ of layers

    def _of_layer(self, result: Symbol) -> Shape | None:
        name, layer = result.name.removesuffix("()"), result.inputs[0]
        if len(result.inputs) < 2 or not isinstance(layer, Instance):
            return None
        given = self.of(result.inputs[1])
        if name in self._facts.same_modules:
            return given
        if name == "torch.nn.Flatten":
            start, end = (layer.arguments.get(i, name) for i, name in enumerate(("start_dim", "end_dim")))
            bounds = axis_moves.numbers((start or Const(1), end or Const(-1)))
            return axis_moves.flattened(result, given, *bounds) if bounds is not None else None
        if name == "einops.layers.torch.Rearrange":
            pattern = layer.arguments.get(0, "pattern")
            text = pattern.value if isinstance(pattern, Const) else ""
            return rearranged(result, text, given, layer.arguments.keywords)
        if name in self._facts.sequence:
            return sequences.output_shape(result, layer, given, None)
        if (fact := self._facts.channels.get(name)) is not None:
            return self._of_convolution(result, layer, fact, given)
        if (fact := self._facts.embedding.get(name)) is not None:
            return layer_shapes.with_last(result, given, self._argument(layer, fact), is_added=True)
        if (fact := self._facts.features.get(name)) is not None:
            wanted = layer.arguments.get(0, "in_features") if name == "torch.nn.Linear" else None
            if layer_shapes.is_refused(given, self.size(wanted) if wanted is not None else None):
                return None
            return layer_shapes.with_last(result, given, self._argument(layer, fact))
        return self._kept_batch(result, given)

    def _of_convolution(self, result: Symbol, layer: Instance, fact: Layer, given: Shape) -> Shape | None:
        """(batch, channel, ...), the image or signal of a size that nobody computes here.

        The first axis of something is that of its samples then, but not what several axes were joined to.
        """
        first = given.first(2)
        is_bare_signal = (
            fact.spatial == 1 and not fact.argument and given.rank is None
        )  # pooled over features, it may be
        if first is None or given.rank == fact.spatial + 1 or is_bare_signal:
            return None
        channels = self._argument(layer, fact) if fact.argument else first[1]
        told = self._pooled_to(layer) if ".Adaptive" in layer.library_name else []
        known = told if len(told) == fact.spatial else [None] * fact.spatial
        spatial = (
            (size or of_axis(result, 2 + i)).meant(meaning)
            for i, (size, meaning) in enumerate(zip(known, _SPATIAL[fact.spatial], strict=True))
        )
        is_front = first[0].is_atomic and any(factor.axis == 0 for factor in first[0].factors)
        batch = first[0].meant("batch") if is_front and not first[0].meaning else first[0]
        return Shape((batch, channels.meant("channel"), *spatial))

    def _pooled_to(self, layer: Instance) -> list[Size | None]:
        """The sizes that an adaptive pooling is told: a number for all of them, or one for each."""
        told = layer.arguments.get(0, "output_size")
        if isinstance(told, Const):
            return [self.size(told)] * int(layer.library_name[-2])
        return [self.size(each) for each in told.items] if isinstance(told, Items) and told.exact else []

    def _kept_batch(self, result: Symbol, given: Shape) -> Shape | None:
        """What is known of the result of a layer of which nothing is known but that it is one of torch."""
        return Shape(given.sizes[:1], (result, 1)) if given.is_batch else None

    def _argument(self, layer: Instance, fact: Layer) -> Size:
        value = layer.arguments.get(fact.position, fact.argument)
        size = self.size(value) if value is not None else None
        return (size if size is not None else of_value(layer)).meant("feature")

    def _of_item(self, item: Symbol) -> Shape | None:
        """What is taken out of a batch, out of what a layer returns, or out of a tensor by an index."""
        base = item.inputs[0]
        found = data_shapes.from_data(item, self.of, self._sample_of) or made_shapes.of_samples(item)
        if found is not None or not isinstance(base, Symbol):
            return found
        put_in = collected.part(item)
        if put_in is not None or collected.is_of_all(item):
            shape = self.of(put_in) if put_in is not None else Shape((of_axis(item, 0),), (item, 1))
            return _of_samples(shape) if collected.is_of_all(item) else shape
        whole = returned(self._machine, base) or force(self._machine, base)
        parts = (
            [collected.at(option, item.detail) for _, option in alternatives(whole)] if whole is not base else [None]
        )
        told = [each for each in parts if each is not None]
        if len(told) == len(parts):
            return joined([self.of(each) for each in told], item)
        layer = base.inputs[0] if base.inputs else None
        if base.name.removesuffix("()") in self._facts.sequence and isinstance(layer, Instance):
            return self._of_sequence_layer(item, base, layer)
        if base.name.rpartition(".")[2] in ("max", "min", "median", "mode", "topk", "sort"):
            return self.of(base) if item.detail in (0, 1) else None
        if base.name.rpartition(".")[2] in ("split", "chunk", "tensor_split", "unbind"):
            return axis_indexing.cut(item, base, self.of(base.inputs[0]))
        if base.name == "item" and base.detail == 1 and isinstance(base.inputs[0], Symbol):
            inner = base.inputs[0]
            if inner.name == "torch.nn.LSTM()" and isinstance(inner.inputs[0], Instance):
                return self._state(item, inner, inner.inputs[0])
        return axis_indexing.indexed(item, self.of(base), self.of)

    def _sample_of(self, dataset: Instance) -> Value | None:
        """What a dataset of the project returns for an index."""
        if id(dataset) not in self._samples:
            self._samples[id(dataset)] = sample_of(self._machine, dataset)
        return self._samples[id(dataset)]

    def _of_sequence_layer(self, item: Symbol, result: Symbol, layer: Instance) -> Shape | None:
        """The outputs, or the state, of a recurrent layer or of attention."""
        if len(result.inputs) < 2 or not sequences.returns_pair(layer):
            return axis_indexing.indexed(item, self.of(result), self.of)
        if item.detail == 0:
            return sequences.output_shape(item, layer, self.of(result.inputs[1]), self._hidden(layer))
        is_state = item.detail == 1 and layer.library_name in ("torch.nn.GRU", "torch.nn.RNN")
        return self._state(item, result, layer) if is_state else None

    def _state(self, item: Symbol, result: Symbol, layer: Instance) -> Shape | None:
        layers = layer.arguments.get(2, "num_layers") if layer.arguments.exact else result
        count = Size() if layers is None else self.size(layers) if layers is not result else None
        return sequences.state_shape(item, layer, self.of(result.inputs[1]), self._hidden(layer), count)

    def _hidden(self, layer: Instance) -> Size | None:
        value = layer.arguments.get(1, "hidden_size")
        return self.size(value) if value is not None else None


def _of_samples(shape: Shape) -> Shape:
    """A shape whose first axis is that of the samples."""
    return Shape((shape.sizes[0].meant("batch"), *shape.sizes[1:]), shape.rest, shape.back) if shape.sizes else shape


def is_running(value: Value) -> bool:
    """Whether a value began as a number before a loop that adds to it: it is as wide as what is added."""
    if isinstance(value, Choice):
        options = [option for _, option in value.options]
        return any(map(is_running, options)) and all(is_running(each) or isinstance(each, Const) for each in options)
    began = value.inputs[0] if isinstance(value, Symbol) and value.name == "unknown" and value.inputs else None
    return isinstance(began, Const) and isinstance(began.value, int | float)


def _of_known_rank(tensor: Value, shape: Shape) -> Shape:
    """A shape with the number of axes that the program tells by unpacking it."""
    rank = tensor.attributes.get(RANK) if isinstance(tensor, Symbol) else None
    return shape.of_rank(rank.value) if isinstance(rank, Const) else shape


def _axis_read_by(value: Value) -> tuple[Value, int] | None:
    """The tensor and the axis whose size ``x.size(i)``, ``x.shape[i]`` or ``len(x)`` reads."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    if value.name == "len":
        return value.inputs[0], 0
    if value.name == ".size" and len(value.inputs) == 2 and isinstance(value.inputs[1], Const):
        return value.inputs[0], value.inputs[1].value
    if value.name == "item" and isinstance(value.detail, int):
        tensor = shaped_tensor(value.inputs[0])
        return (tensor, value.detail) if tensor is not None else None
    return None
