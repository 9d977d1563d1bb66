"""Which part of the data something is for, told by names and texts: training, or validation and test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from dllint.interp.run.graph import sources
from dllint.values import Const, Setting, Symbol, Value

TRAIN = "train"
EVAL = "eval"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TRAIN = r"train(?:ing|val)?|trn|tr"
_EVAL = r"vali?|valid|validation|validate|test(?:ing)?|tst|eval|evaluat(?:e|ion)|dev|infer|inference|predict|prediction"
_THING = r"s|sets?|(?:data)?loader|data|dataset|dl|ds|dir|root|path|folder|iter|split|transforms?|tf|tfms?|aug|"
_PART = re.compile(rf"(?:(?P<train>{_TRAIN})|(?:{_EVAL}))(?P<thing>{_THING})")
_AMBIGUOUS = frozenset(("tr", "tst"))  # short forms that count only with what they are of: ``tr_loader``, ``trset``


def part_of_text(text: str) -> str:
    """``train``, ``eval``, or nothing when a name or path speaks of neither or of both."""
    found = {part for part, _ in _parts(text)}
    return found.pop() if len(found) == 1 else ""


def part_of_texts(texts: Iterable[str]) -> str:
    """The part that all texts that speak of one agree on."""
    found = {part for text in texts if (part := part_of_text(text))}
    return found.pop() if len(found) == 1 else ""


def without_part(text: str) -> str:
    """A name with its word for the part of the data taken out: equal for ``train_set`` and ``test_set``."""
    matches = [(word.lower(), _PART.fullmatch(word.lower())) for word in _WORD.findall(text)]
    return "_".join(f"#{match['thing']}" if match else word for word, match in matches)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    words = _WORD.findall(text)
    for word in words:
        match = _PART.fullmatch(word.lower())
        if match and (match["thing"] or len(words) > 1 or word.lower() not in _AMBIGUOUS):
            yield TRAIN if match["train"] else EVAL, word


def texts_in(value: Value) -> Iterator[str]:
    """The names and constant texts that a value was put together from, such as the parts of a path."""
    for source in islice(sources(value), 24):
        if isinstance(source, Const):
            if isinstance(source.value, str):
                yield source.value
        elif isinstance(source, Setting):
            yield source.name
        elif isinstance(source, Symbol):
            if source.hint:
                yield source.hint
            if isinstance(source.detail, str) and source.name in ("attribute", "parameter", "item", "unknown"):
                yield source.detail
