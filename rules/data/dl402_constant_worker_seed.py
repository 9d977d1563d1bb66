"""Random generators of loader workers that are seeded with the same number again and again.

A `DataLoader` seeds `random`, `torch` and (since torch 1.9) `numpy` in each worker and each epoch with a fresh number.
A `worker_init_fn` that seeds them with a constant takes that away: all workers draw the same numbers, and each epoch
draws those of the epoch before. With `constant + worker_id` the workers differ, the epochs do not.

Measured on torch 2.13 with 2 workers: with `seed(CONST)` the draws are identical in both workers and in every epoch;
with `seed(CONST + worker_id)` in every epoch. So it is with `np.random.get_state()[1][0] + worker_id`, the popular fix
for torch before 1.9: today that state is the constant 2147483648, whatever the seed of the run. The same happens to
the order of the data and to the augmentations when `torch.manual_seed(CONST)` is called in each epoch, and to each
single sample when `__getitem__` seeds the generator or is wrapped in `lru_cache`.

## Bad
    def init(worker_id):
        np.random.seed(42 + worker_id)

    loader = DataLoader(train_set, shuffle=True, num_workers=4, worker_init_fn=init)

## Good
    loader = DataLoader(train_set, shuffle=True, num_workers=4)

## Not reported
Seeds that come from `torch.initial_seed()`, `get_worker_info()`, the time, an epoch or anything else that is not
known, loaders for evaluation (there it is wanted), loaders that are gone over only once, loaders without workers, and
with `persistent_workers=True` seeds that differ between the workers. Seeds of torch's generator alone, of which DL403
speaks. Seeds of a generator that the samples do not use are reported only if the rule is selected by name. Seeds in
one epoch (`if epoch == 0:`), within `fork_rng`, and where the state is set back afterwards, or seeded anew before the
training goes on. Seeds of an attribute that methods set after the object is made (`self.count += 1`, or in
`set_epoch`).

## Fix (unsafe)
Passes `worker_init_fn=None`, takes the seeding out of `__getitem__`, or moves it in front of the loop over the epochs.
Unsafe because the run draws other random numbers, as it should.

## On real code
742 public repositories: 20 findings in 19 of them, all true: the popular fix for torch before 1.9, and a seed plus the
rank. Seeds of a generator that the samples do not use are shown if the rule is selected by name. Of 4 in unread ones 1
was true, 2 false (a seed that is counted on, and one that only the validation has) and 1 doubtful, of a loader of
which a single batch is looked at: where no second epoch comes, nothing is said since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    Function,
    LoaderCreated,
    Loop,
    Program,
    Randomness,
    RandomSeeded,
    Rule,
    Value,
    Workers,
    WorkerSeed,
    move_before,
    remove,
    set_argument,
)

_ORDERING = frozenset(
    ("torch.manual_seed", "lightning.pytorch.seed_everything", "lightning.seed_everything", "transformers.set_seed",
     "accelerate.utils.set_seed")
)  # fmt: skip

_SETTING_BACK = ("setstate", "set_state", "set_rng_state", "set_rng_state_all")


def seeds_once(event: RandomSeeded, seed: WorkerSeed, workers: Workers, loader: LoaderCreated, ctx: Context) -> bool:
    """persistent workers are seeded only once, each with another seed"""
    return workers.is_persistent and seed.differs


def seeds_by_state_of_old(
    event: RandomSeeded, seed: WorkerSeed, workers: Workers, loader: LoaderCreated, ctx: Context
) -> bool:
    """before torch 1.9 numpy's state differs from epoch to epoch"""
    return seed.is_of_numpy_state and ctx.runs_before("torch", "1.9")


def is_gone_over_once(
    event: RandomSeeded, seed: WorkerSeed, workers: Workers, loader: LoaderCreated, ctx: Context
) -> bool:
    """the loader is gone over only once: no epoch comes that could draw the same, or nothing is trained"""
    passes = [each for each in ctx.data.passes if any(one is loader.loader for one in each.loaders)]
    is_once = bool(passes) and not any(each.outer for each in passes)
    return is_once and (seed.differs or not any(each.trains for each in passes))


