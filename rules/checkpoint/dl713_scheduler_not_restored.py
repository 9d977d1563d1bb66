"""A run that goes on from a checkpoint with a learning-rate scheduler that starts again.

The optimizer's state has the current learning rate, and not where the schedule is. A scheduler that is not restored
counts from 0 again: a cosine that was half way down never reaches its end, steps of a `StepLR` come too late.

Measured on torch 2.13 (cosine over 10 epochs, from a rate of 1, resumed after 5): with both states the rate goes from
.5 to 0; with the optimizer's alone it goes from .5 to .25, and never comes to the end; with the model's alone it begins
at 1 again.

## Bad
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(epochs):
        train(model, loader, optimizer)
        scheduler.step()

## Good
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
    for epoch in range(epochs):
        train(model, loader, optimizer)
        scheduler.step()

## Not reported
`ExponentialLR` and `StepLR` with a step of one epoch, which multiply the rate that comes back with the optimizer, and
those that multiply the rate which the optimizer is made with, where that is read from the checkpoint; schedulers that
are told where they are (`last_epoch=`, `step(epoch)`, steps that are made up for before training) or that are built for
what is left; `ReduceLROnPlateau`, which goes on from the optimizer's rate; rates that are also set by hand; states that
are looked up under another key than the program saves them under, if anything in the project writes that one, or the
right one is tried as well; weights that are loaded for a run of its own, as long as the first (`range(start, start +
epochs)`); optimizers that take no step after they are loaded, and models that no step trains after that; loops that a
framework runs.

## Fix (unsafe)
Restores the scheduler where the optimizer is restored, if its state is in the checkpoint already. Unsafe because the
learning rates change, as they should.

## On real code
269 public repositories, of which 40 load the state of an optimizer: 2 findings, both true. Of 2 questions one was
false: the scheduler was made anew under the same name, and restored. That is silent now. In 127 others 1 finding,
true. In about 270, after states that come from one of several files were added, 1 more, true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Continuation,
    Edits,
    Finding,
    Instance,
    Load,
    OpaqueCall,
    OptimizerStep,
    Part,
    Program,
    Restored,
    Rule,
    Saved,
    SchedulerCreated,
    SchedulerStep,
    StateRead,
    StateRestored,
    Symbol,
    Value,
    insert_after,
    is_bound_at,
)

_EFFECT = "the schedule is repeated from its beginning, with other learning rates than in a run in one piece"
_WITHOUT_A_PLACE = ("ReduceLROnPlateau", "ConstantLR")


def restored_or_handed_on(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """its state is restored, it is itself read from the checkpoint, or code that is not seen gets hold of it"""
    vain = _looked_up_in_vain(scheduler, found, ctx)
    if not vain and ctx.is_restored(scheduler):
        return True
    keys = [key for key in found.keys - vain if "sched" in key.lower()]
    return not all(ctx.is_left_out(key, found) for key in keys)


def has_no_place(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """it follows the scores, or keeps the rate: there is no place in a schedule"""
    return ctx.class_name(scheduler) in _WITHOUT_A_PLACE


def goes_on_from_the_rate(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """each of its steps multiplies the rate of the optimizer, which is restored with it"""
    size = scheduler.arguments.get(1, "step_size")
    is_each = ctx.class_name(scheduler) == "StepLR" and size is not None and ctx.constant(size) == 1
    optimizer = scheduler.arguments.get(0, "optimizer")
    is_product = is_each or ctx.class_name(scheduler) == "ExponentialLR"
    if _has_its_rate_back(optimizer, found, ctx):
        return is_product or ctx.class_name(scheduler) in ("LambdaLR", "StepLR", "MultiplicativeLR")
    return is_product and optimizer is not None and ctx.is_restored(optimizer)


def told_the_epoch(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """it is told the epoch: by `last_epoch=`, by `step(epoch)`, or by an assignment"""
    last = scheduler.arguments.keywords.get("last_epoch")
    if last is not None and ctx.constant(last) != -1:
        return True
    return ctx.may_set_last_epoch() or any(event.arguments.all() for event in _own_steps(scheduler, ctx))


def made_up_for(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """its steps are made up for in a loop of their own"""
    trained = {id(loop) for step in ctx.all_of(OptimizerStep) for loop in ctx.loops_around(step)}
    loops = (loop for event in _own_steps(scheduler, ctx) for loop in ctx.loops_around(event)[:1])
    return any(id(loop) not in trained for loop in loops)


def built_for_the_rest(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """it is built from what was read: for the epochs that are left"""
    results = {id(read.result) for read in found.reads}
    return any(id(source) in results for given in scheduler.arguments.all() for source in ctx.sources(given))


def set_by_hand(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """the learning rate is set by hand, too"""
    return ctx.is_entry_written("lr") and any(ctx.trees("param_groups"))


def trained_for_as_long_again(scheduler: Instance, found: Continuation, ctx: Context) -> bool:
    """each run is as long as the first (`range(start, start + 200)`), and has a whole schedule of its own"""
    loops = (loop for event in _own_steps(scheduler, ctx) for loop in ctx.loops_around(event))
    return any(isinstance(loop.site.node, ast.For) and _goes_on_as_long(loop.site.node.iter) for loop in loops)


class SchedulerNotRestored(Rule):
    code = "DL713"
    name = "scheduler-not-restored"
    category = "correctness"
    severity = "warning"
    triggers = (("load_state_dict", "step"), ("load",), ("load_state_dict",), ("step",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",)

    excuses = (
        restored_or_handed_on, has_no_place, goes_on_from_the_rate, told_the_epoch, made_up_for, built_for_the_rest,
        set_by_hand, trained_for_as_long_again,
    )  # fmt: skip

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reads, steps = ctx.all_of(StateRead), ctx.all_of(SchedulerStep)
        found = ctx.continuation if reads and steps else None
        if found is None:
            yield from self._left_elsewhere(ctx) if steps else ()
            return
        for event in ctx.all_of(SchedulerCreated):
            scheduler = event.scheduler
            if not isinstance(scheduler, Instance) or not _own_steps(scheduler, ctx):
                continue
            places = _places(event, found, ctx)
            if places and not ctx.excused(self, scheduler, found):
                for place in places:  # whichever of several optimizers it is, the scheduler starts again
                    yield self._report(event, place, found, ctx)
                return

    def _left_elsewhere(self, ctx: Context) -> Iterator[Finding]:
        """Code that this program does not run, such as a method, and that takes all but the scheduler out of a file."""
        for saved in ctx.checkpoints.saved:
            for part in saved.parts:
                state = part.value
                if not isinstance(state, Symbol) or state.name != "state_dict" or ctx.is_entry_read(part.key):
                    continue
                for scheduler in ctx.objects(state.inputs[0]):
                    load = next(ctx.resumed_elsewhere(saved), None) if _is_stepped_later(scheduler, ctx) else None
                    if load is None or not isinstance(scheduler, Instance):
                        continue
                    if not ctx.excused(self, scheduler, Continuation((), (), load.keys, (saved,))):
                        yield self._report_left(scheduler, part, saved, load, ctx)
                        return

    def _report_left(self, scheduler: Instance, part: Part, saved: Saved, load: Load, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            load.site,
            f"training goes on from here, and `{part.key}` is left in the file",
            on=[
                saved.event,
                *ctx.checkpoints.unsure(saved, "module", "optimizer", "scheduler"),
                *_own_steps(scheduler, ctx)[:1],
            ],
            effect=_EFFECT,
            help=f'load `checkpoint["{part.key}"]` into the scheduler where the optimizer\'s state is loaded',
            trace=[(saved.place_of(part), "this is saved"), (load.site, "and not taken out here")],
        )

    def _report(self, made: SchedulerCreated, place: Restored, found: Continuation, ctx: Context) -> Finding:
        called = ctx.called(made.scheduler, "scheduler")
        return ctx.finding(
            self,
            place.event,
            f"training goes on from here, and {called} starts again",
            on=[made, place.unsure, *_own_steps(made.scheduler, ctx)[:1]],
            assuming=found.assumptions,
            effect=_EFFECT,
            help="save the state of the scheduler, and load it where the optimizer's is loaded",
            trace=[
                (made.site, "the scheduler is built"),
                (place.read.site, "a checkpoint is read"),
                (place.event.site, "training goes on from it"),
            ],
            fix=("Restore the scheduler, too", _restored_after(made, place, found, ctx)),
        )


def _goes_on_as_long(iterable: ast.expr) -> bool:
    """Whether a loop goes from some number to as many more: `range(start, start + 200)`, also within another call."""
    if not isinstance(iterable, ast.Call):
        return False
    if ast.unparse(iterable.func) != "range" or len(iterable.args) < 2:
        return any(_goes_on_as_long(each) for each in iterable.args)
    start, end = iterable.args[:2]
    sides = (end.left, end.right) if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) else ()
    return not isinstance(start, ast.Constant) and ast.dump(start) in map(ast.dump, sides)


def _has_its_rate_back(optimizer: Value | None, found: Continuation, ctx: Context) -> bool:
    """Whether an optimizer is made with a rate out of the checkpoint, from which its scheduler starts."""
    rate = ctx.argument(optimizer, 1, "lr") if isinstance(optimizer, Instance) else None
    results = {id(read.result) for read in found.reads}
    return rate is not None and any(id(source) in results for source in ctx.sources(rate))


def _is_stepped_later(scheduler: Value, ctx: Context) -> bool:
    return ctx.guessed_role(scheduler) == "scheduler" and bool(_own_steps(scheduler, ctx))


def _own_steps(scheduler: Value, ctx: Context) -> list[SchedulerStep]:
    return [event for event in ctx.all_of(SchedulerStep) if ctx.is_same(event.scheduler, scheduler)]


def _looked_up_in_vain(scheduler: Instance, found: Continuation, ctx: Context) -> frozenset[str]:
    """The keys by which alone the scheduler is restored, if each checkpoint has its state under another one.

    Nothing in the project writes any of these; a test whether they are there keeps that quiet.
    """
    restored = [each for each in ctx.checkpoints.restored if ctx.is_same(each.event.target, scheduler)]
    keys = frozenset(each.key for each in restored)
    held = [
        {part.key for part in saved.parts if ctx.checkpoints.kind(part.value) == "scheduler"} for saved in found.saved
    ]
    is_elsewhere = bool(held) and all(each and "" not in each and not each & keys for each in held)
    named = [
        each
        for each in ctx.all_of(StateRestored)
        if ctx.name_of(each.target) == ctx.name_of(scheduler) or ctx.reaches(each.target, scheduler)
    ]
    is_all = len({id(each.event) for each in restored} | set(map(id, named))) == len(restored)
    if not keys or "" in keys or not is_elsewhere or not is_all or not all(saved.exact for saved in found.saved):
        return frozenset()
    if any(ctx.opaque_to(event, scheduler) for event in ctx.all_of(OpaqueCall)):
        return frozenset()
    return keys if not any(ctx.is_entry_written(key, everywhere=True) for key in keys) else frozenset()


def _places(made: SchedulerCreated, found: Continuation, ctx: Context) -> list[Restored]:
    """Where the optimizer is restored that the scheduler is for, once for each that it may be; where none is, the
    model; not in another branch."""
    restored = [each for each in found.restored if ctx.consistent(made.guards, each.event.guards)]
    optimizers = [each for each in restored if ctx.guessed_role(each.event.target) == "optimizer"]
    mine = [each for each in optimizers if ctx.is_same(each.event.target, made.optimizer)]
    if mine or optimizers:
        return [each for each in mine if each.event.site.node is mine[0].event.site.node]
    return restored[:1]


def _restored_after(made: SchedulerCreated, place: Restored, found: Continuation, ctx: Context) -> Edits:
    """``scheduler.load_state_dict(checkpoint["scheduler"])``, where the state is saved and both have names there."""
    name, state = ctx.name_of(made.scheduler), place.event.state
    keys = [
        part.key
        for saved in found.saved
        for part in saved.parts
        if part.key and "." not in part.key and ctx.checkpoints.kind(part.value) == "scheduler"
    ]
    source = ctx.source_of(state.site) if state is not None and state.site is not None else ""
    wanted = (f"['{place.key}']", f'["{place.key}"]')
    if not keys or not source.endswith(wanted) or not is_bound_at(place.event.site, name, made.scheduler.site):
        return Edits()
    owner = source[: -len(wanted[0])]
    return insert_after(place.event.site, f'{name}.load_state_dict({owner}["{keys[0]}"])')
