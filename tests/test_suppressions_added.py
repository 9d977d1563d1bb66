"""Suppression comments that are added behind what was found, in files and in notebooks."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from suppressing import KNOWN, finding, left, source_of

from dllint.files.source import source_from_text
from dllint.fixes import apply_fixes
from dllint.syntax.comment_edits import with_suppression
from dllint.syntax.suppressions import Suppressions


class TestAdding:
    def add(self, text: str, *places: tuple[int, str], reason: str = "") -> str:
        source = source_of(text)
        found = with_suppression(source, [finding(source, *place) for place in places], KNOWN, reason)
        return apply_fixes(source, found, unsafe=False).text

    def test_it_stands_behind_the_statement_with_its_reason(self) -> None:
        assert self.add("x = f(\n    y,\n)\n", (2, "DL101"), reason="why not") == (
            "x = f(\n    y,\n)  # dllint: ignore[softmax-before-cross-entropy] -- why not\n"
        )

    def test_two_findings_share_a_comment(self) -> None:
        assert self.add("x = f(y)", (1, "DL101"), (1, "DL202"), (1, "DL101")) == (
            "x = f(y)  # dllint: ignore[softmax-before-cross-entropy, missing-zero-grad]"
        )

    def test_a_comment_that_is_there_is_made_longer(self) -> None:
        assert self.add("x = f(y)  # dllint: ignore[DL202] -- why  # type: ignore\n", (1, "DL101")) == (
            "x = f(y)  # dllint: ignore[DL202, softmax-before-cross-entropy] -- why  # type: ignore\n"
        )

    @pytest.mark.parametrize(
        "text",
        [
            's = """a\n# b\n"""\n',
            "x = 1 + \\\n    2\n",
            "for i in range(\n    3\n):\n    pass\n",
            "@dec\ndef f(\n    x,\n): return 1\n",
            "x = 1; y = 2  \t\r\nz = 3\r\n",
            "x = [\n    1,  # one\n]  # list",
        ],
    )
    def test_the_code_means_the_same_and_the_finding_is_gone(self, text: str) -> None:
        added = self.add(text, (1, "DL101"))
        assert ast.dump(ast.parse(added)) == ast.dump(ast.parse(text))
        assert left(added, 1) == []

    @pytest.mark.parametrize("text", ["def f(:\n", "\n\n", "# only a comment\n"])
    def test_what_stands_in_no_statement_cannot_be_suppressed(self, text: str) -> None:
        source = source_of(text)
        item = finding(source, 1)
        assert with_suppression(source, [item], KNOWN) == [item]


NOTEBOOK = """{"cells": [
 {"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [],
  "source": ["%matplotlib inline\\n", "x = 1  # dllint: ignore[DL101]\\n", "# dllint: ignore[DL202]"]},
 {"cell_type": "code", "execution_count": null, "metadata": {}, "outputs": [], "source": ["y = f(\\n", "    x)"]}
], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"""


def test_notebooks_are_suppressed_cleaned_and_added_to() -> None:
    source = source_from_text(NOTEBOOK, Path("a.ipynb"))
    assert source.notebook is not None
    line = source.notebook.module_line(2, 2)
    item = finding(source, line)
    assert (item.location.cell, item.location.line) == (2, 2)
    suppressions = Suppressions.parse(source, KNOWN)
    assert suppressions.apply([item]) == ([item], 0)
    unused = suppressions.unused(["DL101"])
    assert [(found.location.cell, found.location.line) for found in unused] == [(1, 2)]
    mended = apply_fixes(source, [*unused, *with_suppression(source, [item], KNOWN)], unsafe=False).source
    cells = json.loads(mended.file_text)["cells"]
    assert "".join(cells[0]["source"]) == "%matplotlib inline\nx = 1\n# dllint: ignore[DL202]"
    assert "".join(cells[1]["source"]) == "y = f(\n    x)  # dllint: ignore[softmax-before-cross-entropy]"
