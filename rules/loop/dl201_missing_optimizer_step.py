"""Gradients that are computed again and again, and never used.

The loop goes backward, and no optimizer ever takes a step: the model stays as it was initialized.

Measured on torch 2.13: 0 of 200 steps moved the weights, and the loss stayed at its initial 1.647, with SGD, momentum,
Adam and AdamW alike.

## Bad
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()

## Good
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
Loops that a framework runs, and the `backward` of a wrapper that has a method for steps as well; parameters that are
updated by hand, and gradients that go to a hook; optimizers that are of a class of the project, are stepped under this
name by something that could not be followed, by another method of the class or by whoever owns them, or go into a call
that cannot be resolved; loops that read the gradients themselves (saliency, Fisher information); beside others that
step, optimizers of networks that are not seen to be among those which the loss is computed with, or of whose parts the
others have some, or that are not cleared there and that other code steps, which does not run then.

## Fix (unsafe)
Inserts `optimizer.step()` after the backward pass and what clips its gradients, where the loop has one backward pass
and clears the gradients itself. Unsafe because it changes training, as it should.

## On real code
742 public repositories: 1 finding, true: a trial of mixed precision steps its schedule only. Code that trains nothing
is not published; of 50 steps deleted from it as a test, 31 were found, and the others stand in classes whose loop is
elsewhere or in one branch of several.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Backward,
    Class,
    Context,
    Edits,
    Event,
    Finding,
    GradientClip,
    Instance,
    Loop,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    ParametersUpdated,
    Program,
    Rule,
    ScalerUpdate,
    Site,
    Symbol,
    Value,
    ZeroGrad,
    insert_after,
    receiver_of,
    walk,
)

_LOOKED_AT = frozenset(("norm", "item", "mean", "max", "isnan", "isinf", "isfinite", "Histogram"))  # and no more


# ------------------------------------------------------------------------------------------------- excuses


def is_run_by_framework(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """a framework runs the loop, or a wrapper that has a method for steps as well"""
    frame = backward.frame
    wrapper = frame.receiver if frame.function == "backward" else None
    return ctx.is_managed(backward) or (wrapper is not None and ctx.member(wrapper, "step") is not None)


def is_updated_by_hand(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """parameters are updated by hand, or gradients go to a hook, which may be all that they are computed for"""
    hooks = (event.name for event in ctx.all_of(OpaqueCall) if event.name.startswith("register_"))
    return bool(ctx.all_of(ParametersUpdated)) or any(name.endswith("hook") for name in hooks)


def is_of_a_class_of_its_own(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """the optimizer is of a class of the project, or its `step` was replaced, as apex does"""
    return isinstance(optimizer, Instance) and (isinstance(optimizer.cls, Class) or "step" in optimizer.attributes)


def is_of_an_owner(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """the optimizer is what an unknown object has, as `state.optimizers` of a trainer, which may step it"""
    read = False
    while isinstance(optimizer, Symbol) and optimizer.inputs:
        read = read or optimizer.name == "attribute"
        optimizer = optimizer.inputs[0]
    return read and isinstance(optimizer, Symbol) and optimizer.name == "parameter"


def is_made_where_one_steps(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """the same line makes an optimizer that takes steps, in another run of it"""
    made = optimizer.site.node if optimizer.site is not None else None
    return any(other.site is not None and other.site.node is made for other in ctx.stepped_optimizers())


def may_be_stepped_out_of_sight(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """a call that could not be followed may take the step"""
    return any(_may_step(event, optimizer, ctx) for event in ctx.all_of(OpaqueCall))


def is_stepped_by_name(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """something of its name takes a step there, or what Lightning has for the optimizers of a module"""
    around = [site for site in (backward.frame.definition, loop.site) if site is not None]
    name = ctx.name_of(optimizer)
    steps = (
        step
        for step in ctx.method_calls("step")
        if _is_stepped(step.node, name, with_scaler=False) or receiver_of(step.node).endswith("optimizers()")
    )
    return any(ctx.is_within(step, site) for step in steps for site in around)


def is_stepped_elsewhere(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """another method of the class, which is seen without its users, or one who names it, steps what it has so called"""
    if ctx.program.kind != "class":
        return False
    name = ctx.name_of(optimizer)
    receivers = {each.frame.receiver.cls for each in ctx.all_of(ZeroGrad) if isinstance(each.frame.receiver, Instance)}
    owners = [cls for cls in receivers if isinstance(cls, Class)]
    classes = [Site(each.module, each.node) for cls in owners for each in cls.lineage]
    steps = (step for step in ctx.method_calls("step") if _is_stepped(step.node, name, with_scaler=True))
    if any(ctx.is_within(step, cls) for step in steps for cls in classes):
        return True
    around = (node for owner in owners if name for node in ctx.code_around(owner))
    return any(_is_call_of_step(node) and _is_stepped(node, name, with_scaler=True) for node in around)


def has_gradients_read(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """the loop uses `.grad` itself, here or in a function that it calls"""
    assigned = (event for event in walk(loop.body) if isinstance(event, AttributeAssigned))
    if any(event.attribute == "grad" and isinstance(event.site.node, ast.Attribute) for event in assigned):
        return True
    frames = {id(frame): frame for event in walk(loop.body) for frame in event.frame.stack()}
    places = {id(each.definition.node): each.definition for each in frames.values() if each.definition is not None}
    return any(_keeps_gradients(site.node) for site in (loop.site, *places.values()))


def gets_no_gradients(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """other optimizers step there, and the networks that the loss is computed with are not seen to be of this one"""
    behind = ctx.models_behind(backward.loss, with_gradients=True) if backward.loss is not None else []
    modules, _ = ctx.parameters_of(optimizer)
    others = any(isinstance(event, OptimizerStep) for event in walk(loop.body))
    return bool(behind and modules) and others and ctx.gives_gradients(backward.loss, optimizer) is not True


def is_trained_by_other_code(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """other optimizers step there, it is not cleared there, and code that does not run here steps it by its name"""
    around = list(walk(loop.body))
    is_cleared = any(isinstance(event, ZeroGrad) and ctx.is_same(event.target, optimizer) for event in around)
    if is_cleared or not any(isinstance(event, OptimizerStep) for event in around):
        return False
    name = ctx.name_of(optimizer)
    return bool(name) and any(_is_stepped(step.node, name, with_scaler=True) for step in ctx.method_calls("step"))


def has_another_that_steps(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """other optimizers have the same networks, or parts of them, and take steps: this one is left over"""
    modules, _ = ctx.parameters_of(optimizer)
    others = [module for each in ctx.stepped_optimizers() for module in ctx.parameters_of(each)[0]]
    steps = [event for event in walk(loop.body) if isinstance(event, OptimizerStep)]
    parts = [part for step in steps for part in ctx.parameters_of(step.optimizer)[0]]
    return bool(modules) and all(
        any(ctx.is_same(module, other) for other in others) or any(ctx.is_part(part, module) for part in parts)
        for module in modules
    )


class MissingOptimizerStep(Rule):
    code = "DL201"
    name = "missing-optimizer-step"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("backward", "manual_backward"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html",)
    excuses = (
        is_run_by_framework,
        is_updated_by_hand,
        is_of_a_class_of_its_own,
        is_of_an_owner,
        is_made_where_one_steps,
        may_be_stepped_out_of_sight,
        is_stepped_elsewhere,
        is_stepped_by_name,
        has_gradients_read,
        gets_no_gradients,
        is_trained_by_other_code,
        has_another_that_steps,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        backwards = ctx.all_of(Backward)
        for optimizer in _idle_optimizers(ctx) if backwards else ():
            pairs = [(each, loop) for each in backwards if (loop := _idle_loop(each, optimizer, ctx)) is not None]
            idle = [pair for pair in pairs if not ctx.excused(self, *pair, optimizer)]
            if idle:
                backward, loop = next((pair for pair in idle if not _is_followed_by_step(pair[0], ctx)), idle[0])
                yield self._report(backward, loop, optimizer, ctx)
        for backward, loop, optimizer in _idle_arms(ctx):
            if not any(excuse(backward, loop, optimizer, ctx) for excuse in (is_run_by_framework, has_gradients_read)):
                yield self._report(backward, loop, optimizer, ctx)

    def _report(self, backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> Finding:
        called = ctx.called(optimizer, "optimizer")
        unit = "method" if loop.kind == "calls" else "loop"
        what = f"what {called} holds is not trained" if ctx.steps() else "nothing is trained"
        return ctx.finding(
            self,
            backward,
            f"gradients are computed in this {unit}, but {called} never takes a step",
            effect=f"{what}: the weights stay as they were initialized, and no error says so",
            help=f"call `step()` of {called} after the backward pass",
            trace=[(loop.site, f"in this {unit}"), (backward.site, "gradients are computed, and never used")],
            fix=("Take a step after the backward pass", _take_step(backward, loop, optimizer, ctx)),
        )


# ---------------------------------------------------------------------------------------- what never steps


def _idle_optimizers(ctx: Context) -> Iterator[Value]:
    """The optimizers that are seen whole, from creation or clearing on, and never take a step."""
    stepped = ctx.stepped_optimizers()
    variables = {
        (event.frame, ctx.name_of(event.optimizer))
        for event in ctx.all_of(OptimizerCreated)
        if any(ctx.is_same(event.optimizer, known) for known in stepped)
    }
    seen: list[Value] = []
    for event in ctx.all_of(OptimizerCreated, ZeroGrad):
        options = ctx.objects(event.optimizer if isinstance(event, OptimizerCreated) else _cleared(event))
        if any(option is known or ctx.reaches(known, option) for option in options for known in stepped):
            continue  # also one of several that may be stepped, and one inside another (Lookahead)
        if isinstance(event, OptimizerCreated):
            name = ctx.name_of(event.optimizer)
            if not name or (event.frame, name) in variables:
                seen.extend(options)  # an alternative to one that steps, or one of a dict to choose from
        for optimizer in options:
            if ctx.guessed_role(optimizer) == "optimizer" and not any(optimizer is known for known in seen):
                seen.append(optimizer)
                yield optimizer


def _cleared(event: Event) -> Value | None:
    return event.target if isinstance(event, ZeroGrad) else None


def _idle_loop(backward: Backward, optimizer: Value, ctx: Context) -> Loop | None:
    """The loop around a backward pass that should step the optimizer: it clears them, or is the only one."""
    for loop in ctx.loops_around(backward):
        clearings = (event for event in walk(loop.body) if isinstance(event, ZeroGrad))
        if any(ctx.is_same(event.target, optimizer) for event in clearings):
            return loop
        if (
            ctx.program.complete
            and _was_created(optimizer, backward, ctx)
            and ctx.gives_gradients(backward.loss, optimizer)
            and not _is_covered(optimizer, ctx)
        ):
            return loop
    return None


def _idle_arms(ctx: Context) -> Iterator[tuple[Backward, Loop, Value]]:
    """Backward passes of optimizers that are cleared beside them, and step only where these never happen."""
    seen: set[tuple[int, int]] = set()
    for backward in ctx.all_of(Backward):
        steps, loops = ctx.together_with(backward, ctx.steps()), ctx.loops_around(backward)
        if not loops or steps:
            continue  # where another one steps, networks are trained in turn
        opaque = ctx.together_with(backward, ctx.all_of(OpaqueCall))
        for event in ctx.beside(backward, loops[0]):
            if not isinstance(event, ZeroGrad) or (id(loops[0]), id(event.target)) in seen:
                continue
            is_stepped = any(ctx.is_same(step.optimizer, event.target) for step in ctx.steps())
            if is_stepped and not any(_may_step(call, event.target, ctx) for call in opaque):
                seen.add((id(loops[0]), id(event.target)))
                yield backward, loops[0], event.target


def _was_created(optimizer: Value, backward: Backward, ctx: Context) -> bool:
    """Whether an optimizer was there before a backward pass, and not only where that does not happen."""
    made = (event for event in ctx.all_of(OptimizerCreated) if ctx.is_same(event.optimizer, optimizer))
    return any(ctx.position(each) < ctx.position(backward) and not ctx.exclusive(each, backward) for each in made)


def _is_covered(optimizer: Value, ctx: Context) -> bool:
    """Whether optimizers that step were given all that this one was, as an agent's the network that has one itself."""
    modules, _ = ctx.parameters_of(optimizer)
    stepped = [module for other in ctx.stepped_optimizers() for module in ctx.parameters_of(other)[0]]
    return bool(modules) and all(any(ctx.reaches(outer, module) for outer in stepped) for module in modules)


