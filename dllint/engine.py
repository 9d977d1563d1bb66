"""Analysis of one file: which rules can fire, what the interpreter makes of it, and what the rules say.

A rule that crashes costs that rule on that file; everything else goes on.
"""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dllint.assumptions import Assumption, union
from dllint.bans import Ban, banned_calls
from dllint.config.settings import Settings
from dllint.context import Context
from dllint.engine_rules import BannedCallRule, CrashRule, LimitRule, SyntaxErrorRule
from dllint.findings import CONFIDENCE_RANK, SEVERITY_RANK, Finding, Location, Problem, Silence
from dllint.hooks import hooks_of
from dllint.interp.run.entry import interpret
from dllint.interp.run.machine import LimitError, Machine, Place
from dllint.interp.run.wiring import new_machine
from dllint.interp.sieve.relevance import EVENT_WORDS, Concerned, Relevance
from dllint.interp.sieve.word_graph import WordGraph
from dllint.interp.source.facts import Facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project
from dllint.outcomes import Analysis
from dllint.rule import Rule, Triggers, is_triggered
from dllint.rule_table import Described, listens, loaded
from dllint.structure import Program
from dllint.tiers import confidence_in, over_all_options

Hook = Callable[..., Iterable[Finding] | None]

_NOW = float("-inf")  # seconds: the deadline of an analysis that is interrupted


class Engine:
    """A set of rules, the facts they rely on, and the settings under which they run.

    ``sieve`` lets the engine leave out what cannot make any rule fire; without it the findings are the same, later.
    """

    def __init__(self, facts: Facts, rules: Sequence[Described], settings: Settings, *, sieve: bool = True) -> None:
        self.facts = facts
        self.rules = [rule for rule in rules if listens(rule)]
        self.settings = settings
        self.sieve = sieve
        self._triggers = {rule: facts.widened(rule.triggers) for rule in self.rules}
        self._interesting = frozenset(
            word for trigger in self._triggers.values() for words in trigger for word in words
        )
        self._bans = [Ban.read(table) for table in settings.bans]
        self._graphs: dict[Project, WordGraph] = {}
        self._machine: Machine | None = None  # of the analysis under way

    def analyse(self, module: SourceModule, project: Project) -> Analysis:
        """Analyze one module of a project."""
        analysis = Analysis()
        if not _parses(module, analysis):
            return analysis
        if self._bans and BannedCallRule.code in self.settings.enabled:
            severity = self.settings.severities.get(BannedCallRule.code, BannedCallRule.severity)
            analysis.findings += (replace(found, severity=severity) for found in banned_calls(module, self._bans))
        analysis.matters = not self._interesting.isdisjoint(module.words) or not all(self._triggers.values())
        project.start_noting()
        closure = project.closure(module)
        active = self._active_rules(closure) if self.sieve else self.rules
        if active:
            run = _Run(self, module, project, active, analysis)
            self._machine = run.machine
            run.run()
            self._machine = None
        analysis.dependencies = list(project.used)
        analysis.findings = _distinct(analysis.findings)
        return analysis

    def interrupt(self) -> None:
        """Let the analysis that is under way on another thread come to its end as if its time were over."""
        machine = self._machine
        if machine is not None:
            machine.deadline = _NOW

    def forget(self, module: SourceModule, project: Project) -> None:
        """Let go of what is kept about a module whose text is another one now."""
        if project in self._graphs:
            self._graphs[project].forget(module)

    def forget_trees(self, project: Project) -> None:
        """Let go of what is kept about the syntax trees of a project, which are to be made again."""
        if project in self._graphs:
            self._graphs[project].forget_trees()

    def _active_rules(self, closure: Sequence[SourceModule]) -> list[Described]:
        """The rules whose triggers a module and all it imports satisfy."""
        words = frozenset().union(*(module.words_among(self._interesting) for module in closure))
        return [rule for rule in self.rules if is_triggered(self._triggers[rule], words)]

    def relevance(self, module: SourceModule, project: Project, rules: Sequence[Described]) -> Relevance | None:
        """What is worth interpreting in a module for some rules; ``None`` stands for everything."""
        if not self.sieve or not all(rule.triggers for rule in rules):
            return None
        return Relevance(self.graph(project), self.facts, module, self.triggers(rules), of_files(rules))

    def graph(self, project: Project) -> WordGraph:
        """What the definitions of a project can reach."""
        graph = self._graphs.get(project)
        if graph is None:
            graph = self._graphs[project] = WordGraph(project, self._interesting | self.facts.vocabulary | EVENT_WORDS)
        return graph

    def triggers(self, rules: Sequence[Described]) -> list[Triggers]:
        """The triggers of some rules, with the words that the facts count among them."""
        return [self._triggers[rule] for rule in rules]

    def view(self, machine: Machine, program: Program) -> Context:
        """What rules see of a program."""
        return Context(machine, program, self.settings.versions, self.settings.limits)


