"""A scheduler that is stepped by hand where the framework already steps it.

The Hugging Face `Trainer` and Lightning's automatic optimization step the scheduler themselves. A second step per batch
makes the schedule run twice as fast, or out of its range.

Measured with transformers 5.23: with a manual `lr_scheduler.step()` in `training_step`, the learning rate of a linear
schedule over 4 steps was 0 on all 4 steps instead of .1, .075, .05, .025.

## Bad
    class MyTrainer(Trainer):
        def training_step(self, model, inputs):
            loss = super().training_step(model, inputs)
            self.lr_scheduler.step()
            return loss

## Good
    class MyTrainer(Trainer):
        def training_step(self, model, inputs):
            return super().training_step(model, inputs)

## Not reported
Lightning modules with manual optimization, Lightning's `lr_scheduler_step` hook, a trainer that overrides the whole
inner training loop, callbacks that only read the scheduler, and schedulers that the framework does not know: those of
an optimizer of one's own, and those that `configure_optimizers` makes but does not return; steps in each batch of a
schedule whose length is computed from that of the loader, to which Lightning adds one in each epoch.

## Fix (unsafe)
Removes the step. Unsafe because it changes the rates, as it should.

## On real code
742 public repositories: no finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import Context, Finding, Rule, SchedulerCreated, SchedulerStep, Site, Symbol, nodes_of, remove

_HOOKS = {
    "hf-trainer": frozenset(("training_step", "compute_loss", "prediction_step", "evaluate", "log")),
    "hf-callback": frozenset(
        ("on_step_begin", "on_step_end", "on_substep_end", "on_epoch_begin", "on_epoch_end", "on_log")
    ),
    "lightning": frozenset(
        ("training_step", "on_train_batch_start", "on_train_batch_end", "on_train_epoch_start", "on_train_epoch_end",
         "training_epoch_end", "on_before_optimizer_step", "optimizer_step", "validation_step",
         "on_validation_epoch_end")
    ),
}  # fmt: skip
_OF_BATCHES = frozenset(
    ("training_step", "on_train_batch_start", "on_train_batch_end", "on_before_optimizer_step", "optimizer_step")
)
_COUNTS_BATCHES = re.compile(r"\blen\(|\bceil\(|//|estimated_stepping_batches|(?i:num_|total_|max_)steps|num_batches")
_MAKERS = frozenset(("create_scheduler", "create_optimizer_and_scheduler", "configure_optimizers"))


# ------------------------------------------------------------------------------------------------- excuses


def is_optimized_by_hand(event: SchedulerStep, ctx: Context) -> bool:
    """the module turns Lightning's automatic optimization off"""
    return ctx.framework(event) == "lightning" and not ctx.is_managed(event)


def is_unknown_to_framework(event: SchedulerStep, ctx: Context) -> bool:
    """the framework does not have the scheduler: neither did it make it, nor was it made in the method for that"""
    framework = ctx.framework(event)
    made = next(
        (other for other in ctx.all_of(SchedulerCreated) if ctx.is_same(other.scheduler, event.scheduler)), None
    )
    if made is not None:
        maker = next((frame for frame in made.frame.stack() if frame.function in _MAKERS), None)
        return maker is None or (framework == "lightning" and not _returns_scheduler(maker.definition))
    if framework != "lightning":
        return ctx.name_of(event.scheduler) != "lr_scheduler"
    names = (value.name for value in ctx.sources(event.scheduler) if isinstance(value, Symbol))
    return not _is_kept_by_maker(event, ctx) and not any(name.endswith("lr_schedulers") for name in names)


