"""Suppression comments: what they cover, what is unused or invalid, how they are removed and added."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllint.files.source import SourceFile, source_from_text
from dllint.findings import Edit, Finding
from dllint.fixes import apply_fixes
from dllint.syntax.comment_edits import with_suppression
from dllint.syntax.suppressions import Suppressions

RULES = {
    "DL101": "softmax-before-cross-entropy",
    "DL202": "missing-zero-grad",
    "DL004": "unused-suppression",
    "DL005": "invalid-suppression",
}
KNOWN = {**{code: code for code in RULES}, **{name: code for code, name in RULES.items()}}


def source_of(text: str) -> SourceFile:
    return SourceFile(Path("/p/train.py"), "train.py", text)


def finding(source: SourceFile, line: int, code: str = "DL101", column: int = 0) -> Finding:
    place = source.location(line, column, line, column + 1)
    return Finding(code, RULES[code], "wrong", place, "error", "correctness")


def left(text: str, *places: tuple[int, str] | int, require_reason: bool = False) -> list[tuple[int, str]]:
    """The findings, as (line, code), that the comments of ``text`` leave; a bare line stands for a DL101 on it."""
    source = source_of(text)
    found = [finding(source, *((place, "DL101") if isinstance(place, int) else place)) for place in places]
    kept, count = Suppressions.parse(source, KNOWN, require_reason=require_reason).apply(found)
    assert len(kept) + count == len(found)
    return [(item.location.line, item.code) for item in kept]


def judged(
    text: str, *lines: int, ran: tuple[str, ...] = tuple(RULES), blanket: bool = False, require_reason: bool = False
) -> list[Finding]:
    """What is said about the comments of ``text`` when DL101 was found on ``lines``."""
    source = source_of(text)
    suppressions = Suppressions.parse(source, KNOWN, require_reason=require_reason)
    suppressions.apply([finding(source, line) for line in lines])
    return [*suppressions.invalid(), *suppressions.unused(ran, blanket=blanket)]


def edited(text: str, edits: list[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def cleaned(text: str, *lines: int) -> str:
    """``text`` after the fixes of what is unused in it."""
    return edited(text, [fix.edits[0] for item in judged(text, *lines) for fix in item.fixes])


MULTI_LINE = """\
loss = criterion(
    a,
    b,{inside}
){behind}
after = 1
"""


@pytest.mark.parametrize("where", ["inside", "behind"])
def test_a_comment_covers_all_lines_of_its_statement_and_no_other(where: str) -> None:
    comments = {"inside": "", "behind": "", where: "  # dllint: ignore[DL101]"}
    assert left(MULTI_LINE.format(**comments), 1, 2, 3, 4, 5) == [(5, "DL101")]


def test_a_comment_on_its_own_line_covers_the_next_statement() -> None:
    text = "# dllint: ignore[softmax-before-cross-entropy] -- known\n\nx = f(\n    y\n)\nz = 1\n"
    assert left(text, 3, 4, 6) == [(6, "DL101")]


def test_own_line_comments_add_up() -> None:
    text = "# dllint: ignore[DL101]\n# dllint: ignore[DL202]\nx = f(y)\n"
    assert left(text, 3, (3, "DL202")) == []


def test_a_comment_in_brackets_covers_the_statement_around_it() -> None:
    assert left("f(\n    # dllint: ignore[DL101]\n    a,\n)\nb\n", 1, 3, 5) == [(5, "DL101")]


def test_a_comment_on_a_compound_statement_covers_its_header_only() -> None:
    text = "for x in f(\n    y\n):  # dllint: ignore[DL101]\n    g(x)\n"
    assert left(text, 1, 2, 4) == [(4, "DL101")]


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_comment_anywhere_in_a_signature_covers_decorators_and_signature(line: int) -> None:
    lines = ["@first", "@second(1)", "def f(x,", "      y):", "    return g(x)"]
    lines[line - 1] += "  # dllint: ignore[DL101]"
    assert left("\n".join(lines), 1, 2, 3, 4, 5) == [(5, "DL101")]


def test_only_what_is_named_is_suppressed() -> None:
    assert left("x = f(y)  # dllint: ignore[DL202]\n", 1, (1, "DL202")) == [(1, "DL101")]


def test_a_bare_ignore_suppresses_every_rule() -> None:
    assert left("x = f(y)  # dllint: ignore\n", 1, (1, "DL202")) == []


def test_file_ignore_holds_anywhere() -> None:
    assert left("x = 1\n\ny = 2\n# dllint: file-ignore[DL101] -- generated", 1, 3, (3, "DL202")) == [(3, "DL202")]


def test_disable_and_enable_make_a_block() -> None:
    text = "a\n# dllint: disable[DL101]\nb\nc\n# dllint: enable[DL101]\nd\n"
    assert left(text, 1, 3, 4, 6) == [(1, "DL101"), (6, "DL101")]


def test_a_disable_ends_with_its_block() -> None:
    text = "def f():\n    # dllint: disable[DL101]\n    a\n    if b:\n        c\n\nd\n"
    assert left(text, 3, 5, 7) == [(7, "DL101")]


def test_enable_ends_only_what_it_names() -> None:
    text = "# dllint: disable[DL101, DL202]\na\n# dllint: enable[DL202]\nb\n"
    assert left(text, 2, (2, "DL202"), 4, (4, "DL202")) == [(4, "DL202")]


def test_disable_may_be_used_again_after_enable() -> None:
    text = "# dllint: disable\na\n# dllint: enable\nb\n# dllint: disable\nc\n"
    assert left(text, 2, 4, 6) == [(4, "DL101")]


@pytest.mark.parametrize("comment", ["# noqa: DL101", "#NOQA:DL101", "# noqa: E501, DL101", "# noqa: DL101 E501"])
def test_noqa_is_read(comment: str) -> None:
    assert left(f"x = f(y)  {comment}\n", 1, (1, "DL202")) == [(1, "DL202")]


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: E501", "# noqa: DL1012"])
def test_noqa_of_other_tools_is_left_alone(comment: str) -> None:
    assert left(f"x = f(y)  {comment}\n", 1) == [(1, "DL101")]
    assert judged(f"x = f(y)  {comment}\n") == []


def test_other_comments_may_stand_beside_it() -> None:
    assert left("x = f(y)  # type: ignore  # dllint: ignore[DL101] -- see #12  # pragma: no cover\n", 1) == []


@pytest.mark.parametrize(
    "text",
    [
        'x = "# dllint: ignore[DL101]"\n',
        '"""\n# dllint: file-ignore[DL101]\n"""\nx = 1\n',
        "x = 1  # see dllint: ignore[DL101]\n",
        "x = 1  # dllint: ignore DL101\n",
        "x = 1  # dllint: ignore[]\n",
        "x = 1  # dllint: disable=DL101\n",
        "x = 1  # dllint: ignored[DL101]\n",
        "x = 1\n# dllint: ignore[DL101]\n",
    ],
)
def test_these_suppress_nothing(text: str) -> None:
    lines = range(1, len(text.splitlines()) + 1)
    assert left(text, *lines) == [(line, "DL101") for line in lines]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_make_no_difference(newline: str) -> None:
    text = newline.join(["a = 1", "b = f(", "    c)  # dllint: ignore[DL101]", "d = 2", ""])
    assert left(text, 1, 2, 4) == [(1, "DL101"), (4, "DL101")]


