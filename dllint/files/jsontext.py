"""Where things are in a JSON text.

To change a notebook without rewriting it, one has to know which characters of the file a value occupies. The text
has been through :func:`json.loads` before it comes here, so it is known to be valid, and nothing is checked again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Span = tuple[int, int]

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")
_TO_NEXT_BRACKET = re.compile(r'[^"\[\]{}]*')


def start_of_value(text: str) -> int:
    """Where the outermost value begins."""
    return _skip_space(text, 0)


def members(text: str, start: int) -> dict[str, Span]:
    """The spans of an object's values by key. Of equal keys the last one counts, as it does for ``json``."""
    found: dict[str, Span] = {}
    position = _skip_space(text, start + 1)
    while text[position] != "}":
        key_end = _end_of_value(text, position)
        key = json.loads(text[position:key_end])
        value = _skip_space(text, _skip_space(text, key_end) + 1)  # over the colon
        end = _end_of_value(text, value)
        found[key] = (value, end)
        position = _next_item(text, end)
    return found


def elements(text: str, start: int) -> Iterator[Span]:
    """The spans of an array's values."""
    position = _skip_space(text, start + 1)
    while text[position] != "]":
        end = _end_of_value(text, position)
        yield position, end
        position = _next_item(text, end)


def _next_item(text: str, end: int) -> int:
    """From the end of a value to the next one, or to the closing bracket."""
    position = _skip_space(text, end)
    return _skip_space(text, position + 1) if text[position] == "," else position


def _end_of_value(text: str, start: int) -> int:
    if text[start] == '"':
        return _end(_STRING, text, start)
    if text[start] not in "[{":
        return _end(_SCALAR, text, start)
    depth = 0
    position = start
    while True:
        if text[position] == '"':
            position = _end(_STRING, text, position)
        else:
            depth += 1 if text[position] in "[{" else -1
            position += 1
            if depth == 0:
                return position
        position = _end(_TO_NEXT_BRACKET, text, position)


def _skip_space(text: str, position: int) -> int:
    return _end(_SPACE, text, position)


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    assert match is not None, "the text is not valid JSON"
    return match.end()
