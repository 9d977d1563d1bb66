"""A score on the wrong part of the data: on the training data, or on the test set where a model is chosen.

A loader for validation that is built from the training dataset measures how well the model has learned it by heart. And
where the test set chooses the checkpoint, its score is that of the luckiest epoch.

Measured on torch 2.13 (400 samples, 60 epochs, three seeds): an accuracy of 1.00 on the training data each time,
and of .555, .592 and .542 on others.

## Bad
    train_set = datasets.CIFAR10("data", train=True)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(train_set, batch_size=64)
    for x, y in train_loader:
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        print(sum(criterion(model(x), y).item() for x, y in val_loader))

## Good
    train_set, val_set = datasets.CIFAR10("data", train=True), datasets.CIFAR10("data", train=False)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=64)
    for x, y in train_loader:
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        print(sum(criterion(model(x), y).item() for x, y in val_loader))

## Not reported
Loaders with a sampler, subsets and splits of one dataset, numbers that are drawn on the spot; loaders whose names speak
of training as well, and those that are trained on; a test set that chooses where there is no other data to choose by,
or where another checkpoint is chosen by the validation.

## On real code
280 public repositories: no finding, after 1 that was doubtful: numbers that are drawn on the spot to try the code. They
are silent now. In later batches 1 finding was true and 2 were false.

Off by default: of the 3 findings that were read and settled, 1 was true.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Event,
    Finding,
    Instance,
    LoaderCreated,
    Program,
    Rule,
    Site,
    StateSaved,
    StateTaken,
    Symbol,
    Value,
    alternatives,
)

_DRAWN = ("torch.rand", "numpy.random.")
_DRAWING = ("sampler", "batch_sampler")

# ------------------------------------------------------------------------------------------------- excuses


def is_trained_on_too(event: Event, ctx: Context) -> bool:
    """gradients are computed from its batches"""
    return isinstance(event, LoaderCreated) and ctx.data.is_trained_on(event.loader)


def is_made_up(event: Event, ctx: Context) -> bool:
    """its numbers are drawn on the spot, to try the code"""
    dataset = _own_dataset(event) if isinstance(event, LoaderCreated) else None
    options = [option for _, option in alternatives(dataset)] if dataset is not None else []
    given = (part for each in options for part in (each.arguments.all() if isinstance(each, Instance) else [each]))
    sources = (source for value in given for source in ctx.sources(value))
    return any(isinstance(source, Symbol) and source.name.startswith(_DRAWN) for source in sources)


def has_no_other_data(event: Event, ctx: Context) -> bool:
    """there is no validation in the loop over epochs, or only what is called a test and goes over validation data"""
    loops = ctx.loops_around(event)
    return not isinstance(event, LoaderCreated) and not (ctx.has_validation(loops) and ctx.has_test(loops))


def is_chosen_otherwise(event: Event, ctx: Context) -> bool:
    """another checkpoint is chosen by the validation"""
    states = () if isinstance(event, LoaderCreated) else ctx.all_of(StateSaved, StateTaken)
    return any(
        ctx.speaks_of("validation-set", ctx.source_of(score))
        for each in states
        for score in ctx.compared_with_best(each)
    )


class ScoredOnWrongSplit(Rule):
    code = "DL874"
    name = "scored-on-wrong-split"
    category = "correctness"
    severity = "warning"
    default = False
    triggers = (("DataLoader", "save", "state_dict"),)
    excuses = (is_trained_on_too, is_made_up, has_no_other_data, is_chosen_otherwise)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            dataset = _own_dataset(event)
            other = _training_loader_of(dataset, event, ctx) if dataset is not None else None
            if other is not None and not ctx.excused(self, event):
                yield self._report_loader(event, other, ctx)
        yield from self._chosen_by_test(ctx)

    def _report_loader(self, event: LoaderCreated, other: LoaderCreated, ctx: Context) -> Finding:
        name = ctx.called(event.loader, "loader")
        passes = (one for one in ctx.data.passes if one.trains and any(each is other.loader for each in one.loaders))
        return ctx.finding(
            self,
            event,
            f"{name} goes over the training data",
            on=[event.dataset, other, *(one.loop for one in passes)],
            assuming=[
                Assumption("name", f"{name} is for evaluation, as its name says"),
                *ctx.assumed_batches(event.loader),
                *ctx.left_alone(event, other.loader),
            ],
            effect="the score is that of data which the model was trained on, and hides that it overfits",
            help="build it from a dataset of its own",
            trace=[
                (other.site, "this loader has the same dataset, and is trained on"),
                (event.site, "as has this one"),
            ],
        )

    def _chosen_by_test(self, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        for event in ctx.all_of(StateSaved, StateTaken):
            for score in ctx.compared_with_best(event):
                name = ctx.source_of(score)
                is_of_test = ctx.speaks_of("test-set", name) and not ctx.speaks_of("validation-set", name)
                is_of_test = is_of_test and not ctx.is_of_validation(score, ctx.loops_around(event))
                if is_of_test and id(score.node) not in reported and not ctx.excused(self, event):
                    reported.add(id(score.node))
                    yield self._report_choice(score, name, event, ctx)

    def _report_choice(self, score: Site, name: str, event: Event, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            score,
            f"`{name}` chooses the best checkpoint, so the test set is no test any more",
            on=[event],
            assuming=[Assumption("name", f"`{name}` is of the test set, as its name says")],
            effect="its score is that of the luckiest epoch, and too good",
            help="choose by a metric of the validation, and test once",
            trace=[(score, "what is best is decided here"), (event.site, "this state is kept")],
        )


def _own_dataset(event: LoaderCreated) -> Value | None:
    """The dataset of a loader that goes over all of it, made here or handed in; it may be one of several."""
    is_whole = not any(name in event.options for name in _DRAWING)
    options = [option for _, option in alternatives(event.dataset)] if event.dataset is not None and is_whole else []
    if not all(isinstance(option, Instance | Symbol) for option in options):
        return None
    return options[0] if len(options) == 1 else event.dataset if options else None


def _training_loader_of(dataset: Value, event: LoaderCreated, ctx: Context) -> LoaderCreated | None:
    """Another loader over the whole of a dataset that is trained on, where this one is for evaluation by its name."""
    if ctx.data.part_of_name(getattr(event.loader, "hint", "")) != "eval":
        return None
    others = (each for each in ctx.data.loaders if each is not event and _own_dataset(each) is dataset)
    return next((each for each in others if ctx.data.is_trained_on(each.loader)), None)
