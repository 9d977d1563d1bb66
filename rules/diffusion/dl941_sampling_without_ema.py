"""Samples that are drawn with the weights of the moment, while an average of them is kept and never used.

Models that make samples step by step add up the noise that is in their weights. So they are sampled with a moving
average of them, which costs memory and a little time in each step. A script that keeps one, and samples with the model
that it trains, pays for the average and shows (and chooses checkpoints by) samples that are worse.

Measured on torch 2.13 (16 numbers in 8 clusters, a denoiser of three layers, 6,000 steps of Adam, DDIM of 100 steps,
three seeds): samples of the average (decay .999) are .0125 to .016 from the data (energy distance, in deviations),
those of the weights of the moment .017 to .036.

## Bad
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
    from diffusers.training_utils import EMAModel

    unet, scheduler = UNet2DModel(), DDPMScheduler()
    optimizer = torch.optim.AdamW(unet.parameters())
    ema = EMAModel(unet.parameters())
    for x, y in loader:
        noise, t = torch.randn_like(x), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(x, noise, t), t).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(unet.parameters())
    DDPMPipeline(unet=unet, scheduler=scheduler)().images[0].save("sample.png")

## Good
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
    from diffusers.training_utils import EMAModel

    unet, scheduler = UNet2DModel(), DDPMScheduler()
    optimizer = torch.optim.AdamW(unet.parameters())
    ema = EMAModel(unet.parameters())
    for x, y in loader:
        noise, t = torch.randn_like(x), torch.randint(0, 1000, (len(x),))
        loss = F.mse_loss(unet(scheduler.add_noise(x, noise, t), t).sample, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(unet.parameters())
    ema.copy_to(unet.parameters())
    DDPMPipeline(unet=unet, scheduler=scheduler)().images[0].save("sample.png")

## Not reported
Averages that any code does more with than to make, update, move, save and restore them: whatever else gets one may use
its weights. Programs that keep several averages, one of which is used. What is called an average and is never updated.
Averages whose entry in a checkpoint other code of the project reads: somebody samples with them later. Functions that
do not say by their names that they make samples.

## On real code
103 public repositories that speak of such an average: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from dllint.api import Average, Context, Finding, LibraryCall, Program, Rule, Site, nodes_of, statement_around

_READ_LATER = (
    r"""(?<!ema\.load_state_dict\()(?<!ema_model\.load_state_dict\()\b\w+(?:\[|\.get\(|\.pop\()["']\w*ema\w*["']"""
)


def is_used(average: Average, ctx: Context) -> bool:
    """some code does more with the average than to update and to save it"""
    return ctx.is_average_used(average)


def is_read_elsewhere(average: Average, ctx: Context) -> bool:
    """other code of the project reads the average from a checkpoint"""
    return ctx.project_mentions(_READ_LATER, where="elsewhere")


class SamplingWithoutEma(Rule):
    code = "DL941"
    name = "sampling-without-ema"
    category = "correctness"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (
        ("step", "update", "update_parameters", "update_ema", "step_ema"),
        ("ema", "EMA", "ModelEMA", "EMAModel", "ModelEma", "AveragedModel", "ExponentialMovingAverage"),
        ("backward",),
    )
    excuses = (is_used, is_read_elsewhere)
    references = (
        "https://arxiv.org/abs/2006.11239",
        "https://github.com/huggingface/diffusers/blob/main/src/diffusers/training_utils.py",
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        averages = list(ctx.averages()) if ctx.steps() else []
        for average in averages:
            models = ctx.names_averaged(average)
            sampled = next(_samplings(average, models, ctx), None) if models else None
            if sampled is not None and not any(ctx.excused(self, each) for each in averages):
                yield self._report(average, sampled, ctx)
                return

    def _report(self, average: Average, sampled: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            sampled,
            f"samples are made with the weights of the moment, and `{average.name}` is never used",
            on=[ctx.steps()[0]],
            effect="the samples have all the noise of the last steps, which the average is kept to take out",
            help="sample with the averaged model, or copy its weights into the model before (`ema.copy_to`)",
            trace=[(average.site, "the average is made"), (sampled, "and the model itself makes samples")],
        )


def _samplings(average: Average, models: Collection[str], ctx: Context) -> Iterator[Site]:
    """Where samples are made with a model: by a method of it, by a pipeline, or by a function that gets it."""
    module = average.site.module
    pipelines = {id(each.site.node) for each in ctx.all_of(LibraryCall) if "Pipeline" in getattr(each, "name", "")}
    for call in nodes_of(module.tree).of(ast.Call):
        *owners, name = ast.unparse(call.func).rsplit(".", 2)[-2:]
        is_asked = ctx.speaks_of("sampling", name) and not ctx.speaks_of("drawn-for-training", name)
        is_of_model = any(owner in models for owner in owners) and is_asked
        if is_of_model or ((is_asked or id(call) in pipelines) and _gets(call, models)):
            site = Site(module, call)
            if ctx.is_read_at(site) or (is_asked and isinstance(statement_around(site), ast.Expr)):
                yield site


def _gets(call: ast.Call, models: Collection[str]) -> bool:
    return any(_last_name(each) in models for each in (*call.args, *(keyword.value for keyword in call.keywords)))


def _last_name(node: ast.expr) -> str:
    """The last part of a name, also of what is unwrapped: `unet` of `accelerator.unwrap_model(self.unet)`."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith("unwrap_model"):
        node = node.args[0]
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
