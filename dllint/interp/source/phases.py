"""What something is for, as names tell it: training, evaluation or inference; and what a test asks about."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from dllint.interp.source import topics
from dllint.interp.source.trees import walk
from dllint.sites import GuardTopic

PhaseName = Literal["training", "evaluation", "inference", "unknown"]

_PHASES: tuple[Literal["training", "evaluation", "inference"], ...] = ("training", "evaluation", "inference")


def phases_in(name: str) -> list[PhaseName]:
    """The phases that a name speaks of."""
    return [phase for phase in _PHASES if topics.speaks_of(phase, name)]


def phase_of(name: str) -> PhaseName:
    """What a function, loop or object is for by its name; unknown where that speaks of nothing, or of training too."""
    found = phases_in(name)
    return "unknown" if not found or (found[0] == "training" and len(found) > 1) else found[0]


def without_phase(name: str) -> str:
    """A name with its word for a phase taken out: equal for ``train_set`` and ``test_set``."""
    return "_".join(_without_phase(word) for word in topics.WORD.findall(name))


def _without_phase(word: str) -> str:
    phase = next(iter(phases_in(f"{word}_")), None)
    if phase is None:
        return word
    entry = topics.topics()[phase]
    stem = max((each for each in (*entry["words"], *entry.get("short", ())) if word.lower().startswith(each)), key=len)
    return f"#{word.lower().removeprefix(stem)}"


@lru_cache(maxsize=8192)
def topic_of(test: ast.expr) -> GuardTopic:
    """What a test asks about, as far as its names tell."""
    if any(isinstance(node, ast.Attribute) and node.attr == "training" for node in walk(test)):
        return "mode"
    names = list(_names_in(test))
    if any(topics.speaks_of("resuming", name) or topics.speaks_of("checkpoint", name) for name in names):
        return "resume"
    if any(phases_in(name) or topics.speaks_of("phase", name) for name in names):
        return "phase"
    constants = (node for node in walk(test) if isinstance(node, ast.Constant))
    return "none" if any(node.value is None for node in constants) else ""


def _names_in(test: ast.expr) -> Iterator[str]:
    """The names in a test, and the texts that something is compared with."""
    for node in walk(test):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
