"""An engine that remembers which definitions had nothing to report, and does not interpret them again in vain.

While somebody types, most definitions of a file are what they were. One that stayed silent stays so as long as nothing
has changed that its interpretation could see. What that is, is judged with caution:

- the text of the definition and of all others that can be reached from it by name;
- the file outside of definitions, and the functions that the module itself calls;
- the rules that apply, the files that are imported, and what rules asked about the whole file.

A definition in which anything was found is always interpreted again, so that no finding need be carried over.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from dllint.config.settings import Settings
from dllint.context import Context
from dllint.dataclass import dataclass
from dllint.engine import Engine, of_files
from dllint.engine_rules import CrashRule, LimitRule
from dllint.files.source import SourceFile
from dllint.findings import Finding
from dllint.interp.run.machine import MAX_STEPS_OF_MODULE, Machine, Reach
from dllint.interp.sieve.relevance import Concerned, Relevance
from dllint.interp.source.facts import Facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.patterns import Pattern
from dllint.interp.source.project import Project
from dllint.outcomes import Analysis
from dllint.rule_table import Described
from dllint.server.imports import Imports
from dllint.server.outline import Member, Outline
from dllint.sites import Module, Site
from dllint.structure import Program
from dllint.values import Function
from dllint.worker import Worker

_FAILED = (CrashRule.code, LimitRule.code)


class WatchedModule(SourceModule):
    """A module that notes what was asked about its text as a whole."""

    def __init__(self, source: SourceFile, name: str) -> None:
        super().__init__(source, name)
        self.asked: dict[Pattern, bool] = {}

    def contains(self, pattern: Pattern) -> bool:
        """Whether the text has a match of a pattern in it."""
        answer = self.asked[pattern] = super().contains(pattern)
        return answer


class WatchedContext(Context):
    """A context that notes when a rule reports something, or looks at whole files in a way that nobody can repeat."""

    watch: Watch

    def finding(self, *given: Any, **options: Any) -> Finding:
        """Report something."""
        self.watch.is_silent = False
        return super().finding(*given, **options)

    def text(self, site: Site) -> str:
        """The text of a file."""
        self.watch.is_silent = False
        return super().text(site)

    def source_of(self, site: Site) -> str:
        """The source text of a site's node: of no more than the definition that it stands in."""
        was_silent = self.watch.is_silent
        text = super().source_of(site)
        self.watch.is_silent = was_silent
        return text

    def trees(self, word: str) -> Any:
        """The syntax trees with a word in them."""
        self.watch.is_silent = False
        return super().trees(word)

    def functions(self, name: str, word: str) -> Any:
        """The functions of a name in files with a word in them."""
        self.watch.is_silent = False
        return super().functions(name, word)


@dataclass(frozen=True, slots=True)
class Silence:
    """That a definition had nothing to report: under which conditions, and which functions were reached from it."""

    conditions: tuple[object, ...]
    files: frozenset[Path]  # that are imported and could be seen
    asked: dict[Pattern, bool]
    reached: frozenset[Member]
    reached_elsewhere: frozenset[ast.AST]
    reaches: tuple[Reach, ...]
    steps: int


@dataclass(slots=True)
class Memory:
    """What is remembered of one file, and all other files and folders that it has depended on."""

    silences: dict[str, Silence] = field(default_factory=dict)
    dependencies: frozenset[Path] = frozenset()


class RememberingEngine(Engine):
    """Finds what an :class:`Engine` finds, sooner where little has changed."""

    def __init__(self, facts: Facts, rules: Sequence[Described], settings: Settings) -> None:
        super().__init__(facts, rules, settings)
        self._memories: dict[Path, Memory] = {}
        self._watch: Watch | None = None

    def analyse(self, module: SourceModule, project: Project) -> Analysis:
        """Analyze one module of a project."""
        self._watch = None
        analysis = super().analyse(module, project)
        watch, self._watch = self._watch, None
        if watch is None:
            return analysis
        memory = watch.memory
        if not any(finding.code in _FAILED for finding in analysis.findings):
            watch.close()
        elif analysis.problems:  # a rule has failed, on whatever definition
            memory.silences.clear()
        if watch.steps > MAX_STEPS_OF_MODULE // 2:  # what later definitions may cost depends on earlier ones
            memory.silences.clear()
            if watch.has_recalled:
                return self.analyse(module, project)
        memory.dependencies = memory.dependencies.union(analysis.dependencies)
        if watch.has_recalled:
            analysis.dependencies = list(memory.dependencies)
        return analysis

    def forget(self, module: SourceModule, project: Project) -> None:
        """Let go of what is kept about a module whose text is another one now, and of all that may depend on it.

        What rules asked about whole files, they may have asked about any file of the project.
        """
        super().forget(module, project)
        for file, memory in self._memories.items():
            if file != module.file:
                kept = {name: each for name, each in memory.silences.items() if not each.asked}
                memory.silences = {name: each for name, each in kept.items() if module.file not in each.files}

    def relevance(self, module: SourceModule, project: Project, rules: Sequence[Described]) -> Relevance | None:
        """What is worth interpreting in a module for some rules; ``None`` stands for everything."""
        known = super().relevance(module, project, rules)
        if known is None or not isinstance(module, WatchedModule) or module.source.notebook is not None:
            return known
        closure = project.closure(module)
        if any(module in project.closure(other) for other in closure if other is not module):
            return known  # other files look into this one
        memory = self._memories.setdefault(module.file, Memory())
        circumstances = (tuple(rules), tuple(other.file for other in closure))
        watch = self._watch = Watch(self.graph(project), self.facts, module, self.triggers(rules), of_files(rules))
        watch.begin(module, memory, circumstances, Imports(module, project))
        return watch

    def view(self, machine: Machine, program: Program) -> Context:
        """What rules see of a program."""
        if self._watch is None:
            return super().view(machine, program)
        self._watch.has_run(machine, program)
        context = WatchedContext(machine, program, self.settings.versions, self.settings.limits)
        context.watch = self._watch
        return context


