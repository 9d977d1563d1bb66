"""A factor for latents that is written as a number, where the autoencoder itself tells it.

Each autoencoder of diffusers has its `scaling_factor` in its configuration: 0.18215 that of Stable Diffusion 1 and 2,
0.13025 that of SDXL, 1.5305 and 0.3611 those of Stable Diffusion 3 and FLUX, which also subtract a `shift_factor`. A
number in the code is right for one of them. Once another autoencoder is loaded, or a factor is copied with code that
was written for another one, noise and latents differ in size, and nothing fails.

Where its own factor brings latents to a deviation of 1, 0.18215 leaves those of SDXL with 1.4, and 0.13025 those of
Stable Diffusion 1 with .72. What latents do that are not scaled at all is measured in DL942. Most such numbers are
right, so this is a note; it is a warning where the weights that are loaded are known to have another factor.

## Bad
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse")
    latents = vae.encode(x).latent_dist.sample() * 0.18215
    torch.save(latents, "latents.pt")

## Good
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse")
    latents = vae.encode(x).latent_dist.sample() * vae.config.scaling_factor
    torch.save(latents, "latents.pt")

## Not reported
Factors that are computed, or an option. Numbers that are the factor of no published autoencoder: they are measured, or
the project's own. Autoencoders that the code makes itself, and those of other libraries. What is divided before a
`decode` that is no method of an autoencoder of diffusers. Projects that stay below diffusers 0.12, whose configurations
have no factor.

## Fix (safe)
Reads `scaling_factor` where the weights that are loaded are known to have just this one, and the autoencoder is at hand
there. Safe: it is the same number.

## On real code
4 findings in DiT, all true: one of two autoencoders of Stable Diffusion is loaded there, and the factor is written out
in training, in two scripts that sample, and in a notebook. 28 others that speak of such latents: no finding.

Off by default, as all that was found is of one project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Backward,
    Const,
    Context,
    Edits,
    Finding,
    LibraryCall,
    LossCall,
    ModelForward,
    Program,
    Rule,
    StateSaved,
    Symbol,
    Value,
    replace_range,
)

_KNOWN = (0.18215, 0.13025, 1.5305, 0.3611)
_NEAR = 1e-3  # by which what is written may differ: 0.1821, 5.489 for 1 / 0.18215
_TIMES = ("*", ".mul", ".mul_", "torch.mul")
_OVER = ("/", ".div", ".div_", "torch.div")


class HardCodedVaeScaling(Rule):
    code = "DL943"
    name = "hard-coded-vae-scaling"
    category = "suspicious"
    severity = "info"
    default = False
    confirmable = True
    triggers = (("encode", "decode"), ("diffusers",))
    fix_safety = "safe"
    references = ("https://huggingface.co/docs/diffusers/api/models/autoencoderkl",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        told: set[int] = set()
        for value in _what_is_used(ctx):
            for scaled in ctx.sources(value):
                found = _scaled_by_number(scaled, ctx) if isinstance(scaled, Symbol) else None
                if found is not None and id(scaled) not in told and ctx.may_run_with("diffusers", "0.12"):
                    told.add(id(scaled))
                    yield self._report(*found, ctx)

    def _report(self, scaled: Symbol, number: Const, vae: Value, ctx: Context) -> Finding:
        assert scaled.site is not None
        factor = _factor_in(number)
        known = ctx.factor_of_weights(vae)
        is_wrong = known is not None and abs(known / factor - 1) > _NEAR
        message = f"the latents are scaled by {factor:.5g}, "
        message += f"and the autoencoder that is loaded has {known:.5g}" if is_wrong else "a number of one autoencoder"
        return ctx.finding(
            self,
            scaled.site,
            message,
            on=[vae] if is_wrong else [],
            effect="latents and noise differ in size: the schedule, and a pretrained denoiser, do not fit"
            if is_wrong
            else "with another autoencoder, latents and noise differ in size, and nothing says so",
            help="read it off the autoencoder: `vae.config.scaling_factor`",
            trace=[(number.site or scaled.site, "the factor is written here")],
            fix=(
                "Read the factor off the autoencoder",
                _reading(scaled, number, ctx) if not is_wrong and known else Edits(),
            ),
            severity="warning" if is_wrong else None,
        )


def _what_is_used(ctx: Context) -> Iterator[Value]:
    """What is computed and goes anywhere: into a loss, a model, a library, or a file."""
    for event in ctx.all_of(Backward, LossCall, StateSaved, ModelForward, LibraryCall):
        if isinstance(event, ModelForward | LibraryCall):
            yield from event.arguments.all()
        elif isinstance(event, Backward) and event.loss is not None:
            yield event.loss
        elif isinstance(event, LossCall) and event.input is not None:
            yield event.input
        elif isinstance(event, StateSaved) and event.content is not None:
            yield event.content


def _scaled_by_number(value: Symbol, ctx: Context) -> tuple[Symbol, Const, Value] | None:
    """Where latents are scaled by a number of an autoencoder: after it has encoded, or before it decodes."""
    if value.name in _TIMES and len(value.inputs) == 2:
        for number, latents in (value.inputs, value.inputs[::-1]):
            vae = ctx.autoencoder_of(_before_shift(latents, ctx))
            if isinstance(number, Const) and vae is not None and _factor_in(number) > 0:
                return value, number, vae
    if value.name == ".decode" and len(value.inputs) > 1:
        vae, scaled = value.inputs[0], _only(value.inputs[1], ctx)
        is_vae = ctx.is_autoencoder(vae) or ctx.name_of(vae).rpartition(".")[2] == "vae"
        factors = [each for each in _factors_of(scaled) if isinstance(each, Const) and _factor_in(each) > 0]
        if is_vae and isinstance(scaled, Symbol) and len(factors) == 1:
            return scaled, factors[0], vae
    return None


def _factors_of(scaled: Value) -> Iterator[Value]:
    """What a tensor is multiplied with or divided by: 0.18215 in `z / 0.18215` and in `1 / 0.18215 * z`."""
    if isinstance(scaled, Symbol) and scaled.name in (*_TIMES, *_OVER):
        for each in scaled.inputs:
            is_inverse = isinstance(each, Symbol) and each.name == "/" and isinstance(each.inputs[0], Const)
            yield from each.inputs if isinstance(each, Symbol) and is_inverse else (each,)


def _before_shift(latents: Value, ctx: Context) -> Value:
    """Latents before a shift is subtracted from them."""
    origin = _only(latents, ctx)
    is_shifted = isinstance(origin, Symbol) and origin.name == "-" and bool(origin.inputs)
    return _only(origin.inputs[0], ctx) if isinstance(origin, Symbol) and is_shifted else origin


def _only(value: Value, ctx: Context) -> Value:
    origins = ctx.origins(value)
    return origins[0].value if len(origins) == 1 else value


def _factor_in(number: Const) -> float:
    """The factor of a published autoencoder that a number is, or is the inverse of; else 0."""
    value = number.value
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return 0
    return next((each for each in (value, 1 / value) if any(abs(each / known - 1) < _NEAR for known in _KNOWN)), 0)


def _reading(scaled: Symbol, number: Const, ctx: Context) -> Edits:
    """The factor read off the autoencoder, where the number stands within what scales, and that is called there."""
    site, place = scaled.site, number.site
    if site is None or place is None or not isinstance(place.node, ast.Constant):
        return Edits()
    around = next(iter(ctx.ancestors(site, ast.FunctionDef, ast.Module)), None)
    is_within = any(each is place.node for each in ast.walk(site.node))
    calls = [each.func for each in ast.walk(around) if isinstance(each, ast.Call)] if around is not None else []
    owners = {
        ast.unparse(function.value)
        for function in calls
        if isinstance(function, ast.Attribute) and function.attr in ("encode", "decode")
    }
    if not is_within or len(owners) != 1 or place.node.value != _factor_in(number):
        return Edits()
    return replace_range(place, f"{owners.pop()}.config.scaling_factor")