def test_a_form_feed_does_not_end_a_line() -> None:
    assert left("a = 1\n\x0cb = 2  # dllint: ignore[DL101]\nc = 3\n", 1, 2, 3) == [(1, "DL101"), (3, "DL101")]


def test_comments_of_a_file_that_python_cannot_read_are_read_by_line() -> None:
    text = "def f(:\n  '''\nx = (  # dllint: ignore[DL101]\n# dllint: file-ignore[DL202]\n"
    assert left(text, 1, 3, (1, "DL202")) == [(1, "DL101")]
    assert judged(text) == []


class TestUnused:
    def test_it_is_reported_where_the_comment_is(self) -> None:
        (item,) = judged("x = 1\ny = 2  # dllint: ignore[DL101]\n")
        assert (item.code, item.location.line, item.location.column) == ("DL004", 2, 8)
        assert item.location.end_column == 31
        assert "DL101" in item.message and item.fixes[0].safety == "safe"

    def test_what_was_used_is_not_reported(self) -> None:
        assert judged("x = f(y)  # dllint: ignore[DL101]\n", 1) == []

    def test_nothing_is_said_of_rules_that_did_not_run(self) -> None:
        assert judged("x = 1  # dllint: ignore[DL101]\n", ran=("DL202",)) == []

    def test_a_bare_comment_is_judged_only_when_all_rules_ran(self) -> None:
        assert judged("x = 1  # dllint: ignore\n") == []
        assert [item.code for item in judged("x = 1  # dllint: ignore\n", blanket=True)] == ["DL004"]
        assert judged("x = f(y)  # dllint: ignore\n", 1, blanket=True) == []

    def test_an_enable_without_disable_is_unused(self) -> None:
        assert [item.code for item in judged("# dllint: enable[DL101]\n")] == ["DL004"]

    def test_it_can_be_suppressed_itself(self) -> None:
        assert judged("# dllint: file-ignore[unused-suppression]\nx = 1  # dllint: ignore[DL101]\n") == []

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("x = 1  # dllint: ignore[DL101]\n", "x = 1\n"),
            ("x = 1  # dllint: ignore[DL101] -- it is #3 of them  \n", "x = 1\n"),
            ("x = 1\t# dllint: ignore[DL101]", "x = 1"),
            ("    # dllint: ignore[DL101]\r\nx = 1\r\n", "x = 1\r\n"),
            ("x = 1\n# dllint: file-ignore[DL101]", "x = 1\n"),
            ("x = 1  # dllint: ignore[DL101, DL202]\n", "x = 1\n"),
            ("x = 1  # noqa: DL101\n", "x = 1\n"),
            ("x = 1  # noqa: DL101 -- no good\n", "x = 1\n"),
            ("x = 1  # noqa: E501,DL101\n", "x = 1  # noqa: E501\n"),
            ("x = 1  # noqa: DL101, E501, DL202,W291\n", "x = 1  # noqa: E501,W291\n"),
            ("x = 1  # noqa: DL101 the shape is right\n", "x = 1  # the shape is right\n"),
            ("x = 1  # noqa: DL101 # type: ignore\n", "x = 1  # type: ignore\n"),
            ("x = 1  # dllint: ignore[DL101] -- why  # type: ignore\n", "x = 1  # type: ignore\n"),
            ("x = 1  # type: ignore  # dllint: ignore[DL101]\n", "x = 1  # type: ignore\n"),
            ("x = 1  # a  # dllint: ignore[DL101]  # b\n", "x = 1  # a  # b\n"),
            ("x = 1  # a  # noqa: DL101 and so on\n", "x = 1  # a  # and so on\n"),
            ("f(\n    # dllint: ignore[DL101]\n    1,\n)\n", "f(\n    1,\n)\n"),
        ],
    )
    def test_removal_takes_the_comment_and_nothing_else(self, before: str, after: str) -> None:
        assert cleaned(before) == after

    def test_removal_keeps_the_words_that_are_used(self) -> None:
        text = "x = f(y)  # dllint: ignore[DL202, DL101] -- reason\n"
        assert cleaned(text, 1) == "x = f(y)  # dllint: ignore[DL101] -- reason\n"

    def test_removing_both_halves_of_a_block_takes_two_rounds(self) -> None:
        once = cleaned("# dllint: disable[DL101]\nx = 1\n# dllint: enable[DL101]\n")
        assert once == "x = 1\n# dllint: enable[DL101]\n"
        assert cleaned(once) == "x = 1\n"

    def test_a_block_within_a_block_is_unused(self) -> None:
        text = "# dllint: disable[DL101]\n# dllint: file-ignore[DL202]\nx\n# dllint: disable[DL101]\ny\n"
        assert [item.location.line for item in judged(text, 3, 5, ran=("DL101",))] == [4]

    def test_a_bare_block_is_used_again_after_an_enable(self) -> None:
        text = "# dllint: disable\nx\n# dllint: enable[DL101]\ny\n# dllint: disable\nz\n"
        assert left(text, 2, 4, 6, (4, "DL202")) == [(4, "DL101")]
        assert judged(text, 2, 4, 6, blanket=True) == []