class Watch(Relevance):
    """Says what is worth interpreting, and watches what comes of it: one definition after the other.

    ``is_silent`` tells whether the present one has had nothing to report so far, ``steps`` how many statements were
    interpreted or need not be, and ``has_recalled`` whether there were any of the latter.
    """

    def begin(self, module: WatchedModule, memory: Memory, circumstances: tuple[object, ...], imports: Imports) -> None:
        """Start, with the program of the module itself."""
        self.memory = memory
        self.is_silent = True
        self.has_recalled = False
        self.steps = 0
        self._main = module
        self._outline = Outline(module)
        self._circumstances = circumstances
        self._uses = imports
        self._of_module: tuple[object, ...] = ()
        self._files_of_module: frozenset[Path] = frozenset()
        self._called: dict[ast.AST, Module] = {}
        self._reached: Collection[ast.AST] = ()
        self._before: frozenset[ast.AST] = frozenset()
        self._present: tuple[str, tuple[object, ...], int, int] | None = None  # name, conditions, steps and reaches
        self._reaches: list[Reach] = []

    def has_run(self, machine: Machine, program: Program) -> None:
        """A program has been interpreted, and rules are about to look at it."""
        self.steps += machine.steps
        self._reaches = machine.reaches
        if program.truncated:
            self.is_silent = False

    def can_matter(self, function: Function) -> bool:
        """Whether interpreting a call of a function could show any rule anything."""
        self._called[function.node] = function.module
        return super().can_matter(function)

    def to_definition(self, definition: ast.stmt, reached: Collection[ast.AST]) -> Concerned:
        """The rules that could fire when a definition is interpreted on its own; none if it will be silent again."""
        self._reached = reached
        self.close()
        if not self._of_module:
            self._of_module = self._state_of_module()
        concerned = super().to_definition(definition, reached)
        name = getattr(definition, "name", "")
        if concerned and self._outline.nodes.get(name) is definition:
            conditions = self._conditions(name, concerned)
            silence = self.memory.silences.get(name)
            if silence is not None and silence.conditions == conditions and self._would_answer(silence.asked):
                self._recall(silence)
                return frozenset()
            self._open(name, conditions)
        return concerned

    def _state_of_module(self) -> tuple[object, ...]:
        """What decides on the state that the module's own program, which has just ended, leaves behind."""
        seen = sorted(self._outline.seen_by_rest(self._called))
        self._files_of_module = self._uses.behind(self._outline.words_of_rest | self._outline.words(seen))
        return (self._outline.rest, *((name, self._outline.code(name)) for name in seen))

    def _conditions(self, name: str, concerned: Concerned) -> tuple[object, ...]:
        """All that the outcome for a definition depends on, but for questions about the whole file."""
        outline = self._outline
        around = tuple((other, hash(outline.texts[other])) for other in sorted(outline.around(name)))
        seen_before = frozenset(place for node, place in outline.members(name).items() if node in self._reached)
        return (self._circumstances, self._of_module, around, concerned, seen_before)

    def _would_answer(self, asked: dict[Pattern, bool]) -> bool:
        """Whether questions about the whole file have the same answers as before."""
        return all(self._main.contains(pattern) is answer for pattern, answer in asked.items())

    def _recall(self, silence: Silence) -> None:
        """A definition need not be interpreted; later ones are told what would have been reached from it."""
        assert isinstance(self._reached, set)
        self._reached.update(silence.reached_elsewhere, map(self._outline.node, silence.reached))
        self._reaches.extend(silence.reaches)
        self.steps += silence.steps
        self.has_recalled = True

    def _open(self, name: str, conditions: tuple[object, ...]) -> None:
        self._present = (name, conditions, self.steps, len(self._reaches))
        self._before = frozenset(self._reached)
        self._main.asked = {}
        self.is_silent = True

    def close(self) -> None:
        """The definition at hand has been dealt with: remember it, if it was silent."""
        present, self._present = self._present, None
        if present is None:
            return
        name, conditions, steps, reaches = present
        self.memory.silences.pop(name, None)
        reached = [node for node in self._reached if node not in self._before]
        here = [node for node in reached if self._called.get(node) is self._main]
        if not self.is_silent or not self._outline.others.isdisjoint(here):
            return
        self.memory.silences[name] = Silence(
            conditions,
            self._files_of_module | self._uses.behind(self._outline.words(self._outline.around(name))),
            self._main.asked,
            frozenset(self._outline.places[node] for node in here if node in self._outline.places),
            frozenset(node for node in reached if self._called.get(node) is not self._main),
            tuple(self._reaches[reaches:]),
            self.steps - steps,
        )


class RememberingWorker(Worker):
    """A worker with an engine that remembers, unless the project has rules of its own, which may look at anything."""

    def change(self, file: Path, text: str | None, module: SourceModule | None = None) -> None:
        """Take a file to have another unsaved text from now on, or none."""
        self._project(file)  # that it is there to take the module
        super().change(file, text, module)

    def _new_engine(self) -> Engine:
        if self._settings.rule_paths or self._settings.plugins:
            return super()._new_engine()
        return RememberingEngine(*self._equipment())
