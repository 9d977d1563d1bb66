"""A best checkpoint that is chosen by the training loss, though there is a validation.

The training loss falls as long as the model learns its training data by heart. The checkpoint with the lowest one is
mostly the last, whatever the validation says, and the most overfitted.

Measured on torch 2.13 (400 samples, 60 epochs, three seeds): the lowest training loss picks the last epoch each time,
with a test loss of 1.57, 1.49 and 1.68 and accuracies of .574, .599 and .524; the lowest validation loss picks epoch
12, 13 and 11, with 1.17, 1.06 and 1.22, and .607, .624 and .568.

## Bad
    best = float("inf")
    for epoch in range(epochs):
        train_loss = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            train_loss += loss.item()
        val_loss = 0.0
        with torch.no_grad():
            for x, y in val_loader:
                val_loss += criterion(model(x), y).item()
        if train_loss < best:
            best = train_loss
            torch.save(model.state_dict(), "best.pt")

## Good
    best = float("inf")
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        val_loss = 0.0
        with torch.no_grad():
            for x, y in val_loader:
                val_loss += criterion(model(x), y).item()
        if val_loss < best:
            best = val_loss
            torch.save(model.state_dict(), "best.pt")

## Not reported
Projects without a validation in the loop, with one that computes nothing (`validation_step` returns `None`), or with a
test set alone, which must not choose; a checkpoint beside which another one is chosen by the validation, or the run
ended by it (`EarlyStopping`), so that it cannot overfit for long; callbacks that nothing gets, that only end the run,
or of a `fit` without validation data or with the loader of the training for it; comparisons in which a value of the
validation takes part.

## On real code
280 public repositories: no finding. Of 4 in unread ones 2 were true, 1 false (a callback that ends the run, with the
batches of the training for its validation) and 1 doubtful (a validation that measures nothing); none of these two is
reported since. In 160 more: 1 finding, true. A checkpoint by the training loss beside an end by the validation was in
none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Event,
    Finding,
    LibraryCall,
    Loop,
    Phase,
    Program,
    Rule,
    Site,
    StateSaved,
    StateTaken,
    nodes_of,
)

_CALLBACKS = {"ModelCheckpoint": 2, "EarlyStopping": 0}  # the position of `monitor`

_OTHERWISE = frozenset(("model", "train_dataloaders", "train_dataloader", "ckpt_path"))  # what `fit` gets besides

# ------------------------------------------------------------------------------------------------- excuses


def is_not_validated(event: Event, ctx: Context) -> bool:
    """nothing is validated in the loop of the epochs: what comes after it, in each fold, chooses nothing"""
    epochs = _epochs_around(event, ctx)
    return epochs is None or not ctx.has_validation([epochs])


def is_chosen_by_both(event: Event, ctx: Context) -> bool:
    """a value of the validation takes part, here or where another checkpoint is written"""
    return any(phase.is_evaluation for each in ctx.all_of(StateSaved, StateTaken) for _, phase in _choices(each, ctx))


class BestByTrainingMetric(Rule):
    code = "DL875"
    name = "best-by-training-metric"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("save", "state_dict", *_CALLBACKS),)
    references = ("https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ModelCheckpoint.html",)
    excuses = (is_not_validated, is_chosen_by_both)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: dict[int, int] = {}  # what is kept by each score, whichever object keeps it
        for event in ctx.all_of(StateSaved, StateTaken):
            for score, phase in _choices(event, ctx):
                if phase.name == "training" and not ctx.excused(self, event):
                    kept = id(event.site.node)
                    if reported.setdefault(id(score.node), kept) == kept:
                        yield self._report(score, event, phase, ctx)
                    break  # what is asked again on the way there is the same

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        metric = _monitored(event, ctx)
        if metric is None or ctx.phase_of_name(metric) != "training" or not ctx.is_used(event.result):
            return
        if event.name.endswith("EarlyStopping"):
            return  # it ends the run, and chooses no checkpoint
        if not any(_validates(tree) for _, tree in ctx.trees("validation_step")) or not _gets_validation_data(ctx):
            return
        others = [_monitored(each, ctx) for each in ctx.all_of(LibraryCall)]
        if any(other is not None and ctx.phase_of_name(other) != "training" for other in others):
            return  # one more callback, of the validation: both are kept, or the run ends before it overfits
        yield ctx.finding(
            self,
            event,
            f"`{metric}`, of the training, decides here, though there is a validation",
            on=[event.arguments.get(_CALLBACKS[event.name.rpartition(".")[2]], "monitor")],
            effect="the most overfitted checkpoint counts as the best one",
            help="monitor a metric of the validation",
        )

    def _report(self, score: Site, event: Event, phase: Phase, ctx: Context) -> Finding:
        name = ctx.source_of(score)
        return ctx.finding(
            self,
            score,
            f"`{name}`, of the training, chooses the best checkpoint, though there is a validation",
            on=[event, phase],
            effect="it falls as long as the model overfits: the last checkpoint counts as the best one",
            help="compare a metric of the validation",
            trace=[(score, "what is best is decided here"), (event.site, "this state is kept")],
        )


def _validates(tree: ast.Module) -> bool:
    """Whether a file names `validation_step`, and has not only ones that compute nothing: `return None`."""
    steps = [each for each in nodes_of(tree).of(ast.FunctionDef) if each.name == "validation_step"]
    lines = [line for step in steps for line in step.body]
    return not steps or any(isinstance(part, ast.Call) for line in lines for part in ast.walk(line))


def _gets_validation_data(ctx: Context) -> bool:
    """Whether something is validated: `fit` gets data for it, or code has them for a trainer that asks."""
    fits = [site.node for site in ctx.method_calls("fit") if isinstance(site.node, ast.Call)]
    return not fits or any(map(_has_data_of_its_own, fits)) or any(ctx.trees("val_dataloader"))


def _has_data_of_its_own(fit: ast.Call) -> bool:
    """Whether `fit` gets data for the validation, and not those of the training once more: `fit(net, data, data)`."""
    named = {each.arg: each.value for each in fit.keywords}
    at_place = fit.args[1] if len(fit.args) > 1 else None
    training = named.get("train_dataloaders", named.get("train_dataloader", at_place))
    others = [*fit.args[2:], *(value for name, value in named.items() if name not in _OTHERWISE)]
    return any(training is None or ast.dump(each) != ast.dump(training) for each in others)


def _monitored(event: LibraryCall, ctx: Context) -> str | None:
    """The metric that a callback of Lightning's watches, if a call makes one."""
    position = _CALLBACKS.get(event.name.rpartition(".")[2])
    metric = ctx.constant(event.arguments.get(position, "monitor")) if position is not None else None
    return metric if isinstance(metric, str) else None


def _choices(event: Event, ctx: Context) -> Iterator[tuple[Site, Phase]]:
    """The new values by which a state counts as the best so far, each with the phase that it was computed in."""
    epochs = _epochs_around(event, ctx)
    if epochs is not None:
        for score in ctx.compared_with_best(event):
            yield score, ctx.phase_of_score(score, epochs)


def _epochs_around(event: Event, ctx: Context) -> Loop | None:
    loops = (loop for loop in ctx.loops_around(event) if isinstance(loop.site.node, ast.For | ast.While))
    return next((loop for loop in loops if ctx.loop_unit(loop) == "epochs"), None)
