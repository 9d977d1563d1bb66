"""Counts how often dllint was right on code that was read for it: by rule, by tier, and by what it assumed.

``bench/verdicts/*.tsv`` hold the findings of one reading each, with what a reader of the code said of every one:
``true``, ``false``, or ``doubtful``, where its maintainer would rightly close it as noise. The columns are named in the
first line; lines that begin with ``#`` say what was read. ``repositories.tsv`` lists the repositories of the batches,
with and without findings, so that no later batch takes one again.

A batch is what the rules found before anything was mended by it. ``current.tsv`` is what the rules of today find in all
that was read, questions included: how often an assumption holds is counted there, since a claim that a mended defect
made says nothing about its assumptions.

A rule *falls short* if of the last thirty projects in which it reported something, in the last sixty batches, more than
15 % went to what was false, or more than 40 % to what was false or doubtful; a project counts once, with what was said
of its findings in equal parts. Three more projects are counted with each rule that are as those of all rules are, since
one or two say little. The rule is in preview then, and not on by default. Batches are read with these rules selected,
too, so that one that was mended comes back.

    python bench/truth.py            # print the tables
    python bench/truth.py --write    # and write docs/corpus-report.md, dllint/assumptions.toml and dllint/records.toml
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dllint.assumptions import KINDS

ROOT = Path(__file__).resolve().parent.parent
VERDICTS = ROOT / "bench" / "verdicts"
REPORT = ROOT / "docs" / "corpus-report.md"
RATES = ROOT / "dllint" / "assumptions.toml"
RECORDS = ROOT / "dllint" / "records.toml"
CURRENT = "current"
READ = "repositories"
OUTCOMES = ("true", "false", "doubtful")
COLUMNS = ("repository", "commit", "code", "place", "tier", "kinds", "assumes", "verdict", "why")

WAVES = 118  # the first batch of which several, chosen together, were read with one state of the rules
RECENT = 60  # batches
LAST = 30  # projects in them
FALSE, FALSE_OR_DOUBTFUL = 0.15, 0.4  # the shares that are too many
ADDED, OF_ALL_FALSE, OF_ALL_DOUBTFUL = 3, 0.05, 0.11  # projects counted with each rule, and the shares of all rules

_BEGIN, _END = "<!-- counted -->", "<!-- /counted -->"


@dataclass(frozen=True)
class Judged:
    """A finding and what a reader said of it. ``kinds`` are the kinds of its assumptions, ``assumes`` their words."""

    reading: str
    repository: str
    commit: str
    code: str
    place: str
    tier: str
    kinds: tuple[str, ...]
    assumes: str
    verdict: str
    why: str


@dataclass(frozen=True)
class Reading:
    """One reading: its name, what was read, and the findings."""

    name: str
    about: str
    findings: tuple[Judged, ...]

    @property
    def repositories(self) -> int:
        return int(self.about.split()[0])

    @property
    def number(self) -> int:
        """The number of a batch."""
        return int(self.name.partition("-")[2])

    @property
    def shown(self) -> list[Judged]:
        """What was reported by default: no questions."""
        return [finding for finding in self.findings if finding.tier != "possible"]


def readings() -> list[Reading]:
    """All readings, in the order of their names."""
    return [_read(path) for path in sorted(VERDICTS.glob("*.tsv")) if path.stem != READ]


def _read(path: Path) -> Reading:
    """One file of verdicts. Raises ValueError where a verdict is none."""
    lines = path.read_text("utf-8").splitlines()
    about = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
    rows = csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE)
    found = []
    for row in rows:
        if row["verdict"] not in OUTCOMES:
            raise ValueError(f"{path.name}: {row['place']}: {row['verdict']!r} is no verdict")
        kinds = tuple(kind for kind in row["kinds"].split(",") if kind)
        fields = {column: row[column] for column in COLUMNS if column != "kinds"}
        found.append(Judged(reading=path.stem, kinds=kinds, **fields))
    return Reading(path.stem, about, tuple(found))


def table(title: str, groups: Iterable[tuple[str, Iterable[Judged]]]) -> Iterator[str]:
    """A table of verdicts by group, in Markdown."""
    yield f"| {title} | findings | true | false | doubtful |"
    yield "| --- | --- | --- | --- | --- |"
    for name, findings in groups:
        counts = Counter(finding.verdict for finding in findings)
        cells = (str(counts.total()), *(str(counts[outcome]) for outcome in OUTCOMES))
        yield f"| {name} | {' | '.join(cells)} |"


def grouped(findings: Iterable[Judged], keys: Callable[[Judged], Iterable[str]]) -> list[tuple[str, list[Judged]]]:
    """The findings by what ``keys`` gives for each, which may be several groups."""
    groups: dict[str, list[Judged]] = defaultdict(list)
    for finding in findings:
        for key in keys(finding):
            groups[key].append(finding)
    return sorted(groups.items())


@dataclass(frozen=True)
class Standing:
    """What was said lately of a rule: how many projects it reported something in, and how many of them, added up in
    parts, went to findings that were false or doubtful."""

    projects: int
    false: float
    doubtful: float

    @property
    def falls_short(self) -> bool:
        """Whether the rule is not to be on by default."""
        projects = self.projects + ADDED
        false = self.false + ADDED * OF_ALL_FALSE
        noise = false + self.doubtful + ADDED * OF_ALL_DOUBTFUL
        return false > FALSE * projects or noise > FALSE_OR_DOUBTFUL * projects


def standings(read: list[Reading]) -> dict[str, Standing]:
    """What was said lately of each rule that reported something, by code."""
    batches = sorted((each for each in read if each.name != CURRENT), key=lambda each: each.number)
    lately = [finding for batch in batches[-RECENT:] for finding in batch.shown]
    return {code: _standing(findings) for code, findings in grouped(lately, lambda finding: [finding.code])}


def in_hindsight(read: list[Reading]) -> dict[str, list[Judged]]:
    """What the waves of batches had found of rules that fell short by what was read before each wave, and of others."""
    batches = sorted((each for each in read if each.name != CURRENT), key=lambda each: each.number)
    waves: dict[str, list[Reading]] = defaultdict(list)
    for batch in batches:
        if batch.number >= WAVES:
            waves[batch.about.rpartition(" ")[2]].append(batch)  # by the revision of the rules
    found: dict[str, list[Judged]] = {"in preview": [], "others": []}
    for wave in waves.values():
        before = standings([each for each in batches if each.number < wave[0].number])
        for finding in (finding for batch in wave for finding in batch.shown):
            is_short = finding.code in before and before[finding.code].falls_short
            found["in preview" if is_short else "others"].append(finding)
    return found


def _standing(findings: list[Judged]) -> Standing:
    """The standing of a rule with these findings, given batch by batch."""
    projects: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for finding in findings:
        projects[finding.reading, finding.repository][finding.verdict] += 1
    last = list(projects.values())[-LAST:]
    shares = {outcome: sum(verdicts[outcome] / verdicts.total() for verdicts in last) for outcome in OUTCOMES}
    return Standing(len(last), shares["false"], shares["doubtful"])


def counted(read: list[Reading]) -> Iterator[str]:
    """The counts, in Markdown."""
    batches = [reading for reading in read if reading.name != CURRENT]
    findings = [finding for reading in batches for finding in reading.findings]
    shown = [finding for batch in batches for finding in batch.shown]
    today = [finding for reading in read if reading.name == CURRENT for finding in reading.findings]
    yield "## By reading\n"
    yield "What is reported by default; questions (`possible`) are counted below.\n"
    for reading in read:
        yield f"- **{reading.name}**: {reading.about}"
    yield ""
    by_reading = [(r.name, r.shown) for r in read]
    yield from table("reading", [*by_reading[: len(batches)], ("**all batches**", shown), *by_reading[len(batches) :]])
    yield "\n## By how sure dllint was, in the batches\n"
    yield from table("tier", grouped(findings, lambda finding: [finding.tier]))
    yield "\n## By kind of assumption\n"
    yield "What the rules of today find in all that was read, questions included. What `likely` means is counted here."
    yield ""
    yield from table("kind", grouped(today, lambda finding: finding.kinds))
    yield "\nIn the batches, before the defects that they showed were mended:"
    yield ""
    yield from table("kind", grouped(findings, lambda finding: finding.kinds))
    yield "\n## By rule\n"
    yield from table("rule", grouped(shown, lambda finding: [finding.code]))
    yield "\n## Rules that fall short\n"
    yield "Of the last projects in which they reported something, too many went to what was false or noise."
    yield ""
    yield "| rule | projects | false | doubtful |"
    yield "| --- | --- | --- | --- |"
    for code, standing in standings(read).items():
        if standing.falls_short:
            yield f"| {code} | {standing.projects} | {standing.false:.1f} | {standing.doubtful:.1f} |"
    yield f"\nHad that been so from batch {WAVES} on, each wave of batches with what was read before it:"
    yield ""
    yield from table("rules", in_hindsight(read).items())
    yield "\n## Each finding\n"
    yield "| reading | rule | place | sure | assuming | verdict | why |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in (*findings, *today):
        assumed = each.assumes.replace("|", "\\|") or "nothing"
        place = f"{each.repository} `{each.place}`"
        why = each.why.replace("|", "\\|")
        yield f"| {each.reading} | {each.code} | {place} | {each.tier} | {assumed} | {each.verdict} | {why} |"


def rates(read: list[Reading]) -> Iterator[str]:
    """The rates by kind in the current reading, as the TOML that dllint reads."""
    current = [reading for reading in read if reading.name == CURRENT]
    yield "# How often claims that assume something of a kind were true on code that was read for it, as counted by"
    yield "# `python bench/truth.py --write`. A kind with no counts is not relied upon."
    for kind in KINDS:
        verdicts = Counter(each.verdict for reading in current for each in reading.findings if kind in each.kinds)
        yield f"\n[{kind}]"
        yield from (f"{outcome} = {verdicts[outcome]}" for outcome in OUTCOMES)


def records(read: list[Reading]) -> Iterator[str]:
    """The record of each rule in the batches, as the TOML that dllint reads: of its claims that assumed nothing."""
    yield "# Of the claims of each rule that assume nothing: how many were true, false and doubtful in code that was"
    yield "# new to the rule, before anything was mended; counted by `python bench/truth.py --write`."
    claims = (each for reading in read if reading.name != CURRENT for each in reading.findings if not each.kinds)
    for code, findings in grouped(claims, lambda finding: [finding.code]):
        verdicts = Counter(each.verdict for each in findings)
        yield f"\n[{code}]"
        yield from (f"{outcome} = {verdicts[outcome]}" for outcome in OUTCOMES)


def write(read: list[Reading]) -> None:
    """Put the counts where they belong."""
    before, rest = REPORT.read_text("utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    body = "\n".join(counted(read))
    REPORT.write_text(f"{before}{_BEGIN}\n{body}\n{_END}{after}", "utf-8")
    RATES.write_text("\n".join(rates(read)) + "\n", "utf-8")
    RECORDS.write_text("\n".join(records(read)) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the report and the rates")
    given = parser.parse_args()
    read = readings()
    if given.write:
        write(read)
    else:
        print("\n".join(line for line in counted(read) if not line.startswith("| ") or "`" not in line))


if __name__ == "__main__":
    main()
