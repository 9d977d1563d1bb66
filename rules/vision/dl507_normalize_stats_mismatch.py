"""Normalisation with numbers that the model was not, or is not to be, trained with.

`Normalize` subtracts a mean and divides by a deviation. The model gets used to what comes out: if evaluation uses other
numbers than training, ImageNet's numbers are mistyped or in the order of BGR, or numbers for pixels of 0 to 255 meet
pixels of 0 to 1, it sees images of a kind that it never saw.

Measured on images with natural statistics: ImageNet's numbers on pixels of 0 to 255 give a mean of about 515 and a
deviation of 247, instead of 0 and 1; in the wrong order they shift the channels by -.27, .04 and .36 deviations, which
no range check finds. Statistics of (.5, .5, .5) leave a mean of -.08 and a deviation of .44.

## Bad
    augment = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))])
    plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))])
    train_set = datasets.CIFAR10("data", train=True, transform=augment)
    test_set = datasets.CIFAR10("data", train=False, transform=plain)

## Good
    normalize = transforms.Normalize((0.49, 0.48, 0.45), (0.2, 0.2, 0.2))
    augment = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize])
    plain = transforms.Compose([transforms.ToTensor(), normalize])
    train_set = datasets.CIFAR10("data", train=True, transform=augment)
    test_set = datasets.CIFAR10("data", train=False, transform=plain)

## Not reported
Numbers that are not known, differences that do not matter (below .02 of the mean or a twentieth of the deviation),
datasets of different kinds, transforms that are never there together, the order of BGR where images may be read by
OpenCV or flipped, and a mean above 1 behind a step that may scale the pixels.

## Fix (unsafe)
Writes ImageNet's numbers where one is mistyped or the order is wrong, and for evaluation the numbers of training.
Unsafe because it changes what the model sees, as it should.

## On real code
742 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from dllint.api import (
    Assumption,
    Const,
    Context,
    DatasetCreated,
    Edit,
    External,
    Finding,
    Guards,
    Instance,
    Items,
    Program,
    Rule,
    Site,
    Symbol,
    TransformsComposed,
    TransformStep,
    Value,
    alternatives,
    assumed_under,
    offer,
    replace_range,
)

Numbers = tuple[float, ...]

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_OF_TIMM = {"IMAGENET_DEFAULT_MEAN": _MEAN, "IMAGENET_DEFAULT_STD": _STD,
            "IMAGENET_INCEPTION_MEAN": (0.5,) * 3, "IMAGENET_INCEPTION_STD": (0.5,) * 3}  # fmt: skip
_BGR = r"cv2|(?i:bgr|caffe)|::\s*-1\]|imageio|\[2, ?1, ?0\]"
_UNSCALED = frozenset(("PILToTensor", "ToImage", "ToImageTensor"))


@dataclass(frozen=True)
class _Normalized:
    """A pipeline with its single ``Normalize``, that it takes under ``guards``. ``before`` are the steps up to it."""

    normalize: Instance
    site: Site
    mean: Numbers
    std: Numbers
    guards: Guards
    before: tuple[TransformStep, ...]


@dataclass(frozen=True)
class _Use:
    """What a pipeline is used for: ``train`` or ``eval`` data of some kind."""

    part: str
    kind: object
    pipeline: _Normalized | None


class NormalizeStatsMismatch(Rule):
    code = "DL507"
    name = "normalize-stats-mismatch"
    category = "suspicious"
    severity = "warning"
    triggers = (("Normalize",),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/vision/stable/models.html",)

    def __init__(self) -> None:
        self._reported: list[Instance] = []

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        composed = list(ctx.all_of(TransformsComposed))
        for event in composed:
            for pipeline in _normalized(event.composition, event.guards, ctx):
                if pipeline is not None and self._is_new(pipeline):
                    yield from self._check_numbers(pipeline, ctx)
        groups = [_of_datasets(ctx)]
        groups.extend(
            _of_names([event for event in composed if event.frame is frame], ctx)
            for frame in {e.frame for e in composed}
        )
        for group in groups:
            for evaluated, trained in _mismatches(group, ctx):
                if self._is_new(evaluated):
                    yield self._report_mismatch(evaluated, trained, ctx)

    def _is_new(self, pipeline: _Normalized) -> bool:
        return not any(pipeline.normalize is known for known in self._reported)

    def _report_mismatch(self, evaluated: _Normalized, trained: _Normalized, ctx: Context) -> Finding:
        self._reported.append(evaluated.normalize)
        edits = _as_trained(evaluated.site, trained.site, ctx)
        return ctx.finding(
            self,
            evaluated.site,
            "evaluation normalises with other numbers than training",
            effect=f"the model was trained on {_shown(trained)} and is measured on {_shown(evaluated)}",
            help="use one `Normalize` for both",
            trace=[(trained.site, "training data is normalised here"), (evaluated.site, "evaluation data here")],
            fixes=offer("Normalise as in training", edits, "unsafe", of=evaluated.site, at=evaluated.site),
            assuming=assumed_under((*evaluated.guards, *trained.guards)),
        )

    def _check_numbers(self, pipeline: _Normalized, ctx: Context) -> Iterator[Finding]:
        problem = _problem_of_range(pipeline, ctx)
        if problem:
            self._reported.append(pipeline.normalize)
            yield self._report_numbers(pipeline, problem, (), ctx)
            return
        problems: list[str] = []
        edits: list[Edit] = []
        for name, numbers, right, index in (("mean", pipeline.mean, _MEAN, 0), ("std", pipeline.std, _STD, 1)):
            found = _problem_of_constants(name, numbers, right, pipeline, ctx)
            if found:
                problems.append(found)
                edits.extend(_corrected(ctx.argument(pipeline.normalize, index, name), right))
        if problems:
            self._reported.append(pipeline.normalize)
            yield self._report_numbers(pipeline, problems[0], edits if len(edits) == len(problems) else (), ctx)

    def _report_numbers(self, pipeline: _Normalized, problem: str, edits: Sequence[Edit], ctx: Context) -> Finding:
        return ctx.finding(
            self,
            pipeline.site,
            problem,
            effect="the model sees images of another kind than it was, or will be, trained with",
            help="normalise with the numbers that the model's weights or the data call for",
            trace=[(pipeline.site, f"the pipeline normalises with {_shown(pipeline)}")],
            fixes=offer("Use ImageNet's numbers", edits, "unsafe", of=pipeline.site, at=pipeline.site),
            assuming=[Assumption("effect", "the numbers are a mistake and not those of other data")],
        )


# ------------------------------------------------------------------------------------------------ the pipelines


def _normalized(transform: Value, guards: Guards, ctx: Context) -> list[_Normalized | None]:
    """The pipelines that a transform may be, if it normalises once; ``None`` stands for numbers that are not known."""
    steps = ctx.data.steps(transform)
    found = [index for index, step in enumerate(steps) if step.kind in ("Normalize", "A.Normalize")]
    if not found or any(ctx.consistent(steps[a].guards, steps[b].guards) for a, b in combinations(found, 2)):
        return [None]
    return [pipeline for index in found for pipeline in _normalized_at(steps, index, guards, ctx)]


def _normalized_at(
    steps: Sequence[TransformStep], index: int, guards: Guards, ctx: Context
) -> list[_Normalized | None]:
    """The pipelines that normalise in the step at ``index``, and in no other one."""
    step = steps[index]
    if not isinstance(step.value, Instance) or step.value.site is None:
        return [None]
    normalize, site = step.value, step.value.site
    is_other = step.kind == "A.Normalize"
    if is_other and len(normalize.arguments.positional) + len(normalize.arguments.keywords) > 2:
        return [None]
    means = _numbers(ctx.argument(normalize, 0, "mean"), _MEAN if is_other else None)
    stds = _numbers(ctx.argument(normalize, 1, "std"), _STD if is_other else None)
    before = tuple(each for each in steps[:index] if ctx.consistent(each.guards, step.guards))
    return [
        _Normalized(normalize, site, mean, std, (*guards, *step.guards, *one, *other), before) if mean and std else None
        for one, mean in means
        for other, std in stds
        if ctx.consistent(one, other)
    ]


def _numbers(value: Value | None, default: Numbers | None) -> list[tuple[Guards, Numbers | None]]:
    """The numbers that an argument may be, and when; ``None`` where they are not known."""
    if value is None:
        return [((), default)]
    return [(guards, _constants(option)) for guards, option in alternatives(value)]


def _constants(value: Value) -> Numbers | None:
    if isinstance(value, Symbol) and value.name in ("numpy.array", "torch.tensor") and value.inputs:
        return _constants(value.inputs[0])
    if isinstance(value, External) and value.name.startswith("timm."):
        return _OF_TIMM.get(value.name.rpartition(".")[2])
    items = value.items if isinstance(value, Items) and value.exact else (value,)
    found = [item.value for item in items if isinstance(item, Const) and isinstance(item.value, int | float)]
    return tuple(float(number) for number in found) if len(found) == len(items) else None


def _shown(pipeline: _Normalized) -> str:
    mean, std = (", ".join(f"{number:g}" for number in numbers) for numbers in (pipeline.mean, pipeline.std))
    return f"({mean}), ({std})"


# ---------------------------------------------------------------------------------------- training and evaluation


def _of_datasets(ctx: Context) -> list[_Use]:
    """The pipelines of the program's datasets."""
    parts: dict[int, tuple[Instance, str]] = {}
    for event in ctx.all_of(DatasetCreated):
        if isinstance(event.dataset, Instance):
            parts[id(event.dataset)] = (event.dataset, ctx.data.part(event.dataset))
    for loader in ctx.data.loaders:
        for dataset in ctx.data.datasets(loader.dataset):
            parts[id(dataset)] = (dataset, ctx.data.part_of_loader(loader) or ctx.data.part(dataset))
    return [
        use
        for dataset, part in parts.values()
        if not ctx.data.inner(dataset)
        for use in _of_dataset(dataset, part, ctx)
    ]


