"""How a rule reports what it found, and what its fixes replace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.context.running import Running
from dllint.events import Event
from dllint.findings import Edit, Finding, Fix, Hop, Location, Severity
from dllint.interp.run.classes import role_of
from dllint.interp.source.bindings import Definition
from dllint.interp.source.positions import enclosing_scope, enclosing_statement
from dllint.rule import Rule, address_of
from dllint.sites import Site
from dllint.syntax.placed import Edits
from dllint.tiers import confidence_in
from dllint.values import Class, Instance, Value


class Reporting(Running):
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
        confirmable: bool = True,
    ) -> Finding:
        """Report something at an event or a place: what is wrong, what it does to training, and what to do about it.

        How sure that is follows from what is assumed: by the event, by what else the claim rests ``on`` (see
        :meth:`assumptions_of`), and by the rule itself (``assuming``). ``fix`` is what the rule offers to do, in words
        and edits, as safe as the rule says; it is left out where there are no edits, or they are of another file.
        ``fixes`` are others. Where the probe of a confirmable rule judges something else than this, it is not
        ``confirmable``.

        What a unit test does is no training: findings in one are shown only where the rule is selected by name.
        """
        site = at.site if isinstance(at, Event) else at
        event = at if isinstance(at, Event) else None
        known = self.assumptions_of(event, *on, *assuming, *self.runs(site, event))
        assumptions = self._in_methods_of_options(known, event) if event is not None else known
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
            confirmable=rule.confirmable and confirmable,
            beside_probe=not confirmable,
            url=address_of(rule.code),
            alone=(alone.path, alone.line) if alone is not None else None,
        )

    def _in_methods_of_options(self, assumptions: Assumptions, event: Event) -> Assumptions:
        """The same assumptions, but for those that say no more than that the code at an event is run.

        What is wrong within a method of one of several agents or trainers is wrong whenever that one is taken. Modules
        and losses get what they compute with from their callers, which may go with which of them it is.
        """
        running = (frame.receiver for frame in event.frame.stack() if frame.function != "__call__")
        owners = (each for each in running if isinstance(each, Instance) and isinstance(each.cls, Class))
        acting = (each for each in owners if role_of(self._machine, each) not in ("module", "wrapper", "loss-class"))
        choices = {str(id(choice)) for owner in acting for choice in owner.choices}
        return tuple(
            replace(each, kind="entry") if each.kind == "alternative" and each.choice in choices else each
            for each in assumptions
        )

    def _offered(self, rule: Rule, fix: tuple[str, Edits] | None, at: Site) -> Iterator[Fix]:
        """The fix of a rule, if a finding at a place can carry its edits."""
        if fix is not None and fix[1] and fix[1].module is at.module:
            assert rule.fix_safety, f"{rule.code} offers a fix and has no `fix_safety`"
            yield Fix(fix[0], tuple(fix[1]), rule.fix_safety)

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

    def class_hop(self, value: Value | None) -> list[tuple[Site, str]]:
        """The class of an object as the first hop of traces: what is wrong with several parts of it is one finding."""
        cls = value.cls if isinstance(value, Instance) else None
        return [(Site(cls.module, cls.node), f"`{cls.name}` is defined here")] if isinstance(cls, Class) else []

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
