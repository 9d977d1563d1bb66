"""Which part of the data something is for, told by names and texts: training, or validation and test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from dllint.events import Frame
from dllint.interp.run.graph import sources
from dllint.interp.source.phases import phases_in
from dllint.values import Const, Setting, Symbol, Value

TRAIN = "train"
EVAL = "eval"


def part_of_text(text: str) -> str:
    """``train``, ``eval``, or nothing when a name or path speaks of neither or of both."""
    found = {TRAIN if phase == "training" else EVAL for phase in phases_in(text)}
    return found.pop() if len(found) == 1 else ""


def part_of_texts(texts: Iterable[str]) -> str:
    """The part that all texts that speak of one agree on."""
    found = {part for text in texts if (part := part_of_text(text))}
    return found.pop() if len(found) == 1 else ""


def texts_in(value: Value) -> Iterator[str]:
    """The names and constant texts that a value was put together from, such as the parts of a path."""
    for source in islice(sources(value), 24):
        if isinstance(source, Const):
            if isinstance(source.value, str):
                yield source.value
        elif isinstance(source, Setting):
            yield source.name
        elif isinstance(source, Symbol):
            if source.hint:
                yield source.hint
            if isinstance(source.detail, str) and source.name in ("attribute", "parameter", "item", "unknown"):
                yield source.detail


_HOOKS = {"train_dataloader": TRAIN, **dict.fromkeys(("val_dataloader", "test_dataloader", "predict_dataloader"), EVAL)}


def part_of_hook(frames: Iterable[Frame]) -> str:
    """What a loader is for that Lightning asks a method for, by the calls around it; empty for any other."""
    hooks = (each.function for each in frames if each.framework.startswith("lightning") and each.function in _HOOKS)
    return next((_HOOKS[hook] for hook in hooks), "")
