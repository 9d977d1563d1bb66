"""A run over many files: in this process for a few, over several processes for a project, with results cached.

Whatever happens to a worker costs at most the file it was working on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.cache import Cache
from dllint.config.settings import Settings
from dllint.engine_rules import CrashRule
from dllint.files.source import SourceError, display_path, read_source, source_from_text
from dllint.findings import Finding, Held, Location, Problem, Report, Silence, numbered, sort_key
from dllint.import_index import ImportIndex
from dllint.merging import by_file
from dllint.outcomes import Analysis, Outcome
from dllint.processes import Pool, chunks_of, noting_interrupts, shifts_of
from dllint.registry import list_rules
from dllint.syntax.suppressions import Suppressions
from dllint.tiers import asked_for

if TYPE_CHECKING:
    from dllint.cluster import Cluster, ClusterPool
    from dllint.worker import Worker

_IN_PROCESS = 12  # up to this many files, starting processes costs more than it saves
_CHUNKS_EACH = 2  # parts of the work per process: few, since each process parses for itself what its files import

Progress = Callable[[int, int], None]


def lint_files(
    files: Sequence[Path],
    settings: Settings,
    *,
    around: Sequence[Path] = (),
    named: Collection[Path] = (),
    jobs: int | None = None,
    cache: bool = True,
    overlay: Mapping[Path, str] | None = None,
    progress: Progress | None = None,
    executor: str = "",
) -> Report:
    """Lint files under one configuration.

    Args:
        files: absolute paths.
        settings: the resolved configuration.
        around: the other files of the project. Those that import one of ``files`` are analyzed as well, as what they
            do with it may show what is wrong in it.
        named: those of ``files`` that findings elsewhere are reported for, too: where their trace leads through one.
        jobs: how many processes to use; as many as there are processors by default.
        cache: use and update the results kept in the project.
        overlay: unsaved text of some files.
        progress: called with the number of finished files and of all files.
        executor: the cluster that does the work of many files, ``dask://HOST:PORT``; this machine if empty.

    Returns:
        The findings in these files in order of presentation, with suppressions, per-file ignores and severities
        applied, and everything that kept a file from being analyzed. Possible findings are among the questions unless
        the settings ask for them.
    """
    started = time.perf_counter()
    overlay = dict(overlay or {})
    run = _Analysing(settings, jobs, cache, overlay, progress, executor)
    beside: list[Outcome] = []
    try:
        outcomes = run.over(files)
        if around:
            index = ImportIndex.open(settings.cache_directory if cache else None)
            outcomes += run.over(_importers(outcomes, around, index, settings.root, overlay))
            beside = run.over(_to_be_numbered(outcomes, around, named, overlay))
            if beside:
                beside += run.over(_importers([*outcomes, *beside], around, index, settings.root, overlay))
            index.save()
    finally:  # also when it is interrupted
        run.close()
    report = _assemble(files, around, named, _in_order(outcomes), _in_order([*outcomes, *beside]), settings, overlay)
    report.cached = run.kept
    report.seconds = time.perf_counter() - started
    return report


def _importers(
    outcomes: Sequence[Outcome], around: Sequence[Path], index: ImportIndex, root: Path, overlay: Mapping[Path, str]
) -> list[Path]:
    """The other files of the project that have a bearing on what is to be reported in some files."""
    analysed = [outcome.file for outcome in outcomes]
    imported = [outcome.file for outcome in outcomes if outcome.analysis.matters]
    if not imported:
        return []
    index.refresh([*analysed, *around], overlay)
    return sorted(set(index.importers(imported, Path.cwd(), root)).difference(analysed))


def _to_be_numbered(
    outcomes: Sequence[Outcome], around: Sequence[Path], named: Collection[Path], overlay: Mapping[Path, str]
) -> list[Path]:
    """The other files with findings that are to be reported, and perhaps with more of them that differ in their place.

    Which of these a finding is, and so its entry in a baseline, takes all that is found in the file. Few have a
    statement in them twice about which something is found.
    """
    through = {display_path(str(file)) for file in named}
    analysed = {outcome.file for outcome in outcomes}
    found = by_file(outcome.analysis for outcome in outcomes) if through else {}
    doubtful = []
    for file in around if found else ():
        there = found.get(display_path(str(file)), ()) if file not in analysed else ()
        statements = {finding.statement for finding in there if _leads_through(finding, through)}
        if statements and any(_is_repeated(statement, file, overlay) for statement in statements):
            doubtful.append(file)
    return doubtful


def _is_repeated(statement: str, file: Path, overlay: Mapping[Path, str]) -> bool:
    """Whether a statement, with its white space collapsed, may stand in a file more than once."""
    try:
        text = overlay[file] if file in overlay else read_source(file).text
    except SourceError:
        return False
    return "".join(text.split()).count("".join(statement.split())) > 1


def _in_order(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome.file)


# -------------------------------------------------------------------------------------------------- execution


class _Analysing:
    """Analyzes files, some and then perhaps more, with the results that are kept."""

    def __init__(
        self,
        settings: Settings,
        jobs: int | None,
        cache: bool,
        overlay: Mapping[Path, str],
        progress: Progress | None,
        executor: str,
    ) -> None:
        self._settings = settings
        self._executor = executor
        self._count = jobs or (self._cluster.processes if executor else os.cpu_count() or 1)
        self._store = Cache.open(settings, overlay) if cache else None
        self._overlay = overlay
        self._progress = progress
        self._here = Path.cwd()
        self._done = self._total = 0
        self.kept = 0  # outcomes that an earlier run has left

    def over(self, files: Sequence[Path]) -> list[Outcome]:
        """The outcomes of some files, in no particular order. On Ctrl-C what there is so far is kept.

        Raises:
            KeyboardInterrupt: soon after Ctrl-C.
        """
        outcomes, pending = self._look_up(files)
        self._total += len(files)
        self._done += len(outcomes)
        self.kept += len(outcomes)
        with noting_interrupts() as interrupted:
            for outcome in self._analyse(pending, interrupted):
                outcomes.append(outcome)
                if self._store is not None:
                    self._store.add(outcome)
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self._total)
        return outcomes

    def close(self) -> None:
        """Keep the results for the next run, and leave the cluster."""
        if self._store is not None:
            self._store.save()
        if self._executor:
            self._cluster.close()

    def _look_up(self, files: Sequence[Path]) -> tuple[list[Outcome], list[Path]]:
        """The outcomes that are still valid, and the files that must be analyzed."""
        if self._store is None:
            return [], list(files)
        known, pending = [], []
        for file in files:
            outcome = self._store.get(file)
            if outcome is None:
                pending.append(file)
            else:
                known.append(outcome)
        return known, pending

    def _analyse(self, files: Sequence[Path], interrupted: threading.Event) -> Iterator[Outcome]:
        if len(files) <= _IN_PROCESS:
            yield from self._analyse_here(files, interrupted)
            return
        shifts = shifts_of(files, self._count)
        if len(shifts) == self._count == 1 and not self._executor:
            yield from self._analyse_here(files, interrupted)
            return
        for shift in shifts:
            if not interrupted.is_set():
                yield from self._analyse_elsewhere(shift, interrupted)

    def _analyse_elsewhere(self, files: Sequence[Path], interrupted: threading.Event) -> Iterator[Outcome]:
        """Analyze files in other processes."""
        chunks = list(chunks_of(files, self._count * _CHUNKS_EACH))
        lost: list[Path] = []
        with self._pool(min(self._count, len(chunks))) as pool:
            yield from pool.analyse(chunks, lost, interrupted)
        for file in lost:  # a worker died: find out on which file, each in a process of its own
            died: list[Path] = []
            with self._pool(1) as pool:
                yield from pool.analyse([[file]], died, interrupted)
            for victim in died:
                yield _died(victim)

    def _analyse_here(self, files: Sequence[Path], interrupted: threading.Event) -> Iterator[Outcome]:
        if not files:
            return  # and the interpreter need not be imported
        from dllint.worker import in_deep_thread

        def watch(thread: int) -> None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            self._alone.interrupt_if_overdue(thread)

        with suppress(KeyboardInterrupt):
            for file in files:
                yield in_deep_thread(lambda file=file: self._alone.analyse_next(file), watch)  # type: ignore[misc]

    @cached_property
    def _alone(self) -> Worker:
        """The worker of this process."""
        from dllint.collector import relax_collector
        from dllint.worker import Worker

        relax_collector()
        return Worker(self._settings, self._here, self._overlay)

    @cached_property
    def _cluster(self) -> Cluster:
        """The cluster that does the work. Raises ClusterError."""
        from dllint.cluster import Cluster  # which few runs need

        return Cluster(self._executor)

    def _pool(self, count: int) -> Pool | ClusterPool:
        if self._executor:
            return self._cluster.pool(self._settings, self._here, self._overlay)
        return Pool(count, self._settings, self._here, self._overlay)


def _died(file: Path) -> Outcome:
    message = "the process that analyzed this file died"
    place = Location(display_path(str(file)), 1, 1, 1, 1)
    outcome = Outcome(file, Analysis(problems=[Problem("crash", message, str(file))]))
    outcome.analysis.findings.append(
        Finding(CrashRule.code, CrashRule.name, message, place, CrashRule.severity, CrashRule.category)
    )
    return outcome


# --------------------------------------------------------------------------------------------------- assembly


def _assemble(
    files: Sequence[Path],
    around: Sequence[Path],
    named: Collection[Path],
    outcomes: Sequence[Outcome],
    every: Sequence[Outcome],
    settings: Settings,
    overlay: Mapping[Path, str],
) -> Report:
    """Bring together what was found from all entry points, file by file; ``every`` are those that findings count in."""
    report = Report(files=len(files))
    found = by_file(outcome.analysis for outcome in outcomes)
    wanted = set(files)
    for outcome in outcomes:
        report.silences += outcome.analysis.silences
        for code, seconds in outcome.analysis.timing.items():
            report.timing[code] = report.timing.get(code, 0.0) + seconds
        if outcome.file in wanted:
            report.problems += (replace(each, path=display_path(each.path)) for each in outcome.analysis.problems)
            there = found.pop(display_path(str(outcome.file)), [])
            if settings.why_silent:
                report.silences += _left_open(there)
            kept, hidden = of_file(outcome.file, there, settings, overlay, has_comments=outcome.has_comments)
            report.suppressed += len(hidden)
            report.held += hidden
            report.findings.extend(kept)
    report.findings += _through(named, found, around, every, settings, overlay)
    report.findings, report.questions = asked_for(sorted(report.findings, key=sort_key), confidence=settings.confidence)
    return report


def _left_open(findings: Sequence[Finding]) -> Iterator[Silence]:
    """The findings that assume too much to be reported."""
    for finding in findings:
        if finding.confidence == "possible":
            assumed = " and that ".join(assumption.text for assumption in finding.assumptions)
            yield Silence(finding.code, finding.name, finding.location, f"it would have to assume that {assumed}")


def _through(
    named: Collection[Path],
    found: Mapping[str, list[Finding]],
    around: Sequence[Path],
    every: Sequence[Outcome],
    settings: Settings,
    overlay: Mapping[Path, str],
) -> Iterator[Finding]:
    """What is to be reported in other files of the project, as files that were named had a part in it.

    A baseline tells findings that are the same but for their place by their number among all in the file.
    """
    through = {display_path(str(file)) for file in named}
    for file in around if through else ():
        path = display_path(str(file))
        there = found.get(path, [])
        if any(_leads_through(finding, through) for finding in there):
            kept, _ = of_file(file, there, settings, overlay)
            known, _ = of_file(file, by_file(each.analysis for each in every).get(path, []), settings, overlay)
            numbers = {(finding.code, finding.location): number for finding, number in numbered(known)}
            for finding in kept:
                if _leads_through(finding, through):
                    yield replace(finding, number=numbers.get((finding.code, finding.location), 0))


def _leads_through(finding: Finding, paths: Collection[str]) -> bool:
    return any(hop.location.path in paths for hop in finding.trace)


def of_file(
    file: Path,
    found: Sequence[Finding],
    settings: Settings,
    overlay: Mapping[Path, str],
    *,
    has_comments: bool = True,
) -> tuple[list[Finding], list[Held]]:
    """What is to be reported in a file.

    Args:
        file: its absolute path.
        found: all that was found in the file, from whatever entry point (see :mod:`dllint.merging`).
        settings: the configuration.
        overlay: unsaved text of some files.
        has_comments: whether the file may have comments that suppress findings.

    Returns:
        The findings, and those that comments suppress.
    """
    ignored = settings.ignored_in(file)
    findings = [finding for finding in found if finding.code not in ignored]
    return _suppress(file, findings, settings, ignored, overlay) if has_comments else (findings, [])


def _suppress(
    file: Path,
    findings: list[Finding],
    settings: Settings,
    ignored: frozenset[str],
    overlay: Mapping[Path, str],
) -> tuple[list[Finding], list[Held]]:
    """Apply the suppression comments of a file, and report those that are of no use or make no sense."""
    text = overlay.get(file)
    try:
        source = read_source(file) if text is None else source_from_text(text, file)
    except SourceError:
        return findings, []  # it was readable a moment ago; the findings stand
    rules = list_rules(settings.rule_paths, settings.plugins)
    known = {key: rule.code for rule in rules for key in (rule.code, rule.name)}
    suppressions = Suppressions.parse(source, known, require_reason=settings.require_reason)
    kept, _ = suppressions.apply(findings)
    ran = settings.enabled - ignored
    own = suppressions.invalid()
    if not any(finding.code in ("DL001", "DL002", "DL003") for finding in findings):
        own += suppressions.unused(ran, blanket=settings.defaults <= ran)
    for finding in own:
        if finding.code in ran:
            severity = settings.severities.get(finding.code, finding.severity)
            kept.append(replace(finding, severity=severity))
    return kept, suppressions.held
