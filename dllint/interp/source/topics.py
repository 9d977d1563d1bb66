"""What names speak of: the topics of ``dllint/knowledge/names.toml``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = Path(__file__).resolve().parents[2] / "knowledge" / "names.toml"

Topic = Literal[
    "training", "evaluation", "inference", "data", "phase", "checkpoint", "sampled-evaluation", "random-by-design",
    "training-only", "initialization", "sequence-length", "shape", "called-for-each-batch", "losses", "score",
    "growing-metric", "falling-metric", "test-set", "validation-set", "dense-target", "picture", "paired-target",
    "record", "test-time-augmentation", "benchmark", "resuming",
    "export", "progress", "number-of-steps", "averaged-model", "weight-average", "sampling",
    "drawn-for-training", "conditioning-dropout", "guidance", "partial-state", "frozen-model",
    "random-map", "loss-model", "adversary", "generator", "attack", "normalization", "padding", "ignored-label",
    "harmless-call", "reading", "logging", "learning-rate", "clearing-gradients", "freezing", "deferring",
    "accumulation", "not-finite", "warm-up", "optimizer", "adaptive-optimizer", "coupled-decay-optimizer", "rank",
    "moving", "options", "mode", "no-evaluation-mode", "coupled-decay",
    "l2-recipe", "sharing", "order-matters", "competition", "debugging", "to-do",
    "lasting", "across-samples", "all-pairs", "set-aside", "texts", "identities", "one-number", "environment",
    "fine-tuning", "sameness", "run-of-its-own", "beginning-again", "starting-weights",
]  # fmt: skip
"""What a name can be asked about."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

Entry = Mapping[str, "list[str] | str"]


class _Pattern:
    """The words of one topic, ready to be looked for in a name."""

    def __init__(self, entry: Entry, joined: Entry) -> None:
        endings = f"(?:{_any(joined.get('words', ()))})?" if joined else ""
        forms = [
            f"_(?:{_any(entry.get('words', ()))}){endings}_",
            f"_(?:{_any(entry.get('stems', ()))})",
        ]
        if joined:
            forms.append(f"_(?:{_any(entry.get('short', ()))})(?:{_any(joined.get('words', ()))})_")
        self.words = re.compile("|".join(forms))
        self.first = re.compile(f"_(?:{_any(entry.get('first', ()))})_")
        self.short = re.compile(f"_(?:{_any(entry.get('short', ()))})_")
        self.parts = re.compile(_any(entry.get("parts", ())))
        self.names = frozenset(name.lower() for name in entry.get("names", ()))

    def matches(self, name: str) -> bool:
        split = words_of(name)
        text = f"_{'_'.join(split)}_"
        if self.words.search(text) or (len(split) > 1 and self.short.search(text)):
            return True
        last = name.rpartition(".")[2]
        if last.lower() in self.names or self.first.match(f"_{'_'.join(words_of(last))}_"):
            return True
        return self.parts.search(name.lower()) is not None


def _any(words: Iterable[str]) -> str:
    """A pattern for one of some words; of none at all it never matches."""
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True))) or r"(?!)"


def words_of(name: str) -> list[str]:
    """The words that a name is made of, in lower case: ``evalLoader_2`` has three."""
    return [word.lower() for word in WORD.findall(name)]


@lru_cache(maxsize=1)
def topics() -> Mapping[str, Entry]:
    """The topics with their words, parsed once per process."""
    return tomllib.loads(NAMES.read_text("utf-8"))


@lru_cache(maxsize=64)
def _pattern(topic: Topic) -> _Pattern:
    entry = topics()[topic]
    joined = entry.get("joined")
    return _Pattern(entry, topics()[joined] if isinstance(joined, str) else {})


@lru_cache(maxsize=16384)
def speaks_of(topic: Topic, name: str) -> bool:
    """Whether a name (of a variable, function, class, option or file) speaks of a topic."""
    return _pattern(topic).matches(name)
