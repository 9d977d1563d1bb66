"""IPython's extensions to Python, taken out of a notebook cell so that Python can read the rest.

Every line keeps its number, and every line that is Python already keeps its text. A line magic, a shell command or
a request for help becomes ``pass`` at the same indentation, ``x = !ls`` becomes ``x = get_ipython()`` (something
unknown, as it is in truth), and a cell in another language becomes blank lines.

A leading word is taken for an automagic (``pip install x``) only in a cell that cannot be parsed otherwise, and only
on a line that is not Python by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.dataclass import dataclass
from dllint.files.source import SyntaxProblem, syntax_problem

SEPARATOR = "# %%\n"
INDENTED = f"{SEPARATOR}if True:\n"
"""Stands before a cell whose first line is indented, which IPython allows."""

_PYTHON_CELL_MAGICS = (
    "capture debug heat ipytest lprun memit mprun notify prun px pyinstrument scalene snakeviz time timeit wandb"
)
"""Cell magics that run their body as Python in the notebook's own namespace."""

_AUTOMAGICS = (
    "alias autoreload bookmark cat cd clear colors conda config cp dirs echo env hist history kill_embedded less load "
    "load_ext ls lf ll lx ldir macro mamba man matplotlib mkdir more mv notebook page pdb pdef pdoc pfile pinfo pinfo2 "
    "pip popd prun psearch psource pushd pwd pycat pylab recall reload_ext rerun reset rm rmdir run save sc set_env "
    "store sx system tb time timeit unalias unload_ext uv who whos xmode"
)

_LINES = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+$")
_CELL_MAGIC = re.compile(r"%%(\w*)")
_MAGIC = re.compile(r"[ \t]*(?:[%!?]|[,;/][^\W\d])")
_ASSIGNED_MAGIC = re.compile(r"([ \t]*[^\W\d][^=!%#'\"]*=[ \t]*)[%!]")
_HELP = re.compile(r"[^#'\"?]*[\w\])*]\?\??[ \t]*$")
_AUTOMAGIC = re.compile(rf"[ \t]*(?:{'|'.join(_AUTOMAGICS.split())})(?![\w.(\[=])")
_TOKEN = re.compile(r"""#|\"\"\"|'''|["'()\[\]{}]""")
_CLOSING = {quote: re.compile(rf"\\.|{quote}") for quote in ('"""', "'''", '"', "'")}


@dataclass(frozen=True, slots=True)
class CellCode:
    """A cell as Python.

    ``lines`` are as many as the cell has, with their ends; ``kept`` says which stand as they are in the notebook.
    ``header`` is what has to stand before them. ``problem`` is why the cell is no Python, if it is not;
    then all lines are blank.
    """

    lines: list[str]
    kept: list[bool]
    header: str = SEPARATOR
    problem: SyntaxProblem | None = None


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends, split where Python's tokenizer does; always at least one."""
    return _LINES.findall(text) or [""]


def python_of(cell: str) -> CellCode:
    """A code cell as Python with as many lines."""
    original = split_lines(cell)
    lines = list(original)
    if not _without_cell_magics(lines):
        return _cell(original, _blanked(original))
    first_problem = None
    for rewrite in (_unchanged, _without_line_magics, _without_automagics):
        lines = rewrite(lines)
        for header in (SEPARATOR, INDENTED) if _starts_indented(lines) else (SEPARATOR,):
            problem = syntax_problem(_joined(header, lines))
            if problem is None:
                return _cell(original, lines, header)
            if rewrite is _without_line_magics:
                first_problem = first_problem or SyntaxProblem(
                    problem.message, min(max(problem.line - header.count("\n"), 1), len(lines)), problem.column
                )
    return _cell(original, _blanked(original), problem=first_problem)


