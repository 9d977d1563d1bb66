"""A seed that does not reach the generator that draws: another library's is seeded, or the seeding is never called.

`random`, numpy and torch have a generator each. A script that seeds torch alone and shuffles with `np.random.shuffle`
splits its data otherwise in each run: results differ, and a checkpoint that is evaluated later meets samples that it
was trained on.

Measured on numpy 2.4 and torch 2.13 (1,000 samples, 200 of them for validation, drawn by `np.random.permutation`): with
`torch.manual_seed(0)` alone, 145 to 174 validation samples of one run are training samples of the next (20 pairs of
runs); with numpy seeded, none.

## Bad
    torch.manual_seed(0)
    indices = list(range(len(dataset)))
    np.random.shuffle(indices)
    train_set, val_set = Subset(dataset, indices[:800]), Subset(dataset, indices[800:])

## Good
    torch.manual_seed(0)
    np.random.seed(0)
    indices = list(range(len(dataset)))
    np.random.shuffle(indices)
    train_set, val_set = Subset(dataset, indices[:800]), Subset(dataset, indices[800:])

So it is where a function that is there to seed a run leaves torch out: the run seems to be seeded, and weights, dropout
and the order of the batches are others each time.

## Not reported
Scripts that seed nothing; a script that seeds other generators than torch's outside of a function for that and not by
its option `--seed`, or gives that option to anything else, in a worker or in an environment, or trains nothing that
torch draws for; single numbers, but for those in tables of vectors that
weights start from; draws that decide about nothing that is trained (a port, a name, a sample to look at); draws in
worker processes, which torch seeds; what is seeded by the time alone, or only for a part of the data (in
`get_dataloader`); what is drawn once, where a file is not there yet that keeps it; code with a seeding function of a
library that is not known; what a file seeds that the script imports; a seeding function that is imported and never
called, where the script gives a seed to something that it makes.

## On real code
276 public repositories: 1 finding, true: the order of the training images, where torch alone is seeded. In 322 others
4: 3 true, and 1 false, which an imported file seeds, and is silent since. In 1,300 more, as they were read, 6 of 11
were true, 1 false and 4 doubtful: splits that a file keeps, a seed of a subset, and orders that change nothing. Of 15
in another 1,400, 9 were true, 1 false and 5 doubtful; of these six two are left, both draws that change no result.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Context,
    Finding,
    LibraryCall,
    LoaderCreated,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    Program,
    RandomSeeded,
    Rule,
    Setting,
    Site,
    nodes_of,
)

_DRAWS = {
    **dict.fromkeys(("numpy.random.shuffle", "numpy.random.permutation", "numpy.random.choice"), "numpy.random"),
    **dict.fromkeys(("random.shuffle", "random.sample", "random.choices"), "random"),
}
_NUMBERS = {
    **dict.fromkeys(
        (f"numpy.random.{name}" for name in ("rand", "randn", "normal", "uniform", "random", "standard_normal")),
        "numpy.random",
    ),
    **dict.fromkeys(("random.uniform", "random.gauss", "random.random"), "random"),
}
_OF_WEIGHTS = re.compile(r"(?i)emb|vector|glove|w2v")  # names of tables with a row for each word
_SEEDS = {"numpy.random.seed": "numpy.random", "random.seed": "random"}
_THERE = ("isfile", "exists", "is_file", "isdir", "is_dir")
_LETTERS = frozenset(
    f"string.{name}"
    for name in ("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "printable")
)
_DRAWING = tuple(sorted({name.rpartition(".")[2] for name in (*_DRAWS, *_NUMBERS)}))
_SEEDING = ("manual_seed", "manual_seed_all", "seed", "seed_everything", "set_seed")
_OF_TORCH = (
    "manual_seed",
    "manual_seed_all",
    "seed_everything",
    "Generator",
    "set_rng_state",
    "set_determinism",
)  # what may seed torch
_OPTIONS = ("seed", "random_seed", "manual_seed", "random_state")  # what the seed of a run is called
_SHOWING = ("print", "format", "info", "debug", "str", "join", "log", "write")
_OF_A_PART = re.compile(r"(?i)num_?py|^np_|_np$|data|split|sampl")  # and not for the whole run


# ------------------------------------------------------------------------------------------------- excuses


def seeded_out_of_sight(event: LibraryCall | RandomSeeded, ctx: Context) -> bool:
    """code that is not seen, or that another library has, may seed it"""
    known = {id(seed.site.node) for seed in ctx.all_of(RandomSeeded)}
    calls: list[LibraryCall | OpaqueCall] = [*ctx.all_of(LibraryCall), *ctx.all_of(OpaqueCall)]
    return any("seed" in call.name.lower() and id(call.site.node) not in known for call in calls)


def seeded_by_an_import(event: LibraryCall, ctx: Context) -> bool:
    """a file that the program imports seeds it at its top"""
    family = event.name.rpartition(".")[0]
    return any(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and ast.unparse(each.value.func) in seeding
        for _, tree in ctx.trees("seed")
        for seeding in (set(_spellings_of_seed(family, tree)),)
        for each in tree.body
    )


def _spellings_of_seed(family: str, tree: ast.Module) -> Iterator[str]:
    """How a file spells the function that seeds a generator: ``random.seed``, ``np.random.seed``."""
    library, dot, part = family.partition(".")
    imports = (each for each in tree.body if isinstance(each, ast.Import))
    for alias in (alias for each in imports for alias in each.names if alias.name == library):
        yield f"{alias.asname or library}{dot}{part}.seed"


def seeded_by_a_clock(event: LibraryCall, ctx: Context) -> bool:
    """what is seeded is seeded by the time: no run is to be repeated"""
    return all(ctx.differs_in_each_run(seed) for seed in ctx.all_of(RandomSeeded))


def is_made_once(event: LibraryCall, ctx: Context) -> bool:
    """it draws only where a file is not there yet, in which what is drawn is kept for later runs"""
    tests = [guard.node for guard in event.guards if guard.node is not None]
    calls = (each for test in tests for each in ast.walk(test) if isinstance(each, ast.Call))
    return any(ast.unparse(each.func).rpartition(".")[2] in _THERE for each in calls)


def pins_a_part(event: LibraryCall, ctx: Context) -> bool:
    """what is seeded is seeded where a loader or a part of the data is made, and not for the run"""
    return all(any(map(_OF_A_PART.search, _scopes_of_seed(seed))) for seed in ctx.all_of(RandomSeeded))


def _scopes_of_seed(seed: RandomSeeded) -> list[str]:
    """The functions in which a seed is set, but the one that is there to seed."""
    names = [frame.function for frame in seed.frame.stack() if frame.function]
    return [name for name in names if "seed" not in name.lower()]


def makes_a_name(event: LibraryCall, ctx: Context) -> bool:
    """it draws letters or digits, as for the name of a file or of a run"""
    drawn = event.site.node.args[:1] if isinstance(event.site.node, ast.Call) else []
    names = [ast.unparse(node) for each in drawn for node in ast.walk(each) if isinstance(node, ast.Attribute)]
    return bool(names) and all(name in _LETTERS for name in names)


def has_little_effect(event: LibraryCall, ctx: Context) -> bool:
    """nothing is trained here, or it draws in or after the training, or in code that shows, scores or tests"""
    names = [frame.scope for frame in event.frame.stack()]
    steps = ctx.all_of(OptimizerStep)
    shows = any(ctx.speaks_of(topic, *names) for topic in ("evaluation", "inference", "reading", "debugging"))
    is_over = all(ctx.position(step) < ctx.position(event) for step in steps)  # also where nothing is trained
    return shows or is_over or any(ctx.trains(loop) for loop in ctx.loops_around(event))


class SeedNotApplied(Rule):
    code = "DL844"
    name = "seed-not-applied"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (_SEEDING, ("torch", "step", *_DRAWING))  # also what draws and what trains is to be followed
    of_files = True
    references = ("https://docs.pytorch.org/docs/stable/notes/randomness.html",)
    excuses = (
        *(seeded_out_of_sight, seeded_by_an_import, seeded_by_a_clock, is_made_once, pins_a_part, makes_a_name),
        has_little_effect,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        seeds = list(ctx.all_of(RandomSeeded))
        if not seeds:
            yield from self._never_called(ctx)
            return
        seeded = {_SEEDS.get(seed.function, "torch" if seed.function.startswith("torch.") else "all") for seed in seeds}
        if seeded <= set(_SEEDS.values()):
            yield from self._without_torch(seeds, ctx)
        reported: set[str] = set()
        for event in ctx.all_of(LibraryCall):
            family = _DRAWS.get(event.name) or _NUMBERS.get(event.name)
            if family is None or "all" in seeded or family in seeded | reported:
                continue
            if (event.name in _NUMBERS and not _is_of_weights(event, ctx)) or ctx.excused(self, event):
                continue
            reported.add(family)
            yield ctx.finding(
                self,
                event,
                f"`{family}` is never seeded, and decides here what the run trains on",
                on=[seeds[0]],
                effect="two runs with one seed are trained on other data, in another order, or from other weights",
                help=f"seed it as well: `{'np.random' if family != 'random' else family}.seed(seed)`",
                trace=[(seeds[0].site, "another generator is seeded here"), (event.site, "and this one draws")],
            )

    def _without_torch(self, seeds: list[RandomSeeded], ctx: Context) -> Iterator[Finding]:
        """Where a function that seeds a run, by its name, seeds all but torch."""
        first = next(iter(ctx.all_of(OptimizerStep)), None)
        seed = next((each for each in seeds if _is_for_a_run(each, ctx) or _is_option(each, ctx)), None)
        drawn = _drawn_by_torch(seed, ctx) if seed is not None else None
        if seed is None or first is None or drawn is None or ctx.position(seed) > ctx.position(first):
            return
        if seeded_out_of_sight(seed, ctx) or _may_seed_torch(ctx):
            return
        name = f"`{seed.frame.function}` does" if _is_for_a_run(seed, ctx) else "the option for the seed does"
        draws = "draws the first weights" if isinstance(drawn, OptimizerCreated) else "draws the order of the samples"
        yield ctx.finding(
            self,
            seed,
            f"{name} not seed torch, which draws the weights and the order of the samples",
            on=[drawn, first],
            effect="each run starts from other weights, or takes the samples in another order",
            help="seed it as well: `torch.manual_seed(seed)`",
            trace=[(seed.site, "other generators are seeded here"), (drawn.site, f"and torch {draws} here")],
        )

    def _never_called(self, ctx: Context) -> Iterator[Finding]:
        """Functions of the script, or that it imports, which seed the generators, and that nothing calls."""
        tree = ctx.program.module.tree
        for name, site in _imported_in_vain(ctx):
            yield ctx.finding(
                self,
                site,
                f"`{name}` is imported and never called, and nothing else is seeded",
                effect="each run starts from other weights and takes the samples in another order",
                help=f"call `{name}` before the model and the loaders are made",
                trace=[(site, "would seed the generators")],
            )
        functions = [each for each in tree.body if isinstance(each, ast.FunctionDef) and "seed" in each.name.lower()]
        for function in functions if not _seeds_beside(functions, tree) else ():
            site = Site(ctx.program.module, function)
            if _seeds(function) and _is_trained_by(ctx) and not ctx.mentions(function.name, where="elsewhere"):
                names = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == function.name]
                if not names:
                    yield ctx.finding(
                        self,
                        site,
                        f"`{function.name}` is never called, and nothing else is seeded",
                        effect="each run starts from other weights and takes the samples in another order",
                        help=f"call `{function.name}` before the model and the loaders are made",
                        trace=[(site, "would seed the generators")],
                    )


def _is_for_a_run(seed: RandomSeeded, ctx: Context) -> bool:
    """Whether a seed is set by a function of the project that is there to seed a run, as its name says."""
    name = seed.frame.function
    names = (name, seed.frame.owner)
    bases = ctx.library_bases(seed.frame.receiver) if seed.frame.receiver is not None else ()
    is_of_data = any(base.startswith("torch.utils.data.") for base in bases)
    is_of_part = any(_OF_A_PART.search(each) for each in names) or name.strip("_") == "seed"
    is_of_other = any(ctx.speaks_of(topic, *names) for topic in ("environment", "rank"))
    return "seed" in name.lower() and not (is_of_data or is_of_part or is_of_other)


def _is_option(seed: RandomSeeded, ctx: Context) -> bool:
    """Whether a seed is the option of a script that is called so, and that nothing else is given but what shows it."""
    option = seed.seed
    if not isinstance(option, Setting) or option.name.rpartition(".")[2] not in _OPTIONS:
        return False
    scopes = _scopes_of_seed(seed)
    is_of_other = any(ctx.speaks_of(topic, *scopes) for topic in ("environment", "rank"))
    if is_of_other or any(_OF_A_PART.search(each) or "worker" in each.lower() for each in scopes):
        return False
    seeding = {id(each.site.node) for each in ctx.all_of(RandomSeeded)}
    given = (
        (module, node)
        for word in _OPTIONS
        for module, tree in ctx.trees(word)
        for node in (*nodes_of(tree).attributes.get(word, ()), *nodes_of(tree).names.get(word, ()))
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    )
    calls = (next(iter(ctx.ancestors(Site(module, node), ast.Call)), None) for module, node in given)
    return all(call is None or id(call) in seeding or _shows(call) for call in calls)


def _shows(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] in _SHOWING


def _may_seed_torch(ctx: Context) -> bool:
    """Whether code of the program's files, whether it is run or not, seeds torch or has a generator of its own."""
    return any(
        word in nodes.attributes or word in nodes.names
        for word in _OF_TORCH
        for _, tree in ctx.trees(word)
        for nodes in (nodes_of(tree),)
    )


