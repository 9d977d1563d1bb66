"""Applying fixes: what overlaps, what breaks, what never ends; writing files back."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest
from fixing import HERE, finding, fix, replacing
from hypothesis import given
from hypothesis import strategies as st
from notebooks import BOOK, book

from dllint.files.atomic import write_atomic
from dllint.files.source import SourceError, SourceFile, read_source, source_from_bytes, source_from_text
from dllint.findings import Edit, Finding, Fix
from dllint.fixes import FixOutcome, apply_fixes, fix_source, write_source


def once(text: str, *fixes: Fix, unsafe: bool = False) -> tuple[str, int, int]:
    """The text after one round of fixes, and how many were applied and skipped."""
    source = source_from_text(text, HERE)
    step = apply_fixes(source, [finding(source, 0, each) for each in fixes], unsafe=unsafe)
    return step.text, len(step.applied), len(step.skipped)


def test_edits_are_applied_by_position() -> None:
    assert once("a b c", fix(Edit(4, 5, "C")), fix(Edit(0, 1, "A"))) == ("A b C", 2, 0)
    assert once("a b c", fix(Edit(4, 5, "C"), Edit(0, 1, "A"))) == ("A b C", 1, 0)


def test_only_allowed_fixes_are_applied() -> None:
    safe, unsafe, suggestion = (fix(Edit(0, 1, s), safety=s) for s in ("safe", "unsafe", "suggestion"))  # type: ignore[arg-type]
    for allowed, fixes, expected in [
        (False, (unsafe, safe), "safe"),
        (False, (unsafe,), "a"),
        (False, (suggestion,), "a"),
        (True, (suggestion, unsafe, safe), "unsafe"),
        (True, (suggestion,), "a"),
        (True, (fix(),), "a"),
    ]:
        source = source_from_text("a", HERE)
        step = apply_fixes(source, [finding(source, 0, *fixes)], unsafe=allowed)
        assert step.text == expected
        assert not step.skipped


def test_of_overlapping_fixes_the_first_by_position_wins() -> None:
    assert once("abcdef", fix(Edit(2, 5, "X")), fix(Edit(0, 3, "Y"))) == ("Ydef", 1, 1)
    assert once("abcdef", fix(Edit(0, 6, "X")), fix(Edit(3, 3, "Y"))) == ("X", 1, 1)
    assert once("abcdef", fix(Edit(0, 1, "X"), Edit(5, 6, "X")), fix(Edit(3, 6, "Y"))) == ("XbcdeX", 1, 1)


def test_fixes_that_touch_do_not_overlap() -> None:
    assert once("abc", fix(Edit(0, 1, "X")), fix(Edit(1, 2, "Y")), fix(Edit(1, 1, "-"))) == ("X-Yc", 3, 0)


def test_insertions_at_one_place_keep_their_order_and_equal_edits_are_made_once() -> None:
    assert once("ab", fix(Edit(1, 1, "1")), fix(Edit(1, 1, "2"))) == ("a12b", 2, 0)
    header = Edit(0, 0, "import x\n")
    assert once("ab", fix(header, Edit(0, 1, "A")), fix(header, Edit(1, 2, "B"))) == ("import x\nAB", 2, 0)
    assert once("ab", fix(Edit(0, 1, "")), fix(Edit(0, 1, ""))) == ("b", 2, 0)


def test_impossible_edits_are_skipped() -> None:
    assert once("ab", fix(Edit(1, 3, "X"))) == ("ab", 0, 1)
    assert once("ab", fix(Edit(1, 0, "X"))) == ("ab", 0, 1)
    assert once("abc", fix(Edit(0, 2, "X"), Edit(1, 3, "Y"))) == ("abc", 0, 1)


def test_new_lines_end_as_the_file_does() -> None:
    assert once("a\r\nb\r\n", fix(Edit(3, 3, "x\ny\r\n")))[0] == "a\r\nx\r\ny\r\nb\r\n"
    assert once("a\rb\r", fix(Edit(2, 2, "x\n")))[0] == "a\rx\rb\r"
    assert once("a", fix(Edit(1, 1, "\nx\n")))[0] == "a\nx\n"


def test_fixing_goes_on_until_nothing_is_found() -> None:
    source = source_from_text("x = f(f(f(1)))\n", HERE)
    outcome = fix_source(source, replacing(r"f\((\w+)\)", r"\1"), unsafe=False)
    assert (outcome.source.text, len(outcome.applied), outcome.remaining) == ("x = 1\n", 3, [])
    assert outcome.changed and outcome.unsettled == [] and outcome.problems == []


def test_without_fixes_nothing_changes() -> None:
    source = source_from_text("x = bad\n", HERE)
    outcome = fix_source(source, lambda source: [finding(source, 4)], unsafe=True)
    assert outcome.source is source
    assert (outcome.changed, outcome.unsettled, len(outcome.remaining), outcome.patch()) == (False, [], 1, "")


def test_a_fix_that_breaks_the_file_is_left_out_and_the_others_are_applied() -> None:
    def lint(source: SourceFile) -> list[Finding]:
        return replacing("good", "better")(source) + replacing("evil", "(", "DL998")(source)

    source = source_from_text("a = good\nb = evil\nc = good\n", HERE)
    outcome = fix_source(source, lint, unsafe=False)
    assert outcome.source.text == "a = better\nb = evil\nc = better\n"
    assert [each.code for each in outcome.applied] == ["DL999", "DL999"]
    assert [(problem.kind, problem.path, problem.message) for problem in outcome.problems] == [
        ("crash", "module.py", "DL998: the fix at line 2 was left out: the file would no longer be valid")
    ]


def test_what_compiled_must_still_compile() -> None:
    source = source_from_text("bad\n", HERE)
    assert not fix_source(source, replacing("bad", "return 1"), unsafe=False).changed
    source = source_from_text("bad\nreturn 2\n", HERE)  # parses, and never compiled
    assert fix_source(source, replacing("bad", "return 1"), unsafe=False).changed


def test_what_a_culprit_overlapped_gets_its_turn() -> None:
    def lint(source: SourceFile) -> list[Finding]:
        return replacing("bad, thing", "((", "DL998")(source) + replacing("thing", "x", "DL997")(source)

    outcome = fix_source(source_from_text("yes = (bad, thing)\n", HERE), lint, unsafe=False)
    assert outcome.source.text == "yes = (bad, x)\n"
    assert [finding.code for finding, _ in outcome.reverted] == ["DL998"]


def test_a_fix_that_does_not_remove_its_finding_is_taken_back() -> None:
    def lint(source: SourceFile) -> list[Finding]:
        place = source.text.index("step()")
        return [finding(source, place, fix(Edit(0, 0, "zero()\n"))), *replacing("ugly", "nice", "DL998")(source)]

    outcome = fix_source(source_from_text("step()\nugly\n", HERE), lint, unsafe=False)
    assert outcome.source.text == "step()\nnice\n"
    assert [each.code for each in outcome.remaining] == ["DL999"]
    assert "does not remove the finding" in outcome.problems[0].message


def test_equal_statements_are_counted() -> None:
    outcome = fix_source(source_from_text("bad\nbad\nbad\n", HERE), replacing("bad", "good"), unsafe=False)
    assert (outcome.source.text, len(outcome.applied)) == ("good\ngood\ngood\n", 3)


def test_rules_whose_fixes_never_end_are_left_out_altogether() -> None:
    def lint(source: SourceFile) -> list[Finding]:
        return replacing(r"grow(x*)", r"growx\1", "DL998")(source) + replacing("bad", "good")(source)

    outcome = fix_source(source_from_text("grow = bad\n", HERE), lint, unsafe=False)
    assert outcome.source.text == "grow = good\n"
    assert outcome.unsettled == ["DL998"]
    assert "DL998" in outcome.problems[0].message


def test_ten_rounds_are_enough_for_ten_layers() -> None:
    text = "f(" * 10 + "x" + ")" * 10
    outcome = fix_source(source_from_text(text, HERE), replacing(r"f\((\w+)\)", r"\1"), unsafe=False)
    assert (outcome.source.text, outcome.unsettled) == ("x", [])


def test_a_file_that_does_not_parse_is_not_touched() -> None:
    source = source_from_text("x = (\nbad\n", HERE)
    assert not fix_source(source, replacing("bad", "good"), unsafe=True).changed


def test_a_character_that_the_encoding_lacks_is_a_broken_fix() -> None:
    source = source_from_bytes(b"# coding: latin-1\nx = 'bad \xe9'\n", HERE)
    outcome = fix_source(source, replacing("bad", "日本"), unsafe=False)
    assert not outcome.changed and len(outcome.problems) == 1
    outcome = fix_source(source, replacing("bad", "ü"), unsafe=False)
    assert outcome.source.to_bytes() == b"# coding: latin-1\nx = '\xfc \xe9'\n"


def test_notebooks_are_fixed_cell_by_cell() -> None:
    raw = book("%time\nbad", "x = (\n", "y = bad\nawait bad")
    source = source_from_text(raw, BOOK)
    outcome = fix_source(source, replacing("bad", "good"), unsafe=False)
    assert outcome.source.file_text == raw.replace("bad", "good")
    assert [each.location.cell for each in outcome.applied] == [1, 3, 3]
    outcome = fix_source(source, replacing("bad", "("), unsafe=False)
    assert not outcome.changed and len(outcome.problems) == 3
    outcome = fix_source(source, replacing("pass", "x"), unsafe=False)
    assert not outcome.changed and outcome.problems == []


# ------------------------------------------------------------------------------------------------ writing


def mend(path: Path, old: str = "bad", new: str = "good\nx = 1") -> FixOutcome:
    outcome = fix_source(read_source(path), replacing(old, new), unsafe=False)
    write_source(outcome)
    return outcome


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"bad\n", b"good\nx = 1\n"),
        (b"\xef\xbb\xbfbad\r\n", b"\xef\xbb\xbfgood\r\nx = 1\r\n"),
        (b"# coding: cp1251\ny = '\xef'; bad", b"# coding: cp1251\ny = '\xef'; good\nx = 1"),
        (b"y\rbad\r", b"y\rgood\rx = 1\r"),
    ],
)
def test_encoding_mark_and_line_ends_are_kept(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "module.py"
    path.write_bytes(before)
    mend(path)
    assert path.read_bytes() == after


def test_permissions_and_links_are_kept_and_nothing_is_left_behind(tmp_path: Path) -> None:
    target = tmp_path / "real" / "module.py"
    target.parent.mkdir()
    target.write_text("bad\n")
    target.chmod(0o750)
    link = tmp_path / "link.py"
    link.symlink_to(Path("real") / "module.py")
    mend(link)
    assert link.is_symlink()
    assert target.read_text() == "good\nx = 1\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o750
    assert [path.name for path in target.parent.iterdir()] == ["module.py"]


def test_a_new_file_has_ordinary_permissions(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new", b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_unchanged_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("fine\n")
    before = path.stat().st_ino
    mend(path)
    assert path.stat().st_ino == before


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("bad\n")
    outcome = fix_source(read_source(path), replacing("bad", "good"), unsafe=False)
    path.write_text("bad\nmore\n")
    with pytest.raises(SourceError, match="changed while"):
        write_source(outcome)
    assert path.read_text() == "bad\nmore\n"


def test_an_encoding_with_two_ways_to_write_a_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_bytes(b"# coding: utf-7\nbad = '+AGE-'\n")
    with pytest.raises(SourceError, match="without loss"):
        mend(path, new="good")


def test_a_failure_leaves_the_file_and_the_folder_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "module.py"
    path.write_text("bad\n")
    outcome = fix_source(read_source(path), replacing("bad", "good"), unsafe=False)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SourceError, match="cannot be written: no space left"):
        write_source(outcome)
    assert path.read_text() == "bad\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["module.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("bad\n")
    path.chmod(0o444)
    with pytest.raises(SourceError, match="permission denied"):
        mend(path)
    assert path.read_text() == "bad\n"


# ------------------------------------------------------------------------------------------------ generated edits

MODULE = (
    "import a\n\ndef f(x, y=[1]):  # note\n    if x:\n        return g(x)(y)\n    return {'é': x}\n\n\nf(1); f(2)\n"
)


@st.composite
def edits(draw: st.DrawFn) -> list[Edit]:
    places = sorted(draw(st.lists(st.integers(0, len(MODULE)), min_size=2, max_size=6)))
    new = st.sampled_from(["", "x", "(", "f(x)", "\n", "    y = 1\n", "'", ":", "pass"])
    return [Edit(start, end, draw(new)) for start, end in zip(places[::2], places[1::2], strict=False)]


@given(st.lists(edits(), max_size=5), st.booleans())
def test_any_fixes_keep_the_file_valid_and_fixing_again_changes_nothing(proposed: list[list[Edit]], crlf: bool) -> None:
    """Rules that propose any edits at all: each is about a fixed piece of text and gone once that has changed."""
    module = MODULE.replace("\n", "\r\n") if crlf else MODULE
    shift = [offset + (MODULE.count("\n", 0, offset) if crlf else 0) for offset in range(len(MODULE) + 1)]

    def lint(source: SourceFile) -> list[Finding]:
        found = []
        for number, group in enumerate(proposed):
            own = [Edit(shift[edit.start], shift[edit.end], edit.text) for edit in group]
            if source.text == module and own:
                found.append(finding(source, own[0].start, fix(*own), message=str(number)))
        return found

    outcome = fix_source(source_from_text(module, HERE), lint, unsafe=False)
    compile(outcome.source.text, "x", "exec")
    again = fix_source(outcome.source, lint, unsafe=False)
    assert not again.changed
    assert len(outcome.reverted) + len(outcome.applied) <= len(proposed)


@given(
    st.lists(st.sampled_from(["f(x)", "g(f(x))", "f(f(y))", "x", "(f(x))", "'f(x)'"]), max_size=6),
    st.sampled_from(["\n", "; ", "\r\n"]),
)
def test_a_good_rule_always_settles(pieces: list[str], separator: str) -> None:
    source = source_from_text(separator.join(pieces), HERE)
    rule = replacing(r"f\((\w)\)", r"\1")
    outcome = fix_source(source, rule, unsafe=False)
    assert outcome.problems == []
    assert rule(outcome.source) == []
    ast.parse(outcome.source.text)
