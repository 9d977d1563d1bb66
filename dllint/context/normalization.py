"""Pipelines that normalize: with which numbers, under which conditions, and after which steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from dllint.choices import alternatives
from dllint.dataclass import dataclass
from dllint.interp.ask.pipelines import TransformStep, numbers_in, scale_of_normalize
from dllint.interp.run.guards import consistent
from dllint.interp.source.facts import Facts
from dllint.sites import Guards, Site
from dllint.values import Instance, Value

Numbers = tuple[float, ...]
_KINDS = ("Normalize", "A.Normalize")


@dataclass(frozen=True, slots=True)
class Normalization:
    """The only ``Normalize`` of a pipeline, which takes it under ``guards``. ``before`` are the steps up to it."""

    normalize: Instance
    site: Site
    mean: Numbers
    std: Numbers
    guards: Guards
    before: tuple[TransformStep, ...]

    @property
    def text(self) -> str:
        """The numbers, for people."""
        mean, std = (", ".join(f"{number:g}" for number in numbers) for numbers in (self.mean, self.std))
        return f"({mean}), ({std})"

    def is_close(self, other: Normalization) -> bool:
        """Whether it differs from another one by less than matters."""
        means, stds = _pairs(self.mean, other.mean), _pairs(self.std, other.std)
        return all(abs(a - b) < 0.02 for a, b in means) and all(
            abs(a - b) < 0.05 * max(abs(a), abs(b)) for a, b in stds
        )


@dataclass(frozen=True, slots=True)
class NormalizationUse:
    """What a pipeline is used for: ``train`` or ``eval`` data of some kind; ``is_told`` says that no name tells it.

    ``pipeline`` is ``None`` where its numbers are not known. ``through`` are the dataset, where one is known, and the
    transform.
    """

    part: str
    kind: object
    is_told: bool
    pipeline: Normalization | None
    through: tuple[Value, ...]


def may_normalize(steps: list[TransformStep]) -> bool:
    """Whether a transform of these steps is not one that certainly does not normalize."""
    return not {step.kind for step in steps}.isdisjoint(("", "Lambda", *_KINDS))


def _pairs(left: Numbers, right: Numbers) -> Iterator[tuple[float, float]]:
    """The numbers for each channel; a single one is for all."""
    length = max(len(left), len(right))
    yield from zip(
        left * length if len(left) == 1 else left, right * length if len(right) == 1 else right, strict=False
    )


def normalizations(steps: list[TransformStep], guards: Guards, facts: Facts) -> list[Normalization | None]:
    """How a pipeline of some steps normalizes, if once; ``None`` stands for numbers that are not known."""
    found = [index for index, step in enumerate(steps) if step.kind in _KINDS]
    if not found or any(consistent(steps[one].guards, steps[other].guards) for one, other in combinations(found, 2)):
        return [None]
    return [pipeline for index in found for pipeline in _normalizations_at(index, steps, guards, facts)]


def _normalizations_at(
    index: int, steps: list[TransformStep], guards: Guards, facts: Facts
) -> list[Normalization | None]:
    """How a pipeline normalizes in one of its steps, and in no other one at the same time."""
    step = steps[index]
    if not isinstance(step.value, Instance) or step.value.site is None:
        return [None]
    normalize, site, arguments = step.value, step.value.site, step.value.arguments
    is_other = step.kind == "A.Normalize"
    if is_other and not scale_of_normalize(normalize):
        return [None]
    defaults = facts.constants if is_other else {}
    means = _options(arguments.get(0, "mean"), defaults.get("albumentations.Normalize.mean"), facts)
    stds = _options(arguments.get(1, "std"), defaults.get("albumentations.Normalize.std"), facts)
    before = tuple(each for each in steps[:index] if consistent(each.guards, step.guards))
    return [
        Normalization(normalize, site, mean, std, (*guards, *step.guards, *one, *other), before)
        if mean and std
        else None
        for one, mean in means
        for other, std in stds
        if consistent(one, other)
    ]


def _options(value: Value | None, default: Numbers | None, facts: Facts) -> list[tuple[Guards, Numbers | None]]:
    """The numbers that an argument may be, and when; ``None`` where they are not known."""
    if value is None:
        return [((), default)]
    return [(guards, numbers_in(option, facts)) for guards, option in alternatives(value)]
