"""Latents of autoencoders of diffusers: which value is one, and by which factor it belongs to be scaled."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.context.objects import Objects
from dllint.forms import attribute_of
from dllint.values import Const, Instance, Setting, Symbol, Value

_SCALED = (
    "AutoencoderKL", "AsymmetricAutoencoderKL", "AutoencoderKLAllegro", "AutoencoderKLHunyuanVideo"
)  # fmt: skip
# those whose latents deviate by more than twice as much as noise, or less than half as much
_LOADS = ("from_pretrained", "from_single_file")
_FACTORS = {
    "sdxl": 0.13025, "stable-diffusion-xl": 0.13025, "stable-diffusion-3": 1.5305, "flux.1": 0.3611,
    "sd-vae": 0.18215, "stable-diffusion-v1": 0.18215, "stable-diffusion-2": 0.18215, "stable-diffusion-1": 0.18215,
}  # fmt: skip
"""The `scaling_factor` of published autoencoders, by a part of their names; the first that fits counts."""


class Latents(Objects):
    """The latents that a program draws from autoencoders."""

    def autoencoder_of(self, value: Value) -> Value | None:
        """The autoencoder of diffusers that a value is the latents of, as it made them."""
        if not isinstance(value, Symbol) or not value.inputs:
            return None
        if value.name not in (".sample", ".mode") and value.detail != "mean":
            return None
        spread = value.inputs[0]
        output = attribute_of(spread, "latent_dist")
        if output is None and isinstance(spread, Symbol) and spread.name == "item" and spread.detail == 0:
            output = spread.inputs[0]
        if not isinstance(output, Symbol) or output.name != ".encode" or not output.inputs:
            return None
        vae = output.inputs[0]
        is_named_so = attribute_of(spread, "latent_dist") is not None
        return vae if self.is_autoencoder(vae) or (is_named_so and not isinstance(vae, Instance)) else None

    def is_autoencoder(self, vae: Value) -> bool:
        """Whether a value is certainly an autoencoder of diffusers whose latents have to be scaled, by its class."""
        owner = attribute_of(vae, "vae")
        if isinstance(vae, Instance):
            return isinstance(vae.cls, str) and not {*_SCALED}.isdisjoint(vae.cls.split("."))
        return isinstance(owner, Instance) and isinstance(owner.cls, str) and "Pipeline" in owner.cls

    def names_of_weights(self, vae: Value) -> list[str]:
        """The names, in lower case, of the weights that an autoencoder, or its pipeline, may be loaded with."""
        owner = attribute_of(vae, "vae") or vae
        if not isinstance(owner, Instance) or not isinstance(owner.cls, str) or not owner.cls.endswith(_LOADS):
            return []
        weights = owner.arguments.get(0, "pretrained_model_name_or_path")
        texts = self._texts_in(weights) if weights is not None else ()
        return [text.lower() for text in texts]

    def factor_of_weights(self, vae: Value) -> float | None:
        """The `scaling_factor` that published weights of an autoencoder have, if all that it may have agree."""
        names = self.names_of_weights(vae)
        found = {next((factor for part, factor in _FACTORS.items() if part in name), None) for name in names}
        return found.pop() if len(found) == 1 else None

    def _texts_in(self, weights: Value) -> Iterator[str]:
        for each in self.sources(weights):
            value = each.default if isinstance(each, Setting) else each
            if isinstance(value, Const) and isinstance(value.value, str):
                yield value.value
