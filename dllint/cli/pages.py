"""The pages of rules, and of what only a run can show: their facts, and their text in Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from dllint.confirm.rules import Judged, judged
from dllint.dataclass import dataclass
from dllint.tiers import records

if TYPE_CHECKING:
    from dllint.rule import Rule

_FIXES = {"": "none", "safe": "safe", "unsafe": "unsafe (changes the numbers of a run)", "suggestion": "suggestion"}
_SPEAKS = "where no finding asks, reported as "


@dataclass(frozen=True, slots=True)
class Page:
    """What is known of one code.

    Attributes:
        code: such as ``DL101``; what is about no finding has a name instead.
        name: such as ``softmax-before-cross-entropy``.
        facts: what stands above the text, by name.
        text: what it finds, what that does to training and what to do, in Markdown.
        is_static: whether a rule finds it in code.
        is_default: whether it is reported unless somebody says otherwise.
        record: all of it for other programs.
    """

    code: str
    name: str
    facts: Sequence[tuple[str, str]]
    text: str
    is_static: bool
    is_default: bool
    record: dict[str, Any] = field(repr=False)

    @property
    def title(self) -> str:
        """The name, and the code where that is another word."""
        return self.name if self.name == self.code else f"{self.name} ({self.code})"

    @property
    def summary(self) -> str:
        """The first sentence, without its full stop."""
        return _summary(self.text)


def pages(rules: Sequence[type[Rule]]) -> list[Page]:
    """The pages of rules, and after them those of what a run alone can show."""
    codes = {rule.code for rule in rules}
    return [*map(_of_rule, rules), *(_of_judged(known) for code, known in judged().items() if code not in codes)]


def _of_rule(rule: type[Rule]) -> Page:
    text = inspect.cleandoc(rule.__doc__ or "")
    known = judged().get(rule.code)
    facts = [
        ("category", f"{rule.category}, reported as {rule.severity}"),
        ("default", _default_of(rule)),
        ("fix", _FIXES[rule.fix_safety]),
        ("since", rule.since),
        ("record", _record_of(rule.code)),
    ]
    if rule.confirmable:
        facts.append(("confirm", "`dllint confirm` can settle a finding by running the script"))
    facts += [("see", reference) for reference in rule.references]
    record = {
        "code": rule.code,
        "name": rule.name,
        "summary": _summary(text),
        "category": rule.category,
        "severity": rule.severity,
        "default": rule.default,
        "preview": rule.preview,
        "fix": rule.fix_safety or None,
        "since": rule.since,
        "static": True,
        "confirmable": rule.confirmable,
        "references": list(rule.references),
        "explanation": text,
    }
    full = f"{text}\n\n{_observed(known)}" if known is not None else text
    return Page(rule.code, rule.name, facts, full, True, rule.default, record | _numbers(known))


def _default_of(rule: type[Rule]) -> str:
    """Whether a rule runs if nothing is selected."""
    if rule.preview:
        return "off, too much of what it found was false or noise; `--extend-select PREVIEW` runs it"
    return "on" if rule.default else "off, has to be selected"


def _record_of(code: str) -> str:
    """How often a rule was right where it was called certain, or would have been."""
    counts = records().get(code)
    if counts is None:
        return "none of its findings was read in code that was new to it, or all of them assumed something"
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"{sum(counts.values())} findings that assume nothing were read in code that was new to it: {told}"


def _of_judged(known: Judged) -> Page:
    facts = [("found by", "`dllint confirm`, which runs the script; no rule finds it in code")]
    facts += [("confirm", _SPEAKS + known.speaks)] if known.speaks else []
    text = f"{known.about}.\n\n{known.effect}\n\n## What to do\n{known.help}\n\n{_observed(known)}"
    record = {
        "code": known.code,
        "name": known.name,
        "summary": known.about,
        "default": True,
        "fix": None,
        "static": False,
        "confirmable": True,
        "explanation": text,
    }
    return Page(known.code, known.name, facts, text, False, True, record | _numbers(known))


def _observed(known: Judged) -> str:
    """The section on what a run shows."""
    unreached = f"\n\nNot reached: {known.unreached}." if known.unreached else ""
    return f"## In a run\nLooked at: {known.looks}.\n\nConfirmed: {known.confirmed}.{unreached}"


def _numbers(known: Judged | None) -> dict[str, Any]:
    if known is None:
        return {"confirm": None}
    return {"confirm": {"looks": known.looks, "confirmed": known.confirmed, "speaks": known.speaks or None}}


def _summary(text: str) -> str:
    return text.partition("\n\n")[0].replace("\n", " ").rstrip(".")
