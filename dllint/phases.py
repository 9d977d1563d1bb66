"""What something is for, as names tell it: training, evaluation or inference; and what a test asks about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

PhaseName = Literal["training", "evaluation", "inference", "unknown"]
Topic = Literal["mode", "phase", "resume", "period", "none", ""]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TRAINING = r"train(?:ing|er|val)?|trn|tr"
_EVALUATION = r"vali?|valid|validation|validate|test(?:ing)?|tst|eval|evaluat(?:e|ion|or|ing)|dev"
_INFERENCE = r"infer|inference|predict|prediction"
_THING = r"s|sets?|(?:data)?loader|data|dataset|dl|ds|dir|root|path|folder|iter|split|transforms?|tf|tfms?|aug|"
_PHASE = re.compile(
    rf"(?:(?P<training>{_TRAINING})|(?P<evaluation>{_EVALUATION})|(?P<inference>{_INFERENCE}))(?P<thing>{_THING})"
)
_AMBIGUOUS = frozenset(("tr", "tst"))  # short forms that count only with what they are of: ``tr_loader``, ``trset``

# Of these words a test speaks that keeps code for one phase apart, though they name none themselves.
_OF_PHASE = frozenset(
    ("phase", "stage", "backward", "update", "learn", "learning", "deterministic", "optim", "optimizer", "optimiser",
     "optimize", "optimise", "optimizers", "opt")
)  # fmt: skip
_OF_RESUMING = frozenset(
    ("resume", "resuming", "resumed", "restart", "continue", "checkpoint", "checkpoints", "ckpt", "restore", "restored",
     "reload", "pretrained", "snapshot")
)  # fmt: skip


def words_of(name: str) -> tuple[str, ...]:
    """The words that a name is made of, as they are written: ``val_loader``, ``valLoader``, ``runs/val2``."""
    return tuple(_WORD.findall(name))


@lru_cache(maxsize=4096)
def phases_in(name: str) -> tuple[tuple[PhaseName, str], ...]:
    """The phases that the words of a name speak of, each with what the word says it is of (``set``, ``loader``)."""
    words = words_of(name)
    matches = [(word.lower(), _PHASE.fullmatch(word.lower())) for word in words]
    return tuple(
        ("training" if match["training"] else "evaluation" if match["evaluation"] else "inference", match["thing"])
        for word, match in matches
        if match and (match["thing"] or len(words) > 1 or word.lower() not in _AMBIGUOUS)
    )


def phase_of(name: str) -> PhaseName:
    """What a function, loop or object is for by its name; unknown where that speaks of nothing, or of training too."""
    found = {phase for phase, _ in phases_in(name)}
    if "training" in found:
        return "training" if len(found) == 1 else "unknown"
    return "evaluation" if "evaluation" in found else "inference" if found else "unknown"


def without_phase(name: str) -> str:
    """A name with its word for a phase taken out: equal for ``train_set`` and ``test_set``."""
    matches = [(word, _PHASE.fullmatch(word.lower())) for word in words_of(name)]
    return "_".join(f"#{match['thing']}" if match else word for word, match in matches)


def topic_of_test(test: ast.expr | None) -> Topic:
    """What a test asks about, as far as its names tell."""
    if test is None:
        return ""
    if any(isinstance(node, ast.Attribute) and node.attr == "training" for node in ast.walk(test)):
        return "mode"
    names = list(_names_in(test))
    words = {word.lower() for name in names for word in words_of(name)}
    if not words.isdisjoint(_OF_RESUMING):
        return "resume"
    if any(phases_in(name) for name in names) or not words.isdisjoint(_OF_PHASE):
        return "phase"
    constants = (node for node in ast.walk(test) if isinstance(node, ast.Constant))
    return "none" if any(node.value is None for node in constants) else ""


def _names_in(test: ast.expr) -> Iterator[str]:
    """The names in a test, and the texts that something is compared with."""
    for node in ast.walk(test):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
