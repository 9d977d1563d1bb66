"""A model that goes on training in evaluation mode.

`model.eval()` for the validation of an epoch stays in force until `model.train()` is called. Where that is only done
once, before the first epoch, all others train without dropout, and with batch norms that neither see the batch nor
follow it. That holds for a model of which methods are called in place of its `forward` (`vae.encode(x)`) as well.

Measured on torch 2.13 (batch norm and dropout .5): the training loss looks better, .027 instead of .132, and the
validation loss is .643 instead of .420; the batch norms have seen 30 batches instead of 300.

## Bad
    model.train()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(criterion(model(x), y))

## Good
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(criterion(model(x), y))

## Not reported
Models whose layers are all known, and none that `forward` leads to depends on the mode; models that are put into
evaluation mode before the first step, on purpose, or later where nothing is done with them then: no evaluation is what
the mode is for; modes that are computed, are set back under a condition, part by part, or may be set by unknown code;
models of which another one is evaluated where they are trained, as by a switch that is on anyway (`store_true` with
`default=True`), or may be, as of several that code which is not seen chooses from; training that a framework runs;
target networks, which get the weights of another model; copies that each round makes anew, to adapt them to a task.

## Fix (unsafe)
Inserts `model.train()` before the loop over the batches, where the evaluation is not in it. Unsafe because it changes
training, as it should.

## On real code
93 public repositories: 1 finding, false: it was a copy of the model that was evaluated. That is silent now. In 127
others 2 findings and 2 questions, all true. In 280, with modes that are left between two steps: one more, true. In
276 more 4: 3 true, and 1 false, a target network, which is silent now. Of 37 in batches of unread repositories 26 were
true, 7 false and 4 doubtful: most of these had a copy of the model in evaluation mode, or another one. Since the mode
has to be for an evaluation, of a model with layers that are in use, 25 of the true ones are reported, none of the false
and 2 of the doubtful ones.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Frame,
    ModeChange,
    ModelForward,
    OptimizerCreated,
    Program,
    Rule,
    Site,
    StateSaved,
    StateTaken,
    Value,
    insert_before,
    statement_around,
)


def is_a_layer(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """it is a part of a model, whose mode is that of the whole"""
    used = _used_through(event, ctx)
    is_of_whole = used is not None and any(each is used.receiver for each in ctx.objects(left.model))
    is_inside = ctx.is_inside_model(event, model) and not is_of_whole
    return is_inside or not ctx.is_called_as_model(event, model)


def is_the_same_in_both_modes(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """all layers of the model are known, and none to depend on the mode"""
    return not ctx.is_mode_sensitive(model) and not ctx.has_unknown_layers(model)


def is_set_back_at_times(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """training mode is set in the loops that leave it, under a condition"""
    around = set(ctx.loops_around(event)) & set(ctx.loops_around(left))
    setting = (each for each in ctx.all_of(ModeChange) if each.training is not False and ctx.may_set_mode(model, each))
    return any(around <= set(ctx.loops_around(each)) for each in setting)


def is_set_back_in_parts(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """those of its parts that depend on the mode, as far as they are known, are put into theirs by themselves"""
    around = set(ctx.loops_around(event)) & set(ctx.loops_around(left))
    inside = [each for each in ctx.all_of(ModeChange) if around <= set(ctx.loops_around(each))]
    parts = [
        part
        for change in inside
        for part in ctx.objects(change.model)
        if not ctx.is_same(part, model) and ctx.is_part(part, model)
        if change.training is not False or ctx.modes(part, (event,)).at(event) == {"eval"}
    ]
    return bool(parts) and not ctx.is_mode_sensitive(model, in_doubt=False, beside=parts)


def is_a_target_network(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """it gets the weights of another model again and again, and takes no steps of its own"""
    return ctx.follows_another(model)


def is_made_anew(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """each round of the loop around both makes another model: a copy that is adapted to a task, one for each fold"""
    loop = next((each for each in ctx.loops_around(event) if each in ctx.loops_around(left)), None)
    if loop is None or model.site is None:
        return False
    return any(ctx.is_within(model.site, each) for each in (loop.site, *ctx.entered_in(loop)))


def is_no_evaluation(event: ModelForward, model: Value, left: ModeChange, ctx: Context) -> bool:
    """nothing is done with the model where it is put into evaluation mode, so that the mode is for the training"""
    statement = statement_around(left.site)
    place: Site | None = Site(left.site.module, statement) if statement is not None else None
    frame: Frame | None = left.frame
    while place is not None and frame is not None:
        around = next(ctx.ancestors(place, ast.AST), None)
        following = _after_in_block(place.node, around)
        if any(not _only_says_or_makes(each, ctx) for each in following):
            return False
        if isinstance(around, ast.FunctionDef | ast.Module):
            call, frame = frame.call, frame.caller
            outer = statement_around(call) if call is not None else None
            place = Site(call.module, outer) if call is not None and outer is not None else None
        else:
            place = Site(place.module, around) if isinstance(around, ast.For | ast.While | ast.With) else None
    return True


def _after_in_block(statement: ast.AST, around: ast.AST | None) -> list[ast.stmt]:
    """The statements after one in its block."""
    blocks = (getattr(around, name, None) for name in ("body", "orelse", "finalbody"))
    block = next((each for each in blocks if isinstance(each, list) and statement in each), [])
    return block[block.index(statement) + 1 :] if statement in block else []


def _only_says_or_makes(statement: ast.stmt, ctx: Context) -> bool:
    """Whether a statement only says something, or makes an optimizer or a checkpoint."""
    prepared = {id(each.site.node) for each in ctx.all_of(OptimizerCreated, ModeChange, StateSaved, StateTaken)}
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    names = (getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls if id(call) not in prepared)
    return not isinstance(statement, ast.Return) and all(name in ("print", "parameters") for name in names)


class TrainModeNotRestored(Rule):
    code = "DL208"
    name = "train-mode-not-restored"
    category = "suspicious"
    severity = "warning"
    triggers = (("eval", "train"), ("backward", "manual_backward"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train",)
    excuses = (
        is_a_layer,
        is_the_same_in_both_modes,
        is_set_back_at_times,
        is_set_back_in_parts,
        is_a_target_network,
        is_made_anew,
        is_no_evaluation,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[Value | None] = []
        leaving = [event for event in ctx.all_of(ModeChange) if event.training is False]
        calls = [event for event in (ctx.all_of(ModelForward) if leaving else ()) if _is_trained_in(event, ctx)]
        for model in {id(model): model for event in calls for model in ctx.objects(event.model)}.values():
            own = tuple(event for event in calls if ctx.is_same(event.model, model))
            modes = ctx.modes(model, own)
            event = next((event for event in own if modes.at(event) == {"train", "eval"}), None)
            left = _left_at(event, model, leaving, ctx) if event is not None else None
            if event is not None and left is not None and not ctx.excused(self, event, model, left):
                used = _used_through(event, ctx)
                if used is not None:
                    if any(used.receiver is each for each in reported):
                        continue
                    reported.append(used.receiver)
                yield self._report(event, model, left, modes.assumptions_at(event), ctx)

    def _report(self, event: ModelForward, model: Value, left: ModeChange, assumed: object, ctx: Context) -> Finding:
        used = _used_through(event, ctx)
        place = used.call if used is not None and used.call is not None else event.site
        name = _name_of_whole(used) or ctx.callee_of(event) or ctx.name_of(model) or "model"
        is_in_between = _is_between_steps(left, event, ctx)
        when = "after the evaluation" if is_in_between else "before each pass over the training data"
        return ctx.finding(
            self,
            left if is_in_between else place,
            f"`{name}` is left in evaluation mode, in which its training goes on"
            if is_in_between
            else f"`{name}` is trained in evaluation mode from the second time on",
            on=[event, left, assumed, ctx.assumed_sensitivity(model, is_switched=True)],
            effect="dropout is off, and batch norms use statistics that do not follow any more: it overfits",
            help=f"call `{name}.train()` {when}",
            trace=[(left.site, "evaluation mode is set here"), (place, "and is still in force here")],
            fix=("Switch back to training mode", _switched_back(event, left, name, ctx)),
        )


def _is_trained_in(event: ModelForward, ctx: Context) -> bool:
    """Whether a model is called in a loop that trains with what it returns."""
    return (
        event.grad == "on"
        and not ctx.is_managed(event)
        and ctx.training_loop(event) in ctx.loops_around(event)[:1]
        and ctx.goes_backward(event.result)
    )


def _left_at(event: ModelForward, model: Value, leaving: list[ModeChange], ctx: Context) -> ModeChange | None:
    """Where a model is put into evaluation mode in a loop around its training, after which nothing puts it back."""
    around = ctx.loops_around(event)
    found = (each for each in leaving if ctx.may_set_mode(model, each) and set(ctx.loops_around(each)) & set(around))
    return next(found, None)


def _is_between_steps(left: ModeChange, event: ModelForward, ctx: Context) -> bool:
    """Whether the mode is left in the very loop that takes the steps: every so many of them, and not after an epoch."""
    around = ctx.loops_around(event)
    loops = (ctx.loops_around(step)[:1] for step in ctx.steps())
    return any(loop in around and loop in ctx.loops_around(left) for inner in loops for loop in inner)


def _switched_back(event: ModelForward, left: ModeChange, name: str, ctx: Context) -> Edits:
    """Before the loop, unless evaluation mode is set in it."""
    loop = ctx.loops_around(event)[0]
    used = _used_through(event, ctx)
    frame = event.frame if used is None else used.caller
    is_told = loop.frame is frame and name.partition(".")[0] not in loop.targets
    return insert_before(loop.site, f"{name}.train()") if is_told and loop not in ctx.loops_around(left) else Edits()


def _name_of_whole(used: Frame | None) -> str:
    """What the model is called of which a method is called: `vae` of `vae.encode(x)`."""
    call = used.call.node if used is not None and used.call is not None else None
    return ast.unparse(call.func.value) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""


def _used_through(event: ModelForward, ctx: Context) -> Frame | None:
    """The call of a method of a model, in the loop that trains it, by which a part of it is called."""
    used, loops = ctx.used_through(event), ctx.loops_around(event)
    is_in_loop = used is not None and used.caller is not None and bool(loops) and loops[0].frame in used.caller.stack()
    return used if is_in_loop else None
