"""A state dict that is kept without a copy, and so follows the weights.

`model.state_dict()` does not copy: its tensors are the parameters themselves. `best = model.state_dict()` in the best
epoch is, an epoch later, the state of that later epoch. What is loaded or saved in the end as the best model is the
last one, and the selection by validation was for nothing. An average of the weights that is begun with the parameters
themselves, `[p.data for p in model.parameters()]`, is the model, and what is added to it is added to that. So is the
`shadow` of a class that decays its entries in place.

Measured on torch 2.13: after one step of SGD, all 4 tensors of a kept `state_dict()` equal the new weights, as they do
with `.copy()`, `dict(...)` and `OrderedDict(...)`, which copy the dict alone, and with `{k: v.detach() ...}`; none does
after `copy.deepcopy`. After 60 epochs on noisy labels (mean of 5 seeds) the model restored from it has a test loss of
1.18, that of the last epoch; the best epoch has .75. An average with a decay of .999 that was begun with `p.data` has
the very weights after 100 steps.

## Bad
    best_loss = float("inf")
    for epoch in range(epochs):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        loss = validate(model)
        if loss < best_loss:
            best_loss, best = loss, model.state_dict()
    model.load_state_dict(best)

## Good
    best_loss = float("inf")
    for epoch in range(epochs):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        loss = validate(model)
        if loss < best_loss:
            best_loss, best = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)

## Not reported
States that are copied (`deepcopy`, `clone`), used before the next step, or of a model that no known optimizer trains;
states that are taken once and saved again and again, which are the current ones on purpose; the best of several models
that a loop makes and trains one after the other, there or in a function; what a variable only begins with, if the
training loop puts copies in its place; sharded models, whose state is gathered; the newest of states that are collected
in a list; that of the only epoch, but for a question where the 1 is a setting (`EPOCHS = 1`); a function that takes the
state anew in each call that saves it. It is a question where a script loads it into a model with which nothing is done
after that, or which gets another state first: as a rule, the best was saved to a file as well.

## Fix (unsafe)
Clones the tensors. Unsafe because another model is kept then: the best.

## On real code
269 public repositories, of which 41 keep a state dict in a variable: 1 finding, true. Of 4 questions two are true, one
is false (the state is saved in the iteration in which it is taken) and one is doubtful. Steps of one of several
optimizers add none in 523. Averages that are the weights themselves: no finding in 763. Classes that decay them in
place: none in 259 of 800, those that have the words. As they were read in 1,400 more, 21 of 31 were true, 4 false and 6
doubtful; of these ten one is left, and three are questions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Event,
    Finding,
    Instance,
    Items,
    OptimizerCreated,
    OptimizerStep,
    Part,
    Program,
    Rule,
    Saved,
    Site,
    StateRestored,
    StateSaved,
    StateTaken,
    Symbol,
    Table,
    Value,
    alternatives,
    assumed_under,
    nodes_of,
    replace_range,
)

_IS_USED = Assumption("effect", "somebody uses the model after that, which nothing here does")
_SHARDED = ("FullyShardedDataParallel", "FSDP", "fully_shard", "deepspeed")
_CHOSEN = ("min", "max", "sorted", "item")


def is_gathered(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """the model is sharded, and its state is gathered from all processes"""
    return any(ctx.mentions(word, where="here") for word in _SHARDED)


def is_meant_to_follow(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """it is taken unconditionally, or where it is saved, and then saved: the current weights are meant"""
    if is_collected(taken, ctx):
        return False
    if not isinstance(use, StateSaved) or not ctx.conditions_beyond(taken, use):
        return isinstance(use, StateSaved)
    is_here = taken.frame is use.frame and list(ctx.loops_around(taken)) == list(ctx.loops_around(use))
    return is_here and not any(ctx.position(taken) < ctx.position(step) < ctx.position(use) for step in ctx.steps())


def is_saved_at_once(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """it is taken in the call that saves it, whichever of several states it is"""
    if not isinstance(use, StateSaved) or ctx.is_within(taken.site, use.site):
        return isinstance(use, StateSaved)
    around = [each for each in use.frame.stack() if each.call is not None and ctx.is_within(taken.site, each.call)]
    return any(all(frame not in step.frame.stack() for step in ctx.steps()) for frame in around)


def is_of_this_turn(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """it is put into a dict that each turn of the loop makes anew, and saved before the next step"""
    content, loops = use.content if isinstance(use, StateSaved) else None, ctx.loops_around(taken)
    if not isinstance(content, Table | Instance) or content.site is None or not loops:
        return False  # a choice may still be the dict of an earlier turn
    is_new = any(ctx.is_within(content.site, each) for each in (loops[0].site, *ctx.entered_in(loops[0])))
    is_here = is_new and loops[0] in ctx.loops_around(use)
    return is_here and not any(ctx.position(taken) < ctx.position(step) < ctx.position(use) for step in ctx.steps())


def is_taken_anew(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """another call of the function that takes it saves one, which it takes anew before that"""
    if not isinstance(use, StateSaved) or taken.frame is use.frame:
        return False
    here = [
        each for each in ctx.all_of(StateTaken) if each.frame is use.frame and ctx.is_same(each.target, taken.target)
    ]
    fresh = [
        each
        for each in here
        if ctx.position(each) < ctx.position(use)
        and not any(ctx.position(each) < ctx.position(step) < ctx.position(use) for step in ctx.steps())
    ]
    again = next((each for each in fresh if each.site.node is taken.site.node), None)
    if again is None:
        return False
    return not ctx.conditions_beyond(again, use) or any(ctx.exclusive(again, other) for other in fresh)


def is_newest(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """states are collected in a list, and the newest of them is taken: those are the current weights"""
    parts = (each for each in ast.walk(use.site.node) if isinstance(each, ast.Subscript))
    return any(ast.unparse(each.slice) == "-1" for each in parts) and is_collected(taken, ctx)


def is_first_value(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """a variable only begins with it, and the training loop puts copies into its place"""
    around = {id(loop) for step in ctx.steps() for loop in ctx.loops_around(step)}
    if any(id(loop) in around for loop in ctx.loops_around(taken)):
        return False
    alike = (each for each in ctx.all_of(type(use)) if each.frame is use.frame and _keeps(each, taken, ctx))
    others = [each for other in alike for each in _used(other, ctx) if ctx.state_behind(each) is not taken.state]
    return any(isinstance(value, Symbol | Table) for value in others)


def is_of_the_only_epoch(taken: StateTaken, use: Event, ctx: Context) -> bool:
    """every loop around it goes round once, so that no step comes after it"""
    return _is_in_one_turn(taken, ctx) and not _numbers_to_change(taken, ctx)


def _is_in_one_turn(taken: StateTaken, ctx: Context) -> bool:
    loops = ctx.loops_around(taken)
    return bool(loops) and all(map(ctx.goes_round_once, loops))


def _numbers_to_change(taken: StateTaken, ctx: Context) -> list[str]:
    """The names of numbers of turns that a file has at its top (``EPOCHS = 1``): they are there to be changed."""
    counts = map(ctx.loop_count, ctx.loops_around(taken))
    sites = [count.site for count in counts if count is not None and count.site is not None]
    outside = [
        site for site in sites if not any(ctx.ancestors(site, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    ]
    written = [next(ctx.ancestors(site, ast.stmt, ast.Call), None) for site in outside]
    bound = (each.targets[0] for each in written if isinstance(each, ast.Assign))
    return [ast.unparse(target) for target in bound if isinstance(target, ast.Name)]


class AliasedBestStateDict(Rule):
    code = "DL719"
    name = "aliased-best-state-dict"
    category = "correctness"
    severity = "error"
    triggers = (("state_dict", "step"), ("state_dict",), ("load_state_dict", "save"), ("step",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",)

    excuses = (is_meant_to_follow, is_saved_at_once, is_of_this_turn, is_taken_anew, is_gathered, is_newest,
               is_first_value, is_of_the_only_epoch)  # fmt: skip

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        taken = [event for event in ctx.all_of(StateTaken) if ctx.guessed_role(event.target) in ("module", "wrapper")]
        for event in sorted(taken, key=lambda each: -len(ctx.loops_around(each))):
            uses = [
                use
                for use in ctx.all_of(StateRestored, StateSaved)
                if _keeps(use, event, ctx) or _is_of_earlier_turn(use, event, ctx)
            ]
            for use in [use for use in uses if id(use.site.node) not in reported]:
                steps = _steps_between(event, use, ctx)
                if not steps or id(event.site.node) in reported or ctx.excused(self, event, use):
                    continue
                reported |= {id(event.site.node), *(id(each.site.node) for each in uses)}
                for step in steps:  # of each optimizer that it may be: whichever it is, the weights change
                    yield self._report(event, use, step, ctx)
        for saved in ctx.checkpoints.saved:
            for part in saved.parts:
                average = _average_of_itself(part, saved, ctx)
                if average is not None:
                    yield self._report_average(part, saved, average, ctx)

        for shared in ctx.averages_of_themselves():
            for step in [each for each in ctx.steps() if ctx.may_train(each.optimizer, shared.model)][:1]:
                trace = [(shared.kept, "they are kept here, without a copy"), (shared.update, "and updated in place")]
                yield self._report_shared(shared.kept, step, trace, "{n: p.detach().clone() for n, p in …}", ctx)

    def _report_average(self, part: Part, saved: Saved, step: OptimizerStep, ctx: Context) -> Finding:
        made = [(part.value.site, "they are listed here, without a copy")] if part.value.site is not None else []
        trace = [*made, (step.site, "the weights change in place"), (saved.site, "and what was kept is saved")]
        copy = "[p.detach().clone() for p in model.parameters()]"
        return self._report_shared(saved.place_of(part), saved.event, trace, copy, ctx, *assumed_under(part.guards))

    def _report_shared(
        self, place: Site, event: Event, trace: list[tuple[Site, str]], copy: str, ctx: Context, *assumed: Assumption
    ) -> Finding:
        return ctx.finding(
            self,
            place,
            "this average of the weights has the model's own tensors: it follows them as they are trained",
            on=[event],
            assuming=assumed,
            effect="what counts as the average are the last weights, and each step that averages changes the model",
            help=f"keep copies of them: `{copy}`",
            trace=trace,
        )

    def _report(self, taken: StateTaken, use: Event, step: OptimizerStep, ctx: Context) -> Finding:
        verb = "loaded" if isinstance(use, StateRestored) else "saved"
        behind_step = ctx.assumptions_of(step)  # what else got the optimizer leaves weights that it changes in place
        once = _numbers_to_change(taken, ctx) if _is_in_one_turn(taken, ctx) else []
        return ctx.finding(
            self,
            taken,
            "this state dict is not a copy: it follows the weights as they are trained on",
            assuming=[
                *(each for each in behind_step if each.kind != "opaque"),
                *(Assumption("effect", f"`{name}`, which is 1, is set to more") for name in once),
                *([_IS_USED] if isinstance(use, StateRestored) and ctx.is_restored_in_vain(use) else []),
            ],
            effect=f"what is {verb} later are the last weights, and not those of this moment",
            help="keep `copy.deepcopy(model.state_dict())`",
            trace=[
                (taken.site, "the state is taken, without a copy"),
                (step.site, "the weights change in place"),
                (use.site, f"and what was kept is {verb}"),
            ],
            fix=("Keep a copy", _cloned(taken, ctx)),
        )


def _average_of_itself(part: Part, saved: Saved, ctx: Context) -> OptimizerStep | None:
    """A step of the model whose own parameters are saved as an average of its weights: listed before the training loop,
    and kept in a variable that the loop never binds again."""
    place = saved.place_of(part).node
    model = ctx.model_of_parameter(part.value) if ctx.speaks_of("weight-average", part.key) else None
    if model is None or not isinstance(place, ast.Name) or not ctx.is_trained(model):
        return None
    loops = ctx.loops_around(saved.event)
    steps = (step for step in ctx.steps() if ctx.may_train(step.optimizer, model))
    step = next((each for each in steps if loops and loops[-1] in ctx.loops_around(each)), None)
    if step is None or saved.event.frame is not step.frame:
        return None
    function = next(iter(ctx.ancestors(saved.site, ast.FunctionDef)), saved.site.module.tree)
    names = nodes_of(function).names.get(place.id, ())
    bound = [Site(saved.site.module, each) for each in names if isinstance(each.ctx, ast.Store)]
    is_kept = bound and not any(ctx.is_within(each, loops[-1].site) for each in bound)
    return step if is_kept else None


def _keeps(use: Event, taken: StateTaken, ctx: Context) -> bool:
    """Whether a use is of the state that was taken, or of a dict with the same tensors."""
    return any(ctx.state_behind(value) is taken.state for value in _used(use, ctx))


def _is_of_earlier_turn(use: Event, taken: StateTaken, ctx: Context) -> bool:
    """Whether a loop loads what an earlier iteration has put into a variable, which never holds anything but states."""
    call = use.site.node
    given = call.args[0] if isinstance(use, StateRestored) and isinstance(call, ast.Call) and call.args else None
    if use.frame is not taken.frame or not isinstance(given, ast.Name | ast.Attribute):
        return False
    shared = {id(loop) for loop in ctx.loops_around(taken)}
    if not any(id(loop) in shared for loop in ctx.loops_around(use)):
        return False
    kind = ast.FunctionDef if isinstance(given, ast.Name) else ast.ClassDef
    around = next(iter(ctx.ancestors(use.site, kind)), use.site.module.tree)
    name, nodes = ast.unparse(given), nodes_of(around)
    stored = (each for each in nodes.of(ast.Name, ast.Attribute) if isinstance(each.ctx, ast.Store))
    bound = [each for each in stored if ast.unparse(each) == name]
    puts = [pair for each in nodes.of(ast.Assign) for pair in _pairs(each) if ast.unparse(pair[0]) == name]
    values = [value for _, value in puts]
    others = [each for each in values if each is not taken.site.node]
    states = {id(each.site.node) for each in ctx.all_of(StateTaken)}
    is_put = len(others) < len(values) == len(bound)
    return is_put and all(
        id(each) in states or (isinstance(each, ast.Constant) and each.value is None) for each in others
    )


def _pairs(assignment: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds, and to what, as far as both are written out."""
    for target in assignment.targets:
        if not isinstance(target, ast.Tuple):
            yield target, assignment.value
        elif isinstance(assignment.value, ast.Tuple) and len(assignment.value.elts) == len(target.elts):
            yield from zip(target.elts, assignment.value.elts, strict=True)


