"""A checkpoint to resume from that has the model's weights, but not the state of the optimizer.

Momentum and Adam keep running averages of the gradients. A run that resumes without them starts with a cold optimizer:
the weights are those of epoch 30, the optimizer's memory is that of step 0, and Adam's first updates are as long as its
learning rate in every direction.

Measured on torch 2.13 (3-layer network, resumed after 5,000 steps of Adam, median of 5 seeds): the first update is 12.7
times as long as with the state restored, the training loss rises from .0159 to .0253 within 30 steps (.0163 with the
state), and after 200 steps it is still .0167 instead of .0138. With SGD and momentum the first update is .45 times as
long. SGD without momentum has no memory, and the difference is 0.

## Bad
    optimizer = optim.Adam(model.parameters())
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
    for epoch in range(epochs):
        train(model, loader, optimizer)
        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")

## Good
    optimizer = optim.Adam(model.parameters())
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(epochs):
        train(model, loader, optimizer)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Not reported
Weights that are saved for use rather than for resuming (nothing loads them before training goes on), programs that
save the optimizer anywhere else (in another file, as a whole object, by `accelerator.save_state`), optimizers without
memory, and loops that a framework runs. A dict of a model's state and an epoch that nothing is seen to resume from is
reported only when the rule is selected by name.

## Fix (unsafe)
Adds the optimizer's state to the dict, where both are named in one place. Unsafe because what loads the checkpoint has
to be changed with it: load the optimizer's state where the model's is loaded.

## On real code
742 public repositories: 79 findings in 38 of them, all but one true. One is doubtful: its `--resume` may be meant for
weights only. Checkpoints with an epoch that nothing is seen to resume from are reported only if the rule is selected
by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    SAVERS,
    Assumption,
    Context,
    Event,
    Finding,
    Fix,
    Function,
    Instance,
    OptimizerCreated,
    OptimizerStep,
    Part,
    Program,
    Rule,
    Saved,
    Site,
    StateRead,
    StateRestored,
    Symbol,
    Value,
    add_entry,
    is_bound_at,
    is_same_path,
    key_loaded,
    keys_read,
    path_texts,
    walk,
)

_OPTIMIZER = re.compile(r"opt(im|imi[sz]er)?s?(\b|_|\d)|optim|opt$", re.IGNORECASE)
_OPTIONS = re.compile(r"pars|arg|option|config|setting")
_PROGRESS = re.compile(r"epoch|step|iter", re.IGNORECASE)
_RESUMING = re.compile(r"resum|continu(e|ing)(\b|_)|restart(\b|_)", re.IGNORECASE)
_FOR_USE = re.compile(r"best|final|export|(\b|_)ema(\b|_)|pretrain|infer|deploy|release", re.IGNORECASE)
_SAVES_ALL = ("optim_state_dict", "get_optimizer_state_dict", "full_optim_state_dict")


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Why a checkpoint is one to resume from: where that is seen, and in words."""

    site: Site
    text: str


