"""Normalization with numbers that the model was not, or is not to be, trained with.

`Normalize` subtracts a mean and divides by a deviation. The model gets used to what comes out: if evaluation uses other
numbers than training, ImageNet's numbers are mistyped or in the order of BGR, numbers for pixels of 0 to 255 meet
pixels of 0 to 1, or mean and deviation changed places, as their names say, it sees images of a kind that it never saw.

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
OpenCV or flipped, and a mean above 1 after a step that may scale the pixels.

## Fix (unsafe)
Writes ImageNet's numbers where one is mistyped or the order is wrong, and for evaluation the numbers of training.
Unsafe because it changes what the model sees, as it should.

## On real code
742 public repositories: no finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Assumption,
    Const,
    Context,
    Edits,
    Finding,
    Instance,
    Items,
    LibraryCall,
    Normalization,
    NormalizationUse,
    Numbers,
    Program,
    Rule,
    Site,
    TransformsComposed,
    Value,
    assumed_under,
    replace_range,
    together,
)

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_MEANS = re.compile(r"(?i)(?<![a-z])means?(?![a-z])")
_DEVIATIONS = re.compile(r"(?i)(?<![a-z])(stds?|stdev|std_?dev)(?![a-z])")
_UNSCALED = frozenset(("PILToTensor", "ToImage", "ToImageTensor"))


@dataclass(frozen=True)
class _Problem:
    """What is wrong with the numbers of a pipeline. ``is_slight`` says that it may be of little consequence."""

    text: str
    edits: Edits
    is_slight: bool = False


def read_as_bgr(place: Site, pipeline: Normalization, ctx: Context) -> bool:
    """the numbers are in the order of BGR, and images may be read so"""
    if pipeline.mean != _MEAN[::-1] or pipeline.std != _STD[::-1]:
        return False
    return ctx.may_read_bgr()


class NormalizeStatsMismatch(Rule):
    code = "DL507"
    name = "normalize-stats-mismatch"
    category = "suspicious"
    severity = "warning"
    default = False
    preview = True
    triggers = (("Normalize",),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/vision/stable/models.html",)

    excuses = (read_as_bgr,)

    def __init__(self) -> None:
        self._reported: list[Instance] = []

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        mean, deviation = event.arguments.get(0, "mean"), event.arguments.get(1, "std")
        is_known = any(isinstance(each, Items | Const) for each in (mean, deviation))
        if ctx.facts.transform_kind(event.name) != "Normalize" or is_known or not isinstance(event.result, Instance):
            return
        written = [_name_as_written(event.site.node, *place) for place in ((0, "mean"), (1, "std"))]
        if _MEANS.search(written[0]) or not _MEANS.search(written[1]):
            return
        if _DEVIATIONS.search(written[1]) or not _DEVIATIONS.search(written[0]):
            return
        self._reported.append(event.result)
        yield ctx.finding(
            self,
            event,
            f"`{written[0]}` is given as the mean, and `{written[1]}` as the deviation",
            on=[event],
            assuming=[Assumption("name", "the numbers are what they are called"), *ctx.assumed_use(event.result, "it")],
            effect="the model sees images of another kind than it was, or will be, trained with",
            help="pass the mean first, and then the deviation",
            trace=[(event.site, "the pixels are normalized here")],
        )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        composed = list(ctx.all_of(TransformsComposed))
        for event in composed:
            for pipeline in ctx.data.normalizations(event.composition, event.guards):
                if pipeline is not None and self._is_new(pipeline):
                    yield from self._check_numbers(pipeline, event.composition, ctx)
        groups = [ctx.data.normalized_datasets()]
        groups.extend(
            ctx.data.normalized_by_name(event for event in composed if event.frame is frame)
            for frame in {event.frame for event in composed}
        )
        for group in groups:
            for evaluated, trained in _mismatches(group, ctx):
                if evaluated.pipeline is not None and self._is_new(evaluated.pipeline):
                    yield from self._report_mismatch(evaluated, trained, ctx)

    def _is_new(self, pipeline: Normalization) -> bool:
        return not any(pipeline.normalize is known for known in self._reported)

    def _report_mismatch(
        self, evaluation: NormalizationUse, training: NormalizationUse, ctx: Context
    ) -> Iterator[Finding]:
        evaluated, trained = evaluation.pipeline, training.pipeline
        assert evaluated is not None and trained is not None
        self._reported.append(evaluated.normalize)
        is_told = evaluation.is_told and training.is_told
        yield ctx.finding(
            self,
            evaluated.site,
            "evaluation normalizes with other numbers than training",
            on=[*evaluation.through, *training.through],
            assuming=[
                *assumed_under((*evaluated.guards, *trained.guards)),
                *([] if is_told else [Assumption("name", "the data is for what names say")]),
            ],
            effect=f"the model was trained on {trained.text} and is measured on {evaluated.text}",
            help="use one `Normalize` for both",
            trace=[(trained.site, "training data is normalized here"), (evaluated.site, "evaluation data here")],
            fix=("Normalize as in training", _as_trained(evaluated.site, trained.site, ctx)),
        )

    def _check_numbers(self, pipeline: Normalization, composition: Value, ctx: Context) -> Iterator[Finding]:
        problem = _problem_of_range(pipeline, ctx) or _problem_of_constants(pipeline, ctx)
        if problem is None or ctx.excused(self, pipeline.site, pipeline):
            return
        self._reported.append(pipeline.normalize)
        yield ctx.finding(
            self,
            pipeline.site,
            problem.text,
            on=[composition],
            assuming=[
                *assumed_under(pipeline.guards),
                *([Assumption("effect", "the number is a mistake, and matters")] if problem.is_slight else []),
                *ctx.assumed_use(composition, "the pipeline"),
            ],
            effect="the model sees images of another kind than it was, or will be, trained with",
            help="normalize with the numbers that the model's weights or the data call for",
            trace=[(pipeline.site, f"the pipeline normalizes with {pipeline.text}")],
            fix=("Use ImageNet's numbers", problem.edits),
        )


def _name_as_written(call: ast.AST, position: int, keyword: str) -> str:
    """The last part of the name of an argument, ``config.mean``, ``stats["mean"]``; nothing of what is computed."""
    if not isinstance(call, ast.Call):
        return ""
    given = [*call.args[position : position + 1], *(each.value for each in call.keywords if each.arg == keyword)]
    node = given[0] if given else None
    if isinstance(node, ast.Subscript):
        return node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


# ---------------------------------------------------------------------------------------- training and evaluation


def _mismatches(uses: list[NormalizationUse], ctx: Context) -> Iterator[tuple[NormalizationUse, NormalizationUse]]:
    """The pipelines for evaluation whose numbers no pipeline for the same kind of training data has."""
    for use in uses:
        own = use.pipeline
        if use.part != "eval" or own is None:
            continue
        training = [other for other in uses if other.part == "train" and other.kind == use.kind]
        known = [o for o in training if o.pipeline is not None and ctx.consistent(o.pipeline.guards, own.guards)]
        is_known = bool(known) and all(other.pipeline is not None for other in training)
        if is_known and not any(other.pipeline is not None and own.is_close(other.pipeline) for other in known):
            yield use, known[0]


def _as_trained(evaluated: Site, trained: Site, ctx: Context) -> Edits:
    """The call as training writes it, if it is of numbers only and both are in one file."""
    node = trained.node
    is_there = evaluated.module is trained.module and isinstance(evaluated.node, ast.Call)
    if not is_there or not isinstance(node, ast.Call):
        return Edits()
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    is_plain = not any(isinstance(part, ast.Name) for value in given for part in ast.walk(value))
    return replace_range(evaluated, ctx.source_of(trained)) if is_plain else Edits()


# ---------------------------------------------------------------------------------------------- the numbers alone


def _problem_of_range(pipeline: Normalization, ctx: Context) -> _Problem | None:
    """Numbers for pixels of another range than the steps before give."""
    kinds = [step.kind for step in pipeline.before]
    if any(not kind or kind == "Lambda" or kind.startswith("A.") for kind in kinds):
        return None
    scaled = "ToTensor" in kinds or "ConvertImageDtype" in kinds
    if scaled and min(pipeline.mean) > 1:
        return _Problem("a mean for pixels of 0 to 255 is subtracted from pixels of 0 to 1", Edits())
    casts = [step.value for step in pipeline.before if step.kind == "ToDtype"]
    raw = not scaled and not _UNSCALED.isdisjoint(kinds) and len(casts) == 1
    if raw and 0 < max(pipeline.mean) <= 1 and _keeps_range(casts[0], ctx):
        return _Problem("a mean for pixels of 0 to 1 is subtracted from pixels of 0 to 255", Edits())
    return None


def _keeps_range(cast: Value, ctx: Context) -> bool:
    """Whether a ``ToDtype`` is not told to scale."""
    if not isinstance(cast, Instance) or not cast.arguments.exact:
        return False
    scale = ctx.argument(cast, 1, "scale")
    return scale is None or (isinstance(scale, Const) and scale.value is False)


def _problem_of_constants(pipeline: Normalization, ctx: Context) -> _Problem | None:
    """ImageNet's numbers, mistyped or in the reverse order."""
    problems = [
        found
        for index, (name, numbers, right) in enumerate(
            (("mean", pipeline.mean, _MEAN), ("std", pipeline.std, _STD)),
        )
        if (found := _problem_of(name, numbers, right, ctx.argument(pipeline.normalize, index, name)))
    ]
    if not problems:
        return None
    edits = together(*(problem.edits for problem in problems))
    return _Problem(problems[0].text, edits, all(problem.is_slight for problem in problems))


def _problem_of(name: str, numbers: Numbers, right: Numbers, given: Value | None) -> _Problem | None:
    if len(numbers) != 3 or numbers == right:
        return None
    edits = _corrected(given, right)
    if numbers == right[::-1]:
        return _Problem(f"the {name} has ImageNet's numbers in the order of BGR", edits)
    wrong = [(given, wanted) for given, wanted in zip(numbers, right, strict=True) if given != wanted]
    if len(wrong) == 1 and abs(wrong[0][0] - wrong[0][1]) > 0.01:
        text = f"the {name} is ImageNet's but for one number: {wrong[0][0]:g} instead of {wrong[0][1]:g}"
        return _Problem(text, edits, is_slight=True)
    return None


def _corrected(given: Value | None, right: Numbers) -> Edits:
    """ImageNet's numbers in the place of those that are written there."""
    node = given.site.node if given is not None and given.site is not None else None
    if given is None or given.site is None or not isinstance(node, ast.List | ast.Tuple):
        return Edits()
    text = ", ".join(f"{number:g}" for number in right)
    return replace_range(given.site, f"[{text}]" if isinstance(node, ast.List) else f"({text})")
