"""The analysis of one project between keystrokes: only what an edit has a bearing on is done again.

A file that Python cannot parse keeps its last good version: other files go on seeing it, and its findings stay, moved
with the text around them, beside the syntax error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from dllint.baseline import Baseline, BaselineError
from dllint.config.settings import Settings
from dllint.dataclass import dataclass
from dllint.engine import syntax_errors
from dllint.engine_rules import UnusedSuppressionRule
from dllint.files.source import SourceError, SourceFile, display_path, source_from_text
from dllint.findings import Finding, Location, Problem, fingerprints, sort_key
from dllint.fixes import fix_source
from dllint.interp.source.module import SourceModule
from dllint.merging import by_file
from dllint.outcomes import Outcome
from dllint.runner import of_file
from dllint.server.importing import Importing
from dllint.server.lens import loops_of
from dllint.server.moving import moved
from dllint.server.remembering import RememberingWorker, WatchedModule
from dllint.tiers import asked_for
from dllint.worker import Worker


@dataclass(slots=True)
class Result:
    """What there is to show in one file.

    ``known`` are the findings of the baseline, ``findings`` all others. Places in them are about ``source``, which is
    None if the text cannot be read as source.
    """

    source: SourceFile | None
    findings: list[Finding] = field(default_factory=list)
    known: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Session:
    """Keeps the modules of a project and the outcome of each open file.

    Args:
        settings: the configuration of the project.
        folder: the workspace folder; imports are not followed to above it.
        files: finds all files of the project, as they are on disk: those that import an open one are analyzed, too.
    """

    def __init__(self, settings: Settings, folder: Path, files: Callable[[], Iterable[Path]] = tuple) -> None:
        self.settings = settings
        self._folder = folder
        self._importing = Importing(folder, files)
        self._importers: frozenset[Path] = frozenset()  # files that are analyzed though they are not open
        self._worker = RememberingWorker(settings, folder)
        self._texts: dict[Path, str] = {}  # what is open, as it was last seen
        self._parsed: dict[Path, str] = {}  # what the worker was given: the last good text of each
        self._sources: dict[Path, SourceFile] = {}  # of what the worker was given
        self._broken: dict[Path, Result] = {}  # the errors of files that are not parsed now
        self._never_good: set[Path] = set()  # files that the worker has with their errors: no other version is known
        self._outcomes: dict[Path, Outcome] = {}
        self._stale: set[Path] = set()
        self._results: dict[Path, Result] = {}
        self._inputs: dict[Path, tuple[Outcome | None, list[Finding]]] = {}
        self._baseline = read_baseline(settings)
        self._may_stop = False
        self._has_stopped = False

    def forget(self) -> None:
        """Something has changed on disk: read everything again."""
        texts, self._texts = self._texts, {}
        self._worker = RememberingWorker(self.settings, self._folder, self._parsed)
        self._importing.forget()
        self._baseline = read_baseline(self.settings)
        self._outcomes.clear()
        self._inputs.clear()
        self._texts = texts
        self._stale = set(self._sources)

    def check(
        self, texts: Mapping[Path, str], own: Sequence[Path], is_outdated: Callable[[], bool]
    ) -> Iterator[tuple[Path, Result]]:
        """Bring the outcomes up to date.

        Args:
            texts: the text of everything that is open.
            own: the files among them that belong to this project; the first is done first.
            is_outdated: asked between files whether there is no point in going on.

        Yields:
            Each file with a result that differs from the one before.
        """
        edited = self._take(texts, frozenset(own))
        self._may_stop = self._has_stopped = False
        for path in sorted(own, key=lambda path: path not in edited):
            if path not in self._stale:
                continue
            if not self._analyse(path, is_outdated, may_stop=path not in edited):
                return
            yield from self._news([path] if self._stale.intersection(own) else own)
        for path in self._find_importers(own):
            if path in self._stale and not self._analyse(path, is_outdated, may_stop=True):
                return
        self._may_stop = False
        yield from self._news(own)

    def _analyse(self, path: Path, is_outdated: Callable[[], bool], *, may_stop: bool) -> bool:
        """Analyze a file. Returns false if there is no point in going on."""
        self._may_stop = may_stop
        if is_outdated():
            return False
        outcome = self._worker.analyse(path)
        if self._has_stopped:
            self._has_stopped = False
            return False
        self._outcomes[path] = outcome
        self._stale.discard(path)
        return True

    def _find_importers(self, own: Sequence[Path]) -> list[Path]:
        """The files that are not open and have a say in what is found in those that are. New ones are stale."""
        matter = [path for path in own if path in self._outcomes and self._outcomes[path].analysis.matters]
        importers = self._importing.importers(matter, own, self._parsed)
        self._importers = frozenset(importers)
        self._stale |= self._importers - self._outcomes.keys()
        self._keep_only(self._importers.union(own))
        return importers

    def _keep_only(self, files: frozenset[Path]) -> None:
        """Let go of the outcomes of all other files."""
        self._stale &= files
        for path in self._outcomes.keys() - files:
            del self._outcomes[path]

    def interrupt(self) -> None:
        """There is a new edit: give up what is done for files that only depend on the one before.

        The edited file itself is always done to the end, so that its findings come also while somebody types.
        """
        if self._may_stop:
            self._has_stopped = True
            self._worker.interrupt()

    def watch(self, thread: int) -> None:
        """Stop the analysis on a thread (by its identifier) if it goes on for far longer than it may."""
        self._worker.interrupt_if_overdue(thread)

    def _take(self, texts: Mapping[Path, str], own: frozenset[Path]) -> set[Path]:
        """Note which outcomes are stale. Returns the files whose texts are others than before."""
        before = self._texts
        self._texts = dict(texts)
        changed = {path for path in texts.keys() | before.keys() if texts.get(path) != before.get(path)}
        for path in changed:
            if path not in texts:
                self._close(path)
            else:
                self._edit(path, texts[path])
        for path in own:
            if path not in self._outcomes and path in self._sources:
                self._stale.add(path)
        self._keep_only(own | self._importers)
        return changed

    def _edit(self, path: Path, text: str) -> None:
        """Take over a text, if it can be parsed or there is nothing better."""
        self._inputs.pop(path, None)
        try:
            source = source_from_text(text, path)
        except SourceError as error:
            self._broken[path] = Result(None, problems=[Problem(error.kind, str(error), str(path))])
            return
        module = WatchedModule(source, path.stem)
        errors = syntax_errors(module)
        if errors and path in self._sources and path not in self._never_good:
            self._broken[path] = Result(source, errors)
        else:
            self._broken.pop(path, None)
            self._never_good.discard(path)
            if errors:
                self._never_good.add(path)
            self._give(path, text, module)
            self._sources[path] = source

    def _give(self, path: Path, text: str | None, module: SourceModule | None = None) -> None:
        """Give the worker a text, and find out what depends on it."""
        known = self._parsed.get(path)
        if known == text:
            return
        if text is None:
            self._parsed.pop(path, None)
        else:
            self._parsed[path] = text
        if (known is None or text is None) and not path.exists():
            # It comes or goes: what an import leads to may be another file now.
            self._worker = RememberingWorker(self.settings, self._folder, self._parsed)
            self._stale |= self._outcomes.keys()
        if text is not None or path.exists():
            self._worker.change(path, text, module)
        self._stale.add(path)
        for other, outcome in self._outcomes.items():
            if any(path == dependency for dependency, _ in outcome.dependencies):
                self._stale.add(other)

    def _close(self, path: Path) -> None:
        self._give(path, None)
        for kept in (self._sources, self._broken, self._outcomes, self._results, self._inputs):
            kept.pop(path, None)
        self._never_good.discard(path)

    # ------------------------------------------------------------------------------------------------- results

    def _news(self, paths: Sequence[Path]) -> Iterator[tuple[Path, Result]]:
        """The files whose result has changed."""
        found = by_file(self._outcomes[path].analysis for path in sorted(self._outcomes))
        for path in paths:
            inputs = (self._outcomes.get(path), found.get(display_path(str(path)), []))
            if self._inputs.get(path) != inputs:
                self._inputs[path] = inputs
                result = self._result(path, *inputs)
                if result != self._results.get(path):
                    self._results[path] = result
                    yield path, result

    def _result(self, path: Path, outcome: Outcome | None, found: list[Finding]) -> Result:
        broken = self._broken.get(path)
        good = self._good(path, outcome, found)
        if broken is None or broken.source is None:
            return broken or good or Result(None)
        if good is None or good.source is None:
            return broken
        return Result(
            broken.source,
            sorted(broken.findings + moved(good.findings, good.source, broken.source), key=sort_key),
            moved(good.known, good.source, broken.source),
        )

    def _good(self, path: Path, outcome: Outcome | None, found: list[Finding]) -> Result | None:
        """The result for the version of a file that the worker has."""
        if outcome is None:
            return None
        findings = self._reported(outcome, found, self._parsed)
        if self._stale.intersection(self._importers):  # what a comment suppresses may be found only from there
            findings = [finding for finding in findings if finding.code != UnusedSuppressionRule.code]
        new = findings if self._baseline is None else self._baseline.split(findings)[0]
        known = [finding for finding in findings if finding not in new] if len(new) < len(findings) else []
        problems = outcome.analysis.problems
        return Result(self._sources[path], sorted(new, key=sort_key), known, problems)

    def _reported(self, outcome: Outcome, found: list[Finding], overlay: Mapping[Path, str]) -> list[Finding]:
        findings, _ = of_file(outcome.file, found, self.settings, overlay, has_comments=outcome.has_comments)
        return asked_for(findings, confidence=self.settings.confidence)[0]

    def loops(self, path: Path) -> list[tuple[Location, str]]:
        """The training loops of an open file, each with what dllint understands of it."""
        source = self._sources.get(path)
        return loops_of(source, self.settings, self._folder, self._parsed) if source is not None else []

    def fixed(self, source: SourceFile) -> SourceFile:
        """A file with all safe fixes applied."""
        return fix_source(source, self._lint, unsafe=False).source

    def _lint(self, source: SourceFile) -> list[Finding]:
        """What would be found in a file if it had another text, without what the baseline knows."""
        worker = Worker(self.settings, self._folder, {**self._parsed, source.path: source.file_text})
        outcomes = [worker.analyse(path) for path in (source.path, *self._importing.importers_of(source.path))]
        found = by_file(outcome.analysis for outcome in outcomes).get(source.display, [])
        findings = self._reported(outcomes[0], found, {source.path: source.file_text})
        return findings if self._baseline is None else self._baseline.split(findings)[0]

    def take_into_baseline(self, path: Path, finding: Finding) -> Path:
        """Add a finding to the baseline of the project. Returns its file; raises BaselineError."""
        file = self.settings.baseline
        if file is None:
            raise BaselineError(f"no baseline is configured for {self.settings.root}")
        old = Baseline.read(file) if file.exists() else Baseline(file)
        result = self._results[path]
        marks = fingerprints([*result.findings, *result.known])
        added = {old.entry(each, mark) for each, mark in marks if each == finding}
        Baseline(file, old.entries | added).write()
        self._baseline = read_baseline(self.settings)
        self._inputs.clear()
        return file


def read_baseline(settings: Settings) -> Baseline | None:
    """The baseline of a project, if it has one that can be read."""
    path = settings.baseline
    if path is None or not path.is_file():
        return None
    try:
        return Baseline.read(path)
    except BaselineError:
        return None
