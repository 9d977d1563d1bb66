"""What is said about suppression comments: which are unused, which are invalid, and how they are removed."""

from __future__ import annotations

import pytest
from suppressing import cleaned, judged, left


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
