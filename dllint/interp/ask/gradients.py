"""Whether a value carries gradients back to parameters, and if not, where they were cut off."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.dataclass import dataclass
from dllint.forms import element_of
from dllint.interp.ask.origins import origins
from dllint.interp.run.graph import is_tensor_operation, sources
from dllint.interp.run.modules import force
from dllint.interp.run.roles import guess_role, known_or_guessed, name_of
from dllint.sites import Site
from dllint.values import Const, External, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_DEPTH = 60
_DATA = frozenset(("samples", "counter", "key", "compare", "not", "format", "range", "len", "enumerate"))
_OPERATORS = frozenset(["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "negative"])
_RANDOM = frozenset(  # unlike torch.zeros and torch.empty, these are not made in order to be filled
    ("torch.rand", "torch.rand_like", "torch.randn", "torch.randn_like", "torch.randint", "torch.randint_like",
     "torch.randperm", "torch.normal", "torch.arange", "torch.linspace", "torch.eye")
)  # fmt: skip
_LIKE = frozenset(  # only the shape of what they are given counts; all but random ones may be filled afterwards
    ("torch.zeros_like", "torch.ones_like", "torch.empty_like", "torch.full_like", "torch.rand_like",
     "torch.randn_like", "torch.randint_like", ".new_zeros", ".new_ones", ".new_empty", ".new_full")
)  # fmt: skip
_SHAPES = frozenset((".size", ".dim", ".numel", ".shape", ".nelement", "len"))
_VIEWS = frozenset(("values", "T", "mT", "H", "mH", "real", "imag"))
_INTEGERS = frozenset(("indices", "shape", "ndim"))
_WITH_PARAMETERS = (
    "Linear", "Bilinear", "LazyLinear", "Conv", "Embedding", "BatchNorm", "LayerNorm", "GroupNorm", "LSTM", "GRU",
    "RNN", "MultiheadAttention", "Transformer", "PReLU", "Sequential",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a gradient that was there is cut off.

    ``reason`` is ``no_grad``, ``detach``, ``leaf`` (made anew with gradients on) or ``weights``: the
    numbers of parameters.
    """

    reason: str
    site: Site


@dataclass(frozen=True, slots=True)
class Gradient:
    """``flows`` is ``True``, ``False`` or ``None`` (not known); ``cuts`` are where something was cut off.

    ``trained`` says that the gradient goes to the parameters of a model, not just to an input made with gradients on;
    where it is not known whether one flows, that is where it would go.
    """

    flows: bool | None
    cuts: tuple[Cut, ...] = ()
    trained: bool = False


_OF_CLASSES = frozenset(  # whose targets are integers, which carry none, whatever they come from
    f"torch.nn.functional.{name}" for name in ("ctc_loss", "nll_loss", "multi_margin_loss", "multilabel_margin_loss")
)
_LOSS = re.compile(r"loss|criteri|(^|_)crit(_|$)|objective", re.IGNORECASE)
_READS_GRADIENT = re.compile(r"\.grad\b(?!\s*=[^=])")

_NONE = Gradient(False)
_UNKNOWN = Gradient(None)
_FLOWS = Gradient(True, trained=True)
_INPUT = Gradient(True)


@dataclass(slots=True)
class _Search:
    """What one question has found out so far: a value that many others are computed from is followed once.

    ``known`` has values with their gradients, by the identity of the value.
    """

    machine: Machine
    known: dict[int, tuple[Value, Gradient]] = field(default_factory=dict)


def gradient_of(machine: Machine, value: Value) -> Gradient:
    """Follow a value back to what it was computed from."""
    return _gradient(_Search(machine), value, 0)


def _gradient(search: _Search, value: Value, depth: int) -> Gradient:
    known = search.known.get(id(value))
    if known is not None:
        return known[1]
    search.known[id(value)] = value, _UNKNOWN  # what is computed from itself, in a loop
    found = _followed(search, value, depth)
    search.known[id(value)] = value, found
    return found


