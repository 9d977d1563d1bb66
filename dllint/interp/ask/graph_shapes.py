"""Labels of graphs: batches of ``torch_geometric`` put those of all graphs one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.interp.ask.attempts import attempt
from dllint.interp.ask.collected import members
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size, of_axis
from dllint.values import Class, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_LOADERS = tuple(f"torch_geometric.{package}.DataLoader" for package in ("loader", "data", "loader.dataloader"))
_GRAPHS = ("torch_geometric.data.Data", "torch_geometric.data.HeteroData")
_GETTERS = ("get", "__getitem__")


def of_label(machine: Machine, label: Symbol, shape_of: Callable[[Value], Shape]) -> Shape | None:
    """``batch.y``: a row, where each graph has a number, or a list of one: those are joined along their first axis.

    Anything else that a graph holds may have a step for each node.
    """
    batch = label.inputs[0]
    loader = batch.inputs[0] if isinstance(batch, Symbol) and batch.name == "element" else None
    if not isinstance(loader, Instance) or loader.library_name not in _LOADERS or not isinstance(label.detail, str):
        return None
    dataset = loader.arguments.get(0, "dataset")
    shapes = [shape_of(held) for held in _held(machine, dataset, label.detail)] if dataset is not None else []
    if not shapes or any(shape.rank is None or (shape.sizes and shape.sizes[0] != Size()) for shape in shapes):
        return None
    ends = {shape.sizes[1:] for shape in shapes}
    return Shape((of_axis(batch, 0, meaning="batch"), *ends.pop())) if len(ends) == 1 else None


def _held(machine: Machine, dataset: Value, name: str) -> Sequence[Value]:
    """What the graphs of a dataset hold under a name; nothing where some of them are not known."""
    graphs = list(_graphs(machine, dataset))
    found = [
        graph.attributes.get(name) or graph.arguments.keywords.get(name)
        for graph in graphs
        if isinstance(graph, Instance) and graph.library_name in _GRAPHS
    ]
    told = [each for each in found if each is not None]
    return told if len(told) == len(graphs) else ()


def _graphs(machine: Machine, dataset: Value) -> Iterator[Value]:
    yield from members(dataset)
    if isinstance(dataset, Instance) and isinstance(dataset.cls, Class):
        for getter in _GETTERS:
            trial = attempt(machine, dataset, getter, "index")
            if trial is not None and trial.result is not None:
                yield from (option for _, option in alternatives(trial.result))
                return
