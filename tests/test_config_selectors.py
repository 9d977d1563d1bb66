"""Selectors, and the settings that result from configuration: rules, severities, globs, versions."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from dllint.config import resolve as resolve_module
from dllint.config.load import ConfigError, ConfigLoader, Source
from dllint.config.resolve import resolve
from dllint.config.selectors import ENGINE_CODES, Layer, Selection, Selectors, UnknownSelectorError
from dllint.config.settings import Settings
from dllint.engine_rules import ENGINE_RULES
from dllint.errors import nearest
from dllint.rule import Rule


def rule(code: str, name: str, category: str, default: bool = True, preview: bool = False) -> type[Rule]:
    known = {"code": code, "name": name, "category": category, "default": default, "preview": preview}
    return type(name, (Rule,), known)


RULES = (
    *ENGINE_RULES,
    rule("DL101", "softmax-before-cross-entropy", "correctness"),
    rule("DL102", "sigmoid-before-bce", "suspicious"),
    rule("DL110", "ignore-index-mismatch", "pedantic", default=False),
    rule("DL202", "missing-zero-grad", "correctness"),
    rule("AXC01", "bad-config", "correctness"),
    rule("AXC02", "worse-config", "correctness", default=False, preview=True),
)
SELECTORS = Selectors(RULES)


def enabled(*layers: Layer) -> set[str]:
    """The enabled codes besides the engine's own."""
    return set(SELECTORS.select(layers).enabled - ENGINE_CODES)


class TestSelectors:
    @pytest.mark.parametrize(
        ("selector", "codes"),
        [
            ("DL101", {"DL101"}),
            ("softmax-before-cross-entropy", {"DL101"}),
            ("DL1", {"DL101", "DL102", "DL110"}),
            ("DL10", {"DL101", "DL102"}),
            ("DL2", {"DL202"}),
            ("AXC", {"AXC01", "AXC02"}),
            ("pedantic", {"DL110"}),
            ("PREVIEW", {"AXC02"}),
            ("ALL", {rule.code for rule in RULES}),
        ],
    )
    def test_what_they_mean(self, selector: str, codes: set[str]) -> None:
        assert SELECTORS.expand(selector) == codes

    @pytest.mark.parametrize("selector", ["DL9", "D", "dl101", "all", "", "DL101x", "softmax", "E501"])
    def test_what_means_no_rule_is_an_error(self, selector: str) -> None:
        with pytest.raises(UnknownSelectorError):
            SELECTORS.expand(selector)

    def test_the_error_suggests(self) -> None:
        with pytest.raises(UnknownSelectorError, match="did you mean `missing-zero-grad`"):
            SELECTORS.expand("missing-zerograd")

    def test_the_default_rules_run_when_nothing_is_selected(self) -> None:
        assert enabled() == {"DL101", "DL102", "DL202", "AXC01"}
        assert SELECTORS.select(()).enabled >= ENGINE_CODES

    def test_select_replaces_and_extend_select_adds(self) -> None:
        assert enabled(Layer(["DL202"])) == {"DL202"}
        assert enabled(Layer(None, ["DL110"])) == {"DL101", "DL102", "DL110", "DL202", "AXC01"}
        assert enabled(Layer(["DL202"], ["DL110"])) == {"DL202", "DL110"}
        assert enabled(Layer([])) == set()

    def test_the_more_precise_selector_wins(self) -> None:
        assert enabled(Layer(["DL101"], (), ["DL1"])) == {"DL101"}
        assert enabled(Layer(["DL1"], (), ["DL10"])) == {"DL110"}
        assert enabled(Layer(["ALL"], (), ["DL1"])) == {"DL202", "AXC01", "AXC02"}
        assert enabled(Layer(["DL10"], (), ["pedantic", "correctness"])) == {"DL101", "DL102"}

    def test_rules_in_preview_run_if_they_are_selected(self) -> None:
        assert enabled(Layer(None, ["PREVIEW"])) == {"DL101", "DL102", "DL202", "AXC01", "AXC02"}
        assert enabled(Layer(["AXC"], (), ["PREVIEW"])) == {"AXC01", "AXC02"}
        assert enabled(Layer(["ALL"], (), ["PREVIEW", "DL1"])) == {"DL202", "AXC01"}

    def test_ignore_wins_at_equal_precision(self) -> None:
        assert enabled(Layer(["DL101"], ["DL102"], ["softmax-before-cross-entropy"])) == {"DL102"}

    def test_a_later_source_replaces_or_changes(self) -> None:
        file = Layer(["DL1"], (), ["DL101"])
        assert enabled(file, Layer(["DL101"])) == {"DL101"}
        assert enabled(file, Layer(None, (), ["DL102"])) == {"DL110"}
        assert enabled(file, Layer(None, ["DL101"])) == {"DL101", "DL102", "DL110"}

    def test_the_engine_s_own_rules_stay_on_until_ignored(self) -> None:
        assert SELECTORS.select([Layer(["DL101"])]).enabled == ENGINE_CODES | {"DL101"}
        ignoring = Layer(None, (), ["unused-suppression"])
        assert "DL004" not in SELECTORS.select([ignoring, Layer(["DL101"])]).enabled

    @pytest.mark.parametrize(
        ("select", "explicit"),
        [
            (["DL101"], {"DL101"}),
            (["softmax-before-cross-entropy"], {"DL101"}),
            (["DL1", "correctness"], set()),
            (["pedantic"], {"DL110"}),
            (["ALL"], {rule.code for rule in RULES}),
        ],
    )
    def test_rules_asked_for_by_name_show_all_their_findings(self, select: list[str], explicit: set[str]) -> None:
        selection = SELECTORS.select([Layer(select)])
        assert selection.explicit == explicit
        assert SELECTORS.select([Layer(None, select)]).explicit == explicit

    def test_what_is_ignored_again_is_not_explicit(self) -> None:
        selection = SELECTORS.select([Layer(["DL101", "DL102"]), Layer(None, (), ["DL101"])])
        assert selection == Selection(ENGINE_CODES | {"DL102"}, frozenset({"DL102"}))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(resolve_module, "list_rules", lambda extra, plugins: RULES)
    return tmp_path


