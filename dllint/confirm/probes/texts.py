"""Which tokens language models are trained and evaluated on, and go on from: padding that counts (DL902 in training,
DL908 in evaluation), ends of texts that never do (DL903), and padding at the end of texts that are continued (DL901).

A call with ``input_ids``, ``attention_mask`` and ``labels`` tells what is padding, and the loss computed inside of it
how many targets count. A collator that ignores each token which is the same as padding ignores every end of a text,
where one token is both: then the model never learns to stop. A call without gradients whose next adds one token
continues texts.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

from dllint.confirm.inside.parts import config_of
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, PlaceProbe, Samples, Tensor, decided, events, nn
from dllint.confirm.probes.events import Stack, stack_of

_IGNORED = -100
_BATCHES = 5  # from which ends of texts that are ignored are no chance


class _Calls(Samples):
    """The calls of models from one place, with or without gradients; or the texts that were continued from there, where
    wrong are batches of which some end with padding."""

    padded: int = 0  # whose padding may count; of texts that were continued, those with padding
    counted: int = 0  # those in which some does
    masked: int = 0  # with padding that the labels ignore
    share: float = 0.0  # of the targets, that padding is at most
    ends: int = 0  # batches in which texts end
    ignored_ends: int = 0  # those in which all ends are ignored, and nothing else that is attended to
    learnt_ends: int = 0


class _Start(Notes):
    """A call that may be the first of several which continue texts."""

    module: ReferenceType[nn.Module]
    tokens: Tensor  # of the first text
    ends_padded: bool
    is_padded: bool
    stack: Stack

    def goes_on(self, module: nn.Module, tokens: Tensor, mask: Tensor) -> bool:
        """Whether a call has one token more than this one, given with those before or alone."""
        longer = len(self.tokens) + 1
        if self.module() is not module or mask.shape[1] != longer or tokens.shape[1] not in (1, longer):
            return False
        return tokens.shape[1] == 1 or bool((tokens[0, :-1] == self.tokens).all())


class Texts(PlaceProbe[_Calls]):
    _pending: tuple[_Calls, int] | None = None  # a call that computes a loss, and the tokens it attends to
    _started: _Start | None = None

    def on_model_forward(self, event: events.ModelForward) -> None:
        named: Any = event.arguments.keywords
        begun, self._pending, self._started = self._started, None, None
        mask, labels, tokens = named.get("attention_mask"), named.get("labels"), event.arguments.get(0, "input_ids")
        if not isinstance(mask, Tensor) or mask.dim() != 2 or "decoder_input_ids" in named:
            return
        if isinstance(labels, Tensor) and labels.shape == mask.shape and not labels.is_floating_point():
            self._trains(event, mask != 0, labels, tokens)
        if event.grad != "on" and isinstance(tokens, Tensor) and tokens.dim() == 2 and "encoder_outputs" not in named:
            self._continues(event, begun, mask == 0, tokens)

    def _trains(self, event: events.ModelForward, attends: Tensor, labels: Tensor, tokens: Any) -> None:
        config = config_of(event.model)
        is_decoder = not getattr(config, "is_encoder_decoder", False)
        seen = self.sample("DL902" if event.grad == "on" else "DL908", stack_of(event)) if is_decoder else None
        if seen is None:
            return
        if bool((~attends).any()):
            if bool((labels[~attends] != _IGNORED).any()):
                self._pending = seen, int(attends.sum())
            else:
                seen.masked += 1
        end = getattr(config, "eos_token_id", None)
        if isinstance(tokens, Tensor) and tokens.shape == labels.shape and isinstance(end, int):
            attends = attends[:, 1:]
            is_end, is_ignored = (tokens[:, 1:] == end) & attends, (labels[:, 1:] == _IGNORED) & attends
            if bool(is_end.any()):
                seen.ends += 1
                seen.learnt_ends += bool((is_end & ~is_ignored).any())
                seen.ignored_ends += bool((is_end == is_ignored).all()) and bool((~is_ignored & attends).any())

    def _continues(self, event: events.ModelForward, begun: _Start | None, pads: Tensor, tokens: Tensor) -> None:
        stack = stack_of(event)
        if begun is not None and begun.goes_on(event.model, tokens, pads):
            seen = self.at("DL901", begun.stack)
            seen.count(begun.ends_padded)
            seen.padded += begun.is_padded
        elif tokens.shape == pads.shape and tokens.shape[1] > 1:
            known = self.seen.get(("DL901", stack))
            if known is None or known.looks < self.at_first or self.run.steps % self.run.settings.every == 0:
                ends_padded, is_padded = bool(pads[:, -1].any()), bool(pads.any())
                self._started = _Start(ref(event.model), tokens[0].clone(), ends_padded, is_padded, stack)

    def on_loss_call(self, call: events.LossCall) -> None:
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
        if seen.rule == "DL901":
            yield self.judgement("DL901", seen, decided(seen.wrong, seen.padded))
            return
        seen.looks = seen.padded + seen.masked
        if seen.looks:
            verdict = decided(seen.counted >= ENOUGH, not seen.counted and seen.masked >= ENOUGH)
            yield self.judgement(seen.rule, seen, verdict)
        seen.looks = seen.ends
        if seen.looks and seen.rule == "DL902":
            is_wrong = not seen.learnt_ends and seen.ignored_ends == seen.ends >= _BATCHES
            yield self.judgement("DL903", seen, decided(is_wrong, seen.learnt_ends >= ENOUGH))
