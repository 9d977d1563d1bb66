"""Labels that are set to a number which stands for no class, so that a loss leaves them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from dllint.choices import Choice, alternatives
from dllint.dataclass import dataclass
from dllint.interp.ask.samples import batch_behind, in_collated, in_samples
from dllint.sites import Site
from dllint.values import Const, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_FILLING = {"masked_fill": 1, "masked_fill_": 1, "fill_": 0}
_MADE_OF = {"torch.full": "fill_value", "torch.full_like": "fill_value"}
_WHERE = frozenset(("torch.where", ".where"))
_KEEPING = frozenset((".clone", ".detach", ".cuda", ".cpu", ".to", ".long", ".int", "torch.autograd.Variable"))
_PUT_TOGETHER = frozenset(("torch.stack", "torch.cat", "torch.nn.utils.rnn.pad_sequence"))
_MADE_OF_LISTS = frozenset(("torch.tensor", "torch.as_tensor", "torch.LongTensor", "numpy.array"))
_MAX_STEPS = 20


@dataclass(frozen=True, slots=True)
class Mark:
    """A number that some labels are set to, and where."""

    number: int
    site: Site


def marks_in(machine: Machine, target: Value, steps: int = _MAX_STEPS) -> list[Mark]:
    """The numbers below 0 that labels are set to on the way to a value, whichever of several things it is."""
    if isinstance(target, Choice):
        found = [marks_in(machine, option, steps - 1) for _, option in target.options] if steps else [[]]
        return found[0] if all(found) else []
    if not isinstance(target, Symbol) or steps == 0:
        return []
    marks = list(_set_in(target))
    parts = in_samples(machine, target) if batch_behind(target) is not None else in_collated(machine, target)
    if parts:
        for part in parts:
            marks += marks_in(machine, part, steps - 1) if part is not None else []
    elif target.name in _PUT_TOGETHER and target.arguments is not None:
        given = target.arguments.get(0, None)
        for each in given.items if isinstance(given, Items) else (given,) if given is not None else ():
            marks += marks_in(machine, each, steps - 1)
    elif target.name in _MADE_OF_LISTS and target.inputs:
        marks += _listed(target.inputs[0])
    elif target.inputs and _is_kept(machine, target):
        marks += marks_in(machine, target.inputs[0], steps - 1)
    return marks


def _listed(value: Value, steps: int = _MAX_STEPS) -> list[Mark]:
    """The marks in a list of labels, whichever of several: ``[-100] * n + labels``, or what a loop put into it."""
    if steps == 0:
        return []
    if isinstance(value, Choice):
        found = [_listed(option, steps - 1) for _, option in value.options]
        return found[0] if all(found) else []
    if isinstance(value, Items):
        labels = [option for each in value.items for _, option in alternatives(each)]
        marks = [Mark(each.value, each.site) for each in labels if _is_mark(each) and each.site is not None]
        return [*marks, *(mark for each in labels for mark in _listed(each, steps - 1))]
    summands = value.inputs if isinstance(value, Symbol) and value.name == "+" else ()
    is_of_lists = any(isinstance(each, Items) for each in summands)
    return [mark for each in summands for mark in _listed(each, steps - 1)] if is_of_lists else []


def _is_mark(value: Value | None) -> TypeGuard[Const]:
    number = value.value if isinstance(value, Const) else None
    return isinstance(number, int) and number < 0


def _set_in(target: Symbol) -> Iterator[Mark]:
    """The marks that are set in a value itself: ``y[:n] = -1``, ``y.masked_fill(mask, -1)``."""
    given: list[Value | None] = [kept for name, kept in target.attributes.items() if name.startswith("[")]
    method = target.name.removeprefix(".")
    if target.arguments is not None and method in _FILLING:
        given.append(target.arguments.get(_FILLING[method], "value"))
    elif target.arguments is not None and target.name in _MADE_OF:
        given.append(target.arguments.get(1, _MADE_OF[target.name]))
    elif target.name in _WHERE:
        given.extend(target.inputs)
    for value in given:
        if _is_mark(value) and value.site is not None:
            yield Mark(value.value, value.site)


def _is_kept(machine: Machine, value: Symbol) -> bool:
    """Whether an operation leaves marks where they are, in another shape or at another place."""
    name, facts = value.name, machine.facts
    if name in _KEEPING or name in ("slice", *_WHERE) or name.removeprefix(".") in _FILLING:
        return True
    return name in facts.shape_only or (name[:1] == "." and name[1:] in facts.shape_only_methods)