def _cell(
    original: list[str], lines: list[str], header: str = SEPARATOR, problem: SyntaxProblem | None = None
) -> CellCode:
    for index in range(len(lines) - 1, 0, -1):
        if lines[index][:1] in ("", "\n") and lines[index - 1].endswith("\r"):
            lines[index - 1] = lines[index - 1][:-1] + "\n"  # a line that is blank now would make one end of two
    kept = [line == old for line, old in zip(lines, original, strict=True)]
    return CellCode(lines, kept, header, problem)


def _joined(header: str, lines: list[str]) -> str:
    body = "".join(lines)
    return header + body if body.endswith(("\n", "\r")) else f"{header}{body}\n"


def _without_cell_magics(lines: list[str]) -> bool:
    """Blank the cell magics (in place) of a cell whose body is Python. False if its body is something else."""
    for index, line in enumerate(lines):
        magic = _CELL_MAGIC.match(line)
        if magic is None and line.strip():
            return True
        if magic is not None:
            if magic.group(1) not in _PYTHON_CELL_MAGICS.split():
                return False
            lines[index] = _end_of_line(line)
    return True


def _unchanged(lines: list[str]) -> list[str]:
    return lines


def _without_line_magics(lines: list[str]) -> list[str]:
    result = list(lines)
    for index in _statement_starts(lines):
        content = lines[index].rstrip("\r\n")
        assigned = _ASSIGNED_MAGIC.match(content)
        if assigned is not None:
            _replace(result, index, f"{assigned.group(1)}get_ipython()")
        elif _MAGIC.match(content) or _HELP.match(content):
            _replace(result, index, f"{_indentation(content)}pass")
    return result


def _without_automagics(lines: list[str]) -> list[str]:
    result = list(lines)
    for index in _statement_starts(lines):
        content = lines[index].rstrip("\r\n")
        if _AUTOMAGIC.match(content) and syntax_problem(content.lstrip(" \t")) is not None:
            _replace(result, index, f"{_indentation(content)}pass")
    return result


def _replace(lines: list[str], index: int, content: str) -> None:
    """Put ``content`` in place of a line and of those that a backslash joins to it."""
    joined = index
    while lines[joined].rstrip("\r\n").endswith("\\") and joined + 1 < len(lines):
        joined += 1
    for position in range(index, joined + 1):
        lines[position] = _end_of_line(lines[position])
    lines[index] = content + lines[index]


def _statement_starts(lines: list[str]) -> Iterator[int]:
    """The indices of lines on which a statement can begin: not within brackets, a string or a continued line.

    What looks like a magic is not read as Python: an apostrophe in ``!echo it's`` opens no string.
    """
    depth, quote, continued, foreign = 0, "", False, False
    for index, line in enumerate(lines):
        content = line.rstrip("\r\n")
        if not (depth or quote or continued):
            yield index
            foreign = any(pattern.match(content) for pattern in (_MAGIC, _ASSIGNED_MAGIC, _HELP))
        if foreign:
            continued = content.endswith("\\")
        else:
            depth, quote, continued = _scan(content, depth, quote)


def _scan(content: str, depth: int, quote: str) -> tuple[int, str, bool]:
    """Follow brackets and strings through one line: bracket depth, open quote, whether a backslash continues it."""
    position = 0
    while (token := (_CLOSING[quote] if quote else _TOKEN).search(content, position)) is not None:
        position = token.end()
        text = token.group()
        if quote:
            quote = "" if text == quote else quote  # else an escaped character
        elif text[0] == "#":
            return depth, "", False
        elif text[0] in "\"'":
            quote = text
        else:
            depth = depth + 1 if text in "([{" else max(depth - 1, 0)
    continued = content.endswith("\\")
    if len(quote) == 1 and not continued:
        quote = ""  # a string that is never closed: the cell is broken, but the next line starts afresh
    return depth, quote, continued


def _starts_indented(lines: list[str]) -> bool:
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            return line[0] in " \t"
    return False


def _blanked(lines: list[str]) -> list[str]:
    return [_end_of_line(line) for line in lines]


def _end_of_line(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _indentation(content: str) -> str:
    return content[: len(content) - len(content.lstrip(" \t"))]
