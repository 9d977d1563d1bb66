"""A file that `torch.load` refuses by default, or that may run any code when it is loaded.

Since torch 2.6, `torch.load` reads tensors, Python's numbers and texts, and plain containers (`weights_only=True`).
Whatever else was saved raises `UnpicklingError`: a whole model, `args`, a number that numpy computed. Training and
saving work; it is the resumed run, or the evaluation script, that stops. `weights_only=False` unpickles everything, and
with it runs whatever code the file holds.

Measured on torch 2.13: refused are whole modules, optimizers and schedulers, `argparse.Namespace`, `Path`,
`defaultdict`, `datetime`, objects of a project's classes, numpy's arrays and all numbers of `np.mean`, `np.max`,
`round(np.mean(x), 2)` or `np.mean(x) * 100`. Loaded are the state dicts of models, of all optimizers, of 13 schedulers
and of `GradScaler`, `vars(args)`, `float(np.mean(x))`, `OrderedDict`, `Counter` and sets.

## Bad
    best_acc = np.mean(accuracies)
    torch.save({"model": model.state_dict(), "best_acc": best_acc}, "best.pt")
    checkpoint = torch.load("best.pt")

## Good
    best_acc = np.mean(accuracies)
    torch.save({"model": model.state_dict(), "best_acc": float(best_acc)}, "best.pt")
    checkpoint = torch.load("best.pt")

## Not reported
Projects whose pins exclude torch 2.6 (also those of torchvision, or of Python), that name safe globals or that replace
`torch.load`; loads that are tried again with other arguments, or that depend on the version; values that may be plain
ones for all that is known, or that the same function saves under the opposite of the condition under which it uses them
as objects; numpy's random state that is put back, where no code stores it as it is. As a question only: code that still
uses what an earlier torch has taken away (`torch.ifft`). As a note only: `weights_only=False` where nothing that was
saved needs it.

## Fix (unsafe)
Converts a number of numpy with `float`, and lets a load of a whole object unpickle everything. Unsafe because that runs
the code in the file: do it for files you trust.

## On real code
138 public repositories, and 28 others that load the state of an optimizer: 173 findings in 21 of them, all true; 141
are in copies of one script. 6 questions were true, too. The 23 notes are in 4 repositories. In 127 others 6 findings:
4 true, 2 doubtful, in scripts that cannot run today for other reasons. What one script saves and
another loads was reported in both: it is reported once now.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumptions,
    Const,
    Context,
    Edits,
    Finding,
    Load,
    ObjectUse,
    Part,
    Program,
    Rule,
    Saved,
    Site,
    StateRead,
    Symbol,
    alternatives,
    assumed_under,
    replace_range,
    set_argument,
)

_SINCE = "2.6"


def torch_is_older(place: Site, ctx: Context) -> bool:
    """the project pins a torch before 2.6, which unpickles everything"""
    return not ctx.may_run_with("torch", _SINCE)


def told_to_unpickle_more(place: Site, ctx: Context) -> bool:
    """the project names safe globals, or replaces `torch.load`"""
    return ctx.unpickles_more


def tried_again(place: Site, ctx: Context) -> bool:
    """the load is tried in two ways, one where the other fails"""
    return ctx.is_retried(place)


class UnsafeTorchLoad(Rule):
    code = "DL718"
    name = "unsafe-torch-load"
    category = "correctness"
    severity = "warning"
    triggers = (("load", "save"), ("torch",))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/serialization.html#weights-only",)

    excuses = (torch_is_older, told_to_unpickle_more, tried_again)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        needed: set[int] = set()  # loads of what is refused by default
        for read in ctx.checkpoints.reads:
            used = ctx.checkpoints.object_use(read)
            if used is not None:
                needed.add(id(read.site.node))
                if _is_default(read, ctx) and not ctx.excused(self, read.site):
                    yield self._refused(read, used, ctx)
        for saved in ctx.checkpoints.saved:
            refused = [(part, why) for part in saved.parts if (why := ctx.checkpoints.refusal(part.value))]
            for part, why in refused[:1] if saved.event.function == "torch.save" else []:
                readers = ctx.readers(saved)
                others = [each for each in readers if id(each[0].site.node) not in needed]
                yield from self._check(saved, part, why, others, ctx)
                needed |= {id(read.site.node) for read, _ in readers}
        yield from self._notes(needed, ctx)

    def _check(
        self, saved: Saved, part: Part, why: str, readers: list[tuple[StateRead, Assumptions]], ctx: Context
    ) -> Iterator[Finding]:
        """What is saved and refused, if something loads it by default."""
        loads: list[tuple[StateRead | Load, Assumptions]] = [each for each in readers if _is_default(each[0], ctx)]
        if not loads and part.key:  # a load elsewhere that uses an object as one is reported there
            elsewhere = (load for load in ctx.loads_elsewhere(saved) if part.key not in load.objects)
            loads = [(load, ()) for load in elsewhere if load.is_default]
        for load, assumed in loads:
            if not ctx.excused(self, load.site):
                yield self._saved(saved, part, why, load, assumed, ctx)
                return

    def _refused(self, read: StateRead, used: ObjectUse, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            read,
            f"`torch.load` refuses this file by default: it is used as {used.what}",
            assuming=[*assumed_under(used.guards), *_assumed_late(read.site, ctx)],
            effect="since torch 2.6 only tensors and plain containers are unpickled, and this raises UnpicklingError",
            help="save and load a state dict, or pass `weights_only=False` for files you trust",
            trace=[(read.site, "this is loaded with `weights_only=True`"), (used.site, f"and is used as {used.what}")],
            fix=("Unpickle everything in this file", set_argument(read.site, "weights_only", "False")),
        )

    def _saved(
        self, saved: Saved, part: Part, why: str, load: StateRead | Load, assumed: Assumptions, ctx: Context
    ) -> Finding:
        place = saved.place_of(part)
        what = f"`{part.key}` is {why}" if part.key else f"this is {why}"
        return ctx.finding(
            self,
            place,
            f"{what}, which `torch.load` refuses by default",
            on=[
                saved.event,
                *([] if _is_best_so_far(part, ctx) else [part.given]),
                *([load] if isinstance(load, StateRead) else []),
            ],
            assuming=[*assumed, *_assumed_late(place, ctx)],
            effect="since torch 2.6 the checkpoint cannot be loaded: UnpicklingError",
            help=_way_to_load(why),
            trace=[(place, "this is saved"), (load.site, "and loaded here with `weights_only=True`")],
            fix=("Save it as a number of Python", _as_float(part, place, ctx) if place is not saved.site else Edits()),
        )

    def _notes(self, needed: set[int], ctx: Context) -> Iterator[Finding]:
        """Loads that may run any code, though nothing is known to need it."""
        for read in ctx.checkpoints.reads:
            given = ctx.argument(_result(read), None, "weights_only")
            if given is None or ctx.constant(given) is not False or id(read.site.node) in needed:
                continue
            yield ctx.finding(
                self,
                read,
                "`torch.load` runs whatever code the file holds, with `weights_only=False`",
                on=[given],
                effect="a checkpoint from elsewhere can do anything on this machine",
                help="pass `weights_only=True`: a state dict needs no more",
                fix=("Read nothing but weights", set_argument(read.site, "weights_only", "True")),
                severity="info",
            )


def _result(read: StateRead) -> Symbol:
    assert isinstance(read.result, Symbol)
    return read.result


def _is_default(read: StateRead, ctx: Context) -> bool:
    """Whether a load leaves it to torch what may be unpickled, in so many words or by saying nothing."""
    arguments = _result(read).arguments
    if (
        arguments is None
        or not arguments.exact
        or "pickle_module" in arguments.keywords
        or len(arguments.positional) > 2
    ):
        return False
    if any("version" in guard.subject or "weights_only" in guard.subject for guard in read.guards):
        return False
    given = arguments.get(None, "weights_only")
    return given is None or ctx.constant(given) is True


def _is_best_so_far(part: Part, ctx: Context) -> bool:
    """Whether the other things that a value may be are what it was before the loop: a constant, or kept from before."""
    others = [option for _, option in alternatives(part.given) if option is not part.value]
    return bool(others) and all(
        isinstance(option, Const)
        or (
            isinstance(option, Symbol) and option.name == "unknown" and all(isinstance(i, Const) for i in option.inputs)
        )
        for option in others
    )


def _way_to_load(why: str) -> str:
    if "numpy" in why:
        return "convert it with `float(...)` or `.tolist()` before it is saved"
    if "Namespace" in why:
        return "save `vars(args)`, which is a dict"
    return "save what it consists of (a state dict, texts, numbers), or load with `weights_only=False`"


def _as_float(part: Part, place: Site, ctx: Context) -> Edits:
    """Convert what is one number of numpy's for certain."""
    value = part.value
    is_number = isinstance(value, Symbol) and value.name in _NUMBERS and len(value.inputs) == 1 and "." not in part.key
    return replace_range(place, f"float({ctx.source_of(place)})") if is_number else Edits()


_NUMBERS = frozenset(("numpy.mean", "numpy.sum", "numpy.max", "numpy.min", "numpy.median", "numpy.std"))


def _assumed_late(place: Site, ctx: Context) -> Assumptions:
    """That the program gets to a place with a torch that refuses what is loaded."""
    return (*ctx.assumed_version("torch", _SINCE), *ctx.assumed_start(place))
