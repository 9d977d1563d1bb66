"""A run that is saved in the middle of a pass over the data, and begins a pass from its first batch when it goes on.

The checkpoint has the weights after so many batches of an epoch. The loader knows nothing of it: the loop over the
batches starts with the first one. What was seen before the interruption is trained on once more than the rest, and a
run that is interrupted often never gets to the end of an epoch. A run that goes on with the next epoch instead never
sees the rest of this one.

Measured on torch 2.13 (64 samples in batches of 8, saved after 4 batches): the interrupted epoch makes 12 steps instead
of 8, and 32 of the 64 samples are trained on twice. The Trainer of Hugging Face skips what was seen, but for
`ignore_data_skip=True`.

## Bad
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(checkpoint["epoch"], epochs):
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            if step % 1000 == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save(state, "last.pt")

## Good
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(checkpoint["epoch"] + 1, epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Not reported
Loops that skip batches (`continue`, `islice`, `skip_first_batches`); loaders and samplers whose state is restored
(`StatefulDataLoader`); checkpoints that are saved with the last batch of a pass, or without an epoch or step, as that
of the best weights; trainers that save at the ends of epochs (`save_strategy="epoch"`); runs that count their epochs
from 0 again, of which DL711 speaks; weights that are loaded for a run of their own; loops that a framework runs.

## On real code
656 public repositories: 3 notes in 3 of them, all true; two of the runs go on with the next epoch. One that was false,
about the best weights, is silent now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from dllint.api import (
    Const,
    Context,
    Continuation,
    External,
    Finding,
    LibraryCall,
    Loop,
    Program,
    Rule,
    Saved,
    StateRead,
)

_SKIPPING = r"skip_first_batches|StatefulDataLoader|islice|(skip|consumed|resume|start|seen)_?(batch|step|iter|sample)"
_STATES = ("module", "wrapper", "optimizer", "scheduler", "scaler")


def skips_what_was_seen(saved: Saved, loop: Loop, found: Continuation, ctx: Context) -> bool:
    """the loop skips batches, or the loader does"""
    tests = (node for node in ast.walk(loop.site.node) if isinstance(node, ast.If))
    skips = any(isinstance(each, ast.Continue) for test in tests for each in test.body)
    return skips or ctx.project_mentions(_SKIPPING, where="related")


def restores_the_place(saved: Saved, loop: Loop, found: Continuation, ctx: Context) -> bool:
    """something else is restored, which may be the place in the data"""
    return any(ctx.guessed_role(each.event.target) not in _STATES for each in found.restored)


def saved_at_the_end(saved: Saved, loop: Loop, found: Continuation, ctx: Context) -> bool:
    """it is saved with the last batch"""
    return any("len(" in guard.subject or "len(" in str(guard.operand) for guard in saved.event.guards)


def starts_over(saved: Saved, loop: Loop, found: Continuation, ctx: Context) -> bool:
    """the epochs are counted from 0 again"""
    return not ctx.counts_on(found)


class BatchesReplayedOnResume(Rule):
    code = "DL712"
    name = "batches-replayed-on-resume"
    category = "correctness"
    severity = "info"
    triggers = (
        ("load_state_dict", "ignore_data_skip"), ("load", "resume_from_checkpoint"), ("save", "ignore_data_skip"),
    )  # fmt: skip
    confirmable = True
    references = ("https://docs.pytorch.org/data/main/torchdata.stateful_dataloader.html",)

    excuses = (saved_at_the_end, restores_the_place, starts_over, skips_what_was_seen)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found = ctx.continuation if ctx.all_of(StateRead) else None
        for saved in found.saved if found is not None else ():
            loop = _interrupted_pass(saved, ctx) if ctx.progress_in(saved) else None
            if found is not None and loop is not None and not ctx.excused(self, saved, loop, found):
                yield self._report(saved, loop, found, ctx)
                return

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.keywords.get("ignore_data_skip")
        if isinstance(given, Const) and given.value is True and not _saves_epochs(event, ctx) and _resumes(ctx):
            yield ctx.finding(
                self,
                event,
                "`ignore_data_skip` begins the interrupted epoch with its first batches again",
                on=[given],
                effect="they are trained on twice, and the rest of the epoch once",
                help="leave it out: the trainer then skips what was seen",
                severity="warning",
            )

    def _report(self, saved: Saved, loop: Loop, found: Continuation, ctx: Context) -> Finding:
        read = found.reads[0]
        return ctx.finding(
            self,
            loop.site,
            "a run that goes on from the middle of this pass begins a pass with the first batch",
            on=[saved.event, found.restored[0].event, found.restored[0].unsure, loop],
            assuming=found.assumptions,
            effect="batches are trained on twice; where it goes on with the next epoch, those that were left never are",
            help="skip as many batches as the checkpoint has seen, or save at the end of an epoch",
            trace=[
                (saved.event.site, "a checkpoint is saved in the middle of a pass"),
                (read.site, "it is read"),
                (loop.site, "and the batches begin with the first one"),
            ],
        )


def _interrupted_pass(saved: Saved, ctx: Context) -> Loop | None:
    """The loop over batches, in one over epochs, in which a checkpoint is saved."""
    for loop, outer in pairwise(ctx.loops_around(saved.event)):
        if _is_pass(loop, ctx) and ctx.loop_unit(outer) == "epochs":
            return loop
    return None


def _is_pass(loop: Loop, ctx: Context) -> bool:
    return loop.kind == "for" and ctx.loop_unit(loop) == "batches" and ctx.goes_over_loader(loop)


def _saves_epochs(event: LibraryCall, ctx: Context) -> bool:
    """Whether checkpoints lie at the ends of epochs, so that none is interrupted: `save_strategy="epoch"`."""
    given = event.arguments.keywords.get("save_strategy")
    if isinstance(given, External):
        return given.name.endswith("Strategy.EPOCH")
    return given is not None and ctx.constant(given) == "epoch"


def _resumes(ctx: Context) -> bool:
    """Whether some call of ``train`` is told to go on from a checkpoint."""
    given = (
        keyword.value
        for site in ctx.method_calls("train")
        if isinstance(site.node, ast.Call)
        for keyword in site.node.keywords
        if keyword.arg == "resume_from_checkpoint"
    )
    return any(not isinstance(value, ast.Constant) or bool(value.value) for value in given)
