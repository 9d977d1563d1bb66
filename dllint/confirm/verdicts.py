"""Joins what the linter found with what a run has shown: of each finding, and of what it assumes, as only where that
holds there is anything to ask about its claim."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Literal

from dllint.assumptions import Assumption
from dllint.confirm.comparing import compare_ranks
from dllint.confirm.evidence import Judgement, Record
from dllint.confirm.rules import EXPERIMENTS, judged, words
from dllint.dataclass import dataclass
from dllint.findings import Finding, Hop, Location, sort_key

Verdict = Literal["CONFIRMED", "REFUTED", "INCONCLUSIVE", "NOT REACHED", "NOT TESTABLE"]

_RANK = {"REFUTED": 0, "INCONCLUSIVE": 1, "CONFIRMED": 2}
OUTCOMES = {"CONFIRMED": "FAILED", "REFUTED": "PASSED", "INCONCLUSIVE": "INCONCLUSIVE"}
"""What the verdict on an experiment is called."""


_Told = tuple[Literal["yes", "no", "open"], str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run makes of an assumption, and by what; ``open`` where it does not tell."""

    assumption: Assumption
    answer: Literal["yes", "no", "open"]
    why: str


@dataclass(frozen=True, slots=True)
class Settled:
    """A finding, and what the run says about it: by a judgement, or by the reason for which there is none.

    One that ``is_question`` is possible only. ``answers`` are those to what it assumes.
    """

    finding: Finding
    answer: Verdict
    judgement: Judgement | None = None
    reason: str = ""
    is_question: bool = False
    answers: tuple[Answer, ...] = ()

    @property
    def premise(self) -> str:
        """What the finding assumes, with what the run makes of it; empty for one that assumes nothing.

        What a run shows at its place holds with all that was assumed. What it does not show there may be so because
        something that was assumed is not so, or in spite of it.
        """
        texts = list(dict.fromkeys(assumption.text for assumption in self.finding.assumptions))
        told = {"CONFIRMED": "settled", "REFUTED": "it rested on"}.get(self.answer, "assuming")
        return f"{told}: {'; '.join(texts)}" if texts else ""


@dataclass(slots=True)
class Verdicts:
    """The outcome of a run: settled findings, and what it showed that no finding is about.

    ``questions`` are those that the run does not answer with yes.
    """

    settled: list[Settled] = field(default_factory=list)
    alarms: list[Judgement] = field(default_factory=list)
    notes: list[Judgement] = field(default_factory=list)
    experiments: list[Judgement] = field(default_factory=list)
    questions: list[Settled] = field(default_factory=list)

    def shown(self) -> list[tuple[str, Judgement]]:
        """What no finding is about, each with the word for it."""
        tried = [("NOTE" if each.voice == "note" else OUTCOMES[each.verdict], each) for each in self.experiments]
        return [*(("ALARM", each) for each in self.alarms), *tried, *(("NOTE", each) for each in self.notes)]

    @property
    def confirmed(self) -> int:
        """How many bugs the run has shown."""
        failed = sum(item.verdict == "CONFIRMED" and item.voice == "alarm" for item in self.experiments)
        return len(self.alarms) + failed + sum(item.answer == "CONFIRMED" for item in self.settled)


def settle(findings: Sequence[Finding], records: Sequence[Record], questions: Sequence[Finding] = ()) -> Verdicts:
    """Decide each finding, answer the questions as far as possible, and list what the run shows beyond them."""
    judgements = [judgement for record in records for judgement in record.judgements]
    judgements += compare_ranks(records)
    verdicts = Verdicts(experiments=[judgement for judgement in judgements if judgement.rule in EXPERIMENTS])
    judgements = [judgement for judgement in judgements if judgement.rule not in EXPERIMENTS]
    used: set[int] = set()
    asked, sights = frozenset(map(id, questions)), Sights(records)
    for finding in sorted([*findings, *questions], key=sort_key) if questions else findings:
        about = [each for each in judgements if each.rule == finding.code and not finding.beside_probe]
        matching = _matching(finding, about)
        used.update(map(id, matching))
        settled = _settled(finding, matching)
        answers = () if settled.answer == "CONFIRMED" else tuple(sights.answers(finding))
        verdicts.settled.append(replace(settled, is_question=id(finding) in asked, answers=answers))
    found = {finding.code for finding in findings}
    for judgement in judgements:
        is_new = id(judgement) not in used and (any(judgement.stacks) or judgement.rule not in found)
        if judgement.verdict == "CONFIRMED" and judgement.voice and is_new:
            target = verdicts.alarms if judgement.voice == "alarm" else verdicts.notes
            if not any((known.rule, known.stacks) == (judgement.rule, judgement.stacks) for known in target):
                target.append(judgement)
    _drop_consequences(verdicts)
    return verdicts


def _drop_consequences(verdicts: Verdicts) -> None:
    """Leave out what something else has caused that is told of at least as loudly."""
    causes = {code: known.causes for code, known in judged().items()}
    loud = {item.finding.code for item in verdicts.settled if item.answer == "CONFIRMED"}
    loud |= {judgement.rule for judgement in verdicts.alarms}
    told = loud | {judgement.rule for judgement in verdicts.notes}
    verdicts.alarms = [each for each in verdicts.alarms if loud.isdisjoint(causes.get(each.rule, ()))]
    verdicts.notes = [each for each in verdicts.notes if told.isdisjoint(causes.get(each.rule, ()))]


