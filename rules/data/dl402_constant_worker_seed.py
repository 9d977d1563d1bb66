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
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Choice,
    Const,
    Context,
    Finding,
    Function,
    Instance,
    LibraryCall,
    LoaderCreated,
    Loop,
    OpaqueCall,
    Program,
    RandomSeeded,
    Rule,
    Setting,
    Symbol,
    Value,
    alternatives,
    move_before,
    offer,
    remove,
    set_argument,
)

_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**", "^", "|", "&", "<<", "int", "abs", "hash", "negative"))
_STATE = "numpy.random.get_state"
_LEGACY = re.compile(r"(0|1\.[0-8])(\D|$)")
_DRAWING = re.compile(
    r"torch\.(rand|randn|randint|randperm|normal|bernoulli|multinomial|poisson)(_like)?|torch\.nn\.functional\.\w*dropout\w*"
    r"|(random|numpy\.random)\.(?!seed|Random|default_rng|get_?state|set_?state|Generator|SystemRandom)\w+"
)
_PLACES = ("rank", "worker", "world", "gpu", "node", "process")
_MOVING = ("epoch", "time", "step", "iter", "initial")


class ConstantWorkerSeed(Rule):
    code = "DL402"
    name = "constant-worker-seed"
    category = "correctness"
    severity = "warning"
    triggers = (("worker_init_fn", "manual_seed", "seed", "seed_everything", "set_seed"), ("DataLoader", "loader"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            if ctx.data.part_of_loader(event) == "eval":
                continue
            drawn = _drawn(event, ctx)
            if _has_workers(event, ctx):
                yield from self._in_workers(event, drawn, ctx)
            yield from self._in_samples(event, drawn, ctx)
        for batches in ctx.data.passes:
            if batches.trains and batches.outer:
                yield from self._in_epochs(batches.outer[0], batches.loop, ctx)

    def _in_workers(self, loader: LoaderCreated, drawn: set[str] | None, ctx: Context) -> Iterator[Finding]:
        worker = Symbol("parameter", site=loader.site, detail="worker_id")
        for _, function in alternatives(loader.options.get("worker_init_fn") or Const(None)):
            seeds = [event for event in ctx.data.calling(function, worker) if isinstance(event, RandomSeeded)]
            used = None if drawn is None else any(_concerns(event, drawn) for event in seeds)
            for event in seeds:
                parts = _parts(event.seed, ctx) if event.seed is not None else None
                if parts is not None and _repeats(parts, worker, loader, ctx):
                    yield self._report_workers(event, parts, worker, loader, used, ctx)
                    break

    def _report_workers(
        self,
        event: RandomSeeded,
        parts: list[Value],
        worker: Value,
        loader: LoaderCreated,
        used: bool | None,
        ctx: Context,
    ) -> Finding:
        """``used`` tells whether the samples draw from a generator that is seeded; ``None`` if that is not known."""
        differs = any(part is worker for part in parts)
        effects = [] if differs else ["all workers draw the same random numbers"]
        if not _is_persistent(loader, ctx):
            effects.append("each epoch draws the same random numbers as the one before")
        if any(isinstance(part, Symbol) and part.name == _STATE for part in parts):
            effects[-1] += ": `get_state()[1][0]` is a constant since torch 1.9"
        if used is False:
            effects = [
                "none yet, as the samples do not draw from it: one that does gets the same numbers in every epoch"
            ]
        guessed = any(part is not worker and _is_guess(part, ctx) for part in parts)
        return ctx.finding(
            self,
            event,
            f"`{event.function}` seeds the workers {'alike in every epoch' if differs else 'with a constant'}",
            effect=", and ".join(effects),
            help="drop the `worker_init_fn`: the loader seeds each worker anew in each epoch (torch 1.9 and later)",
            trace=[(loader.site, "the workers of this loader"), (event.site, "are seeded here")],
            fixes=offer(
                "Let the loader seed its workers",
                set_argument(loader.site, "worker_init_fn", "None"),
                "unsafe",
                of=event.site,
                at=loader.site,
            ),
            severity=None if differs else "error",
            assuming=[Assumption("effect", "the dataset draws from the seeded generator")]
            if guessed or used is None
            else [],
            pedantic=used is False,
        )

    def _in_samples(self, loader: LoaderCreated, drawn: set[str] | None, ctx: Context) -> Iterator[Finding]:
        """``seed(CONST)`` in ``__getitem__``, or a cache around it."""
        for dataset in ctx.data.datasets(loader.dataset):
            get_item = ctx.member(dataset, "__getitem__")
            if get_item is None:
                continue
            if drawn and _is_cached(get_item):
                yield self._report_cache(get_item, loader, ctx)
            for event in ctx.data.fetching(dataset):
                if (
                    isinstance(event, RandomSeeded)
                    and event.seed is not None
                    and not event.guards  # else it does not happen for every sample
                    and (drawn is None or _concerns(event, drawn))
                ):
                    parts = _parts(event.seed, ctx)
                    if parts is not None and not any(_is_guess(part, ctx) for part in parts):
                        yield self._report_sample(event, loader, ctx)

    def _report_sample(self, event: RandomSeeded, loader: LoaderCreated, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            f"`{event.function}` starts every sample from the same seed",
            effect="every sample of every epoch draws the same random numbers: the augmentation is always the same",
            help="drop the call: the loader seeds each worker anew in each epoch (torch 1.9 and later)",
            trace=[(loader.site, "this loader fetches samples"), (event.site, "and each one seeds the generator")],
            fixes=offer("Do not seed here", remove(event.site), "unsafe", of=event.site, at=event.site),
            severity="error",
            assuming=[Assumption("effect", "the dataset draws from the seeded generator")],
        )

    def _report_cache(self, get_item: Function, loader: LoaderCreated, ctx: Context) -> Finding:
        place = get_item.site
        assert place is not None
        return ctx.finding(
            self,
            place,
            "the samples are cached after they were augmented at random",
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
                yield self._report_epoch(event, loop, ctx)

    def _report_epoch(self, event: RandomSeeded, loop: Loop, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            f"`{event.function}` starts every epoch from the same seed",
            effect="each epoch sees the data in the same order, with the same augmentations and the same dropout",
            help="seed once, before the loop",
            trace=[(loop.site, "in each iteration of this loop"), (event.site, "the generator is seeded alike")],
            fixes=offer(
                "Seed once, before the loop", move_before(event.site, loop.site), "unsafe", of=event.site, at=event.site
            )
            if event.frame is loop.frame
            else [],
        )


_ORDERING = frozenset(
    ("torch.manual_seed", "lightning.pytorch.seed_everything", "lightning.seed_everything", "transformers.set_seed",
     "accelerate.utils.set_seed")
)  # fmt: skip


def _has_workers(event: LoaderCreated, ctx: Context) -> bool:
    count = event.options.get("num_workers")
    return count is not None and not (isinstance(count, Const) and not count.value)


def _family(function: str) -> str:
    """Which generator a function seeds or draws from: ``numpy``, ``random`` or ``torch``; empty for one of several."""
    return function.partition(".")[0] if function.startswith(("numpy.random.", "random.", "torch.")) else ""


def _drawn(loader: LoaderCreated, ctx: Context) -> set[str] | None:
    """The generators that the workers draw from, or ``None`` if something in them is not known."""
    known = loader.dataset is not None and all(isinstance(o, Instance) for _, o in alternatives(loader.dataset))
    if loader.options.get("collate_fn") is not None or not known:
        return None
    found: set[str] = set()
    for dataset in ctx.data.datasets(loader.dataset):
        if ctx.data.inner(dataset):
            continue
        steps = [inner for step in ctx.data.applied(dataset) for inner in ctx.data.steps(step.value)]
        if any(not step.kind or step.kind == "Lambda" or step.kind.startswith("A.") for step in steps):
            return None
        found |= {"torch", "random"} if any(step.kind in ctx.facts.transforms["random"] for step in steps) else set()
        get_item = ctx.member(dataset, "__getitem__")
        if get_item is None and not steps:
            return None
        events = ctx.data.fetching(dataset)
        if any(isinstance(event, OpaqueCall) for event in events):
            return None
        calls = (event.name for event in events if isinstance(event, LibraryCall))
        found |= {_family(name) for name in calls if _DRAWING.fullmatch(name)}
    return found


def _concerns(event: RandomSeeded, drawn: set[str]) -> bool:
    """Whether what is seeded is drawn from; helpers seed all generators."""
    family = _family(event.function)
    return family in drawn if family else bool(drawn)


def _repeats(parts: list[Value], worker: Value, loader: LoaderCreated, ctx: Context) -> bool:
    """Whether workers draw the same as others, or as in the epoch before (persistent ones are seeded only once)."""
    is_legacy = bool(_LEGACY.match(ctx.versions.get("torch", ""))) and any(
        isinstance(part, Symbol) and part.name == _STATE for part in parts
    )
    return not is_legacy and (all(part is not worker for part in parts) or not _is_persistent(loader, ctx))


def _is_persistent(loader: LoaderCreated, ctx: Context) -> bool:
    return ctx.constant(loader.options.get("persistent_workers")) is True


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
        elif _is_state(value, ctx):
            found.append(Symbol(_STATE))
        elif isinstance(value, Const | Setting) or _is_guess(value, ctx):
            found.append(value)
        else:
            return None
    return found


def _is_state(value: Value, ctx: Context) -> bool:
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
    name = (value.hint or str(value.detail) or ctx.name_of(value)).lower()
    if any(word in name for word in _MOVING):
        return False
    if any(word in name for word in _PLACES):
        return not any(_is_fresh(source) for source in ctx.sources(value))
    return "seed" in name and all(_is_plain(source) for source in ctx.sources(value))


def _is_fresh(value: Value) -> bool:
    """Whether a value may be another one in each epoch."""
    return isinstance(value, Symbol) and (
        value.name in ("counter", "element", "torch.initial_seed", "torch.utils.data.get_worker_info")
        or value.name.startswith(("time.", "random.", "numpy.random.", "torch.rand", "os.urandom", "secrets."))
    )


def _is_plain(value: Value) -> bool:
    """Whether a value is an object or an attribute of one, not what a call returned."""
    return isinstance(value, Instance | Const) or (
        isinstance(value, Symbol) and value.name in ("parameter", "attribute", "item", "unknown")
    )
