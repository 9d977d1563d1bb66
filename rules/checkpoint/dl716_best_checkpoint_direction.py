"""A best checkpoint that is chosen in the wrong direction: the worst one is kept.

Hugging Face's Trainer takes every metric whose name does not end with "loss" for one of which more is better, the error
rates among them. Lightning's `ModelCheckpoint` and `EarlyStopping` take every metric for one of which less is better.
Nothing says so, and the best model of the run is deleted, or (`EarlyStopping`) training ends after a few epochs.

Comparisons that are written by hand go wrong in the same way (`if accuracy < best_accuracy`), are given a score of
the other direction (an accuracy, where `EarlyStopping` of the project keeps the lowest), or begin with what no score
beats: with `best_loss = 0` no loss is ever below it, and no checkpoint is written.

Measured with transformers 5.23 and lightning 2.6: `greater_is_better` is true by default for `wer`, `perplexity` and
`rmse`; of epochs with accuracies of .7, .5 and .9, `ModelCheckpoint(monitor="val_acc")` keeps that of .5 alone.
With torch 2.13 (a linear classifier, five epochs): by `loss > best_loss` the weights of the first epoch are kept, whose
validation loss is .523, and not those of the last, .286; by `loss < best_loss` with `best_loss = 0` none are.

## Bad
    from lightning.pytorch.callbacks import ModelCheckpoint

    callback = ModelCheckpoint(monitor="val_acc")

## Good
    from lightning.pytorch.callbacks import ModelCheckpoint

    callback = ModelCheckpoint(monitor="val_acc", mode="max")

## Not reported
Metrics whose names do not tell a direction, or tell both; directions that are not known; all checkpoints kept
(`save_top_k=-1`); a Trainer that neither loads the best model nor stops early; callbacks that have
too few epochs to end the run, or of Lightning before 1.3, which tells the direction of `val_acc` by the name; what is
logged turned round (`self.log("val_acc", -accuracy)`). By hand: scores that are computed from a
metric (`1 - accuracy`), or of which less is better, as their names tell (`forget_accuracy`, `attack_success`); what is
begun in several places; the best that is put in the place of a score (`accuracy = best_accuracy`), which is another
mistake. That a loss is never negative is a question where its kind is not known.

## Fix (unsafe)
Says the direction. Unsafe because another checkpoint is kept then.

## On real code
269 public repositories, of those that monitor a metric by name: no finding. By hand, in 920 others: 5 findings in 4 of
them, all true: three bests that begin with 0 or -inf, and two scripts that keep the highest loss on the test data.
What a caller gives to what keeps the best elsewhere: no finding in 523. Of 6 in unread ones 3 were true, 2 false (it
was said of a callback that keeps no checkpoint, and of a comparison whose assignment is swapped) and 1 doubtful. The
release that is pinned, the length of the run and what is logged under the name count since; whether anything gets the
callback is a question.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Arguments,
    Assumption,
    Context,
    Event,
    Finding,
    GivenScore,
    LibraryCall,
    LossCall,
    Program,
    Record,
    Rule,
    Site,
    StateSaved,
    StateTaken,
    replace_range,
    set_argument,
)

_CALLBACKS = ("lightning.pytorch.callbacks.ModelCheckpoint", "lightning.pytorch.callbacks.EarlyStopping")
_NEVER_NEGATIVE = re.compile(r"(?i)\b(?:\w*_)?(?:mse|mae|rmse|wer|cer|err|errors?|ppl|perplexity|fid)(?:_\w*)?\b")
_LOSSES = frozenset(  # that are never negative
    ("CrossEntropyLoss", "cross_entropy", "MSELoss", "mse_loss", "L1Loss", "l1_loss", "SmoothL1Loss", "smooth_l1_loss",
     "HuberLoss", "huber_loss", "BCELoss", "binary_cross_entropy", "BCEWithLogitsLoss",
     "binary_cross_entropy_with_logits", "NLLLoss", "nll_loss")
)  # fmt: skip
_TURNED = re.compile(r"(?i)forget|adv|attack|asr|worst|gap|neg|diff|hard|fool|privacy|mia")  # where less is more
_OPTIONS = ("TrainingArguments", "SFTConfig", "DPOConfig", "RewardConfig", "KTOConfig", "ORPOConfig")
_WORDS = ("ModelCheckpoint", "EarlyStopping", *_OPTIONS, "Seq2SeqTrainingArguments", "save", "state_dict")


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is chosen by, whether the most of it, and the argument that would say so."""

    metric: str
    takes_most: bool
    option: str
    right: str
    is_told: bool


