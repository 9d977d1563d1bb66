"""Samples that are made with another noise schedule than the one that the model was trained with.

A sampler takes away as much noise in each step as its schedule says that there is. The constructors of the schedulers
of diffusers begin with defaults (`beta_start=0.0001`, `beta_end=0.02`, `linear`), whatever another scheduler was given:
who trains with one schedule and makes a faster sampler without these arguments removes another amount of noise than
there is. Nothing fails, and the loss knows nothing of it.

Measured on torch 2.13 (16 numbers in 8 clusters, a denoiser of three layers, DDIM of 100 steps, three seeds): trained
with the schedule of Stable Diffusion (`scaled_linear`, .00085 to .012) and sampled with it, samples are .017 to .020
from the data (energy distance, in deviations), and .058 to .067 with the defaults. The other way round it is .03 and
.22.

## Bad
    from diffusers import DDIMScheduler, DDPMScheduler, DDPMPipeline, UNet2DModel

    unet, scheduler = UNet2DModel(), DDPMScheduler(beta_schedule="squaredcos_cap_v2")
    for x, y in loader:
        noise, t = torch.randn_like(x), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(x, noise, t), t).sample, noise)
        loss.backward()
    images = DDPMPipeline(unet=unet, scheduler=DDIMScheduler())().images

## Good
    from diffusers import DDIMScheduler, DDPMScheduler, DDPMPipeline, UNet2DModel

    unet, scheduler = UNet2DModel(), DDPMScheduler(beta_schedule="squaredcos_cap_v2")
    for x, y in loader:
        noise, t = torch.randn_like(x), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(x, noise, t), t).sample, noise)
        loss.backward()
    images = DDPMPipeline(unet=unet, scheduler=DDIMScheduler.from_config(scheduler.config))().images

## Not reported
Schedulers whose configuration is not written in the code (`from_pretrained`, `from_config`), or an argument of which is
not known. Schedulers of flow matching, and those of other libraries. Programs in which several schedules add noise, or
that sample with the training scheduler as well. Samplers that are given to code which is not seen.

## Fix (unsafe)
Makes the sampler from the configuration of the training scheduler, where that has a name there. Unsafe because samples
change by it, as they should.

## On real code
15 public repositories that call an `add_noise`: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    Instance,
    LibraryCall,
    OpaqueCall,
    Program,
    Rule,
    Site,
    is_bound_at,
    replace_range,
    statement_around,
)

_BETAS: dict[str, object] = {
    "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear", "num_train_timesteps": 1000
}  # fmt: skip
_OTHER_BETAS = {**_BETAS, "beta_start": 0.00085, "beta_end": 0.012}
_SCALED_BETAS = {**_OTHER_BETAS, "beta_schedule": "scaled_linear"}
_DEFAULTS: dict[str, dict[str, object]] = {
    "DDPMScheduler": _BETAS, "DDIMScheduler": _BETAS, "PNDMScheduler": _BETAS, "DPMSolverMultistepScheduler": _BETAS,
    "DPMSolverSinglestepScheduler": _BETAS, "UniPCMultistepScheduler": _BETAS, "DEISMultistepScheduler": _BETAS,
    "EulerDiscreteScheduler": _BETAS, "EulerAncestralDiscreteScheduler": _BETAS, "LMSDiscreteScheduler": _BETAS,
    "HeunDiscreteScheduler": _OTHER_BETAS, "KDPM2DiscreteScheduler": _OTHER_BETAS,
    "KDPM2AncestralDiscreteScheduler": _OTHER_BETAS, "LCMScheduler": _SCALED_BETAS, "TCDScheduler": _SCALED_BETAS,
}  # fmt: skip
"""The noise schedule of each scheduler of diffusers that is made without arguments."""
_RESHAPING = ("trained_betas", "rescale_betas_zero_snr")


class NoiseScheduleMismatch(Rule):
    code = "DL944"
    name = "noise-schedule-mismatch"
    category = "correctness"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("add_noise",), ("diffusers",), ("backward",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/diffusers/api/schedulers/overview",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        calls = [event for event in ctx.all_of(OpaqueCall) if isinstance(event, OpaqueCall)]
        adding = {id(event.receiver): event for event in calls if event.name == "add_noise"}
        if len(adding) != 1 or not ctx.all_of(Backward):
            return
        added = next(iter(adding.values()))
        trained = added.receiver
        told: set[int] = set()
        sampling = list(_sampling(ctx))
        if not isinstance(trained, Instance) or any(sampler is trained for _, sampler in sampling):
            return
        for event, sampler in sampling:
            differing = _differing(trained, sampler, ctx)
            if differing and id(sampler) not in told and not ctx.exclusive(event, added):
                told.add(id(sampler))
                yield self._report(event, added, trained, sampler, differing, ctx)

    def _report(
        self, event: Event, added: OpaqueCall, trained: Instance, sampler: Instance, differing: list[str], ctx: Context
    ) -> Finding:
        made, place = trained.site or added.site, sampler.site or event.site
        given = [value for each in (trained, sampler) for value in each.arguments.all()]
        return ctx.finding(
            self,
            place,
            f"samples are made with another `{differing[0]}` than the model is trained with",
            on=[event, added, trained, sampler, *given],
            effect="the sampler removes another amount of noise than there is, and samples are off",
            help="make the sampler of the other scheduler: `Sampler.from_config(scheduler.config)`",
            trace=[
                (made, "noise is added by this one"),
                (place, "this one has another schedule"),
                (event.site, "it samples"),
            ],
            fix=("Make it of the training scheduler", _made_of(trained, sampler)),
        )


def _sampling(ctx: Context) -> Iterator[tuple[Event, Instance]]:
    """Where samples are made, each with its scheduler: by its `step`, or by a pipeline that gets it."""
    for event in ctx.all_of(OpaqueCall, LibraryCall):
        if isinstance(event, OpaqueCall) and event.name == "step" and isinstance(event.receiver, Instance):
            if _scheduler_class(event.receiver):
                yield event, event.receiver
        elif isinstance(event, LibraryCall) and "Pipeline" in event.name:
            yield from (
                (event, each) for each in event.arguments.all() if isinstance(each, Instance) and _scheduler_class(each)
            )


def _scheduler_class(scheduler: Instance) -> str:
    """The class of a scheduler of diffusers that its constructor has made; else empty."""
    name = scheduler.library_name.rpartition(".")[2]
    return name if scheduler.library_name.startswith("diffusers.") and name in _DEFAULTS else ""


def _schedule_of(scheduler: Instance, ctx: Context) -> dict[str, object]:
    """What the noise schedule of a scheduler follows from; empty where some of it is not known."""
    found = dict(_DEFAULTS.get(_scheduler_class(scheduler), {}))
    if not scheduler.arguments.exact or any(scheduler.arguments.get(None, name) is not None for name in _RESHAPING):
        return {}
    for position, name in enumerate(("num_train_timesteps", "beta_start", "beta_end", "beta_schedule")):
        given = scheduler.arguments.get(position, name)
        if given is not None and name in found:
            value = ctx.constant(given)
            if value is None:
                return {}
            found[name] = value
    return found


def _differing(trained: Instance, sampler: Instance, ctx: Context) -> list[str]:
    """The arguments by which two noise schedules differ, the most telling first."""
    one, other = _schedule_of(trained, ctx), _schedule_of(sampler, ctx)
    if not one or not other:
        return []
    names = ["beta_schedule", "num_train_timesteps", "beta_start", "beta_end"]
    if one["beta_schedule"] == other["beta_schedule"] == "squaredcos_cap_v2":  # which asks for no betas
        names = ["num_train_timesteps"]
    return [name for name in names if one[name] != other[name]]


def _made_of(trained: Instance, sampler: Instance) -> Edits:
    """The sampler made from the configuration of the training scheduler, where that has a name."""
    place, made = sampler.site, trained.site
    statement = statement_around(made) if isinstance(made, Site) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    name = ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
    if place is None or not isinstance(place.node, ast.Call) or not is_bound_at(place, name, made):
        return Edits()
    return replace_range(place, f"{ast.unparse(place.node.func)}.from_config({name}.config)")
