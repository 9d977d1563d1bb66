"""A run that goes on from a checkpoint with a gradient scaler that starts again.

A `GradScaler` finds the scale at which the gradients of float16 just do not overflow. A new one begins at 65,536 and
halves it at each overflow: the first steps after a resume are skipped until it has found the scale again.

Measured on torch 2.13 (gradients in float16 that overflow above a scale of 4,096, at which the checkpoint was written):
with a new scaler, 4 of 20 steps of the resumed run are skipped without an error while the schedule goes on; with one
that is restored, none is.

## Bad
    scaler = torch.amp.GradScaler("cuda")
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

## Good
    scaler = torch.amp.GradScaler("cuda")
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scaler.load_state_dict(checkpoint["scaler"])
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

A run that counts on from the epoch of a checkpoint goes on as well, where the state of its optimizer is not in it.

## Not reported
Scalers that are switched off (`enabled=False`), and training in bfloat16, which needs none, where code names that and
not only a comment or a docstring; scalers that code which is not seen gets hold of, and weights that are loaded for a
run of its own.

## On real code
269 public repositories, of which 40 load the state of an optimizer: 1 finding, true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Continuation,
    Finding,
    Instance,
    OptimizerStep,
    Program,
    Restored,
    Rule,
    StateRead,
    Value,
    keys_read,
    nodes_of,
)

_EFFECT = "it begins at a scale of 65536 again, and skips steps until the gradients fit"


def restored_or_handed_on(scaler: Instance, ctx: Context) -> bool:
    """its state is restored, or code that is not seen gets hold of it"""
    return ctx.is_restored(scaler)


def switched_off(scaler: Instance, ctx: Context) -> bool:
    """it is switched off, or may be by default"""
    enabled = scaler.arguments.keywords.get("enabled")
    return enabled is not None and ctx.constant(enabled) is not True


def needs_none(scaler: Value, ctx: Context) -> bool:
    """training is in bfloat16"""
    return any(_is_named(word, tree) for word in ("bfloat16", "bf16") for _, tree in ctx.trees(word))


def _is_named(word: str, tree: ast.Module) -> bool:
    """Whether code names something, and not only a comment or a docstring."""
    nodes = nodes_of(tree)
    described = {id(each.value) for each in nodes.of(ast.Expr)}
    texts = (each.value for each in nodes.of(ast.Constant) if id(each) not in described)
    given = (each.arg or "" for each in nodes.of(ast.keyword, ast.arg))
    said = (*nodes.names, *nodes.attributes, *given, *(each for each in texts if isinstance(each, str)))
    return any(word in each for each in said)


class ScalerNotRestored(Rule):
    code = "DL714"
    name = "scaler-not-restored"
    category = "suspicious"
    severity = "info"
    triggers = (("load_state_dict", "step"), ("load",), ("load_state_dict",), ("GradScaler", "scaler"))
    confirmable = True
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming",)

    excuses = (restored_or_handed_on, switched_off, needs_none)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        steps = [step for step in ctx.all_of(OptimizerStep) if isinstance(step.scaler, Instance)]
        found = ctx.continuation if steps and ctx.all_of(StateRead) else None
        told: ast.AST | None = None  # the place of the first, for each option of what stands there
        for each in found.restored if found is not None else ():
            for step in steps:
                scaler = step.scaler
                if not isinstance(scaler, Instance) or not _goes_on_with(step, each, found, ctx):
                    continue
                if told in (None, each.event.site.node) and not ctx.excused(self, scaler):
                    told = each.event.site.node
                    yield ctx.finding(
                        self,
                        each.event,
                        f"training goes on from here, and {ctx.called(scaler, 'gradient scaler')} starts again",
                        on=[step, each.unsure],
                        assuming=found.assumptions if found is not None else (),
                        effect=_EFFECT,
                        help="save `scaler.state_dict()`, and load it where the optimizer's state is loaded",
                        trace=[(each.read.site, "a checkpoint is read"), (step.site, "the scaler is used")],
                    )
        if told is not None:
            return
        yield from self._left_elsewhere(ctx)

    def _left_elsewhere(self, ctx: Context) -> Iterator[Finding]:
        """Code that this program does not run, such as a method, and that takes all but the scaler out of a file."""
        for saved in ctx.checkpoints.saved:
            for part in saved.parts:
                is_left = ctx.checkpoints.kind(part.value) == "scaler" and not ctx.is_entry_read(part.key)
                load = next(ctx.resumed_elsewhere(saved), None) if is_left else None
                if load is not None and not needs_none(part.value, ctx):
                    yield ctx.finding(
                        self,
                        load.site,
                        f"training goes on from here, and `{part.key}` is left in the file",
                        on=[saved.event, *ctx.checkpoints.unsure(saved, "module", "optimizer", "scaler")],
                        effect=_EFFECT,
                        help=f'load `checkpoint["{part.key}"]` into the scaler where the optimizer\'s state is loaded',
                        trace=[(saved.place_of(part), "this is saved"), (load.site, "and not taken out here")],
                    )
                    return


def _goes_on_with(step: OptimizerStep, restored: Restored, found: Continuation | None, ctx: Context) -> bool:
    """Whether the optimizer of a step is put back; or, where a run counts on without it, the model that it trains.

    Of several states that the model gets, the last one is that with which training goes on.
    """
    if ctx.is_same(step.optimizer, restored.event.target):
        return True
    others = found.restored if found is not None else ()
    if any(ctx.guessed_role(each.event.target) == "optimizer" for each in others):
        return False
    models = [each for each in others if ctx.guessed_role(each.event.target) in ("module", "wrapper")]
    trained = [each for each in models if ctx.may_train(step.optimizer, each.event.target)]
    return trained[-1:] == [restored] and ctx.speaks_of("progress", *keys_read(restored.read))