def keeps_all(event: Event, choice: _Choice | Record | GivenScore, ctx: Context) -> bool:
    """all checkpoints are kept, or none"""
    return isinstance(event, LibraryCall) and ctx.constant(event.arguments.get(None, "save_top_k")) in (-1, 0)


def best_is_not_used(event: Event, choice: _Choice | Record | GivenScore, ctx: Context) -> bool:
    """the Trainer neither loads the best model in the end nor stops early"""
    if not isinstance(event, LibraryCall) or event.name in _CALLBACKS:
        return False
    loads = ctx.constant(event.arguments.get(None, "load_best_model_at_end"))
    return loads is not True and not any(
        each.name.endswith("EarlyStoppingCallback") for each in ctx.all_of(LibraryCall)
    )


def is_told_by_its_name(event: Event, choice: _Choice | Record | GivenScore, ctx: Context) -> bool:
    """before Lightning 1.3 a callback that is not told takes more of what is called `acc` or `fmeasure` for better"""
    if not isinstance(choice, _Choice) or choice.is_told or choice.option != "mode":
        return False
    is_known = "acc" in choice.metric or choice.metric.startswith("fmeasure")
    return is_known and any(ctx.runs_before(package, "1.3") for package in ("pytorch-lightning", "lightning"))


def never_stops(event: Event, choice: _Choice | Record | GivenScore, ctx: Context) -> bool:
    """there are too few epochs for the callback to end the run"""
    if not isinstance(event, LibraryCall) or not event.name.endswith(".EarlyStopping"):
        return False
    given = event.arguments.get(None, "patience")
    patience = ctx.constant(given) if given is not None else 3
    trainers = [each for each in ctx.all_of(LibraryCall) if each.name.endswith(".Trainer")]
    epochs = [ctx.constant(each.arguments.get(None, "max_epochs")) for each in trainers]
    return (
        isinstance(patience, int) and bool(epochs) and all(isinstance(n, int) and 0 < n <= patience + 1 for n in epochs)
    )


def is_logged_turned(event: Event, choice: _Choice | Record | GivenScore, ctx: Context) -> bool:
    """what is logged under the name is turned round: `self.log("val_acc", -accuracy)`"""
    if not isinstance(choice, _Choice):
        return False
    for site in ctx.method_calls("log"):
        call = site.node
        if isinstance(call, ast.Call) and len(call.args) > 1 and isinstance(call.args[0], ast.Constant):
            given = call.args[1]
            is_negative = isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.USub)
            if call.args[0].value == choice.metric and is_negative:
                return True
    return False


def is_turned(event: Event, choice: _Choice | Record | GivenScore, ctx: Context) -> bool:
    """the score is computed from the metric, or less of it is better here, as its name tells"""
    if isinstance(choice, _Choice):
        return False
    is_computed = any(isinstance(each, ast.UnaryOp | ast.BinOp) for each in ast.walk(choice.score))
    if isinstance(choice, GivenScore):
        return is_computed or _TURNED.search(ast.unparse(choice.score)) is not None or _is_bound_turned(choice, ctx)
    return is_computed or _TURNED.search(_names_of_record(choice)) is not None


