"""Suppression comments: what they cover, and that any text at all is read."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from suppressing import KNOWN, RULES, cleaned, finding, judged, left, source_of

from dllint.syntax.suppressions import Suppressions

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
