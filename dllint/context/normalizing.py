"""Which pipelines normalize which data: those that datasets apply, and those that are called after a part of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dllint.context.normalization import Normalization, NormalizationUse, may_normalize
from dllint.events import TransformsComposed
from dllint.sites import Guards
from dllint.values import Class, Instance, Value

if TYPE_CHECKING:
    from dllint.context.data import DataView


def of_datasets(data: DataView) -> list[NormalizationUse]:
    """How the datasets of a program are normalized, and what they are for."""
    parts = {id(dataset): (dataset, data.part(dataset)) for dataset in data.created()}
    for loader in data.loaders:
        for dataset in data.datasets(loader.dataset):
            parts[id(dataset)] = (dataset, data.part_of_loader(loader) or data.part(dataset))
    return [
        use for dataset, part in parts.values() if not data.inner(dataset) for use in _of_dataset(data, dataset, part)
    ]


def _of_dataset(data: DataView, dataset: Instance, part: str) -> list[NormalizationUse]:
    """The pipelines of a dataset; those without numbers do not count if one with numbers comes after them."""
    bases = dataset.cls.library_bases if isinstance(dataset.cls, Class) else (dataset.cls,)
    named = [base for base in bases if "datasets." in base]
    kind = named[0] if len(named) == 1 else dataset.cls
    found = [
        NormalizationUse(part, kind, data.is_told_part(dataset), pipeline, (dataset, applied.value))
        for applied in data.applied(dataset)
        for pipeline in _for_part(data, part, applied.value, applied.guards)
    ]
    return [use for use in found if use.pipeline is not None] or found


def by_names(data: DataView, events: Iterable[TransformsComposed]) -> list[NormalizationUse]:
    """The same by the names of pipelines."""
    parts = [(event, data.part(event.composition)) for event in events]
    return [
        NormalizationUse(part, "name", False, pipeline, (event.composition,))
        for event, part in parts
        for pipeline in _for_part(data, part, event.composition, event.guards)
    ]


def _for_part(data: DataView, part: str, transform: Value, guards: Guards) -> list[Normalization | None]:
    if not part or not may_normalize(data.steps(transform)):
        return []
    return data.normalizations(transform, guards)
