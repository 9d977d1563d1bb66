"""Bringing together what the analyses of several files have found: by place, the surest version of each finding.

A definition that its own file does not use is interpreted by itself, with arguments that nobody knows. Where another
file was seen to call it, that call has shown with real arguments what there is to find, so that what was found in the
definition by itself gives way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from dllint.findings import CONFIDENCE_RANK, SEVERITY_RANK, Finding, Location
from dllint.outcomes import Analysis

_Key = tuple[str, Location]


def by_file(analyses: Iterable[Analysis]) -> dict[str, list[Finding]]:
    """The findings of some analyses that count, by the path of the file they are in, each place and rule once."""
    best: dict[_Key, Finding] = {}
    for finding in _that_count(list(analyses)):
        key = (finding.code, finding.location)
        known = best.get(key)
        if known is None or _weight(finding) > _weight(known):
            best[key] = finding
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in best.values():
        found[finding.location.path].append(finding)
    return found


def _that_count(analyses: Sequence[Analysis]) -> Iterator[Finding]:
    """All findings but those that give way to callers in other files.

    Callers that report the same do not make it vanish if they give way themselves, one to another.
    """
    alone = {finding.alone for analysis in analyses for finding in analysis.findings if finding.alone is not None}
    callers = {place: [each for each in analyses if place in each.reached] for place in alone}
    reported: dict[_Key, list[Analysis]] = defaultdict(list)
    standing: set[_Key] = set()
    giving_way: list[tuple[Finding, list[Analysis]]] = []
    for analysis in analyses:
        for finding in analysis.findings:
            key = (finding.code, finding.location)
            reported[key].append(analysis)
            place = finding.alone
            seen_by = [] if place is None else [c for c in callers[place] if finding.code in c.reached[place]]
            if seen_by:
                giving_way.append((finding, seen_by))
            else:
                standing.add(key)
                yield finding
    for finding, seen_by in giving_way:
        key = (finding.code, finding.location)
        if key not in standing and all(any(caller is each for each in reported[key]) for caller in seen_by):
            yield finding


def _weight(finding: Finding) -> tuple[bool, int, int, int]:
    return (
        not finding.pedantic,
        CONFIDENCE_RANK[finding.confidence],
        SEVERITY_RANK[finding.severity],
        len(finding.trace),
    )