def _of_dataset(dataset: Instance, part: str, ctx: Context) -> list[_Use]:
    """The pipelines of one dataset; those without numbers do not count if one with numbers stands behind them."""
    found = [
        use
        for applied in ctx.data.applied(dataset)
        for use in _use(part, _kind(dataset, ctx), applied.value, applied.guards, ctx)
    ]
    return [use for use in found if use.pipeline is not None] or found


def _kind(dataset: Instance, ctx: Context) -> object:
    """The class of a dataset, or the library's that it derives from."""
    bases = [base for base in ctx.library_bases(dataset) if "datasets." in base]
    return bases[0] if len(bases) == 1 else dataset.cls


def _of_names(events: list[TransformsComposed], ctx: Context) -> list[_Use]:
    """The pipelines that one function builds and calls ``train_transform`` and ``test_transform``."""
    return [
        use
        for event in events
        for use in _use(ctx.data.part(event.composition), "name", event.composition, event.guards, ctx)
    ]


def _use(part: str, kind: object, transform: Value, guards: Guards, ctx: Context) -> Iterator[_Use]:
    """What a transform is used for, if that is known and it is not one that certainly does not normalise."""
    kinds = {step.kind for step in ctx.data.steps(transform)}
    if part and ({"", "Lambda", "Normalize", "A.Normalize"} & kinds):
        yield from (_Use(part, kind, pipeline) for pipeline in _normalized(transform, guards, ctx))


