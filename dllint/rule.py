"""The base class of every rule: its metadata, and the hooks the engine calls.

Rule files import it through :mod:`dllint.api`. The class says what the rule is called and when it can fire;
the module docstring of the rule's file is its page (``dllint rule CODE`` prints it).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from dllint import SITE

if TYPE_CHECKING:
    from dllint.findings import Category, Safety, Severity

CODE = re.compile(r"[A-Z]{2,8}\d{2,4}")  # dllint's own begin with DL; those of plug-ins with what they like
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

RETIRED: dict[str, str] = {
    "not-analysed": "the name is not-analyzed",
    "unnormalised-gradient-accumulation": "the name is unnormalized-gradient-accumulation",
}
"""Codes and names that were used once and must not be given to another rule, with what replaced them."""

Triggers = tuple[tuple[str, ...], ...]
Excuse = Callable[..., bool]


class Rule:
    """One rule. A fresh instance is made for every program analyzed, so a rule may keep notes on ``self``.

    A rule listens to events by defining ``on_<event>`` for an event class of :mod:`dllint.events` in snake case
    (``on_loss_call`` for ``LossCall``), and looks at a whole program by defining ``on_program``. Each hook
    takes ``(self, event, ctx)`` and yields findings made with ``ctx.finding``.

    ``triggers`` is a conjunction of alternatives over identifiers: ``(("cross_entropy", "CrossEntropyLoss"),
    ("softmax", "Softmax"))`` means "one of the first two and one of the second two". The rule is not run on a
    program (a file and the project files it imports) whose identifiers do not satisfy it, so it must be sound: no
    finding may be possible without these words.

    ``of_files`` says that the rule looks at files as a whole: at the program that a module is when it is run, and not
    at definitions that are interpreted by themselves. None is interpreted for its sake.

    ``preview`` marks a rule that is off because too much of what it reported in code that was new to it was false or
    noise (``bench/truth.py`` says of which that is so); ``PREVIEW`` selects all of them.

    ``excuses`` are the clauses of *Not reported*: functions of the rule's file that get a claim and the context, and
    say whether it is not to be made after all. The first line of the docstring of each tells a user why.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    category: ClassVar[Category]
    severity: ClassVar[Severity] = "error"
    default: ClassVar[bool] = True
    preview: ClassVar[bool] = False
    since: ClassVar[str] = "0.1.0"
    triggers: ClassVar[Triggers] = ()
    of_files: ClassVar[bool] = False
    confirmable: ClassVar[bool] = False
    fix_safety: ClassVar[Safety | Literal[""]] = ""  # empty for a rule that offers no fix
    references: ClassVar[tuple[str, ...]] = ()
    excuses: ClassVar[tuple[Excuse, ...]] = ()


def address_of(code: str) -> str:
    """The address of the page of a rule; empty where the documentation has none."""
    return f"{SITE}rules/{code}/" if SITE else ""


def is_triggered(triggers: Triggers, words: frozenset[str]) -> bool:
    """Whether a program that contains ``words`` can make a rule with these triggers fire."""
    return all(not words.isdisjoint(alternatives) for alternatives in triggers)
