"""Patterns for paths, with the meaning they have in ``.gitignore``.

``*`` and ``?`` stay within a folder, ``**`` crosses folders, ``[...]`` is one of some characters, a backslash takes the
next character literally. A pattern with a slash before its end is relative to the root, any other holds at every
level; one that ends in a slash means folders only. What matches a folder matches everything in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CLASS = re.compile(r"\[([!^]?)(\]?(?:\\.|[^\]\\])+|\])\]")
_ANY_DEPTH = ".+"
_CLASS_ITEM = re.compile(r"\\?(.)-\\?([^\]])|\\?(.)")


class Globs:
    """A set of patterns.

    Raises:
        ValueError: a pattern can match nothing: it is empty or has an empty part, or brackets that are not closed or
            hold a range that is none (``[z-a]``).
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        expressions = [_expression(pattern) for pattern in patterns]
        self._match = re.compile("|".join(expressions), re.DOTALL).fullmatch if expressions else None

    def matches(self, path: str) -> bool:
        """Whether a path, relative to the root and with forward slashes, or a folder above it, matches a pattern.

        A folder is given with a slash at its end.
        """
        return self._match is not None and self._match(path) is not None


def _expression(pattern: str) -> str:
    segments = pattern.removeprefix("/").removesuffix("/").split("/")
    if "" in segments:
        raise ValueError(f"{pattern!r} is not a valid pattern: it is empty or has an empty part")
    if "/" not in pattern.removesuffix("/"):
        segments.insert(0, "**")
    try:
        *folders, last = [_segment(segment) for segment in segments]
        re.compile(last + "".join(folders))
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
    last = ".*" if last == _ANY_DEPTH else last
    before = "".join("(?:.+/)?" if folder == _ANY_DEPTH else f"{folder}/" for folder in folders)
    return f"(?:{before}{last}{'/.*' if pattern.endswith('/') else '(?:/.*)?'})"


def _segment(text: str) -> str:
    """One name between slashes."""
    if text == "**":
        return _ANY_DEPTH
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "*":
            parts.append("[^/]*")
        elif character == "?":
            parts.append("[^/]")
        elif character == "[":
            match = _CLASS.match(text, position - 1)
            if match is None:
                raise re.error("brackets that are not closed")
            negated, characters = match.groups()
            parts.append(f"(?!/)[{'^' if negated else ''}{_CLASS_ITEM.sub(_class_item, characters)}]")
            position = match.end()
        else:
            if character == "\\" and position < len(text):
                character = text[position]
                position += 1
            parts.append(re.escape(character))
    return "".join(parts) if text.strip("*") else "[^/]+"


def _class_item(match: re.Match[str]) -> str:
    first, last, single = match.groups()
    return re.escape(single) if single else f"{re.escape(first)}-{re.escape(last)}"
