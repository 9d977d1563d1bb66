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
Weights that are saved for use rather than for resuming (nothing loads them before training goes on), programs that save
the optimizer anywhere else (in another file, as a whole object, by `accelerator.save_state`), optimizers without
memory, or made anew in each epoch, and loops that a framework runs; a phase that is over, such as a pretraining, where
what goes on from it has an optimizer of its own; weights that are put back within a run, or loaded for fine-tuning, as
a name, a help text or a comment says; weights that are saved at the end of a schedule, which each run begins anew; a
dict in which a comment has the optimizer's state, or of which a run looks up a key that nothing writes. Where a help
text or a message of the script says that the optimizer starts again, it is a question. A dict of a model's state and an
epoch that nothing is seen to resume from is reported only when the rule is selected by name.

## Fix (unsafe)
Adds the optimizer's state to the dict, where both are named in one place. Unsafe because what loads the checkpoint has
to be changed with it: load the optimizer's state where the model's is loaded.

## On real code
742 public repositories: 79 findings in 38 of them, all but one true. One is doubtful: its `--resume` may be meant for
weights only. Checkpoints with an epoch that nothing is seen to resume from are reported only if the rule is selected
by name. In 46 others 16, all false and all in near-copies of one script, whose `--resume` names the weights of another
network: a program that begins a second model from nothing does not resume, and is silent now. In others that were read
later, 65 of 91 were true, 6 false and 20 doubtful: best weights that begin a run of their own, files that no run takes
up, and scripts that fail before they save. Of these, 61 true ones and 7 doubtful ones are still reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    SAVERS,
    Assumption,
    Assumptions,
    Context,
    Edits,
    Finding,
    Function,
    Instance,
    OptimizerCreated,
    Part,
    Program,
    Rule,
    Saved,
    Site,
    Symbol,
    Value,
    add_entry,
    is_bound_at,
    key_loaded,
    receiver_of,
)

_IS_NO_WARM_START = Assumption("effect", "the optimizer is to go on as well, of which a text says that it does not")
_IS_RESUMED = Assumption("effect", "the best weights are where the run goes on, not where another one begins")
_SAVES_ALL = ("optim_state_dict", "get_optimizer_state_dict", "full_optim_state_dict")


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Why a checkpoint is one to resume from: where that is seen, in words, and the values that tell it."""

    site: Site
    text: str
    assumptions: Assumptions = ()
    values: tuple[Value, ...] = ()


def saved_by_a_framework(place: Site, saved: Saved, ctx: Context) -> bool:
    """a framework runs the loop, and saves the optimizer itself"""
    return ctx.is_managed(saved.event)


def perhaps_complete(place: Site, saved: Saved, ctx: Context) -> bool:
    """something in the checkpoint could be the optimizer's state for all that is known"""
    return not saved.exact or any(_is_open(part, ctx) for part in saved.parts)


def is_of_a_part(site: Site, saved: Saved, ctx: Context) -> bool:
    """it is a part of the model, such as its head, which nobody goes on training from"""
    return ctx.is_of_a_part(saved)


def is_left_out_by_hand(place: Site, saved: Saved, ctx: Context) -> bool:
    """a comment in it has the optimizer's state: somebody has taken that out"""
    return any("state_dict" in text and "optim" in text for text in ctx.comments_in(place))


