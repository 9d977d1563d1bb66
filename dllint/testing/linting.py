"""Linting a small project that is given as text, and comparing what is found with its marks."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dllint.config.settings import Settings
from dllint.config.versions import just_above
from dllint.dataclass import dataclass
from dllint.engine import Engine
from dllint.engine_rules import ENGINE_RULES
from dllint.files.source import SourceFile
from dllint.findings import CONFIDENCE_RANK, Finding, Location
from dllint.interp.source.facts import Facts, load_facts
from dllint.interp.source.project import Project
from dllint.rule import Rule
from dllint.testing.marks import read_marks

_CODE = (".py", ".ipynb")
_ENGINE_CODES = frozenset(rule.code for rule in ENGINE_RULES)


@dataclass(frozen=True, slots=True)
class Setup:
    """What to lint with: the rules, and the settings that rules can ask for.

    Without the ``sieve``, rules also run where their triggers say that they cannot find anything. ``notes`` are files
    that are no modules, and lie in every project.
    """

    rules: Sequence[type[Rule]]
    versions: Mapping[str, str] = field(default_factory=dict)
    explicit: bool = False
    knowledge: Mapping[str, Any] = field(default_factory=dict)
    sieve: bool = True
    notes: Mapping[str, str] = field(default_factory=dict)

    def for_case(self, versions: Mapping[str, str], explicit: bool, notes: Mapping[str, str]) -> Setup:
        """The same rules with what one case asks for."""
        return replace(self, versions=versions, explicit=explicit, notes=notes)

    def engine(self, root: Path) -> Engine:
        """The engine for a project in a folder."""
        codes = frozenset(rule.code for rule in self.rules)
        explicit = codes if self.explicit else frozenset()
        limits = {name: just_above(version) for name, version in self.versions.items()}
        settings = Settings(
            root, codes, explicit, versions=self.versions, limits=limits, knowledge=self.knowledge, time_limit=60.0
        )
        facts = load_facts(self.knowledge) if self.knowledge else _builtin_facts()
        return Engine(facts, self.rules, settings, sieve=self.sieve)


@lru_cache(maxsize=1)
def _builtin_facts() -> Facts:
    """The facts without additions of a user, made once."""
    return load_facts()


@dataclass(frozen=True, slots=True)
class Linted:
    """A file of a linted project, and the findings in it, wherever in the project they came up."""

    name: str
    source: SourceFile
    findings: list[Finding]

    def line_of(self, finding: Finding) -> int:
        """The line of the text (of a notebook: of the module it makes) on which a finding starts."""
        return self.source.position(self.source.span(finding.location)[0])[0]

    def mismatches(self, *, known: bool) -> Iterator[str]:
        """Where findings and marks differ, as text. A question (a ``possible`` finding) is no false alarm.

        Args:
            known: whether known misses and known false alarms (``# todo:``) must still be what they were.
        """
        marks = read_marks(self.source.text)
        expected = Counter((mark.line, mark.code) for mark in marks if mark.kind == "bug")
        todo = {(mark.line, mark.code): mark.kind for mark in marks if mark.kind != "bug"}
        found = Counter((self.line_of(finding), finding.code) for finding in self.findings)
        messages = {(self.line_of(finding), finding.code): finding.message for finding in self.findings}
        for place in sorted(expected - found):
            yield self._describe(*place, "missed alarm")
        reported = Counter((self.line_of(each), each.code) for each in self.findings if each.confidence != "possible")
        for place in sorted(set(reported - expected) - set(todo)):
            what = "reported more often than marked" if place in expected else "false alarm"
            yield self._describe(*place, f"{what} ({messages[place]})")
        for place, kind in sorted(todo.items()):
            if known and (kind == "known miss") == (place in found):
                yield self._describe(*place, f"{kind} no more: change the mark")

    def _describe(self, line: int, code: str, what: str) -> str:
        return f"{self.name}:{line}: {code} {what}\n    {self.source.line_text(line).strip()}"


class LintError(AssertionError):
    """dllint itself failed on a source: it does not parse, or a rule or the interpreter crashed."""


def lint(files: Mapping[str, str], setup: Setup) -> list[Linted]:
    """Lint all files of a project, given as texts by relative path; those that are no code only lie there.

    Raises:
        LintError: a file cannot be parsed, or the interpreter or a rule failed on one.
    """
    root = Path(_scratch().name).resolve()
    try:
        for name, text in {**files, **setup.notes}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("utf-8"))
        return _lint_folder(root, files, setup)
    finally:
        for path in root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@lru_cache(maxsize=1)
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """An empty folder for one project after another: where disks are busy, making one for each takes the longest."""
    return tempfile.TemporaryDirectory(prefix="dllint-")


def _lint_folder(root: Path, names: Collection[str], setup: Setup) -> list[Linted]:
    project, engine = Project(root), setup.engine(root)
    modules = {name: project.load(root / name) for name in names if name.endswith(_CODE)}
    found: dict[tuple[str, Location], Finding] = {}
    for name, module in modules.items():
        analysis = engine.analyse(module, project)
        for finding in analysis.findings:
            if finding.code in _ENGINE_CODES:
                raise LintError(_failure(name, finding, engine.settings))
            known = found.setdefault((finding.code, finding.location), finding)
            if CONFIDENCE_RANK[finding.confidence] > CONFIDENCE_RANK[known.confidence]:
                found[finding.code, finding.location] = finding
    return [
        Linted(name, module.source, [f for f in found.values() if f.location.path == module.path])
        for name, module in modules.items()
    ]


def _failure(name: str, finding: Finding, settings: Settings) -> str:
    """What went wrong, with the traceback of a crash."""
    reports = [path.read_text("utf-8") for path in sorted(settings.cache_directory.glob("crashes/*"))]
    return "\n\n".join([f"{name}:{finding.location.line}: {finding.code} {finding.message}", *reports])


def mismatches(linted: Sequence[Linted], *, known: bool = True) -> list[str]:
    """Where findings and marks of all files differ, as text."""
    return [text for file in linted for text in file.mismatches(known=known)]