def _used(use: Event, ctx: Context) -> list[Value]:
    """What is loaded, whatever it may be, or the parts of what is saved."""
    if isinstance(use, StateRestored):
        options = [option for _, option in alternatives(use.state)] if use.state is not None else []
        return [each for option in options for each in (option, *_chosen_from(option))]
    return [part.value for saved in ctx.checkpoints.saved if saved.event is use for part in saved.parts]


def _chosen_from(value: Value) -> Iterator[Value]:
    """The states in a list of which a value is one, or has one: ``min(kept, key=...)[1]``."""
    while isinstance(value, Symbol) and value.name in _CHOSEN and value.inputs:
        value = value.inputs[0]
    for item in value.items if isinstance(value, Items) else ():
        yield from item.items if isinstance(item, Items) else (item,)


def _steps_between(taken: StateTaken, use: Event, ctx: Context) -> list[OptimizerStep]:
    """A step of the model's optimizer that lies between the two on some path, of each that the optimizer may be."""
    steps = [step for step in ctx.steps() if ctx.may_train(step.optimizer, taken.target)]
    ids = {id(step) for step in steps}

    is_made_anew, is_kept = _is_made_anew(taken, ctx), is_collected(taken, ctx)

    def advance(event: Event, state: str) -> str:
        if isinstance(event, OptimizerCreated):
            return "none" if is_made_anew else state
        if event is taken:
            return state if is_kept and state == "stale" else "fresh"
        return "stale" if state != "none" and id(event) in ids else state

    relevant = {id(taken), id(use), *ids}
    kinds = (StateTaken, OptimizerStep, OptimizerCreated, type(use))
    flow = ctx.follow(
        "none", advance, kinds, lambda event: id(event) in relevant or isinstance(event, OptimizerCreated)
    )
    is_between = "stale" in flow.arrivals.get(use, ())
    return [each for each in steps if is_between and each.site.node is steps[0].site.node]


