"""Models that certainly fail when they are called: a call in their `forward` is refused, or a name in it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dllint.events import Event, ModelForward, OptimizerStep
from dllint.interp.run.classes import find_member
from dllint.interp.run.failures import failure_of, origin_of, ways_out
from dllint.sites import Guards, Site
from dllint.structure import Block, Branch, Invocation, Leave
from dllint.values import Class, Function, Instance, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MOST_MODELS = 4
_DEEPEST = 3


def failure_in_model(machine: Machine, events: Iterable[Event], under: Guards) -> Site | None:
    """Where a program fails in the `forward` of a model before anything is learned, under some conditions.

    Args:
        machine: the interpreter.
        events: those of the program, in order.
        under: the conditions that hold.
    """
    asked: set[Instance] = set()
    for event in events:
        if isinstance(event, OptimizerStep) or len(asked) >= _MOST_MODELS:
            return None
        if not isinstance(event, ModelForward) or not isinstance(event.model, Instance) or event.model in asked:
            continue
        if all(guard in under for guard in event.guards):
            asked.add(event.model)
            failure = _failure_of_forward(machine, event, _DEEPEST)
            if failure is not None:
                return failure
    return None


def _failure_of_forward(machine: Machine, event: ModelForward[Value], depth: int) -> Site | None:
    """Where the `forward` of a model fails, or that of a part which it calls in any case."""
    model = event.model
    if not depth or not isinstance(model, Instance) or not isinstance(model.cls, Class):
        return None
    member = find_member(machine, model.cls, "forward")
    if not isinstance(member, Function):
        return None
    asked = (event.result, "forward", "")
    trial = machine.attempts.get(asked)
    if trial is None:
        trial = machine.attempts[asked] = machine.tried(
            lambda: machine.invoke(member, event.arguments, event.site, receiver=model)
        )
    if failure_of(trial.body) is not None:
        return origin_of(trial.body)
    for each in _in_any_case(trial.body):
        failure = _failure_of_forward(machine, each, depth - 1)
        if failure is not None:
            return failure
    return None


def _in_any_case(block: Block) -> Iterator[ModelForward[Value]]:
    """The calls of models in a block that are made on each way through it."""
    for item in block.items:
        if isinstance(item, ModelForward):
            yield item
        elif isinstance(item, Invocation):
            yield from _in_any_case(item.body)
        elif isinstance(item, Leave) or (isinstance(item, Branch) and ways_out(item)):
            return
