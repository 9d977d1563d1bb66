"""Edits of calls: an argument, the name of what is called, or a call that is to give way to its argument.

A call is edited by the ranges of its parts, so everything else in it, comments included, stays as it was written.
Each function returns no edits at all where it cannot be sure to leave valid code that means what was asked for.
For whole statements see :mod:`dllint.syntax.statement_edits`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dllint.findings import Edit

if TYPE_CHECKING:
    from dllint.files.source import SourceFile

Edits = tuple[Edit, ...]

_TRIVIA = re.compile(r"(?:[ \t\f\r\n]|\\(?=[\r\n])|#[^\r\n]*)*")
_COMMA = re.compile(f"{_TRIVIA.pattern},{_TRIVIA.pattern}")
_DOT = re.compile(r"((?:\s*\))*)\s*\.")  # behind an object, after the brackets around it
_REST_OF_LINE = re.compile(r"[ \t]*,?[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n)")
_COMMENT_OR_STRING = re.compile(
    r"\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(#[^\r\n]*)", re.DOTALL
)
_OPENS_STATEMENT = re.compile(r"(?!(?:if|else|for|and|or|in|is|not|async)\b)[^\W\d]|\)")
_BINDS_TIGHTLY = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Set, ast.Dict),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def replace_call_argument(
    source: SourceFile, call: ast.Call, name: str, text: str, *, position: int | None = None
) -> Edits:
    """Set an argument of a call: replace the value it has, by keyword or by position, or add it as a keyword.

    Nothing is done to a call with ``*arguments`` or ``**keywords`` that may bring the argument themselves.
    """
    for keyword in call.keywords:
        if keyword.arg == name:
            return (Edit(*_range(source, keyword.value), text),)
    hidden = next((index for index, value in enumerate(call.args) if isinstance(value, ast.Starred)), len(call.args))
    if position is not None and position < hidden:
        return (Edit(*_range(source, call.args[position]), text),)
    if hidden < len(call.args) or any(keyword.arg is None for keyword in call.keywords):
        return ()
    return _added(source, call, f"{name}={text}")


def _added(source: SourceFile, call: ast.Call, argument: str) -> Edits:
    """An argument more: behind the last one, on a line of its own if that has one."""
    text = source.text
    opening, closing = _brackets(source, call)
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not values:
        return (Edit(closing, closing, argument),)
    if _is_bare_generator(source, call):
        return ()
    last = max((_range(source, value) for value in values), key=lambda span: span[1])
    end = _with_brackets(source, call, last)[1]
    has_comma = text[_skip(text, end)] == ","
    line = source.position(end)[0]
    line_start, line_end = _line_range(source, line)
    indent = _indentation(source, line)
    if not opening < line_start <= last[0] or line_end > closing:
        return (Edit(end, end, f", {argument}"),)
    if has_comma:
        return (Edit(line_end, line_end, f"\n{indent}{argument},"),)
    return (Edit(end, line_end, f",{text[end:line_end]}\n{indent}{argument}"),)


def rename_callee(source: SourceFile, tree: ast.Module, call: ast.Call, name: str) -> Edits:
    """Call something else of the same module or object: ``optim.Adam(...)`` becomes ``optim.AdamW(...)``.

    A name that comes from ``from torch.optim import Adam`` gets company there: ``import Adam, AdamW``. Where a name
    comes from elsewhere, nothing is done.
    """
    start, end = _range(source, call.func)
    if isinstance(call.func, ast.Attribute):
        return (Edit(end - len(call.func.attr), end, name),)
    if not isinstance(call.func, ast.Name):
        return ()
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    bound = [(node, alias) for node in imports for alias in node.names if (alias.asname or alias.name) == call.func.id]
    if len(bound) != 1 or bound[0][0] not in tree.body:
        return ()
    statement, alias = bound[0]
    rename = Edit(start, end, name)
    if any(other.name == name and other.asname is None for other in statement.names):
        return (rename,)
    behind = source.offset(alias.end_lineno or alias.lineno, alias.end_col_offset or alias.col_offset)
    return (Edit(behind, behind, f", {name}"), rename)


def remove_call_wrapper(source: SourceFile, call: ast.Call, argument: ast.expr) -> Edits:
    """Put one of its arguments in the place of a call: ``softmax(x, dim=1)`` becomes ``x``.

    Brackets are put around it where it needs them. Comments within the call stay.
    """
    if isinstance(argument, ast.Starred) or (
        isinstance(argument, ast.GeneratorExp) and _is_bare_generator(source, call)
    ):
        return ()
    text = source.text
    start, end = _range(source, call)
    opening, closing = _brackets(source, call)
    first, last = _with_brackets(source, call, _range(source, argument))
    inner = text[first:last]
    before, after = _comments(text[opening + 1 : first]), _comments(text[last:closing])
    if before or after:
        margin = "\n" + _indentation(source, source.position(first)[0])
        kept_before = "".join(f"  {comment}{margin}" for comment in before)
        kept_after = "".join(f"  {comment}{margin}" for comment in after)
        new = f"({kept_before}{inner}{kept_after})"
    elif (first, last) != _range(source, argument) or not _needs_brackets(source, argument, inner, start, end):
        new = inner
    else:
        new = f"({inner})"
    return (Edit(start, end, _set_apart(text, start, end, new)),)


def remove_method_call(source: SourceFile, call: ast.Call) -> Edits:
    """Put the object in the place of a call of its method: ``x.softmax(1)`` becomes ``x``."""
    assert isinstance(call.func, ast.Attribute)
    text = source.text
    end = _range(source, call)[1]
    behind = _range(source, call.func.value)[1]
    match = _DOT.match(text, behind)
    if match is None or _comments(text[match.end() : end]):
        return ()
    blank = " " if re.match(r"\w", text[end : end + 1]) else ""
    return (Edit(match.end(1), end, blank),)


def remove_last_item(source: SourceFile, items: Sequence[ast.expr | ast.keyword]) -> Edits:
    """Take out the last of several arguments of a call or items of a list, with the comment behind it on its line."""
    text = source.text
    before = _range(source, items[-2])[1]
    start, end = _range(source, items[-1])
    if not _COMMA.fullmatch(text, before, start):  # there are brackets
        return ()
    line = text.rfind("\n", 0, start) + 1
    rest = _REST_OF_LINE.match(text, end)
    if rest and line > before and not text[line:start].strip():
        return (Edit(line, rest.end(), ""),)
    return () if "#" in text[before:start] else (Edit(before, end, ""),)


def remove_keyword(source: SourceFile, call: ast.Call, name: str) -> Edits:
    """Take a keyword argument out of a call."""
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    items = sorted(given, key=lambda item: (item.lineno, item.col_offset))
    index = next((i for i, item in enumerate(items) if isinstance(item, ast.keyword) and item.arg == name), None)
    if index is None:
        return ()
    start, end = _range(source, items[index])
    if index + 1 < len(items):
        following = _range(source, items[index + 1])[0]
        return () if "#" in source.text[end:following] else (Edit(start, following, ""),)
    if index:
        return remove_last_item(source, items)
    return (Edit(start, end, ""),)


def _needs_brackets(source: SourceFile, argument: ast.expr, inner: str, start: int, end: int) -> bool:
    """Whether an expression means something else, or nothing, at a place without brackets around it."""
    text = source.text
    before = text[:start].rstrip(" \t\r\n")
    next_place = _skip(text, end)
    following = text[next_place : next_place + 1]
    if isinstance(argument, ast.NamedExpr):
        return True
    if (before[-1:] in ("(", ",", "[") and following in (",", ")", "]")) or (
        re.search(r"\w\s*=$", before[-80:]) and following in (",", ")")
    ):
        return False
    if "\n" in inner or "\r" in inner:
        return True
    if isinstance(argument, _BINDS_TIGHTLY):
        return False
    line = before.rpartition("\n")[2]
    is_first = re.fullmatch(r"\s*(?:return|[\w.\[\], ]*[\w\]]\s*=)", line) and "\n" not in text[len(before) : start]
    is_last = following in ("", ";") or ("\n" in text[end:next_place] and _OPENS_STATEMENT.match(text, next_place))
    return not (is_first and is_last)


def _set_apart(text: str, start: int, end: int, new: str) -> str:
    """``new`` with a blank where it would grow together with the word before or behind it."""
    before = " " if re.match(r"\w", text[start - 1 : start]) else ""
    after = " " if re.match(r"\w", text[end : end + 1]) and re.match(r"\w", new[-1]) else ""
    return f"{before}{new}{after}"


def _line_range(source: SourceFile, line: int) -> tuple[int, int]:
    start = source.line_starts[line - 1]
    return start, start + len(source.line_text(line))


def _indentation(source: SourceFile, line: int) -> str:
    content = source.line_text(line)
    return content[: len(content) - len(content.lstrip(" \t"))]


def _range(source: SourceFile, node: ast.expr | ast.keyword) -> tuple[int, int]:
    end = source.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return source.offset(node.lineno, node.col_offset), end


def _skip(text: str, position: int) -> int:
    """The next place that is neither blank nor comment."""
    match = _TRIVIA.match(text, position)
    return match.end() if match else position


def _brackets(source: SourceFile, call: ast.Call) -> tuple[int, int]:
    """Where the brackets of a call are."""
    opening = _skip(source.text, _range(source, call.func)[1])
    while source.text[opening] != "(":  # the closing ones around what is called
        opening = _skip(source.text, opening + 1)
    return opening, _range(source, call)[1] - 1


def _is_bare_generator(source: SourceFile, call: ast.Call) -> bool:
    """Whether a call is of the form ``f(x for x in y)``, where one pair of brackets does for two."""
    opening, _ = _brackets(source, call)
    return any(isinstance(value, ast.GeneratorExp) and _range(source, value)[0] == opening for value in call.args)


def _with_brackets(source: SourceFile, call: ast.Call, span: tuple[int, int]) -> tuple[int, int]:
    """The range of an argument with the brackets around it."""
    text = source.text
    opening, closing = _brackets(source, call)
    start, end = span
    count = 0
    while (position := _skip(text, end)) < closing and text[position] == ")":
        end = position + 1
        count += 1
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    ends = [stop for stop in (_range(source, value)[1] for value in values) if stop <= start]
    position = _skip(text, max([opening + 1, *ends]))
    found = []
    while position < start:
        if text[position] == "(":
            found.append(position)
        position = _skip(text, position + 1)
    return (found[-count] if count else start), end


def _comments(text: str) -> list[str]:
    return [match.group(1) for match in _COMMENT_OR_STRING.finditer(text) if match.group(1)]
