"""DL963: places for images among the tokens, and no images: such a batch trains all the same, on words alone. Looks at
what models are given whose configuration names a token for images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.probes.base import PlaceProbe, Samples
from dllint.confirm.probes.events import ModelForward, stack_of

_TOKENS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
_IMAGES = ("pixel", "image", "video", "vision", "visual", "patch")  # in the names of arguments that hold them
_ELSEWHERE = ("inputs_embeds", "past_key_values")  # where images may have gone in already


@dataclass(slots=True, eq=False)
class _Batches(Samples):
    """Batches with places for images; wrong are those without images."""

    token: int = 0


class ImageTokens(PlaceProbe[_Batches]):
    rule = "DL963"
    at_first = 5

    def on_model_forward(self, event: ModelForward) -> None:
        inputs, named = event.arguments.positional, event.arguments.keywords
        config = getattr(getattr(event.model, "module", event.model), "config", None)
        if config is None or event.grad != "on" or any(named.get(name) is not None for name in _ELSEWHERE):
            return
        tokens = [getattr(config, name, None) for name in _TOKENS]
        known = [token for token in tokens if isinstance(token, int)]
        ids = named.get("input_ids", inputs[0] if inputs else None)
        if not known or not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dim() != 2:
            return
        seen = self.sample(stack_of(event))
        if seen is not None and bool(torch.isin(ids, ids.new_tensor(known)).any()):
            seen.token = known[0]
            seen.count(not _has_images(inputs[1:], named))


def _has_images(others: Any, named: Mapping[str, Any]) -> bool:
    by_name = any(value is not None and any(part in name for part in _IMAGES) for name, value in named.items())
    return by_name or any(isinstance(value, Tensor) and value.is_floating_point() for value in others)