class BestCheckpointDirection(Rule):
    code = "DL716"
    name = "best-checkpoint-direction"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = ((*_WORDS, "step"), _WORDS)  # a loop that steps may hand its score to what keeps the best elsewhere
    confirmable = True
    fix_safety = "unsafe"
    references = (
        "https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ModelCheckpoint.html",
        "https://huggingface.co/docs/transformers/main_classes/trainer",
    )

    excuses = (
        keeps_all,
        best_is_not_used,
        is_told_by_its_name,
        never_stops,
        is_logged_turned,
        is_turned,
    )

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        choice = _choice(event.name, event.arguments, ctx)
        if choice is None or _takes_most(choice.metric, ctx) in (None, choice.takes_most):
            return
        if ctx.excused(self, event, choice):
            return
        most, way, falls = ("highest", "risen", "fall") if choice.takes_most else ("lowest", "fallen", "ris")
        why = "is told" if choice.is_told else "is by default"
        said = f"the checkpoint with the {most} `{choice.metric}` is kept as the best, as it {why}"
        effect = "the worst model is kept, and the best one deleted"
        if event.name.endswith(".EarlyStopping"):  # which keeps no checkpoint
            said = f"training stops when `{choice.metric}` has not {way} for some epochs, as it {why}"
            effect = f"it stops early while `{choice.metric}` gets better by {falls}ing"
        yield ctx.finding(
            self,
            event,
            said,
            on=list(event.arguments.all()),
            assuming=ctx.assumed_use(event.result, "the callback or the options"),
            effect=effect,
            help=f"pass `{choice.option}={choice.right}`",
            fix=("Say the direction", set_argument(event.site, choice.option, choice.right)),
        )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        for event in ctx.all_of(StateSaved, StateTaken):
            for record in ctx.records(event):
                given = [each for each in ctx.given_for(record) if _direction_of(each, ctx) is not None]
                choice: Record | GivenScore = given[-1] if given else record
                most = _direction_of(choice, ctx)
                place = choice.place if isinstance(choice, GivenScore) else record.test
                if most is None or id(place.node) in reported or ctx.excused(self, event, choice):
                    continue
                reported.add(id(place.node))
                if most is not choice.takes_most:
                    yield self._turned(event, record, choice, ctx)
                elif most is record.takes_most and _is_never_beaten(record):
                    yield self._unbeaten(event, record, ctx)

    def _turned(self, event: Event, record: Record, choice: Record | GivenScore, ctx: Context) -> Finding:
        score, which = ast.unparse(choice.score), "highest" if choice.takes_most else "lowest"
        comparison = record.test.node
        is_rising = isinstance(comparison, ast.Compare) and isinstance(comparison.ops[0], ast.Gt | ast.GtE)
        given = choice if isinstance(choice, GivenScore) else None
        return ctx.finding(
            self,
            given.place if given is not None else record.test,
            f"the state with the {which} `{score}` is kept as the best",
            on=[event],
            effect="the worst model is kept, and the best one is lost",
            help=f"give it `-{score}`" if given is not None else f"compare with `{'<' if is_rising else '>'}`",
            trace=[
                *([(given.place, "this is what it is given")] if given is not None else []),
                (record.test, "what is best is decided here"),
                (event.site, "this state is kept"),
            ],
        )

    def _unbeaten(self, event: Event, record: Record, ctx: Context) -> Finding:
        score, best, begun = ast.unparse(record.score), ast.unparse(record.best), record.begun or record.test
        right = 'float("-inf")' if record.takes_most else 'float("inf")'
        value = begun.node.value if isinstance(begun.node, ast.Assign) else begun.node
        return ctx.finding(
            self,
            begun,
            f"`{best}` begins with what no `{score}` is {'above' if record.takes_most else 'below'}",
            on=[event],
            assuming=() if record.takes_most else _assumed_positive(record, ctx),
            effect="no epoch counts as the best, so that this checkpoint is never written",
            help=f"begin with `{right}`",
            trace=[(begun, "this is the best before the first epoch"), (record.test, "no score is better")],
            fix=("Begin with the worst score", replace_range(Site(begun.module, value), right)),
        )


def _is_never_beaten(record: Record) -> bool:
    """Whether no score is better than what the best begins with."""
    begins = record.begins
    return begins is not None and (begins == math.inf if record.takes_most else begins <= 0)


def _direction_of(choice: Record | GivenScore, ctx: Context) -> bool | None:
    """Whether more of a score is better, by what it is called; `None` if that does not tell."""
    if isinstance(choice, Record):
        return _takes_most(_names_of_record(choice), ctx)
    is_named = not any(isinstance(each, ast.Call) for each in ast.walk(choice.score))
    return _takes_most(ast.unparse(choice.score), ctx) if is_named else None


def _is_bound_turned(given: GivenScore, ctx: Context) -> bool:
    """Whether a caller computes what it gives by turning round a metric of the same direction: `acc = 1 - accuracy`."""
    bound = ctx.bound_to(given.score.id, given.place) if isinstance(given.score, ast.Name) else None
    if not isinstance(bound, ast.UnaryOp | ast.BinOp) or not isinstance(bound.op, ast.USub | ast.Sub):
        return False
    operand = bound.operand if isinstance(bound, ast.UnaryOp) else bound.right
    return _takes_most(ast.unparse(operand), ctx) is not (not _direction_of(given, ctx))


def _assumed_positive(record: Record, ctx: Context) -> tuple[Assumption, ...]:
    """That a score is never negative, where neither its name nor the losses of the program tell."""
    losses = {event.function for event in ctx.all_of(LossCall)}
    if _NEVER_NEGATIVE.search(ast.unparse(record.score)) or (losses and losses <= _LOSSES):
        return ()
    return (Assumption("effect", f"`{ast.unparse(record.score)}` is never negative"),)


def _names_of_record(record: Record) -> str:
    """What a score and the best one so far are called."""
    return f"{ast.unparse(record.score)} {ast.unparse(record.best)}"


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
