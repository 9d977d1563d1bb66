"""DL901: a call without gradients whose next adds one token continues texts. None of them may end with padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

from torch import Tensor, nn

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import ModelForward, Stack, stack_of


@dataclass(slots=True, eq=False)
class _Texts(Samples):
    """Texts that were continued from one place; wrong are batches of them of which some end with padding."""

    padded: int = 0  # batches with padding


@dataclass(slots=True)
class _Start:
    """A call that may be the first of several which continue texts."""

    module: ReferenceType[nn.Module]
    tokens: Tensor  # of the first text
    ends_padded: bool
    is_padded: bool
    stack: Stack

    def goes_on(self, tokens: Tensor, mask: Tensor) -> bool:
        """Whether a call has one token more than this one, given with those before or alone."""
        longer = len(self.tokens) + 1
        if mask.shape[1] != longer or tokens.shape[1] not in (1, longer):
            return False
        return tokens.shape[1] == 1 or bool((tokens[0, :-1] == self.tokens).all())


class Generation(PlaceProbe[_Texts]):
    def begin(self) -> None:
        self._started: _Start | None = None

    def on_model_forward(self, event: ModelForward) -> None:
        module, stack, inputs = event.model, stack_of(event), event.arguments.positional
        named: Any = event.arguments.keywords
        mask, tokens = named.get("attention_mask"), named.get("input_ids", inputs[0] if inputs else None)
        begun, self._started = self._started, None
        is_text = isinstance(mask, Tensor) and isinstance(tokens, Tensor) and mask.dim() == tokens.dim() == 2
        if event.grad == "on" or not is_text or "encoder_outputs" in named or "decoder_input_ids" in named:
            return
        if begun is not None and begun.module() is module and begun.goes_on(tokens, mask):
            seen = self.at(begun.stack)
            seen.count(begun.ends_padded)
            seen.padded += begun.is_padded
        elif tokens.shape == mask.shape and tokens.shape[1] > 1:
            known = self.seen.get((stack,))
            if known is None or known.looks < self.at_first or self.run.steps % self.run.every == 0:
                pads = mask == 0
                self._started = _Start(ref(module), tokens[0].clone(), bool(pads[:, -1].any()), bool(pads.any()), stack)

    def judge_each(self, seen: _Texts) -> Judgements:
        told = "" if seen.padded else "; none was padded"
        yield self.judgement("DL901", seen, decided(seen.wrong, seen.padded), told)
