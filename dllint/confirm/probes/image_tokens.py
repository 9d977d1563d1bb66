"""DL963: places for images among the tokens, and no images: such a batch trains all the same, on words alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe, stack_of, unanimous
from dllint.events import ModelForward

_FIRST = 5  # calls from each place that are looked at
_TOKENS = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
_IMAGES = ("pixel", "image", "video", "vision", "visual", "patch")  # in the names of arguments that hold them
_ELSEWHERE = ("inputs_embeds", "past_key_values")  # where images may have gone in already


@dataclass(slots=True)
class _Seen:
    """Calls with places for images, and those of them without images."""

    calls: int = 0
    looks: int = 0
    without: int = 0
    token: int = 0
    first: int = 0
    last: int = 0


class ImageTokens(Probe):
    """Looks at what models are given whose configuration names a token for images."""

    name = "image_tokens"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Seen] = {}

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        inputs = event.arguments.positional
        named = event.arguments.keywords
        config = getattr(getattr(module, "module", module), "config", None)
        if config is None or event.grad != "on" or any(named.get(name) is not None for name in _ELSEWHERE):
            return
        tokens = [getattr(config, name, None) for name in _TOKENS]
        known = [token for token in tokens if isinstance(token, int)]
        ids = named.get("input_ids", inputs[0] if inputs else None)
        if not known or not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dim() != 2:
            return
        seen = self._seen.setdefault(stack_of(event), _Seen(first=self.run.steps, token=known[0]))
        seen.calls += 1
        if seen.calls > _FIRST and seen.calls % self.run.every:
            return
        if bool(torch.isin(ids, ids.new_tensor(known)).any()):
            seen.looks += 1
            seen.without += not _has_images(inputs[1:], named)
            seen.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            if seen.looks:
                yield Judgement(
                    "DL963",
                    self.name,
                    unanimous(seen.without, seen.looks),
                    f"{seen.without} of {seen.looks} batches with tokens for images (such as {seen.token}) came "
                    "without images",
                    "all of 3 or more such batches; none refutes",
                    {"without": seen.without, "batches": seen.looks, "token": seen.token},
                    seen.looks,
                    (seen.first, seen.last),
                    (stack,),
                    "alarm",
                )


def _has_images(others: Any, named: Mapping[str, Any]) -> bool:
    by_name = any(value is not None and any(part in name for part in _IMAGES) for name, value in named.items())
    return by_name or any(isinstance(value, Tensor) and value.is_floating_point() for value in others)
