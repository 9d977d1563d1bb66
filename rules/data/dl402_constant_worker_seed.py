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
Seeds that come from `torch.initial_seed()`, `get_worker_info()`, the time, an epoch or anything else that is not known,
loaders for evaluation (there it is wanted), loaders without workers, and with `persistent_workers=True` seeds that
differ between the workers. Seeds of a generator that the samples do not use are reported only if the rule is selected
by name.

## Fix (unsafe)
Passes `worker_init_fn=None`, takes the seeding out of `__getitem__`, or moves it in front of the loop over the epochs.
Unsafe because the run draws other random numbers, as it should.

## On real code
742 public repositories: 20 findings in 19 of them, all true: the popular fix for torch before 1.9, and a seed plus the
rank. Seeds of a generator that the samples do not use are shown if the rule is selected by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Assumptions,
    Choice,
    Const,
    Context,
    Edits,
    Finding,
    Function,
    Instance,
    LoaderCreated,
    Loop,
    Program,
    Randomness,
    RandomSeeded,
    Rule,
    Setting,
    Symbol,
    Value,
    Workers,
    alternatives,
    assumed_under,
    move_before,
    remove,
    set_argument,
)

_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**", "^", "|", "&", "<<", "int", "abs", "hash", "negative"))
_STATE = "numpy.random.get_state"
_ORDERING = frozenset(
    ("torch.manual_seed", "lightning.pytorch.seed_everything", "lightning.seed_everything", "transformers.set_seed",
     "accelerate.utils.set_seed")
)  # fmt: skip


def seeds_once(event: RandomSeeded, parts: list[Value], worker: Value, workers: Workers, ctx: Context) -> bool:
    """persistent workers are seeded only once, each with another seed"""
    return workers.is_persistent and any(part is worker for part in parts)


def seeds_by_state_of_old(
    event: RandomSeeded, parts: list[Value], worker: Value, workers: Workers, ctx: Context
) -> bool:
    """before torch 1.9 numpy's state differs from epoch to epoch"""
    return ctx.runs_before("torch", "1.9") and any(map(_is_constant_state, parts))


