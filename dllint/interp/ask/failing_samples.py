"""Datasets that certainly fail when a sample is asked for: nothing that goes over their batches gets any."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import TYPE_CHECKING

from dllint.events import OptimizerStep
from dllint.interp.ask.attempts import attempt
from dllint.interp.ask.data_shapes import loader_of
from dllint.interp.ask.failing_models import failure_in_model
from dllint.interp.ask.pipelines import inner_datasets
from dllint.interp.run.classes import find_member
from dllint.interp.run.failures import failure_of, origin_of, ways_out
from dllint.sites import Guards, Site
from dllint.structure import Block, Branch, Invocation, Leave, Loop, Node, walk
from dllint.values import Class, Instance, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MOST_DATASETS = 4
_MOST_WRAPPERS = 3


def failure_in_part(machine: Machine, body: Block, under: Guards) -> tuple[Site, str] | None:
    """Where a model or a dataset of a program fails whatever it is given, before anything is learned, and which it is.

    Args:
        machine: the interpreter.
        body: the program.
        under: the conditions that hold.
    """
    failure, what = failure_in_model(machine, walk(body), under), "the model"
    if failure is None:
        failure, what = failure_in_samples(machine, body, under), "the dataset"
    return (failure, what) if failure is not None else None


def failure_in_samples(machine: Machine, body: Block, under: Guards) -> Site | None:
    """Where a program fails in the `__getitem__` of a dataset before anything is learned, under some conditions.

    Args:
        machine: the interpreter.
        body: the program.
        under: the conditions that hold.
    """
    loops = _loops_in_any_case(body, under)
    datasets = (_dataset_of(machine, loop.element) for loop in loops)
    for dataset in islice(filter(None, datasets), _MOST_DATASETS):
        trial = attempt(machine, dataset, "__getitem__", "index")
        if trial is not None and failure_of(trial.body) is not None:
            return origin_of(trial.body)
    return None


def _loops_in_any_case(block: Block, under: Guards) -> Generator[Loop, None, bool]:
    """The loops that a program comes to on each way through a block before it learns anything.

    A loop in another one is come to if that one makes a turn: it is one of epochs, of which there are some. Returns
    whether the program goes on after the block, and still has not learned anything.
    """
    for item in block.items:
        if isinstance(item, OptimizerStep):
            return False
        if isinstance(item, Leave):
            return True
        if isinstance(item, Loop):
            yield item
        for inner in _blocks_taken(item, under):
            if not (yield from _loops_in_any_case(inner, under)):
                return False
        if isinstance(item, Branch) and (ways_out(item) or any(isinstance(each, OptimizerStep) for each in walk(item))):
            return False
    return True


def _blocks_taken(item: Node, under: Guards) -> list[Block]:
    """The blocks in an item that are run in any case: of a branch, the arm whose conditions are known to hold."""
    if isinstance(item, Branch):
        return [arm.body for arm in item.arms if arm.guards and all(guard in under for guard in arm.guards)]
    return [item.body] if isinstance(item, Loop | Invocation) else []


def _dataset_of(machine: Machine, element: Value | None) -> Instance | None:
    """The dataset of the project that a loader has the samples of a batch from, if a loop is over batches."""
    parts = element.items if isinstance(element, Items) else (element,)
    loaders = [loader_of(each) for each in parts if isinstance(each, Symbol)]
    loader = next((each for each in loaders if each is not None), None)
    dataset = loader.arguments.get(0, "dataset") if loader is not None else None
    for _ in range(_MOST_WRAPPERS):
        if not isinstance(dataset, Instance) or isinstance(dataset.cls, Class):
            break
        inner = inner_datasets(machine, dataset)
        dataset = inner[0] if len(inner) == 1 else None
    if not isinstance(dataset, Instance) or not isinstance(dataset.cls, Class):
        return None
    return dataset if find_member(machine, dataset.cls, "__getitems__") is None else None  # of several at once
