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
Changes after which the optimizer is built again or gets the new parameters (`add_param_group`), changes after the
training, moves between devices and dtypes, new parts without parameters (`nn.Identity()`), and models whose optimizer
is not seen.

## Fix (unsafe)
Moves the change in front of the optimizer, where both stand in one block. Unsafe because what lies between them may
rely on the order, and because it changes training, as it should.

## On real code
742 public repositories: 5 findings in 3 of them. Four are true: the last layer of a classifier is replaced behind its
optimizer, and layers are made when training mode is set. One is false: a framework that shards the model gives the
optimizer the new parameters out of sight. Moves behind the optimizer, which are harmless, are reported if the rule is
selected by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dllint.api import (
    AttributeAssigned,
    Backward,
    Context,
    Event,
    Finding,
    Fix,
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
    flatten,
    move_before,
    offer,
    statement_around,
)

_REPLACING = {
    "torch.distributed.fsdp.fully_shard": "sharded",
    "torch.distributed.fsdp.FullyShardedDataParallel": "sharded",
    "peft.get_peft_model": "given adapters",
    "torch.nn.utils.weight_norm": "reparametrised",
    "torch.nn.utils.parametrizations.weight_norm": "reparametrised",
}
_MOVES = frozenset(("to", "cuda", "cpu", "half", "float", "double", "bfloat16"))
_WITHOUT_PARAMETERS = re.compile(
    r"\.(Identity|Flatten|Unflatten|Upsample|Softmax\w*|LogSoftmax|Sigmoid|Tanh|\w*Dropout\w*|\w*Pool\w*|\w*Loss|\w*Pad\w*d"
    r"|(Leaky|Soft|Log|Hard)?(ReLU6?|[GSCE]+LU|Mish|Hardswish|Hardsigmoid|Hardtanh|Softplus|Softsign|Threshold))$"
)
_AVERAGED = re.compile(r"(^|_)(momentum|ema|target|teacher|average|averaged|old|frozen)(_|\d|$)")  # follow the model
_DEFERRED = re.compile(r"(^|_|:)(delay|defer|postpone)", re.IGNORECASE)
_FREEZING = re.compile(r"freez|deactivat|requires_?grad|no_?grad", re.IGNORECASE)
_CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")


@dataclass(frozen=True, slots=True)
class _Change:
    """What happens to a model, in words. ``harmless`` changes keep the parameters."""

    event: Event
    model: Value
    text: str
    harmless: bool = False


