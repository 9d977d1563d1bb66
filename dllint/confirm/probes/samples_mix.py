"""Whether the output for one sample depends on the others: DL833, and with it DL821, DL823 and DL829.

When the script is over, one sample of the last batch is replaced by another, in a copy of the model in evaluation mode,
and the outputs for the others are compared. The first operation is named that was given a change of this sample and
returned one of others. Knows how many samples loaders put into a batch, and replaces one of them at the end.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from dllint.confirm.probes.base import Judgements, Tensor, Verdict, Voice, events, nn
from dllint.confirm.probes.replay import Inputs, KeptCall, Replaying, Trace, is_confined

_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


class SamplesMix(Replaying):
    _sizes: set[int] = set()

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        size = getattr(batches.loader, "batch_size", None)
        if isinstance(size, int) and size > 1:
            self._sizes.add(size)

    def judge(self) -> Judgements:
        for call, module in self.copies():
            given = [value for value in call.inputs.values() if isinstance(value, Tensor) and value.dim()]
            count = given[0].shape[0] if given else 0
            # as many as a loader puts into a batch, along one axis
            if count in self._sizes and all(list(each.shape).count(count) <= 1 for each in given):
                yield from self._judged(call, module, count)

    def _judged(self, call: KeptCall, module: nn.Module, count: int) -> Judgements:
        replaced = count // 2
        chosen = torch.zeros(count, dtype=torch.bool, device="cpu")
        chosen[replaced] = True
        chosen = chosen.to(next((each.device for each in call.inputs.values() if isinstance(each, Tensor)), "cpu"))
        trace = Trace(module, chosen)
        before, after = trace.compare(call.inputs, _without(call.inputs, replaced, count))
        is_apart = is_confined(before, after, chosen) if after else None
        if is_apart:
            told = "the outputs for all others stay as they are"
            yield self.judgement("DL833", self.seen_at(call), "REFUTED", told, "", samples=count)
            for layer in trace.confined:
                if isinstance(layer.modules[-1], _SEQUENCES):
                    told = f"`{layer.name}` keeps samples apart"
                    yield self.judgement("DL829", self.seen_at(call, layer), "REFUTED", told, "", samples=count)
        if is_apart in (True, None):
            return
        culprit = trace.culprit
        inner = culprit.modules[-1] if culprit is not None else None
        told = "the outputs for others move when one sample is replaced"
        told += f", first in {culprit.name and f'`{culprit.name}`, a '}`{type(inner).__name__}`" if culprit else ""
        verdict: Verdict = "INCONCLUSIVE" if isinstance(inner, _NormBase) else "CONFIRMED"
        voices: dict[str, Voice] = {"DL833": "note"}
        if culprit is not None and any(isinstance(each, _SEQUENCES) for each in culprit.modules):
            voices["DL829"] = "alarm"
        elif verdict == "CONFIRMED" and culprit is not None:
            voices |= {"DL821": "", "DL823": ""}
        for rule, voice in voices.items():
            yield self.judgement(rule, self.seen_at(call, culprit), verdict, told, voice, samples=count)


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
