"""Why rules keep quiet: each clause of *Not reported* is a function, and those that held can be told."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

from dllint.context.reporting import Reporting
from dllint.events import Event
from dllint.findings import Location
from dllint.rule import Excuse, Rule
from dllint.sites import Site


@dataclass(frozen=True, slots=True)
class Silence:
    """That a rule had a claim about a place, and an excuse kept it from making it. ``excuse`` says why, in words."""

    code: str
    name: str
    location: Location
    excuse: str


@dataclass(slots=True)
class Notes:
    """What rules kept quiet about, for whoever wants to know."""

    silences: list[Silence] = field(default_factory=list)


def says(excuse: Excuse) -> str:
    """An excuse in words: the first line of its docstring."""
    return (inspect.getdoc(excuse) or excuse.__name__.replace("_", " ")).partition("\n")[0].rstrip(".")


class Excuses(Reporting):
    """The excuses of rules."""

    notes: Notes | None = None

    def excused(self, rule: Rule, *claim: Any) -> bool:
        """Whether some excuse of a rule holds for a claim, so that it is not to be made.

        Args:
            rule: the rule, whose ``excuses`` are asked in their order.
            claim: what it is about: the event, site or value with the place first, and whatever else its excuses need.
        """
        for excuse in rule.excuses:
            if excuse(*claim, self):
                self._note(rule, claim[0], excuse)
                return True
        return False

    def _note(self, rule: Rule, about: object, excuse: Excuse) -> None:
        if self.notes is None:
            return
        site = about.site if isinstance(about, Event) else about
        if isinstance(site, Site):
            place = self.location(site)
            self.notes.silences.append(Silence(rule.code, rule.name, place, says(excuse)))