def settings(project: Path, text: str = "", *overrides: Source) -> Settings:
    (project / "dllint.toml").write_text(text)
    return resolve(ConfigLoader(overrides=overrides).load(project))


class TestSettings:
    def test_the_defaults(self, project: Path) -> None:
        found = settings(project)
        assert (found.root, found.fail_on, found.time_limit) == (project, "warning", 20.0)
        assert found.baseline == project / ".dllint_baseline.json"
        assert found.enabled == found.defaults
        assert "torch" not in found.versions

    def test_an_unknown_selector_is_an_error_with_its_line(self, project: Path) -> None:
        text = "select = ['missing-zerograd']\n[per-file-ignores]\n'a.py' = ['nothing']\n[severity]\nDL7 = 'info'\n"
        with pytest.raises(ConfigError) as caught:
            settings(project, text)
        first, second, third = str(caught.value).splitlines()
        assert first == "dllint.toml:1: unknown rule `missing-zerograd`; did you mean `missing-zero-grad`?"
        assert second.startswith("dllint.toml:4: unknown rule `DL7`")
        assert third.startswith("dllint.toml:3: unknown rule `nothing`")

    @pytest.mark.parametrize(
        ("word", "suggested"),
        [("DL204", "DL203"), ("dl20", "DL203"), ("DL999", "DL901"), ("DL301", None), ("softmx", "softmax")],
    )
    def test_a_misspelled_code_is_near_to_codes_of_its_family_alone(self, word: str, suggested: str | None) -> None:
        assert nearest(word, ["DL101", "DL104", "DL203", "DL401", "DL901", "softmax"]) == suggested

    def test_the_command_line_comes_last(self, project: Path) -> None:
        override = Source("command line", project, {"select": ["DL202"], "fail-on": "never"})
        found = settings(project, "select = ['DL101']\nfail-on = 'error'\n", override)
        assert found.enabled - ENGINE_CODES == {"DL202"}
        assert found.fail_on == "never"

    def test_severities_by_the_most_precise_selector(self, project: Path) -> None:
        found = settings(project, "[severity]\nDL101 = 'error'\nDL1 = 'info'\ncorrectness = 'warning'\n")
        assert found.severities == {
            "DL001": "warning", "DL002": "warning", "DL005": "warning", "DL202": "warning", "AXC01": "warning",
            "AXC02": "warning",             "DL101": "error", "DL102": "info", "DL110": "info",
        }  # fmt: skip

    def test_globs_of_an_extended_file_are_relative_to_that_file(self, project: Path) -> None:
        (project / "base").mkdir()
        (project / "base" / "dllint.toml").write_text(
            "exclude = ['gen/*.py', '*.tmp.py', 'out/']\n[per-file-ignores]\n'!../tests/**' = ['DL1']\n"
        )
        found = settings(project, "extend = 'base/dllint.toml'\nexclude = ['out/**']\nrule-paths = ['lints']\n")
        assert found.exclude == ("base/gen/*.py", "*.tmp.py", "out/", "out/**")
        assert found.per_file_ignores == (("!tests/**", frozenset({"DL101", "DL102", "DL110"})),)
        assert found.rule_paths == (project / "lints",)

    @pytest.mark.parametrize(
        ("glob", "matched"),
        [
            ("tests/**", {"tests/a.py", "tests/b/c.py"}),
            ("test_*.py", {"test_x.py", "src/test_y.py"}),
            ("!src/**", {"tests/a.py", "tests/b/c.py", "test_x.py"}),
            ("src", {"src/test_y.py", "src/m.py"}),
        ],
    )
    def test_per_file_ignores(self, project: Path, glob: str, matched: set[str]) -> None:
        found = settings(project, f"[per-file-ignores]\n'{glob}' = ['DL10', 'DL202']\n'm.py' = ['DL202']\n")
        files = ["tests/a.py", "tests/b/c.py", "test_x.py", "src/test_y.py", "src/m.py"]
        assert {name for name in files if "DL101" in found.ignored_in(project / name)} == matched
        assert "DL202" in found.ignored_in(project / "src" / "m.py")

    def test_a_glob_that_can_match_nothing_is_an_error(self, project: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            settings(project, "exclude = ['a', '']\n[per-file-ignores]\n'[x' = ['DL1']\n")
        first, second = str(caught.value).splitlines()
        assert first.startswith("dllint.toml:1: ") and second.startswith("dllint.toml:3: ")

    def test_no_baseline(self, project: Path) -> None:
        assert settings(project, "baseline = ''\n").baseline is None

    def test_workers_get_the_same_settings(self, project: Path) -> None:
        found = settings(project, "[knowledge.loss]\n'a.B' = {input = 'logits'}\n")
        assert pickle.loads(pickle.dumps(found)) == found

    def test_the_cache_key_depends_on_what_bears_on_findings_and_on_nothing_else(self, project: Path) -> None:
        plain = settings(project).cache_key()
        assert settings(project, "fail-on = 'error'\nexclude = ['a']\n").cache_key() == plain
        for text in (
            "ignore = ['DL101']",
            "torch-version = '2.1'",
            "require-reason = true",
            "time-limit = 1",
            "[severity]\nDL101 = 'info'",
            "[knowledge.aliases]\n'a.b' = 'torch.softmax'",
            "[per-file-ignores]\n'a.py' = ['DL1']",
        ):
            assert settings(project, text).cache_key() != plain, text

    def test_the_cache_key_is_the_same_elsewhere(self, project: Path) -> None:
        other = project / "other"
        other.mkdir()
        assert (
            settings(project, "rule-paths = ['r']\n").cache_key() == settings(other, "rule-paths = ['r']\n").cache_key()
        )

    def test_configured_versions(self, project: Path) -> None:
        found = settings(project, "torch-version = '2.1'\n[versions]\nLightning = '2.2'\ntorch = '1.0'\n")
        assert found.versions == {"lightning": "2.2", "torch": "2.1"}
        assert found.versions["torch"] == "2.1"
