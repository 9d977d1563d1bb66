"""Padding: where the sequences of a batch were padded to one length, with what, and whether a mask takes it out."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from dllint.assumptions import Assumption
from dllint.choices import Choice, alternatives, choose
from dllint.dataclass import dataclass
from dllint.interp.ask import collected
from dllint.interp.ask.attempts import returned
from dllint.interp.ask.samples import batch_behind, in_collated, in_samples
from dllint.interp.run import graph, roles
from dllint.sites import Site
from dllint.values import Const, Instance, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_PAD_PACKED = "torch.nn.utils.rnn.pad_packed_sequence"
_PAD = "torch.nn.functional.pad"
_MADE_OF_LISTS = ("torch.tensor", "torch.as_tensor", "torch.LongTensor", "numpy.array")
_STACKS = ("torch.stack", "torch.vstack")
_FILLED = ("torch.zeros", "torch.full")
_ROWS = re.compile(r"\(?\w+, :[^:,]+\)?")
_MAX_STEPS = 40


@dataclass(frozen=True, slots=True)
class Padding:
    """Where sequences are padded, and with what (``None``: with the padding token of a tokenizer).

    ``to_longest`` tells that they get the length of the longest in their batch: a batch of one is not padded at all.
    ``tokenizer`` is the one whose token is meant.
    """

    site: Site | None
    value: Value | None
    assumptions: tuple[Assumption, ...] = ()
    to_longest: bool = False
    tokenizer: Value | None = None


def padding_of(machine: Machine, value: Value) -> Padding | None:
    """The padding of a batch, if it reaches a value unchanged: not packed, masked, indexed or written over."""
    for _ in range(_MAX_STEPS):
        if isinstance(value, Choice):
            found = [padding_of(machine, option) for _, option in value.options]
            return found[0] if all(found) else None
        filled = _filled(machine, value)
        if filled is not None:
            return filled
        if _is_written(value):
            return None
        made = _made_here(machine, value)
        if made is not None:
            return made
        before = _before(machine, value)
        if before is None:
            return None
        value = before
    return None


def _is_written(value: Value) -> bool:
    """Whether some items of a tensor are set, as in ``labels[labels == pad] = -100``."""
    held = value.attributes.items() if isinstance(value, Symbol | Instance) else ()
    return any(name.startswith("[") and not _is_read(kept) for name, kept in held)


def _is_read(kept: Value) -> bool:
    """Whether an item that is kept with a tensor was read from it, rather than set."""
    return all(isinstance(option, Symbol) and option.name == "item" for _, option in alternatives(kept))


def _before(machine: Machine, value: Value) -> Value | None:
    """The value one step nearer to the padding, behind what changes neither numbers nor which of them are there."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    name, base, facts = value.name, value.inputs[0], machine.facts
    if name == "slice":
        return base
    held = _held_by_returned(machine, value)
    if held is not None:
        return held
    if batch_behind(value) is not None:  # a loader stacks what is padded to one length already
        parts = in_samples(machine, value)
        return choose([((), part) for part in parts if part is not None]) if parts and None not in parts else None
    if name == "item":
        return base if len(value.inputs) > 1 and _is_plain_index(value.inputs[1]) else None
    if name == "attribute":
        return base if value.detail in ("data", "T", "mT") else None
    if name in facts.packed:
        return None  # packing leaves the padding out
    is_shape = name[1:] in facts.shape_only_methods if name.startswith(".") else name in facts.shape_only
    return base if is_shape or name == "torch.autograd.Variable" else None


def _held_by_returned(machine: Machine, part: Symbol) -> Value | None:
    """The part of what a call returns that was not entered, such as that of a class which puts batches together."""
    whole = returned(machine, part.inputs[0]) if part.name in ("item", "attribute") else None
    found: list[Value | None] = []
    for _, option in alternatives(whole) if whole is not None else ():
        if isinstance(option, Instance) and part.name == "attribute":
            found.append(option.attributes.get(part.detail))
        else:
            found.append(collected.at(option, part.detail))
    return choose([((), each) for each in found if each is not None]) if found and None not in found else None


