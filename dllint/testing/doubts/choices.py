"""Doubts about a value: it is one of several, and which one, or what the others are, is not known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from dllint.testing.doubts.decisive import Value, decisive
from dllint.testing.doubts.rewriting import Draft, assigned_name, scope_of, stands_alone, statement_of
from dllint.testing.doubts.subject import Subject, Twin

_MAX_CLAIMS = 2


def behind_a_choice(subject: Subject) -> Iterator[Twin]:
    """``x = bad if decide() else other_value()``."""
    return _twins(subject, _choice)


def out_of_a_factory(subject: Subject) -> Iterator[Twin]:
    """``x = made_value(decide())``, a function whose other arm does not resolve."""
    return _twins(subject, _factory)


def out_of_a_registry(subject: Subject) -> Iterator[Twin]:
    """``x = {"first": bad, "second": other_value()}[decide()]``."""
    return _twins(subject, _registry)


def from_a_config(subject: Subject) -> Iterator[Twin]:
    """``x = load_settings("settings.yaml").get("value", bad)``, where neither the file nor the function is there."""
    return _twins(subject, _config)


def by_a_required_setting(subject: Subject) -> Iterator[Twin]:
    """``x = bad if args.which == "first" else other_value()``, where ``--which`` has to be given."""
    return _twins(subject, _required)


def _twins(subject: Subject, write: Callable[[Draft, Value], bool]) -> Iterator[Twin]:
    for claim in subject.reported[:_MAX_CLAIMS]:
        for value in decisive(subject, claim):
            draft = Draft(subject.code(value.file))
            text = draft.text() if write(draft, value) else None
            if text is not None:
                yield Twin({**subject.files, value.file: text}, frozenset((claim.mark,)))


def _choice(draft: Draft, value: Value) -> bool:
    decide, other = draft.unknown("decide"), draft.unknown("other_value")
    draft.replace(value.node, f"({draft.code.segment(value.node)} if {decide}() else {other}())")
    return True


def _factory(draft: Draft, value: Value) -> bool:
    code = draft.code
    statement = statement_of(code, value.node)
    is_class = isinstance(scope_of(code, statement), ast.ClassDef)
    if is_class or not assigned_name(statement) or value.node is not getattr(statement, "value", None):
        return False
    if not stands_alone(code, statement):
        return False
    decide, other, factory = draft.unknown("decide"), draft.unknown("other_value"), code.fresh("made_value")
    lines = [f"def {factory}(kind):", '    if kind == "first":', f"        return {code.segment(value.node)}"]
    draft.above(statement, *lines, f"    return {other}(kind)")
    draft.replace(value.node, f"{factory}({decide}())")
    return True


def _registry(draft: Draft, value: Value) -> bool:
    decide, other = draft.unknown("decide"), draft.unknown("other_value")
    draft.replace(value.node, f'{{"first": {draft.code.segment(value.node)}, "second": {other}()}}[{decide}()]')
    return True


def _config(draft: Draft, value: Value) -> bool:
    load = draft.unknown("load_settings")
    draft.replace(value.node, f'{load}("settings.yaml").get("value", {draft.code.segment(value.node)})')
    return True


def _required(draft: Draft, value: Value) -> bool:
    args, other = draft.arguments('"--which", required=True'), draft.unknown("other_value")
    draft.replace(value.node, f'({draft.code.segment(value.node)} if {args}.which == "first" else {other}())')
    return True
