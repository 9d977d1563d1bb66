"""A small linter behind the real command line: two rules that look for words, so that tests say what is found.

``python tests/cli_support.py ARGUMENTS`` is dllint with it.
"""

from __future__ import annotations

import re
import sys
import time
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dllint import registry
from dllint.config.settings import Settings
from dllint.files.source import SourceError, SourceFile, read_source, source_from_text, syntax_problem
from dllint.findings import Edit, Finding, Fix, Location, Problem, Report, sort_key
from dllint.syntax.suppressions import Suppressions

Run = Callable[..., "Result"]

RULES = '''
"""Softmax where none belongs.

It hurts.
"""
from dllint.rule import Rule

class Softmax(Rule):
    code = "DL101"
    name = "softmax-before-cross-entropy"
    category = "correctness"
    fix_safety = "unsafe"
    references = ("https://example.com/softmax",)

class ZeroGrad(Rule):
    """Gradients that are not cleared."""
    code = "DL202"
    name = "missing-zero-grad"
    category = "suspicious"
    severity = "warning"
    fix_safety = "safe"

class Fussy(Rule):
    """Something small."""
    code = "DL110"
    name = "fussy"
    category = "pedantic"
    severity = "info"
    default = False
'''

WORDS = {
    "softmax(": ("DL101", "softmax-before-cross-entropy", "error", Fix("Pass the logits", (), "unsafe"), "logits("),
    "nozero(": ("DL202", "missing-zero-grad", "warning", Fix("Clear the gradients", (), "safe"), "zero("),
    "fussy(": ("DL110", "fussy", "info", None, ""),
}


def install(rules: Path) -> None:
    """Put the two rules, written to a folder, in the place of the built-in ones, and the small linter in its place."""
    (rules / "dl101_words.py").write_text(RULES)
    registry.builtin_directory = lambda: rules
    registry.load_registry.cache_clear()
    runner = types.ModuleType("dllint.runner")
    runner.lint_files = lint_files  # type: ignore[attr-defined]
    sys.modules["dllint.runner"] = runner


def lint_files(
    files: Sequence[Path],
    settings: Settings,
    *,
    around: Sequence[Path] = (),
    named: Collection[Path] = (),
    jobs: int | None = None,
    cache: bool = True,
    overlay: Mapping[Path, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    executor: str = "",
) -> Report:
    """Lint with the contract of the real runner: suppressions, ignores and severities are applied, findings sorted."""
    report = Report(files=len(files), seconds=0.5, timing={"DL101": 0.25, "parse": 0.125})
    for done, file in enumerate(files, 1):
        try:
            text = (overlay or {}).get(file)
            source = read_source(file) if text is None else source_from_text(text, file)
        except SourceError as error:
            report.problems.append(Problem("unreadable", str(error), file.name))
            continue
        if "slow(" in source.text:
            time.sleep(0.6)
        if "crash(" in source.text:
            report.problems.append(Problem("crash", "rule DL101 failed", source.display))
        _lint(source, settings, report)
        if progress is not None:
            progress(done, len(files))
    report.findings.sort(key=sort_key)
    return report


def _lint(source: SourceFile, settings: Settings, report: Report) -> None:
    if problem := syntax_problem(source.text):
        place = Location(source.display, problem.line, problem.column, problem.line, problem.column + 1)
        report.findings.append(Finding("DL001", "syntax-error", problem.message, place, "error", "correctness"))
        return
    rules = registry.load_rules(settings.rule_paths, settings.plugins)
    known = {key: rule.code for rule in rules for key in (rule.code, rule.name)}
    ran = settings.enabled - settings.ignored_in(source.path)
    suppressions = Suppressions.parse(source, known, require_reason=settings.require_reason)
    findings, count = suppressions.apply(found for found in _find(source) if found.code in ran)
    report.suppressed += count
    everything = [*findings, *suppressions.invalid(), *suppressions.unused(ran, blanket=settings.defaults <= ran)]
    for found in everything:
        if found.code in ran:
            report.findings.append(replace(found, severity=settings.severities.get(found.code, found.severity)))


def _find(source: SourceFile) -> list[Finding]:
    found = []
    for word, (code, name, severity, fix, replacement) in WORDS.items():
        for match in re.finditer(rf"(?<!\w){re.escape(word)}", source.text):
            fixes = (replace(fix, edits=(Edit(match.start(), match.end(), replacement),)),) if fix else ()
            place = source.location_of(match.start(), match.end())
            statement = source.line_text(source.position(match.start())[0]).partition("#")[0].strip()
            found.append(
                Finding(code, name, f"{word[:-1]} is used", place, severity, "correctness",  # type: ignore[arg-type]
                        statement=statement, fixes=fixes)
            )  # fmt: skip
    return found


class Result:
    """What a run returned and wrote."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[str]:
        """The findings on standard output as ``path:line CODE``."""
        found = []
        for line in self.out.splitlines():
            place, _, rest = line.partition(": ")
            if "[DL" in rest:
                found.append(f"{place.rpartition(':')[0]} {rest.partition('[')[2][:5]}")
        return found


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


BOTH = "a = softmax(x)\nb = nozero(y)\n"
"""A file with a finding of either rule."""


if __name__ == "__main__":
    import tempfile

    from dllint.cli import main

    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder))
        status = main()
    sys.exit(status)
