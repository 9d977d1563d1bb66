"""How a rule reports what it found, and what its fixes replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption
from dllint.context.assuming import Assuming
from dllint.context.switched_off import SwitchedOff
from dllint.events import Event
from dllint.findings import Edit, Finding, Fix, Hop, Location, Severity
from dllint.interp.source.bindings import Definition
from dllint.interp.source.positions import ancestors, enclosing_scope, enclosing_statement
from dllint.interp.source.users import is_tried_out
from dllint.rule import Rule, address_of
from dllint.sites import Site
from dllint.syntax.placed import Edits
from dllint.tiers import confidence_in

_TESTS = frozenset(("test", "tests"))
_PACKAGING = frozenset(("setup.py", "setup.cfg", "pyproject.toml"))


class Reporting(Assuming, SwitchedOff):
    """Findings, places in the source and edits of it."""

    def finding(
        self,
        rule: Rule,
        at: Event | Site,
        message: str,
        *,
        on: Iterable[Any] = (),
        assuming: Iterable[Assumption] = (),
        effect: str = "",
        help: str = "",
        trace: Iterable[tuple[Site, str]] = (),
        fix: tuple[str, Edits] | None = None,
        fixes: Sequence[Fix] = (),
        severity: Severity | None = None,
        pedantic: bool = False,
    ) -> Finding:
        """Report something at an event or a place: what is wrong, what it does to training, and what to do about it.

        How sure that is follows from what is assumed: by the event, by what else the claim rests ``on`` (see
        :meth:`assumptions_of`), and by the rule itself (``assuming``). ``fix`` is what the rule offers to do, in words
        and edits, as safe as the rule says; it is left out where there are no edits, or they are of another file.
        ``fixes`` are others.

        What a unit test does is no training: findings in one are shown only where the rule is selected by name.
        """
        site = at.site if isinstance(at, Event) else at
        event = at if isinstance(at, Event) else None
        purpose = (*self.made_up(), *self.is_training((enclosing_scope(site),)), *self._needed(), *self._kept())
        purpose = (*purpose, *self.switched_off(site, event))
        used = (*self._alone(), *self._unread(site, event))
        assumptions = self.assumptions_of(event, *on, *assuming, *used, *purpose)
        alone = self.program.alone
        return Finding(
            code=rule.code,
            name=rule.name,
            message=message,
            location=self.location(site),
            severity=severity or rule.severity,
            category=rule.category,
            confidence=confidence_in(rule.code, assumptions),
            assumptions=assumptions,
            effect=effect,
            help=help,
            scope=enclosing_scope(site),
            statement=enclosing_statement(site),
            trace=tuple(Hop(self.location(place), text) for place, text in trace),
            fixes=(*self._offered(rule, fix, site), *fixes),
            pedantic=pedantic or self._is_unit_test(),
            confirmable=rule.confirmable,
            url=address_of(rule.code),
            alone=(alone.path, alone.line) if alone is not None else None,
        )

    def _offered(self, rule: Rule, fix: tuple[str, Edits] | None, at: Site) -> Iterator[Fix]:
        """The fix of a rule, if a finding at a place can carry its edits."""
        if fix is not None and fix[1] and fix[1].module is at.module:
            assert rule.fix_safety, f"{rule.code} offers a fix and has no `fix_safety`"
            yield Fix(fix[0], tuple(fix[1]), rule.fix_safety)

    def _alone(self) -> Iterator[Assumption]:
        """That somebody calls a definition which was interpreted by itself, and calls it so.

        Of what no code names, in a project that has scripts, nobody knows that it is used at all. A library calls the
        methods of a class only if somebody makes objects of it.
        """
        if self.program.kind == "module":
            return
        failure = self._machine.failed_at
        if failure is not None and not any(self._importers(self.program.module)):
            yield Assumption("effect", f"the script goes on behind line {failure.line}, where it fails")
        name = self.program.name.partition(".")[0]
        definitions = [each for each in self._top_level(name) if isinstance(each, Definition)]
        if not all(self._may_be_called(Site(self.program.module, definition)) for definition in definitions):
            yield self._used(self.program.name)
        elif self.program.alone is not None:
            told = f"`{self.program.name}` is called, which nothing that could be followed does"
            yield Assumption("entry", told, asks="reached")

    def _unread(self, site: Site, event: Event | None) -> Iterator[Assumption]:
        """That somebody uses the definition around a place of which no event tells that it is run, or only a trial."""
        if self.program.kind != "module" or (event is not None and not self._is_trial):
            return
        around = [node for node in ancestors(site) if isinstance(node, Definition)]
        if around and (event is not None or site.module is self.program.module):
            definition = around[-1]
            if not self._may_be_called(Site(site.module, definition)):
                yield self._used(definition.name)

    @cached_property
    def _is_trial(self) -> bool:
        return is_tried_out(self.program.module)

    def _used(self, name: str) -> Assumption:
        return Assumption("effect", f"somebody uses `{name}`, which no code that runs names", asks="reached")

    def _needed(self) -> Iterator[Assumption]:
        """That a file which the program cannot do without is mended if it cannot be parsed, or is there after all."""
        project = self._machine.project
        broken = project.broken_import(self.program.module)
        if broken is not None:
            yield Assumption("effect", f"`{broken.file.name}` is mended, which is imported and cannot be parsed")
        missing = project.missing_import(self.program.module)
        if missing and missing.partition(".")[0] not in self.facts.packages:
            yield Assumption("effect", f"`{missing}` exists, which is not in the project")
        refused = project.refused_import(self.program.module)
        if refused:
            yield Assumption("effect", f"`{refused}` exists, which is imported and which its module does not have")

    def _kept(self) -> Iterator[Assumption]:
        """That somebody runs the tests of a library that is kept in the project, with its own file for installation."""
        project, file = self._machine.project, self.program.module.file
        around = [folder for folder in file.parents if project.root in folder.parents]
        for library in around[1:]:
            is_tests = not _TESTS.isdisjoint(file.relative_to(library).parts[:-1])
            if is_tests and not _PACKAGING.isdisjoint(project.names_in(library)):
                if any(library not in other.parents for other in project.files):
                    yield Assumption("effect", f"somebody runs the tests of `{library.name}`, which is kept here")
                return

    def _top_level(self, name: str) -> Sequence[ast.stmt]:
        """The statements at the top of the program's file that bind a name."""
        statements: Sequence[ast.stmt] = self.program.module.bindings.names.get(name, ())
        return statements

    def _may_be_called(self, definition: Site) -> bool:
        """Whether something in the project that runs may use a definition: code, a notebook or a configuration file.

        Of a library, of a file by itself, and of a part of a project the callers are outside.
        """
        project = self._machine.project
        is_here = definition.module is self.program.module
        own = self.program.module if is_here else project.module(definition.module.source.path)
        if own is None or not isinstance(definition.node, ast.stmt) or project.uses(own, definition.node):
            return True
        return not self.is_application(own)

    def _is_unit_test(self) -> bool:
        """Whether the program is a function that pytest or unittest would run, or helps those in a folder of tests."""
        name, file = self.program.name.rpartition(".")[2], self.program.module.file
        if re.fullmatch(r"test_.*\.py|.*_test\.py|conftest\.py", file.name) and {"test", "tests"} & set(file.parts):
            return True
        return (
            self.program.kind != "module"
            and bool(re.match("test(_|[A-Z])", name))
            and bool(re.fullmatch(r"test.*\.py|.*_test\.py", file.name))
        )

    @property
    def is_unit_test(self) -> bool:
        """Whether the program belongs to the tests of a project: nothing is trained in it."""
        return self._is_unit_test()

    def location(self, site: Site) -> Location:
        """The range of a site as users see it; of a compound statement, its header's first line."""
        node: Any = site.node
        source = site.module.source
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.While | ast.With | ast.If
        ):
            line = source.line_text(node.lineno)
            return source.location(node.lineno, node.col_offset, node.lineno, len(line.rstrip().encode()))
        if not hasattr(node, "lineno"):
            return source.location(1, 0, 1, 0)
        return source.location(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    def scope(self, site: Site) -> str:
        """``Class.method``, ``function`` or an empty string: where a place in the source is."""
        return enclosing_scope(site)

    def calls_to(self, event: Event) -> list[tuple[Site, str]]:
        """The calls on the way to an event, outermost first, as hops of a trace."""
        frames = [frame for frame in event.frame.stack() if frame.call is not None and frame.caller is not None]
        hops = [(frame.call, f"calls `{frame.scope}`") for frame in reversed(frames) if frame.call is not None]
        return [(site, text) for site, text in hops if not isinstance(site.node, Definition)]

    def text(self, site: Site) -> str:
        """The decoded text of the file that a site is in."""
        return site.module.source.text

    def replace(self, site: Site, text: str) -> Edit:
        """An edit that replaces the source of a site's node."""
        node: Any = site.node
        source = site.module.source
        start = source.offset(node.lineno, node.col_offset)
        return Edit(start, source.offset(node.end_lineno, node.end_col_offset), text)

    def is_within(self, site: Site, around: Site) -> bool:
        """Whether a place lies in the source range of another."""
        if site.module is not around.module or not hasattr(site.node, "lineno") or not hasattr(around.node, "lineno"):
            return False
        inner, outer = self.replace(site, ""), self.replace(around, "")
        return outer.start <= inner.start and inner.end <= outer.end

    def source_of(self, site: Site) -> str:
        """The source text of a site's node."""
        edit = self.replace(site, "")
        return self.text(site)[edit.start : edit.end]
