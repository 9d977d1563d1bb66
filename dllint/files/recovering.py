"""What is left of a file that Python cannot parse: broken statements are blanked, and all others keep their lines.

What a broken statement does is not known. So the functions that lost something are named as such, and outside of
functions each name that a broken statement binds is bound to a name that stands for nothing.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import field

from dllint.dataclass import dataclass

UNKNOWN = "__blanked__"  # a name that nothing binds

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_TRIES, _MAX_WORK = 40, 2_000_000  # how often a text is parsed, and how many characters in all
_DEF = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
_CLASS = re.compile(r"\s*class\s+(\w+)")
_HEADER = re.compile(r"\s*(if|elif|else|for|while|with|try|except|finally|match|case|async)\b")
_TARGET = re.compile(
    r"^\s*([\w.]+(?:\s*,\s*[\w.]+)*)\s*(?::[^=]*)?(?://|>>|<<|\*\*|[-+*/%@&|^])?=(?!=)"
    r"|\bfor\s+(\w+(?:\s*,\s*\w+)*)\s+in\b|\bas\s+(\w+)"
)
_PRINT = re.compile(r"([ \t]*print[ \t]*)[ \t]([^#\n]*[^#,\s])[ \t]*,?[ \t]*$")
_EXCEPT = re.compile(r"([ \t]*except[ \t]+[^:#]*?[\w)])[ \t]*,[ \t]*\w+[ \t]*:")
_WITHOUT_BODY = re.compile(r"expected an indented block after .* on line (\d+)")


@dataclass()
class Remains:
    """A tree of what can be parsed, and what lost something: functions, or the code outside of them."""

    tree: ast.Module
    functions: frozenset[ast.AST]
    is_incomplete: bool


@dataclass()
class _Lines:
    """The lines of a text, some of them blanked. Line numbers begin with 0 here."""

    lines: list[str]
    originals: list[str]
    broken: set[int] = field(default_factory=set)
    tries: Counter[int] = field(default_factory=Counter)

    def indent(self, at: int) -> int:
        return len(self.lines[at]) - len(self.lines[at].lstrip())

    def is_empty(self, at: int) -> bool:
        return not self.lines[at].split("#")[0].strip()

    def put(self, at: int, text: str) -> None:
        self.lines[at] = text
        self.broken.add(at)

    def body_of(self, at: int, *, beside: bool = False) -> Iterator[int]:
        """The lines behind one that are indented more, or (``beside``) at least as much."""
        level = self.indent(at)
        for line in range(at + 1, len(self.lines)):
            deeper = self.indent(line) > level or (beside and self.indent(line) == level)
            if not self.is_empty(line) and not deeper:
                return
            yield line


def remains_of(text: str) -> Remains | None:
    """The rest of a text that Python cannot parse, or ``None`` where what is wrong with it cannot be told apart."""
    originals = _in_python_3(text.split("\n"))
    conflicts = set(_conflicts(originals))
    lines = _Lines(["" if i in conflicts else line for i, line in enumerate(originals)], originals, conflicts)
    for _ in range(max(1, min(_TRIES, _MAX_WORK // (len(text) + 1)))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse("\n".join(lines.lines))
        except SyntaxError as error:
            if not _blank(lines, error):
                return None
        except (ValueError, RecursionError, MemoryError):
            return None
        else:
            return _judged(tree, lines)
    return None


# --------------------------------------------------------------------------------- what is not Python, and is known


def _in_python_3(lines: list[str]) -> list[str]:
    """Print statements and ``except A, b:`` of Python 2 in the syntax of Python 3, each part at its column."""
    return [_line_in_python_3(line) if "print" in line or "except" in line else line for line in lines]


def _line_in_python_3(line: str) -> str:
    found = _PRINT.fullmatch(line)
    if found and not _is_parsed(line.strip()):
        called = f"{found[1]}({found[2]})"
        return called if _is_parsed(called.strip()) else line
    caught = _EXCEPT.match(line)
    return caught[1].ljust(caught.end() - 1) + line[caught.end() - 1 :] if caught else line


def _is_parsed(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _conflicts(lines: list[str]) -> Iterator[int]:
    """The lines of merge conflicts that are left out: the marks, and what comes from the other side."""
    side = ""
    for index, line in enumerate(lines):
        mark = line[:7] if line[7:8] in ("", " ", "\r") else ""
        if mark == "<<<<<<<":
            side = "ours"
        elif side and mark in ("|||||||", "======="):
            side = "theirs"
        elif side and mark == ">>>>>>>":
            side = ""
        elif side != "theirs":
            continue
        yield index


# ----------------------------------------------------------------------------------------- what is not Python at all


def _blank(lines: _Lines, error: SyntaxError) -> bool:
    """Blank what keeps Python from going on; false if there is nothing left to blank.

    A quotation mark too few or too many makes text of code, and code of text: then nothing can be told apart.
    """
    if "triple-quoted" in error.msg:
        return False
    at = min((error.lineno or 1) - 1, len(lines.lines) - 1)
    header = _WITHOUT_BODY.match(error.msg)
    if header:
        at = int(header[1]) - 1
        lines.put(at, f"{lines.lines[at]} pass")
        return lines.tries.update([at]) is None and lines.tries[at] < 3
    if "expected 'except' or 'finally' block" in error.msg:
        at = next((i for i in range(at, -1, -1) if re.match(r"\s*try\s*:", lines.lines[i])), at)
    while lines.is_empty(at) and at > 0 and lines.tries[at]:
        at -= 1  # blanked in vain: what is wrong began further up
    lines.tries[at] += 1
    if lines.tries[at] > 2:
        return False
    if isinstance(error, IndentationError) or lines.tries[at] == 2:
        for line in (at, *lines.body_of(at, beside=isinstance(error, IndentationError))):
            lines.put(line, "")
        return True
    _blank_statement(lines, at)
    return True


def _blank_statement(lines: _Lines, at: int) -> None:
    """Put something harmless in the place of a statement, and nothing in that of all that is indented below it."""
    line = lines.lines[at]
    indent = line[: lines.indent(at)]
    function, cls = _DEF.match(line), _CLASS.match(line)
    if function or cls or _HEADER.match(line):
        for below in list(lines.body_of(at)):
            lines.put(below, "")
    if function:
        lines.put(at, f"{indent}def {function[1]}(*_, **__): pass")
    elif cls:
        lines.put(at, f"{indent}class {cls[1]}({UNKNOWN}): pass")
    else:
        lines.put(at, f"{indent}pass")


# ------------------------------------------------------------------------------------------------ what lost something


def _judged(tree: ast.Module, lines: _Lines) -> Remains:
    """Which functions lost something; outside of functions, what statements that did bind is not known."""
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTION)]
    ends = {node: _end(node, lines) for node in functions}
    found: set[ast.AST] = set()
    outside: set[int] = set()
    for line in (index + 1 for index in lines.broken):
        around = [node for node in functions if node.lineno <= line <= ends[node]]
        if around:
            found.add(max(around, key=lambda node: node.lineno))
        else:
            outside.add(line)
    if outside:
        _forget(tree.body, outside)
        for line in sorted(outside, reverse=True):
            _bind_lost(tree, line, lines.originals[line - 1])
    return Remains(tree, frozenset(found), bool(outside))


def _end(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: _Lines) -> int:
    """The last line of a function, with what was blanked at its end."""
    last = end = node.end_lineno or node.lineno
    while end < len(lines.lines) and lines.is_empty(end):
        original = lines.originals[end]
        end += 1
        if len(original) - len(original.lstrip()) > node.col_offset and original.strip():
            last = end
    return last


def _bind_lost(tree: ast.Module, line: int, original: str) -> None:
    """What a line that was blanked outside of functions has bound is not known from there on."""
    for found in _TARGET.finditer(original):
        code = f"{found[1] or found[2] or found[3]} = {UNKNOWN}"
        if _is_parsed(code):
            (statement,) = ast.parse(code).body
            for node in ast.walk(statement):
                if isinstance(node, ast.expr | ast.stmt):
                    node.lineno = node.end_lineno = line
                    node.col_offset = node.end_col_offset = 0
            place = next((i for i, other in enumerate(tree.body) if other.lineno > line), len(tree.body))
            tree.body.insert(place, statement)


def _forget(body: list[ast.stmt], broken: set[int]) -> None:
    """Replace statements that lost something by what they bind, bound to something that is not known."""
    kept: list[ast.stmt] = []
    for statement in body:
        is_broken = any(statement.lineno <= line <= (statement.end_lineno or 0) for line in broken)
        if isinstance(statement, ast.ClassDef):
            _forget(statement.body, broken)
        if not is_broken or isinstance(statement, _FUNCTION | ast.ClassDef):
            kept.append(statement)
            continue
        targets = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        ]
        unknown = ast.copy_location(ast.Name(UNKNOWN, ast.Load()), statement)
        bound: ast.stmt = ast.Assign(list[ast.expr](targets), unknown) if targets else ast.Pass()
        kept.append(ast.copy_location(bound, statement))
    body[:] = kept or [ast.copy_location(ast.Pass(), statement) for statement in body[:1]]
