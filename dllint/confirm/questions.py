"""What a run answers to the assumptions of a finding. Only where they hold is there anything to ask about its claim."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dllint.assumptions import Assumption, Kind
from dllint.confirm.evidence import Record
from dllint.findings import Finding, Location

_NOT_OBSERVED: dict[Kind, str] = {
    "alternative": "which one it is does not show in a run",
    "default": "the setting does not show in a run",
    "no-default": "the setting does not show in a run",
    "entry": "nothing that is observed happened there",
    "name": "what names stand for does not show in a run",
    "opaque": "what that code does to it is not observed",
    "version": "one run has one version of each library",
    "effect": "what somebody wants or does with it does not show in a run",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run makes of an assumption, and by what; ``open`` where it does not tell."""

    assumption: Assumption
    answer: Literal["yes", "no", "open"]
    why: str


class Sights:
    """Where in the user's code something was seen to happen, and what."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._seen: dict[tuple[str, int | None, int], set[str]] = {}
        self._functions: set[tuple[str, str]] = set()
        self._is_complete = bool(records) and all(record.stop == "end" for record in records)
        for sight in (sight for record in records for sight in record.seen):
            path = os.path.realpath(sight.line.path)
            self._seen.setdefault((path, sight.line.cell, sight.line.line), set()).update(sight.things)
            self._functions.add((path, sight.line.function))

    def answers(self, finding: Finding) -> Iterator[Answer]:
        """What the run answers to each assumption of a finding."""
        for assumption in finding.assumptions:
            if assumption.asks == "reached":
                yield self._is_reached(assumption, finding)
            elif assumption.asks == "batches":
                yield self._gives_batches(assumption, finding)
            elif assumption.asks:
                yield self._has_class(assumption, finding)
            else:
                yield Answer(assumption, "open", _NOT_OBSERVED[assumption.kind])

    def _is_reached(self, assumption: Assumption, finding: Finding) -> Answer:
        place = finding.location
        if self._at(place) is not None:
            return Answer(assumption, "yes", f"line {place.line} was reached")
        function = finding.scope.rpartition(".")[2] or "<module>"
        if assumption.kind == "entry" or (os.path.realpath(place.path), function) not in self._functions:
            return Answer(assumption, "open", _NOT_OBSERVED["entry"])
        return self._no(assumption, f"nothing was seen at line {place.line}, though code around it was run")

    def _gives_batches(self, assumption: Assumption, finding: Finding) -> Answer:
        things = self._around(finding)
        if "batches" in things:
            return Answer(assumption, "yes", "batches were taken from it")
        if "loader" in things:
            return self._no(assumption, "no batch was taken from it")
        return Answer(assumption, "open", "no loader was made there")

    def _has_class(self, assumption: Assumption, finding: Finding) -> Answer:
        classes = {thing.partition(" ")[2]: thing for thing in self._around(finding) if " " in thing}
        if _plain(assumption.asks) in map(_plain, classes):
            return Answer(assumption, "yes", f"`{assumption.asks}` was seen there")
        asks_for_loss = assumption.asks.endswith("Loss")
        alike = [name for name, thing in classes.items() if thing.startswith("loss ") == asks_for_loss]
        if len(alike) == 1:
            return self._no(assumption, f"`{alike[0]}` was seen there")
        return Answer(assumption, "open", _NOT_OBSERVED["alternative"])

    def _no(self, assumption: Assumption, why: str) -> Answer:
        """No, if the script was observed to its end."""
        if self._is_complete:
            return Answer(assumption, "no", why)
        return Answer(assumption, "open", f"{why}; but the run was ended early")

    def _around(self, finding: Finding) -> set[str]:
        places = (finding.location, *(hop.location for hop in finding.trace))
        return set().union(*(self._at(place) or () for place in places))

    def _at(self, place: Location) -> set[str] | None:
        """What was seen at a place; None where nothing was."""
        path = os.path.realpath(place.path)
        lines = [self._seen.get((path, place.cell, line)) for line in range(place.line, place.end_line + 1)]
        seen = [things for things in lines if things is not None]
        return set().union(*seen) if seen else None


def _plain(name: str) -> str:
    """The name of a loss, whether it is a class or a function; that of any other class as it is."""
    plain = name.lower().replace("_", "").removesuffix("loss")
    return plain.replace("binarycrossentropy", "bce")