class IncompleteCheckpoint(Rule):
    code = "DL701"
    name = "incomplete-checkpoint"
    category = "suspicious"
    severity = "warning"
    triggers = ((*SAVERS, "state_dict", "load", "load_state_dict", "step"), SAVERS, ("state_dict", "load"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",)

    excuses = (saved_by_a_framework, perhaps_complete, is_of_a_part, is_left_out_by_hand)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        saved = [each for each in ctx.checkpoints.saved if not ctx.is_managed(each.event)]
        every = [each for each in ctx.checkpoints.saved if _has_model(each, ctx)]
        models = [each for each in every if not ctx.excused(self, each.site, each)]
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
            if missing:
                reported.add(id(each.site.node))
                yield self._report(each, _Evidence(each.site, "another optimizer's state is in it"), missing, ctx)
        told: Saved | None = None  # one finding for all models that are saved side by side
        for each in [each for each in models if ctx.progress_in(each)] or models:
            is_beside = told is not None and told.site.node is not each.site.node
            if is_beside or id(each.site.node) in reported or any(each is other for other in complete):
                continue
            evidence = _missing_key(each, ctx)
            if evidence is None and is_alone and not saves_all:  # the optimizer has no file of its own
                evidence = _state_to_resume_from(each, ctx)
            if evidence is None and not is_complete:
                evidence = _resumption(each, ctx)
            if evidence is None and (is_complete or not ctx.progress_in(each) or ctx.is_for_use(each)):
                continue
            yield self._report(each, evidence, optimizers, ctx)
            if not each.is_dict:
                told = each

    def _check_helpers(self, models: list[Saved], ctx: Context) -> Iterator[Finding]:
        """Functions that save and load for training elsewhere: no file of the project writes an optimizer's state."""
        for each in models:
            evidence = _missing_key(each, ctx, everywhere=True)
            is_saved = any(ctx.method_calls("state_dict", about="optimizer", everywhere=True))
            if evidence is None and not is_saved and not _saves_all(ctx):
                evidence = _state_to_resume_from(each, ctx) or _resumption_by_name(each, ctx)
            if evidence is not None:
                yield self._report(each, evidence, [], ctx)
                return

    def _report(self, saved: Saved, evidence: _Evidence | None, optimizers: list[Value], ctx: Context) -> Finding:
        name = (ctx.name_of(optimizers[0]) if optimizers else "") or "optimizer"
        missing = f"`{name}`" if len(optimizers) < 2 else "the optimizers"
        progress = ctx.progress_in(saved)
        what = "the model's state" + (f" and `{progress}`" if progress else "")
        place = _place_of_model(saved, ctx)
        assumed = evidence.assumptions if evidence else (Assumption("effect", "training is resumed from it"),)
        assumed = (*assumed, _IS_NO_WARM_START) if ctx.says_optimizer_starts_again else assumed
        return ctx.finding(
            self,
            place,
            f"the checkpoint has {what}, but nothing of {missing}",
            on=[saved.event, *(part.given for part in _states_in(saved, ctx)), *(evidence.values if evidence else ())],
            assuming=assumed,
            effect="a run that resumes from it starts with a cold optimizer: its first updates have the wrong length "
            "and undo part of the training",
            help=f"save `{name}.state_dict()` with it, and load that where the model's state is loaded",
            trace=[(place, "this is saved"), *([(evidence.site, evidence.text)] if evidence is not None else [])],
            fix=(
                f"Save the state of `{name}`, too",
                _with_optimizer(saved, optimizers[0], name) if len(optimizers) == 1 else Edits(),
            ),
            severity=None if evidence is not None else "info",
            pedantic=evidence is None,
        )


# ------------------------------------------------------------------------------------------------- what is saved


def _optimizers(ctx: Context) -> list[Value]:
    """The optimizers of the program that have a memory, which outlives an epoch."""
    stepped = ctx.stepped_optimizers()
    created = [event for event in ctx.all_of(OptimizerCreated) if not ctx.is_managed(event)]
    brief = [event.optimizer for event in created if _is_made_in_each_epoch(event, ctx)]
    known = stepped or [event.optimizer for event in created]
    return [each for each in known if not _is_memoryless(each, ctx) and not any(each is other for other in brief)]


def _is_made_in_each_epoch(event: OptimizerCreated, ctx: Context) -> bool:
    """Whether an optimizer is made anew in the loop over the epochs, or further in."""
    loops = ctx.loops_around(event)[:1]
    steps = (step for step in ctx.steps() if ctx.is_same(step.optimizer, event.optimizer))
    return any(loop in ctx.loops_around(step)[:2] for step in steps for loop in loops)


def _is_memoryless(optimizer: Value, ctx: Context) -> bool:
    if not isinstance(optimizer, Instance):
        return False
    if optimizer.library_name == "torch.optim.LBFGS":
        return True  # it learns the curvature anew in a few evaluations
    momentum = ctx.argument(optimizer, 2, "momentum")
    return optimizer.library_name == "torch.optim.SGD" and (momentum is None or ctx.constant(momentum) == 0)


def _has_model(saved: Saved, ctx: Context) -> bool:
    """Whether a checkpoint has a model's state, or a whole model in a dict."""
    whole = (part for part in saved.parts if part.key and not _is_state_dict(part.value) and ctx.is_trained(part.value))
    return any(whole) or any(_states_in(saved, ctx))


def _states_in(saved: Saved, ctx: Context) -> Iterator[Part]:
    """The parts of a checkpoint that are a model's state, or made of one: ``to_cpu(model.state_dict())``."""
    for part in saved.parts:
        is_model = ctx.checkpoints.kind(part.value) == "module" and (part.key or _is_state_dict(part.value))
        made_of = ctx.sources(part.value) if part.key and not is_model else ()
        if is_model or any(_is_state_dict(source) and ctx.checkpoints.kind(source) == "module" for source in made_of):
            yield part


def _is_state_dict(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name == "state_dict"


def _place_of_model(saved: Saved, ctx: Context) -> Site:
    """The model's entry, where it stands in the dict that is saved; else what is saved."""
    for part in saved.parts:
        site = part.value.site
        if saved.is_dict and site is not None and ctx.checkpoints.kind(part.value) == "module":
            return site if ctx.is_within(site, saved.site) else saved.site
    return saved.site


def _holds_optimizer(saved: Saved, optimizers: list[Value], ctx: Context) -> bool:
    for part in saved.parts:
        kind = ctx.checkpoints.kind(part.value)
        if kind == "optimizer":
            return True
        is_of_other = (
            _is_state_dict(part.value) and kind != ""
        )  # a scheduler leads to its optimizer; its state does not
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
    loops = [loop for loop in ctx.loops_around(saved.event) if not ctx.is_of_runs(loop)]
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


def _is_open(part: Part, ctx: Context) -> bool:
    if not isinstance(part.value, Symbol):
        return False
    if ctx.speaks_of("optimizer", part.key) and part.value.name != "state_dict":
        made_by = part.value.inputs[0] if part.value.inputs else None
        return not (isinstance(made_by, Function) and ctx.speaks_of("options", made_by.name))
    return not part.key and part.value.name != "state_dict"


def _saved_elsewhere(ctx: Context) -> Iterator[Site]:
    """Where code that belongs to the program takes an optimizer's state to keep it, not to look a rate up in it."""
    for site in ctx.method_calls("state_dict", about="optimizer"):
        looked_up = next((node for node in ctx.ancestors(site, ast.Subscript) if node.value is site.node), None)
        if looked_up is None:
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
        if (
            key
            and ctx.speaks_of("optimizer", receiver_of(site.node))
            and not ctx.is_entry_written(key, everywhere=everywhere)
        ):
            return _Evidence(site, f"`{key}` is read from it here")
    return None


def _state_to_resume_from(saved: Saved, ctx: Context) -> _Evidence | None:
    """What is in a checkpoint only to go on from it: a scheduler's or gradient scaler's state."""
    for part in saved.parts:
        if ctx.checkpoints.kind(part.value) in ("scheduler", "scaler") and part.value.site is not None:
            text = f"the {ctx.checkpoints.kind(part.value)}'s state is saved to resume from"
            return _Evidence(part.value.site, text, values=(part.given,))
    return None


def _resumption_by_name(saved: Saved, ctx: Context) -> _Evidence | None:
    """A function of the same file that, by its name, resumes, and loads an entry of the checkpoint."""
    keys = {part.key for part in saved.parts if part.key}
    for site in ctx.method_calls("load_state_dict"):
        assert isinstance(site.node, ast.Call)
        if (
            site.module is saved.site.module
            and key_loaded(site.node) in keys
            and ctx.speaks_of("resuming", ctx.scope(site))
        ):
            assumed = Assumption("name", f"`{ctx.scope(site)}` resumes training, as its name says")
            return _Evidence(site, "training resumes from it here", (assumed,))
    return None


def _resumption(saved: Saved, ctx: Context) -> _Evidence | None:
    """Code that reads the checkpoint back before it trains on."""
    found = ctx.resumption(saved)
    if found is None or ctx.fails_to_read(saved, found.read) or ctx.ends_a_schedule(saved):
        return None
    assumed = (*found.assumptions, _IS_RESUMED) if ctx.begins_from_best(saved, found) else found.assumptions
    return _Evidence(found.event.site, "training resumes from it here", assumed, found.values)


# --------------------------------------------------------------------------------------------------------- the fix


def _with_optimizer(saved: Saved, optimizer: Value, name: str) -> Edits:
    """Add an entry to a dict literal, where the optimizer goes by a name there."""
    spelling = _spelling(saved, optimizer, name)
    return add_entry(saved.site, "optimizer", f"{spelling}.state_dict()") if spelling else Edits()


def _spelling(saved: Saved, optimizer: Value, name: str) -> str:
    """How the optimizer is written where the checkpoint is put together."""
    receiver = saved.event.frame.receiver
    if isinstance(receiver, Instance):
        return next((f"self.{key}" for key, value in receiver.attributes.items() if value is optimizer), "")
    return name if is_bound_at(saved.site, name, optimizer.site) else ""