def _followed(search: _Search, value: Value, depth: int) -> Gradient:
    if depth > _MAX_DEPTH:
        return _UNKNOWN
    if isinstance(value, Const | Setting | External):  # a number, or the name of a type
        return _NONE
    if isinstance(value, Choice):
        return _one_of(_gradient(search, option, depth + 1) for _, option in value.options)
    if isinstance(value, Items):
        return _combine(_gradient(search, item, depth + 1) for item in value.items)
    if isinstance(value, Table):
        return _combine(_gradient(search, item, depth + 1) for item in value.contents.values())
    if isinstance(value, Instance):
        return _FLOWS if value.library_name == "torch.nn.Parameter" else _UNKNOWN
    if isinstance(value, Symbol):
        return _of_symbol(search, value, depth)
    return _UNKNOWN


def _all_cuts(parts: list[Gradient]) -> tuple[Cut, ...]:
    return tuple(dict.fromkeys(cut for part in parts for cut in part.cuts))


def _one_of(parts: Iterable[Gradient]) -> Gradient:
    """The gradient of one of several alternatives: nothing is claimed unless they agree."""
    found = list(parts)
    flows = {part.flows for part in found}
    cuts = _all_cuts(found)
    agreed = found[0].flows if len(flows) == 1 else None if None in flows else True
    return Gradient(agreed, cuts, any(part.trained for part in found))


def _combine(parts: Iterable[Gradient]) -> Gradient:
    """The gradient of something computed from several parts: one that carries is enough."""
    found = list(parts)
    cuts = _all_cuts(found)
    if any(part.flows for part in found):
        return Gradient(True, cuts, any(part.trained for part in found))
    if any(part.flows is None for part in found):
        return Gradient(None, cuts, any(part.trained for part in found))
    return Gradient(False, cuts)


def _of_symbol(search: _Search, value: Symbol, depth: int) -> Gradient:
    if value.name == "element":
        return _of_element(search, value.inputs[0], depth)
    leaf = _made_anew(search, value, depth)  # which it also is where gradients are off
    return leaf if leaf is not None else _computed(search, value, depth)


def _computed(search: _Search, value: Symbol, depth: int) -> Gradient:
    """The gradient of a value as it was computed, whatever was switched on afterwards."""
    if value.grad == "off" and value.name not in _DATA and not _is_kept(value):
        return Gradient(False, (Cut("no_grad", value.site),) if value.site is not None else ())
    if value.grad == "unknown":
        return _UNKNOWN
    if detaches(search.machine, value):
        inner = _combine(_gradient(search, part, depth + 1) for part in value.inputs)
        cut = (Cut("detach", value.site),) if inner.trained and value.site is not None else ()
        return Gradient(False, inner.cuts + cut)
    if value.name in _DATA or value.name in _RANDOM:
        return _NONE
    if value.name in _LIKE:
        return _UNKNOWN
    if value.name in ("parameters", "named_parameters"):
        return _FLOWS
    if value.name == "state_dict" or (value.name == "attribute" and value.detail == "data"):
        weights = _of_weights(search.machine, value)
        if weights is not None:
            return weights
    if value.name == "scaled":
        return _gradient(search, value.inputs[1], depth + 1)
    return _of_operation(search, value, depth)


def _of_weights(machine: Machine, value: Symbol) -> Gradient | None:
    """The numbers of weights alone: a state dict, unless its call says otherwise, or the data of a parameter."""
    call, base = value.site.node if value.site is not None else None, value.inputs[0] if value.inputs else value
    if value.name == "state_dict":
        is_plain = isinstance(call, ast.Call) and not call.args and not call.keywords
        is_cut = is_plain and known_or_guessed(machine, base) in ("module", "wrapper")
    else:
        beside = base.inputs[0] if isinstance(base, Symbol) and base.name == "item" and base.detail == 1 else base
        of = element_of(beside)
        is_cut = isinstance(of, Symbol) and of.name == ("parameters" if beside is base else "named_parameters")
    return Gradient(False, (Cut("weights", value.site),)) if is_cut and value.site is not None else None


