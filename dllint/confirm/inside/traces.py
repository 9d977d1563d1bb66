"""Numbers over a run, in as little room as is wanted."""

from __future__ import annotations

_LONGEST = 4000


class Trace:
    """Numbers at equal distances, of which every second is given up whenever they are too many."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._distance = 1
        self._until_next = 0

    def add(self, value: float) -> None:
        """Add the number that comes next."""
        if self._until_next:
            self._until_next -= 1
            return
        self.values.append(value)
        self._until_next = self._distance - 1
        if len(self.values) == _LONGEST:  # an even number, so that it is this one that goes first
            del self.values[1::2]
            self._distance *= 2
