"""What the parts of a batch are in the samples of a dataset, where a loader itself stacks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.interp.ask.data_shapes import loader_of, makes_batches
from dllint.interp.ask.pipelines import inner_datasets, sample_of
from dllint.values import Instance, Items, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def batch_behind(part: Value) -> Symbol | None:
    """The batch of a loader that a value is a part of: ``batch[1]``, or one of ``for part in batch``."""
    base = part.inputs[0] if isinstance(part, Symbol) and part.name in ("item", "element") and part.inputs else None
    return base if isinstance(base, Symbol) and loader_of(base) is not None else None


def in_samples(machine: Machine, part: Symbol) -> list[Value | None]:
    """What a part of a batch is in a sample, for each way that a sample is made; ``None`` where that is not known.

    Of a batch whose parts are gone over, it may be each of them.
    """
    batch = batch_behind(part)
    loader = loader_of(batch) if batch is not None else None
    dataset = _innermost(machine, loader) if loader is not None and makes_batches(loader) else None
    return _parts(machine, dataset, part) if dataset is not None else []


def samples_behind(machine: Machine, part: Value) -> list[Table]:
    """The samples, of which all entries are known, that a loader makes the batch of in which something is a part."""
    batch = batch_behind(part)
    loader = loader_of(batch) if batch is not None else None
    dataset = _innermost(machine, loader) if loader is not None and makes_batches(loader) else None
    sample = sample_of(machine, dataset) if dataset is not None and not _is_of_tensors(dataset) else None
    options = [option for _, option in alternatives(sample)] if sample is not None else []
    return [option for option in options if isinstance(option, Table) and option.exact]


def in_collated(machine: Machine, part: Value) -> list[Value | None]:
    """The same for a part of one of the samples that a loader gives its `collate_fn`: ``sample["label"]``.

    So are the parts of all of them at one place, of ``zip(*samples)``.
    """
    base = part.inputs[0] if isinstance(part, Symbol) and part.name == "item" else None
    if isinstance(base, Symbol) and base.name == "zip" and len(base.inputs) == 1:
        base = base.inputs[0]
    given = base.inputs[0] if isinstance(base, Symbol) and base.name == "element" else None
    loader = given.inputs[0] if isinstance(given, Symbol) and given.name == "samples" else None
    dataset = _innermost(machine, loader) if isinstance(loader, Instance) else None
    return _parts(machine, dataset, part) if dataset is not None and isinstance(part, Symbol) else []


def _innermost(machine: Machine, loader: Instance) -> Instance | None:
    """The dataset of a loader, or that of which it is a part."""
    dataset = loader.arguments.get(0, "dataset")
    while isinstance(dataset, Instance) and not _is_of_tensors(dataset):
        inner = inner_datasets(machine, dataset)
        if len(inner) != 1:
            break
        dataset = inner[0]
    return dataset if isinstance(dataset, Instance) else None


def _parts(machine: Machine, dataset: Instance, part: Symbol) -> list[Value | None]:
    if _is_of_tensors(dataset):
        return [_entry(Items("tuple", dataset.arguments.positional, dataset.site), part.detail)]
    sample = sample_of(machine, dataset)
    options = [option for _, option in alternatives(sample)] if sample is not None else []
    if part.name == "element":
        return [entry for option in options for entry in _entries(option)]
    return [_entry(option, part.detail) for option in options]


def _is_of_tensors(dataset: Instance) -> bool:
    return dataset.library_name.endswith(".TensorDataset")


def _entries(sample: Value) -> tuple[Value, ...]:
    if isinstance(sample, Items):
        return tuple(sample.items)
    return tuple(sample.entries().values()) if isinstance(sample, Table) else ()


def _entry(sample: Value, index: object) -> Value | None:
    """An entry of a sample, if all of them are known."""
    if isinstance(sample, Items) and sample.exact and isinstance(index, int) and -len(sample.items) <= index:
        return sample.items[index] if index < len(sample.items) else None
    return sample.entries().get(index) if isinstance(sample, Table) and sample.exact else None
