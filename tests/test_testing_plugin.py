"""The pytest plugin for authors of rules: it checks the fixtures of a project, and updates what fixes change."""

from __future__ import annotations

import pytest
from summed_losses import RULES

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
