"""Doubtful twins of a case: the same program, rewritten so that what is claimed about it is no longer sure.

Variations must not matter, doubts must: what is reported in a twin is less sure than it was, or names one more thing
that it assumes. Where the doubt is total, because the code cannot run, has no effect, or trains nothing, only what is
``possible`` may be said, or nothing at all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dllint.testing.doubts import calls, choices, opaque, purposes, siblings, unused, versions
from dllint.testing.doubts.subject import Subject, Twin
from dllint.testing.linting import LintError, Setup

if TYPE_CHECKING:
    from dllint.testing.cases import Case

__all__ = ["DOUBTS", "NAMES", "doubt_faults", "twins_of"]

DOUBTS: dict[str, Callable[[Subject], Iterator[Twin]]] = {
    "choice": choices.behind_a_choice,
    "factory": choices.out_of_a_factory,
    "registry": choices.out_of_a_registry,
    "config": choices.from_a_config,
    "opaque": opaque.into_unknown_code,
    "extra-argument": calls.with_an_extra_argument,
    "unknown-keyword": calls.with_an_unknown_keyword,
    "missing-argument": calls.without_an_argument,
    "uncalled": calls.by_nobody,
    "uniterated": unused.without_iteration,
    "unused": unused.without_readers,
    "version": versions.pinned_to_another,
    "required": choices.by_a_required_setting,
    "sibling": siblings.right_under_a_compound_condition,
    "compound": siblings.made_under_a_compound_condition,
    "exclusive": siblings.made_under_an_exclusive_condition,
    "test": purposes.as_a_unit_test,
    "benchmark": purposes.as_a_benchmark,
    "probe": purposes.as_a_probe,
}
"""The doubts by name. ``# doubt: no-uncalled -- reason`` in a fixture leaves one out."""

NAMES = tuple(DOUBTS)


def doubt_faults(case: Case, names: Iterable[str], setup: Setup) -> Iterator[str]:
    """The doubtful twins of a case that are reported with more certainty than they may be, each with its code.

    A case that is wrong as it is written says so there, and nothing here.
    """
    subject = Subject(case, setup)
    try:
        is_found = bool(subject.claims)
    except LintError:
        return
    for name in names if is_found else ():
        for twin in twins_of(subject, name):
            yield from _faults(subject, name, twin)


def twins_of(subject: Subject, name: str) -> Iterator[Twin]:
    """The twins of a case that one doubt makes, if the fixture does not leave it out.

    Raises:
        AssertionError: a twin is at fault, because its code is broken.
    """
    if name in subject.case.undoubted:
        return
    for twin in DOUBTS[name](subject):
        for file, text in twin.files.items():
            try:
                ast.parse(text, file)
            except SyntaxError as error:
                raise AssertionError(f"the doubt {name!r} breaks the code: {error}\n{text}") from error
        yield twin


def _faults(subject: Subject, name: str, twin: Twin) -> Iterator[str]:
    try:
        marks = list(subject.faults(twin))
    except LintError as error:
        problems = [str(error)]
    else:
        what = "is still reported" if twin.total else "is as sure as without the doubt"
        problems = [f"# mark {mark} {what}" if mark else "a line without a mark is reported" for mark in marks]
    if problems:
        shown = [f"# {file}\n{_numbered(text)}" for file, text in twin.files.items()]
        yield "\n".join([f"with the doubt {name!r}:", *problems, "the doubtful code:", *shown])


def _numbered(text: str) -> str:
    """The lines of a text that are not blank, with their numbers."""
    return "\n".join(f"{number:4}  {line}" for number, line in enumerate(text.splitlines(), 1) if line.strip())
