"""A scheduler that is stepped by hand where the framework already steps it.

The Hugging Face `Trainer` and Lightning's automatic optimisation step the scheduler themselves. A second step per batch
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
Lightning modules with manual optimisation, Lightning's `lr_scheduler_step` hook, a trainer that overrides the whole inner
training loop, and callbacks that only read the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Rule, SchedulerStep

_HOOKS = {
    "hf-trainer": frozenset(("training_step", "compute_loss", "prediction_step", "evaluate", "log")),
    "hf-callback": frozenset(("on_step_begin", "on_step_end", "on_substep_end", "on_epoch_begin", "on_epoch_end", "on_log")),
    "lightning": frozenset(
        ("training_step", "on_train_batch_start", "on_train_batch_end", "on_train_epoch_start", "on_train_epoch_end",
         "training_epoch_end", "on_before_optimizer_step", "optimizer_step", "validation_step", "on_validation_epoch_end")
    ),
}  # fmt: skip


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
    references = (
        "https://huggingface.co/docs/transformers/main_classes/trainer",
        "https://lightning.ai/docs/pytorch/stable/common/optimization.html",
    )

    def on_scheduler_step(self, event: SchedulerStep, ctx: Context) -> Iterator[Finding]:
        framework = ctx.framework(event)
        hook = next((f.function for f in event.frame.stack() if f.function in _HOOKS.get(framework, ())), None)
        if hook is None or (framework == "lightning" and not ctx.is_managed(event)):
            return
        owner = "Lightning" if framework == "lightning" else "the Trainer"
        name = ctx.name_of(event.scheduler) or "the scheduler"
        yield ctx.finding(
            self,
            event.site,
            f"`{name}` is stepped by hand in `{hook}`, and {owner} steps it as well",
            effect="the learning rate falls twice as fast as planned, or is zero from the start",
            help="remove this step; set its cadence in `TrainingArguments`"
            if framework != "lightning"
            else 'remove this step and set `"interval"` in `configure_optimizers`, or turn automatic optimisation off',
        )