class IncompleteCheckpoint(Rule):
    code = "DL701"
    name = "incomplete-checkpoint"
    category = "suspicious"
    severity = "warning"
    triggers = ((*SAVERS, "state_dict", "load", "load_state_dict", "step"), SAVERS, ("state_dict", "load"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        saved = [each for each in ctx.checkpoints.saved if not ctx.is_managed(each.event)]
        models = [each for each in saved if _has_model(each, ctx) and not _is_doubtful(each)]
        optimizers = _optimizers(ctx)
        if not optimizers and not ctx.all_of(OptimizerCreated):
            yield from self._check_helpers(models, ctx)
        if not optimizers or not models:
            return
        complete = [each for each in saved if _holds_optimizer(each, optimizers, ctx)]
        elsewhere, saves_all = list(_saved_elsewhere(ctx)), _saves_all(ctx)
        is_complete = bool(complete or elsewhere) or saves_all
        is_alone = all(_has_model(each, ctx) for each in complete) and all(_is_whole(site, ctx) for site in elsewhere)
        reported: set[int] = set()
        for each in [] if saves_all else complete:
            missing = _left_out(each, optimizers, elsewhere, ctx) if each in models else []
            if missing and id(each.site.node) not in reported:
                reported.add(id(each.site.node))
                yield self._report(each, _Evidence(each.site, "another optimizer's state is in it"), missing, ctx)
        for each in [each for each in models if _progress_of(each)] or models:
            if id(each.site.node) in reported or any(each is other for other in complete):
                continue
            evidence = _missing_key(each, ctx)
            if evidence is None and is_alone and not saves_all:  # the optimizer has no file of its own
                evidence = _state_to_resume_from(each, ctx)
            if evidence is None and not is_complete:
                evidence = _resumption(each, ctx)
            if evidence is None and (is_complete or not _progress_of(each) or _is_for_use(each)):
                continue
            reported.add(id(each.site.node))
            yield self._report(each, evidence, optimizers, ctx)
            if not each.is_dict:
                return  # one finding for all models that are saved side by side

    def _check_helpers(self, models: list[Saved], ctx: Context) -> Iterator[Finding]:
        """Functions that save and load for training elsewhere: no file of the project writes an optimizer's state."""
        for each in models:
            evidence = _missing_key(each, ctx, everywhere=True)
            if evidence is None and not ctx.project_mentions(r"opt\w*\.state_dict\(") and not _saves_all(ctx):
                evidence = _state_to_resume_from(each, ctx) or _resumption_by_name(each, ctx)
            if evidence is not None:
                yield self._report(each, evidence, [], ctx)
                return

    def _report(self, saved: Saved, evidence: _Evidence | None, optimizers: list[Value], ctx: Context) -> Finding:
        name = (ctx.name_of(optimizers[0]) if optimizers else "") or "optimizer"
        missing = f"`{name}`" if len(optimizers) < 2 else "the optimizers"
        what = "the model's state" + (f" and `{_progress_of(saved)}`" if _progress_of(saved) else "")
        place = _place(saved, ctx)
        return ctx.finding(
            self,
            place,
            f"the checkpoint has {what}, but nothing of {missing}",
            effect="a run that resumes from it starts with a cold optimizer: its first updates have the wrong length "
            "and undo part of the training",
            help=f"save `{name}.state_dict()` with it, and load that where the model's state is loaded",
            trace=[(place, "this is saved"), *([(evidence.site, evidence.text)] if evidence is not None else [])],
            fixes=_fix(saved, optimizers[0], name, ctx) if len(optimizers) == 1 else [],
            severity=None if evidence is not None else "info",
            assuming=[] if evidence is not None else [Assumption("effect", "training is resumed from it")],
            pedantic=evidence is None,
        )


# ------------------------------------------------------------------------------------------------- what is saved


def _optimizers(ctx: Context) -> list[Value]:
    """The optimizers of the program that have a memory."""
    stepped = ctx.stepped_optimizers()
    created = [event for event in ctx.all_of(OptimizerCreated) if not ctx.is_managed(event)]
    return [each for each in stepped or [event.optimizer for event in created] if not _is_memoryless(each, ctx)]


def _is_memoryless(optimizer: Value, ctx: Context) -> bool:
    if not isinstance(optimizer, Instance):
        return False
    if optimizer.library_name == "torch.optim.LBFGS":
        return True  # it learns the curvature anew in a few evaluations
    momentum = ctx.argument(optimizer, 2, "momentum")
    return optimizer.library_name == "torch.optim.SGD" and (momentum is None or ctx.constant(momentum) == 0)


def _has_model(saved: Saved, ctx: Context) -> bool:
    """Whether a checkpoint has a model's state, or a whole model in a dict."""
    for part in saved.parts:
        if ctx.checkpoints.kind(part.value) == "module" and (part.key or _is_state(part.value)):
            return True
        if part.key and not _is_state(part.value) and _is_trained(part.value, ctx):
            return True
        if part.key and any(_is_state(s) and ctx.checkpoints.kind(s) == "module" for s in ctx.sources(part.value)):
            return True  # what something made of it: ``to_cpu(model.state_dict())``
    return False


def _is_state(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name == "state_dict"


def _is_trained(value: Value, ctx: Context) -> bool:
    """Whether a value is a model that an optimizer has the parameters of."""
    return any(ctx.is_same(value, model) for step in ctx.steps() for model in ctx.parameters_of(step.optimizer)[0])


def _place(saved: Saved, ctx: Context) -> Site:
    """The model's entry, where it stands in the dict that is saved; else what is saved."""
    for part in saved.parts:
        site = part.value.site
        if saved.is_dict and site is not None and ctx.checkpoints.kind(part.value) == "module":
            return site if ctx.is_within(site, saved.site) else saved.site
    return saved.site


def _progress_of(saved: Saved) -> str:
    return next((part.key for part in saved.parts if _PROGRESS.search(part.key)), "")


def _holds_optimizer(saved: Saved, optimizers: list[Value], ctx: Context) -> bool:
    for part in saved.parts:
        kind = ctx.checkpoints.kind(part.value)
        if kind == "optimizer":
            return True
        is_of_other = _is_state(part.value) and kind != ""  # a scheduler leads to its optimizer; its state does not
        if not is_of_other and any(ctx.reaches(part.value, optimizer) for optimizer in optimizers):
            return True
    return False


def _left_out(saved: Saved, optimizers: list[Value], elsewhere: list[Site], ctx: Context) -> list[Value]:
    """The optimizers whose state is not in a checkpoint that has the model they train and another optimizer's state.

    They take steps in the loop in which it is written, and nothing keeps their state under their name elsewhere.
    """
    of_optimizers = [part.value for part in saved.parts if ctx.checkpoints.kind(part.value) == "optimizer"]
    if not of_optimizers or any(not _belongs(value, optimizers, ctx) for value in of_optimizers):
        return []  # one that is not known may be any of them
    models = [part.value for part in saved.parts if ctx.checkpoints.kind(part.value) == "module"]
    loops = ctx.loops_around(saved.event)
    steps = [step for step in ctx.steps() if not set(map(id, loops)).isdisjoint(map(id, ctx.loops_around(step)))]
    kept = {ast.unparse(site.node).rpartition(".state_dict")[0].rpartition(".")[2] for site in elsewhere}
    return [
        optimizer
        for optimizer in optimizers
        if not any(ctx.reaches(part.value, optimizer) for part in saved.parts)
        and any(ctx.is_same(step.optimizer, optimizer) and not ctx.never_both(step, saved.event) for step in steps)
        and any(ctx.reaches(model, trained) for model in models for trained in ctx.parameters_of(optimizer)[0])
        and ctx.name_of(optimizer) not in {"", *kept}
    ]


def _belongs(state: Value, optimizers: list[Value], ctx: Context) -> bool:
    """Whether a state is that of one of some optimizers."""
    return any(ctx.reaches(state, optimizer) for optimizer in optimizers)


def _is_doubtful(saved: Saved) -> bool:
    """Whether something in a checkpoint could be the optimizer's state for all that is known."""
    return not saved.exact or any(_is_open(part) for part in saved.parts)


def _is_open(part: Part) -> bool:
    if not isinstance(part.value, Symbol):
        return False
    if _OPTIMIZER.search(part.key) and part.value.name != "state_dict":
        made_by = part.value.inputs[0] if part.value.inputs else None
        return not (isinstance(made_by, Function) and _OPTIONS.search(made_by.name))  # {"opt": parse_options()}
    return not part.key and part.value.name != "state_dict"


def _saved_elsewhere(ctx: Context) -> Iterator[Site]:
    """Where code that belongs to the program takes an optimizer's state to keep it, not to look a rate up in it."""
    for site in ctx.method_calls("state_dict"):
        receiver = ast.unparse(site.node).rpartition(".state_dict")[0]
        if _OPTIMIZER.search(receiver) and not ctx.text_behind(site).startswith("["):
            yield site


def _saves_all(ctx: Context) -> bool:
    return any(ctx.method_calls("save_state")) or any(True for name in _SAVES_ALL for _ in ctx.trees(name))


def _is_whole(site: Site, ctx: Context) -> bool:
    """Whether an optimizer's state stands in a dict beside those of others: a checkpoint of its own."""
    return sum(ast.unparse(value).endswith(".state_dict()") for value in ctx.entries_beside(site)) > 1


# --------------------------------------------------------------------------------------------- that it is resumed


def _missing_key(saved: Saved, ctx: Context, *, everywhere: bool = False) -> _Evidence | None:
    """Code that loads an optimizer's state from a key under which nothing is saved: run here, or in the same file."""
    if not saved.is_dict:
        return None
    run = {id(restored.event.site.node) for restored in ctx.checkpoints.restored}
    for site in ctx.method_calls("load_state_dict"):
        if id(site.node) not in run and site.module is not saved.site.module:
            continue
        assert isinstance(site.node, ast.Call)
        key = key_loaded(site.node)
        is_optimizers = key and _OPTIMIZER.search(ast.unparse(site.node.func))
        if is_optimizers and not ctx.is_entry_written(key, everywhere=everywhere):
            return _Evidence(site, f"`{key}` is read from it here")
    return None


def _state_to_resume_from(saved: Saved, ctx: Context) -> _Evidence | None:
    """What is in a checkpoint only to go on from it: a scheduler's or gradient scaler's state."""
    for part in saved.parts:
        if ctx.checkpoints.kind(part.value) in ("scheduler", "scaler") and part.value.site is not None:
            return _Evidence(part.value.site, f"the {ctx.checkpoints.kind(part.value)}'s state is saved to resume from")
    return None


def _resumption_by_name(saved: Saved, ctx: Context) -> _Evidence | None:
    """A function of the same file that, by its name, resumes, and loads an entry of the checkpoint."""
    keys = {part.key for part in saved.parts if part.key}
    for site in ctx.method_calls("load_state_dict"):
        assert isinstance(site.node, ast.Call)
        if site.module is saved.site.module and key_loaded(site.node) in keys and _RESUMING.search(ctx.scope(site)):
            return _Evidence(site, "training resumes from it here")
    return None


def _resumption(saved: Saved, ctx: Context) -> _Evidence | None:
    """Code that reads a checkpoint back before it trains on."""
    if _is_before_training(saved, ctx):
        return None  # the weights that training begins with, to be put back
    for event, read in _loads(saved, ctx):
        if not ctx.consistent(event.guards, saved.event.guards):
            continue  # it is trained, or else taken from an earlier run as it is
        if _is_read_back(event, saved, ctx):
            continue
        model = event.target if isinstance(event, StateRestored) else None
        steps = [step for step in ctx.steps() if model is None or _may_train(step.optimizer, model, ctx)]
        if _may_be(saved, read, ctx) and ctx.checkpoints.is_before_training(event, steps):
            return _Evidence(event.site, "training resumes from it here")
    return None


def _is_read_back(event: Event, saved: Saved, ctx: Context) -> bool:
    """Whether a run reads what it has itself written before, once, further up in the same function or notebook."""
    if event.frame is not saved.event.frame or ctx.loops_around(saved.event):
        return False
    return ctx.events.index(saved.event) < ctx.events.index(event)


def _may_train(optimizer: Value, model: Value, ctx: Context) -> bool:
    modules, _ = ctx.parameters_of(optimizer)
    if not modules:
        return len(ctx.stepped_optimizers()) == 1
    return any(ctx.reaches(model, module) or ctx.reaches(module, model) for module in modules)


def _loads(saved: Saved, ctx: Context) -> Iterator[tuple[Event, StateRead]]:
    """Where a model's state, or a whole model, is taken from a file as this checkpoint has it."""
    for restored in ctx.checkpoints.restored:
        keys = {part.key for part in saved.parts if _is_state_of(part, restored.event.target, ctx)}
        if restored.key in keys or (keys and not restored.key):
            yield restored.event, restored.read
    whole = {part.key for part in saved.parts if part.key and _is_trained(part.value, ctx)}
    for event in ctx.events:
        if isinstance(event, StateRead) and whole & keys_read(event):
            yield event, event


def _may_be(saved: Saved, read: StateRead, ctx: Context) -> bool:
    """Whether what is read is an earlier one of these checkpoints, rather than weights from somewhere else."""
    if is_same_path(saved.event.path, read.path):
        return True
    if _is_for_use(saved) or not _is_amid_training(saved, ctx):
        return False
    return _is_resuming(read) or (saved.is_dict and any(_PROGRESS.search(key) for key in keys_read(read)))


def _is_state_of(part: Part, target: Value, ctx: Context) -> bool:
    return _is_state(part.value) and ctx.is_same(part.value.inputs[0], target)  # type: ignore[attr-defined]


def _is_resuming(read: StateRead) -> bool:
    """Whether the names on the way to a load speak of resuming: an option, a condition, a function."""
    texts = [guard.subject for guard in read.guards]
    texts.extend(frame.function for frame in read.frame.stack())
    texts.extend(path_texts(read.path))
    return any(_RESUMING.search(text) for text in texts)


def _is_amid_training(saved: Saved, ctx: Context) -> bool:
    """Whether a checkpoint is written again and again while training goes on, rather than once at the end."""
    loops = (loop for loop in ctx.loops_around(saved.event) if not ctx.is_of_runs(loop))
    return any(isinstance(event, OptimizerStep) for loop in loops for event in walk(loop.body))


def _is_before_training(saved: Saved, ctx: Context) -> bool:
    """Whether a checkpoint is written before the first optimizer step."""
    first = next((event for event in ctx.events if event is saved.event or isinstance(event, OptimizerStep)), None)
    return first is saved.event and bool(ctx.steps()) and not _is_amid_training(saved, ctx)


def _is_for_use(saved: Saved) -> bool:
    """Whether the names a checkpoint is saved under speak of a result rather than of a state to go on from."""
    texts = [frame.function for frame in saved.event.frame.stack()]
    return any(_FOR_USE.search(text) for text in (*texts, *path_texts(saved.event.path)))


# --------------------------------------------------------------------------------------------------------- the fix


def _fix(saved: Saved, optimizer: Value, name: str, ctx: Context) -> list[Fix]:
    """Add an entry to a dict literal, where the optimizer goes by a name there."""
    spelling = _spelling(saved, optimizer, name)
    key = "optimizer" if all(part.key != "optimizer" for part in saved.parts) else name
    edits = add_entry(saved.site, key, f"{spelling}.state_dict()") if spelling else ()
    return [Fix(f"Save the state of `{name}`, too", edits, "unsafe")] if edits else []


def _spelling(saved: Saved, optimizer: Value, name: str) -> str:
    """How the optimizer is written where the checkpoint is put together."""
    receiver = saved.event.frame.receiver
    if isinstance(receiver, Instance):
        return next((f"self.{key}" for key, value in receiver.attributes.items() if value is optimizer), "")
    return name if is_bound_at(saved.site, name, optimizer.site) else ""
