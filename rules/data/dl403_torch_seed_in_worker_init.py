"""The torch generator of loader workers, seeded with the same number again and again.

A `DataLoader` seeds torch in each worker with a number of its own, which is a fresh one in each epoch. A call of
`torch.manual_seed(CONST)` in the `worker_init_fn` takes that away: the transforms of torchvision draw the same crops in
all workers, and in each epoch those of the one before. With `CONST + worker_id` the workers differ, the epochs do not.

Measured on torch 2.13 (2 workers, 2 epochs of 8 samples that draw one number each): 4 distinct numbers of 16 with a
constant, 8 with a constant plus the worker, 16 without the call. Numbers of numpy stay distinct.

## Bad
    def init(worker_id):
        torch.manual_seed(42)

    loader = DataLoader(train_set, shuffle=True, num_workers=4, worker_init_fn=init)

## Good
    def init(worker_id):
        np.random.seed(torch.initial_seed() % 2**32)

    loader = DataLoader(train_set, shuffle=True, num_workers=4, worker_init_fn=init)

## Not reported
Workers whose other generators are seeded alike as well (DL402); seeds that come from `torch.initial_seed()`,
`get_worker_info()`, the time, an epoch or anything else that is not known; loaders for evaluation or without workers;
with `persistent_workers=True` seeds that differ between the workers. Where the samples draw nothing from torch, it is
reported only if the rule is selected by name.

## Fix (unsafe)
Takes the call out, or passes `worker_init_fn=None` where it is all of a lambda. Unsafe because the run draws other
random numbers, as it should.

## On real code
656 public repositories: no finding, and 1 question, which is true: `torch.manual_seed(opt.seed)`, with samples that
could not be followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    LoaderCreated,
    Program,
    Rule,
    Workers,
    WorkerSeed,
    remove,
    set_argument,
    statement_around,
)


def lives_on(seed: WorkerSeed, workers: Workers, ctx: Context) -> bool:
    """persistent workers are seeded only once, and each otherwise"""
    return workers.is_persistent and seed.differs


def seeded_by_numpy_of_old(seed: WorkerSeed, workers: Workers, ctx: Context) -> bool:
    """before torch 1.9 the state of numpy that it is seeded with differs from epoch to epoch"""
    return seed.is_of_numpy_state and ctx.runs_before("torch", "1.9")


class TorchSeedInWorkerInit(Rule):
    code = "DL403"
    name = "torch-seed-in-worker-init"
    category = "correctness"
    severity = "warning"
    triggers = (("worker_init_fn",), ("manual_seed",), ("DataLoader", "loader"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",)

    excuses = (lives_on, seeded_by_numpy_of_old)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for loader in ctx.data.loaders:
            workers = ctx.data.workers(loader)
            if workers is None or ctx.data.part_of_loader(loader) == "eval":
                continue
            for seeds in ctx.repeated_worker_seeds(loader):
                if any(not seed.event.function.startswith("torch.") for seed in seeds):
                    continue  # DL402
                for seed in seeds:
                    if seed.event.function == "torch.manual_seed" and not ctx.excused(self, seed, workers):
                        yield self._report(seed, loader, workers, ctx)

    def _report(self, seed: WorkerSeed, loader: LoaderCreated, workers: Workers, ctx: Context) -> Finding:
        drawn = ctx.data.randomness(loader)
        is_used = "torch" in drawn.families
        is_idle = drawn.is_known and not is_used
        doubt = [] if is_used or is_idle else [Assumption("effect", "the samples draw random numbers from torch")]
        if seed.is_of_numpy_state:
            doubt += ctx.assumed_version("torch", "1.9")
        effects = [] if seed.differs else ["all workers draw the same numbers from torch"]
        if not workers.is_persistent:
            effects.append("each epoch draws those of the one before")
        return ctx.finding(
            self,
            seed.event,
            f"torch is seeded {'alike in every epoch' if seed.differs else 'with a constant'} in the workers",
            on=[workers, workers.value, *seed.parts, loader.loader, loader.dataset],
            assuming=[*seed.assumptions, *doubt, *ctx.assumed_batches(loader.loader)],
            effect="none yet, as the samples draw nothing from torch" if is_idle else ", and ".join(effects),
            help="drop the call: the loader seeds torch in each worker and each epoch itself",
            trace=[(loader.site, "the workers of this loader"), (seed.event.site, "are seeded here")],
            fix=("Let the loader seed torch", _unseeded(seed, loader)),
            pedantic=is_idle,
        )


def _unseeded(seed: WorkerSeed, loader: LoaderCreated) -> Edits:
    """Take the seeding out: the statement, or the whole function where it is a lambda."""
    statement = statement_around(seed.event.site)
    is_alone = isinstance(statement, ast.Expr) and statement.value is seed.event.site.node
    return remove(seed.event.site) if is_alone else set_argument(loader.site, "worker_init_fn", "None")
