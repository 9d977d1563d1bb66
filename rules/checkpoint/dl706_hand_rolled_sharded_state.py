"""A sharded checkpoint by hand: the state of an optimizer that is read into nothing, and calls that torch deprecates.

`torch.distributed.checkpoint.load` fills the tensors of the dict that it is given. The `state_dict()` of an optimizer
that has taken no step has none: nothing is read, and the optimizer begins with moments of 0. `get_state_dict` makes
them first, and `set_state_dict` takes up the rest.

Measured on torch 2.13 (2 ranks, AdamW saved after 3 steps): with `optimizer.state_dict()` the optimizer has no state
after `dcp.load`, and counts step 1 next; with `get_state_dict` it has the moments and the step of 3.
`dcp.save_state_dict` and `dcp.load_state_dict` warn that they "will be removed in future versions", and so does
`FSDP.state_dict_type`, which is of FSDP 1 alone.

## Bad
    import torch.distributed.checkpoint as dcp

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.load(state, checkpoint_id="last")
    model.load_state_dict(state["model"])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id="last")
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
States that the optimizer loads afterwards, or that code which is not seen gets; optimizers that have taken a step
before, whose tensors are filled in place; objects with a `state_dict` of their own, which load it themselves.
Deprecated calls where torch before 2.2 may run, which has no others, beside a call of what takes their place, and with
`no_dist`.

## On real code
656 public repositories, of which one writes sharded checkpoints: 9 notes in one of its files, all true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Part, Program, Rule, Site, Symbol, Value

_DCP = "torch.distributed.checkpoint."
_LOADS = (f"{_DCP}load", f"{_DCP}load_state_dict")
_SETS = (f"{_DCP}state_dict.set_state_dict", f"{_DCP}state_dict.set_optimizer_state_dict")
_FSDP = "torch.distributed.fsdp.FullyShardedDataParallel."
_STATES = f"{_DCP}state_dict"
_OF_TYPE = (f"{_STATES}.get_state_dict", f"{_STATES}.get_model_state_dict", f"{_STATES}.get_optimizer_state_dict")
_NEWER = {
    f"{_DCP}save_state_dict": (f"{_DCP}save",),
    f"{_DCP}load_state_dict": (f"{_DCP}load",),
    f"{_FSDP}state_dict_type": _OF_TYPE,
    f"{_FSDP}set_state_dict_type": _OF_TYPE,
}


def written_for_old_torch(place: Site, name: str, ctx: Context) -> bool:
    """before torch 2.2 there is nothing else to call"""
    return ctx.runs_before("torch", "2.2")


def called_beside_its_successor(place: Site, name: str, ctx: Context) -> bool:
    """the file also calls what takes its place: it chooses by the version"""
    return any(ctx.uses_of(_NEWER[name]))


def without_processes(place: Site, name: str, ctx: Context) -> bool:
    """it is called without processes (`no_dist`), for which there was no other for long"""
    call = place.node
    return isinstance(call, ast.Call) and any(keyword.arg == "no_dist" for keyword in call.keywords)


class HandRolledShardedState(Rule):
    code = "DL706"
    name = "hand-rolled-sharded-state"
    category = "suspicious"
    severity = "info"
    triggers = (
        ("load", "load_state_dict", "save_state_dict", "state_dict_type", "set_state_dict_type"),
        ("checkpoint", "FullyShardedDataParallel"),
    )
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",)

    excuses = (without_processes, written_for_old_torch, called_beside_its_successor)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        for event in ctx.all_of(LibraryCall):
            lost = _lost(event, ctx) if event.name in _LOADS else None
            if lost is not None:
                reported.add(id(event.site.node))
                yield self._report_lost(*lost, event, ctx)
        for place, name in ctx.uses_of(_NEWER) if program.kind == "module" else ():
            is_new = isinstance(place.node, ast.Call) and id(place.node) not in reported
            if is_new and not ctx.excused(self, place, name):
                yield self._report_deprecated(place, name, ctx)

    def _report_lost(self, part: Part, optimizer: Value, event: LibraryCall, ctx: Context) -> Finding:
        place = part.value.site or event.site
        return ctx.finding(
            self,
            event,
            f"nothing is read for {ctx.called(optimizer, 'optimizer')}: it has taken no step, and its state is empty",
            on=[part.given, optimizer],
            effect="training goes on with moments of 0, and counts its steps from 0",
            help="take the state by `get_state_dict(model, optimizer)`, and hand it to `set_state_dict` afterwards",
            trace=[(place, "the state is taken, without a tensor"), (event.site, "and is to be filled here")],
            severity="warning",
        )

    def _report_deprecated(self, place: Site, name: str, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"`{name.rpartition('.')[2]}` is deprecated",
            effect="it warns at each call, and goes with a later torch",
            help=f"call `{_NEWER[name][0]}`",
        )


def _lost(event: LibraryCall, ctx: Context) -> tuple[Part, Value] | None:
    """The empty state of an optimizer, among what a call is to fill, that nobody takes up; and the optimizer."""
    for part in ctx.checkpoints.parts(event.arguments.get(0, "state_dict")):
        state = part.value
        owner = state.inputs[0] if isinstance(state, Symbol) and state.name == "state_dict" and state.inputs else None
        if owner is not None and ctx.role(owner) == "optimizer" and not _is_taken_up(owner, event, ctx):
            return part, owner
    return None


def _is_taken_up(optimizer: Value, event: LibraryCall, ctx: Context) -> bool:
    """Whether an optimizer has stepped before, never steps, or is handed a state in another way."""
    steps = [step for step in ctx.steps() if ctx.is_same(step.optimizer, optimizer)]
    setting = [call for name in _SETS for call in ctx.library_calls(name)]
    is_set = any(ctx.reaches(given, optimizer) for call in setting for given in call.arguments.all())
    return is_set or ctx.is_restored(optimizer) or not ctx.checkpoints.is_before_training(event, steps)