class TestInvalid:
    @pytest.mark.parametrize(
        ("comment", "message", "help"),
        [
            ("# dllint: ignore[DL1O1]", "unknown rule `DL1O1`", "did you mean `DL101`?"),
            ("# dllint: ignore[softmax-before-crossentropy]", "unknown rule", "softmax-before-cross-entropy"),
            ("# noqa: DL999, E501", "unknown rule `DL999`", ""),
            ("# dllint: ignore[ ]", "names no rule", ""),
            ("# dllint: ignore DL101", "names no rule in brackets", "ignore[rule]"),
            ("# dllint: disable=DL101", "names no rule in brackets", "disable[rule]"),
            ("# dllint: skip-file", "unknown suppression comment `skip-file`", "file-ignore"),
        ],
    )
    def test_a_comment_that_makes_no_sense(self, comment: str, message: str, help: str) -> None:
        (item,) = judged(f"x = 1  {comment}\n", ran=())
        assert (item.code, item.severity) == ("DL005", "error")
        assert message in item.message and help in item.help

    @pytest.mark.parametrize(
        ("comment", "fault"),
        [
            ("# dllint: ignore[DL101] -- the targets are soft", ""),
            ("# dllint: ignore[DL101]", "suppression without a reason"),
            ("# dllint: ignore[DL101] --", "suppression without a reason"),
            ("# noqa: DL101", "suppression without a reason"),
            ("# dllint: ignore -- all of it", "suppression of every rule"),
        ],
    )
    def test_a_reason_is_missed_only_when_required(self, comment: str, fault: str) -> None:
        assert judged(f"x = f(y)  {comment}\n", 1) == []
        assert [item.message for item in judged(f"x = f(y)  {comment}\n", 1, require_reason=True)] == [fault] * bool(
            fault
        )


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


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "#",
                " dllint: ",
                "ignore",
                "file-ignore",
                "disable",
                "enable",
                "[",
                "]",
                "DL101",
                "DL202",
                "DL9",
                ",",
                " -- ",
                "noqa:",
                "\n",
                "\r",
                "\\",
                "'''",
                '"',
                "(",
                ")",
                "x = 1",
                "    ",
                "@d",
                "def f():",
                "\x0c",
                "\x00",
                "\ud800",
                "é",
                ":",
                "E501",
                " ",
            ]
        ),
        max_size=40,
    ).map("".join)
)
def test_no_text_makes_the_parser_fail(text: str) -> None:
    source = source_of(text)
    suppressions = Suppressions.parse(source, KNOWN, require_reason=True)
    findings = [finding(source, line, "DL101") for line in range(1, len(source.line_starts) + 1)]
    kept, count = suppressions.apply(findings)
    assert len(kept) + count == len(findings)
    if "ignore" not in text and "disable" not in text and "noqa" not in text:
        assert kept == findings
    for item in (*suppressions.unused(RULES, blanket=True), *suppressions.invalid()):
        for fix in item.fixes:
            assert 0 <= fix.edits[0].start <= fix.edits[0].end <= len(text)