def is_sized_in_batches(event: SchedulerStep, ctx: Context) -> bool:
    """it steps in each batch of a schedule that counts batches, to which Lightning adds one step in each epoch"""
    frame = next((each for each in event.frame.stack() if each.function in _OF_BATCHES), None)
    maker = ctx.member(frame.receiver, "configure_optimizers") if frame is not None and frame.receiver else None
    if maker is None or ctx.framework(event) != "lightning":
        return False
    nodes = nodes_of(maker.node)
    if any(each.value == "step" for each in nodes.of(ast.Constant)):
        return False  # `"interval": "step"`: in each batch as well
    made = [call for call in nodes.of(ast.Call) if ast.unparse(call.func).endswith("LR")]
    return bool(made) and all(any(_is_of_batches(each, maker.site) for each in _lengths(call)) for call in made)


class SchedulerSteppedUnderTrainer(Rule):
    code = "DL305"
    name = "scheduler-stepped-under-trainer"
    category = "correctness"
    severity = "error"
    triggers = (
        ("step",),
        ("Trainer", "Seq2SeqTrainer", "SFTTrainer", "TrainerCallback", "LightningModule", "DPOTrainer", "GRPOTrainer"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = (
        "https://huggingface.co/docs/transformers/main_classes/trainer",
        "https://lightning.ai/docs/pytorch/stable/common/optimization.html",
    )

    excuses = (is_optimized_by_hand, is_unknown_to_framework, is_sized_in_batches)

    def on_scheduler_step(self, event: SchedulerStep, ctx: Context) -> Iterator[Finding]:
        framework = ctx.framework(event)
        hook = next((f.function for f in event.frame.stack() if f.function in _HOOKS.get(framework, ())), None)
        if hook is None or ctx.excused(self, event):
            return
        owner = "Lightning" if framework == "lightning" else "the Trainer"
        yield ctx.finding(
            self,
            event,
            f"{ctx.called(event.scheduler, 'scheduler')} is stepped by hand in `{hook}`, and {owner} steps it as well",
            effect="the learning rate falls twice as fast as planned, or is zero from the start",
            help="remove this step; set its cadence in `TrainingArguments`"
            if framework != "lightning"
            else 'remove this step and set `"interval"` in `configure_optimizers`, or turn automatic optimization off',
            trace=[*ctx.calls_to(event), (event.site, "the scheduler is stepped here")],
            fix=("Leave the step to the framework", remove(event.site)),
        )


def _is_kept_by_maker(event: SchedulerStep, ctx: Context) -> bool:
    """Whether it is an attribute that ``configure_optimizers`` sets."""
    maker = ctx.member(event.frame.receiver, "configure_optimizers") if event.frame.receiver is not None else None
    if maker is None or not _returns_scheduler(maker.site):
        return False
    kept = {node.attr for node in ast.walk(maker.node) if isinstance(node, ast.Attribute)}
    return ctx.name_of(event.scheduler) in kept


def _returns_scheduler(definition: Site | None) -> bool:
    """Whether ``configure_optimizers`` plainly returns more than an optimizer."""
    if definition is None:
        return False
    returned = [node.value for node in ast.walk(definition.node) if isinstance(node, ast.Return)]
    return any(
        (isinstance(value, ast.Tuple | ast.List) and len(value.elts) > 1)
        or (isinstance(value, ast.Dict) and any(getattr(key, "value", "") == "lr_scheduler" for key in value.keys))
        for value in returned
    )


def _lengths(call: ast.Call) -> list[ast.expr]:
    """What a scheduler is told besides its optimizer."""
    return [*call.args[1:], *(each.value for each in call.keywords if each.arg != "optimizer")]


def _is_of_batches(length: ast.expr, site: Site | None) -> bool:
    """Whether a number of steps is computed from how many batches there are, also by an attribute of the object."""
    if isinstance(length, ast.Attribute) and site is not None:
        statements = nodes_of(site.module.tree).of(ast.Assign)
        given = [each.value for each in statements if ast.unparse(each.targets[0]) == ast.unparse(length)]
        return bool(given) and all(_COUNTS_BATCHES.search(ast.unparse(each)) for each in given)
    return _COUNTS_BATCHES.search(ast.unparse(length)) is not None
