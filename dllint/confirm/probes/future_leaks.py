"""Whether a model that is trained to tell the next token has seen it: DL832, and with it DL821, DL823 and DL829.

It is trained so where the targets of its loss are the tokens that it is given, one step on. When the script is over,
the last tokens are replaced, in a copy of the model in evaluation mode, and the outputs for those before are compared.
Tokens that the loss ignores, as a prefix that may see all of itself, do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch

from dllint.confirm.probes.base import Judgements, Notes, Tensor, Voice, decided, events, nn
from dllint.confirm.probes.replay import KeptCall, Replaying, Trace

_LOOKS = 5  # losses that are compared with the tokens of a model
_EQUAL, _DULL = 0.99, 0.9  # shares of targets that are the next token, and of tokens that are the one before
_LEAK, _NO_LEAK = 1e-3, 1e-5  # compared with the largest output
_LEAST = 4  # tokens in a row


class _Next(Notes):
    """The input whose next tokens are the targets, the axis of its steps, and which of the targets count."""

    key: str | int
    axis: int
    counts: Tensor  # (samples, steps - 1)


class FutureLeaks(Replaying):
    _looks: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
    _trained: WeakKeyDictionary[nn.Module, _Next] = WeakKeyDictionary()

    def on_loss_call(self, call: events.LossCall) -> None:
        target = call.target
        if target.is_floating_point():
            return
        for module, kept in self.calls.items():
            looks = self._looks.get(module, 0)
            candidates = list(_candidates(kept, target)) if looks < _LOOKS else []
            self._looks[module] = looks + bool(candidates)
            counted = ((each, _counting(kept, target, *each)) for each in candidates)
            found = next((_Next(*each, counts) for each, counts in counted if counts is not None), None)
            if found is not None:
                self._trained[module] = found

    def judge(self) -> Judgements:
        for call, module in self.copies():
            original = call.module()
            task = self._trained.get(original) if original is not None else None
            if task is not None:
                yield from self._judged(call, module, task)

    def _judged(self, call: KeptCall, module: nn.Module, task: _Next) -> Judgements:
        tokens = call.inputs[task.key]
        if task.counts.shape != (tokens.shape[1 - task.axis], tokens.shape[task.axis] - 1):
            return  # the last batch is another one
        length = tokens.shape[task.axis]
        first = int(task.counts.any(0).nonzero().min())
        cut = max(first + 1, length // 2)
        chosen = torch.arange(length, device=tokens.device) >= cut
        late = chosen if task.axis else chosen[:, None]
        replaced = torch.where(late, (tokens + 1) % (tokens.max() + 1), tokens)
        trace = Trace(module, chosen)
        before, after = trace.compare(call.inputs, {**call.inputs, task.key: replaced})
        pairs = [_early(old, new, tokens, task, cut) for old, new in zip(before, after, strict=False)]
        moved = next((each for each in pairs if each is not None), None)
        if moved is None:
            return
        culprit = trace.culprit if moved > _LEAK else None
        told = f"other tokens at the last {length - cut} places move the outputs for those before by {moved:.3g}"
        told += " of the largest"
        told += f", first in `{culprit.name or type(culprit.modules[-1]).__name__}`" if culprit else ""
        verdict, seen = decided(moved > _LEAK, moved <= _NO_LEAK), self.seen_at(call, culprit)
        for rule in ("DL832", "DL821", "DL823", "DL829") if culprit else ("DL832",):
            voice: Voice = "alarm" if rule == "DL832" else ""
            yield self.judgement(rule, seen, verdict, told, voice, moved=moved, replaced=length - cut)


def _candidates(call: KeptCall, target: Tensor) -> Iterator[tuple[str | int, int]]:
    """The inputs that are rows of tokens, as many as there are targets, with or without the first, and their axis."""
    for key, tokens in call.inputs.items():
        if isinstance(tokens, Tensor) and tokens.dim() == 2 and not tokens.is_floating_point():
            for axis in (1, 0):
                steps, samples = tokens.shape[axis], tokens.shape[1 - axis]
                if steps >= _LEAST and target.numel() in (steps * samples, (steps - 1) * samples):
                    yield key, axis


def _counting(call: KeptCall, target: Tensor, key: str | int, axis: int) -> Tensor | None:
    """Which targets count, by sample and step, if they are the tokens of a call one step on along an axis."""
    tokens: Tensor = call.inputs[key]
    shape = list(tokens.shape)
    shape[axis] = target.numel() // tokens.shape[1 - axis]
    wanted = target.detach().reshape(shape).movedim(axis, 1)[:, : tokens.shape[axis] - 1].to(tokens.device)
    given = tokens.movedim(axis, 1)
    counts = wanted >= 0
    is_next = (wanted == given[:, 1:])[counts].float()
    is_same = (given[:, :-1] == given[:, 1:])[counts].float()
    is_known = is_next.numel() and float(is_next.mean()) >= _EQUAL and float(is_same.mean()) < _DULL
    return counts if is_known else None


def _early(old: Tensor, new: Tensor, tokens: Tensor, task: _Next, cut: int) -> float | None:
    """How far the outputs for early tokens move that count, compared with the largest of them."""
    if old.shape != new.shape or old.dim() < 2:
        return None
    if old.shape[:2] == tokens.shape:
        rows = [each.movedim(task.axis, 1) for each in (old, new)]
    elif old.shape[0] == tokens.numel():
        rows = [each.reshape(*tokens.shape, -1).movedim(task.axis, 1) for each in (old, new)]
    else:
        return None
    counts = task.counts[:, :cut]
    early = [each[:, :cut][counts] for each in rows]
    return float((early[1] - early[0]).abs().max()) / (float(early[0].abs().max()) or 1.0) if len(early[0]) else None
