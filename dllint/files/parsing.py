"""Parsing of modules, also of those in the syntax of a later Python than the one that runs dllint.

The linter is installed once, under some Python, and checks projects that are written for others. What later versions
have added is either of no meaning to it (type parameters, ``type X = ...``: PEP 695 and 696) or a string (f-strings
whose expressions use the same quotes: PEP 701). So where Python's own parser refuses a text that libcst's accepts,
these parts are blanked, character by character, so that every other part stays at its place.
"""

from __future__ import annotations

import ast
import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst

# What later versions have added begins with one of these. All other errors are errors in every version.
_LATER = re.compile(r"^\s*type\s+\w|\b(?:def|class)\s+\w+\s*\[|\b(?:[fFtT][rR]?|[rR][fFtT])['\"]", re.MULTILINE)
_PIECE = re.compile(
    r"(?P<start>^(?:def|class|import|from|async|if|for|type)\b|^@)|\n|[()\[\]{}]|[^\w\s()\[\]{}]+"
    r"|\b(?:not|lambda|await|if|else|and|or|yield)\b",
    re.MULTILINE,
)
# Brackets, signs in a statement, and branches in a file: libcst's parser has no bounds of its own, and would crash.
_DEEPEST, _LONGEST, _BRANCHES = 100, 2000, 1000


def parse_module(text: str) -> ast.Module:
    """The syntax tree of a module. Positions are those in ``text``.

    Raises:
        SyntaxError: it is no Python, of whatever version; the error is that of the Python that runs.
        ValueError: it has a NUL, or half of a surrogate pair.
        RecursionError, MemoryError: it is nested too deeply for Python's own parser.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in the user's strings are not our subject
        try:
            return ast.parse(text)
        except SyntaxError:
            older = _in_older_syntax(text)
            if older is not None:
                with suppress(SyntaxError):
                    return ast.parse(older)
            raise  # the error that speaks of the text as it is written


def _in_older_syntax(text: str) -> str | None:
    """The same text without the parts that only later versions of Python can parse, if there are any."""
    if not _LATER.search(text) or not _is_bounded(text):
        return None
    import libcst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        wrapper = MetadataWrapper(libcst.parse_module(text), unsafe_skip_copy=True)
        spans = wrapper.resolve(ByteSpanPositionProvider)
    except (libcst.ParserSyntaxError, RecursionError, KeyError):  # a key error is its recursion, in the metadata
        return None
    blanked = bytearray(text.encode())
    found = False
    for node in _later_parts(wrapper.module):
        place = spans[node]
        start, end = place.start, place.start + place.length
        part = bytes(blanked[start:end])
        new = _blanked(node, part)
        if new is not None and new != part:
            blanked[start:end] = new
            found = True
    return blanked.decode() if found else None


def _is_bounded(text: str) -> bool:
    """Whether no statement is nested deeply or very long. Brackets in strings count, up to the next definition."""
    if text.count("elif") > _BRANCHES:
        return False
    depth = signs = 0
    for piece in _PIECE.finditer(text):
        found = piece.group()
        if piece["start"] or (found == "\n" and depth <= 0):
            depth = signs = 0
        elif found in "([{":
            depth += 1
        elif found in ")]}":
            depth -= 1
        elif found != "\n":
            signs += 1 if found.isalpha() else len(found)
        if depth > _DEEPEST or signs > _LONGEST:
            return False
    return True


def _later_parts(module: libcst.Module) -> list[libcst.CSTNode]:
    """Type parameters, the names behind ``type``, and strings with expressions in them, outermost first."""
    import libcst

    found: list[libcst.CSTNode] = []
    remaining: list[libcst.CSTNode] = [module]
    while remaining:
        node = remaining.pop()
        if isinstance(node, libcst.TypeAlias | libcst.TypeParameters):
            found.append(node)
        elif isinstance(node, libcst.FormattedString | libcst.TemplatedString):
            found.append(node)
            continue
        remaining.extend(node.children)
    return found


def _blanked(node: libcst.CSTNode, part: bytes) -> bytes | None:
    """A part as older versions of Python can parse it, of the same length; ``None`` where that is not possible."""
    import libcst

    if isinstance(node, libcst.TypeAlias):
        name = node.name.value.encode()
        head = len(b"type") + len(node.whitespace_after_type.value.encode())
        return name + b" " * head + part[head + len(name) :]
    if isinstance(node, libcst.TypeParameters):
        return _spaces(part)
    assert isinstance(node, libcst.FormattedString | libcst.TemplatedString)
    if _is_parsed(part):
        return part
    quotes = node.end.encode()
    inner = _spaces(part[len(quotes) : len(part) - len(quotes)], continued=len(quotes) == 1)
    return None if inner is None else quotes + inner + quotes


def _spaces(part: bytes, *, continued: bool = True) -> bytes | None:
    """As many spaces, with the line ends kept. Where lines have to be ``continued``, they end in a backslash."""
    lines = [b" " * len(line.rstrip(b"\r\n")) + line[len(line.rstrip(b"\r\n")) :] for line in part.splitlines(True)]
    if not continued:
        return b"".join(lines)
    for index, line in enumerate(lines):
        end = line.lstrip(b" ")
        if not end:
            continue
        if line == end:
            return None  # there is no character to put the backslash at
        lines[index] = line[: len(line) - len(end) - 1] + b"\\" + end
    return b"".join(lines)


def _is_parsed(expression: bytes) -> bool:
    try:
        ast.parse(b"(" + expression + b")")
    except SyntaxError:
        return False
    return True
