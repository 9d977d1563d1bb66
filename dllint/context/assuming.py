"""What a claim takes for granted, read off the things that it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption, Assumptions, union
from dllint.context.base import ProgramView
from dllint.events import Event, Loop, OptimizerStep, SchedulerStep, ZeroGrad
from dllint.interp.ask.origins import Origin
from dllint.interp.run import classes, graph, roles
from dllint.sites import Guard
from dllint.values import Choice, Setting, Symbol, Value

_ROLES = {"optimizer": "an optimizer", "scheduler": "a learning-rate scheduler", "scaler": "a gradient scaler"}


class Assuming(ProgramView):
    """The assumptions behind events, values and conditions."""

    def assumptions_of(self, *evidence: Any) -> Assumptions:
        """What is assumed by a claim that rests on some evidence, each thing once.

        Evidence is an event, value, origin, loop, condition or assumption, a sequence of these, or anything else that
        has ``assumptions`` of its own; ``None`` is no evidence.
        """
        return union(*(self._assumed(each) for each in evidence))

    def _assumed(self, evidence: Any) -> Iterable[Assumption]:
        if evidence is None:
            return ()
        if isinstance(evidence, Assumption):
            return (evidence,)
        if isinstance(evidence, tuple | list):
            return self.assumptions_of(*evidence)
        if isinstance(evidence, Event):
            return self._behind_event(evidence)
        if isinstance(evidence, Origin):
            return _behind_guards(evidence.guards)
        if isinstance(evidence, Guard):
            return _behind_guards((evidence,))
        if isinstance(evidence, Loop):
            return self._assumed(evidence.iterable)
        if isinstance(evidence, Value):
            return self._behind_value(evidence)
        return evidence.assumptions  # type: ignore[no-any-return]

    def _behind_event(self, event: Event) -> Iterator[Assumption]:
        yield from _behind_guards(event.guards)
        for field in fields(event):
            if field.name in _ROLES:
                yield from self._behind_role(getattr(event, field.name), field.name)

    def _behind_role(self, value: Value | None, role: str) -> Iterator[Assumption]:
        """That something is what it is called: nothing else tells so, and nothing that is done with it proves it."""
        for option in graph.objects(self._machine, value):
            if isinstance(option, Symbol) and not classes.role_of(self._machine, option) and not self._acts(option):
                name = roles.name_of(option) or "it"
                yield Assumption("name", f"`{name}` is {_ROLES[role]}, as its name says")

    def _acts(self, value: Value) -> bool:
        """Whether something is used as only an optimizer is: it takes steps, and clears gradients."""
        return id(value) in self._stepped and id(value) in self._cleared

    @cached_property
    def _stepped(self) -> frozenset[int]:
        steps = self._structure.all_of(OptimizerStep, SchedulerStep)
        return frozenset(
            id(each)
            for step in steps
            if isinstance(step, OptimizerStep)
            for each in graph.objects(self._machine, step.optimizer)
        )

    @cached_property
    def _cleared(self) -> frozenset[int]:
        return frozenset(
            id(each)
            for event in self._structure.all_of(ZeroGrad)
            if isinstance(event, ZeroGrad)
            for each in graph.objects(self._machine, event.target)
        )

    def _behind_value(self, value: Value) -> Iterator[Assumption]:
        if isinstance(value, Setting):
            yield _of_setting(value)
        elif isinstance(value, Choice):
            for guards, _ in value.options:
                yield from _behind_guards(guards)


def _of_setting(setting: Setting) -> Assumption:
    default = getattr(setting.default, "value", None)
    if default is None or isinstance(setting.default, Symbol):
        return Assumption("no-default", f"`{setting.name}`, which has no default, is set so")
    return Assumption("default", f"`{setting.name}` is {default!r}, as by default")


def _behind_guards(guards: Iterable[Guard]) -> Iterator[Assumption]:
    return (guard.assumption for guard in guards if guard.assumption is not None)