def is_collected(taken: StateTaken, ctx: Context) -> bool:
    """Whether a loop appends the states of one model to a list, in which those of earlier iterations stay."""
    call = next((each for each in ctx.ancestors(taken.site, ast.Call) if _is_append(each)), None)
    loop = next(iter(ctx.loops_around(taken)), None)
    models = ctx.objects(taken.target)
    if call is None or loop is None or not all(map(_is_one, models)):
        return False
    return ctx.is_within(taken.site, loop.site) and not ctx.is_made_in(loop, taken.target, taken.site)


def _is_one(model: Value) -> bool:
    """Whether a model is an object that is known, or what a function is given: not one of several in a list."""
    return isinstance(model, Instance) or (isinstance(model, Symbol) and model.name == "parameter")


def _is_append(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"


def _is_made_anew(taken: StateTaken, ctx: Context) -> bool:
    """Whether each iteration of a loop, such as that over folds, makes a model of its own and trains that."""
    return any(
        ctx.is_of_runs(loop) and ctx.is_made_in(loop, taken.target, taken.site) for loop in ctx.loops_around(taken)
    )


def _cloned(taken: StateTaken, ctx: Context) -> Edits:
    for around in ctx.ancestors(taken.site, ast.DictComp):
        listed = around.generators[0].iter
        if isinstance(listed, ast.Call) and any(each is taken.site.node for each in ast.walk(listed.func)):
            entry = Site(taken.site.module, around.value)
            return replace_range(entry, f"{ctx.source_of(entry)}.clone()")
    return replace_range(taken.site, f"{{key: value.clone() for key, value in {ctx.source_of(taken.site)}.items()}}")
