"""An optimizer that was built before the model's parameters were replaced.

The optimizer keeps the tensors it was given. What replaces them afterwards (a new head, sharding, adapters,
`load_state_dict(assign=True)`) is in no optimizer, and is never trained.

Measured on torch 2.13: after `m.fc = nn.Linear(...)` the new layer does not move; after `get_peft_model` none of the
trainable tensors is in the optimizer; after `fully_shard`, FSDP with `use_orig_params=False` and
`load_state_dict(assign=True)`, all of the model's parameters are stale. A plain `.to(device)`, `.cuda()` or `.half()`
changes the parameters in place: 0 stale, so it is reported only when the rule is selected by name.

## Bad
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.fc = nn.Linear(512, 10)
    train(model, loader, optimizer)

## Good
    model.fc = nn.Linear(512, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, loader, optimizer)

## Not reported
Changes after which the optimizer is built again or gets the new parameters (`add_param_group`), or that no training
follows; an optimizer whose creation a flag puts off; new parts without parameters (`nn.Identity()`), copies that follow
the model (an average, a teacher), parts that are frozen, and parts that something else keeps and that are only put in;
models whose optimizer is not seen. Moves between devices and dtypes are shown when the rule is selected by name.

## Fix (unsafe)
Moves the change before the optimizer, where both stand in one block. Unsafe because what lies between them may
rely on the order, and because it changes training, as it should.

## On real code
742 public repositories: 5 findings in 3 of them. Four are true: the last layer of a classifier is replaced after its
optimizer, and layers are made when training mode is set. One is false: a framework that shards the model gives the
optimizer the new parameters out of sight. Moves after the optimizer, which are harmless, are reported if the rule is
selected by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Backward,
    Class,
    Context,
    Edits,
    Event,
    Finding,
    Instance,
    ModelChanged,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    ParametersAdded,
    Program,
    Rule,
    StateRestored,
    Symbol,
    Value,
    alternatives,
    assumed_under,
    beside,
    judge,
    move_before,
    statement_around,
)

_REPLACING = {
    "torch.distributed.fsdp.fully_shard": "sharded",
    "torch.distributed.fsdp.FullyShardedDataParallel": "sharded",
    "peft.get_peft_model": "given adapters",
    "torch.nn.utils.weight_norm": "reparametrized",
    "torch.nn.utils.parametrizations.weight_norm": "reparametrized",
}
_MOVES = frozenset(("to", "cuda", "cpu", "half", "float", "double", "bfloat16"))


@dataclass(frozen=True, slots=True)
class _Change:
    """What happens to a model, in words. ``part`` is what it gets, and ``harmless`` changes keep the parameters."""

    event: Event
    model: Value
    text: str
    part: Value | None = None
    harmless: bool = False


# ------------------------------------------------------------------------------------------------- excuses


def follows_the_model(event: Event, change: _Change, maker: OptimizerCreated, ctx: Context) -> bool:
    """the new part is a copy that follows the model, by its name"""
    return isinstance(event, AttributeAssigned) and ctx.speaks_of("averaged-model", event.attribute)


def is_swapped_in(event: Event, change: _Change, maker: OptimizerCreated, ctx: Context) -> bool:
    """something else keeps the part that is put in, as an average for the time of an evaluation"""
    statement = statement_around(event.site)
    if change.part is None or not isinstance(statement, ast.Assign):
        return False
    function: Any = event.frame.definition.node if event.frame.definition is not None else None
    arguments = getattr(function, "args", None)
    given = {each.arg for each in (*arguments.args, *arguments.kwonlyargs)} if arguments is not None else set()
    return isinstance(statement.value, ast.Attribute) or getattr(statement.value, "id", "") in given


def is_frozen_by_name(event: Event, change: _Change, maker: OptimizerCreated, ctx: Context) -> bool:
    """a helper freezes the new part, by its name, so that no optimizer has to train it"""
    helpers = (call for call in ctx.all_of(OpaqueCall) if ctx.speaks_of("freezing", call.name))
    return change.part is not None and any(ctx.opaque_to(call, change.part) for call in helpers)


def is_put_off(event: Event, change: _Change, maker: OptimizerCreated, ctx: Context) -> bool:
    """a flag puts off the creation of the optimizer where it would come too early"""
    flags = (name for guard in maker.guards if not guard.holds for name in guard.names)
    return ctx.speaks_of("deferring", *flags)


def is_not_trained_after(event: Event, change: _Change, maker: OptimizerCreated, ctx: Context) -> bool:
    """nothing is trained after the change"""
    steps = _steps_made_by(maker, ctx)
    if not steps:  # then, where something is trained at all
        return not any(ctx.position(each) > ctx.position(event) for each in ctx.all_of(Backward))
    own = ctx.loops_around(maker)  # each of their turns makes an optimizer anew
    loops = [loop for loop in ctx.loops_around(event) if loop not in own]
    in_a_loop = any(loop in loops for step in steps for loop in ctx.loops_around(step))
    return not in_a_loop and not any(ctx.position(step) > ctx.position(event) for step in steps)


class OptimizerBeforeParametersChange(Rule):
    code = "DL306"
    name = "optimizer-before-parameters-change"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("parameters", "named_parameters"), ("optim", "Optimizer", "SGD", "Adam", "AdamW"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",)
    excuses = (follows_the_model, is_swapped_in, is_frozen_by_name, is_put_off, is_not_trained_after)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        created = ctx.all_of(OptimizerCreated, ParametersAdded)
        reported: set[tuple[int, str]] = set()
        for event in ctx.events[ctx.position(created[0]) :] if created else ():
            change = _change(event, ctx)
            for maker in _stale_optimizers(change, ctx) if change is not None else ():
                if change is None or ctx.excused(self, event, change, maker):
                    continue
                key = (id(maker), ctx.scope(event.site))
                if key not in reported:  # one finding for all parts that are replaced together
                    reported.add(key)
                    yield self._report(change, maker, ctx)

    def _report(self, change: _Change, maker: OptimizerCreated, ctx: Context) -> Finding:
        optimizer = ctx.called(maker.optimizer, "optimizer")
        site = change.event.site
        conditions = ctx.conditions_beyond(change.event, maker)  # what both are under is no assumption
        return ctx.finding(
            self,
            change.event,
            f"the model is {change.text} after {optimizer} was built from its parameters",
            on=[maker, maker.parameters, *_steps_made_by(maker, ctx)],
            assuming=[*assumed_under(conditions), *_assumed_of(maker, change, ctx)],
            effect="harmless on CPU and CUDA, where parameters are changed in place"
            if change.harmless
            else "the new parameters are in no optimizer and are never trained",
            help=f"build {optimizer} after this",
            trace=[(maker.site, "the optimizer takes the parameters"), (site, "and then they change")],
            fix=("Change the model before the optimizer is built", _changed_before(change, maker)),
            severity="info" if change.harmless else None,
            pedantic=change.harmless,
        )


# ----------------------------------------------------------------------------------------------- what is changed


def _change(event: Event, ctx: Context) -> _Change | None:
    if isinstance(event, ModelChanged):
        text = _REPLACING.get(event.action)
        kept = event.arguments.get(None, "use_orig_params")
        is_told = event.arguments.exact or event.action == "torch.distributed.fsdp.fully_shard"
        if text is not None and is_told and ctx.constant(kept) is not True:
            return _Change(event, event.model, text)
        if event.action in _MOVES and ctx.guessed_role(event.model) in ("module", "wrapper"):
            to = ctx.constant(event.arguments.get(0, "device"))
            return _Change(event, event.model, "moved or cast", harmless=to not in ("meta", "xla"))
    elif isinstance(event, StateRestored):
        if ctx.constant(event.arguments.get(None, "assign")) is True:
            return _Change(event, event.target, "given other tensors")
    elif isinstance(event, AttributeAssigned) and _is_new_part(event, ctx) and not _is_constructed(event):
        return _Change(event, event.target, f"given a new `{event.attribute}`", event.value)
    return None


def _is_constructed(event: AttributeAssigned) -> bool:
    """Whether an attribute is set by the constructor of the object itself, which is then new, and changes nothing."""
    return any(frame.function == "__init__" and frame.receiver is event.target for frame in event.frame.stack())


def _is_new_part(event: AttributeAssigned, ctx: Context) -> bool:
    """Whether a model gets a module or parameter made for the purpose (not a wrapper of something that was there).

    A helper that a model holds, and that is no module, has no parameters that were the model's.
    """
    if any(map(_is_plain_object, ctx.objects(event.target))):
        return False
    options = [option for _, option in alternatives(event.value)]
    return bool(options) and all(
        _is_made(each, ctx) and ctx.has_parameters(each) is not False and not _is_placeholder(each) for each in options
    )


def _is_plain_object(value: Value) -> bool:
    """Whether a value is an object of a class that derives from nothing but classes of the project."""
    lineage = value.cls.lineage if isinstance(value, Instance) and isinstance(value.cls, Class) else ()
    return bool(lineage) and all(isinstance(base, Class) for each in lineage for base in each.bases)


def _is_placeholder(value: Value) -> bool:
    """Whether a value is a bare ``nn.Module()``, which stands where nothing is wanted any more."""
    return isinstance(value, Instance) and value.library_name == "torch.nn.Module" and isinstance(value.cls, str)


def _is_made(value: Value, ctx: Context) -> bool:
    if isinstance(value, Instance) and ctx.role(value) == "module":
        return True
    is_new = isinstance(value, Instance) or (isinstance(value, Symbol) and value.name == "torch.nn.Parameter")
    return is_new and ctx.is_parameter(value)


# ------------------------------------------------------------------------------------------- when, and for whom


def _stale_optimizers(change: _Change, ctx: Context) -> list[OptimizerCreated]:
    """The optimizer that was given the model's parameters before the change, and not again after it.

    It is one of several where it is made for each of several models that the model may be.
    """
    stale: list[OptimizerCreated] = []
    owners = ctx.objects(change.model)
    is_owned = ctx.is_same if change.harmless else ctx.is_part  # tensors move, too: only a whole model is told apart
    for event in ctx.all_of(OptimizerCreated, ParametersAdded):
        given = event.parameters if isinstance(event, OptimizerCreated | ParametersAdded) else None
        modules, _ = ctx.modules_in(given)
        if change.part is not None and any(ctx.is_same(module, change.part) for module in modules):
            return []  # some optimizer gets the new part by itself, be it before that is put in
        pairs = [(module, owner) for owner in owners for module in modules]
        is_of_old_part = any(_is_replaced(module, owner, change, ctx) for module, owner in pairs)
        if not is_of_old_part and not any(ctx.reaches(m, owner) or ctx.reaches(owner, m) for m, owner in pairs):
            continue
        if ctx.exclusive(event, change.event):
            continue
        if ctx.position(event) > ctx.position(change.event):
            return []
        if isinstance(event, OptimizerCreated) and (is_of_old_part or any(is_owned(owner, m) for m, owner in pairs)):
            stale = [*(each for each in stale if ctx.exclusive(each, event)), event]
    return stale


def _is_replaced(module: Value, owner: Value, change: _Change, ctx: Context) -> bool:
    """Whether a module is the part of a model that another takes the place of, or in it, and not in the new one."""
    event = change.event
    if not isinstance(event, AttributeAssigned) or change.part is None or ctx.reaches(change.part, module):
        return False
    before = (each for each in ctx.all_of(AttributeAssigned) if each.attribute == event.attribute)
    earlier = (each for each in before if ctx.position(each) < ctx.position(event) and ctx.is_same(each.target, owner))
    if any(ctx.is_part(module, each.value) for each in earlier):
        return True
    while isinstance(module, Symbol) and module.name in ("attribute", "item") and module.inputs:
        if module.name == "attribute" and module.detail == event.attribute and ctx.is_same(module.inputs[0], owner):
            return True
        module = module.inputs[0]
    return False


def _steps_made_by(maker: OptimizerCreated, ctx: Context) -> list[OptimizerStep]:
    return [step for step in ctx.steps() if ctx.is_same(step.optimizer, maker.optimizer)]


def _assumed_of(maker: OptimizerCreated, change: _Change, ctx: Context) -> Iterator[Assumption]:
    """That an optimizer is used, and given parameters of the model, where calls that are not seen decide it."""
    optimizer = ctx.called(maker.optimizer, "optimizer")
    if ctx.steps() and not _steps_made_by(maker, ctx):
        yield Assumption("effect", f"{optimizer} is the one that takes the steps")
    known = judge(ctx.options_of(change.model), lambda option: not _is_handed_on(option.value), maker.guards)
    if known is None or _is_handed_on(maker.parameters):
        yield Assumption("opaque", f"{optimizer} gets the parameters of the model that is changed")
    else:
        yield from known[1]


def _is_handed_on(value: Value | None) -> bool:
    """Whether something is what an unresolved call has made of a model or of its parameters."""
    if not isinstance(value, Symbol) or (value.name != "call" and not value.name.startswith(".")):
        return False
    given = value.inputs[1:]
    return any(isinstance(each, Instance) or getattr(each, "name", "") == "parameters" for each in given)


# --------------------------------------------------------------------------------------------------------- the fix


def _changed_before(change: _Change, maker: OptimizerCreated) -> Edits:
    """Move the change before the optimizer, if that is in its block."""
    target = beside(change.event.site, [maker.site])
    return move_before(change.event.site, target) if target is not None else Edits()
