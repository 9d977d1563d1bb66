"""What is noticed about images, in this process and in workers: those that OpenCV reads, and those that torchvision
normalizes.

A worker does not report: what is noticed in a process stays there, until the worker writes it down with its first
batch. What is read is looked at while a batch is fetched that is noted down, and not at any other time.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from torch import nn

from dllint.confirm.evidence import Stack
from dllint.confirm.inside import channels
from dllint.confirm.inside.parts import tensors
from dllint.confirm.inside.patching import replace, when_imported
from dllint.confirm.inside.stacks import stack
from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

_MOST = 64  # images of a batch that are looked at
_DEPTH = 3  # tuples and dicts around what is normalized
_IN_COLOUR_ORDER = 256  # OpenCV's IMREAD_COLOR_RGB
_NORMALISERS = ("torchvision.transforms.transforms", "torchvision.transforms.v2._misc")


@dataclass(slots=True)
class Normalized:
    """Calls of a ``Normalize`` from one place: how many, how many changed the number of channels, and how many were
    refused for it; with the channels before and after one of those, else of the last."""

    made: list[list[Any]]  # where; a stack in plain lists
    called: list[list[Any]]
    calls: int = 0
    changed: int = 0
    refused: int = 0
    before: int = 0
    after: int = 0


NORMALISED: dict[tuple[Stack, Stack], Normalized] = {}
"""What has been normalized in this process, by where the ``Normalize`` was made and where it is called."""

_read: list[list[channels.Source]] = []  # while a batch is fetched that is noted down: the images that were read for it


def observe_all(run: Run) -> None:
    """Observe them as soon as they have been imported."""
    when_imported(run, "cv2", _observe_opencv)
    for name in _NORMALISERS:
        when_imported(run, name, _observe_normalizer)


def _observe_opencv(_: Run, module: Any) -> None:
    for name in ("imread", "imdecode"):
        _watch(module, name, _has_read)
    _watch(module.VideoCapture, "read", lambda result, *_: note_read(result[1]))


def _has_read(image: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    flags = named.get("flags", arguments[1] if len(arguments) > 1 else 1)
    if not (isinstance(flags, int) and flags > 0 and flags & _IN_COLOUR_ORDER):
        note_read(image)


def _watch(owner: Any, name: str, after: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> None:
    """Have a function watched, in whichever process it is called."""

    def watched(original: Any, *arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        carefully(after, result, arguments, named)
        return result

    with contextlib.suppress(TypeError, AttributeError):  # some versions lack it, or have classes that do not change
        replace(owner, name, watched)


def _observe_normalizer(_: Run, module: Any) -> None:
    kind = module.Normalize
    places: WeakKeyDictionary[nn.Module, Stack] = WeakKeyDictionary()  # where each was made

    def making(make: Any, normalizer: Any, *arguments: Any, **named: Any) -> None:
        make(normalizer, *arguments, **named)
        places[normalizer] = stack()

    def normalizing(call: Any, normalizer: Any, *inputs: Any, **named: Any) -> Any:
        made = places.get(normalizer, ())
        try:
            result = call(normalizer, *inputs, **named)
        except RuntimeError:
            carefully(_note_normalized, made, inputs, len(normalizer.mean), is_refused=True)
            raise
        carefully(lambda: _note_normalized(made, inputs, _channels(result), is_refused=False))
        return result

    replace(kind, "__init__", making)
    replace(kind, "__call__", normalizing)  # not `forward`, which TorchScript reads


@contextlib.contextmanager
def fetching(*, is_worker: bool) -> Iterator[None]:
    """Look at what is read for a while; in a worker, which tells what it notices, forget what it has told."""
    if is_worker:
        NORMALISED.clear()
    _read[:] = [[]]
    try:
        yield
    finally:
        _read.clear()


def orders(samples: list[Any]) -> list[dict[str, Any]]:
    """The order of the channels of samples beside that of the images they were made of, in plain data."""
    found: list[dict[str, Any]] = []
    if _read and _read[0]:
        carefully(lambda: found.extend(asdict(order) for order in channels.compare(samples, list(_read[0]))))
    return found


def normalized() -> list[dict[str, Any]]:
    """What has been normalized in this process, in plain data."""
    return [asdict(seen) for seen in NORMALISED.values()]


def note_read(image: Any) -> None:
    """OpenCV has read an image, blue first."""
    if _read and len(_read[0]) < _MOST:
        source = channels.source_of(image, _plain(stack()))
        _read[0] += [] if source is None else [source]


def _plain(place: Stack) -> list[list[Any]]:
    """A stack in plain lists, as notes hold it."""
    return [[frame.path, frame.line, frame.function] for frame in place]


def carefully(action: Callable[..., None], *arguments: Any, **named: Any) -> None:
    """Do something of dllint's own. Never raises its errors."""
    try:
        action(*arguments, **named)
    except Exception as error:  # the script must go on as without dllint
        print(f"dllint confirm: an image cannot be looked at: {error!r}", file=sys.stderr)


def _note_normalized(made: Stack, inputs: Any, after: int, *, is_refused: bool) -> None:
    """A ``Normalize``, made at a place, was given images, and made others of them or raised an exception."""
    before, called = _channels(inputs), stack()
    if before and after and not (is_refused and after in (1, before)):
        seen = NORMALISED.setdefault((made, called), Normalized(_plain(made), _plain(called)))
        seen.calls += 1
        seen.refused += is_refused
        seen.changed += before != after and not is_refused
        if before != after or not seen.changed:
            seen.before, seen.after = before, after


def _channels(value: Any) -> int:
    """The channels of the first image in what is given; 0 if there is none."""
    return next((int(part.shape[-3]) for part in tensors(value, _DEPTH) if part.dim() > 2), 0)