SPACES = st.sampled_from(["", " ", "  "])
STATEMENTS = st.sampled_from(
    ["x = 1", "f(\n    1,\n)", "if x:\n    pass", '"""\ntext\n"""', "class A:\n    @d\n    def f(self): ..."]
)


@given(
    st.lists(
        st.tuples(STATEMENTS, st.booleans(), st.sets(st.sampled_from(["DL101", "DL202"]), min_size=1)), max_size=6
    ),
    SPACES,
    st.sampled_from(["", " -- a reason", "  # type: ignore", " -- reason # pragma: no cover"]),
)
def test_generated_comments_are_understood_and_can_be_removed(
    parts: list[tuple[str, bool, set[str]]], space: str, tail: str
) -> None:
    """Each comment suppresses what it names on the statement below it, and there alone; without findings it goes."""
    lines: list[str] = []
    expected: set[tuple[int, str]] = set()
    places: list[tuple[int, str]] = []
    for statement, suppressed, codes in parts:
        if suppressed:
            lines.append(f"#{space}dllint:{space}ignore[{f',{space}'.join(sorted(codes))}]{tail}")
        line = len(lines) + 1
        for code in ("DL101", "DL202"):
            places.append((line, code))
            if not (suppressed and code in codes):
                expected.add((line, code))
        lines += statement.split("\n")
    text = "\n".join(lines)
    assert set(left(text, *places)) == expected
    bare = cleaned(text)
    assert "dllint" not in bare
    assert ast.dump(ast.parse(bare)) == ast.dump(ast.parse(text))
    assert ("type: ignore" in bare) == ("type: ignore" in text)


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
