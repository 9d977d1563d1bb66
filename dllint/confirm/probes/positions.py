"""DL906: compares the scaling that a configuration asks for with that of the layers, and lengths with its limit."""

from __future__ import annotations

from typing import Any

from dllint.confirm.inside.parts import config_of
from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, Tensor, alarm_if, decided, stack_of


class _Model(Samples):
    asked: str = ""  # the kind of scaling that the configuration asks for
    made: str = ""  # that which the layers were made with
    most: int = 0  # tokens that it was made for; 0 where it does not say
    longest: int = 0


class Positions(ObjectProbe[_Model]):
    def on_model_forward(self, event: events.ModelForward) -> None:
        known, tokens = self.of(event.model, stack_of(event)), event.arguments.get(0, "input_ids")
        if known is not None and isinstance(tokens, Tensor) and tokens.dim() > 1:
            known.count()
            known.longest = max(known.longest, int(tokens.shape[1]))

    def describe(self, thing: Any, *place: Any) -> _Model | None:
        """What a model says of its positions; None if it has no rotary ones, or several kinds."""
        made = {part.rope_type for part in thing.modules() if isinstance(vars(part).get("rope_type"), str)}
        config = config_of(thing)
        if len(made) != 1 or config is None:
            return None
        given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
        if not isinstance(given, dict) or any(isinstance(value, dict) for value in given.values()):
            return None
        asked = str(given.get("rope_type", given.get("type", "default")))
        most = getattr(config, "max_position_embeddings", 0)
        return _Model(stacks=place, asked=asked, made=made.pop(), most=most if isinstance(most, int) else 0)

    def judge_each(self, seen: _Model) -> Judgements:
        is_inert = seen.asked != seen.made
        is_long = bool(seen.most) and seen.longest > seen.most and seen.made == "default"
        told = f"positions are scaled by '{seen.made}', as the configuration asks, for {seen.longest} tokens"
        if is_inert:
            told = f"the configuration asks for '{seen.asked}' scaling of positions, the layers use '{seen.made}'"
        elif is_long:
            told = f"{seen.longest} tokens in a row, where the model was made for {seen.most} and does not scale"
        verdict = decided(is_inert or is_long, seen.looks >= ENOUGH)
        yield self.judgement("DL906", seen, verdict, told, alarm_if(is_inert))