def _of_element(search: _Search, source: Value, depth: int) -> Gradient:
    """What an iteration yields is data, unless it goes over something that was computed."""
    if isinstance(source, Items | Table | Choice):
        inner = _gradient(search, source, depth + 1)
        return inner if inner.flows else _UNKNOWN
    if isinstance(source, Symbol) and (
        source.name in ("call", "parameters", "named_parameters")
        or source.name[:1] == "."
        or is_tensor_operation(source)
    ):
        return _gradient(search, source, depth + 1)
    if isinstance(source, Symbol) and source.name in ("zip", "enumerate", "reversed"):
        return _combine(_of_element(search, part, depth + 1) for part in source.inputs)
    if isinstance(source, Symbol) and source.name == "attribute" and guess_role(source) != "loader":
        return _UNKNOWN  # a list that an object keeps: of samples, or of what was computed before
    return _NONE


def _of_operation(search: _Search, value: Symbol, depth: int) -> Gradient:
    name = value.name
    forced = force(search.machine, value)
    if forced is not value:
        inner = _gradient(search, forced, depth + 1)
        return inner if inner.flows is not None else _FLOWS  # a model, whatever it does inside, has parameters
    if name in ("forward", "call"):
        callee = value.inputs[0]
        if known_or_guessed(search.machine, callee) in ("module", "wrapper"):
            return _FLOWS
        if not _is_loss(value):
            return _UNKNOWN
        inner = _combine(_gradient(search, part, depth + 1) for part in value.inputs[1:])
        return Gradient(None, inner.cuts, inner.trained)  # what a loss that is not known makes of a model's output
    if name.startswith("torch.nn.") and name.endswith("()"):
        if name.removeprefix("torch.nn.").startswith(_WITH_PARAMETERS):
            return _FLOWS
        return _combine(_gradient(search, part, depth + 1) for part in value.inputs[1:])
    if name == "attribute":
        return _of_attribute(search, value, depth)
    if name in ("item", "slice"):
        found = origins(search.machine, value)
        if len(found) == 1 and found[0].value is not value:
            return _gradient(search, found[0].value, depth + 1)
        return _gradient(search, value.inputs[0], depth + 1)
    if name[1:] in search.machine.facts.shape_only_methods and name.startswith(".") and value.inputs:
        return _gradient(search, value.inputs[0], depth + 1)  # whatever the device or the shape
    if name in _OF_CLASSES and value.arguments is not None and value.arguments.positional:
        return _gradient(search, value.arguments.positional[0], depth + 1)
    if name in _OPERATORS or name in ("sum", "abs", "max", "min", "filter") or name.startswith((".", "torch.")):
        return _combine(_gradient(search, part, depth + 1) for part in value.inputs)
    if name.startswith("numpy."):
        return _NONE
    return _UNKNOWN


def _of_attribute(search: _Search, value: Symbol, depth: int) -> Gradient:
    """The gradient of ``x.T`` or ``x.max(1).values`` is that of what they are of; ``x.shape`` has none."""
    base = value.inputs[0]
    is_of_tensor = isinstance(base, Symbol) and is_tensor_operation(base)
    if (is_of_tensor and value.detail in _VIEWS) or (value.detail == "data" and _is_packed(search.machine, base)):
        return _gradient(search, base, depth + 1)
    return _NONE if is_of_tensor and value.detail in _INTEGERS else _UNKNOWN


def _is_loss(value: Symbol) -> bool:
    """Whether a value is what something unresolved that is called a loss returned."""
    return value.name == "call" and bool(_LOSS.search(name_of(value.inputs[0])))


