"""Unified diffs that ``git apply`` and ``patch -p1`` take."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Literal

_CONTEXT = 3
_UNSAFE_IN_NAMES = re.compile(rb'[\x00-\x1f"\\\x7f]')


def diff(before: str, after: str, path: str) -> str:
    """The change from one text of a file to another, as a patch; empty if they are equal.

    Lines end at ``\\n``, as they do for git; a carriage return is part of the line.

    Args:
        path: the file, relative to where the patch will be applied, with forward slashes.
    """
    old, new = _lines(before), _lines(after)
    hunks = "".join(_hunk(old, new, group) for group in _groups(old, new))
    return f"--- {_name('a', path)}\n+++ {_name('b', path)}\n{hunks}" if hunks else ""


_Tag = Literal["replace", "delete", "insert", "equal"]
_Opcode = tuple[str, int, int, int, int]


class _Matcher(difflib.SequenceMatcher[str]):
    """Changes without lines that both texts have at their ends.

    In long texts difflib leaves out lines that are frequent. A hunk that ends in such a line as a change has no context
    after it, and ``patch`` looks for it at the end of the file.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new)
        self._texts = old, new

    def get_opcodes(self) -> list[tuple[_Tag, int, int, int, int]]:
        found: list[tuple[_Tag, int, int, int, int]] = []
        for tag, i, j, k, end in super().get_opcodes():
            old, new = self._texts[0][i:j], self._texts[1][k:end]
            head = _shared(old, new)
            tail = _shared(old[head:][::-1], new[head:][::-1])
            parts: list[tuple[_Tag, int, int, int, int]] = [("equal", i, i + head, k, k + head)]
            parts += [(tag, i + head, j - tail, k + head, end - tail), ("equal", j - tail, j, end - tail, end)]
            for part in parts:
                if part[0] == "equal" and found and found[-1][0] == "equal":
                    found[-1] = ("equal", found[-1][1], part[2], found[-1][3], part[4])
                elif part[1] < part[2] or part[3] < part[4]:
                    found.append(part)
        return found


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """With how many same lines two sequences begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (line, same) in pairs if line != same), min(len(one), len(other)))


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[Sequence[_Opcode]]:
    """The changes with the lines around them. What both texts begin and end with is not searched: it can be long."""
    shortest = min(len(old), len(new))
    head = next((index for index in range(shortest) if old[index] != new[index]), shortest)
    tail = next((index for index in range(shortest - head) if old[-1 - index] != new[-1 - index]), shortest - head)
    head, tail = max(head - _CONTEXT, 0), max(tail - _CONTEXT, 0)
    matcher = _Matcher(old[head : len(old) - tail], new[head : len(new) - tail])
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        yield [(tag, i + head, j + head, k + head, last + head) for tag, i, j, k, last in group]


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[_Opcode]) -> str:
    first, last = group[0], group[-1]
    parts = [f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"]
    for tag, i, j, k, end in group:
        if tag == "equal":
            parts += [_line(" ", line) for line in old[i:j]]
        else:
            parts += [_line("-", line) for line in old[i:j]]
            parts += [_line("+", line) for line in new[k:end]]
    return "".join(parts)


def _range(start: int, stop: int) -> str:
    """A range of lines as a patch gives it: the first one from 1 (of an empty range: the one above), and how many."""
    return f"{start + 1 if stop > start else start},{stop - start}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _name(side: str, path: str) -> str:
    """A file name as git writes it: quoted if it has special characters, with a tab behind it if it has blanks."""
    name = f"{side}/{path.lstrip('/')}"
    raw = os.fsencode(name)
    if _UNSAFE_IN_NAMES.search(raw) or _is_undecodable(name):
        return '"' + "".join(_quoted(byte) for byte in raw) + '"'
    return f"{name}\t" if " " in name else name


def _is_undecodable(name: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in name)


def _quoted(byte: int) -> str:
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"