def _mismatches(uses: list[_Use], ctx: Context) -> Iterator[tuple[_Normalized, _Normalized]]:
    """The pipelines for evaluation whose numbers no pipeline for the same kind of training data has."""
    for use in uses:
        own = use.pipeline
        if use.part != "eval" or own is None:
            continue
        trained = [other.pipeline for other in uses if other.part == "train" and other.kind == use.kind]
        known = [other for other in trained if other is not None and ctx.consistent(other.guards, own.guards)]
        if known and None not in trained and not any(_is_close(own, other) for other in known):
            yield own, known[0]


def _is_close(left: _Normalized, right: _Normalized) -> bool:
    """Whether two pipelines differ by less than matters."""
    means, stds = _pairs(left.mean, right.mean), _pairs(left.std, right.std)
    return all(abs(a - b) < 0.02 for a, b in means) and all(abs(a - b) < 0.05 * max(abs(a), abs(b)) for a, b in stds)


def _pairs(left: Numbers, right: Numbers) -> Iterator[tuple[float, float]]:
    """The numbers for each channel; a single one is for all."""
    length = max(len(left), len(right))
    yield from zip(
        left * length if len(left) == 1 else left, right * length if len(right) == 1 else right, strict=False
    )


def _as_trained(evaluated: Site, trained: Site, ctx: Context) -> tuple[Edit, ...]:
    """The call as training writes it, if it is of numbers only and both are in one file."""
    node = trained.node
    if (
        evaluated.module is not trained.module
        or not isinstance(node, ast.Call)
        or not isinstance(evaluated.node, ast.Call)
    ):
        return ()
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if any(isinstance(part, ast.Name) for value in given for part in ast.walk(value)):
        return ()
    return replace_range(evaluated, ctx.source_of(trained))


