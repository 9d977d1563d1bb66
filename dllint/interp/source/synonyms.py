"""Words of a user's facts that stand for words which dllint knows, so that triggers can be met by either.

A rule about ``cross_entropy`` can also fire in a file that only has the loss of the project that is declared to be like
it. It is enough to know of what kind a name is: what a rule is asked in vain costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

_SAME_KIND = {"loss-class": "loss"}
_SPELLINGS = ("aliases", "prefixes")


def synonyms(
    user: Mapping[str, Any], tables: Iterable[Mapping[str, Any]], canonical: Callable[[str], str]
) -> dict[str, frozenset[str]]:
    """For each word of a user's facts the words that it stands for: those of its alias, or all of the same kind."""
    known: dict[str, set[str]] = {}
    for table in tables:
        for kind, name in _kinds(table):
            known.setdefault(kind, set()).add(last_word(name))
    found: dict[str, set[str]] = {}
    for kind, name in _kinds(user):
        found.setdefault(last_word(name), set()).update(known.get(kind, ()))
    for alias, target in user.get("aliases", {}).items():
        stands_for = found.setdefault(last_word(alias), set())
        for name in (target, canonical(target)):
            stands_for |= {last_word(name)} | found.get(last_word(name), set())
    return {word: frozenset(words - {word}) for word, words in found.items()}


def last_word(name: str) -> str:
    """The word of a dotted name that stands in code, however the object was imported."""
    return name.rpartition(".")[2].removesuffix("()")


def declared_names(user: Mapping[str, Any]) -> Iterator[str]:
    """The dotted names in a user's facts."""
    names = [*user.get("aliases", {}), *(name.removesuffix("()") for _, name in _kinds(user))]
    return (name for name in names if "." in name)


def _kinds(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The names in a table of facts, each with what makes it like others: its table, or the list in it."""
    for kind, entries in table.items():
        for key, value in entries.items() if kind not in _SPELLINGS else ():
            if isinstance(value, list):
                yield from ((f"{kind}.{key}", name) for name in value if isinstance(name, str))
            else:
                yield _SAME_KIND.get(kind, kind), key
