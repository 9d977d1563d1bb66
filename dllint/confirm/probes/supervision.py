"""Which tokens language models are trained and evaluated on: padding that counts (DL902 in training, DL908 in
evaluation), and ends of texts that never do (DL903).

A call with ``input_ids``, ``attention_mask`` and ``labels`` tells what is padding, and the loss computed inside of it
how many targets count. A collator that ignores each token which is the same as padding ignores every end of a text,
where one token is both: then the model never learns to stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import LossCall, ModelForward, stack_of

_IGNORED = -100
_BATCHES = 5  # from which ends of texts that are ignored are no chance


@dataclass(slots=True, eq=False)
class _Calls(Samples):
    """The calls of models from one place, with or without gradients."""

    padded: int = 0  # whose padding may count
    counted: int = 0  # those in which some does
    masked: int = 0  # with padding that the labels ignore
    share: float = 0.0  # of the targets, that padding is at most
    ends: int = 0  # batches in which texts end
    ignored_ends: int = 0  # those in which all ends are ignored, and nothing else that is attended to
    learnt_ends: int = 0


class Supervision(PlaceProbe[_Calls]):
    def begin(self) -> None:
        self._pending: tuple[_Calls, int] | None = None  # a call that computes a loss, and the tokens it attends to

    def on_model_forward(self, event: ModelForward) -> None:
        inputs, named = event.arguments.positional, event.arguments.keywords
        self._pending = None
        labels, mask = named.get("labels"), named.get("attention_mask")
        if not (isinstance(labels, Tensor) and isinstance(mask, Tensor)) or "decoder_input_ids" in named:
            return
        config = getattr(getattr(event.model, "module", event.model), "config", None)
        is_text = labels.dim() == 2 and labels.shape == mask.shape and not labels.is_floating_point()
        if not is_text or getattr(config, "is_encoder_decoder", False):
            return
        seen = self.sample(stack_of(event), event.grad == "on")
        if seen is None:
            return
        attends = mask != 0
        tokens = named.get("input_ids", inputs[0] if inputs else None)
        if bool((~attends).any()):
            if bool((labels[~attends] != _IGNORED).any()):
                self._pending = seen, int(attends.sum())
            else:
                seen.masked += 1
        if isinstance(tokens, Tensor) and tokens.shape == labels.shape:
            end = getattr(config, "eos_token_id", None)
            self._look_at_ends(seen, tokens[:, 1:], labels[:, 1:], attends[:, 1:], end)

    def _look_at_ends(self, seen: _Calls, tokens: Tensor, labels: Tensor, attends: Tensor, end: Any) -> None:
        """Where texts end, and whether labels ignore just that."""
        if not isinstance(end, int):
            return
        is_end, is_ignored = (tokens == end) & attends, (labels == _IGNORED) & attends
        if bool(is_end.any()):
            seen.ends += 1
            seen.learnt_ends += bool((is_end & ~is_ignored).any())
            seen.ignored_ends += bool((is_end == is_ignored).all()) and bool((~is_ignored & attends).any())

    def on_loss_call(self, call: LossCall) -> None:
        pending, self._pending = self._pending, None
        is_reduced = call.options.get("reduction") in ("mean", "sum")
        if pending is None or call.function != "cross_entropy" or call.target.is_floating_point() or not is_reduced:
            return
        counted = int((call.target != call.options.get("ignore_index", _IGNORED)).sum())
        seen, attended = pending
        seen.padded += 1
        if counted > attended:
            seen.counted += 1
            seen.share = max(seen.share, 1 - attended / counted)

    def judge_each(self, seen: _Calls) -> Judgements:
        with_gradients = seen.place[1]
        seen.looks = seen.padded + seen.masked
        if seen.looks:
            verdict = decided(seen.counted >= ENOUGH, not seen.counted and seen.masked >= ENOUGH)
            yield self.judgement("DL902" if with_gradients else "DL908", seen, verdict)
        seen.looks = seen.ends
        if seen.looks and with_gradients:
            is_wrong = not seen.learnt_ends and seen.ignored_ends == seen.ends >= _BATCHES
            yield self.judgement("DL903", seen, decided(is_wrong, seen.learnt_ends >= ENOUGH))
