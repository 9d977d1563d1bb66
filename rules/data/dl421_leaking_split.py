"""Windows of one sequence that overlap, and are split at random into training and validation.

A window and the next one share all but one of their steps. Where a random split puts one into the training data and the
other into the validation, the model has seen nearly every validation sample already, and what it learned by heart
counts as skill.

Measured on torch 2.13 (3,000 steps of a random walk, windows of 30, whether it has risen 20 steps later; two seeds):
accuracies of .66 and .67 after a random split, and of .55 and .53 after one in the order of time.

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

## Not reported
Splits in the order of time (`shuffle=False`), windows that do not overlap, and parts of a random split that nobody
evaluates. Indices in a random order (`np.random.permutation`, `torch.randperm`), of which names do not say that some
pick what is trained on and others what is for evaluation. Frames of one video or several records of one patient, which
look like any other files, are not recognized.

## On real code
283 public repositories, of which 67 split at random: 1 finding, which is true: pieces of dialogues that overlap.
In 363 others, after orders of a permutation were added: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from dllint.api import (
    Assumption,
    Assumptions,
    Context,
    Finding,
    LibraryCall,
    Program,
    Rule,
    Setting,
    Site,
    Symbol,
    Value,
)

_ORDERS = frozenset(("permutation", "randperm"))
_SPLIT = "sklearn.model_selection.train_test_split"


class LeakingSplit(Rule):
    code = "DL421"
    name = "leaking-split"
    category = "correctness"
    severity = "warning"
    triggers = (("train_test_split", "random_split", "permutation", "randperm"),)
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
                name = ctx.name_of(pick.value) or ctx.name_of(pick.index)
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

    def _report(self, place: Site, window: Symbol, ctx: Context, *on: object, assuming: Assumptions = ()) -> Finding:
        cut = [(window.site, "each window shares all but a step with the next one")] if window.site is not None else []
        return ctx.finding(
            self,
            place,
            "windows that overlap are split at random",
            on=[*_settings_of(window), *on],
            assuming=assuming,
            effect="the model was trained on nearly all of what it is validated on: the score is too good",
            help="split the sequence itself, before windows are cut, or in the order of time",
            trace=[*cut, (place, "neighbors go to different parts")],
        )


def _settings_of(window: Symbol) -> list[Value]:
    """What the program sets, by default, for the bounds of a window: its length."""
    bounds = [each for bound in window.inputs[1:] for each in (bound, *(bound.inputs if _is_sum(bound) else ()))]
    return [each for each in bounds if isinstance(each, Setting)]


def _is_sum(bound: Value) -> TypeGuard[Symbol]:
    return isinstance(bound, Symbol) and bound.name in ("+", "-")


def _assumed_between(given: Value, found: Sequence[Value], ctx: Context) -> Assumptions:
    """What is assumed by who takes windows to be what is split: what they are cut from does not matter."""
    ends = {id(each) for each in found}

    def is_end(value: Value) -> bool:
        return id(value) in ends or not any(id(source) in ends for source in ctx.sources(value))

    return tuple(ctx.assumed_of_computation(given, is_end))
