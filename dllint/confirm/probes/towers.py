"""DL961 and DL962: the parts of a model of several modalities: which of them learn, and how fast.

A part is known by its name (`vision_tower`, `multi_modal_projector`, `language_model`). What is frozen on purpose says
nothing; a part that should train and never gets a gradient does, and so do rates that move one part a hundred times as
far as another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward, OptimizerStep

_SEES = re.compile(
    r"(vision|visual|image|img|pixel|audio|speech|video)(_?(tower|model|encoder|backbone|transformer))?$"
)
_OTHER = re.compile(r"(multi_?modal_|mm_)?(projector|projection|connector|merger|resampler|perceiver)$"
                    r"|(language|text|llm)(_?(model|encoder|transformer|decoder))?$")  # fmt: skip
_DEPTH = 3  # dots in the name of a part
_APART = 100.0  # times as far


@dataclass(slots=True)
class _Part:
    """Of one part: its trainable parameters, and the steps in which one of them had a gradient."""

    trainable: int = 0
    fed: int = 0


@dataclass(slots=True)
class _Model:
    """A model of several modalities, where it was called first, and its parts by name."""

    stack: Stack
    parts: dict[str, _Part]
    looks: int = 0


class Towers(Probe):
    """Looks at the gradients of the parts of each model after some steps."""

    name = "towers"
    turn = 1  # it judges by the updates that others have measured

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._models: WeakKeyDictionary[nn.Module, _Model | None] = WeakKeyDictionary()  # None: of one modality
        self._seen: list[_Model] = []
        self._steps = 0

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        if event.grad == "on" and module not in self._models:
            names = _parts(module)
            model = self._models[module] = _Model(stack_of(event), {name: _Part() for name in names}) if names else None
            if model is not None:
                self._seen.append(model)

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        if not self._seen:
            return
        models = [(module, model) for module, model in self._models.items() if model is not None]
        self._steps += 1
        for module, model in models:
            if model.looks < ENOUGH or self._steps % self.run.every == 0:
                model.looks += 1
                for name, part in model.parts.items():
                    trainable = [p for p in module.get_submodule(name).parameters() if p.requires_grad]
                    part.trainable = max(part.trainable, len(trainable))
                    part.fed += _has_gradient(trainable)

    def judge(self) -> Iterator[Judgement]:
        for model in self._seen:
            trained = {name: part for name, part in model.parts.items() if part.trainable}
            if any(part.fed for part in trained.values()):
                yield self._fed(model, trained)
                yield from self._paced(model, list(trained))

    def _fed(self, model: _Model, trained: dict[str, _Part]) -> Judgement:
        """DL961."""
        still = [name for name, part in trained.items() if not part.fed]
        return Judgement(
            "DL961",
            self.name,
            "INCONCLUSIVE" if model.looks < ENOUGH else "CONFIRMED" if still else "REFUTED",
            f"{_named(still)} can be trained, and never had a gradient in {model.looks} steps"
            if still
            else f"each of {_named(list(model.parts))} is frozen or has gradients",
            "a part with trainable parameters and no gradient in all of 3 or more steps; else refuted",
            {"parts": {name: [part.trainable, part.fed] for name, part in model.parts.items()}},
            model.looks,
            (0, self.run.steps),
            (model.stack,),
            "note",
        )

    def _paced(self, model: _Model, names: list[str]) -> Iterator[Judgement]:
        """DL962: by the updates that were measured for the page."""
        paces: dict[str, float] = {}
        for name in names:
            found = [
                update
                for layer in self.run.pictures.layers
                if layer.name.startswith(f"{name}.")
                for _, update in layer.updates
                if update > 0
            ]
            if len(found) >= ENOUGH:
                paces[name] = median(found)
        if len(paces) > 1:
            apart = max(paces.values()) / min(paces.values())
            told = ", ".join(f"{name} by {pace:.2g}" for name, pace in paces.items())
            yield Judgement(
                "DL962",
                self.name,
                "CONFIRMED" if apart > _APART else "REFUTED",
                f"a step moves {told} of its weights",
                "medians that are more than 100 times apart; less refutes",
                paces,
                model.looks,
                (0, self.run.steps),
                (model.stack,),
                "note",
            )


def _parts(module: nn.Module) -> list[str]:
    """The names of the parts; empty where the model is of one modality."""
    named = [name for name, _ in module.named_modules() if name and name.count(".") <= _DEPTH]
    sees = _outermost([name for name in named if _SEES.match(name.rpartition(".")[2])])
    others = _outermost([name for name in named if _OTHER.match(name.rpartition(".")[2])])
    return [*sees, *others] if sees and others else []


def _outermost(names: list[str]) -> list[str]:
    return [name for name in names if not any(name.startswith(f"{other}.") for other in names)]


def _has_gradient(parameters: Sequence[Tensor]) -> bool:
    gradients = [p.grad for p in parameters if p.grad is not None]
    return bool(gradients) and bool(torch.stack([gradient.norm() for gradient in gradients]).max() > 0)


def _named(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
