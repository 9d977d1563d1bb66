"""The helper for testing rules must fail when a rule, a mark or a fix is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from summed_losses import RULES

from dllint.testing import FixtureError, check
from dllint.testing.marks import Mark, read_marks

SUMMED = """
    import torch.nn.functional as F

    def total(x, y):
        return F.cross_entropy(x, y, reduction="sum"){mark}
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "dl190_summed_loss.py"
    path.write_text(RULES, "utf-8")
    return path


def failure(code: str | list[str], source: str, rules: Path, **given: object) -> str:
    """The message with which the check fails."""
    with pytest.raises(AssertionError) as caught:
        check(code, source, rule_paths=[rules], **given)  # type: ignore[arg-type]
    return str(caught.value)


class TestCheck:
    def test_passes(self, rules: Path) -> None:
        check("DL190", SUMMED.format(mark="  # DL190"), rule_paths=[rules])
        check("DL190", SUMMED.format(mark="").replace("sum", "mean"), rule_paths=[rules])

    def test_missed_alarm(self, rules: Path) -> None:
        message = failure("DL190", SUMMED.format(mark="  # DL190").replace('"sum"', '"mean"'), rules)
        assert "main.py:4: DL190 missed alarm\n    return F.cross_entropy(x, y, reduction=" in message

    def test_false_alarm(self, rules: Path) -> None:
        assert "main.py:4: DL190 false alarm (summed)\n" in failure("DL190", SUMMED.format(mark=""), rules)

    def test_wrong_line(self, rules: Path) -> None:
        source = SUMMED.format(mark="").replace("def total(x, y):", "def total(x, y):  # DL190")
        message = failure("DL190", source, rules)
        assert "main.py:3: DL190 missed alarm" in message and "main.py:4: DL190 false alarm" in message

    def test_reported_twice(self, rules: Path) -> None:
        source = """
            import torch.nn.functional as F
            loss = F.cross_entropy(F.relu(x), y)  # {}
        """
        check("DL196", source.format("DL196, DL196"), rule_paths=[rules])
        assert "DL196 reported more often than marked" in failure("DL196", source.format("DL196"), rules)

    def test_several_rules(self, rules: Path) -> None:
        source = SUMMED.format(mark="  # DL190 # DL192")
        assert "DL192: the fix" in failure(["DL190", "DL192"], source, rules)
        message = failure(["DL190", "DL191"], SUMMED.format(mark="  # DL191"), rules)
        assert "DL190 false alarm" in message and "DL191 missed" not in message

    def test_known_miss(self, rules: Path) -> None:
        source = SUMMED.format(mark="  # todo: DL190 -- some reason")
        check("DL190", source.replace("sum", "mean"), rule_paths=[rules])
        assert "known miss no more" in failure("DL190", source, rules)

    def test_known_false_alarm(self, rules: Path) -> None:
        source = SUMMED.format(mark="  # todo: no DL190")
        check("DL190", source, rule_paths=[rules])
        assert "known false alarm no more" in failure("DL190", source.replace("sum", "mean"), rules)

    def test_other_files(self, rules: Path) -> None:
        main = """
            from losses.summed import total
            print(total(x, y))
        """
        files = {"losses/__init__.py": "", "losses/summed.py": SUMMED.format(mark="  # DL190")}
        check("DL190", main, files=files, rule_paths=[rules])
        files["losses/summed.py"] = SUMMED.format(mark="")
        assert "losses/summed.py:4: DL190 false alarm" in failure("DL190", main, rules, files=files)

    def test_pedantic_variants_when_asked_for(self, rules: Path) -> None:
        source = SUMMED.format(mark="  # DL190").replace('"sum"', '"none"')
        check("DL190", source, rule_paths=[rules], explicit=True)
        assert "missed alarm" in failure("DL190", source, rules)

    def test_versions(self, rules: Path) -> None:
        check("DL198", SUMMED.format(mark="  # DL198"), rule_paths=[rules], versions={"torch": "1.8"})
        assert "missed alarm" in failure("DL198", SUMMED.format(mark="  # DL198"), rules, versions={"torch": "2.0"})

    def test_knowledge(self, rules: Path) -> None:
        source = """
            from ours import sum_of_squares
            loss = sum_of_squares(x, y, reduction="sum")  # DL190 -- another mse_loss
        """
        loss = {"ours.sum_of_squares": {"parameters": "input, target, reduction"}}
        check("DL190", source, rule_paths=[rules], knowledge={"loss": loss})
        assert "missed alarm" in failure("DL190", source, rules)

    def test_variation(self, rules: Path) -> None:
        message = failure("DL197", SUMMED.format(mark="  # DL197"), rules)
        assert "in the variation 'alias':\nmain.py:4: DL197 missed alarm" in message
        assert "return FX.cross_entropy" in message and "'crlf'" not in message
        check("DL197", SUMMED.format(mark="  # DL197"), rule_paths=[rules], vary=["crlf", "tabs", "cell"])

    def test_variations_are_silent_where_the_case_is_wrong_as_written(self, rules: Path) -> None:
        assert "in the variation" not in failure("DL190", SUMMED.format(mark=""), rules)

    def test_crash(self, rules: Path) -> None:
        message = failure("DL195", SUMMED.format(mark="  # DL195"), rules)
        assert "rule DL195 failed (IndexError" in message and "return [][0]" in message

    def test_syntax_error(self, rules: Path) -> None:
        with pytest.raises((AssertionError, SyntaxError)):
            check("DL190", "def broken(:", rule_paths=[rules])

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            ("DL191", "the fix 'Break it' breaks the file"),
            ("DL192", "the fix 'Keep it' does not remove the finding"),
            ("DL193", "the fix 'Garble it' leaves the module F where a value was"),
            ("DL194", "the fix 'Miss it' cannot be applied"),
        ],
    )
    def test_bad_fix(self, rules: Path, code: str, message: str) -> None:
        assert message in failure(code, SUMMED.format(mark=f"  # {code}"), rules)

    def test_unknown_rule(self) -> None:
        with pytest.raises(FixtureError, match="there is no rule DL999"):
            check("DL999", "")

    def test_mark_of_another_rule(self, rules: Path) -> None:
        with pytest.raises(FixtureError, match="line 4: a mark of DL19, which is not run"):
            check("DL190", SUMMED.format(mark="  # DL19"), rule_paths=[rules])


