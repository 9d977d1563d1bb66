"""The words in a text, and the words of many files in a few bytes each."""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Set

WORD = re.compile(r"[^\W\d]\w*")


def words_of(text: str) -> frozenset[str]:
    """The words in a text; a word that is in many texts is held in memory once."""
    return frozenset(map(sys.intern, set(WORD.findall(text))))


class Vocabulary(dict[str, int]):
    """The words of some files, each with a number: a word that is new gets the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []  # by number

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.words)
        self.words.append(word)
        return number


class PackedWords(Set[str]):
    """A set of words as sorted numbers: four bytes for a word, where a set of strings takes about sixty."""

    __slots__ = ("_numbers", "_vocabulary")

    def __init__(self, words: Iterable[str], vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._numbers = array("I", sorted(map(vocabulary.__getitem__, words)))

    def __contains__(self, word: object) -> bool:
        number = self._vocabulary.get(word)  # type: ignore[call-overload]
        if number is None:
            return False
        place = bisect_left(self._numbers, number)
        return place < len(self._numbers) and self._numbers[place] == number

    def __iter__(self) -> Iterator[str]:
        words = self._vocabulary.words
        return (words[number] for number in self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    @classmethod
    def _from_iterable(cls, words: Iterable[str]) -> frozenset[str]:  # type: ignore[override]
        return frozenset(words)
