"""Windows of one sequence that overlap, and are split at random into training and validation.

A window and the next one share all but one of their steps. Where a random split puts one into the training data and the
other into the validation, the model has seen nearly every validation sample already, and what it learned by heart
counts as skill.

The same comes of a cross-validation (`KFold`) whose folds all train one model: from the second fold on, it has been
trained on the samples that it is validated on.

Measured on torch 2.13 (3,000 steps of a random walk, windows of 30, whether it has risen 20 steps later; two seeds):
accuracies of .66 and .67 after a random split, and of .55 and .53 after one in the order of time. Labels that are drawn
at random are guessed by a model that goes through five folds in .81 and .82 of the cases (200 samples; two seeds), and
in .51 and .49 by one that each fold makes.

## Bad
    from sklearn.model_selection import train_test_split

    windows = []
    for i in range(len(series) - 30):
        windows.append(series[i : i + 30])
    train_windows, val_windows = train_test_split(np.array(windows), test_size=0.2)

## Good
    from sklearn.model_selection import train_test_split

    windows = []
    for i in range(len(series) - 30):
        windows.append(series[i : i + 30])
    train_windows, val_windows = train_test_split(np.array(windows), test_size=0.2, shuffle=False)

Nor does it matter whether the parts are picked by a random order (`x[order[:n]]`), or cut from what it has reordered
(`x = x[order]`, and then `x[:n]`).

## Not reported
Splits in the order of time (`shuffle=False`), windows that do not overlap, and parts of a random split that nobody
evaluates. Indices in a random order (`np.random.permutation`, `torch.randperm`), of which names do not say that some
pick what is trained on and others what is for evaluation. Frames of one video or several records of one patient, which
look like any other files, are not recognized.

## On real code
283 public repositories, of which 67 split at random: 1 finding, which is true: pieces of dialogues that overlap. In 363
others, after orders of a permutation were added: no finding. One model for all folds: no finding in 763.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from dllint.api import (
    Assumption,
    Assumptions,
    AttributeAssigned,
    Backward,
    Context,
    Event,
    Finding,
    Instance,
    LibraryCall,
    Loop,
    ModelForward,
    Program,
    Rule,
    Setting,
    Site,
    StateRead,
    StateRestored,
    StateSaved,
    StateTaken,
    Symbol,
    Value,
    is_same_path,
)

_ORDERS = frozenset(("permutation", "randperm"))
_SPLIT = "sklearn.model_selection.train_test_split"
_FOLDS = ("KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "LeaveOneOut", "LeaveOneGroupOut")
_GOING_OVER = ("enumerate", "list", "tqdm.tqdm", "tqdm.auto.tqdm")


class LeakingSplit(Rule):
    code = "DL421"
    name = "leaking-split"
    category = "correctness"
    severity = "warning"
    triggers = (("train_test_split", "random_split", "permutation", "randperm", *_FOLDS),)
    references = ("https://scikit-learn.org/stable/modules/cross_validation.html#cross-validation-of-time-series-data",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name.rpartition(".")[2] in _ORDERS:
            yield from self._check_order(event, ctx)
        if event.name != _SPLIT or not event.arguments.exact or event.arguments.get(None, "shuffle") is not None:
            return
        for given in event.arguments.positional:
            windows = ctx.data.windows_in(given)
            if windows:
                way = _assumed_between(given, windows, ctx)
                yield self._report(event.site, windows[0], ctx, event, assuming=way)
                return

    def _check_order(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        """Indices in a random order, of which some pick what is trained on and others what is for evaluation."""
        trained = {id(pick.owner) for pick in ctx.data.picked_at_random(event.result, "train")}
        for pick in ctx.data.picked_at_random(event.result, "eval"):
            windows = ctx.data.windows_in(pick.owner) if id(pick.owner) in trained else []
            if windows:
                name = ctx.data.name_of_pick(pick) or ctx.name_of(pick.index)
                way = (
                    *_assumed_between(event.result, [pick.owner], ctx),
                    *_assumed_between(pick.owner, windows, ctx),
                )
                is_so = Assumption("name", f"`{name}` is for evaluation, as its name says")
                yield self._report(event.site, windows[0], ctx, event, assuming=(*way, is_so))
                return

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        parts = ctx.data.random_parts()
        trained = {id(part.site) for loader, part, _ in parts if ctx.data.is_trained_on(loader.loader)}
        reported: set[int] = set()
        for loader, part, whole in parts:
            is_held_out = not ctx.data.is_trained_on(loader.loader) and id(part.site) in trained
            windows = ctx.data.windows_in(whole) if is_held_out and part.site is not None else []
            if windows and part.site is not None and id(part.site) not in reported:
                reported.add(id(part.site))
                yield self._report(
                    part.site, windows[0], ctx, windows[0], loader, whole, assuming=ctx.assumed_batches(loader.loader)
                )

        yield from self._check_folds(ctx)

    def _check_folds(self, ctx: Context) -> Iterator[Finding]:
        """Folds of a cross-validation that all train one model, and evaluate it."""
        told: set[int] = set()
        for event in ctx.all_of(Backward):
            loop = next((each for each in ctx.loops_around(event) if _is_over_folds(each)), None)
            if loop is None or event.loss is None or id(loop) in told or not _goes_through_all(loop, event):
                continue
            for model in _stepped_in(loop, event.loss, ctx):
                test = _evaluation_of(model, loop, ctx)
                if test is not None and _is_made_before(model, loop, ctx) and not _begins_again(model, loop, ctx):
                    told.add(id(loop))
                    yield self._report_folds(event, test, model, loop, ctx)
                    break

    def _report_folds(self, event: Backward, test: ModelForward, model: Value, loop: Loop, ctx: Context) -> Finding:
        made = [(model.site, "the model is made once")] if model.site is not None else []
        return ctx.finding(
            self,
            loop.site,
            "one model is trained in all folds of the cross-validation",
            on=[event, test, model],
            assuming=ctx.left_alone(test, model),
            effect="from the second fold on it has seen what it is validated on: the score is too good",
            help="make the model, and its optimizer, in the loop over the folds",
            trace=[*made, (loop.site, "these are the folds"), (event.site, "each of them goes on training it")],
        )

    def _report(self, place: Site, window: Symbol, ctx: Context, *on: object, assuming: Assumptions = ()) -> Finding:
        cut = [(window.site, "each window shares all but a step with the next one")] if window.site is not None else []
        return ctx.finding(
            self,
            place,
            "windows that overlap are split at random",
            on=[*_settings_of(window, ctx), *on],
            assuming=assuming,
            effect="the model was trained on nearly all of what it is validated on: the score is too good",
            help="split the sequence itself, before windows are cut, or in the order of time",
            trace=[*cut, (place, "neighbors go to different parts")],
        )


def _is_over_folds(loop: Loop) -> bool:
    """Whether a loop goes over the folds of a cross-validation by scikit-learn."""
    value = loop.iterable
    while isinstance(value, Symbol) and value.name in _GOING_OVER and value.inputs:
        value = value.inputs[0]
    splitter = value.inputs[0] if isinstance(value, Symbol) and value.name == ".split" and value.inputs else None
    name = splitter.library_name if isinstance(splitter, Instance) else ""
    return name.startswith("sklearn.model_selection.") and name.rpartition(".")[2] in _FOLDS


def _goes_through_all(loop: Loop, event: Event) -> bool:
    """Whether a loop over folds trains in each of them: none is picked, and the loop does not end at one."""
    node = loop.site.node
    if not isinstance(node, ast.For):
        return False
    picking = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
    if any(picking & guard.names for guard in event.guards):
        return False
    pending: list[ast.AST] = [*node.body]
    for each in pending:  # which grows meanwhile
        if isinstance(each, ast.Break | ast.Return):
            return False
        if not isinstance(each, ast.For | ast.While | ast.FunctionDef):
            pending.extend(ast.iter_child_nodes(each))
    return True


def _stepped_in(loop: Loop, loss: Value, ctx: Context) -> list[Value]:
    """The models behind a loss whose parameters an optimizer moves in a loop."""
    steps = [step for step in ctx.steps() if loop in ctx.loops_around(step)]
    moved = [module for step in steps for module in ctx.parameters_of(step.optimizer)[0]]
    models = ctx.models_behind(loss, with_gradients=True)
    return [model for model in models if any(ctx.is_same(model, module) for module in moved)]


def _evaluation_of(model: Value, loop: Loop, ctx: Context) -> ModelForward | None:
    """Where a model is evaluated in a loop: the last time, with gradients off."""
    calls = [each for each in ctx.all_of(ModelForward) if each.grad == "off" and loop in ctx.loops_around(each)]
    return next((each for each in reversed(calls) if ctx.is_same(each.model, model)), None)


def _is_made_before(model: Value, loop: Loop, ctx: Context) -> bool:
    """Whether a model is there before a loop begins: neither the loop nor what it calls makes it."""
    if not isinstance(model, Instance) or model.site is None:
        return isinstance(model, Symbol) and model.name == "parameter"
    return not any(ctx.is_within(model.site, each) for each in (loop.site, *ctx.entered_in(loop)))


def _begins_again(model: Value, loop: Loop, ctx: Context) -> bool:
    """Whether a loop may give a model the weights of a new one: by a state from before, by new layers, or by a call
    whose name says so."""
    for event in ctx.all_of(StateRestored, AttributeAssigned):
        assert isinstance(event, StateRestored | AttributeAssigned)
        is_of_it = ctx.reaches(model, event.target) or ctx.reaches(event.target, model)
        if loop not in ctx.loops_around(event) or not is_of_it:
            continue
        if isinstance(event, StateRestored) and not _is_of_fold(event, loop, ctx):
            return True
        if isinstance(event, AttributeAssigned) and isinstance(event.value, Instance):
            return True
    called = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for place in (loop.site, *ctx.entered_in(loop))
        for node in ast.walk(place.node)
        if isinstance(node, ast.Call)
    )
    return any(ctx.speaks_of("beginning-again", name) for name in called if not name.startswith("__"))


def _is_of_fold(event: StateRestored, loop: Loop, ctx: Context) -> bool:
    """Whether a state is one that the same fold has taken or saved, as that of its best epoch is."""
    inside = [each for each in ctx.events if loop in ctx.loops_around(each)]
    own = {id(each.state) for each in inside if isinstance(each, StateTaken)}
    saved = [each.path for each in inside if isinstance(each, StateSaved)]
    own.update(
        id(each.result)
        for each in inside
        if isinstance(each, StateRead) and any(is_same_path(each.path, path) for path in saved)
    )
    return event.state is not None and any(id(source) in own for source in ctx.sources(event.state))


def _settings_of(window: Symbol, ctx: Context) -> list[Value]:
    """What the program sets, by default, for the bounds of a window: its length."""
    bounds = [
        each
        for bound in ctx.data.bounds_of(window) or ()
        for each in (bound, *(bound.inputs if _is_sum(bound) else ()))
    ]
    return [each for each in bounds if isinstance(each, Setting)]


def _is_sum(bound: Value) -> TypeGuard[Symbol]:
    return isinstance(bound, Symbol) and bound.name in ("+", "-")


def _assumed_between(given: Value, found: Sequence[Value], ctx: Context) -> Assumptions:
    """What is assumed by who takes windows to be what is split: what they are cut from does not matter."""
    ends = {id(each) for each in found}

    def is_end(value: Value) -> bool:
        return id(value) in ends or not any(id(source) in ends for source in ctx.sources(value))

    return tuple(ctx.assumed_of_computation(given, is_end))
