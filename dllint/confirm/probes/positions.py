"""DL906: scaling of positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward


@dataclass(slots=True, eq=False)
class _Model:
    """A model whose configuration tells of its positions."""

    stack: Stack
    asked: str  # the kind of scaling that the configuration asks for
    made: str  # that which the layers were made with
    most: int  # tokens that it was made for; 0 where it does not say
    longest: int = 0
    calls: int = 0


class Positions(Probe):
    """DL906: compares the scaling that a configuration asks for with that of the layers, and lengths with its limit."""

    name = "positions"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._models: WeakKeyDictionary[nn.Module, _Model | None] = WeakKeyDictionary()
        self._all: list[_Model] = []

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        inputs = event.arguments.positional
        if module not in self._models:
            found = self._models[module] = _rotary(module, stack_of(event))
            if found is not None:
                self._all.append(found)
        known = self._models[module]
        tokens = event.arguments.keywords.get("input_ids", inputs[0] if inputs else None)
        if known is not None and isinstance(tokens, Tensor) and tokens.dim() > 1:
            known.calls += 1
            known.longest = max(known.longest, int(tokens.shape[1]))

    def judge(self) -> Iterator[Judgement]:
        for known in self._all:
            is_inert = known.asked != known.made
            is_long = bool(known.most) and known.longest > known.most and known.made == "default"
            what = f"positions are scaled by '{known.made}', as the configuration asks, for {known.longest} tokens"
            if is_inert:
                what = f"the configuration asks for '{known.asked}' scaling of positions, the layers use '{known.made}'"
            elif is_long:
                what = f"{known.longest} tokens in a row, where the model was made for {known.most} and does not scale"
            yield Judgement(
                "DL906",
                "positions",
                "CONFIRMED" if is_inert or is_long else "REFUTED" if known.calls >= ENOUGH else "INCONCLUSIVE",
                what,
                "layers of another kind than the configuration, or rows that are longer than what it says",
                {"asked": known.asked, "made": known.made, "most": known.most, "longest": known.longest},
                known.calls,
                (0, self.run.steps),
                (known.stack,),
                "alarm" if is_inert else "note",
            )


def _rotary(module: nn.Module, stack: Stack) -> _Model | None:
    """What a model says of its positions; None if it has no rotary ones, or several kinds."""
    made = {part.rope_type for part in module.modules() if isinstance(vars(part).get("rope_type"), str)}
    config = getattr(getattr(module, "module", module), "config", None)
    if len(made) != 1 or config is None:
        return None
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if not isinstance(given, dict) or any(isinstance(value, dict) for value in given.values()):
        return None
    asked = str(given.get("rope_type", given.get("type", "default")))
    most = getattr(config, "max_position_embeddings", 0)
    return _Model(stack, asked, str(made.pop()), most if isinstance(most, int) else 0)