def settle_by_resuming(verdicts: Verdicts, judgement: Judgement) -> None:
    """Add what two runs have shown, and decide the findings that it is about and that nothing has decided yet."""
    verdicts.experiments.append(judgement)
    answers: dict[str, Verdict] = dict.fromkeys(judgement.statistics.get("kept", []), "REFUTED")
    answers |= dict.fromkeys(judgement.statistics.get("lost", []), "CONFIRMED")
    for at, item in enumerate(verdicts.settled):
        answer = answers.get(item.finding.code)
        if answer is not None and item.answer not in ("CONFIRMED", "REFUTED"):
            verdicts.settled[at] = replace(item, answer=answer, judgement=judgement)


def _settled(finding: Finding, matching: list[Judgement]) -> Settled:
    known = judged().get(finding.code)
    if known is None or finding.beside_probe:
        return Settled(finding, "NOT TESTABLE", reason="no probe can decide this rule, or this claim of it")
    if not matching:
        return Settled(finding, "NOT REACHED", reason=known.unreached)
    judgement = max(matching, key=lambda item: (_RANK[item.verdict], item.events))
    return Settled(finding, judgement.verdict, judgement, "too few observations, or none that decides")


def _matching(finding: Finding, judgements: list[Judgement]) -> list[Judgement]:
    """The judgements about a finding: those seen where it is, the closest there are, or those on the whole run.

    What happens in a library alone, without a frame of the user's, counts as the whole run.
    """
    places = [finding.location, *(hop.location for hop in finding.trace)]
    for place in places:
        exact = [judgement for judgement in judgements if _is_at(judgement, place)]
        if exact:
            return exact
    known = judged().get(finding.code)
    if known is not None and known.line:
        return []
    near = [judgement for judgement in judgements if _is_in(judgement, finding)]
    if near:
        return near if len(near) == 1 else []
    return [judgement for judgement in judgements if not any(judgement.stacks)]


def _is_at(judgement: Judgement, place: Location) -> bool:
    path = os.path.realpath(place.path)
    return any(
        os.path.realpath(frame.path) == path and frame.cell == place.cell and place.line <= frame.line <= place.end_line
        for stack in judgement.stacks
        for frame in stack
    )


def _is_in(judgement: Judgement, finding: Finding) -> bool:
    path, function = os.path.realpath(finding.location.path), _function_of(finding)
    innermost = [stack[0] for stack in judgement.stacks if stack]
    return any(os.path.realpath(frame.path) == path and frame.function == function for frame in innermost)


def _function_of(finding: Finding) -> str:
    return finding.scope.rpartition(".")[2] or "<module>"


def promoted(settled: Settled) -> Finding:
    """The finding; where a run has confirmed it, it is certain, and its trace ends with the evidence."""
    if settled.answer != "CONFIRMED":
        return settled.finding
    evidence = settled.judgement.message if settled.judgement is not None else ""
    premise = f" ({settled.premise})" if settled.premise else ""
    hop = Hop(settled.finding.location, f"a run confirms it: {evidence}{premise}")
    return replace(settled.finding, confidence="certain", assumptions=(), trace=(*settled.finding.trace, hop))


def set_questions_aside(verdicts: Verdicts) -> None:
    """Put the questions that the run does not answer with yes apart."""
    verdicts.questions = [item for item in verdicts.settled if item.is_question and item.answer != "CONFIRMED"]
    verdicts.settled = [item for item in verdicts.settled if item.answer == "CONFIRMED" or not item.is_question]


def upheld(verdicts: Verdicts) -> list[Finding]:
    """The findings without those that the run has refuted, the confirmed ones promoted; of questions only these."""
    kept = [item for item in verdicts.settled if item.answer != "REFUTED"]
    return [promoted(item) for item in kept if item.answer == "CONFIRMED" or not item.is_question]


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
        """What the run answers to each assumption of a finding: no, only where the script was observed to its end."""
        asked = {"": self._is_unseen, "reached": self._is_reached, "batches": self._gives_batches}
        for assumption in finding.assumptions:
            answer, why = asked.get(assumption.asks, self._has_class)(assumption, finding)
            if answer == "no" and not self._is_complete:
                answer, why = "open", f"{why}; but the run was ended early"
            yield Answer(assumption, answer, why)

    def _is_unseen(self, assumption: Assumption, _: Finding) -> _Told:
        return "open", words()["unseen"][assumption.kind]

    def _is_reached(self, assumption: Assumption, finding: Finding) -> _Told:
        place = finding.location
        if self._at(place) is not None:
            return "yes", f"line {place.line} was reached"
        if assumption.kind == "entry" or (os.path.realpath(place.path), _function_of(finding)) not in self._functions:
            return "open", words()["unseen"]["entry"]
        return "no", f"nothing was seen at line {place.line}, though code around it was run"

    def _gives_batches(self, _: Assumption, finding: Finding) -> _Told:
        things = self._around(finding)
        if "batches" in things:
            return "yes", "batches were taken from it"
        return ("no", "no batch was taken from it") if "loader" in things else ("open", "no loader was made there")

    def _has_class(self, assumption: Assumption, finding: Finding) -> _Told:
        classes = {thing.partition(" ")[2]: thing for thing in self._around(finding) if " " in thing}
        if _plain(assumption.asks) in map(_plain, classes):
            return "yes", f"`{assumption.asks}` was seen there"
        asks_for_loss = assumption.asks.endswith("Loss")
        alike = [name for name, thing in classes.items() if thing.startswith("loss ") == asks_for_loss]
        return ("no", f"`{alike[0]}` was seen there") if len(alike) == 1 else ("open", words()["unseen"]["alternative"])

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
    return name.lower().replace("_", "").removesuffix("loss").replace("binarycrossentropy", "bce")
