"""Whether the output for one sample depends on the others: DL833, and with it DL821, DL823 and DL829.

When the script is over, one sample of the last batch is replaced by another, in a copy of the model in evaluation mode,
and the outputs for the others are compared. The first operation is named that was given a change of
this sample and returned one of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.probes.base import Batches
from dllint.confirm.probes.replay import Inputs, KeptCall, Replaying, Trace, is_confined

_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_THRESHOLD = "any output for another sample moves by over 1e-5 of their spread; none refutes"


class SamplesMix(Replaying):
    """Knows how many samples loaders put into a batch, and replaces one of them at the end."""

    name = "samples_mix"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._sizes: set[int] = set()

    def on_batch(self, batches: Batches, batch: Any) -> None:
        size = getattr(batches.loader, "batch_size", None)
        if isinstance(size, int) and size > 1:
            self._sizes.add(size)

    def judge(self) -> Iterator[Judgement]:
        for call, module in self.copies():
            count = self._samples(call.inputs)
            if count is not None:
                yield from _judged(call, module, count, self.run.steps)

    def _samples(self, inputs: Inputs) -> int | None:
        """How many samples a call is given, if its inputs have one axis of as many as a loader puts into a batch."""
        given = [value for value in inputs.values() if isinstance(value, Tensor) and value.dim()]
        if not given or given[0].shape[0] not in self._sizes:
            return None
        count = given[0].shape[0]
        return count if all(list(each.shape).count(count) <= 1 for each in given) else None


def _judged(call: KeptCall, module: nn.Module, count: int, steps: int) -> Iterator[Judgement]:
    replaced = count // 2
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[replaced] = True
    chosen = chosen.to(next((each.device for each in call.inputs.values() if isinstance(each, Tensor)), "cpu"))
    trace = Trace(module, chosen)
    before, after = trace.compare(call.inputs, _without(call.inputs, replaced, count))
    is_apart = is_confined(before, after, chosen) if after else None
    if is_apart is None:
        return
    told = _Told(call, steps, {"samples": count, "replaced": replaced})
    if is_apart:
        yield told.judgement("DL833", "REFUTED", "the outputs for all others stay as they are", call.stack, "")
        for layer, place in trace.confined:
            if isinstance(layer, _SEQUENCES):
                yield told.judgement("DL829", "REFUTED", f"`{type(layer).__name__}` keeps samples apart", place, "")
        return
    culprit = trace.culprit
    inner = culprit.modules[-1] if culprit is not None else None
    where = f", first in {culprit.name and f'`{culprit.name}`, a '}`{type(inner).__name__}`" if culprit else ""
    what = f"the outputs for others move when one sample is replaced{where}"
    place = culprit.stack if culprit is not None else call.stack
    is_norm = isinstance(inner, _NormBase)
    is_sequence = culprit is not None and any(isinstance(each, _SEQUENCES) for each in culprit.modules)
    verdict: Verdict = "INCONCLUSIVE" if is_norm else "CONFIRMED"
    yield told.judgement("DL833", verdict, what, place, "note")
    if is_sequence:
        yield told.judgement("DL829", verdict, what, place, "alarm")
    elif verdict == "CONFIRMED" and culprit is not None:
        yield told.judgement("DL821", verdict, what, place, "")
        yield told.judgement("DL823", verdict, what, place, "")


class _Told:
    """What all judgements about one call have in common."""

    def __init__(self, call: KeptCall, steps: int, numbers: dict[str, Any]) -> None:
        self._call, self._steps, self._numbers = call, steps, numbers

    def judgement(self, rule: str, verdict: Verdict, what: str, place: Stack, voice: Voice) -> Judgement:
        stacks = (place,) if place == self._call.stack else (place, self._call.stack)
        at = (self._steps, self._steps)
        return Judgement(rule, SamplesMix.name, verdict, what, _THRESHOLD, self._numbers, 1, at, stacks, voice)


def _without(inputs: Inputs, replaced: int, count: int) -> Inputs:
    """The inputs with the next sample in place of one of them, in all that has an axis of samples in front."""

    def changed(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dim() and value.shape[0] == count:
            copied = value.clone()
            copied[replaced] = value[replaced - 1]
            return copied
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        return type(value)(map(changed, value)) if type(value) in (list, tuple) else value

    return {key: changed(value) for key, value in inputs.items()}
