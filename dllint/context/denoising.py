"""Denoisers: what noise was added to that a model was given, and what of it its output is compared with."""

from __future__ import annotations

from dllint.choices import Choice
from dllint.context.objects import Objects
from dllint.values import Symbol, Value


class Denoising(Objects):
    """What models that remove noise are trained with, where a scheduler of diffusers adds it."""

    def noisy_behind(self, output: Value) -> Symbol | None:
        """The noisy samples that a model was given whose output this is, if one scheduler of diffusers made them."""
        found = [
            each
            for each in self.sources_up_to(output, _is_one_of_several)
            if isinstance(each, Symbol) and each.name == ".add_noise"
        ]
        is_output = bool(self.models_behind(output, with_gradients=True))
        return found[0] if len(found) == 1 and is_output and found[0].inputs else None

    def learned_of(self, target: Value, noisy: Symbol) -> str:
        """What a target is by what went into noisy samples: `epsilon`, `v_prediction` or `sample`.

        Empty if it is none of it, or one of several things.
        """
        origins = self.origins(target)
        if len(origins) != 1:
            return ""
        value = origins[0].value
        if isinstance(value, Symbol) and value.name == ".get_velocity" and value.inputs:
            return "v_prediction" if value.inputs[0] is noisy.inputs[0] else ""
        for position, name, kind in ((1, "noise", "epsilon"), (0, "original_samples", "sample")):
            part = self.argument(noisy, position, name)
            if part is not None and any(value is origin.value for origin in self.origins(part)):
                return kind
        return ""


def _is_one_of_several(value: Value) -> bool:
    return isinstance(value, Choice) or (isinstance(value, Symbol) and value.name == ".get")
