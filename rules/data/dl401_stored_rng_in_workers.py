"""A random generator that a dataset keeps, and that every worker of a loader gets the same copy of.

A loader seeds the *global* generators of `random`, `torch` and (since torch 1.9) numpy anew in each worker and each
epoch. An object such as `np.random.default_rng(seed)` that is kept on the dataset, on a transform or in the module is
merely copied: each worker begins from the state that it had in the main process, in each epoch again.

Measured on torch 2.13 with 2 workers: a generator made in `Dataset.__init__` draws the same numbers in both workers and
in every epoch (with `persistent_workers=True` only in both workers; with one worker, in every epoch), be it numpy's,
Python's or torch's, seeded or not, under fork as under spawn. One that a `collate_fn` object keeps draws 4 distinct
numbers in 16. `np.random.random()` and other global functions draw other numbers everywhere.

## Bad
    class Noisy(Dataset):
        def __init__(self, images):
            self.images = images
            self.rng = np.random.default_rng(0)

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return self.images[index] + self.rng.normal(size=3)

    loader = DataLoader(Noisy(x), batch_size=8, shuffle=True, num_workers=4)

## Good
    class Noisy(Dataset):
        def __init__(self, images):
            self.images = images
            self.rng = None

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            if self.rng is None:
                self.rng = np.random.default_rng(torch.initial_seed())
            return self.images[index] + self.rng.normal(size=3)

    loader = DataLoader(Noisy(x), batch_size=8, shuffle=True, num_workers=4)

## Not reported
Global generators (`np.random.random()`, `random.random()`, `torch.rand(3)`), generators that are made or seeded anew
outside the constructor, that only the constructor uses, that decide an order (`random_split`, samplers, the loader's
own `generator`) or choose a sample in place of a missing one; loaders without workers, for evaluation, or with a
`worker_init_fn` that may reach the dataset. Numpy's global generator with torch before 1.9, which has the same fault,
only if the rule is selected by name.

## Fix (unsafe)
The draws are taken from the global generator of the same library, which the loader seeds anew in each worker and epoch:
`self.rng.normal(size=3)` becomes `np.random.normal(size=3)`, and `generator=self.generator` becomes `generator=None`.
It is offered where all draws are in the file of the generator, and the global generator has the method.

## On real code
742 public repositories: 3 findings in 2 of them, all true: crops that come from a generator made in `__init__`. Most
data sets draw from the global generators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    BoundMethod,
    Const,
    Context,
    Edit,
    Event,
    Finding,
    Fix,
    Function,
    Instance,
    LibraryCall,
    LoaderCreated,
    Partial,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    alternatives,
    offer,
    replace_range,
    set_argument,
)

_STATE = frozenset(("seed", "manual_seed", "get_state", "set_state", "getstate", "setstate", "spawn", "initial_seed"))
_SEEDING = frozenset(("seed", "manual_seed", "set_state", "setstate"))
_SHARED = (
    *("beta", "binomial", "choice", "exponential", "gamma", "laplace", "lognormal", "normal", "permutation", "poisson"),
    *("random", "randint", "rayleigh", "shuffle", "standard_normal", "triangular", "uniform"),
)  # methods of numpy's new generators that are global functions as well
_ONLY_OF_GENERATORS = ("axis", "dtype", "endpoint", "method", "out", "shuffle")
_ORDERING = "torch.utils.data."


class StoredRngInWorkers(Rule):
    code = "DL401"
    name = "stored-rng-in-workers"
    category = "correctness"
    severity = "warning"
    triggers = (("DataLoader", "num_workers"), ("default_rng", "RandomState", "Random", "Generator", "random"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[Value] = []
        for loader in ctx.data.loaders:
            if not _has_workers(loader, ctx) or ctx.data.part_of_loader(loader) == "eval" or _is_prepared(loader, ctx):
                continue
            events = list(_in_workers(loader, ctx))
            draws = list(_draws(events, ctx))
            for _, generator in draws:
                if any(generator is known for known in reported) or _is_renewed(generator, loader, ctx):
                    continue
                reported.append(generator)
                yield self._report([call for call, drawn in draws if drawn is generator], generator, loader, ctx)
            if _is_legacy(ctx) and loader.options.get("worker_init_fn") is None:
                yield from self._report_global(events, loader, ctx)

    def _report(self, calls: list[LibraryCall], generator: Instance, loader: LoaderCreated, ctx: Context) -> Finding:
        place = generator.site
        assert place is not None
        count = ctx.constant(loader.options.get("num_workers"))
        effects = ["all workers draw the same random numbers"] if count != 1 else []
        if not _is_persistent(loader, ctx):
            effects.append("each epoch draws those of the epoch before")
        is_held = any(option is generator for owner in _owners(loader, ctx) for option in _held(owner))
        is_sure = is_held and isinstance(loader.options.get("num_workers"), Const)
        return ctx.finding(
            self,
            place,
            "each worker of the loader gets the same copy of this random generator",
            effect=", and ".join(effects),
            help="use the global generators, which the loader seeds, or make the generator in the worker: "
            "`np.random.default_rng(torch.initial_seed())` when the first sample is fetched",
            trace=[
                (place, "the generator is made once"),
                (loader.site, "the workers of this loader get copies of it"),
                (calls[0].site, "and draw from them"),
            ],
            assuming=[] if is_sure else [Assumption("opaque", "nothing seeds the generator in the workers")],
            fixes=_use_global_generator(calls, place),
        )

    def _report_global(self, events: list[Event], loader: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        """Before torch 1.9 loaders did not seed numpy."""
        for event in events:
            method = event.name.rpartition(".")[2] if isinstance(event, LibraryCall) else ""
            if isinstance(event, LibraryCall) and event.name == f"numpy.random.{method}" and method.islower():
                if method in _STATE or method == "default_rng":
                    continue
                yield ctx.finding(
                    self,
                    event,
                    "all workers draw the same random numbers: torch before 1.9 does not seed numpy in them",
                    effect="the samples of different workers are augmented alike, in every epoch",
                    help="seed numpy in a `worker_init_fn`: `np.random.seed(torch.initial_seed() % 2**32)`",
                    trace=[(loader.site, "the workers of this loader"), (event.site, "draw from numpy's generator")],
                    assuming=[Assumption("version", "torch is older than 1.9")],
                    pedantic=True,
                )
                return


# ------------------------------------------------------------------------------------------------------- the workers


def _has_workers(loader: LoaderCreated, ctx: Context) -> bool:
    """Whether there are workers, and more than one unless a single one is started anew in each epoch."""
    count = loader.options.get("num_workers")
    if count is None or (isinstance(count, Const) and not count.value):
        return False
    return not (ctx.constant(count) == 1 and _is_persistent(loader, ctx))


def _is_persistent(loader: LoaderCreated, ctx: Context) -> bool:
    return ctx.constant(loader.options.get("persistent_workers")) is True


def _is_prepared(loader: LoaderCreated, ctx: Context) -> bool:
    """Whether a ``worker_init_fn`` may get at the dataset and seed what it keeps."""
    for _, function in alternatives(loader.options.get("worker_init_fn") or Const(None)):
        if ctx.is_none(function):
            continue
        while isinstance(function, Partial):
            function = function.callable
        if isinstance(function, BoundMethod):
            function = function.function
        if not isinstance(function, Function):
            return True
        used = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(function.node)}
        if used & {"get_worker_info", "dataset"}:
            return True
    return False


def _is_legacy(ctx: Context) -> bool:
    version = ctx.versions.get("torch", "")
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    return bool(numbers) and numbers < [1, 9]


def _in_workers(loader: LoaderCreated, ctx: Context) -> Iterator[Event]:
    """What happens when a worker fetches a sample and makes a batch."""
    for dataset in ctx.data.datasets(loader.dataset):
        yield from ctx.data.fetching(dataset)
    for _, collate in alternatives(loader.options.get("collate_fn") or Const(None)):
        yield from ctx.data.calling(collate, Symbol("batch", site=loader.site))


# ------------------------------------------------------------------------------------------------------ the generators


def _draws(events: list[Event], ctx: Context) -> Iterator[tuple[LibraryCall, Instance]]:
    """The calls that draw from a generator that was there before, with the generator."""
    calls = [event for event in events if isinstance(event, LibraryCall)]
    made = {id(call.result) for call in calls}
    seeded = {id(_generator(call, ctx)) for call in calls if call.name.rpartition(".")[2] in _SEEDING}
    for call in calls:
        generator = _generator(call, ctx)
        if generator is None or generator.site is None or id(generator) in made or id(generator) in seeded:
            continue
        if call.name.rpartition(".")[2] not in _STATE and not _is_fallback(call):
            yield call, generator


def _is_fallback(call: LibraryCall) -> bool:
    """Whether a draw merely replaces what is missing: another index for a sample that could not be read."""
    return any(guard.relation == "is" and guard.operand is None and guard.holds for guard in call.guards)


def _generator(call: LibraryCall, ctx: Context) -> Instance | None:
    """The generator whose method is called, or that is passed as ``generator``."""
    given = call.arguments.keywords.get("generator") or call.arguments.get(0, None)
    is_one = isinstance(given, Instance) and given.library_name in ctx.facts.random_generators
    return given if is_one and isinstance(given, Instance) else None


def _is_renewed(generator: Instance, loader: LoaderCreated, ctx: Context) -> bool:
    """Whether a generator may be replaced or seeded outside a constructor, or decides the order of the data."""
    if any(option is generator for option in loader.options.values()):
        return True
    orders = (event for event in ctx.all_of(LibraryCall) if event.name.startswith(_ORDERING))
    if any(value is generator for event in orders for value in event.arguments.all()):
        return True
    names = {name for owner in _owners(loader, ctx) for name, held in _attributes(owner) if held is generator}
    return any(_is_written(name, ctx) for name in {*names, generator.hint} - {""})


def _owners(loader: LoaderCreated, ctx: Context) -> list[Instance]:
    """The objects that are copied to the workers: datasets, and what they and the collate function hold."""
    found: list[Instance] = list(ctx.data.datasets(loader.dataset))
    found.extend(
        option
        for _, option in alternatives(loader.options.get("collate_fn") or Const(None))
        if isinstance(option, Instance)
    )
    for owner in found:
        if len(found) < 20:
            held = (option for option in _held(owner) if isinstance(option, Instance))
            found.extend(option for option in held if not any(option is known for known in found))
    return found


def _held(owner: Instance) -> Iterator[Value]:
    yield from (held for _, held in _attributes(owner))


def _attributes(owner: Instance) -> Iterator[tuple[str, Value]]:
    for name, value in owner.attributes.items():
        for _, option in alternatives(value):
            yield name, option


def _is_written(name: str, ctx: Context) -> bool:
    """Whether an attribute is set, or what it or a variable holds is seeded, outside a constructor."""
    for _, tree in ctx.trees(name):
        for function in ast.walk(tree):
            is_function = isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name != "__init__"
            if is_function and any(_is_write(node, name) for node in ast.walk(function)):
                return True
    return False


def _is_write(node: ast.AST, name: str) -> bool:
    """``self.rng = …`` or ``self.rng.seed(…)``."""
    if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _SEEDING:
        return False
    held = node.func.value
    return getattr(held, "attr", getattr(held, "id", "")) == name


# ------------------------------------------------------------------------------------------------------------- the fix


def _use_global_generator(calls: list[LibraryCall], made: Site) -> list[Fix]:
    """Let all draws come from the global generator of the library that the stored one is of."""
    sites = list({call.site.node: call.site for call in calls}.values())
    edits = [_of_global_generator(site, made) if site.module is made.module else () for site in sites]
    complete = [edit for each in edits for edit in each] if all(edits) else []
    return offer("Draw from the global generator, which the loader seeds", complete, "unsafe", of=made, at=made)


def _of_global_generator(draw: Site, made: Site) -> tuple[Edit, ...]:
    """The edits of one draw; none where there is no such global function."""
    if not isinstance(draw.node, ast.Call) or not isinstance(made.node, ast.Call):
        return ()
    given = next((keyword for keyword in draw.node.keywords if keyword.arg == "generator"), None)
    if given is not None:
        return set_argument(draw, "generator", "None")
    if not isinstance(draw.node.func, ast.Attribute) or not isinstance(made.node.func, ast.Attribute):
        return ()
    method, library = draw.node.func.attr, ast.unparse(made.node.func.value)
    if made.node.func.attr == "default_rng":
        method = "randint" if method == "integers" else method
        if method not in _SHARED or any(each.arg in _ONLY_OF_GENERATORS for each in draw.node.keywords):
            return ()
    elif made.node.func.attr not in ("Random", "RandomState"):
        return ()
    return replace_range(Site(draw.module, draw.node.func), f"{library}.{method}")