def of_files(rules: Sequence[Described]) -> frozenset[int]:
    """The rules, by their place in a list, that look at files as a whole."""
    return frozenset(index for index, rule in enumerate(rules) if rule.of_files)


def syntax_errors(module: SourceModule) -> list[Finding]:
    """What keeps Python from parsing a file or, of a notebook, some of its cells."""
    analysis = Analysis()
    _parses(module, analysis)
    return analysis.findings


def _parses(module: SourceModule, analysis: Analysis) -> bool:
    """Whether Python can parse the file; if not, say so as a finding."""
    _report_broken_cells(module, analysis)
    if module.parse_error is not None:
        analysis.findings.append(_parse_finding(module, module.parse_error))
    elif module.repeated_argument is not None:
        name, line, column = module.repeated_argument
        place = _place(module, line, column)
        analysis.findings.append(_engine_finding(SyntaxErrorRule, place, f"keyword argument repeated: {name}"))
    return module.has_tree


def _parse_finding(module: SourceModule, error: Exception) -> Finding:
    if isinstance(error, SyntaxError):
        place = _place(module, error.lineno or 1, (error.offset or 1) - 1)
        return _engine_finding(SyntaxErrorRule, place, error.msg)
    if isinstance(error, RecursionError | MemoryError):
        message = "not analyzed: an expression is nested too deeply for Python's own parser"
        return _engine_finding(LimitRule, _place(module, 1, 0), message)
    return _engine_finding(SyntaxErrorRule, _place(module, 1, 0), str(error))


def _report_broken_cells(module: SourceModule, analysis: Analysis) -> None:
    notebook = module.source.notebook
    if notebook is None:
        return
    for broken in notebook.broken:
        place = Location(module.path, broken.line, broken.column, broken.line, broken.column, broken.cell)
        analysis.findings.append(_engine_finding(SyntaxErrorRule, place, broken.message))


def _place(module: SourceModule, line: int, column: int) -> Location:
    lines = module.source.text.count("\n") + 1
    line = max(1, min(line, lines))
    return module.source.location(line, max(0, column), line, max(0, column))


def _engine_finding(rule: type[Rule], place: Location, message: str) -> Finding:
    return Finding(rule.code, rule.name, message, place, rule.severity, rule.category)


def _distinct(findings: list[Finding]) -> list[Finding]:
    """One finding per rule and place: programs overlap, and the surest and most severe version is kept.

    What holds for each option of a choice holds whichever it is.
    """
    groups: dict[tuple[str, Location], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.location), []).append(finding)
    return [_best(group) for group in groups.values()]


def _best(group: list[Finding]) -> Finding:
    best = max(group, key=_weight)
    assumed = over_all_options([finding.assumptions for finding in group if finding.pedantic is best.pedantic])
    # choices have no name beyond this file
    assumptions = union(Assumption(each.kind, each.text, asks=each.asks) for each in assumed)
    return replace(best, assumptions=assumptions, confidence=confidence_in(best.code, assumptions))


def _weight(finding: Finding) -> tuple[bool, int, int]:
    return (not finding.pedantic, CONFIDENCE_RANK[finding.confidence], SEVERITY_RANK[finding.severity])


