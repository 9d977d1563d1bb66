"""How sure a finding is, by what it assumes, and by how often its rule was right.

``certain`` is a claim that assumes nothing, of a rule that is proven: of its claims that assume nothing at least ten
were read in code that was new to it, and at most one in fifty was false (``dllint/records.toml``). What a rule takes
for granted without saying so shows nowhere else. ``likely`` is what another rule claims without any assumption, and
what assumes only kinds of things whose claims were measured to be true at least nine times in ten
(``dllint/assumptions.toml``). Everything else is ``possible``: a question, which is shown when somebody asks for it and
which a run can answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from pathlib import Path
from typing import cast

from dllint.assumptions import Assumption, Assumptions, Kind, union
from dllint.files.toml import parse
from dllint.findings import CONFIDENCE_RANK, Confidence, Finding

_RELIABLE = 0.9
_RATES = Path(__file__).parent / "assumptions.toml"
_RECORDS = Path(__file__).parent / "records.toml"
_READ = 10  # claims of a rule, at the least
_FALSE = 0.02
_MEASURED = re.compile(r"DL[1-9]\d{2}")  # those of the engine, and rules of others, come without a record


def confidence_in(code: str, assumptions: Iterable[Assumption]) -> Confidence:
    """How sure a claim of a rule is that rests on these assumptions."""
    known = confidence_of(assumptions)
    return "likely" if known == "certain" and not is_proven(code) else known


def is_proven(code: str) -> bool:
    """Whether the claims of a rule that assume nothing were right in code that was new to it, as often as can be asked.

    A rule of a plug-in, or of the user's configuration, has no record: its author answers for it.
    """
    if not _MEASURED.fullmatch(code):
        return True
    counts = records().get(code, {})
    read = sum(counts.values())
    return read >= _READ and counts["false"] <= _FALSE * read


@lru_cache(maxsize=1)
def records() -> Mapping[str, Mapping[str, int]]:
    """How many claims of each rule were ``true``, ``false`` and ``doubtful``, of those that assumed nothing."""
    return cast("dict[str, dict[str, int]]", parse(_RECORDS.read_text("utf-8")))


def confidence_of(assumptions: Iterable[Assumption]) -> Confidence:
    """How sure a claim is that rests on these assumptions, if its rule never takes anything for granted silently."""
    return confidence_of_kinds({assumption.kind for assumption in assumptions})


def confidence_of_kinds(kinds: AbstractSet[Kind]) -> Confidence:
    """How sure a claim is that assumes things of these kinds."""
    if not kinds:
        return "certain"
    return "likely" if kinds <= reliable_kinds() else "possible"


@lru_cache(maxsize=1)
def reliable_kinds() -> frozenset[Kind]:
    """The kinds of assumptions whose claims were measured to be true at least nine times in ten."""
    rates = cast("dict[Kind, dict[str, int]]", parse(_RATES.read_text("utf-8")))
    return frozenset(kind for kind, counts in rates.items() if _rate(counts) >= _RELIABLE)


def asked_for(findings: Iterable[Finding], *, confidence: Confidence) -> tuple[list[Finding], list[Finding]]:
    """What is to be reported of some findings, and what is a question that nobody has asked: those less sure."""
    least = CONFIDENCE_RANK[confidence]
    sure: list[Finding] = []
    questions: list[Finding] = []
    for finding in findings:
        (sure if CONFIDENCE_RANK[finding.confidence] >= least else questions).append(finding)
    return sure, questions


def _rate(counts: dict[str, int]) -> float:
    """The share of claims of a kind that were judged and are true; nothing judged is nothing known."""
    judged = counts["true"] + counts["false"] + counts["doubtful"]
    return counts["true"] / judged if judged else 0.0


def over_all_options(groups: list[Assumptions]) -> Assumptions:
    """What several claims about one place assume together.

    Where there is a claim for every option of a choice, the choice is no assumption any more: it is so in any case, if
    what the claims assume otherwise holds for all of them. Of what is known then, the claim that assumes least counts.
    """
    known = list(dict.fromkeys(groups))
    for choice, options in {each.choice: each.options for group in groups for each in group if each.choice}.items():
        chosen = [(group, option) for group in known if (option := _option_of(choice, group)) is not None]
        if len({option for _, option in chosen}) == options:
            known = list(dict.fromkeys((*known, *(_joined(choice, group, chosen) for group, _ in chosen))))
    return min(known, key=_doubtfulness)


def _option_of(choice: str, group: Assumptions) -> int | None:
    return next((each.option for each in group if each.choice == choice), None)


def _joined(choice: str, group: Assumptions, chosen: list[tuple[Assumptions, int]]) -> Assumptions:
    """What a claim assumes together with those for the other options of a choice that are most like it."""
    nearest: dict[int, Assumptions] = {}
    for other, option in chosen:
        if option not in nearest or _distance(other, group) < _distance(nearest[option], group):
            nearest[option] = other
    return tuple(each for each in union(group, *nearest.values()) if each.choice != choice)


def _distance(group: Assumptions, other: Assumptions) -> tuple[tuple[int, int], int]:
    """How much a claim assumes that another does not."""
    return _doubtfulness([each for each in group if each not in other]), len(group)


def _doubtfulness(group: Iterable[Assumption]) -> tuple[int, int]:
    assumed = list(group)
    return -CONFIDENCE_RANK[confidence_of(assumed)], len(assumed)
