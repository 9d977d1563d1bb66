"""The loops around an event, its conditions, and the paths that lead through a program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice

from dllint.context.base import ProgramView
from dllint.events import Backward, Event
from dllint.flow import Flow, State, follow, is_of_runs
from dllint.interp.run import graph
from dllint.interp.run.guards import beyond, consistent, same_conditions
from dllint.interp.source.phases import topic_of
from dllint.interp.source.positions import is_last_time
from dllint.sites import Guards, GuardTopic, Site
from dllint.structure import Loop, entered, walk
from dllint.values import Symbol, Value

_MAX_WRAPPERS = 3  # tqdm(enumerate(loader))


class Paths(ProgramView):
    """Structured control flow as rules see it."""

    def loops_around(self, event: Event) -> tuple[Loop, ...]:
        """The loops around an event, innermost first. A loop over a few known things does not count."""
        return self._structure.around.get(event, ())

    def goes_over_data(self, loop: Loop) -> bool:
        """Whether a loop goes over a loader or some other data, rather than over a range of numbers."""
        value = self._inside_wrappers(loop.iterable)
        if value is None:
            return False
        names = list(islice(graph.sources(value), 12))
        return not any(isinstance(source, Symbol) and source.name.endswith(("range", "counter")) for source in names)

    def _inside_wrappers(self, iterable: Value | None) -> Value | None:
        """What a loop goes over without the enumeration or the progress bar around it, and what these are told."""
        for _ in range(_MAX_WRAPPERS):
            is_wrapper = isinstance(iterable, Symbol) and (
                iterable.name == "enumerate" or iterable.name in self.facts.iteration_wrappers
            )
            if not is_wrapper or not isinstance(iterable, Symbol) or not iterable.inputs:
                break
            iterable = iterable.inputs[0]  # and not what it starts to count from, or shows
        return iterable

    def training_loop(self, step: Event) -> Loop | None:
        """The innermost loop around an event that also contains a backward pass, and goes on after the event."""
        for loop in self.loops_around(step):
            if self.trains(loop) and not is_last_time(step.site, loop.site.node):
                return loop
        return None

    def follow(
        self,
        start: State,
        step: Callable[[Event, State], State],
        kinds: Iterable[type[Event]],
        relevant: Callable[[Event], bool],
    ) -> Flow[State]:
        """Follow all paths through the program with a state machine over the relevant events of some kinds.

        The fewer events are relevant, the faster and the more exact this is (see :mod:`dllint.flow`).
        """
        return follow(self._structure, start, step, kinds, relevant)

    def trains(self, loop: Loop) -> bool:
        """Whether there is a backward pass in a loop."""
        known = self._training.get(id(loop))
        if known is None:
            known = self._training[id(loop)] = any(isinstance(event, Backward) for event in walk(loop.body))
        return known

    def is_of_runs(self, loop: Loop) -> bool:
        """Whether each iteration of a loop is a training run of its own, with an optimizer that is made for it."""
        return is_of_runs(loop)

    def entered_in(self, loop: Loop) -> list[Site]:
        """The functions of the project that are entered in a loop, by it or by what it calls."""
        return list(entered(loop.body))

    def consistent(self, guards: Guards, others: Guards) -> bool:
        """Whether two sets of conditions can hold together, as far as can be told."""
        return consistent(guards, others)

    # ------------------------------------------------------------------------------------------ order

    def position(self, event: Event) -> int:
        """Which event of the program this is, in the order of the text."""
        return self._positions[event]

    @cached_property
    def _positions(self) -> dict[Event, int]:
        return {event: index for index, event in enumerate(self._structure.events)}

    def same_turn(self, left: Event, right: Event) -> bool:
        """Whether two events stand in one function and loop, under the same conditions: neither happens without the
        other, unless control leaves between them."""
        return (
            left.frame is right.frame
            and self.loops_around(left) == self.loops_around(right)
            and self.same_conditions(left, right)
        )

    # ------------------------------------------------------------------------------------------ conditions

    def topic_of(self, test: ast.expr) -> GuardTopic:
        """What a test asks about, as far as its names tell (see :class:`dllint.sites.Guard`)."""
        return topic_of(test)

    def same_conditions(self, left: Event, right: Event) -> bool:
        """Whether two events happen under the very same conditions."""
        return same_conditions(left.guards, right.guards)

    def exclusive(self, left: Event, right: Event) -> bool:
        """Whether two events certainly do not happen on one path: their conditions exclude each other."""
        return not consistent(left.guards, right.guards)

    def conditions_beyond(self, event: Event, other: Event) -> Guards:
        """The conditions of an event that are not conditions of another."""
        return beyond(event.guards, other.guards)
