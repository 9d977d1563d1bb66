"""The page of a rule, as an editor shows it."""

from __future__ import annotations

import inspect

from dllint.config.settings import Settings
from dllint.files.source import SourceFile
from dllint.registry import list_rules, load_rules
from dllint.rule import Rule
from dllint.syntax.comment_edits import offset_of
from dllint.syntax.directives import may_suppress, read_directives
from dllint.syntax.statements import read_layout


def rules_by_code(settings: Settings) -> dict[str, type[Rule]]:
    """The rules of a project."""
    return {rule.code: rule for rule in load_rules(settings.rule_paths, settings.plugins)}


def known_rules(settings: Settings) -> dict[str, str]:
    """The code of each rule of a project, by its name and by its code."""
    rules = list_rules(settings.rule_paths, settings.plugins)
    return {key: rule.code for rule in rules for key in (rule.code, rule.name)}


def page(rule: type[Rule]) -> str:
    """What a rule finds, what that does to training and what to do about it, in Markdown."""
    return f"# {rule.name} ({rule.code})\n\n{inspect.cleandoc(rule.__doc__ or '')}\n"


def rule_at(source: SourceFile, offset: int, settings: Settings) -> tuple[str, int, int] | None:
    """The code of the rule that a suppression comment names at an offset, and where the name begins and ends."""
    known = known_rules(settings)
    if not may_suppress(source.text, known):
        return None
    for directive in read_directives(read_layout(source), known, require_reason=False):
        base = offset_of(source, directive.comment)
        for mention in directive.mentions:
            start, end = base + mention.start, base + mention.end
            if mention.code is not None and start <= offset <= end:
                return mention.code, start, end
    return None
