"""A run over many files: in this process for a few, over several processes for a project, with results cached.

Whatever happens to a worker costs at most the file it was working on.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import replace
from pathlib import Path

from dllint import worker
from dllint.cache import Cache
from dllint.config.settings import Settings
from dllint.engine import Analysis
from dllint.engine_rules import CrashRule
from dllint.files.source import SourceError, display_path, read_source, source_from_text
from dllint.findings import CONFIDENCE_RANK, SEVERITY_RANK, Finding, Location, Problem, Report, Silence, sort_key
from dllint.registry import load_rules
from dllint.syntax.suppressions import Suppressions
from dllint.tiers import asked_for
from dllint.worker import Outcome, Worker

_IN_PROCESS = 12  # up to this many files, starting processes costs more than it saves
_CHUNKS_EACH = 2  # parts of the work per process: few, since each process parses for itself what its files import

Progress = Callable[[int, int], None]


def lint_files(
    files: Sequence[Path],
    settings: Settings,
    *,
    jobs: int | None = None,
    cache: bool = True,
    overlay: Mapping[Path, str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Lint files under one configuration.

    Args:
        files: absolute paths.
        settings: the resolved configuration.
        jobs: how many processes to use; as many as there are processors by default.
        cache: use and update the results kept in the project.
        overlay: unsaved text of some files.
        progress: called with the number of finished files and of all files.

    Returns:
        The findings in these files in order of presentation, with suppressions, per-file ignores and severities
        applied, and everything that kept a file from being analysed. Possible findings are among the questions unless
        the settings ask for them.
    """
    started = time.perf_counter()
    overlay = dict(overlay or {})
    store = Cache.open(settings) if cache and not overlay else None
    outcomes, pending = _look_up(files, store)
    done = len(outcomes)
    for outcome in _analyse(pending, settings, jobs, overlay):
        outcomes.append(outcome)
        if store is not None:
            store.add(outcome)
        done += 1
        if progress is not None:
            progress(done, len(files))
    if store is not None:
        store.save()
    report = _assemble(files, sorted(outcomes, key=lambda o: o.file), settings, overlay)
    report.seconds = time.perf_counter() - started
    return report


def _look_up(files: Sequence[Path], store: Cache | None) -> tuple[list[Outcome], list[Path]]:
    """The outcomes that are still valid, and the files that must be analysed."""
    if store is None:
        return [], list(files)
    known, pending = [], []
    for file in files:
        outcome = store.get(file)
        if outcome is None:
            pending.append(file)
        else:
            known.append(outcome)
    return known, pending


# -------------------------------------------------------------------------------------------------- execution


def _analyse(
    files: Sequence[Path], settings: Settings, jobs: int | None, overlay: Mapping[Path, str]
) -> Iterator[Outcome]:
    here = Path.cwd()
    count = jobs or os.cpu_count() or 1
    if count == 1 or len(files) <= _IN_PROCESS:
        if files:
            worker.relax_collector()
            alone = Worker(settings, here, overlay)
            for file in files:
                yield worker.in_deep_thread(
                    lambda file=file: alone.analyse(file),  # type: ignore[misc]
                    alone.interrupt_if_overdue,
                )
        return
    chunks = list(_chunks(files, count * _CHUNKS_EACH))
    lost: list[Path] = []
    with _pool(min(count, len(chunks)), settings, here, overlay) as pool:
        yield from _collect(pool, chunks, lost)
    for file in lost:  # a worker died: find out on which file, each in a process of its own
        died: list[Path] = []
        with _pool(1, settings, here, overlay) as pool:
            yield from _collect(pool, [[file]], died)
        for victim in died:
            yield _died(victim)


def _chunks(files: Sequence[Path], number: int) -> Iterator[Sequence[Path]]:
    """The files in their order, in about so many parts of equal weight: neighbours import the same."""
    weights = [_size(file) for file in files]
    limit = sum(weights) / number
    start, weight = 0, 0
    for end, more in enumerate(weights, 1):
        weight += more
        if weight >= limit or end == len(files):
            yield files[start:end]
            start, weight = end, 0


def _size(file: Path) -> int:
    """The bytes of a file, and some for having it; what cannot be read costs nothing."""
    try:
        return file.stat().st_size + 1000
    except OSError:
        return 0


def _pool(count: int, settings: Settings, here: Path, overlay: Mapping[Path, str]) -> Executor:
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(count, initializer=worker.start, initargs=(settings, here, overlay))


