"""Random augmentation of the data that a model is evaluated on.

Flips, crops and jitter belong to training. On validation or test data they make the metric a random number, usually a
worse one: epochs, checkpoints and papers cannot be compared, and early stopping picks the luckiest epoch.

Code of the project counts as well: a coin that decides on a flip in `__getitem__`, or the random angle of a turn in a
transform, but not noise, which may be the task.

The usual ways to get there are `random_split` of a dataset that already augments, the training transform passed to the
test dataset, and a `Random...` line copied into the test transform.

Measured on torch 2.13 (10 classes, three seeds): a model that is right for every plain image is right for .87 of those
after `RandomResizedCrop` and a flip, and for .84 to .90 of them in ten passes without a step of training in between.

## Bad
    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train_set, val_set = random_split(datasets.ImageFolder("images", augment), [0.9, 0.1])
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=64)

## Good
    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train_set, _ = random_split(datasets.ImageFolder("images", augment), [0.9, 0.1], torch.Generator().manual_seed(0))
    plain = datasets.ImageFolder("images", transforms.ToTensor())
    _, val_set = random_split(plain, [0.9, 0.1], torch.Generator().manual_seed(0))
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=64)

## Not reported
Transforms that cannot change anything (`p=0`, `RandomRotation(0)`, `ColorJitter()`, a crop of the whole image) or do
the same to every image (`RandomHorizontalFlip(p=1)`), coins that decide nothing, by the odds that the dataset was given
(`random.random() < odds.get("flip", 0)` of an empty dict), test-time augmentation, datasets that are also trained on,
those of which a sample is several views of one image, which a contrastive loss compares, or the image beside what is
made of it, or the number that changes it, which is to be found; samples that are made once, where the dataset is, or by
workers that are seeded alike in each epoch; losses that draw the step of a diffusion anyway; transforms under a
condition that is off for evaluation, samples of which no loss and no metric is seen to be computed (a question, as they
may only be looked at), and datasets of which neither an argument (`train=False`, `split="val"`) nor a path nor a name
says that they are for evaluation. Where no dataset is known to use a transform, its name counts if one for training
stands beside it (`train_transform`, `val_transform`).

## Fix (unsafe)
Removes the steps where they are written in a transform that only evaluation uses, and crops the center instead of a
random place. Unsafe because the metric changes.

## On real code
742 public repositories: 43 findings in 19 of them, all true: `random_split` of augmented data, the training transform
given to test data, and flips in validation transforms. Of 59 in 1,300 others, as they were read, 45 were true, 4
false and 10 doubtful: images of which a forgery or a second view was made on purpose, crops of several per clip, losses
that draw anyway. These are silent since; what is left over are evaluations that never run, or measure nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.api import (
    Assumption,
    Context,
    DatasetCreated,
    Edit,
    Edits,
    Finding,
    Guard,
    Guards,
    Instance,
    LibraryCall,
    Loop,
    ModelForward,
    Program,
    Rule,
    Site,
    TransformsComposed,
    TransformStep,
    Value,
    assumed_under,
    rename_call,
    together,
)

_EFFECT = "the metric differs from run to run and epoch to epoch, and is usually worse than the model"
_STRAINS = frozenset(("RandomRotation", "RandomAffine", "RandomPerspective", "RandomErasing", "ElasticTransform"))
_STEPS = ("torch.randint", "torch.randint_like", "torch.Tensor.random_")
_MEASURED = Assumption("effect", "the samples are for measuring, and not just to look at")


def trained_on_as_well(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """the dataset is also trained on"""
    return any(dataset is other for other in trained)


def augmented_at_test_time(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """predictions for several views are averaged: a name says so, or a loop that trains nothing repeats the pass"""
    makers = map(ctx.class_name, (dataset, *ctx.data.inner(dataset)))
    if ctx.speaks_of("test-time-augmentation", name, *makers):
        return True
    loaders = _loaders_of(dataset, ctx)
    return any(
        not ctx.trains(outer)
        for event in ctx.all_of(ModelForward)
        for loader in loaders
        for outer in _loops_around_pass(event, loader, ctx)
    )


def only_written(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """its samples are only written to files"""
    return ctx.is_only_written(dataset)


def several_views(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """each sample is several views of one image, which differ by what is drawn: a loss compares them"""
    return ctx.data.makes_views(dataset) or ctx.keeps_original(dataset)


def is_the_answer(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """what is drawn is a part of the sample: how far an image is turned is what the model has to say"""
    return ctx.tells_what_was_drawn(dataset)


def drawn_alike_by_workers(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """its workers seed torch alike in each epoch"""
    made = [event for event in ctx.data.loaders if any(event.loader is each for each in _loaders_of(dataset, ctx))]
    seeds = [[seed for each in ctx.repeated_worker_seeds(event) for seed in each] for event in made]
    return bool(made) and all(any(each.event.function.startswith("torch.") for each in found) for found in seeds)


def draws_when_measured(place: Site, dataset: Instance, name: str, trained: list[Instance], ctx: Context) -> bool:
    """what is measured draws a whole number for each sample, as the step of a diffusion, and differs anyway"""
    loaders = _loaders_of(dataset, ctx)
    passes = [
        each.loop for each in ctx.data.passes if any(held is loader for held in each.loaders for loader in loaders)
    ]
    draws = (event for event in ctx.all_of(LibraryCall) if event.name in _STEPS)
    return any(loop in ctx.loops_around(draw) for draw in draws for loop in passes)


class RandomAugmentationInEval(Rule):
    code = "DL508"
    name = "random-augmentation-in-eval"
    category = "suspicious"
    severity = "warning"
    triggers = (("DataLoader", "random_split", "Compose", "transform", "transforms"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/vision/stable/transforms.html",)

    excuses = (
        trained_on_as_well,
        augmented_at_test_time,
        only_written,
        several_views,
        is_the_answer,
        drawn_alike_by_workers,
        draws_when_measured,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        trained = _of_training(ctx)
        is_plain = _is_without_chance(trained, ctx)
        for dataset, name in _for_evaluation(ctx):
            if dataset.site is None or ctx.excused(self, dataset.site, dataset, name, trained):
                continue
            everything = ctx.data.applied(dataset)
            reported: list[Value] = []
            for applied in everything:
                guards = _conditions(applied, everything)
                inner = [applied] if applied.is_drawn else ctx.data.steps(applied.value)
                steps = [step for step in inner if ctx.is_random(step, inner, dataset)]
                steps = [step for step in steps if all(guard.by_default for guard in (*guards, *step.guards))]
                if is_plain and all(step.kind in _STRAINS for step in steps):
                    continue
                if steps and not any(applied.value is known for known in reported):
                    reported.append(applied.value)
                    yield self._report(dataset, name, applied, steps, trained, ctx)

        for event in ctx.all_of(TransformsComposed):
            inner = ctx.data.steps(event.composition)
            steps = [step for step in inner if ctx.is_random(step, inner)]
            steps = [step for step in steps if all(_is_usual(guard) for guard in (*event.guards, *step.guards))]
            if steps and _is_named_for_evaluation(event, ctx) and not _is_used(event.composition, ctx):
                yield self._report_named(event, steps, ctx)

    def _report_named(self, event: TransformsComposed, steps: list[TransformStep], ctx: Context) -> Finding:
        """The finding for a transform that no known dataset is given."""
        name = _name_of(event)
        site = steps[0].value.site
        assert site is not None
        return ctx.finding(
            self,
            site,
            f"`{_called(steps[0])}` changes the samples that go through `{name}` at random",
            on=[*event.guards, event.composition],
            assuming=[
                Assumption("name", f"`{name}` is for evaluation, as its name says"),
                *ctx.assumed_use(event.composition, "the pipeline"),
            ],
            effect=_EFFECT,
            help="keep random steps out of the transform for evaluation",
            trace=[(site, "a random step"), (event.site, f"in what is called `{name}`")],
            fix=("Remove the random steps", _removed(steps, event.composition, ctx)),
        )

    def _report(
        self,
        dataset: Instance,
        name: str,
        applied: TransformStep,
        steps: list[TransformStep],
        trained: list[Instance],
        ctx: Context,
    ) -> Finding:
        step = steps[0]
        site = _place_of_step(dataset, applied, step, trained, ctx)
        edits = _removed(steps, applied.value, ctx) if site is step.value.site else Edits()
        assert step.value.site is not None and dataset.site is not None
        return ctx.finding(
            self,
            site,
            f"`{_called(step)}` changes the samples of {name} at random",
            on=[dataset, *ctx.data.inner(dataset), applied.value],
            assuming=[
                *assumed_under(step.guards),
                *_assumed_to_evaluate(dataset, name, ctx),
                *(() if _is_scored(dataset, ctx) else [_MEASURED]),
            ],
            effect=_EFFECT,
            help="give the evaluation data a transform of its own, without random steps",
            trace=[(step.value.site, "a random step"), (dataset.site, "is applied to data for evaluation")],
            fix=("Remove the random steps", edits),
        )


def _assumed_to_evaluate(dataset: Instance, name: str, ctx: Context) -> list[Assumption]:
    """That data is for evaluation where no argument says so, and that somebody evaluates on it."""
    found = []
    if not ctx.data.is_told_part(dataset):
        found.append(Assumption("name", f"{name} is for evaluation, as names say"))
    loaders = _loaders_of(dataset, ctx)
    if loaders and not any(map(ctx.data.is_read, loaders)):
        found.append(Assumption("effect", "somebody takes batches from its loader"))
    return found


def _loops_around_pass(event: ModelForward, loader: Value, ctx: Context) -> Sequence[Loop]:
    """The loops around a pass over a loader to which a call of a model belongs; the pass may be a comprehension."""
    loops = ctx.loops_around(event)
    for index, loop in enumerate(loops):
        if loop.iterable is not None and ctx.reaches(loop.iterable, loader):
            return loops[index + 1 :]
    comprehensions = ctx.ancestors(event.site, ast.ListComp, ast.GeneratorExp)
    given = event.arguments.all() if any(True for _ in comprehensions) else []
    return loops if any(source is loader for value in given for source in ctx.sources(value)) else ()


def _loaders_of(dataset: Instance, ctx: Context) -> list[Value]:
    return [made.loader for made in ctx.data.loaders if any(d is dataset for d in ctx.data.datasets(made.dataset))]


def _is_scored(dataset: Instance, ctx: Context) -> bool:
    """Whether something is measured on samples: images that are only looked at may be augmented."""
    return any(ctx.is_scored(loader) for loader in _loaders_of(dataset, ctx))


# ------------------------------------------------------------------------------------------- which data is for what


def _for_evaluation(ctx: Context) -> Iterator[tuple[Instance, str]]:
    """The datasets that are for evaluation, with a name for them."""
    seen: list[Instance] = []
    for event in ctx.data.loaders:
        if ctx.data.part_of_loader(event) != "eval":
            continue
        for dataset in ctx.data.datasets(event.dataset)[:1]:
            if not any(dataset is known for known in seen):
                seen.append(dataset)
                yield dataset, _named(dataset.hint or getattr(event.loader, "hint", ""))
    loaded = [dataset for event in ctx.data.loaders for dataset in ctx.data.datasets(event.dataset)]
    for made in ctx.all_of(DatasetCreated):
        if isinstance(made.dataset, Instance) and all(guard.by_default is not False for guard in made.guards):
            dataset = made.dataset
            if ctx.data.part(dataset) == "eval" and not any(dataset is known for known in (*seen, *loaded)):
                seen.append(dataset)
                yield dataset, _named(dataset.hint)


def _named(name: str) -> str:
    return f"`{name}`" if name else "the evaluation data"


def _of_training(ctx: Context) -> list[Instance]:
    """The datasets that are trained on."""
    found = [
        dataset
        for event in ctx.data.loaders
        if ctx.data.part_of_loader(event) == "train"
        for dataset in ctx.data.datasets(event.dataset)
    ]
    created = (event.dataset for event in ctx.all_of(DatasetCreated))
    found.extend(dataset for dataset in created if isinstance(dataset, Instance) and ctx.data.part(dataset) == "train")
    return found


def _is_without_chance(trained: list[Instance], ctx: Context) -> bool:
    """Whether training data goes through steps that are all known, none of them random: then evaluation that turns or
    bends the images is meant to be harder, and does not use what is for training by mistake."""
    steps = [
        step for dataset in trained for applied in ctx.data.applied(dataset) for step in ctx.data.steps(applied.value)
    ]
    return bool(steps) and not any(
        not (step.kind or step.own) or step.kind == "Lambda" or ctx.is_random(step) for step in steps
    )


def _is_usual(guard: Guard) -> bool:
    """Whether a condition holds by default, or where nothing else was given."""
    return bool(guard.by_default) or (guard.relation == "is" and guard.operand is None and guard.holds)


def _name_of(event: TransformsComposed) -> str:
    """What a composition is called: the variable, or the function that returns it."""
    return getattr(event.composition, "hint", "") or event.frame.function


def _is_named_for_evaluation(event: TransformsComposed, ctx: Context) -> bool:
    """Whether a composition, by its name, is for evaluation, and stands beside one for training in the same place."""
    name = _name_of(event)
    if (
        ctx.data.part_of_name(name) != "eval"
        or ctx.speaks_of("test-time-augmentation", name)
        or ctx.is_applied_again_and_again(event, name)
    ):
        return False
    beside = (other for other in ctx.all_of(TransformsComposed) if other.site.module is event.site.module)
    is_beside = any(ctx.data.part_of_name(_name_of(other)) == "train" for other in beside)
    return is_beside or ctx.data.has_counterpart(name, event.site)


def _is_used(composition: Value, ctx: Context) -> bool:
    """Whether a known dataset applies a composition: then it is known what it is for."""
    created = [event.dataset for event in ctx.all_of(DatasetCreated)]
    created.extend(dataset for event in ctx.data.loaders for dataset in ctx.data.datasets(event.dataset))
    return any(applied.value is composition for dataset in created for applied in ctx.data.applied(dataset))


def _place_of_step(
    dataset: Instance, applied: TransformStep, step: TransformStep, trained: list[Instance], ctx: Context
) -> Site:
    """The random step, if only evaluation uses it; else where the evaluation data gets what training uses."""
    assert dataset.site is not None and step.value.site is not None
    used = (own for data in trained for whole in ctx.data.applied(data) for own in ctx.data.steps(whole.value))
    drawn = (own for data in trained for own in ctx.data.applied(data) if own.is_drawn)
    shared = any(own.value is step.value for own in used) or any(_is_at(own, step.value.site) for own in drawn)
    around = ctx.data.list_site(applied.value) or applied.value.site
    if shared or around is None or not ctx.is_within(step.value.site, around):
        return dataset.site
    return step.value.site


def _called(step: TransformStep) -> str:
    return step.own or step.kind.removeprefix("A.")


def _is_at(step: TransformStep, site: Site) -> bool:
    return step.value.site is not None and step.value.site.node is site.node


def _removed(steps: list[TransformStep], composition: Value, ctx: Context) -> Edits:
    """Take random steps out of the list that they are written in; what crops at random crops the center instead."""
    around = ctx.data.list_site(composition)
    written = around.node.elts if around is not None and isinstance(around.node, ast.List) else []
    return together(*(_without(step, written, ctx) for step in steps))


def _without(step: TransformStep, written: list[ast.expr], ctx: Context) -> Edits:
    place = step.value.site
    index = next((i for i, item in enumerate(written) if place is not None and item is place.node), None)
    if place is None or index is None or step.kind == "RandomResizedCrop":
        return Edits()
    if step.kind == "RandomCrop" and _has_only_size(place):
        return rename_call(place, "CenterCrop")
    if index + 1 == len(written):
        return Edits()
    following = ctx.replace(Site(place.module, written[index + 1]), "")
    return Edits.of(place.module, [Edit(ctx.replace(place, "").start, following.start, "")])


def _has_only_size(place: Site) -> bool:
    return isinstance(place.node, ast.Call) and len(place.node.args) == 1 and not place.node.keywords


# --------------------------------------------------------------------------------------------------- what is random


def _conditions(applied: TransformStep, everything: list[TransformStep]) -> Guards:
    """The conditions for a transform to be applied, but those under whose opposite it is applied as well."""
    others = {guard.key() for step in everything if step.value is applied.value for guard in step.guards}
    return tuple(guard for guard in applied.guards if guard.negated().key() not in others)
