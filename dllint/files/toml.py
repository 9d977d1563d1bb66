"""Reading TOML, and finding the line on which each key is set, which Python's parser does not tell."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dllint.files.source import SourceError, read_bytes

KeyLines = Mapping[tuple[str, ...], int]

_TOKEN = re.compile(
    r'''
    (?P<text>"""(?:\\.|[^\\])*?"{3,5}(?!") | \'\'\'.*?\'{3,5}(?!\') | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<end>\n)
    | (?P<mark>[\[\]{}=])
    | (?P<bare>[A-Za-z0-9_-]+)
    | .
    ''',
    re.VERBOSE | re.DOTALL,
)


def parse(text: str) -> dict[str, Any]:
    """The contents of a TOML text. Raises ValueError if it is not valid."""
    if sys.version_info >= (3, 11):  # imported here, as many a project has no TOML to read
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text.replace("\r\n", "\n"))


def has_table(path: Path, *names: str) -> bool:
    """Whether a file can be read as TOML and has a table. Most do not have its last name in them, and are not parsed.

    Args:
        path: the file, which need not exist.
        names: the path of the table.
    """
    try:
        text = read_bytes(path).decode("utf-8")
        found: Any = parse(text) if names[-1] in text else None
    except (SourceError, ValueError):
        return False
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return isinstance(found, dict)


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Map the path of each table and key, such as ``("tool", "dllint", "select")``, to its line from 1.

    The text must be valid. That is why a scanner that only tells strings, comments, brackets and line ends apart is
    enough.
    """
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    parts: list[str] = []
    header = in_value = False
    depth = 0
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup, token.group()
        if kind == "end" and depth == 0:
            if header:
                table = tuple(parts)
            parts, header, in_value = [], False, False
        elif kind == "mark" and in_value:
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(word, 0)
        elif kind == "mark" and word == "[":
            header = True
        elif kind == "mark" and word in "]=":
            path = tuple(parts) if header else (*table, *parts)
            lines.setdefault(path, text.count("\n", 0, token.start()) + 1)
            in_value = word == "="
        elif kind in ("bare", "text") and not in_value:
            parts.append(word if kind == "bare" else word[1:-1])
    return lines


def line_of(lines: KeyLines, path: tuple[str, ...]) -> int | None:
    """The line of a key, or of the nearest table around it (a key of an inline table has no line of its own)."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None