def _drawn_by_torch(seed: RandomSeeded, ctx: Context) -> LoaderCreated | OptimizerCreated | None:
    """Where torch draws in a run with a seed: the first weights of what is trained, or the order of the samples."""
    for created in ctx.all_of(OptimizerCreated) if not ctx.checkpoints.restored else ():
        models = ctx.parameters_of(created.optimizer)[0] if not ctx.never_both(seed, created) else []
        if models and all(any(name.startswith("torch.nn.") for name in ctx.layers_in(each)) for each in models):
            return created
    loaders = (each for each in ctx.all_of(LoaderCreated) if not ctx.never_both(seed, each))
    return next((each for each in loaders if ctx.constant(each.options.get("shuffle")) is True), None)


def _imported_in_vain(ctx: Context) -> Iterator[tuple[str, Site]]:
    """The functions of other files that would seed the generators of a script which trains, and which it only imports.

    Where any code that is run may seed them otherwise, there are none.
    """
    module = ctx.program.module
    calls: list[LibraryCall | OpaqueCall] = [*ctx.all_of(LibraryCall), *ctx.all_of(OpaqueCall)]
    if not any(ctx.all_of(OptimizerStep)) or any("seed" in call.name.lower() for call in calls):
        return
    if _seeds_when_imported(ctx) or _hands_on_a_seed(module.tree):
        return
    names = {each.id for each in nodes_of(module.tree).of(ast.Name)}
    for statement in module.tree.body:
        for alias in statement.names if isinstance(statement, ast.ImportFrom) else ():
            name = alias.asname or alias.name
            if "seed" not in name.lower() or name in names:
                continue
            if any(_seeds(function) for function in ctx.functions(alias.name, "seed")):
                yield name, Site(module, statement)