def _is_plain_index(index: Value) -> bool:
    """Whether an index takes a part of a tensor by place, and not by a mask."""
    if isinstance(index, Items):
        return all(_is_plain_index(part) for part in index.items)
    if isinstance(index, Const):
        return not isinstance(index.value, str)
    if not isinstance(index, Symbol):
        return False
    return index.name == "counter" or (index.site is not None and isinstance(index.site.node, ast.Slice))


def _made_here(machine: Machine, value: Value) -> Padding | None:
    """The padding that an operation does."""
    tokens = _tokens(machine, value)
    if tokens is not None:
        assumed = Assumption("effect", "the texts of a batch differ in length")
        to_longest = "max_length" not in _flags(tokens)
        are_several = not to_longest or _are_several(tokens)
        return Padding(tokens.site, None, () if are_several else (assumed,), to_longest, tokens.inputs[0])
    name = value.library_name if isinstance(value, Instance) else getattr(value, "name", "")
    if not isinstance(value, Symbol | Instance) or value.arguments is None:
        return None
    if name == _PAD_SEQUENCE:
        return Padding(value.site, value.arguments.get(2, "padding_value") or Const(0), (), True)
    if name == _PAD_PACKED:  # which fills with a value of its own what packing has left out
        return Padding(value.site, value.arguments.get(2, "padding_value") or Const(0), (), True)
    first = value.arguments.get(0, None)
    is_single = not isinstance(first, Items) or (first.tail is not None and not isinstance(first.tail.items[0], Items))
    rows = [first] if is_single and first is not None else first.items if isinstance(first, Items) else ()
    if name in _STACKS:
        listed = rows if isinstance(first, Items) else ()
        found = [_padded_row(row) or _padded_in_samples(machine, row) for row in listed]
    elif name in _MADE_OF_LISTS:
        found = [_padded_list(row) for row in rows]
    else:
        return None
    return found[0] if found and all(found) else None


def _padded_row(row: Value) -> Padding | None:
    """``F.pad(y, (0, n - len(y)), value=c)``."""
    if not isinstance(row, Symbol) or row.name != _PAD or row.arguments is None:
        return None
    mode = row.arguments.get(2, "mode")
    if mode is not None and not (isinstance(mode, Const) and mode.value == "constant"):
        return None
    assumed = Assumption("effect", "the rows are sequences, which differ in length")
    return Padding(row.site, row.arguments.get(3, "value") or Const(0), (assumed,))


def _padded_in_samples(machine: Machine, row: Value) -> Padding | None:
    """The padding of a part of the samples that a loader gives its ``collate_fn``, which stacks them."""
    found = [padding_of(machine, part) if part is not None else None for part in in_collated(machine, row)]
    return found[0] if found and all(found) else None


def _padded_list(row: Value) -> Padding | None:
    """``y + [c] * (n - len(y))``, perhaps for those alone that are shorter."""
    options = [option for _, option in alternatives(row)]
    padded = {id(option): tail for option in options if (tail := _tail(option)) is not None}
    short = [option.inputs[0] for option in options if id(option) in padded and isinstance(option, Symbol)]
    before = {id(each) for value in short for each in (value, *(option for _, option in alternatives(value)))}
    listed = [option for option in options if id(option) in padded and isinstance(option, Items)]
    before |= {id(each) for each in options if any(_is_beginning(each, of) for of in listed)}
    if not padded or any(id(option) not in padded and id(option) not in before for option in options):
        return None
    tail = next(iter(padded.values()))
    return Padding(tail.site, tail.items[0])


def _is_beginning(value: Value, whole: Items) -> bool:
    """Whether a list has nothing but what another one begins with, as what is long enough."""
    return isinstance(value, Items) and value.items == whole.items[: len(value.items)]


