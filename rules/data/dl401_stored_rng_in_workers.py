"""A random generator that a dataset keeps, and that every worker of a loader gets the same copy of.

A loader seeds the *global* generators of `random`, `torch` and (since torch 1.9) numpy again in each worker and each
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
Global generators (`np.random.random()`, `random.random()`, `torch.rand(3)`), generators that are made or seeded again
outside the constructor, that only the constructor uses, that decide an order (`random_split`, samplers, the loader's
own `generator`) or choose a sample in place of a missing one; loaders without workers, with a single one that stays
alive or whose generator a comment says to draw the same each time, for evaluation, or with a `worker_init_fn` that may
reach the dataset. Numpy's global generator with torch before
1.9, which has the same fault, only if the rule is selected by name.

## Fix (unsafe)
The draws are taken from the global generator of the same library, seeded by the loader in each worker and epoch:
`self.rng.normal(size=3)` becomes `np.random.normal(size=3)`, and `generator=self.generator` becomes `generator=None`.
It is offered where all draws are in the file of the generator, and the global generator has the method.

## On real code
742 public repositories: 3 findings in 2 of them, all true: crops that come from a generator made in `__init__`. Most
data sets draw from the global generators.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.api import (
    Assumption,
    BoundMethod,
    Const,
    Context,
    Draw,
    Edits,
    Finding,
    Function,
    Guard,
    Instance,
    LibraryCall,
    LoaderCreated,
    Partial,
    Program,
    Rule,
    Site,
    Value,
    Workers,
    alternatives,
    nodes_of,
    replace_range,
    set_argument,
    together,
)

_SEEDING = ("seed", "manual_seed", "set_state", "setstate")
_SHARED = (
    *("beta", "binomial", "choice", "exponential", "gamma", "laplace", "lognormal", "normal", "permutation", "poisson"),
    *("random", "randint", "rayleigh", "shuffle", "standard_normal", "triangular", "uniform"),
)  # methods of numpy's new generators that are global functions as well
_ONLY_OF_GENERATORS = ("axis", "dtype", "endpoint", "method", "out", "shuffle")
_ORDERING = "torch.utils.data."


def for_evaluation(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """the loader is for evaluation"""
    return ctx.data.part_of_loader(loader) == "eval"


def one_worker_that_stays(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """there is a single worker, and it stays alive"""
    workers = ctx.data.workers(loader)
    return workers is not None and workers.count == 1 and workers.is_persistent


def meant_to_draw_alike(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """there is a single worker, and a comment says that the same is to be drawn in each epoch"""
    workers = ctx.data.workers(loader)
    is_single = workers is not None and workers.count == 1
    return is_single and any(ctx.speaks_of("sameness", text) for text in ctx.comments_at(generator))


def seeded_by_worker_init(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """a `worker_init_fn` may get at the dataset and seed what it keeps"""
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


def decides_an_order(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """the generator decides the order of the data"""
    stored = draws[0].stored
    if any(option is stored for option in loader.options.values()):
        return True
    orders = (event for event in ctx.all_of(LibraryCall) if event.name.startswith(_ORDERING))
    return any(value is stored for event in orders for value in event.arguments.all())


def renewed(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """the generator is replaced or seeded outside of the constructor"""
    stored = draws[0].stored
    assert stored is not None
    names = {name for owner in _owners(loader, ctx) for name, held in _attributes(owner) if held is stored}
    return any(_is_written(name, ctx) for name in {*names, stored.hint} - {""})


def replaces_what_is_missing(generator: Site, draws: list[Draw], loader: LoaderCreated, ctx: Context) -> bool:
    """the draws only choose a sample in place of a missing one"""
    calls = [draw.event for draw in draws if draw.event is not None]
    return all(any(g.relation == "is" and g.operand is None and g.holds for g in call.guards) for call in calls)


class StoredRngInWorkers(Rule):
    code = "DL401"
    name = "stored-rng-in-workers"
    category = "correctness"
    severity = "warning"
    triggers = (("DataLoader", "num_workers"), ("default_rng", "RandomState", "Random", "Generator", "random"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader",)

    excuses = (
        for_evaluation,
        one_worker_that_stays,
        meant_to_draw_alike,
        replaces_what_is_missing,
        seeded_by_worker_init,
        decides_an_order,
        renewed,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: list[Value] = []
        for loader in ctx.data.loaders:
            workers = ctx.data.workers(loader)
            if workers is None:
                continue
            found = ctx.data.randomness(loader).draws
            for stored in [draw.stored for draw in found if draw.stored is not None]:
                draws = [draw for draw in found if draw.stored is stored]
                if stored.site is None or any(stored is known for known in reported):
                    continue
                if not ctx.excused(self, stored.site, draws, loader):
                    reported.append(stored)
                    yield self._report(stored, draws, loader, workers, ctx)
            if loader.options.get("worker_init_fn") is None:
                yield from self._report_global(found, loader, workers, ctx)

    def _report(
        self, stored: Instance, draws: list[Draw], loader: LoaderCreated, workers: Workers, ctx: Context
    ) -> Finding:
        place = stored.site
        assert place is not None
        effects = ["all workers draw the same random numbers"] if workers.count != 1 else []
        if not workers.is_persistent:
            effects.append("each epoch draws those of the epoch before")
        calls = [draw.event for draw in draws if draw.event is not None]
        is_held = any(option is stored for owner in _owners(loader, ctx) for _, option in _attributes(owner))
        assumed = [] if is_held else [Assumption("opaque", "nothing seeds the generator in the workers")]
        return ctx.finding(
            self,
            place,
            "each worker of the loader gets the same copy of this random generator",
            on=[loader, loader.loader, workers, workers.value, calls[0]],
            assuming=[*assumed, *_assumed_draw(calls), *ctx.assumed_batches(loader.loader)],
            effect=", and ".join(effects),
            help="use the global generators, which the loader seeds, or make the generator in the worker: "
            "`np.random.default_rng(torch.initial_seed())` when the first sample is fetched",
            trace=[
                (place, "the generator is made once"),
                (loader.site, "the workers of this loader get copies of it"),
                (calls[0].site, "and draw from them"),
            ],
            fix=("Draw from the global generator, which the loader seeds", _use_global_generator(calls, place)),
        )

    def _report_global(
        self, draws: Sequence[Draw], loader: LoaderCreated, workers: Workers, ctx: Context
    ) -> Iterator[Finding]:
        """Before torch 1.9 loaders did not seed numpy."""
        event = next((draw.event for draw in draws if draw.family == "numpy" and draw.stored is None), None)
        if event is None or ctx.data.part_of_loader(loader) == "eval":
            return
        if ctx.runs_before("torch", "1.9"):
            yield ctx.finding(
                self,
                event,
                "all workers draw the same random numbers: torch before 1.9 does not seed numpy in them",
                on=[loader, loader.loader, workers, workers.value],
                assuming=[Assumption("version", "torch is older than 1.9"), *ctx.assumed_batches(loader.loader)],
                effect="the samples of different workers are augmented alike, in every epoch",
                help="seed numpy in a `worker_init_fn`: `np.random.seed(torch.initial_seed() % 2**32)`",
                trace=[(loader.site, "the workers of this loader"), (event.site, "draw from numpy's generator")],
                pedantic=True,
            )


# ------------------------------------------------------------------------------------------------------ the generators


def _assumed_draw(calls: Sequence[LibraryCall]) -> Iterator[Assumption]:
    """That numbers are drawn at all, where only a condition that does not resolve lets them be."""
    unknown = [[guard for guard in call.guards if _is_unknown(guard)] for call in calls]
    if all(unknown):
        yield Assumption("alternative", f"numbers are drawn, which depends on `{unknown[0][0]}`")


def _is_unknown(condition: Guard) -> bool:
    """Whether nothing tells if a condition ever holds. Those on drawn numbers and on the mode do."""
    is_told = condition.topic in ("mode", "phase") or condition.by_default is not None or condition.assumption
    return not is_told and not ("rand" in condition.subject or "rng" in condition.subject)


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
            held = (option for _, option in _attributes(owner) if isinstance(option, Instance))
            found.extend(option for option in held if not any(option is known for known in found))
    return found


def _attributes(owner: Instance) -> Iterator[tuple[str, Value]]:
    for name, value in owner.attributes.items():
        for _, option in alternatives(value):
            yield name, option


def _is_written(name: str, ctx: Context) -> bool:
    """Whether an attribute is set, or what it or a variable holds is seeded, outside a constructor."""
    for _, tree in ctx.trees(name):
        for function in nodes_of(tree).of(ast.FunctionDef, ast.AsyncFunctionDef):
            nodes = nodes_of(function) if function.name != "__init__" else None
            if nodes is not None and any(_is_write(node, name) for node in nodes.of(ast.Attribute, ast.Call)):
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


def _use_global_generator(calls: list[LibraryCall], made: Site) -> Edits:
    """Let all draws come from the global generator of the library that the stored one is of."""
    sites = {call.site.node: call.site for call in calls}.values()
    return together(*(_of_global_generator(site, made) for site in sites))


def _of_global_generator(draw: Site, made: Site) -> Edits:
    """The edits of one draw; none where there is no such global function."""
    if not isinstance(draw.node, ast.Call) or not isinstance(made.node, ast.Call):
        return Edits()
    given = next((keyword for keyword in draw.node.keywords if keyword.arg == "generator"), None)
    if given is not None:
        return set_argument(draw, "generator", "None")
    if not isinstance(draw.node.func, ast.Attribute) or not isinstance(made.node.func, ast.Attribute):
        return Edits()
    method, library = draw.node.func.attr, ast.unparse(made.node.func.value)
    if made.node.func.attr == "default_rng":
        method = "randint" if method == "integers" else method
        if method not in _SHARED or any(each.arg in _ONLY_OF_GENERATORS for each in draw.node.keywords):
            return Edits()
    elif made.node.func.attr not in ("Random", "RandomState"):
        return Edits()
    return replace_range(Site(draw.module, draw.node.func), f"{library}.{method}")