class OptimizerBeforeParametersChange(Rule):
    code = "DL306"
    name = "optimizer-before-parameters-change"
    category = "correctness"
    severity = "error"
    triggers = (("parameters", "named_parameters"), ("optim", "Optimizer", "SGD", "Adam", "AdamW"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        created: list[OptimizerCreated | ParametersAdded] = [*ctx.all_of(OptimizerCreated)]
        created += ctx.all_of(ParametersAdded)
        if not created:
            return
        order = {id(event): index for index, event in enumerate(ctx.events)}
        created.sort(key=lambda event: order[id(event)])
        reported: set[tuple[int, str]] = set()
        for event in ctx.events[order[id(created[0])] :]:
            change = _change(event, ctx)
            maker = _stale_optimizer(change, created, order, ctx) if change is not None else None
            if change is None or maker is None or not _trains_after(change, maker, order, ctx):
                continue
            key = (id(maker), ctx.scope(event.site))
            if key not in reported:  # one finding for all parts that are replaced together
                reported.add(key)
                yield self._report(change, maker, ctx)

    def _report(self, change: _Change, maker: OptimizerCreated, ctx: Context) -> Finding:
        name = ctx.name_of(maker.optimizer) or "the optimizer"
        site = change.event.site
        return ctx.finding(
            self,
            site,
            f"the model is {change.text} after `{name}` was built from its parameters",
            effect="harmless on CPU and CUDA, where parameters are changed in place"
            if change.harmless
            else "the new parameters are in no optimizer and are never trained",
            help=f"build `{name}` after this",
            trace=[(maker.site, "the optimizer takes the parameters"), (site, "and then they change")],
            fixes=_fix(change, maker),
            severity="info" if change.harmless else None,
            assuming=assumed_under(change.event.guards),
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
    elif isinstance(event, AttributeAssigned) and _is_new_part(event.value, ctx) and not _is_constructed(event):
        if _AVERAGED.search(event.attribute) or _is_swapped(event) or _is_frozen(event.value, ctx):
            return None
        return _Change(event, event.target, f"given a new `{event.attribute}`")
    return None


def _is_swapped(event: AttributeAssigned) -> bool:
    """Whether a part that something else keeps is put in, as an average for the time of an evaluation."""
    statement = statement_around(event.site)
    if not isinstance(statement, ast.Assign):
        return False
    function: Any = event.frame.definition.node if event.frame.definition is not None else None
    arguments = getattr(function, "args", None)
    given = {each.arg for each in (*arguments.args, *arguments.kwonlyargs)} if arguments is not None else set()
    return isinstance(statement.value, ast.Attribute) or getattr(statement.value, "id", "") in given


def _is_frozen(part: Value, ctx: Context) -> bool:
    """Whether a new part goes into a helper that freezes it by its name: then no optimizer has to train it."""
    return any(
        isinstance(event, OpaqueCall) and _FREEZING.search(event.name) and ctx.opaque_to(event, part)
        for event in ctx.events
    )


def _is_constructed(event: AttributeAssigned) -> bool:
    """Whether an attribute is set by the constructor of the object itself, which is then new, and changes nothing."""
    return any(frame.function == "__init__" and frame.receiver is event.target for frame in event.frame.stack())


def _is_new_part(value: Value, ctx: Context) -> bool:
    """Whether a value is a module or parameter made for the purpose (not a wrapper of something that was there)."""
    options = [option for _, option in alternatives(value)]
    return bool(options) and all(_is_made(option, ctx) and _has_parameters(option) for option in options)


def _is_made(value: Value, ctx: Context) -> bool:
    if isinstance(value, Instance):
        return ctx.role(value) == "module" or value.library_name == "torch.nn.Parameter"
    return isinstance(value, Symbol) and value.name == "torch.nn.Parameter"


def _has_parameters(value: Value) -> bool:
    """Whether a new part has something to train; what is not known may have."""
    if not isinstance(value, Instance):
        return True
    if value.library_name in _CONTAINERS:
        parts = [part for given in value.arguments.all() for part in flatten(given)]
        is_empty = value.arguments.exact and "<items>" not in value.attributes  # a placeholder, as for swapped blocks
        return any(_has_parameters(part) for part in parts) if parts else not is_empty
    return not _WITHOUT_PARAMETERS.search(value.library_name)


# ------------------------------------------------------------------------------------------- when, and for whom


def _stale_optimizer(
    change: _Change, created: list[OptimizerCreated | ParametersAdded], order: dict[int, int], ctx: Context
) -> OptimizerCreated | None:
    """The optimizer that was given the model's parameters before the change, and not again after it."""
    stale: OptimizerCreated | None = None
    owners = ctx.objects(change.model)
    is_owned = (
        ctx.is_same if change.harmless else ctx.is_part
    )  # tensors are moved, too: only a whole model is told apart
    for event in created:
        modules, _ = ctx.modules_in(event.parameters)
        if not any(ctx.reaches(m, owner) or ctx.reaches(owner, m) for owner in owners for m in modules):
            continue
        if order[id(event)] > order[id(change.event)]:
            return None
        if isinstance(event, OptimizerCreated) and any(is_owned(owner, m) for owner in owners for m in modules):
            stale = None if _is_deferred(event) else event
    return stale


def _is_deferred(event: OptimizerCreated) -> bool:
    """Whether a flag puts off the creation where it would come too early (``if not delay_optimizer_creation``)."""
    return any(guard.holds is False and _DEFERRED.search(guard.subject) for guard in event.guards)


def _trains_after(change: _Change, maker: OptimizerCreated, order: dict[int, int], ctx: Context) -> bool:
    """Whether the optimizer steps after the change, or in a loop around it; where no step is seen, what is trained."""
    steps = [event for event in ctx.all_of(OptimizerStep) if ctx.is_same(event.optimizer, maker.optimizer)]
    loops = ctx.loops_around(change.event)
    if steps:
        return any(
            order[id(step)] > order[id(change.event)] or any(loop in loops for loop in ctx.loops_around(step))
            for step in steps
        )
    return any(isinstance(event, Backward) for event in ctx.events[order[id(change.event)] :])


# --------------------------------------------------------------------------------------------------------- the fix


def _fix(change: _Change, maker: OptimizerCreated) -> list[Fix]:
    """Move the change in front of the optimizer, if that is in its block."""
    target = beside(change.event.site, [maker.site])
    edits = move_before(change.event.site, target) if target is not None else ()
    return offer("Change the model before the optimizer is built", edits, "unsafe", of=maker.site, at=change.event.site)
