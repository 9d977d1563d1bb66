"""DL605 and DL606: adapters on a model, as those of PEFT, that some of the names asked for match nothing, and trainable
parameters beside them that are not saved with them.

``peft_config`` tells what was asked for. With the adapters are saved those parameters alone that have the prefix of the
kind of adapter in their names, and modules that were to be saved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward, OptimizerStep

_SAVED = ("modules_to_save", "prompt_encoder", "trainable_tokens_", "internal_xlora",
          "embed_tokens", "lm_head")  # fmt: skip  # the last two where tokens were added
_PREFIX = "lora_"


@dataclass(slots=True)
class _Adapted:
    """A model with adapters: what was asked for and matches nothing, and what is trained and not saved."""

    stack: Stack
    targets: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    unsaved_modules: list[str] = field(default_factory=list)  # that were to be saved, and none of which exists
    lost: list[str] = field(default_factory=list)  # trained parameters that are not saved
    trained: int = 0
    looks: int = 0


class Adapters(Probe):
    """Looks at the first call of each model with adapters, and at which of its parameters have gradients in steps."""

    name = "adapters"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._known: WeakKeyDictionary[nn.Module, _Adapted | None] = WeakKeyDictionary()
        self._due: list[tuple[ReferenceType[nn.Module], _Adapted]] = []  # whose parameters are still to be looked at
        self._all: list[_Adapted] = []

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        if event.grad != "on" or module in self._known:
            return
        self._known[module] = None
        inner = getattr(module, "module", module)
        configs = getattr(inner, "peft_config", None)
        if isinstance(configs, dict) and configs:
            self._known[module] = adapted = _Adapted(stack_of(event))
            self._all.append(adapted)
            self._due.append((ref(module), adapted))
            names = [name for name, _ in inner.named_modules()]
            for config in configs.values():
                targets = _names(getattr(config, "target_modules", None))
                adapted.targets += targets
                adapted.unmatched += [target for target in targets if not _is_in(target, names)]
                wanted = _names(getattr(config, "modules_to_save", None))
                if not any(_is_in(name, names) for name in wanted):  # some libraries ask for all usual names of heads
                    adapted.unsaved_modules += wanted

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        for known, adapted in self._due:
            module = known()
            if module is not None and adapted.looks < ENOUGH:
                inner = getattr(module, "module", module)
                held = {id(p) for group in event.optimizer.param_groups for p in group["params"] if p.grad is not None}
                trained = [name for name, p in inner.named_parameters() if p.requires_grad and id(p) in held]
                adapted.looks += bool(trained)
                adapted.trained = max(adapted.trained, len(trained))
                adapted.lost = [name for name in trained if not _is_saved(name, inner)] if trained else adapted.lost

    def judge(self) -> Iterator[Judgement]:
        for adapted in self._all:
            if adapted.targets:
                yield self._judgement(
                    "DL605",
                    adapted,
                    bool(adapted.unmatched),
                    f"{len(adapted.unmatched)} of {len(adapted.targets)} target modules match none of the model"
                    + _shown(adapted.unmatched),
                    "any name that no module ends with; else refuted",
                )
            if adapted.looks >= ENOUGH or adapted.unsaved_modules:
                what = f"{len(adapted.lost)} of {adapted.trained} trained parameters are not saved with the adapter"
                if adapted.unsaved_modules and not adapted.lost:
                    what = f"modules that were to be saved do not exist: {', '.join(adapted.unsaved_modules)}"
                yield self._judgement(
                    "DL606",
                    adapted,
                    bool(adapted.lost or adapted.unsaved_modules),
                    what + _shown(adapted.lost),
                    "any trained parameter, or none of the modules to save exists; else 3 or more steps refute",
                )

    def _judgement(self, rule: str, adapted: _Adapted, is_wrong: bool, what: str, threshold: str) -> Judgement:
        return Judgement(
            rule,
            self.name,
            "CONFIRMED" if is_wrong else "REFUTED",
            what,
            threshold,
            {"unmatched": adapted.unmatched, "missing": adapted.unsaved_modules, "unsaved": adapted.lost[:20]},
            max(adapted.looks, 1),
            (0, self.run.steps),
            (adapted.stack,),
            "alarm" if rule == "DL606" else "note",
        )


def _names(value: Any) -> list[str]:
    """Names that were asked for; none where a pattern was."""
    is_listed = isinstance(value, Collection) and not isinstance(value, str)
    return sorted(str(name) for name in value) if is_listed else []


def _is_in(wanted: str, names: list[str]) -> bool:
    return any(name == wanted or name.endswith("." + wanted) for name in names)


def _is_saved(name: str, module: nn.Module) -> bool:
    prefix = str(getattr(getattr(module, "base_model", None), "prefix", _PREFIX))
    configs = vars(module).get("peft_config", {}).values()
    has_bias = any(getattr(config, "bias", "none") != "none" for config in configs)
    return prefix in name or any(part in name for part in _SAVED) or (has_bias and name.endswith("bias"))


def _shown(names: list[str]) -> str:
    return f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})" if names else ""
