"""DL605 and DL606: adapters on a model, as those of PEFT, that some of the names asked for match nothing, and trainable
parameters beside them that are not saved with them.

``peft_config`` tells what was asked for. With the adapters are saved those parameters alone that have the prefix of the
kind of adapter in their names, and modules that were to be saved.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dllint.confirm.inside.parts import unwrapped
from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, decided, parameters_of, stack_of

_SAVED = ("modules_to_save", "prompt_encoder", "trainable_tokens_", "internal_xlora",
          "embed_tokens", "lm_head")  # fmt: skip  # the last two where tokens were added
_PREFIX = "lora_"


class _Adapted(Samples):
    """A model with adapters: what was asked for and matches nothing, and what is trained and not saved."""

    targets: list[str] = []
    unmatched: list[str] = []
    unsaved_modules: list[str] = []  # that were to be saved, and none of which exists
    lost: list[str] = []  # trained parameters that are not saved
    trained: int = 0


class Adapters(ObjectProbe[_Adapted]):
    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on":
            self.of(event.model, stack_of(event))

    def describe(self, thing: Any, *place: Any) -> _Adapted | None:
        inner = unwrapped(thing)
        configs = getattr(inner, "peft_config", None)
        if not isinstance(configs, dict) or not configs:
            return None
        adapted = _Adapted(stacks=place)
        names = [name for name, _ in inner.named_modules()]
        for config in configs.values():
            targets = _names(getattr(config, "target_modules", None))
            adapted.targets += targets
            adapted.unmatched += [target for target in targets if not _is_in(target, names)]
            wanted = _names(getattr(config, "modules_to_save", None))
            if not any(_is_in(name, names) for name in wanted):  # some libraries ask for all usual names of heads
                adapted.unsaved_modules += wanted
        return adapted

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        for module, adapted in self.due():
            inner = unwrapped(module)
            held = {id(p) for p in parameters_of(event.optimizer) if p.grad is not None}
            trained = [name for name, p in inner.named_parameters() if p.requires_grad and id(p) in held]
            adapted.looks += bool(trained)
            adapted.trained = max(adapted.trained, len(trained))
            adapted.lost = [name for name in trained if not _is_saved(name, inner)] if trained else adapted.lost

    def judge_each(self, seen: _Adapted) -> Judgements:
        if seen.targets:
            yield self.judgement("DL605", seen, decided(seen.unmatched, True))
        if seen.looks >= ENOUGH or seen.unsaved_modules:
            verdict, missing = decided(seen.lost or seen.unsaved_modules, True), ", ".join(seen.unsaved_modules)
            told = f"; modules that were to be saved do not exist: {missing}" if missing else ""
            yield self.judgement("DL606", seen, verdict, told, number=len(seen.lost))


def _names(value: Any) -> list[str]:
    """Names that were asked for; none where a pattern was."""
    is_listed = isinstance(value, Collection) and not isinstance(value, str)
    return sorted(str(name) for name in value) if is_listed else []


def _is_in(wanted: str, names: list[str]) -> bool:
    return any(name == wanted or name.endswith("." + wanted) for name in names)


def _is_saved(name: str, module: Any) -> bool:
    prefix = str(getattr(getattr(module, "base_model", None), "prefix", _PREFIX))
    configs = vars(module).get("peft_config", {}).values()
    has_bias = any(getattr(config, "bias", "none") != "none" for config in configs)
    return prefix in name or any(part in name for part in _SAVED) or (has_bias and name.endswith("bias"))
