"""DL510: images between zero and one for a model whose weights were trained on normalized ones. Knows the models that a
library loaded weights into, and looks at what they are trained with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn

from dllint.confirm.inside.stacks import frames
from dllint.confirm.probes.base import PlaceProbe, Samples
from dllint.confirm.probes.events import ModelForward, StateRestored, stack_of

_LIBRARIES = ("torchvision.models", "timm.")
_FRAMES = 17  # between the library and what loads
_BRIGHT = 0.2  # mean of images that are not normalized
_NORMALISING = ("mean", "std", "transform", "transform_input", "normalize", "norm_mean", "image_mean", "pixel_mean")


@dataclass(slots=True, eq=False)
class _Images(Samples):
    """The images that models with weights of a library were given at one place; wrong are those from 0 to 1."""

    low: float = 0.0
    high: float = 0.0


class Pretrained(PlaceProbe[_Images]):
    rule = "DL510"
    at_first = 5

    def begin(self) -> None:
        self._loaded: WeakSet[nn.Module] = WeakSet()
        self._models: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def on_state_restored(self, event: StateRestored) -> None:
        if isinstance(event.target, nn.Module) and _is_called_by_library():
            self._loaded.add(event.target)

    def on_model_forward(self, event: ModelForward) -> None:
        if event.grad != "on" or not self._loaded or not self._is_meant(event.model):
            return
        found = [value for value in event.arguments.all() if _are_images(value)]
        seen = self.sample(stack_of(event)) if found else None
        if seen is not None:
            images = found[0].detach().float()
            low, high, mean = torch.stack([*images.aminmax(), images.mean()]).tolist()
            seen.count(low >= 0 and high <= 1 and mean > _BRIGHT)
            seen.low, seen.high = min(seen.low, low), max(seen.high, high)

    def _is_meant(self, module: nn.Module) -> bool:
        """Whether a model is or has one that was loaded, and does not normalize by itself."""
        if module not in self._models:
            parts = list(module.modules())
            normalizes = any(hasattr(part, name) for part in parts[:2] for name in _NORMALISING)
            self._models[module] = not normalizes and any(part in self._loaded for part in parts)
        return self._models[module]


def _is_called_by_library() -> bool:
    names = (str(frame.f_globals.get("__name__", "")) for frame in islice(frames(), _FRAMES))
    return any(name.startswith(_LIBRARIES) for name in names)


def _are_images(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 4 and value.shape[1] == 3
