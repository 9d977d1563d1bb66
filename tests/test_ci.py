"""The recipes for CI: they parse, they use options that exist, and the shell of the action does what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from installing import make_repository

from dllint.cli.check import command
from dllint.report import FORMATS

ROOT = Path(__file__).resolve().parent.parent
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.yml"))
ACTION = ROOT / "action.yml"
SHELL = ROOT / ".ci" / "action" / "run.sh"
OPTIONS = {option for parameter in command.params for option in parameter.opts}

CLEAN = "import torch\n"
BUG = """\
import torch
import torch.nn.functional as F

model = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(torch.softmax(model(x), 1), y)
    loss.backward()
    optimizer.step()
"""


def texts(value: Any) -> Iterator[str]:
    """All strings in a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from texts(key)
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    else:
        yield str(value)


@pytest.mark.parametrize("path", [ACTION, *RECIPES], ids=lambda path: path.name)
def test_recipes_parse_and_use_what_exists(path: Path) -> None:
    document = yaml.safe_load(path.read_text("utf-8"))
    said = "\n".join(texts(document)) + SHELL.read_text("utf-8")
    for line in re.findall(r"dllint check .*", said):
        words = shlex.split(re.sub(r"\$\{[^}]*--since[^}]*\}", "--since REV", line.replace("\\", "")))
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= OPTIONS
    formats = re.findall(r"--output \"?([a-z]+):", said)
    assert formats and set(formats) <= set(FORMATS)


def test_each_recipe_is_on_the_page() -> None:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    assert [path.name for path in RECIPES] == ["azure.yml", "github.yml", "gitlab.yml"]
    assert all(f"(recipes/{path.name})" in page for path in RECIPES)
    inputs = yaml.safe_load(ACTION.read_text("utf-8"))["inputs"]
    assert set(re.findall(r"^\| `([\w-]+)` \|.*\|.*\|$", page.partition("| input |")[2], re.MULTILINE)) == set(inputs)


def test_reports_that_gitlab_and_azure_publish_are_written() -> None:
    gitlab = yaml.safe_load((ROOT / "docs" / "recipes" / "gitlab.yml").read_text("utf-8"))["dllint"]
    [script] = gitlab["script"]
    for report in gitlab["artifacts"]["reports"].values():
        assert f":{report}" in script
    azure = yaml.safe_load((ROOT / "docs" / "recipes" / "azure.yml").read_text("utf-8"))
    [published] = [step for step in azure["steps"] if step.get("task", "").startswith("PublishTestResults")]
    assert any(f"junit:{published['inputs']['testResultsFiles']}" in step.get("script", "") for step in azure["steps"])


def test_the_action_runs_its_script_and_fails_last() -> None:
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    runs = action["runs"]
    assert runs["using"] == "composite"
    steps = runs["steps"]
    assert "$GITHUB_ACTION_PATH/.ci/action/run.sh" in steps[1]["run"]
    given = {word for step in steps for word in re.findall(r"inputs\.([\w-]+)", json.dumps(step))}
    assert given == set(action["inputs"])
    assert steps[-2]["uses"].startswith("github/codeql-action/upload-sarif@") and "always()" in steps[-2]["if"]
    assert steps[-1]["run"] == 'exit "$EXIT_CODE"'


class TestShell:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """A repository with a bug in one file, and a later commit that adds another."""
        folder = tmp_path / "project"
        (folder / "src").mkdir(parents=True)
        (folder / "src" / "old.py").write_text(BUG)
        make_repository(folder)
        (folder / "src" / "new file.py").write_text(BUG)
        return folder

    def lint(self, project: Path, tmp_path: Path, **given: str) -> tuple[int, dict[str, str], str, str]:
        """The exit code, the outputs, the summary and what is printed; dllint is installed by a stand-in for pip."""
        fake = tmp_path / "fake"
        fake.mkdir(exist_ok=True)
        (fake / "python3").write_text(
            "#!/bin/bash\n[ \"$1 $2\" = '-m venv' ] || exit 9\n"
            'mkdir -p "$3/bin"\n'
            'printf \'#!/bin/bash\\n[ "$2" = pip ] && echo "$@" >>"%s"\\n\' "$PIP_LOG" >"$3/bin/python"\n'
            f'printf \'#!/bin/bash\\nexec {sys.executable} -m dllint "$@"\\n\' >"$3/bin/dllint"\n'
            'chmod +x "$3"/bin/*\n'
        )
        (fake / "python3").chmod(0o755)
        names = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "PIP_LOG")}
        for file in names.values():
            file.write_text("")
        environment = {
            **os.environ,
            **{name: str(file) for name, file in names.items()},
            **{f"DLLINT_{name.upper()}": value for name, value in given.items()},
            "PATH": f"{fake}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_ACTION_PATH": str(ROOT),
        }
        done = subprocess.run(
            ["bash", str(SHELL)], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        outputs = dict(line.split("=", 1) for line in names["GITHUB_OUTPUT"].read_text().splitlines())
        assert str(ROOT) in names["PIP_LOG"].read_text(), done.stderr
        return done.returncode, outputs, names["GITHUB_STEP_SUMMARY"].read_text(), done.stdout

    def test_everything(self, project: Path, tmp_path: Path) -> None:
        code, outputs, summary, printed = self.lint(project, tmp_path, paths="src", changed="false")
        assert (code, outputs["exit-code"]) == (0, "1"), "the step goes on, so that SARIF is uploaded"
        results = json.loads(Path(outputs["sarif"]).read_text())["runs"][0]["results"]
        assert [result["ruleId"] for result in results] == ["DL101"]
        assert summary.startswith("## dllint\n") and "| `src/new file.py:8:" in summary
        assert "::error file=src/new file.py,line=8" in printed

    def test_only_what_a_pull_request_brings(self, project: Path, tmp_path: Path) -> None:
        (project / "src" / "new file.py").write_text(CLEAN)
        _, outputs, summary, _ = self.lint(project, tmp_path, paths="src", base="HEAD")
        assert outputs["exit-code"] == "0" and "| error |" not in summary
        _, outputs, _, _ = self.lint(project, tmp_path, paths="src", changed="false")
        assert outputs["exit-code"] == "1"

    def test_options_and_what_goes_wrong(self, project: Path, tmp_path: Path) -> None:
        _, outputs, _, _ = self.lint(project, tmp_path, changed="false", arguments="--ignore DL101 --no-cache")
        assert outputs["exit-code"] == "0"
        code, outputs, summary, _ = self.lint(project, tmp_path, changed="false", arguments="--select NOTHING")
        assert (code, outputs) == (0, {"exit-code": "2"}) and summary == ""
