"""The helper for testing rules must fail when a rule, a mark, a fix or a fixture is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dllint.testing import FixtureError, check
from dllint.testing.cases import parse_fixture
from dllint.testing.marks import Mark, read_marks
from dllint.testing.variations import NAMES

RULES = '''
"""Losses that are summed."""

from dllint.api import Const, Context, Edit, Fix, Rule


class SummedLoss(Rule):
    code = "DL190"
    name = "summed-loss"
    category = "suspicious"
    triggers = (("cross_entropy", "mse_loss"),)
    fix_safety = "unsafe"

    def fixes(self, value, ctx):
        return [Fix("Take the mean", (ctx.replace(value.site, '"mean"'),), "unsafe")]

    def on_loss_call(self, event, ctx: Context):
        reduction = event.options.get("reduction")
        if isinstance(reduction, Const) and reduction.value == "sum":
            yield ctx.finding(self, event.site, "summed", fixes=self.fixes(reduction, ctx))
        if isinstance(reduction, Const) and reduction.value == "none":
            yield ctx.finding(self, event.site, "not reduced", pedantic=True)


class BreaksTheFile(SummedLoss):
    code, name = "DL191", "breaks-the-file"

    def fixes(self, value, ctx):
        return [Fix("Break it", (ctx.replace(value.site, "(("),), "suggestion")]


class MendsNothing(SummedLoss):
    code, name = "DL192", "mends-nothing"

    def fixes(self, value, ctx):
        return [Fix("Keep it", (ctx.replace(value.site, "'sum'"),), "safe")]


class LeavesModule(SummedLoss):
    code, name = "DL193", "leaves-module"

    def fixes(self, value, ctx):
        return [Fix("Garble it", (ctx.replace(value.site, "F"),), "unsafe")]


class OutsideTheFile(SummedLoss):
    code, name = "DL194", "outside-the-file"

    def fixes(self, value, ctx):
        return [Fix("Miss it", (Edit(10_000, 10_001, ""),), "unsafe")]


class Crashes(SummedLoss):
    code, name = "DL195", "crashes"

    def fixes(self, value, ctx):
        return [][0]


class Twice(SummedLoss):
    code, name = "DL196", "twice"

    def on_loss_call(self, event, ctx: Context):
        yield ctx.finding(self, event.site, "once")
        if event.input is not None and event.input.site is not None:
            yield ctx.finding(self, event.input.site, "and again")


class ByTheText(SummedLoss):
    code, name = "DL188", "by-the-text"

    def on_loss_call(self, event, ctx: Context):
        if '"sum"' in ctx.text(event.site):
            yield ctx.finding(self, event.site, "the word is there")


class OnlyFullNames(SummedLoss):
    code, name = "DL197", "only-the-name-f"

    def on_loss_call(self, event, ctx: Context):
        if "F.cross_entropy" in ctx.text(event.site):
            yield ctx.finding(self, event.site, "called by this very name")


class OldTorch(SummedLoss):
    code, name = "DL198", "old-torch"

    def on_loss_call(self, event, ctx: Context):
        if ctx.versions.get("torch") == "1.8":
            yield ctx.finding(self, event.site, "torch 1.8")
'''

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


GOOD = '''
"""A fixture."""
import os
# triggers-not-shown: foo, bar -- the same path

# case: one bug
# versions: torch=1.8, torchvision=0.9
# vary: no-tabs, no-crlf -- made up
print(1)  # DL190

# case: Two files
import a
# file: pkg/a.py
def f():
    return 2

# case: only named files
# select: explicit
# file: main.py
x = 3
# file: b.py
x = 4
'''


class TestFixtureFiles:
    path = Path("fixtures/loss/dl190_summed_loss.py")

    def test_parts(self) -> None:
        fixture = parse_fixture(GOOD, self.path)
        one, two, three = fixture.cases
        assert fixture.code == "DL190" and set(fixture.not_shown) == {"foo", "bar"}
        assert (one.slug, one.line) == ("one-bug", 6) and dict(one.versions) == {"torch": "1.8", "torchvision": "0.9"}
        assert set(one.unvaried) == {"tabs", "crlf"} and three.explicit and not two.explicit
        assert list(one.files) == ["main.py"] and list(two.files) == ["main.py", "pkg/a.py"]
        assert list(three.files) == ["main.py", "b.py"]

    def test_every_line_keeps_its_number_and_headers_are_blank(self) -> None:
        lines = GOOD.split("\n")
        for case in parse_fixture(GOOD, self.path).cases:
            for text in case.files.values():
                assert text.startswith('\n"""A fixture."""\nimport os\n')
                assert all(line in ("", lines[number]) for number, line in enumerate(text.split("\n")))
                assert "case:" not in text and "file:" not in text and "versions:" not in text

    def test_form(self) -> None:
        assert parse_fixture(GOOD, self.path).faults() == []

    @pytest.mark.parametrize(
        ("old", "new", "fault"),
        [
            ("  # DL190", "", "no case is marked"),
            ("  # DL190", "  # todo: DL190", "no case is marked"),
            ("import a\n", "import a  # DL190\n", "1 cases without a mark"),
            ("import a\n", "import a  # todo: no DL190\n", "1 cases without a mark"),
            ("  # DL190", "  # DL190, DL191", "line 9: a mark of DL191, but only DL190 is run"),
            ("Two files", "one bug!", "2 cases are called 'one-bug'"),
        ],
    )
    def test_faults(self, old: str, new: str, fault: str) -> None:
        assert any(fault in found for found in parse_fixture(GOOD.replace(old, new), self.path).faults())

    def test_the_same_case_twice(self) -> None:
        again = "\n# case: another title\nx   =   3  # a comment\n# file: b.py\nx = (4)\n"
        faults = parse_fixture(GOOD + again.replace("title\n", "title\n# select: explicit\n"), self.path).faults()
        assert faults == ["line 24: 'another title' is the same as 'only named files' (line 17)"]
        assert parse_fixture(GOOD + again, self.path).faults() == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("import os\n", "no `# case: title`"),
            ("def f(:\n", ":1: "),
            ("# file: a.py\nx = 1\n# case: one\n", "before the first"),
            ("# case:\nx = 1\n", ":1: a case without a title"),
            ("# case: one\nx = 1\n# file: ../a.py\n", "is not the relative path of a Python file"),
            ("# case: one\nx = 1\n# file: a.txt\n", "is not the relative path of a Python file"),
            ("# case: one\nx = 1\n# file: a.py\n# file: a.py\n", ":4: a.py is given twice"),
            ("# case: one\n# version: torch=1.8\n", "is none of the directives"),
            ("# case: one\n# versions: torch 1.8\n", "is not of the form torch=2.1"),
            ("# case: one\n# vary: no-method\n", "# vary: no-alias -- reason"),
            ("# case: one\n# vary: no-such -- reason\n", "there are no-alias"),
            ("# case: one\n# fix: stays\n", "is none of the directives"),
            ("# case: one\n# select: all\n", "is none of the directives"),
            ("# triggers-not-shown: foo\n# case: one\n", "needs a reason"),
        ],
    )
    def test_refused(self, text: str, message: str) -> None:
        with pytest.raises(FixtureError, match=message.replace("(", r"\(")):
            parse_fixture(text, self.path)

    def test_all_variations_can_be_left_out(self) -> None:
        text = "".join(f"# vary: no-{name} -- reason\n" for name in NAMES)
        (case,) = parse_fixture(f"# case: one\n{text}x = 1\n", self.path).cases
        assert set(case.unvaried) == set(NAMES)


LITERAL = "no-extra-argument, no-unknown-keyword, no-missing-argument"

FIXTURE = f"""
import torch.nn.functional as F
# doubt: {LITERAL} -- a literal is what it is, whoever calls