class ConstantWorkerSeed(Rule):
    code = "DL402"
    name = "constant-worker-seed"
    category = "correctness"
    severity = "warning"
    triggers = (("worker_init_fn", "manual_seed", "seed", "seed_everything", "set_seed"), ("DataLoader", "loader"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",)

    excuses = (seeds_once, seeds_by_state_of_old)

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
        worker = Symbol("parameter", site=loader.site, detail="worker_id")
        for guards, function in alternatives(loader.options.get("worker_init_fn") or Const(None)):
            seeds = [event for event in ctx.data.calling(function, worker) if isinstance(event, RandomSeeded)]
            used = any(_concerns(event, drawn) for event in seeds)
            for event in seeds:
                parts = _parts(event.seed, ctx) if event.seed is not None else None
                if parts is not None and not ctx.excused(self, event, parts, worker, workers):
                    given = assumed_under(guards)
                    yield self._report_workers(event, parts, worker, loader, workers, drawn, used, given, ctx)
                    break

    def _report_workers(
        self,
        event: RandomSeeded,
        parts: list[Value],
        worker: Value,
        loader: LoaderCreated,
        workers: Workers,
        drawn: Randomness,
        used: bool,
        given: Assumptions,
        ctx: Context,
    ) -> Finding:
        """``used`` tells whether the samples are known to draw from a generator that is seeded, ``given`` is what is
        assumed of what the loader is given."""
        differs = any(part is worker for part in parts)
        is_idle = drawn.is_known and not used
        effects = [] if differs else ["all workers draw the same random numbers"]
        if not workers.is_persistent:
            effects.append("each epoch draws the same random numbers as the one before")
        if any(_is_constant_state(part) for part in parts):
            effects[-1] += ": `get_state()[1][0]` is a constant since torch 1.9"
        if is_idle:
            effects = [
                "none yet, as the samples do not draw from it: one that does gets the same numbers in every epoch"
            ]
        return ctx.finding(
            self,
            event,
            f"`{event.function}` seeds the workers {'alike in every epoch' if differs else 'with a constant'}",
            on=[workers, workers.value, *parts, loader.loader, loader.dataset],
            assuming=[
                *given,
                *_assumed_constant(parts, worker, ctx),
                *_assumed_to_draw(used or is_idle),
                *ctx.assumed_batches(loader.loader),
            ],
            effect=", and ".join(effects),
            help="drop the `worker_init_fn`: the loader seeds each worker in each epoch itself (torch 1.9 and later)",
            trace=[(loader.site, "the workers of this loader"), (event.site, "are seeded here")],
            fix=("Let the loader seed its workers", set_argument(loader.site, "worker_init_fn", "None")),
            severity=None if differs else "error",
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
                    used = _concerns(event, drawn)
                    parts = _parts(event.seed, ctx) if used or not drawn.is_known else None
                    if parts is not None and not any(_is_guess(part, ctx) for part in parts):
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
            parts = _parts(event.seed, ctx)
            if parts is not None and not any(_is_guess(part, ctx) for part in parts):
                yield self._report_epoch(event, parts, loop, ctx)

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


def _assumed_constant(parts: list[Value], worker: Value, ctx: Context) -> list[Assumption]:
    """What names are trusted for: that a seed or a rank stays the same for a whole run."""
    guessed = [part for part in parts if part is not worker and _is_guess(part, ctx)]
    return [Assumption("name", f"{ctx.called(part, 'seed')} stays the same, as its name says") for part in guessed]


def _assumed_to_draw(used: bool) -> list[Assumption]:
    return [] if used else [Assumption("effect", "the dataset draws from the seeded generator")]


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


def _parts(seed: Value, ctx: Context) -> list[Value] | None:
    """What a seed is computed from, if all of it is the same in every epoch; else ``None``."""
    found: list[Value] = []
    pending = [seed]
    while pending and len(found) < 20:
        value = pending.pop()
        if isinstance(value, Symbol) and value.name in _ARITHMETIC:
            pending.extend(value.inputs)
        elif isinstance(value, Choice):
            pending.extend(option for _, option in value.options)
        elif _is_of_numpy_state(value, ctx):
            found.append(Symbol(_STATE))
        elif isinstance(value, Const | Setting) or _is_guess(value, ctx):
            found.append(value)
        else:
            return None
    return found


def _is_constant_state(part: Value) -> bool:
    return isinstance(part, Symbol) and part.name == _STATE


def _is_of_numpy_state(value: Value, ctx: Context) -> bool:
    """Whether a value is part of the state that numpy's global generator has."""
    return (
        isinstance(value, Symbol)
        and value.name in ("item", "element", _STATE)
        and any(isinstance(source, Symbol) and source.name == _STATE for source in ctx.sources(value))
    )


def _is_guess(value: Value, ctx: Context) -> bool:
    """Whether something unresolved is called like what stays the same in a run: a seed, a rank, a number of workers."""
    if not isinstance(value, Symbol):
        return False
    name = value.hint or str(value.detail) or ctx.name_of(value)
    if ctx.speaks_of("moving", name):
        return False
    if ctx.speaks_of("rank", name):
        return not any(_is_fresh(source) for source in ctx.sources(value))
    return "seed" in name.lower() and all(_is_object(source) for source in ctx.sources(value))


def _is_fresh(value: Value) -> bool:
    """Whether a value may be another one in each epoch."""
    return isinstance(value, Symbol) and (
        value.name in ("counter", "element", "torch.initial_seed", "torch.utils.data.get_worker_info")
        or value.name.startswith(("time.", "random.", "numpy.random.", "torch.rand", "os.urandom", "secrets."))
    )


def _is_object(value: Value) -> bool:
    """Whether a value is an object or an attribute of one, not what a call returned."""
    return isinstance(value, Instance | Const) or (
        isinstance(value, Symbol) and value.name in ("parameter", "attribute", "item", "unknown")
    )
