"""Watches what OpenCV reads, and torchvision's ``Normalize``, in this process and in workers as well."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from dllint.confirm.evidence import Stack
from dllint.confirm.inside import images
from dllint.confirm.inside.patching import replace, when_imported
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import stack

_IN_COLOUR_ORDER = 256  # OpenCV's IMREAD_COLOR_RGB
_NORMALISERS = ("torchvision.transforms.transforms", "torchvision.transforms.v2._misc")


def observe_all(run: Run) -> None:
    """Observe them as soon as they have been imported."""
    when_imported(run, "cv2", _observe_opencv)
    for name in _NORMALISERS:
        when_imported(run, name, _observe_normalizer)


def _observe_opencv(_: Run, module: Any) -> None:
    for name in ("imread", "imdecode"):
        _watch(module, name, _has_read)
    _watch(module.VideoCapture, "read", lambda result, *_: images.note_read(result[1]))


def _has_read(image: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    flags = named.get("flags", arguments[1] if len(arguments) > 1 else 1)
    if not (isinstance(flags, int) and flags > 0 and flags & _IN_COLOUR_ORDER):
        images.note_read(image)


def _watch(owner: Any, name: str, after: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]) -> None:
    """Have a function watched, in whichever process it is called."""

    def watched(original: Any, *arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        images.carefully(after, result, arguments, named)
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
            images.carefully(images.note_refused, len(normalizer.mean), made, inputs)
            raise
        images.carefully(images.note_normalized, made, inputs, result)
        return result

    replace(kind, "__init__", making)
    replace(kind, "__call__", normalizing)  # not `forward`, which TorchScript reads
