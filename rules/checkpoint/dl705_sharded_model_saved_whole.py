"""A model that is sharded over devices, and is saved as if each rank had all of it.

After `fully_shard`, the parameters are `DTensor`s, and each rank has a shard. `torch.save(model.state_dict(), path)`
returns without an error and writes the shard of the rank that calls it: what the other ranks have is in no file. FSDP
of the first kind gathers everything, by default on the GPU of every rank.

Measured on torch 2.13 (2 ranks, a matrix of 4 x 4): the file that rank 0 writes has a `DTensor` of which 2 x 4 numbers
are there.

## Bad
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    train(model, loader, optimizer)
    torch.save(model.state_dict(), "model.pt")

## Good
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    train(model, loader, optimizer)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    torch.save(state, "model.pt")

## Not reported
States that are gathered (`full_tensor`, `get_model_state_dict`) or written by `torch.distributed.checkpoint`; files
with a rank in their name; code that saves only where the model is not sharded. A whole state dict on every GPU is a
note, and none where it is only loaded.

## On real code
135 public repositories: no finding, and one more that shards models in 6 files: it gathers them before they are saved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    External,
    Finding,
    Instance,
    LibraryCall,
    ModelChanged,
    Program,
    Rule,
    Saved,
    StateTaken,
    Symbol,
    Value,
    path_texts,
)

_FSDP = "torch.distributed.fsdp."
_SHARDS = f"{_FSDP}fully_shard"
_TYPES = frozenset(f"{_FSDP}FullyShardedDataParallel.{name}" for name in ("state_dict_type", "set_state_dict_type"))


def of_each_rank(change: ModelChanged, saved: Saved, ctx: Context) -> bool:
    """each rank writes a file of its own, by its name"""
    return ctx.speaks_of("rank", *path_texts(saved.event.path))


def sharded_otherwise(change: ModelChanged, saved: Saved, ctx: Context) -> bool:
    """the model is sharded only where this is not saved"""
    return ctx.exclusive(change, saved.event) or ctx.position(change) > ctx.position(saved.event)


class ShardedModelSavedWhole(Rule):
    code = "DL705"
    name = "sharded-model-saved-whole"
    category = "correctness"
    severity = "error"
    triggers = (("save", "state_dict"), ("fully_shard", "FULL_STATE_DICT"))
    references = ("https://docs.pytorch.org/docs/stable/distributed.checkpoint.html",)

    excuses = (of_each_rank, sharded_otherwise)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        changes = [each for each in ctx.all_of(ModelChanged) if each.action == _SHARDS]
        for saved in ctx.checkpoints.saved if changes else ():
            for part in saved.parts:
                state = part.value
                if saved.event.function != "torch.save" or not isinstance(state, Symbol) or state.name != "state_dict":
                    continue
                mine = [each for each in changes if ctx.is_same(each.model, state.inputs[0])]
                if mine and not ctx.excused(self, mine[-1], saved):
                    yield self._report(mine[-1], saved, part.given, state.inputs[0], ctx)
                    return

    def _report(self, change: ModelChanged, saved: Saved, state: Value, model: Value, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            saved.event,
            "each rank saves only its own shard of this model",
            on=[change, state, model],
            effect="the file has the part of the model that one rank has, and what is lost is found when it is loaded",
            help="gather it on all ranks: `get_model_state_dict` with `StateDictOptions(full_state_dict=True)`",
            trace=[(change.site, "the model is sharded here"), (saved.event.site, "and is saved by `torch.save`")],
        )

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        kind = event.arguments.get(1, "state_dict_type")
        if event.name not in _TYPES or not isinstance(kind, External) or not kind.name.endswith(".FULL_STATE_DICT"):
            return
        if not _gathers_everywhere(event.arguments.get(2, "state_dict_config"), ctx) or not _is_taken(event, ctx):
            return
        yield ctx.finding(
            self,
            event,
            "every rank gathers the whole model on its GPU",
            effect="a model that is sharded because it does not fit runs out of memory when it is saved",
            help="pass `FullStateDictConfig(offload_to_cpu=True, rank0_only=True)`",
            severity="info",
        )


def _gathers_everywhere(config: Value | None, ctx: Context) -> bool:
    """Whether a configuration keeps what is gathered on the GPUs of all ranks, as none does."""
    if config is None:
        return True
    if not isinstance(config, Instance) or not config.library_name.endswith(".FullStateDictConfig"):
        return False
    first, second = config.arguments.get(0, "offload_to_cpu"), config.arguments.get(1, "rank0_only")
    return config.arguments.exact and all(each is None or ctx.constant(each) is False for each in (first, second))


def _is_taken(event: LibraryCall, ctx: Context) -> bool:
    """Whether a state dict of the model is taken under a setting: in its `with`, or after it in the same function."""
    model = event.arguments.get(0, "module")
    around = next(iter(ctx.ancestors(event.site, ast.With)), None)
    for taken in ctx.all_of(StateTaken):
        is_inside = around is not None and any(each is around for each in ctx.ancestors(taken.site, ast.With))
        is_later = around is None and ctx.position(taken) > ctx.position(event) and taken.frame is event.frame
        if model is not None and ctx.is_same(taken.target, model) and (is_inside or is_later):
            return True
    return False
