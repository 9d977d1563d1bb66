"""A sharded checkpoint that one rank alone writes: a call that needs all ranks, where only the first one comes.

`engine.save_checkpoint` of DeepSpeed, `torch.distributed.checkpoint.save` and the state dict of an FSDP model gather
what is spread over the ranks. Under `if rank == 0:` the first rank waits for the others, which go on, until the
watchdog ends the run after half an hour; or it writes its own shard, and the rest of the model is lost.

Measured on torch 2.13 (two processes, gloo, a group timeout of 10 s): `dcp.save` under `if rank == 0:` raises after the
timeout, and no checkpoint can be read; with the call on both ranks, it returns after a tenth of a second.

## Bad
    import deepspeed

    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=config)
    if dist.get_rank() == 0:
        engine.save_checkpoint("checkpoints")

## Good
    import deepspeed

    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=config)
    engine.save_checkpoint("checkpoints")
    if dist.get_rank() == 0:
        tokenizer.save_pretrained("checkpoints")

## Not reported
Conditions that are about more than the rank (`is_main_process or distributed_type == DEEPSPEED`); state dicts of
`DistributedDataParallel`, which every rank has whole. Accelerate's `save_state` needs all ranks only where the model is
sharded: there it is a question. So it is where a setting tells whether the model is FSDP's (`--wrap fsdp`), unless that
is its default.

## On real code
276 public repositories: no finding; few of them shard a model over devices.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Assumptions,
    Context,
    Event,
    Finding,
    Guard,
    Instance,
    LibraryCall,
    OpaqueCall,
    Rule,
    StateTaken,
    Symbol,
    Value,
    alternatives,
    assumed_under,
)

_DCP = "torch.distributed.checkpoint."
_FUNCTIONS = {
    *(f"{_DCP}{name}" for name in ("save", "load", "async_save", "save_state_dict", "load_state_dict")),
    *(f"{_DCP}state_dict.{name}" for name in ("get_model_state_dict", "get_optimizer_state_dict", "get_state_dict")),
}
_OF_ENGINE = ("save_checkpoint", "load_checkpoint", "save_16bit_model", "save_fp16_model")
_OF_ACCELERATOR = ("save_state", "load_state", "save_model", "get_state_dict")
_FIRST = frozenset(
    ("is_main_process", "is_local_main_process", "is_global_zero", "is_world_process_zero", "is_rank_zero", "is_rank_0",
     "is_master", "is_main", "main_process", "is_first_rank")
)  # fmt: skip
_SHARDED = "the model is sharded, by FSDP or DeepSpeed, when it is saved here"


class RankZeroCollectiveSave(Rule):
    code = "DL707"
    name = "rank-zero-collective-save"
    category = "correctness"
    severity = "error"
    triggers = (
        ("save", "load", "async_save", "save_state_dict", "load_state_dict", "get_model_state_dict", "state_dict",
         "get_optimizer_state_dict", "get_state_dict", "save_state", "load_state", "save_model", *_OF_ENGINE),
        ("deepspeed", "checkpoint", "fsdp", "FullyShardedDataParallel", "Accelerator"),
    )  # fmt: skip
    references = ("https://deepspeed.readthedocs.io/en/latest/model-checkpointing.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _FUNCTIONS:
            yield from self._check(event, f"`{event.name.rpartition('.')[2]}`", ctx)

    def on_opaque_call(self, event: OpaqueCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _OF_ENGINE and event.receiver is not None and _is_engine(event.receiver, ctx):
            yield from self._check(event, f"`{event.name}` of DeepSpeed", ctx)
        elif event.name in _OF_ACCELERATOR and ctx.class_name(event.receiver or Symbol("")) == "Accelerator":
            yield from self._check(event, f"`{event.name}`", ctx, (Assumption("effect", _SHARDED),))

    def on_state_taken(self, event: StateTaken, ctx: Context) -> Iterator[Finding]:
        possible = [each for each in alternatives(event.target) if ctx.consistent(each[0], event.guards)]
        sharded = [each for each in possible if _is_sharded(each[1], ctx)]
        if sharded:
            by_default = [each for each in sharded if all(guard.by_default for guard in each[0])]
            guards = (by_default or sharded)[0][0] if len(sharded) < len(possible) else ()
            yield from self._check(event, "the state dict of an FSDP model", ctx, assumed_under(guards))

    def _check(self, event: Event, what: str, ctx: Context, assuming: Assumptions = ()) -> Iterator[Finding]:
        guard = next((guard for guard in event.guards if _is_first_rank(guard, ctx)), None)
        if guard is None:
            return
        yield ctx.finding(
            self,
            event,
            f"{what} needs all ranks, and only the first one comes here",
            assuming=assuming,
            effect="it waits for the others until the run is ended, or saves its own shard",
            help=f"call it on all ranks, in front of `if {guard}`",
            trace=[*ctx.calls_to(event), (event.site, f"only where `{guard}`")],
        )


def _is_engine(receiver: Value, ctx: Context) -> bool:
    return any(isinstance(each, Symbol) and each.name == "deepspeed.initialize" for each in ctx.sources(receiver))


def _is_sharded(model: Value, ctx: Context) -> bool:
    return isinstance(model, Instance) and ctx.class_name(model) == "FullyShardedDataParallel"


def _is_first_rank(guard: Guard, ctx: Context) -> bool:
    """Whether a condition holds on the first rank, or the first of each machine, and on no other."""
    node = guard.node
    if guard.relation == "truthy":
        tested = node.func if isinstance(node, ast.Call) else node
        name = tested.attr if isinstance(tested, ast.Attribute) else getattr(tested, "id", "")
        return (guard.holds and name in _FIRST) or (not guard.holds and name.endswith("rank"))
    is_rank = guard.subject.removesuffix("()").endswith(("rank", "process_index"))
    if guard.relation == "==":
        return guard.holds and is_rank and guard.operand == 0
    if guard.relation == "in":
        return guard.holds and is_rank and "0" in str(guard.operand)
    return guard.relation in (">", ">=") and not guard.holds and is_rank
