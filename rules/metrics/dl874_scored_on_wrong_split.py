"""A score on the wrong part of the data: on the training data, or on the test set where a model is chosen.

A loader for validation that is built from the training dataset measures how well the model has learned it by heart: a
`val_dataloader` that was copied from `train_dataloader`, so that nothing reads `self.val_set`, or a test set of
torchvision that is made without `train=False`, and so is the training part. So does an evaluation between the epochs
that is given `train_loader`, while nothing reads the `val_loader` beside it. And where the test set chooses the
checkpoint, its score is that of the luckiest epoch.

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
of training as well, and those that are trained on, but for an evaluation that leaves the validation's unread and is the
only one; a data module whose data for evaluation something reads, or that has
none; two datasets of the training part of which the data is cut, or indices take shares; a test set that chooses where
there is no other data to choose by, or where another checkpoint is chosen by the validation.

## On real code
280 public repositories: no finding, after 1 that was doubtful: numbers that are drawn on the spot to try the code. They
are silent now. In later batches 1 finding was true and 2 were false: a loader that has nothing but the training data,
and a test set that chooses, are shown only when the rule is selected by name. Data for evaluation that nothing reads,
and test sets that are the training part: in 237 others 6 places in 3 repositories, none of them false: two are true,
and four are in two copies of a data module that fails before, as it does not call `super().__init__()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    BatchLoop,
    Const,
    Context,
    Event,
    Finding,
    Instance,
    Items,
    LoaderCreated,
    Program,
    Rule,
    Site,
    StateSaved,
    StateTaken,
    Symbol,
    Value,
    alternatives,
    nodes_of,
)

_DRAWN = ("torch.rand", "numpy.random.")
_DRAWING = ("sampler", "batch_sampler")
_SUBSET = "torch.utils.data.Subset"
_HOOKS = ("val_dataloader", "test_dataloader")  # which Lightning asks for loaders
_EFFECT = "the score is that of data which the model was trained on, and hides that it overfits"

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
    triggers = (("DataLoader", "save", "state_dict"),)
    excuses = (is_trained_on_too, is_made_up, has_no_other_data, is_chosen_otherwise)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            dataset = _own_dataset(event)
            unread = _left_unread(dataset, event, ctx) if dataset is not None else None
            other = _training_loader_of(dataset, event, ctx) if dataset is not None else None
            if unread is not None and not ctx.excused(self, event):
                yield self._report_unread(event, unread, ctx)
            elif other is not None and not ctx.excused(self, event):
                yield self._report_loader(event, other, ctx)
        yield from (self._report_evaluation(*each, ctx) for each in ctx.evaluated_on_training())
        yield from self._same_split(ctx)
        yield from self._chosen_by_test(ctx)
        yield from self._stands_for_validation(ctx)

    def _report_unread(self, event: LoaderCreated, unread: Site, ctx: Context) -> Finding:
        name, left = _name_of_loader(event), ctx.source_of(unread)
        is_hook = event.frame.function == name
        return ctx.finding(
            self,
            event,
            f"`{name}` goes over the training data, and nothing reads `{left}`",
            on=[event.dataset],
            assuming=[
                *(() if is_hook else (Assumption("name", f"`{name}` is for evaluation, as its name says"),)),
                *(() if is_hook else ctx.assumed_batches(event.loader)),
            ],
            effect=_EFFECT,
            help=f"build it from `{left}`",
            trace=[(unread, "this is for evaluation, and never used"), (event.site, "this loader has training data")],
        )

    def _report_evaluation(self, one: BatchLoop, given: Site, unread: Site, ctx: Context) -> Finding:
        name, left = ctx.source_of(given), ctx.source_of(unread)
        return ctx.finding(
            self,
            given,
            f"an evaluation goes over `{name}`, which is trained on, and nothing reads `{left}`",
            on=[one.event, one.loop],
            assuming=[Assumption("name", f"`{left}` is for evaluation, as its name says")],
            effect=_EFFECT,
            help=f"give it `{left}`",
            trace=[(unread, "this is for evaluation, and never used"), (one.loop.site, "the batches of the training")],
        )

    def _same_split(self, ctx: Context) -> Iterator[Finding]:
        """Datasets of torchvision that are called a test set, and told, or left, to be the training part."""
        told = [each for each in ctx.data.created() if _is_told_to_train(each, ctx)]
        for dataset in told:
            loaders = [each for each in ctx.data.loaders if _draws_from(each, dataset, ctx)]
            event = next((each for each in loaders if not ctx.excused(self, each)), None)
            others = [each for each in told if each is not dataset and _is_same_data(each, dataset)]
            others.sort(key=lambda each: each.site is None or each.site.module is not _file_of(dataset))
            trained = next((each for each in others if _is_trained_with(each, ctx)), None)
            is_trained_on = any(ctx.data.is_trained_on(each.loader) for each in loaders)
            if event is not None and trained is not None and not is_trained_on and _is_of_test(dataset, event, ctx):
                yield self._report_split(dataset, event, trained, ctx)

    def _report_split(self, dataset: Instance, event: LoaderCreated, trained: Instance, ctx: Context) -> Finding:
        name = dataset.hint or _name_of_loader(event)
        assert dataset.site is not None and trained.site is not None
        is_left_out = not any(part in ctx.data.arguments(dataset) for part in ("train", "split"))
        what = "without `train=False` it" if is_left_out else f"`{name}`"
        return ctx.finding(
            self,
            dataset.site,
            f"{what} is the training part of `{dataset.library_name.rpartition('.')[2]}`"
            + (f", and no data for `{name}`" if is_left_out else ", as is what is trained on"),
            on=[dataset, trained, event],
            assuming=[
                Assumption("name", f"`{name}` is for evaluation, as its name says"),
                *ctx.assumed_batches(event.loader),
                *ctx.left_alone(event, dataset),
            ],
            effect=_EFFECT,
            help="pass train=False" if "split" not in ctx.data.arguments(dataset) else 'pass split="test"',
            trace=[(trained.site, "this is the training part, too"), (dataset.site, "as is this")],
        )

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
            effect=_EFFECT,
            help="build it from a dataset of its own",
            trace=[
                (other.site, "this loader has the same dataset, and is trained on"),
                (event.site, "as has this one"),
            ],
            pedantic=True,
        )

    def _chosen_by_test(self, ctx: Context) -> Iterator[Finding]:
        reported: dict[int, int] = {}  # what is kept by each score, whichever object keeps it
        for event in ctx.all_of(StateSaved, StateTaken):
            for score in ctx.compared_with_best(event):
                name = ctx.source_of(score)
                is_of_test = ctx.speaks_of("test-set", name) and not ctx.speaks_of("validation-set", name)
                is_of_test = is_of_test and not ctx.is_of_validation(score, ctx.loops_around(event))
                kept = id(event.site.node)
                is_told = reported.get(id(score.node), kept) != kept
                if is_of_test and not is_told and not ctx.excused(self, event):
                    reported[id(score.node)] = kept
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
            pedantic=True,
        )

    def _stands_for_validation(self, ctx: Context) -> Iterator[Finding]:
        """Test sets under the name of the validation, by which a checkpoint is chosen: `("val", test_loader)`."""
        reported: set[int] = set()
        for event in ctx.all_of(StateSaved, StateTaken):
            for score in ctx.compared_with_best(event):
                asked = {each for test in ctx.ancestors(score, ast.If) for each in _texts_in(test.test)}
                for entry, unread in _called_validation(event, asked, ctx):
                    if id(entry) not in reported:
                        reported.add(id(entry))
                        yield self._report_name(event, Site(event.site.module, entry), score, unread, ctx)

    def _report_name(self, event: Event, entry: Site, score: Site, unread: str, ctx: Context) -> Finding:
        name = ctx.source_of(entry)
        return ctx.finding(
            self,
            entry,
            f"`{name}` is called the validation, and chooses the best checkpoint",
            on=[event],
            assuming=[Assumption("name", f"`{name}` is of the test set, as its name says")],
            effect="its score is that of the luckiest epoch, and too good",
            help=f"give it `{unread}`, and test once",
            trace=[(entry, f"is said to be the validation; nothing reads `{unread}`"), (score, "decides what is best")],
        )


def _texts_in(node: ast.expr) -> list[str]:
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def _called_validation(event: Event, asked: set[str], ctx: Context) -> Iterator[tuple[ast.Name, str]]:
    """The test sets that stand, where an event is, beside one of some words for the validation, whose own is unread."""
    within = event.frame.definition.node if event.frame.definition is not None else event.site.module.tree
    for node in nodes_of(within).of(ast.Tuple, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else [tuple(node.elts[:2])]
        for key, value in (pair for pair in pairs if len(pair) == 2):
            word = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
            if word in asked and ctx.speaks_of("validation-set", word) and isinstance(value, ast.Name):
                unread = _unread_beside(value.id, within, ctx)
                if unread and ctx.speaks_of("test-set", value.id) and not ctx.speaks_of("validation-set", value.id):
                    yield value, unread


def _unread_beside(name: str, within: ast.AST, ctx: Context) -> str:
    """The variable that nothing reads, and that is called as another one is, but for the word for the test set."""
    words = name.lower().split("_")
    given = {each.arg for each in nodes_of(within).of(ast.arg)}
    names = nodes_of(within).names
    for other in (*given, *names):
        parts = other.lower().split("_")
        differing = [(mine, its) for mine, its in zip(words, parts, strict=False) if mine != its]
        is_bound = other in given or any(isinstance(each.ctx, ast.Store) for each in names[other])
        is_read = any(not isinstance(each.ctx, ast.Store) for each in names.get(other, ()))
        if len(words) == len(parts) and len(differing) == 1 and is_bound and not is_read:
            mine, its = differing[0]
            if ctx.speaks_of("test-set", mine) and ctx.speaks_of("validation-set", its):
                return other
    return ""


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


def _name_of_loader(event: LoaderCreated) -> str:
    """What a loader is called: by the variable, or by the method of a data module that returns it."""
    is_asked_for = event.frame.function in _HOOKS and event.frame.framework.startswith("lightning")
    return event.frame.function if is_asked_for else getattr(event.loader, "hint", "")


def _left_unread(dataset: Value, event: LoaderCreated, ctx: Context) -> Site | None:
    """The data for evaluation that nothing reads, where a loader for evaluation goes over that for training."""
    name = _name_of_loader(event)
    if ctx.data.part_of_name(name) != "eval" or not ctx.speaks_of("evaluation", name):
        return None
    others = (each for each in ctx.data.loaders if each is not event and _own_dataset(each) is dataset)
    is_trained_on = any(ctx.data.part_of_name(_name_of_loader(each)) != "eval" for each in others)
    is_hook = event.frame.function == name
    return ctx.left_unread(event, name) if is_hook or is_trained_on else None


def _file_of(dataset: Instance) -> object:
    return dataset.site.module if dataset.site is not None else None


def _is_told_to_train(dataset: Instance, ctx: Context) -> bool:
    is_known = dataset.library_name.startswith("torchvision.datasets.") and ctx.data.is_told_part(dataset)
    return is_known and dataset.site is not None and ctx.data.part(dataset) == "train"


def _draws_from(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """Whether a loader goes over a dataset as it was made, or over what was picked out of it alone."""
    held = ctx.data.datasets(event.dataset)
    is_changed = any(name.isidentifier() for name in dataset.attributes)  # as by `dataset.data = dataset.data[:1000]`
    if any(name in event.options for name in _DRAWING) or is_changed or not held or held[-1] is not dataset:
        return False
    if len(held) == 1:
        return True
    picked = _picked_by(held[0], ctx) if len(held) == 2 and ctx.speaks_of("test-set", dataset.hint) else []
    others = [each for each in ctx.data.created() if each.library_name == _SUBSET and each is not held[0]]
    return picked == [dataset] and not any(dataset in _picked_by(other, ctx) for other in others)


def _picked_by(subset: Instance, ctx: Context) -> list[Instance]:
    """The datasets that the indices of a subset were found by; nothing where they came about in another way."""
    indices = subset.arguments.get(1, "indices") if subset.library_name == _SUBSET else None
    place = indices.site if isinstance(indices, Items) else None
    if indices is None or place is None or isinstance(place.node, ast.Subscript):
        return []
    sources = list(ctx.sources(indices))
    if any(isinstance(each, Symbol) and each.name != "counter" for each in sources):
        return []
    return [each for each in sources if isinstance(each, Instance)]


def _is_same_data(one: Instance, other: Instance) -> bool:
    roots = [each.arguments.get(0, "root") for each in (one, other)]
    known = [each.value for each in roots if isinstance(each, Const)]
    return one.library_name == other.library_name and (len(known) < 2 or known[0] == known[1])


def _is_trained_with(dataset: Instance, ctx: Context) -> bool:
    own = [each for each in ctx.data.loaders if any(held is dataset for held in ctx.data.datasets(each.dataset))]
    names = [dataset.hint, *(_name_of_loader(each) for each in own)]
    parts = [ctx.data.part_of_name(name) for name in names]
    if parts[0] or "eval" in parts:
        return parts[0] == "train"
    is_trained_on = any(ctx.data.is_trained_on(each.loader) for each in own)
    return is_trained_on or "train" in parts


def _is_of_test(dataset: Instance, event: LoaderCreated, ctx: Context) -> bool:
    """Whether all names of a dataset and of its loader that speak of a part speak of evaluation."""
    parts = [ctx.data.part_of_name(name) for name in (dataset.hint, _name_of_loader(event))]
    names = " ".join((dataset.hint, _name_of_loader(event)))
    return "eval" in parts and "train" not in parts and not ctx.speaks_of("training", names)
