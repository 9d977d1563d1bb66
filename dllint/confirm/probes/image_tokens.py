"""DL963: places for images among the tokens, and no images: such a batch trains all the same, on words alone. Looks at
what models are given whose configuration names a token for images."""

from __future__ import annotations

import torch

from dllint.confirm.inside.parts import config_of
from dllint.confirm.probes.base import PlaceProbe, Samples, Tensor, events, stack_of

_TOKENS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
_IMAGES = ("pixel", "image", "video", "vision", "visual", "patch")  # in the names of arguments that hold them
_ELSEWHERE = ("inputs_embeds", "past_key_values")  # where images may have gone in already


class ImageTokens(PlaceProbe[Samples]):
    rule = "DL963"
    at_first = 5

    def on_model_forward(self, event: events.ModelForward) -> None:
        named, config = event.arguments.keywords, config_of(event.model)
        if config is None or event.grad != "on" or any(named.get(name) is not None for name in _ELSEWHERE):
            return
        known = [token for token in [getattr(config, name, None) for name in _TOKENS] if isinstance(token, int)]
        ids = event.arguments.get(0, "input_ids")
        if not known or not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dim() != 2:
            return
        seen = self.sample(stack_of(event))
        if seen is not None and bool(torch.isin(ids, ids.new_tensor(known)).any()):
            seen.more["token"] = known[0]
            given = [name for name, value in named.items() if value is not None]
            floating = (value for value in event.arguments.positional[1:] if isinstance(value, Tensor))
            is_named = any(part in name for name in given for part in _IMAGES)
            seen.count(not is_named and not any(value.is_floating_point() for value in floating))