def _may_step(event: OpaqueCall, optimizer: Value, ctx: Context) -> bool:
    """Whether an unresolved call could take the step: it gets the optimizer, and does not just log or save it.

    So does ``step`` of anything unresolved, such as an engine that owns the optimizer; but for an environment, in which
    an agent takes its steps.
    """
    is_harmless = ctx.speaks_of("harmless-call", event.name)
    if not is_harmless and ctx.opaque_to(event, optimizer):
        return True
    return event.name == "step" and not ctx.speaks_of("environment", receiver_of(event.site.node).rpartition(".")[2])


def _is_call_of_step(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"


def _is_stepped(step: ast.AST, name: str, *, with_scaler: bool) -> bool:
    """Whether ``x.step()``, or ``scaler.step(x)``, is of something of a name."""
    assert isinstance(step, ast.Call) and isinstance(step.func, ast.Attribute)
    given = [step.func.value, *(step.args if with_scaler else ())]
    return bool(name) and any(getattr(each, "attr", getattr(each, "id", "")) == name for each in given)


def _is_followed_by_step(backward: Backward, ctx: Context) -> bool:
    """Whether some optimizer steps before the next backward pass, in the order of the text."""
    later = (e for e in ctx.all_of(Backward, OptimizerStep) if ctx.position(e) > ctx.position(backward))
    return isinstance(next(later, None), OptimizerStep)


def _keeps_gradients(node: ast.AST) -> bool:
    """Whether gradients are kept for something else. Changing or logging them in place is no use of them."""
    kept = (each for each in ast.walk(node) if isinstance(each, ast.Assign | ast.AugAssign | ast.Return))
    for statement in kept:
        inner = list(ast.walk(statement.value)) if statement.value is not None else []
        called = [each.func for each in inner if isinstance(each, ast.Call)]  # torch.autograd.grad(...)
        if any(getattr(each, "attr", getattr(each, "id", "")) in _LOOKED_AT for each in called):
            continue
        if any(isinstance(each, ast.Attribute) and each.attr == "grad" and each not in called for each in inner):
            return True
    return False


# ------------------------------------------------------------------------------------------------- the fix


def _take_step(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> Edits:
    """Insert the step after the only backward pass of a loop, and after the clipping that belongs to it."""
    inside = [event for event in walk(loop.body) if event.frame is backward.frame]
    clearing = next((e for e in inside if isinstance(e, ZeroGrad) and ctx.is_same(e.target, optimizer)), None)
    call = clearing.site.node if clearing is not None else None
    if sum(isinstance(event, Backward) for event in walk(loop.body)) != 1:
        return Edits()
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "zero_grad":
        return Edits()
    name = ctx.source_of(Site(backward.site.module, call.func.value))
    of_turn = [event for event in inside if event.guards == backward.guards]
    last = [event for event in of_turn if isinstance(event, Backward | GradientClip)][-1]
    if backward.scaler is None or backward.via:
        return insert_after(last.site, f"{name}.step()")
    scaler = _scaler_text(backward, ctx)
    updates = "" if ctx.all_of(ScalerUpdate) else f"\n{scaler}.update()"
    return insert_after(last.site, f"{scaler}.step({name}){updates}") if scaler else Edits()


def _scaler_text(backward: Backward, ctx: Context) -> str:
    """The scaler in ``scaler.scale(loss).backward()``, as it is written."""
    call = backward.site.node
    scaling = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if isinstance(scaling, ast.Call) and isinstance(scaling.func, ast.Attribute):
        return ctx.source_of(Site(backward.site.module, scaling.func.value))
    return ""
