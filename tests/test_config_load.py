"""Finding, reading and merging configuration files, and what is said about broken ones."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dllint.config.load import ConfigError, ConfigLoader, Source, find_config, parse_override, project_root, read_chain
from dllint.config.schema import KEYS, check, json_schema
from dllint.files.toml import key_lines, line_of

DOCS = Path(__file__).resolve().parent.parent / "docs"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestFinding:
    def test_the_nearest_file_wins(self, project: Path) -> None:
        write(project / "pyproject.toml", "[tool.dllint]\n")
        near = write(project / "a" / "dllint.toml", "")
        assert find_config(project / "a" / "b") == near

    def test_a_pyproject_without_dllint_is_passed_over(self, project: Path) -> None:
        far = write(project / "pyproject.toml", "[tool.dllint]\n")
        write(project / "a" / "pyproject.toml", "[project]\nname = 'dllint-user'\n")
        assert find_config(project / "a") == far

    def test_the_hidden_file_comes_before_the_others_of_a_folder(self, project: Path) -> None:
        write(project / "pyproject.toml", "[tool.dllint]\n")
        write(project / "dllint.toml", "")
        hidden = write(project / ".dllint.toml", "")
        assert find_config(project) == hidden

    def test_a_project_without_configuration_starts_at_its_repository(self, project: Path) -> None:
        (project / "a" / ".git").mkdir(parents=True)
        (project / "a" / "b").mkdir()
        assert project_root(project / "a" / "b") == project / "a"

    def test_files_without_their_own_configuration_take_that_of_the_path_named(self, project: Path) -> None:
        loader = ConfigLoader()
        write(project / "pkg" / "pyproject.toml", "[project]\n")
        named = loader.load(project)
        assert loader.load(project / "pkg", named) is named
        write(project / "own" / "dllint.toml", "")
        assert loader.load(project / "own", named).root == project / "own"

    def test_isolated_reads_no_file(self, project: Path) -> None:
        write(project / "dllint.toml", "fail-on = 'error'\n")
        config = ConfigLoader(isolated=True).load(project)
        assert config.value("fail-on") == (None, "warning")


class TestMerging:
    def test_a_file_overrides_what_it_extends_and_merges_tables(self, project: Path) -> None:
        write(
            project / "base.toml",
            "time-limit = 5\nfail-on = 'error'\n[per-file-ignores]\n'a.py' = ['DL1']\n'b.py' = ['DL2']\n",
        )
        path = write(
            project / "x" / "dllint.toml", "extend = '../base.toml'\ntime-limit = 9\n[per-file-ignores]\n'b.py' = []\n"
        )
        config = ConfigLoader().load(project / "x")
        assert [source.name for source in read_chain(path)] == ["base.toml", "x/dllint.toml"]
        assert config.value("time-limit")[1] == 9
        assert config.value("fail-on")[1] == "error"
        assert {glob: codes for glob, (codes, _) in config.table("per-file-ignores").items()} == {
            "a.py": ["DL1"],
            "b.py": [],
        }

    def test_the_command_line_replaces_a_table(self, project: Path) -> None:
        write(project / "dllint.toml", "[per-file-ignores]\n'a.py' = ['DL1']\n")
        override = Source("command line", project, {"per-file-ignores": {"b.py": ["DL2"]}})
        config = ConfigLoader(overrides=[override]).load(project)
        assert list(config.table("per-file-ignores")) == ["b.py"]

    def test_values_know_the_file_and_line_they_come_from(self, project: Path) -> None:
        write(project / "base.toml", "\n\nfail-on = 'error'\n")
        write(
            project / "pyproject.toml", "[project]\nname = 'x'\n\n[tool.dllint]\nextend = 'base.toml'\ntime-limit = 3\n"
        )
        config = ConfigLoader().load(project)
        origins = [config.value(key)[0].origin(key) for key in ("fail-on", "time-limit")]  # type: ignore[union-attr]
        assert origins == ["base.toml:3", "pyproject.toml:6"]

    def test_a_file_of_another_folder_is_used_for_this_project(self, project: Path) -> None:
        given = write(project / "ci" / "dllint.toml", "fail-on = 'error'\n")
        write(project / "dllint.toml", "")
        loader = ConfigLoader(given)
        assert loader.load(project / "src").value("fail-on")[1] == "error"
        assert loader.load(project / "src").root != project / "ci"


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("select = ['DL1']\nselct = []\n", "dllint.toml:2: unknown key `selct`; did you mean `select`?"),
            ("per_file_ignores = {}\n", "did you mean `per-file-ignores`?"),
            ("wholly-unknown = 1\n", "dllint.toml:1: unknown key `wholly-unknown`"),
            ("select = 'DL101'\n", 'dllint.toml:1: `select` must be a list of strings, not "DL101"'),
            ("ignore = [\n  'DL1',\n  7,\n]\n", "dllint.toml:1: `ignore` must be a list of strings; 7 is none"),
            (
                "[severity]\n\nDL101 = 'fatal'\n",
                'dllint.toml:3: `severity.DL101` must be one of "error", "warning", "info"',
            ),
            ("require-reason = 1\n", "`require-reason` must be true or false, not 1"),
            ("time-limit = 0\n", "`time-limit` must be a number above 0, not 0"),
            ("time-limit = true\n", "`time-limit` must be a number above 0, not true"),
            ("torch-version = 'latest'\n", "must be a version such as"),
            ("knowledge = []\n", "`knowledge` must be a table, not a list"),
            (
                "[knowledge.losses]\n'a.b' = 'x'\n",
                "dllint.toml:1: unknown key `knowledge.losses`; did you mean `loss`?",
            ),
            ("[knowledge.loss]\n'a.b' = {input = 'x'}\n", "dllint.toml:2: `knowledge.loss.a.b.input` must be one of"),
            ("select = [\n", "dllint.toml: not valid TOML"),
            (
                "# ours\n[tool.dllint]\nselect = ['DL1']\n",
                "dllint.toml:2: [tool.dllint] is for pyproject.toml; write the keys without it in this file",
            ),
            ("extend = 'nowhere.toml'\n", "dllint.toml:1: no such file: nowhere.toml"),
            ("extend = 'dllint.toml'\n", "dllint.toml:1: dllint.toml extends itself"),
        ],
    )
    def test_a_broken_file_is_named_with_the_line(self, project: Path, text: str, message: str) -> None:
        write(project / "dllint.toml", text)
        with pytest.raises(ConfigError) as caught:
            ConfigLoader().load(project)
        assert message in str(caught.value)

    def test_all_errors_are_told_at_once(self, project: Path) -> None:
        write(project / "dllint.toml", "a = 1\nb = 2\n")
        with pytest.raises(ConfigError) as caught:
            ConfigLoader().load(project)
        assert len(str(caught.value).splitlines()) == 2

    def test_a_file_in_another_encoding(self, project: Path) -> None:
        (project / "dllint.toml").write_bytes(b"# caf\xe9\n")
        with pytest.raises(ConfigError, match="not UTF-8"):
            ConfigLoader().load(project)

    def test_tool_dllint_must_be_a_table(self, project: Path) -> None:
        write(project / "pyproject.toml", "[tool]\ndllint = 1\n")
        with pytest.raises(ConfigError, match="must be a table"):
            ConfigLoader().load(project)

    def test_a_broken_pyproject_that_does_not_speak_of_dllint_is_none_of_its_business(self, project: Path) -> None:
        write(project / "pyproject.toml", "[project\n")
        assert find_config(project) is None or find_config(project) != project / "pyproject.toml"

    @pytest.mark.parametrize("text", ["nowhere.toml", "a = ", "selct = []"])
    def test_an_override_is_checked_like_a_file(self, project: Path, text: str) -> None:
        with pytest.raises(ConfigError, match="--config"):
            parse_override(text, project)

    def test_a_file_with_crlf_is_read(self, project: Path) -> None:
        (project / "dllint.toml").write_bytes(b"fail-on = 'error'\r\nselct = 1\r\n")
        with pytest.raises(ConfigError, match=r"dllint\.toml:2: unknown key"):
            ConfigLoader().load(project)


class TestLines:
    TEXT = '''\
top = "a = b" # c = d
[tool.dllint]
select = [
  "x = 1",
  "[fake]",
]
"quoted.key" = """
fake = 1
"""
nested.key = 1
inline = { a = 1, b = 2 }
[tool . dllint . "per-file-ignores"]
'tests/**' = ["DL1"]
[[tool.dllint.ban]]
call = "x"'''

    def test_each_key_has_its_line(self) -> None:
        lines = key_lines(self.TEXT)
        table = ("tool", "dllint")
        assert lines == {
            ("top",): 1,
            table: 2,
            (*table, "select"): 3,
            (*table, "quoted.key"): 7,
            (*table, "nested", "key"): 10,
            (*table, "inline"): 11,
            (*table, "per-file-ignores"): 12,
            (*table, "per-file-ignores", "tests/**"): 13,
            (*table, "ban"): 14,
            (*table, "ban", "call"): 15,
        }

    def test_a_key_of_an_inline_table_has_the_line_of_the_table(self) -> None:
        assert line_of(key_lines(self.TEXT), ("tool", "dllint", "inline", "b")) == 11


class TestSchema:
    def test_it_is_a_json_schema_that_accepts_every_default(self) -> None:
        schema = json_schema()
        jsonschema.Draft7Validator.check_schema(schema)
        defaults = {key.name: key.default for key in KEYS if key.default is not None}
        jsonschema.validate(defaults, schema)
        assert list(check(defaults)) == []

    def test_the_published_schema_is_that_of_the_code(self) -> None:
        """``dllint config --schema > docs/configuration.schema.json`` makes it so."""
        assert json.loads((DOCS / "configuration.schema.json").read_text("utf-8")) == json_schema()

    @pytest.mark.parametrize(
        "values",
        [
            {"select": ["DL1"], "severity": {"DL1": "info"}, "knowledge": {"aliases": {"a.b": "torch.log"}}},
            {"knowledge": {"loss": {"a.b": {"parameters": "x, y", "input": "logits"}}, "returns": {"logits": ["a.b"]}}},
            {"knowledge": {"losses": {}}},
            {"knowledge": {"loss": {"a.b": {"input": "numbers"}}}},
            {"knowledge": {"loss": {"a.b": "x, y"}}},
            {"knowledge": {"detach": {"functions": "a.b"}}},
            {"select": "DL1"},
            {"select": [1]},
            {"severity": {"DL1": "bad"}},
            {"per-file-ignores": {"a": "DL1"}},
            {"time-limit": -1},
            {"time-limit": 0.5},
            {"time-limit": "1"},
            {"require-reason": "yes"},
            {"versions": {"torch": "2.1"}},
            {"versions": {"torch": ">=2"}},
            {"unknown": 1},
        ],
    )
    def test_the_schema_and_the_check_agree(self, values: dict[str, object]) -> None:
        accepted = jsonschema.Draft7Validator(json_schema()).is_valid(values)
        assert accepted == (not list(check(values)))
