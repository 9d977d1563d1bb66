"""What is noticed about images in this process: those that OpenCV reads, and those that torchvision normalizes.

A worker does not report: what is noticed in a process stays there, until the worker writes it down with its first
batch. What is read is looked at while a batch is fetched that is noted down, and not at any other time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from dllint.confirm.evidence import Stack
from dllint.confirm.inside import channels
from dllint.confirm.inside.parts import tensors
from dllint.confirm.inside.stacks import stack

_MOST = 64  # images of a batch that are looked at
_DEPTH = 3  # tuples and dicts around what is normalized


@dataclass(slots=True)
class Normalized:
    """Calls of a ``Normalize`` from one place: how many, how many changed the number of channels, and how many were
    refused for it; with the channels before and after one of those, else of the last."""

    made: list[list[Any]] = field(default_factory=list)  # where; a stack in plain lists
    called: list[list[Any]] = field(default_factory=list)
    calls: int = 0
    changed: int = 0
    refused: int = 0
    before: int = 0
    after: int = 0


NORMALISED: dict[tuple[Stack, Stack], Normalized] = {}
"""What has been normalized in this process, by where the ``Normalize`` was made and where it is called."""

_read: list[channels.Source] = []
_is_fetching = [False]


def begin_fetch(is_worker: bool) -> None:
    """Look at what is read from now on; in a worker, which tells what it notices, forget what it has told."""
    _read.clear()
    _is_fetching[0] = True
    if is_worker:
        NORMALISED.clear()


def orders(samples: list[Any]) -> list[dict[str, Any]]:
    """The order of the channels of samples beside that of the images they were made of, in plain data."""
    found: list[dict[str, Any]] = []
    if _read:
        carefully(lambda: found.extend(asdict(order) for order in channels.compare(samples, list(_read))))
    return found


def end_fetch() -> None:
    """Look no more at what is read."""
    _read.clear()
    _is_fetching[0] = False


def normalized() -> list[dict[str, Any]]:
    """What has been normalized in this process, in plain data."""
    return [asdict(seen) for seen in NORMALISED.values()]


def note_read(image: Any) -> None:
    """OpenCV has read an image, blue first."""
    if not _is_fetching[0] or len(_read) == _MOST:
        return
    source = channels.source_of(image, _plain(stack()))
    if source is not None:
        _read.append(source)


def _plain(place: Stack) -> list[list[Any]]:
    """A stack in plain lists, as notes hold it."""
    return [[frame.path, frame.line, frame.function] for frame in place]


def carefully(action: Callable[..., None], *arguments: Any) -> None:
    """Do something of dllint's own. Never raises its errors."""
    try:
        action(*arguments)
    except Exception as error:  # the script must go on as without dllint
        print(f"dllint confirm: an image cannot be looked at: {error!r}", file=sys.stderr)


def note_normalized(made: Stack, inputs: Any, result: Any) -> None:
    """``Normalize``, made at a place, has made ``result`` of ``inputs``."""
    before, after = _channels(inputs), _channels(result)
    if not before or not after:
        return
    seen = _seen(made)
    seen.calls += 1
    seen.changed += before != after
    if before != after or not seen.changed:
        seen.before, seen.after = before, after


def note_refused(means: int, made: Stack, inputs: Any) -> None:
    """``Normalize`` has raised an exception."""
    before = _channels(inputs)
    if before and means not in (1, before):
        seen = _seen(made)
        seen.calls += 1
        seen.refused += 1
        seen.before, seen.after = before, means


def _seen(made: Stack) -> Normalized:
    called = stack()
    seen = NORMALISED.get((made, called))
    if seen is None:
        seen = NORMALISED[made, called] = Normalized(_plain(made), _plain(called))
    return seen


def _channels(value: Any) -> int:
    """The channels of the first image in what is given; 0 if there is none."""
    return next((int(part.shape[-3]) for part in tensors(value, _DEPTH) if part.dim() > 2), 0)
