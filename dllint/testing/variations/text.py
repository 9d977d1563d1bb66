"""Variations of the text alone: as a notebook, with the line ends of Windows, with tabs."""

from __future__ import annotations

import io
import json
import tokenize
from collections.abc import Mapping, Sequence
from itertools import pairwise

from dllint.testing.variations.source import Code, code_of, first_line


def as_one_cell(files: Mapping[str, str]) -> dict[str, str] | None:
    """The main file as a notebook of one cell."""
    main, *others = files
    return {_notebook_name(main): notebook([files[main]]), **{name: files[name] for name in others}}


def as_cells(files: Mapping[str, str]) -> dict[str, str] | None:
    """The main file as a notebook with a cell for each block of statements between blank lines."""
    main, *others = files
    code = code_of(files[main])
    firsts = [first_line(statement) for statement in code.tree.body]
    starts = [_first_comment(code, line) for line in firsts[1:]]
    starts = [0, *(line - 1 for line in starts if not code.lines[line - 2].strip()), len(code.lines)]
    if len(starts) < 3:
        return None
    cells = ["\n".join(code.lines[start:end]).strip("\n") for start, end in pairwise(starts)]
    return {_notebook_name(main): notebook(cells), **{name: files[name] for name in others}}


def _first_comment(code: Code, line: int) -> int:
    """The first line of the comments that stand directly above a line, or the line itself."""
    while line > 1 and code.lines[line - 2].startswith("#"):
        line -= 1
    return line


def _notebook_name(file: str) -> str:
    return file.removesuffix(".py") + ".ipynb"


def notebook(cells: Sequence[str]) -> str:
    """A notebook with these code cells, as JSON."""
    content = {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": [],
                "source": cell.splitlines(keepends=True),
            }
            for cell in cells
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1)


def with_crlf(files: Mapping[str, str]) -> dict[str, str] | None:
    """Every line ends in a carriage return and a line feed."""
    return {name: text.replace("\n", "\r\n") for name, text in files.items()}


def with_tabs(files: Mapping[str, str]) -> dict[str, str] | None:
    """Indented by tabs instead of four spaces."""
    varied = {name: _tabbed(text) for name, text in files.items()}
    return varied if varied != dict(files) else None


def _tabbed(text: str) -> str:
    """The text with tabs, or as it is if it is not indented by four spaces throughout."""
    code = code_of(text)
    levels = [
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.INDENT
    ]
    if not levels or any(level.strip(" ") or len(level) % 4 for level in levels):
        return text
    lines = enumerate(code.lines, 1)
    return "\n".join(line if number in code.string_lines else _with_tabs(line) for number, line in lines)


def _with_tabs(line: str) -> str:
    bare = line.lstrip(" ")
    depth, rest = divmod(len(line) - len(bare), 4)
    return "\t" * depth + " " * rest + bare
