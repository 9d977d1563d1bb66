"""Latents of an autoencoder that noise is added to as they are, without the factor that belongs to it.

The autoencoders of latent diffusion make latents of other deviations than the noise has: those of Stable Diffusion's
first one deviate by about 5.5. Its `scaling_factor` (0.18215) brings them to 1, which is what the noise schedule and
the pretrained denoiser were made for. Nothing fails without it, and the loss says little.

Measured on torch 2.13 (16 numbers in 8 clusters, a denoiser of three layers, the schedule of Stable Diffusion, DDIM of
100 steps, three seeds): a denoiser trained on data of deviation 1 has a loss of .08 there, and of 20 on
the same data times 5.5. Trained on these from the start, it ends at a loss of .27, and its samples are
.083 from the data (energy distance, in deviations) instead of .022.

## Bad
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel

    vae = AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse")
    unet, scheduler = UNet2DModel(), DDPMScheduler()
    for x, y in loader:
        latents = vae.encode(x).latent_dist.sample()
        noise, t = torch.randn_like(latents), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(latents, noise, t), t).sample, noise)
        loss.backward()

## Good
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DModel

    vae = AutoencoderKL.from_pretrained("stabilityai/sd-vae-ft-mse")
    unet, scheduler = UNet2DModel(), DDPMScheduler()
    for x, y in loader:
        latents = vae.encode(x).latent_dist.sample() * vae.config.scaling_factor
        noise, t = torch.randn_like(latents), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(latents, noise, t), t).sample, noise)
        loss.backward()

## Not reported
Latents that anything is computed with before noise is added: a factor from elsewhere, a mean and a deviation of their
own, a layer. Latents that are a condition beside the noisy ones, as InstructPix2Pix takes them. Noise that is added
while nothing is trained. Autoencoders that an optimizer of the program trains, that are made with a `scaling_factor`
of 1, or of other classes, many of which make latents of deviation 1. Latents that a method changes in place
(`latents.mul_(…)`). Where it is not known which weights an autoencoder has, it is a question.

## Fix (unsafe)
Multiplies the latents by `scaling_factor` of the autoencoder's configuration, where they are drawn. Unsafe because it
changes training, as it should.

## On real code
11 repositories that use autoencoders of diffusers or latents of this kind (the examples of diffusers, sd-scripts, SiT,
REPA and DiT among them), and 437 others: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from dllint.api import (
    Assumption,
    Assumptions,
    Backward,
    Choice,
    Context,
    Edits,
    Finding,
    Instance,
    Origin,
    Rule,
    Symbol,
    Value,
    alternatives,
    assumed_of_options,
    attribute_of,
    flatten,
    judge,
    replace_range,
    summands,
)

_ADDING = {".add_noise": "original_samples", ".scale_noise": "sample"}  # and how the latents are called
_NOISE = frozenset(("torch.randn_like", "torch.randn", ".normal_", "diffusers.utils.torch_utils.randn_tensor"))
_DRAWN = frozenset(
    ("torch.rand", "torch.randint", "torch.rand_like", "torch.randint_like",
     "diffusers.training_utils.compute_density_for_timestep_sampling")
)  # fmt: skip
_SCALED = (
    "AutoencoderKL", "AsymmetricAutoencoderKL", "AutoencoderKLAllegro", "AutoencoderKLHunyuanVideo"
)  # fmt: skip
_PUBLISHED = ("stabilityai/", "runwayml/", "compvis/", "madebyollin/", "stable-diffusion", "sd-vae", "sdxl", "flux")
_CHANGING = ("mul_", "div_", "sub_", "copy_")


def is_changed_in_place(latents: Symbol, ctx: Context) -> bool:
    """a method changes the latents in place"""
    name = ctx.name_of(latents)
    return bool(name) and any(True for method in _CHANGING for _ in ctx.method_calls(method, name))


def is_trained_too(latents: Symbol, ctx: Context) -> bool:
    """an optimizer of the program trains the autoencoder"""
    vae = ctx.autoencoder_of(latents)
    return vae is not None and any(ctx.is_trained(each) for each in ctx.objects(vae))


def needs_no_factor(latents: Symbol, ctx: Context) -> bool:
    """the autoencoder is made with a factor of 1"""
    vae = ctx.autoencoder_of(latents)
    return isinstance(vae, Instance) and ctx.constant(ctx.data.arguments(vae).get("scaling_factor")) == 1


class MissingVaeScaling(Rule):
    code = "DL942"
    name = "missing-vae-scaling"
    category = "correctness"
    severity = "error"
    default = False
    confirmable = True
    triggers = (("encode",), ("latent_dist", "vae", *_SCALED), ("add_noise", "scale_noise", "randn", "randn_like"))
    excuses = (is_changed_in_place, is_trained_too, needs_no_factor)
    fix_safety = "unsafe"
    references = (
        "https://huggingface.co/docs/diffusers/api/models/autoencoderkl",
        "https://arxiv.org/abs/2112.10752",
    )

    def __init__(self) -> None:
        self._told: set[int] = set()

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        for value, assumed_on_the_way in _behind_loss(event.loss):
            for clean in _made_noisy(value, ctx):
                verdict = judge(ctx.origins(clean), partial(_is_raw, ctx), event.guards)
                if verdict is None:
                    continue
                origins, assumed = verdict
                latents = origins[0].value
                assert isinstance(latents, Symbol)
                if id(latents) not in self._told and not ctx.excused(self, latents):
                    self._told.add(id(latents))
                    yield self._report(event, origins[0], value, (*assumed, *assumed_on_the_way), ctx)

    def _report(self, event: Backward, origin: Origin, noisy: Value, assumed: Assumptions, ctx: Context) -> Finding:
        latents = origin.value
        vae = ctx.autoencoder_of(latents)
        assert isinstance(latents, Symbol) and vae is not None and latents.site is not None
        trace = [(latents.site, "the latents are drawn here"), *reversed(origin.hops)]
        if noisy.site is not None:
            trace.append((noisy.site, "noise is added to them"))
        return ctx.finding(
            self,
            latents.site,
            "noise is added to latents that are not scaled",
            on=[*event.guards, origin, latents],
            effect="noise and latents differ in size: the schedule, and a pretrained denoiser, do not fit",
            help="multiply the latents by `vae.config.scaling_factor`",
            trace=[*trace, (event.site, "and a model is trained with it")],
            fix=("Scale the latents", _scaled(latents, ctx)),
            assuming=[*assumed, *ctx.made_up_of(*_encoded(latents)), *_assumed_of_weights(vae, ctx)],
        )


def _behind_loss(loss: Value | None) -> Iterator[tuple[Value, Assumptions]]:
    """What a loss was computed from, with what that assumes."""
    pending: list[tuple[Value, Assumptions]] = [(loss, ())] if loss is not None else []
    seen = set[int]()
    for value, assumed in pending:  # which grows meanwhile
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value, assumed
        if isinstance(value, Choice):
            assumed = (*assumed, *assumed_of_options(value))
            pending.extend((option, assumed) for _, option in alternatives(value))
        elif isinstance(value, Symbol) and value.name not in _ADDING:
            inputs = value.inputs[:1] if value.name == ".get" else value.inputs
            pending.extend((part, assumed) for each in inputs for part in flatten(each))


def _made_noisy(value: Value, ctx: Context) -> Iterator[Value]:
    """What noise is added to by an operation: by that of a scheduler, or by a sum with factors that are drawn."""
    if not isinstance(value, Symbol):
        return
    if value.name in _ADDING:
        clean = ctx.argument(value, 0, _ADDING[value.name])
        if clean is not None:
            yield clean
    elif value.name in ("+", "-"):
        products = [_factors(term) for term in summands(value)]
        if any(any(_is_noise(factor, ctx) for factor in product) for product in products):
            for product in products:
                others = [factor for factor in product if ctx.autoencoder_of(_only_origin(factor, ctx)) is None]
                if len(product) - len(others) == 1 and others and all(_is_drawn(factor, ctx) for factor in others):
                    yield from (factor for factor in product if factor not in others)


def _factors(term: Value) -> list[Value]:
    if isinstance(term, Symbol) and term.name == "*":
        return [factor for part in term.inputs for factor in _factors(part)]
    return [term]


def _only_origin(value: Value, ctx: Context) -> Value:
    origins = ctx.origins(value)
    return origins[0].value if len(origins) == 1 else value


def _is_noise(value: Value, ctx: Context) -> bool:
    origin = _only_origin(value, ctx)
    return isinstance(origin, Symbol) and origin.name in _NOISE


def _is_drawn(value: Value, ctx: Context) -> bool:
    """Whether a factor is another one for each sample, by a time that is drawn; no factor of an autoencoder is."""
    return any(isinstance(each, Symbol) and each.name in _DRAWN for each in ctx.sources_up_to(value, _is_unsure))


def _is_unsure(value: Value) -> bool:
    return isinstance(value, Choice) or (isinstance(value, Symbol) and value.name == ".get")


def _is_raw(ctx: Context, origin: Origin) -> bool:
    return ctx.autoencoder_of(origin.value) is not None


def _encoded(latents: Symbol) -> Sequence[Value]:
    """The images that latents are made of."""
    value: Value = latents
    while isinstance(value, Symbol) and value.name != ".encode" and value.inputs:
        value = value.inputs[0]
    return value.inputs[1:] if isinstance(value, Symbol) else ()


def _assumed_of_weights(vae: Value, ctx: Context) -> Iterator[Assumption]:
    """That latents deviate by something else than 1, if it is not told that an autoencoder is a published one."""
    owner = attribute_of(vae, "vae") or vae
    names = ctx.names_of_weights(vae)
    is_part = isinstance(owner, Instance) and ctx.constant(ctx.argument(owner, None, "subfolder")) == "vae"
    is_of_pipeline = owner is not vae and ctx.is_autoencoder(vae)
    if is_part or is_of_pipeline or any(word in name for name in names for word in _PUBLISHED):
        return
    yield Assumption("effect", "the latents that the autoencoder makes do not have a deviation of 1")


def _scaled(latents: Symbol, ctx: Context) -> Edits:
    """The latents times the factor, where the autoencoder is written out as what encodes."""
    site = latents.site
    calls = [node for node in ast.walk(site.node) if isinstance(node, ast.Call)] if site is not None else []
    encoders = [
        ast.unparse(call.func.value)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "encode"
    ]
    if site is None or len(encoders) != 1:
        return Edits()
    text = f"{ctx.source_of(site)} * {encoders[0]}.config.scaling_factor"
    around = next(iter(ctx.ancestors(site, ast.Assign, ast.expr)), None)
    return replace_range(site, text if isinstance(around, ast.Assign) else f"({text})")