def _collect(pool: Executor, chunks: Iterable[Sequence[Path]], lost: list[Path]) -> Iterator[Outcome]:
    """The outcomes of all chunks as they come; the files of chunks whose worker died go to ``lost``."""
    from concurrent.futures.process import BrokenProcessPool

    running: dict[Future[list[Outcome]], Sequence[Path]] = {}
    for chunk in chunks:
        running[pool.submit(worker.analyse_chunk, chunk)] = chunk
    for future in as_completed(running):
        try:
            yield from future.result()
        except BrokenProcessPool:
            lost.extend(running[future])


def _died(file: Path) -> Outcome:
    message = "the process that analysed this file died"
    place = Location(display_path(str(file)), 1, 1, 1, 1)
    outcome = Outcome(file, Analysis(problems=[Problem("crash", message, str(file))]))
    outcome.analysis.findings.append(
        Finding(CrashRule.code, CrashRule.name, message, place, CrashRule.severity, CrashRule.category)
    )
    return outcome


# --------------------------------------------------------------------------------------------------- assembly


def _assemble(
    files: Sequence[Path], outcomes: Sequence[Outcome], settings: Settings, overlay: Mapping[Path, str]
) -> Report:
    """Bring together what was found from all entry points, file by file."""
    report = Report(files=len(files))
    by_path: dict[str, list[Finding]] = defaultdict(list)
    for outcome in outcomes:
        report.problems += (replace(each, path=display_path(each.path)) for each in outcome.analysis.problems)
        for finding in outcome.analysis.findings:
            by_path[finding.location.path].append(finding)
        report.silences += outcome.analysis.silences
        for code, seconds in outcome.analysis.timing.items():
            report.timing[code] = report.timing.get(code, 0.0) + seconds
    for outcome in outcomes:
        path = display_path(str(outcome.file))
        claims = by_path.pop(path, [])
        if settings.why_silent:
            report.silences += _left_open(claims)
        found, hidden = of_file(outcome, claims, settings, overlay)
        report.suppressed += hidden
        report.findings.extend(found)
    report.findings, report.questions = asked_for(sorted(report.findings, key=sort_key), possible=settings.possible)
    return report


def _left_open(findings: Sequence[Finding]) -> Iterator[Silence]:
    """The findings that assume too much to be reported."""
    for finding in _distinct(findings):
        if finding.confidence == "possible":
            assumed = " and that ".join(assumption.text for assumption in finding.assumptions)
            yield Silence(finding.code, finding.name, finding.location, f"it would have to assume that {assumed}")


def of_file(
    outcome: Outcome, found: Sequence[Finding], settings: Settings, overlay: Mapping[Path, str]
) -> tuple[list[Finding], int]:
    """What is to be reported in a file.

    Args:
        outcome: the analysis of the file.
        found: all that was found in the file, from whatever entry point.
        settings: the configuration.
        overlay: unsaved text of some files.

    Returns:
        The findings, and the number of those that comments suppress.
    """
    ignored = settings.ignored_in(outcome.file)
    findings = [finding for finding in _distinct(found) if finding.code not in ignored]
    return _suppress(outcome, findings, settings, ignored, overlay) if outcome.has_comments else (findings, 0)


def _distinct(findings: Sequence[Finding]) -> list[Finding]:
    """One finding per rule and place: several entry points may have led there."""
    best: dict[tuple[str, Location], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.location)
        known = best.get(key)
        if known is None or _weight(finding) > _weight(known):
            best[key] = finding
    return list(best.values())


def _weight(finding: Finding) -> tuple[bool, int, int, int]:
    return (
        not finding.pedantic,
        CONFIDENCE_RANK[finding.confidence],
        SEVERITY_RANK[finding.severity],
        len(finding.trace),
    )


def _suppress(
    outcome: Outcome,
    findings: list[Finding],
    settings: Settings,
    ignored: frozenset[str],
    overlay: Mapping[Path, str],
) -> tuple[list[Finding], int]:
    """Apply the suppression comments of a file, and report those that are of no use or make no sense."""
    text = overlay.get(outcome.file)
    try:
        source = read_source(outcome.file) if text is None else source_from_text(text, outcome.file)
    except SourceError:
        return findings, 0  # it was readable a moment ago; the findings stand
    rules = load_rules(settings.rule_paths, settings.plugins)
    known = {key: rule.code for rule in rules for key in (rule.code, rule.name)}
    suppressions = Suppressions.parse(source, known, require_reason=settings.require_reason)
    kept, hidden = suppressions.apply(findings)
    ran = settings.enabled - ignored
    own = suppressions.invalid()
    if not any(finding.code in ("DL001", "DL002", "DL003") for finding in findings):
        own += suppressions.unused(ran, blanket=settings.defaults <= ran)
    for finding in own:
        if finding.code in ran:
            severity = settings.severities.get(finding.code, finding.severity)
            kept.append(replace(finding, severity=severity))
    return kept, hidden
