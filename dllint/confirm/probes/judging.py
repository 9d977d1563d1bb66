"""What judgements rest on: what was seen of a place or of an object, and the verdicts that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dllint.confirm.evidence import Judgement, Stack, Verdict

Judgements = Iterator[Judgement]

ENOUGH = 3
"""Observations from which a statistic counts."""


@dataclass(slots=True, eq=False)
class Samples:
    """What was seen of one place, or of one object; probes add what they look for.

    Attributes:
        place: stacks, and whatever else tells what is judged apart.
        stacks: the lines that it is about.
        first, last: the steps of the run at the first and at the last call.
        calls: calls from there.
        looks: those that say something.
        wrong: those of them that are what a rule is about.
        what: the name of what was called there, for messages.
    """

    place: tuple[Any, ...] = ()
    stacks: tuple[Stack, ...] = ()
    first: int = 0
    last: int = 0
    calls: int = 0
    looks: int = 0
    wrong: int = 0
    what: str = ""

    def count(self, is_wrong: bool = False) -> None:
        """Note a look, and what it has shown."""
        self.looks += 1
        self.wrong += is_wrong

    @property
    def unanimous(self) -> Verdict:
        """The verdict where all of enough looks have to agree."""
        return unanimous(self.wrong, self.looks)


def decided(is_wrong: object, is_good: object) -> Verdict:
    """The verdict by what confirms and what refutes."""
    return "CONFIRMED" if is_wrong else "REFUTED" if is_good else "INCONCLUSIVE"


def repeated(wrong: int) -> Verdict:
    """The verdict where it has to happen often enough, and a single time does not refute."""
    return decided(wrong >= ENOUGH, not wrong)


def unanimous(wrong: int, looks: int) -> Verdict:
    """The verdict where all of enough observations have to agree."""
    return decided(wrong == looks >= ENOUGH, not wrong and looks >= ENOUGH)


def spread(values: Sequence[float]) -> str:
    """The range of some numbers, for messages."""
    low, high = min(values), max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def shown(names: Sequence[Any], most: int = 3) -> str:
    """The first of some names in parentheses, for messages; empty where there are none."""
    return f" ({', '.join(map(str, names[:most]))}{', …' * (len(names) > most)})" if names else ""