# ---------------------------------------------------------------------------------------------- the numbers alone


def _problem_of_range(pipeline: _Normalized, ctx: Context) -> str:
    """Whether the numbers are for pixels of another range than the steps before give."""
    kinds = [step.kind for step in pipeline.before]
    if any(not kind or kind == "Lambda" or kind.startswith("A.") for kind in kinds):
        return ""
    scaled = "ToTensor" in kinds or "ConvertImageDtype" in kinds
    if scaled and min(pipeline.mean) > 1:
        return "a mean for pixels of 0 to 255 is subtracted from pixels of 0 to 1"
    casts = [step.value for step in pipeline.before if step.kind == "ToDtype"]
    raw = not scaled and not _UNSCALED.isdisjoint(kinds) and len(casts) == 1
    if raw and 0 < max(pipeline.mean) <= 1 and _keeps_range(casts[0], ctx):
        return "a mean for pixels of 0 to 1 is subtracted from pixels of 0 to 255"
    return ""


def _keeps_range(cast: Value, ctx: Context) -> bool:
    """Whether a ``ToDtype`` is not told to scale."""
    if not isinstance(cast, Instance) or not cast.arguments.exact:
        return False
    scale = ctx.argument(cast, 1, "scale")
    return scale is None or (isinstance(scale, Const) and scale.value is False)


def _problem_of_constants(name: str, numbers: Numbers, right: Numbers, pipeline: _Normalized, ctx: Context) -> str:
    """Whether ImageNet's numbers are mistyped or in the reverse order."""
    if len(numbers) != 3 or numbers == right:
        return ""
    if numbers == right[::-1]:
        both = pipeline.mean == _MEAN[::-1] and pipeline.std == _STD[::-1]
        is_bgr = both and (ctx.project_mentions(_BGR) or ctx.project_mentions(_BGR, where="here"))
        return "" if is_bgr else f"the {name} has ImageNet's numbers in the order of BGR"
    wrong = [(given, wanted) for given, wanted in zip(numbers, right, strict=True) if given != wanted]
    if len(wrong) == 1 and abs(wrong[0][0] - wrong[0][1]) > 0.01:
        return f"the {name} is ImageNet's but for one number: {wrong[0][0]:g} instead of {wrong[0][1]:g}"
    return ""


def _corrected(given: Value | None, right: Numbers) -> tuple[Edit, ...]:
    """ImageNet's numbers in the place of those that are written there."""
    node = given.site.node if given is not None and given.site is not None else None
    if given is None or given.site is None or not isinstance(node, ast.List | ast.Tuple):
        return ()
    text = ", ".join(f"{number:g}" for number in right)
    return replace_range(given.site, f"[{text}]" if isinstance(node, ast.List) else f"({text})")
