"""A Lightning run that is meant to go on from a checkpoint, and does not.

`Trainer(resume_from_checkpoint=…)` is gone since Lightning 2.0. `fit(ckpt_path="last")` looks for the file that
`ModelCheckpoint(save_last=True)` writes; without it, it warns and trains from scratch, however many other checkpoints
there are.

Measured with lightning 2.6: the argument raises `TypeError`; with `ckpt_path="last"`, no `save_last` and 2 checkpoints
of the best epochs in the folder, the run begins at step 0.

## Bad
    import lightning.pytorch as pl

    trainer = pl.Trainer(resume_from_checkpoint="last.ckpt")
    trainer.fit(model, loader)

## Good
    import lightning.pytorch as pl

    trainer = pl.Trainer()
    trainer.fit(model, loader, ckpt_path="last.ckpt")

## Not reported
Projects that run with a Lightning before 2.0, as they say or as a torch before 1.11 does; projects of which some file
sets `save_last`, or a path that is not known.

## On real code
269 public repositories, of those that use Lightning: 5 findings in 2 of them, all true with Lightning 2.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Assumptions, Context, Finding, LibraryCall, Program, Rule

_TRAINER = "lightning.pytorch.Trainer"
_PACKAGES = ("pytorch-lightning", "lightning")
_SINCE = "2.0"


def is_older(event: LibraryCall, ctx: Context) -> bool:
    """the project runs with a Lightning before 2.0, which takes the argument"""
    return not all(ctx.may_run_with(package, _SINCE) for package in _PACKAGES)


def says_none(event: LibraryCall, ctx: Context) -> bool:
    """nothing is to be resumed: the argument is `None`"""
    return ctx.is_none(event.arguments.get(None, "resume_from_checkpoint"))


class LightningResume(Rule):
    code = "DL710"
    name = "lightning-resume"
    category = "correctness"
    severity = "error"
    triggers = (("resume_from_checkpoint", "ckpt_path"), ("lightning", "pytorch_lightning"))
    confirmable = True
    references = ("https://lightning.ai/docs/pytorch/stable/common/checkpointing_basic.html",)

    excuses = (is_older, says_none)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        is_trainer = event.name == _TRAINER or event.name == "hydra.utils.instantiate"
        if is_trainer and "resume_from_checkpoint" in event.arguments.keywords and not ctx.excused(self, event):
            yield ctx.finding(
                self,
                event,
                "Lightning's `Trainer` takes no `resume_from_checkpoint` since 2.0",
                assuming=[*_assumed_version(ctx), *ctx.assumed_start(event.site)],
                effect="the script stops with a TypeError",
                help="pass the path to `fit`: `trainer.fit(model, ckpt_path=path)`",
            )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if not any(event.name == _TRAINER for event in ctx.all_of(LibraryCall)) or _writes_last(ctx):
            return
        for site in ctx.method_calls("fit"):
            given = site.node.keywords if isinstance(site.node, ast.Call) else []
            paths = [each.value for each in given if each.arg == "ckpt_path"]
            if any(isinstance(path, ast.Constant) and path.value == "last" for path in paths):
                yield ctx.finding(
                    self,
                    site,
                    'no checkpoint is the "last" one: none is written with `save_last=True`',
                    effect="Lightning warns, and trains from scratch",
                    help="write one: `ModelCheckpoint(save_last=True)`",
                )


def _assumed_version(ctx: Context) -> Assumptions:
    """Lightning goes by two names; a project that tells the version of one has told it."""
    lightning, renamed = (ctx.assumed_version(package, _SINCE) for package in _PACKAGES)
    return lightning and renamed and lightning


def _writes_last(ctx: Context) -> bool:
    return ctx.mentions("save_last", where="here") or ctx.mentions("save_last")
