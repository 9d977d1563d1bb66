"""A best checkpoint that is chosen in the wrong direction: the worst one is kept.

Hugging Face's Trainer takes every metric whose name does not end with "loss" for one of which more is better, the error
rates among them. Lightning's `ModelCheckpoint` and `EarlyStopping` take every metric for one of which less is better.
Nothing says so, and the best model of the run is deleted, or training ends after a few epochs.

Measured with transformers 5.23 and lightning 2.6: `greater_is_better` is true by default for `wer`, `perplexity` and
`rmse`; of epochs with accuracies of .7, .5 and .9, `ModelCheckpoint(monitor="val_acc")` keeps that of .5 alone.

## Bad
    from lightning.pytorch.callbacks import ModelCheckpoint

    callback = ModelCheckpoint(monitor="val_acc")

## Good
    from lightning.pytorch.callbacks import ModelCheckpoint

    callback = ModelCheckpoint(monitor="val_acc", mode="max")

## Not reported
Metrics whose names do not tell a direction, or tell both; directions that are not known; all checkpoints kept
(`save_top_k=-1`); a Trainer that neither loads the best model nor stops early.

## Fix (unsafe)
Says the direction. Unsafe because another checkpoint is kept then.

## On real code
269 public repositories, of those that monitor a metric by name: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import Arguments, Context, Finding, LibraryCall, Rule, set_argument

_CALLBACKS = ("lightning.pytorch.callbacks.ModelCheckpoint", "lightning.pytorch.callbacks.EarlyStopping")
_OPTIONS = ("TrainingArguments", "SFTConfig", "DPOConfig", "RewardConfig", "KTOConfig", "ORPOConfig")


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is chosen by, whether the most of it, and the argument that would say so."""

    metric: str
    takes_most: bool
    option: str
    right: str
    is_told: bool


def keeps_all(event: LibraryCall, choice: _Choice, ctx: Context) -> bool:
    """all checkpoints are kept, or none"""
    return ctx.constant(event.arguments.get(None, "save_top_k")) in (-1, 0)


def best_is_not_used(event: LibraryCall, choice: _Choice, ctx: Context) -> bool:
    """the Trainer neither loads the best model in the end nor stops early"""
    if event.name in _CALLBACKS:
        return False
    loads = ctx.constant(event.arguments.get(None, "load_best_model_at_end"))
    return loads is not True and not any(
        each.name.endswith("EarlyStoppingCallback") for each in ctx.all_of(LibraryCall)
    )


class BestCheckpointDirection(Rule):
    code = "DL716"
    name = "best-checkpoint-direction"
    category = "correctness"
    severity = "error"
    triggers = (("ModelCheckpoint", "EarlyStopping", *_OPTIONS, "Seq2SeqTrainingArguments"),)
    confirmable = True
    fix_safety = "unsafe"
    references = (
        "https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ModelCheckpoint.html",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )

    excuses = (keeps_all, best_is_not_used)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        choice = _choice(event.name, event.arguments, ctx)
        if choice is None or _takes_most(choice.metric, ctx) in (None, choice.takes_most):
            return
        if ctx.excused(self, event, choice):
            return
        most = "highest" if choice.takes_most else "lowest"
        why = "is told" if choice.is_told else "is by default"
        yield ctx.finding(
            self,
            event,
            f"the checkpoint with the {most} `{choice.metric}` is kept as the best, as it {why}",
            on=list(event.arguments.all()),
            effect="the worst model is kept, and the best one deleted",
            help=f"pass `{choice.option}={choice.right}`",
            fix=("Say the direction", set_argument(event.site, choice.option, choice.right)),
        )


def _choice(name: str, arguments: Arguments, ctx: Context) -> _Choice | None:
    """By what a best checkpoint is chosen, where all of it is known."""
    if not arguments.exact:
        return None
    if name in _CALLBACKS:
        position = 0 if name.endswith("EarlyStopping") else 2
        metric, told = ctx.constant(arguments.get(position, "monitor")), arguments.get(None, "mode")
        mode = ctx.constant(told) if told is not None else "min"
        right = '"min"' if mode == "max" else '"max"'
        is_known = mode in ("min", "max")
        option, takes_most = "mode", mode == "max"
    elif name.startswith(("transformers.", "trl.")) and name.endswith(_OPTIONS):
        metric = ctx.constant(arguments.get(None, "metric_for_best_model"))
        told = arguments.get(None, "greater_is_better")
        given = ctx.constant(told)
        is_known = told is None or ctx.is_none(told) or isinstance(given, bool)
        takes_most = given if isinstance(given, bool) else not str(metric).endswith("loss")
        option, right = "greater_is_better", str(not takes_most)
    else:
        return None
    if not is_known or not isinstance(metric, str):
        return None
    return _Choice(metric, takes_most, option, right, told is not None)


def _takes_most(metric: str, ctx: Context) -> bool | None:
    """Whether more of a metric is better, by its name; `None` if that does not tell."""
    rising, falling = ctx.speaks_of("growing-metric", metric), ctx.speaks_of("falling-metric", metric)
    return None if rising == falling else rising
