"""Gradients that are computed again and again, and never used.

The loop goes backward, and no optimizer ever takes a step: the model stays as it was initialised.

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
Optimizers of a class of the project, or of a branch in which no gradients are computed, or that go into a call that
cannot be resolved, or are returned to a caller that is not seen; loops that read the gradients themselves (saliency,
Fisher information, manual updates); loops that a framework runs.

## Fix (unsafe)
Inserts `optimizer.step()` behind the backward pass and what clips its gradients, where the loop has one backward pass
and clears the gradients itself. Unsafe because it changes training, as it should.

## On real code
742 public repositories: 1 finding, true: a trial of mixed precision steps its schedule only. Code that trains nothing
is not published; of 50 steps deleted from it as a test, 31 were found, and the others stand in classes whose loop is
elsewhere or in one branch of several.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from dllint.api import (
    AttributeAssigned,
    Backward,
    Class,
    Context,
    Edit,
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
    offer,
    walk,
)

_HARMLESS = re.compile(r"(save|log|print|report|write|info|debug|warning|adjust|add_scalar)(_|$)")
_LOGGED = re.compile(r"Histogram|\.(norm|item|mean|max)\(|isnan|isinf|isfinite")


class MissingOptimizerStep(Rule):
    code = "DL201"
    name = "missing-optimizer-step"
    category = "correctness"
    severity = "error"
    triggers = (("backward", "manual_backward"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        backwards = [
            event for event in ctx.all_of(Backward) if not ctx.is_managed(event) and not _is_of_wrapper(event, ctx)
        ]
        if not backwards or any(isinstance(event, ParametersUpdated) or _is_hook(event) for event in ctx.events):
            return
        for optimizer in self._idle_optimizers(ctx):
            idle = [(backward, loop) for backward in backwards if (loop := self._idle_loop(backward, optimizer, ctx))]
            idle = [pair for pair in idle if not _is_stepped_by_name(*pair, optimizer, ctx)]
            if idle and not any(_reads_gradients(loop, ctx) for _, loop in idle):
                backward, loop = next((pair for pair in idle if not _is_used(pair[0], ctx)), idle[0])
                yield self._report(backward, loop, optimizer, ctx)
        for backward, loop, optimizer in self._idle_arms(backwards, ctx):
            if not _reads_gradients(loop, ctx):
                yield self._report(backward, loop, optimizer, ctx)

    def _idle_arms(self, backwards: list[Backward], ctx: Context) -> Iterator[tuple[Backward, Loop, Value]]:
        """Backward passes of optimizers that are cleared beside them, and step only where these never happen."""
        seen: set[tuple[int, int]] = set()
        for backward in backwards:
            steps, loops = ctx.together_with(backward, ctx.steps()), ctx.loops_around(backward)
            if not loops or len(steps) == len(ctx.steps()):
                continue
            opaque = ctx.together_with(backward, ctx.all_of(OpaqueCall))
            for event in ctx.beside(backward, loops[0]):
                if not isinstance(event, ZeroGrad) or (id(loops[0]), id(event.target)) in seen:
                    continue
                is_stepped = any(ctx.is_same(step.optimizer, event.target) for step in ctx.steps())
                may_step = any(ctx.may_concern(event.target, step.optimizer) for step in steps)
                if is_stepped and not may_step and not any(_may_step(call, event.target, ctx) for call in opaque):
                    seen.add((id(loops[0]), id(event.target)))
                    yield backward, loops[0], event.target

    def _idle_optimizers(self, ctx: Context) -> Iterator[Value]:
        """The optimizers that are seen whole, from creation or clearing on, and never take a step."""
        stepped = ctx.stepped_optimizers()
        made = list(ctx.all_of(OptimizerCreated))
        variables = {
            (event.frame, ctx.name_of(event.optimizer))
            for event in made
            if any(ctx.is_same(event.optimizer, known) for known in stepped)
        }
        seen: list[Value] = []
        for event in ctx.events:
            subject = _optimizer_of(event)
            options = ctx.objects(subject)
            if any(option is known or ctx.reaches(known, option) for option in options for known in stepped):
                continue  # also one of several that may be stepped, and one inside another (Lookahead)
            if isinstance(event, OptimizerCreated):
                name = ctx.name_of(event.optimizer)
                if not name or (event.frame, name) in variables:
                    seen.extend(options)  # an alternative to one that steps, or one of a dict to choose from
            for optimizer in options:
                if ctx.guessed_role(optimizer) != "optimizer" or any(optimizer is known for known in seen):
                    continue
                seen.append(optimizer)
                if not self._may_be_stepped(optimizer, stepped, ctx) and not _is_stepped_elsewhere(optimizer, ctx):
                    yield optimizer

    def _may_be_stepped(self, optimizer: Value, stepped: list[Value], ctx: Context) -> bool:
        """Whether a step is likely to be out of sight: in the project's class, a call, another run of this code."""
        if isinstance(optimizer, Instance) and isinstance(optimizer.cls, Class):
            return True
        if _is_of_another(optimizer) or (isinstance(optimizer, Instance) and "step" in optimizer.attributes):
            return True  # an owner may step it, or its `step` was put in the place of torch's (as apex does)
        if optimizer.site is not None and any(
            known.site is not None and known.site.node is optimizer.site.node for known in stepped
        ):
            return True
        return any(_may_step(event, optimizer, ctx) for event in ctx.events if isinstance(event, OpaqueCall))

    def _idle_loop(self, backward: Backward, optimizer: Value, ctx: Context) -> Loop | None:
        """The loop around a backward pass that should step the optimizer: it clears them, or is the only one."""
        for loop in ctx.loops_around(backward):
            inside = list(walk(loop.body))
            if any(isinstance(event, ZeroGrad) and ctx.is_same(event.target, optimizer) for event in inside):
                return loop
            if (
                ctx.program.complete
                and self._was_created(optimizer, backward, ctx)
                and self._trains(backward, optimizer, ctx)
                and not _is_covered(optimizer, ctx)
            ):
                return loop
        return None

    def _was_created(self, optimizer: Value, backward: Backward, ctx: Context) -> bool:
        """Whether an optimizer was there before a backward pass, and not only where that does not happen."""
        before = ctx.events[: ctx.events.index(backward)]
        return any(
            isinstance(event, OptimizerCreated)
            and ctx.is_same(event.optimizer, optimizer)
            and ctx.consistent(event.guards, backward.guards)
            for event in before
        )

    def _trains(self, backward: Backward, optimizer: Value, ctx: Context) -> bool:
        """Whether the loss certainly comes from a module that the optimizer was given."""
        modules, _ = ctx.parameters_of(optimizer)
        behind = ctx.models_behind(backward.loss, with_gradients=True) if backward.loss is not None else []
        return any(ctx.reaches(module, used) or ctx.reaches(used, module) for module in modules for used in behind)

    def _report(self, backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> Finding:
        name = ctx.name_of(optimizer) or "the optimizer"
        return ctx.finding(
            self,
            backward,
            f"gradients are computed in this {_unit(loop)}, but `{name}` never takes a step",
            effect="nothing is trained: the weights stay as they were initialised, and no error says so",
            help=f"call `{name}.step()` behind the backward pass",
            trace=[(loop.site, f"in this {_unit(loop)}"), (backward.site, "gradients are computed, and never used")],
            fixes=offer(
                "Take a step behind the backward pass",
                _take_step(backward, loop, optimizer, ctx),
                "unsafe",
                of=backward.site,
                at=backward.site,
            ),
        )


def _unit(loop: Loop) -> str:
    return "method" if loop.kind == "calls" else "loop"


def _is_stepped_by_name(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> bool:
    """Whether something of the optimizer's name takes a step there, which is another value only to dllint."""
    name = ctx.name_of(optimizer)
    step = re.compile(rf"\b{re.escape(name)}\.step\(")
    around = (backward.frame.definition, loop.site) if name else ()
    return any(step.search(ctx.source_of(site)) for site in around if site is not None)


def _is_stepped_elsewhere(optimizer: Value, ctx: Context) -> bool:
    """Whether a class that is seen without its users has a method that steps what it keeps under this name.

    Those who name the class may do it as well.
    """
    name = re.escape(ctx.name_of(optimizer))
    if not name or ctx.program.kind != "class":
        return False
    steps = re.compile(rf"\.{name}\.step\(|\.step\([\w.]*\.{name}\b")
    receivers = {
        event.frame.receiver.cls for event in ctx.all_of(ZeroGrad) if isinstance(event.frame.receiver, Instance)
    }
    owners = [owner for owner in receivers if isinstance(owner, Class)]
    lineages = (owner.lineage for owner in owners)
    if any(steps.search(ctx.source_of(Site(each.module, each.node))) for each in chain(*lineages)):
        return True
    return any(ctx.is_said_around(owner, steps.pattern) for owner in owners)


def _is_of_another(optimizer: Value) -> bool:
    """Whether an optimizer is what an unknown object has, as ``state.optimizers`` of a trainer, which may step it."""
    read = False
    while isinstance(optimizer, Symbol) and optimizer.inputs:
        read = read or optimizer.name == "attribute"
        optimizer = optimizer.inputs[0]
    return read and isinstance(optimizer, Symbol) and optimizer.name == "parameter"


def _is_covered(optimizer: Value, ctx: Context) -> bool:
    """Whether optimizers that step were given all that this one was, as an agent's the network that has one itself."""
    modules, _ = ctx.parameters_of(optimizer)
    stepped = [module for other in ctx.stepped_optimizers() for module in ctx.parameters_of(other)[0]]
    return bool(modules) and all(any(ctx.reaches(outer, module) for outer in stepped) for module in modules)


def _is_of_wrapper(backward: Backward, ctx: Context) -> bool:
    """Whether a backward pass is the ``backward`` of a wrapper that has a method for steps as well."""
    frame = backward.frame
    return frame.function == "backward" and frame.receiver is not None and bool(ctx.member(frame.receiver, "step"))


def _optimizer_of(event: Event) -> Value | None:
    """The optimizer that is created, or what is cleared."""
    if isinstance(event, OptimizerCreated):
        return event.optimizer
    return event.target if isinstance(event, ZeroGrad) else None


def _is_hook(event: Event) -> bool:
    """Whether gradients go to a hook, which may be all that they are computed for."""
    return isinstance(event, OpaqueCall) and event.name.startswith("register_") and event.name.endswith("hook")


def _may_step(event: OpaqueCall, optimizer: Value, ctx: Context) -> bool:
    """Whether an unresolved call could take the step: it gets the optimizer, and does not just log or save it.

    So does ``step`` of anything unresolved, such as an engine that owns the optimizer.
    """
    if event.name == "step":
        return True
    return not _HARMLESS.match(event.name.rpartition(".")[2]) and ctx.opaque_to(event, optimizer)


def _is_used(backward: Backward, ctx: Context) -> bool:
    """Whether some optimizer steps before the next backward pass, in the order of the text."""
    behind = ctx.events[ctx.events.index(backward) + 1 :]
    following = next((event for event in behind if isinstance(event, Backward | OptimizerStep)), None)
    return isinstance(following, OptimizerStep)


def _take_step(backward: Backward, loop: Loop, optimizer: Value, ctx: Context) -> tuple[Edit, ...]:
    """Insert the step behind the only backward pass of a loop, and behind the clipping that belongs to it."""
    inside = [event for event in walk(loop.body) if event.frame is backward.frame]
    clearing = next((e for e in inside if isinstance(e, ZeroGrad) and ctx.is_same(e.target, optimizer)), None)
    call = clearing.site.node if clearing is not None else None
    if sum(isinstance(event, Backward) for event in walk(loop.body)) != 1:
        return ()
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "zero_grad":
        return ()
    name = ctx.source_of(Site(backward.site.module, call.func.value))
    last = [
        event for event in inside if isinstance(event, Backward | GradientClip) and event.guards == backward.guards
    ][-1]
    if backward.scaler is None or backward.via:
        return insert_after(last.site, f"{name}.step()")
    scaler = _scaler_text(backward, ctx)
    updates = bool(ctx.all_of(ScalerUpdate))
    step = f"{scaler}.step({name})" if updates else f"{scaler}.step({name})\n{scaler}.update()"
    return insert_after(last.site, step) if scaler else ()


def _scaler_text(backward: Backward, ctx: Context) -> str:
    """The scaler in ``scaler.scale(loss).backward()``, as it is written."""
    call = backward.site.node
    scaling = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    if isinstance(scaling, ast.Call) and isinstance(scaling.func, ast.Attribute):
        return ctx.source_of(Site(backward.site.module, scaling.func.value))
    return ""


def _reads_gradients(loop: Loop, ctx: Context) -> bool:
    """Whether the loop uses `.grad` itself, here or in a function it calls."""
    for event in walk(loop.body):
        if (
            isinstance(event, AttributeAssigned)
            and event.attribute == "grad"
            and isinstance(event.site.node, ast.Attribute)
        ):
            return True
    return any(_mentions_grad(site) for site in _places(loop))


def _places(loop: Loop) -> Iterator[Site]:
    yield loop.site
    seen: set[int] = set()
    event: Event
    for event in walk(loop.body):
        for frame in event.frame.stack():
            if frame.definition is not None and id(frame.definition.node) not in seen:
                seen.add(id(frame.definition.node))
                yield frame.definition


def _mentions_grad(site: Site) -> bool:
    """Whether gradients are kept for something else. Changing or logging them in place is no use of them."""
    kept = (node for node in ast.walk(site.node) if isinstance(node, ast.Assign | ast.AugAssign | ast.Return))
    for statement in kept:
        if statement.value is not None and _LOGGED.search(ast.unparse(statement.value)):
            continue
        inner = list(ast.walk(statement.value)) if statement.value is not None else []
        functions = {id(node.func) for node in inner if isinstance(node, ast.Call)}  # torch.autograd.grad(...)
        if any(isinstance(n, ast.Attribute) and n.attr == "grad" and id(n) not in functions for n in inner):
            return True
    return False
