"""What a rule can ask about the program it looks at, and how it reports what it found."""

from __future__ import annotations

from functools import cached_property

from dllint.context.checkpoints import CheckpointView
from dllint.context.data import DataView
from dllint.context.decisions import Decisions
from dllint.context.optimizers import Optimizers
from dllint.context.reporting import Reporting
from dllint.context.sources import Sources

__all__ = ["Context"]


class Context(Reporting, Sources, Optimizers, Decisions):
    """The view of one program that rules get. It answers questions; it does not let a rule change anything."""

    @cached_property
    def data(self) -> DataView:
        """The loaders of the program, their datasets and transforms."""
        return DataView(self._machine, self._structure)

    @cached_property
    def checkpoints(self) -> CheckpointView:
        """What the program saves, and what it reads back."""
        return CheckpointView(self._machine, self._structure)
