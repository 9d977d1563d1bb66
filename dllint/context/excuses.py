"""Why rules keep quiet: each clause of *Not reported* is a function, and those that held can be told."""

from __future__ import annotations

import inspect
from typing import Any

from dllint.context.reporting import Reporting
from dllint.events import Event
from dllint.findings import Silence
from dllint.rule import Excuse, Rule
from dllint.sites import Site
from dllint.values import Value


def says(excuse: Excuse) -> str:
    """An excuse in words: the first line of its docstring."""
    return (inspect.getdoc(excuse) or excuse.__name__.replace("_", " ")).partition("\n")[0].rstrip(".")


class Excuses(Reporting):
    """The excuses of rules."""

    silences: list[Silence] | None = None  # what rules kept quiet about, if somebody wants to know

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
        if self.silences is None:
            return
        site = about.site if isinstance(about, Event | Value) else about
        if isinstance(site, Site):
            self.silences.append(Silence(rule.code, rule.name, self.location(site), says(excuse)))