def _seeds_when_imported(ctx: Context) -> bool:
    """Whether a file of the program calls something at its top that seeds, by its name."""
    at_top = (each for _, tree in ctx.trees("seed") for each in tree.body if isinstance(each, ast.Expr))
    calls = (each.value.func for each in at_top if isinstance(each.value, ast.Call))
    return any("seed" in ast.unparse(called).lower() for called in calls)


def _hands_on_a_seed(tree: ast.Module) -> bool:
    """Whether a file gives a seed to something that it makes: ``make_env(name, seed=0)``."""
    given = (each for call in nodes_of(tree).of(ast.Call) for each in call.keywords if each.arg is not None)
    return any(
        "seed" in (each.arg or "") and not (isinstance(each.value, ast.Constant) and each.value.value is None)
        for each in given
    )


def _is_of_weights(event: LibraryCall, ctx: Context) -> bool:
    """Whether numbers are drawn for a row of a table that weights start from: ``vectors[i] = np.random.randn(300)``."""
    statement = next(ctx.ancestors(event.site, ast.Assign), None)
    table = statement.targets[0] if statement is not None else None
    is_row = isinstance(table, ast.Subscript) and not isinstance(table.slice, ast.Constant)
    return is_row and isinstance(table, ast.Subscript) and _OF_WEIGHTS.search(ast.unparse(table.value)) is not None


def _is_trained_by(ctx: Context) -> bool:
    """Whether the script steps an optimizer, also one that is not known, and nothing that it imports may seed."""
    if any(ctx.mentions(name, where="imported") for name in ("manual_seed", "seed_everything")):
        return False
    if any(True for _ in ctx.all_of(OptimizerStep)):
        return True
    nodes = nodes_of(ctx.program.module.tree)
    is_script = ctx.program.module.is_script or "__main__" in ctx.program.module.source.text
    return (
        is_script
        and all(name in nodes.attributes for name in ("backward", "step", "zero_grad"))
        and not any(ctx.mentions(name, where="elsewhere") for name in ("manual_seed", "seed_everything"))
    )


def _seeds_beside(functions: list[ast.FunctionDef], tree: ast.Module) -> bool:
    """Whether something in a file is called to seed, but for what some of its functions call."""
    inside = {id(node) for function in functions for node in ast.walk(function)}
    called = (node.func for node in nodes_of(tree).of(ast.Call) if id(node) not in inside)
    return any("seed" in getattr(each, "attr", getattr(each, "id", "")).lower() for each in called)


def _seeds(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr in _SEEDING for each in ast.walk(function))