def _is_what_is_missing(tail: Items, row: Items) -> bool:
    """Whether a number is repeated so many times as a list is too short: ``[0] * (n - len(ids))``.

    The list is the one that is filled up, as it is or was before, or what it is made of.
    """
    times = list(graph.sources(tail.times, _MAX_STEPS)) if tail.times is not None and len(tail.items) == 1 else []
    is_difference = any(isinstance(each, Symbol) and each.name == "-" for each in times)
    counted = [each.inputs[0] for each in times if isinstance(each, Symbol) and each.name == "len" and each.inputs]
    made_of = {id(each) for item in row.items for each in graph.sources(item, _MAX_STEPS)}
    return is_difference and any(
        each is row or id(each) in made_of or (isinstance(each, Items) and each.items and _is_beginning(each, row))
        for each in counted
    )


def _tail(row: Value) -> Items | None:
    """What is put behind a list, so many times as it is too short."""
    if isinstance(row, Items):
        return row.tail if row.tail is not None and _is_what_is_missing(row.tail, row) else None
    if not isinstance(row, Symbol) or row.name != "+" or len(row.inputs) != 2:
        return None
    tail = row.inputs[1]
    return tail if isinstance(tail, Items) and not tail.exact and len(tail.items) == 1 else None


def _filled(machine: Machine, value: Value) -> Padding | None:
    """``torch.zeros(len(ys), longest)`` into whose rows sequences of their own length are written."""
    written = value.attributes if isinstance(value, Symbol) else {}
    if not any(_ROWS.fullmatch(name[1:-1]) and isinstance(held, Symbol) for name, held in written.items()):
        return None
    made: Value | None = value
    while isinstance(made, Symbol) and made.name not in _FILLED:
        made = _before(machine, made)
    if not isinstance(made, Symbol) or made.arguments is None:
        return None
    fill = made.arguments.get(1, "fill_value") if made.name == "torch.full" else Const(0)
    assumed = Assumption("effect", "what is written into the rows are sequences, which differ in length")
    return Padding(made.site, fill, (assumed,)) if fill is not None else None


def _tokens(machine: Machine, value: Value) -> Symbol | None:
    """The call of a tokenizer that pads, if a value is the token numbers that it returns."""
    is_item = isinstance(value, Symbol) and value.name in ("item", "attribute") and value.detail == "input_ids"
    base = value.inputs[0] if is_item and isinstance(value, Symbol) else None
    while isinstance(base, Symbol) and base.name == ".to":
        base = base.inputs[0]
    if not isinstance(base, Symbol) or base.arguments is None or not _is_tokenizer(machine, base):
        return None
    return base if any(flag in (True, "longest", "max_length") for flag in _flags(base)) else None


def _are_several(call: Symbol) -> bool:
    """Whether a tokenizer is certainly given several texts, which then differ in length, or nobody would pad them."""
    texts = call.arguments.get(0, "text") if call.arguments is not None else None
    is_list = isinstance(texts, Items) and (not texts.exact or len(texts.items) > 1)
    return is_list or (texts is not None and batch_behind(texts) is not None)


def _flags(call: Symbol) -> list[object]:
    """What a call of a tokenizer is told about padding."""
    keywords = call.arguments.keywords if call.arguments is not None else {}
    flags = [_constant(keywords["padding"])] if "padding" in keywords else []
    is_to_fixed = "pad_to_max_length" in keywords and _constant(keywords["pad_to_max_length"]) is True
    return [*flags, "max_length"] if is_to_fixed else flags


def _constant(value: Value) -> object:
    value = value.default if isinstance(value, Setting) else value
    return value.value if isinstance(value, Const) else None


def _is_tokenizer(machine: Machine, call: Symbol) -> bool:
    for callee in graph.objects(machine, call.inputs[0]) if call.inputs else ():
        name = callee.library_name if isinstance(callee, Instance) else roles.name_of(callee)
        if "token" in name.lower():
            return True
    return False