def _is_kept(value: Symbol) -> bool:
    """Whether a value is an attribute that an object keeps: it need not be computed where it is read."""
    if value.name != "attribute":
        return False
    owner = value.inputs[0]
    return not (isinstance(owner, Symbol) and is_tensor_operation(owner))


def detaches(machine: Machine, value: Value) -> bool:
    """Whether a value is what cuts a gradient off: ``x.detach()``, ``x.data``, ``x.item()``."""
    if not isinstance(value, Symbol):
        return False
    facts = machine.facts
    if value.name == "attribute":
        base = value.inputs[0]
        if value.detail != "data" or not isinstance(base, Symbol):
            return False
        return (is_tensor_operation(base) or _is_loss(base)) and not _is_packed(machine, base)
    if value.name.startswith("."):
        return value.name[1:] in facts.detach_methods
    given = value.inputs[0] if value.inputs else None
    if value.name in facts.detach_of_lists:
        return isinstance(given, Items)
    return value.name in facts.detach and not isinstance(given, Const)


def passes_none_on(machine: Machine, value: Value) -> bool:
    """Whether no gradient goes back through a value to what it was computed from: it is cut off there, or only the
    shape counts, or what comes out are no numbers that a gradient could change (`scores > 0`, `scores.size(0)`)."""
    if not isinstance(value, Symbol):
        return False
    is_of_shape = value.name in _SHAPES or (value.name == "attribute" and value.detail in _INTEGERS)
    return is_of_shape or value.name in _LIKE or value.name == "compare" or detaches(machine, value)


def _is_packed(machine: Machine, value: Value, depth: int = 3) -> bool:
    """Whether a value is a packed sequence, or came from one by a layer that returns another."""
    if not isinstance(value, Symbol) or value.name == "attribute" or value.name.endswith("pad_packed_sequence"):
        return False
    return value.name in machine.facts.packed or (
        depth > 0 and any(_is_packed(machine, part, depth - 1) for part in value.inputs)
    )


def _is_made_up(value: Symbol) -> bool:
    """Whether a tensor is computed from numbers alone, and from nothing that a model, a loss or a function returned."""
    found = (source for source in sources(value) if source is not value and isinstance(source, Symbol))
    return all(
        source.name in _OPERATORS or source.name.startswith((".", "torch.ones", "torch.zeros")) for source in found
    )


def _made_anew(search: _Search, value: Symbol, depth: int) -> Gradient | None:
    """A tensor made with ``requires_grad`` set: a new leaf, whatever its numbers were computed from."""
    given = switch = value.attributes.get("requires_grad") if value._attributes else None
    if given is None and value.arguments is not None:
        given = value.arguments.keywords.get("requires_grad")
    if value.name == ".requires_grad_":
        given = switch = value.inputs[1] if len(value.inputs) > 1 else Const(True)
    if isinstance(given, Choice):
        return _UNKNOWN if any(isinstance(each, Const) and each.value is True for _, each in given.options) else None
    if not isinstance(given, Const) or given.value is not True or not value.inputs:
        return None
    if value.name in _LIKE:
        return _INPUT
    if switch is not None:  # which does nothing to what has gradients already
        own = _computed(search, value, depth)
        if own.flows or (own.flows is None and depth == 0):
            return own
    inner = _gradient(search, value.inputs[0], depth + 1)  # the others are its type and its device
    computed = depth == 0 and not isinstance(value.inputs[0], Const)  # backward from itself
    is_cut = any(cut.reason != "weights" for cut in inner.cuts)  # of which a copy may be trained by itself
    if not (inner.trained or is_cut or computed) or value.site is None or (switch and _is_made_up(value)):
        return _INPUT
    module = value.site.module
    if depth > 0 and module.contains(_READS_GRADIENT):
        return _INPUT  # to keep the gradient there, and to send it on later
    return Gradient(False, (*inner.cuts, Cut("leaf", value.site)))