class TestMarks:
    @pytest.mark.parametrize(
        ("comment", "marks"),
        [
            ("# DL101", [Mark(1, "DL101")]),
            ("#DL101", [Mark(1, "DL101")]),
            ("# DL101, DL202", [Mark(1, "DL101"), Mark(1, "DL202")]),
            ("# DL101 # DL202", [Mark(1, "DL101"), Mark(1, "DL202")]),
            ("# type: ignore  # DL101 -- because", [Mark(1, "DL101")]),
            ("# todo: DL101", [Mark(1, "DL101", "known miss")]),
            ("# TODO: no DL101 -- why", [Mark(1, "DL101", "known false alarm")]),
            ("# DL101 # todo: AXC12", [Mark(1, "DL101"), Mark(1, "AXC12", "known miss")]),
            ("# noqa: DL101", []),
            ("# dllint: ignore[DL101]", []),
            ("# see DL101", []),
        ],
    )
    def test_read(self, comment: str, marks: list[Mark]) -> None:
        assert read_marks(f"x = 1  {comment}") == marks

    @pytest.mark.parametrize("comment", ["# DL101 is found", "# DL101 DL202", "# todo: DL101 some day", "# DL101 --"])
    def test_what_only_looks_like_a_mark(self, comment: str) -> None:
        with pytest.raises(FixtureError, match=r"line 2: `#.*` is not a mark"):
            read_marks(f"\nx = 1  {comment}")

    def test_lines_are_those_of_python(self) -> None:
        assert read_marks("a = '\x0c'\r\nb = 1  # DL101\rc = 2  # DL102\n") == [Mark(2, "DL101"), Mark(3, "DL102")]

    def test_a_mark_is_no_suppression(self) -> None:
        from dllint.syntax.directives import mentions_suppression

        assert not mentions_suppression("x = 1  # DL101 # todo: DL202 -- reason")