class _Run:
    """The interpretation of one module with a set of rules."""

    def __init__(
        self, engine: Engine, module: SourceModule, project: Project, rules: Sequence[Described], analysis: Analysis
    ) -> None:
        self._engine = engine
        self.module = module
        self.rules = list(rules)
        self._crashing: set[Described] = set()
        self.settings = engine.settings
        self.analysis = analysis
        self.machine = new_machine(project, engine.facts, module, engine.relevance(module, project, rules))
        self.machine.deadline = self.machine.seconds + self.settings.time_limit

    def run(self) -> None:
        try:
            interpret(self.machine, self._visit)
        except RecursionError:
            self._limited("not analyzed to the end: the code is nested too deeply")
        except LimitError:
            self._limited(f"not analyzed to the end: more than {self.settings.time_limit:g} s (time-limit)")
        except Exception as error:
            self._crashed("the interpreter", error)
        self.analysis.reached = self._reached()

    def _reached(self) -> dict[Place, frozenset[str]]:
        """The definitions of other files that were called, each with the codes of the rules that looked on."""
        codes = [rule.code for rule in self.rules]
        reached: dict[Place, frozenset[str]] = {}
        for reach in self.machine.reaches:
            seen_by = frozenset(codes if reach.concerned is None else (codes[index] for index in reach.concerned))
            for place in reach.places:
                known = reached.get(place)
                reached[place] = seen_by if known is None or known <= seen_by else known | seen_by
        return reached

    def _visit(self, program: Program, concerned: Concerned | None) -> None:
        context = self._engine.view(self.machine, program)
        self.machine.end_program(concerned, counts=not program.truncated and not context.is_unit_test)
        if self.settings.why_silent:
            context.silences = self.analysis.silences
        for index, rule in enumerate(self.rules):
            if rule in self._crashing or (concerned is not None and index not in concerned):
                continue
            if rule.of_files and program.kind != "module":
                continue
            if self.machine.deadline == _NOW:
                raise LimitError
            rule_class = loaded(rule)
            started = time.perf_counter()
            try:
                found = _apply(rule_class(), context)
            except (RecursionError, LimitError):
                raise
            except Exception as error:
                self._crashing.add(rule)
                self._crashed(f"rule {rule.code}", error)
                continue
            finally:
                spent = time.perf_counter() - started
                self.analysis.timing[rule.code] = self.analysis.timing.get(rule.code, 0.0) + spent
            self.analysis.findings.extend(self._adjust(finding) for finding in found if self._wanted(finding))

    def _wanted(self, finding: Finding) -> bool:
        wanted = not finding.pedantic or finding.code in self.settings.explicit
        if self.settings.why_silent and not wanted:
            reason = "it does no harm here, or stands in a test: shown where the rule is selected by name"
            self.analysis.silences.append(Silence(finding.code, finding.name, finding.location, reason))
        return wanted

    def _adjust(self, finding: Finding) -> Finding:
        severity = self.settings.severities.get(finding.code)
        safety = self.settings.fix_safety.get(finding.code)
        if safety is not None:
            finding = replace(finding, fixes=tuple(replace(fix, safety=safety) for fix in finding.fixes))
        if self.module.parse_error is not None:
            finding = replace(finding, fixes=())  # what the text would be afterwards cannot be checked
        return replace(finding, severity=severity) if severity is not None else finding

    def _limited(self, message: str) -> None:
        self.analysis.findings.append(_engine_finding(LimitRule, _place(self.module, 1, 0), message))

    def _crashed(self, what: str, error: Exception) -> None:
        reproducer = self._save_reproducer(what, error)
        kept = f"; reproducer: {reproducer}" if reproducer else ""
        message = f"{what} failed ({type(error).__name__}: {error}){kept}"
        self.analysis.findings.append(_engine_finding(CrashRule, _place(self.module, 1, 0), message))
        self.analysis.problems.append(Problem("crash", message, self.module.path))

    def _save_reproducer(self, what: str, error: Exception) -> Path | None:
        """Keep the file and the traceback, so that the crash can be reported."""
        folder = self.settings.cache_directory / "crashes"
        name = re.sub(r"\W+", "-", what)
        target = folder / f"{self.module.file.stem}-{name}-{self.module.source.digest[:8]}.txt"
        report = "".join(traceback.format_exception(error))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            target.write_text(
                f"{what}\n{self.module.path}\n\n{report}\n\n{self.module.source.text}", "utf-8", "replace"
            )
        except OSError:
            return None  # a read-only project: the message has the error itself
        return target


def _apply(rule: Rule, context: Context) -> list[Finding]:
    """Run all hooks of a rule over a program."""
    found: list[Finding] = []
    hooks = hooks_of(type(rule))
    for event in context.all_of(*hooks) if hooks else ():
        found.extend(getattr(rule, hooks[type(event)])(event, context) or ())
    on_program: Hook | None = getattr(rule, "on_program", None)
    if on_program is not None and not context.program.truncated:
        found.extend(on_program(context.program, context) or ())
    return found
