"""What all views of a program share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeVar, cast

from dllint.events import Event
from dllint.flow import Structure
from dllint.interp.run.machine import Machine
from dllint.interp.source.facts import Facts
from dllint.structure import Program
from dllint.values import Value

E = TypeVar("E", bound=Event)
Unit = Literal["batches", "epochs", "micro-batches", "runs", "unknown"]


class ProgramView:
    """One program that was interpreted: its events and what they are about.

    ``versions`` are the lowest versions of torch and its relatives that the user's project runs with, by package,
    and ``limits`` those below which they stay.
    """

    def __init__(
        self,
        machine: Machine,
        program: Program,
        versions: Mapping[str, str],
        limits: Mapping[str, str] | None = None,
    ) -> None:
        self._machine = machine
        self.program = program
        self.versions = versions
        self.limits = limits if limits is not None else {}
        self._parameters: dict[int, tuple[list[Value], bool]] = {}
        self._concerns: dict[tuple[str, int, int], bool] = {}
        self._reach: dict[int, tuple[frozenset[int], Value]] = {}
        self._identities: dict[int, tuple[frozenset[int], Value | None]] = {}
        self._given: dict[Event, list[frozenset[int]]] = {}
        self._behind: dict[tuple[int, bool], list[Value]] = {}
        self._kinds: dict[tuple[type[Event], ...], list[Event]] = {}
        self._modules: dict[int, tuple[list[Value], bool]] = {}
        self._training: dict[int, bool] = {}
        self._units: dict[int, Unit] = {}

    @property
    def facts(self) -> Facts:
        """What is known about libraries, the user's additions included."""
        return self._machine.facts

    @cached_property
    def _structure(self) -> Structure:
        return Structure(self.program.body)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All events of the program, in order."""
        return tuple(self._structure.events)

    def all_of(self, *kinds: type[E]) -> Sequence[E]:
        """The events of some kinds, in order."""
        known = self._kinds.get(kinds)
        if known is None:
            known = self._kinds[kinds] = self._structure.all_of(*kinds)
        return cast("Sequence[E]", known)
