"""Labels that are set to a number which stands for no class, so that a loss leaves them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from dllint.choices import Choice, alternatives
from dllint.dataclass import dataclass
from dllint.interp.ask.samples import batch_behind, in_collated, in_samples
from dllint.sites import Site
from dllint.values import Const, External, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_FILLING = {"masked_fill": 1, "masked_fill_": 1, "fill_": 0}
_MADE_OF = {"torch.full": "fill_value", "torch.full_like": "fill_value"}
_EQUAL = frozenset((".eq", "torch.eq"))
_WHERE = frozenset(("torch.where", ".where"))
_KEEPING = frozenset(
    (
        ".clone",
        ".detach",
        ".cuda",
        ".cpu",
        ".to",
        ".long",
        ".int",
        ".copy",
        "torch.from_numpy",
        "torch.autograd.Variable",
    )
)
_PUT_TOGETHER = frozenset(("torch.stack", "torch.cat", "torch.nn.utils.rnn.pad_sequence"))
_MADE_OF_LISTS = frozenset(("torch.tensor", "torch.as_tensor", "torch.LongTensor", "numpy.array"))
_WIDE = frozenset(("int", "long", "int64", "int32", "int16"))  # which have room for any mark
_OF_PICTURES = 255  # the mark of labels that are kept in pictures
_MAX_STEPS = 20


@dataclass(frozen=True, slots=True)
class Mark:
    """A number that some labels are set to, and where."""

    number: int
    site: Site


def marks_in(machine: Machine, target: Value, steps: int = _MAX_STEPS) -> list[Mark]:
    """The numbers that labels are set to on the way to a value, whichever of several things it is: below 0, or 255."""
    if isinstance(target, Choice):
        found = [marks_in(machine, option, steps - 1) for _, option in target.options] if steps else [[]]
        return found[0] if all(found) else []
    if not isinstance(target, Symbol) or steps == 0:
        return []
    set_here, replaced = list(_set_in(target)), _replaced_in(target)
    before = _set_before(machine, target, steps)
    return [*set_here, *(mark for mark in before if mark.number not in replaced)]


def _set_before(machine: Machine, target: Symbol, steps: int) -> list[Mark]:
    """The marks in what a value is made of."""
    marks: list[Mark] = []
    parts = in_samples(machine, target) if batch_behind(target) is not None else in_collated(machine, target)
    if parts:
        for part in parts:
            marks += marks_in(machine, part, steps - 1) if part is not None else []
    elif target.name in _PUT_TOGETHER and target.arguments is not None:
        given = target.arguments.get(0, None)
        for each in given.items if isinstance(given, Items) else (given,) if given is not None else ():
            marks += marks_in(machine, each, steps - 1)
    elif target.name in _MADE_OF_LISTS and target.inputs:
        marks += [*_listed(target.inputs[0]), *_of_array(machine, target.inputs[0], steps - 1)]
    elif target.inputs and _is_kept(machine, target):
        marks += marks_in(machine, target.inputs[0], steps - 1)
    return marks


def _of_array(machine: Machine, value: Value, steps: int) -> list[Mark]:
    """The marks in an array that another is made of."""
    return marks_in(machine, value, steps) if isinstance(value, Symbol) and value.name != "+" else []


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
    return isinstance(number, int) and (number < 0 or number == _OF_PICTURES)


def _set_in(target: Symbol) -> Iterator[Mark]:
    """The marks that are set in a value itself: ``y[:n] = -1``, ``y.masked_fill(mask, -1)``."""
    filled = {name: kept for name, kept in target.attributes.items() if name.startswith("[") and not _is_read(kept)}
    given: list[Value | None] = [
        kept
        for name, kept in filled.items()
        if not (_is_mark(kept) and any(f"== {kept.value}" in other for other in filled if other != name))
    ]
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


def _is_read(kept: Value) -> bool:
    return isinstance(kept, Symbol) and kept.name == "item"


def _replaced_in(target: Symbol) -> frozenset[int]:
    """The numbers that a value no longer has, as what is equal to them is set to others: `y[y == 255] = 0`."""
    named = [name for name, kept in target.attributes.items() if name.startswith("[") and not _is_read(kept)]
    found = {int(number) for name in named for number in re.findall(r"== (-?\d+)\]$", name)}
    is_filled = target.name.removeprefix(".") in _FILLING and target.arguments is not None
    mask = target.arguments.get(0, "mask") if is_filled and target.arguments is not None else None
    if target.name in _WHERE and target.inputs:
        mask = target.inputs[0]
    if isinstance(mask, Symbol) and (mask.detail == "Eq" or mask.name in _EQUAL):
        found.update(each.value for each in mask.inputs if isinstance(each, Const) and isinstance(each.value, int))
    return frozenset(found)


def _is_kept(machine: Machine, value: Symbol) -> bool:
    """Whether an operation leaves marks where they are, in another shape or at another place."""
    name, facts = value.name, machine.facts
    if name == ".astype":
        given = value.arguments.get(0, "dtype") if value.arguments is not None else None
        told = given.name if isinstance(given, External) else given.value if isinstance(given, Const) else ""
        return str(told).rpartition(".")[2] in _WIDE
    if name in _KEEPING or name in ("slice", *_WHERE) or name.removeprefix(".") in _FILLING:
        return True
    return name in facts.shape_only or (name[:1] == "." and name[1:] in facts.shape_only_methods)
