"""Gradients that are clipped after the optimizer has used them.

Clipping changes `.grad` in place. After the step it changes nothing that anybody will use: the update was made with
the unclipped gradients.

Measured on torch 2.13: with clipping to 1 after the step, the update was 61.48 times the learning rate, which is the
unclipped norm.

## Bad
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

## Good
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

## Not reported
Clipping that a later step of the same or another optimizer uses (a second backward pass in between, two networks),
clipping of weights (`p.data.clamp_`), paths on which the step has not happened yet, and what another call clips in
time, unless it stands in another arm of the same condition.

## Fix (unsafe)
Moves the clipping before the step where both stand in the same block and no gradient scaler is used. Unsafe
because updates become smaller, as they should.

## On real code
742 public repositories: 3 findings in 1 of them, all true: three copies of one script.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from dllint.api import (
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    GradientClip,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    Symbol,
    Value,
    move_before,
)

State = str  # of the gradients: none, fresh or used
Group = list[Value]  # of optimizers

_KINDS = (Backward, GradientClip, OptimizerStep)


class ClipAfterStep(Rule):
    code = "DL212"
    name = "clip-after-step"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (
        ("backward", "manual_backward"),
        ("step",),
        ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value", "clip_gradients"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        groups = _optimizer_groups(ctx) if ctx.all_of(GradientClip) else []
        for group in groups:
            # Unresolved calls can only take a suspicion away, and they are many: look at them where there is one.
            late = _late_clips(_KINDS, group, ctx) and _late_clips((*_KINDS, OpaqueCall), group, ctx)
            for event in late:
                if not _is_late_for_its_own(event, group, ctx):
                    continue
                if len(groups) == 1 or _is_clipped_for(event, group, groups, ctx):
                    yield from (self._report(event, step, group, ctx) for step in _first_steps(event, group, ctx))

    def _report(self, event: GradientClip, step: OptimizerStep, group: Group, ctx: Context) -> Finding:
        optimizer = ctx.called(group[0], "optimizer")
        return ctx.finding(
            self,
            event,
            f"gradients are clipped after {optimizer} has used them",
            on=[step],
            effect="the clipping has no effect: each update is made with the unclipped gradients",
            help=f"clip between the backward pass and the step of {optimizer}",
            trace=[(step.site, "the gradients are used"), (event.site, "and clipped only then")],
            fix=("Clip before the step", _clip_first(event, step, ctx)),
        )


def _clip_first(clip: GradientClip, step: OptimizerStep, ctx: Context) -> Edits:
    """Move the clipping before the step, in the same block. A scaler would have to unscale first."""
    return move_before(clip.site, step.site) if ctx.same_turn(clip, step) and step.scaler is None else Edits()


def _optimizer_groups(ctx: Context) -> list[Group]:
    """The optimizers that take steps; those of which one call steps one or the other are together."""
    groups: list[Group] = []
    for alternatives in _by_call(ctx):
        group = [optimizer for step in alternatives for optimizer in ctx.objects(step.optimizer)]
        others = []
        for other in groups:
            if any(ctx.is_same(one, another) for one in group for another in other):
                group = [*other, *(one for one in group if not any(one is known for known in other))]
            else:
                others.append(other)
        groups = [*others, group]
    return groups


def _by_call(ctx: Context) -> Iterator[list[OptimizerStep]]:
    """The steps that one call takes, one after the other: nothing is clipped or computed between them."""
    events = (event for event in ctx.events if isinstance(event, _KINDS))
    for _, run in groupby(events, lambda event: (id(event.site.node), id(event.frame))):
        steps = [event for event in run if isinstance(event, OptimizerStep)]
        if steps:
            yield steps


def _first_steps(clip: GradientClip, group: Group, ctx: Context) -> list[OptimizerStep]:
    """The first step that is taken with some optimizers: of each, if it is one or the other.

    One in another arm of the condition under which something is clipped has used other gradients.
    """
    taken = [steps for steps in _by_call(ctx) if _is_step_of(steps[0], group, ctx)]
    return next((steps for steps in taken if not ctx.exclusive(steps[0], clip)), taken[0])


def _is_step_of(step: OptimizerStep, group: Group, ctx: Context) -> bool:
    return any(ctx.is_same(step.optimizer, optimizer) for optimizer in group)


def _late_clips(kinds: tuple[type[Event], ...], group: Group, ctx: Context) -> list[GradientClip]:
    """The clippings that find the gradients used on every path; not where another clips the same in time.

    One in another arm of the same condition does not: what this one clips was used without it.
    """
    flow = ctx.follow("none", _after, kinds, partial(_is_about_group, group, ctx))
    found = [(event, states) for event, states in flow.arrivals.items() if isinstance(event, GradientClip)]
    timely = [event for event, states in found if "fresh" in states]
    late = [event for event, states in found if states == {"used"} and not ctx.is_managed(event)]
    return [e for e in late if not any(_clips_the_same(e, other, ctx) for other in timely)]


def _clips_the_same(late: GradientClip, timely: GradientClip, ctx: Context) -> bool:
    """Whether of two clippings, which may both happen on one path, one is of what the other is of."""
    if ctx.exclusive(late, timely):
        return False
    return any(ctx.is_same(one, other) for one in _clipped(late, ctx) for other in _clipped(timely, ctx))


def _is_late_for_its_own(event: GradientClip, group: Group, ctx: Context) -> bool:
    """Whether a clipping is late for those of some optimizers that have what is clipped, as far as that is known."""
    clipped = _clipped(event, ctx)
    own = [each for each in group if any(_is_given([each], owner, ctx) for owner in clipped)]
    return not own or len(own) == len(group) or event in _late_clips((*_KINDS, OpaqueCall), own, ctx)


def _clipped(event: GradientClip, ctx: Context) -> list[Value]:
    """The modules whose gradients are clipped, as far as they are known."""
    target = event.target
    if not isinstance(target, Symbol) or target.name != "parameters" or not target.inputs:
        return []
    return list(ctx.objects(target.inputs[0]))


def _is_about_group(group: Group, ctx: Context, event: Event) -> bool:
    if isinstance(event, OptimizerStep):
        return _is_step_of(event, group, ctx)
    if isinstance(event, OpaqueCall):
        return any(ctx.opaque_to(event, optimizer) for optimizer in group)
    return isinstance(event, Backward | GradientClip)


def _after(event: Event, state: State) -> State:
    if isinstance(event, Backward):
        return "fresh"
    if isinstance(event, OptimizerStep):
        return "used"
    return "unknown" if isinstance(event, OpaqueCall) and state == "used" else state


def _is_clipped_for(event: GradientClip, group: Group, groups: list[Group], ctx: Context) -> bool:
    """Whether what is clipped belongs to the optimizers of one of several groups, and to them alone."""
    target = event.target
    if isinstance(target, Symbol) and target.name == "parameters" and target.inputs:
        clipped, known = ctx.objects(target.inputs[0]), True
    else:
        clipped, known = ctx.modules_in(target)
    others = [other for other in groups if other is not group]
    seen = known and all(ctx.parameters_of(each)[0] for group in groups for each in group)
    return (
        bool(clipped)
        and seen
        and all(
            _is_given(group, owner, ctx) and not any(_is_given(other, owner, ctx) for other in others)
            for owner in clipped
        )
    )


def _is_given(group: Group, owner: Value, ctx: Context) -> bool:
    return any(ctx.reaches(module, owner) for optimizer in group for module in ctx.parameters_of(optimizer)[0])