# case: summed
def loss(x, y):
    return F.cross_entropy(x, y, reduction="sum")  # DL190

# case: mean
def loss(x, y):
    return F.cross_entropy(x, y)

# case: summed by hand
def loss(x, y):
    return F.cross_entropy(x, y, reduction="none").sum()
"""

FIXED = "".join(
    f"{line}\n"
    for line in (
        "--- a/dl190_summed_loss.py",
        "+++ b/dl190_summed_loss.py",
        "@@ -4,7 +4,7 @@",
        " ",
        " # case: summed",
        " def loss(x, y):",
        '-    return F.cross_entropy(x, y, reduction="sum")  # DL190',
        '+    return F.cross_entropy(x, y, reduction="mean")  # DL190',
        " ",
        " # case: mean",
        " def loss(x, y):",
    )
)


def run_pytest(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest on a project, without hypothesis, which would be imported anew each time."""
    return project.runpytest_inprocess("-p", "no:hypothesispytest", *arguments)


class TestPlugin:
    @pytest.fixture
    def project(self, pytester: pytest.Pytester) -> pytest.Pytester:
        pytester.makeconftest('pytest_plugins = ["dllint.testing.plugin"]')
        pytester.makepyprojecttoml('[tool.dllint]\nrule-paths = ["rules"]')
        for name, text in (("rules/dl190_summed_loss.py", RULES), ("fixtures/dl190_summed_loss.py", FIXTURE)):
            (pytester.path / name).parent.mkdir()
            (pytester.path / name).write_text(text, "utf-8")
        return pytester

    def test_updates_and_passes(self, project: pytest.Pytester) -> None:
        fixed = project.path / "fixtures/dl190_summed_loss.fixed.diff"
        result = run_pytest(project, "-v")
        result.assert_outcomes(passed=8, failed=1)
        result.stdout.fnmatch_lines(["*::form PASSED*", "*::summed?as-written? PASSED*", "*::mean?varied? PASSED*"])
        result.stdout.fnmatch_lines(["*is not what the fixes change in the fixture*", '++*reduction="mean")  # DL190'])
        run_pytest(project, "-k", "DL190", "--update").assert_outcomes(passed=9)
        assert fixed.read_text("utf-8") == FIXED
        run_pytest(project).assert_outcomes(passed=9)
        run_pytest(project, "-k", "DL191").assert_outcomes(deselected=9)

    def test_a_fixed_file_that_is_no_longer_right(self, project: pytest.Pytester) -> None:
        fixed = project.path / "fixtures/dl190_summed_loss.fixed.diff"
        fixed.write_text(FIXED.replace("mean", "none"), "utf-8")
        run_pytest(project, "-k", "fixed").assert_outcomes(failed=1, deselected=8)
        fixture = project.path / "fixtures/dl190_summed_loss.py"
        fixture.write_text(FIXTURE.replace('"sum")  # DL190', '"none")'), "utf-8")
        run_pytest(project, "-k", "fixed", "--update").assert_outcomes(passed=1, deselected=7)
        assert not fixed.exists()

    def test_wrong_marks(self, project: pytest.Pytester) -> None:
        fixture = project.path / "fixtures/dl190_summed_loss.py"
        fixture.write_text(FIXTURE.replace("  # DL190", "").replace("(x, y)\n", "(x, y)  # DL190\n"), "utf-8")
        result = run_pytest(project, "-k", "not fixed")
        result.assert_outcomes(passed=6, failed=2, deselected=1)
        result.stdout.fnmatch_lines(["dl190_summed_loss.py:5: main.py:7: DL190 false alarm*"])
        result.stdout.fnmatch_lines(["dl190_summed_loss.py:9: main.py:11: DL190 missed alarm"])

    def test_known_faults_of_a_fix(self, project: pytest.Pytester) -> None:
        fixture = project.path / "fixtures/dl190_summed_loss.py"
        fixture.write_text(FIXTURE.replace("summed\n", "summed\n# fix: todo -- made up\n", 1), "utf-8")
        result = run_pytest(project, "-k", "as-written or fixed")
        result.assert_outcomes(passed=3, failed=1, deselected=5)
        result.stdout.fnmatch_lines(["*the fix is wrong no more*"])
        for name, fix in (("dl192_mends_nothing", "todo"), ("dl192_mends_nothing", "stays")):
            text = fixture.read_text("utf-8").replace("DL190", name[:5].upper()).replace("fix: todo", f"fix: {fix}")
            (project.path / f"fixtures/{name}.py").write_text(text, "utf-8")
            run_pytest(project, "-k", name, "--update").assert_outcomes(passed=9, deselected=9)

    def test_a_rule_that_goes_by_the_text(self, project: pytest.Pytester) -> None:
        text = FIXTURE.replace("DL190", "DL188")
        (project.path / "fixtures/dl188_by_the_text.py").write_text(text, "utf-8")
        result = run_pytest(project, "-k", "dl188 and doubt")
        result.assert_outcomes(failed=1, deselected=17)
        result.stdout.fnmatch_lines(["dl188_by_the_text.py:5: with the doubt *", "*as sure as without the doubt*"])
        text = text.replace(LITERAL, f"{LITERAL}, no-choice, no-registry, no-config, no-required, no-test")
        (project.path / "fixtures/dl188_by_the_text.py").write_text(text, "utf-8")
        run_pytest(project, "-k", "dl188 and doubt").assert_outcomes(passed=1, deselected=17)

    def test_form(self, project: pytest.Pytester) -> None:
        fixture = project.path / "fixtures/dl190_summed_loss.py"
        fixture.write_text(FIXTURE.partition("# case: summed by hand")[0], "utf-8")
        result = run_pytest(project, "-k", "form")
        result.assert_outcomes(failed=1, deselected=6)
        result.stdout.fnmatch_lines(["*1 cases without a mark: show at least 2*"])

    def test_broken_fixture(self, project: pytest.Pytester) -> None:
        (project.path / "fixtures/dl190_summed_loss.py").write_text("x = 1\n", "utf-8")
        result = run_pytest(project)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*no `# case: title` in it*"])

    def test_rule_that_is_not_there(self, project: pytest.Pytester) -> None:
        (project.path / "pyproject.toml").write_text("", "utf-8")
        result = run_pytest(project, "-k", "as-written")
        result.assert_outcomes(failed=3, deselected=6)
        result.stdout.fnmatch_lines(["*there is no rule DL190 (see `rule-paths` in the configuration)"])

    def test_a_fixture_that_is_named(self, project: pytest.Pytester) -> None:
        run_pytest(project, "fixtures/dl190_summed_loss.py", "--update").assert_outcomes(passed=9)

    def test_files_that_are_no_fixtures(self, project: pytest.Pytester) -> None:
        (project.path / "fixtures/demo.py").write_text("x = 1\n", "utf-8")
        (project.path / "dl190_elsewhere.py").write_text("x = 1\n", "utf-8")
        result = run_pytest(project, "--collect-only", "-q")
        assert "demo" not in result.stdout.str() and "elsewhere" not in result.stdout.str()