class ConstantWorkerSeed(Rule):
    code = "DL402"
    name = "constant-worker-seed"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("worker_init_fn", "manual_seed", "seed", "seed_everything", "set_seed"), ("DataLoader", "loader"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",)

    excuses = (seeds_once, seeds_by_state_of_old, is_gone_over_once)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            if ctx.data.part_of_loader(event) == "eval":
                continue
            drawn = ctx.data.randomness(event)
            workers = ctx.data.workers(event)
            if workers is not None:
                yield from self._in_workers(event, workers, drawn, ctx)
            yield from self._in_samples(event, drawn, ctx)
        for batches in ctx.data.passes:
            if batches.trains and batches.outer:
                yield from self._in_epochs(batches.outer[0], batches.loop, ctx)

    def _in_workers(
        self, loader: LoaderCreated, workers: Workers, drawn: Randomness, ctx: Context
    ) -> Iterator[Finding]:
        for seeds in ctx.repeated_worker_seeds(loader):
            used = any(_concerns(seed.event, drawn) for seed in seeds)
            others = [seed for seed in seeds if not seed.event.function.startswith("torch.")]  # DL403 speaks of torch
            for seed in others:
                if not ctx.excused(self, seed.event, seed, workers, loader):
                    yield self._report_workers(seed, loader, workers, drawn, used, ctx)
                    break

    def _report_workers(
        self, seed: WorkerSeed, loader: LoaderCreated, workers: Workers, drawn: Randomness, used: bool, ctx: Context
    ) -> Finding:
        """``used`` tells whether the samples are known to draw from a generator that is seeded."""
        is_idle = drawn.is_known and not used
        how = "alike in every epoch" if seed.differs else "with a constant"
        effects = [] if seed.differs else ["all workers draw the same random numbers"]
        if not workers.is_persistent:
            effects.append("each epoch draws the same random numbers as the one before")
        if seed.is_of_numpy_state:
            effects[-1] += ": `get_state()[1][0]` is a constant since torch 1.9"
        if is_idle:
            effects = [
                "none yet, as the samples do not draw from it: one that does gets the same numbers in every epoch"
            ]
        return ctx.finding(
            self,
            seed.event,
            f"`{seed.event.function}` seeds the workers {how}",
            on=[workers, workers.value, *seed.parts, loader.loader, loader.dataset],
            assuming=[
                *seed.assumptions,
                *_assumed_to_draw(used or is_idle),
                *(ctx.assumed_version("torch", "1.9") if seed.is_of_numpy_state else ()),
                *ctx.assumed_batches(loader.loader),
            ],
            effect=", and ".join(effects),
            help="drop the `worker_init_fn`: the loader seeds each worker in each epoch itself (torch 1.9 and later)",
            trace=[(loader.site, "the workers of this loader"), (seed.event.site, "are seeded here")],
            fix=("Let the loader seed its workers", set_argument(loader.site, "worker_init_fn", "None")),
            severity=None if seed.differs else "error",
            pedantic=is_idle,
        )

    def _in_samples(self, loader: LoaderCreated, drawn: Randomness, ctx: Context) -> Iterator[Finding]:
        """``seed(CONST)`` in ``__getitem__``, or a cache around it."""
        for dataset in ctx.data.datasets(loader.dataset):
            get_item = ctx.member(dataset, "__getitem__")
            if get_item is None:
                continue
            if drawn.is_known and drawn.families and _is_cached(get_item):
                yield self._report_cache(get_item, loader, ctx)
            for event in ctx.data.fetching(dataset):
                if isinstance(event, RandomSeeded) and event.seed is not None and not event.guards:
                    if _has_state_set_after(event, ctx):
                        continue
                    used = _concerns(event, drawn)
                    parts = ctx.fixed_parts(event.seed) if used or not drawn.is_known else None
                    if parts is not None and not any(ctx.is_fixed_by_name(part) for part in parts):
                        yield self._report_sample(event, parts, loader, used, ctx)

    def _report_sample(
        self, event: RandomSeeded, parts: list[Value], loader: LoaderCreated, used: bool, ctx: Context
    ) -> Finding:
        return ctx.finding(
            self,
            event,
            f"`{event.function}` starts every sample from the same seed",
            effect="every sample of every epoch draws the same random numbers: the augmentation is always the same",
            on=[*parts, loader.loader, loader.dataset],
            assuming=[*_assumed_to_draw(used), *ctx.assumed_batches(loader.loader)],
            help="drop the call: the loader seeds each worker in each epoch itself (torch 1.9 and later)",
            trace=[(loader.site, "this loader fetches samples"), (event.site, "and each one seeds the generator")],
            fix=("Do not seed here", remove(event.site)),
            severity="error",
        )

    def _report_cache(self, get_item: Function, loader: LoaderCreated, ctx: Context) -> Finding:
        place = get_item.site
        assert place is not None
        return ctx.finding(
            self,
            place,
            "the samples are cached after they were augmented at random",
            on=[loader.loader, loader.dataset],
            assuming=ctx.assumed_batches(loader.loader),
            effect="each sample keeps its first augmentation for the rest of the run",
            help="cache what is read from disk, and augment it afterwards",
            trace=[(loader.site, "this loader fetches samples"), (place, "which are kept as they came first")],
        )

    def _in_epochs(self, loop: Loop, batches: Loop, ctx: Context) -> Iterator[Finding]:
        """``torch.manual_seed(CONST)`` in the loop over the epochs, outside the loop over the batches."""
        if ctx.is_of_runs(loop):
            return
        for event in ctx.all_of(RandomSeeded):
            if event.seed is None or not _is_direct(event, loop):
                continue
            around = ctx.loops_around(event)
            if loop not in around or batches in around or event.function not in _ORDERING:
                continue
            if ctx.happens_once(event, loop) or self._is_for_the_rest(event, loop, batches, ctx):
                continue
            if "fork_rng" in event.contexts or _has_state_set_after(event, ctx):
                continue
            parts = ctx.fixed_parts(event.seed)
            if parts is not None and not any(ctx.is_fixed_by_name(part) for part in parts):
                yield self._report_epoch(event, parts, loop, ctx)

    def _is_for_the_rest(self, event: RandomSeeded, loop: Loop, batches: Loop, ctx: Context) -> bool:
        """Whether training begins with another seed in each epoch, and this one is for what comes before that."""
        first = min((ctx.position(step) for step in ctx.steps() if batches in ctx.loops_around(step)), default=0)
        own = ctx.position(event)
        anew = [
            ctx.position(each)
            for each in ctx.all_of(RandomSeeded)
            if each.function == event.function and loop in ctx.loops_around(each) and each.seed is not None
            if ctx.fixed_parts(each.seed) is None
        ]
        if own < first:
            return any(own < at < first for at in anew)
        return any(at < first or at > own for at in anew)

    def _report_epoch(self, event: RandomSeeded, parts: list[Value], loop: Loop, ctx: Context) -> Finding:
        is_movable = event.frame is loop.frame
        return ctx.finding(
            self,
            event,
            f"`{event.function}` starts every epoch from the same seed",
            on=parts,
            effect="each epoch sees the data in the same order, with the same augmentations and the same dropout",
            help="seed once, before the loop",
            trace=[(loop.site, "in each iteration of this loop"), (event.site, "the generator is seeded alike")],
            fix=("Seed once, before the loop", move_before(event.site, loop.site) if is_movable else Edits()),
        )


def _concerns(event: RandomSeeded, drawn: Randomness) -> bool:
    """Whether what is seeded is drawn from; helpers seed all generators."""
    library = event.function.partition(".")[0]
    return library in drawn.families if library in ("torch", "numpy", "random") else bool(drawn.families)


def _assumed_to_draw(used: bool) -> list[Assumption]:
    return [] if used else [Assumption("effect", "the dataset draws from the seeded generator")]


def _has_state_set_after(event: RandomSeeded, ctx: Context) -> bool:
    """Whether the function that seeds a generator sets its state afterwards, as to what it was before."""
    calls = [call for name in _SETTING_BACK for call in ctx.method_calls(name)]
    scope, module, line = ctx.scope(event.site), event.site.module, event.site.line
    return any(call.module is module and call.line > line and ctx.scope(call) == scope for call in calls)


def _is_cached(function: Function) -> bool:
    """Whether ``lru_cache`` or ``cache`` decorates a function."""
    for decorator in getattr(function.node, "decorator_list", ()):
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
        if name in ("lru_cache", "cache"):
            return True
    return False


def _is_direct(event: RandomSeeded, loop: Loop) -> bool:
    """Whether the seeding stands in the loop itself, or in a function called there that is named after it."""
    frame = event.frame
    return frame is loop.frame or (frame.caller is loop.frame and "seed" in frame.function)
