"""DL961 and DL962: the parts of a model of several modalities: which of them learn, and how fast.

A part is known by its name (`vision_tower`, `multi_modal_projector`, `language_model`). What is frozen on purpose says
nothing; a part that should train and never gets a gradient does, and so do rates that move one part a hundred times as
far as another.
"""

from __future__ import annotations

import re
from statistics import median
from typing import Any

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, decided, events, stack_of

_SEES = re.compile(
    r"(vision|visual|image|img|pixel|audio|speech|video)(_?(tower|model|encoder|backbone|transformer))?$"
)
_OTHER = re.compile(r"(multi_?modal_|mm_)?(projector|projection|connector|merger|resampler|perceiver)$"
                    r"|(language|text|llm)(_?(model|encoder|transformer|decoder))?$")  # fmt: skip
_DEPTH = 3  # dots in the name of a part
_APART = 100.0  # times as far


class _Model(Samples):
    parts: dict[str, list[int]] = {}  # by name: trainable parameters, and the steps in which one had a gradient


class Towers(ObjectProbe[_Model]):
    turn = 1  # it judges by the updates that others have measured

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on":
            self.of(event.model, stack_of(event))

    def describe(self, thing: Any, *place: Any) -> _Model | None:
        named = [name for name, _ in thing.named_modules() if name and name.count(".") <= _DEPTH]
        sees = _outermost([name for name in named if _SEES.match(name.rpartition(".")[2])])
        others = _outermost([name for name in named if _OTHER.match(name.rpartition(".")[2])])
        is_meant = sees and others  # else it is of one modality
        return _Model(stacks=place, parts={name: [0, 0] for name in (*sees, *others)}) if is_meant else None

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        for module, model in self.due():
            model.count()
            for name, counts in model.parts.items():
                trainable = [p for p in module.get_submodule(name).parameters() if p.requires_grad]
                counts[0] = max(counts[0], len(trainable))
                norms = [p.grad.norm() for p in trainable if p.grad is not None]
                counts[1] += bool(norms) and bool(torch.stack(norms).max() > 0)

    def judge_each(self, seen: _Model) -> Judgements:
        trained = {name: fed for name, (trainable, fed) in seen.parts.items() if trainable}
        if any(trained.values()):
            still, found = [name for name, fed in trained.items() if not fed], {"parts": seen.parts}
            yield self.judgement(
                "DL961", seen, decided(seen.looks >= ENOUGH and still, not still), still=still, **found
            )
            yield from self._paced(seen, list(trained))

    def _paced(self, seen: _Model, names: list[str]) -> Judgements:
        """DL962: by the updates that were measured for the page."""
        paces: dict[str, float] = {}
        for name in names:
            layers = [layer for layer in self.run.record.pictures.layers if layer.name.startswith(f"{name}.")]
            found = [update for layer in layers for _, update in layer.updates if update > 0]
            if len(found) >= ENOUGH:
                paces[name] = median(found)
        if len(paces) > 1:
            apart = max(paces.values()) / min(paces.values())
            told = ", ".join(f"{pace:.2g} in `{name}`" for name, pace in paces.items())
            yield self.judgement("DL962", seen, decided(apart > _APART, True), told, paces=paces)


def _outermost(names: list[str]) -> list[str]:
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
