"""Repositories of several packages: what imports across them lead to, and what is told where they lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from installing import MODEL, TRAINING

from dllint.cli import main
from dllint.cli.project import find_project, lint
from dllint.config.load import ConfigLoader

UV = '[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/old*"]\n'
HATCH = '[tool.hatch.envs.default]\nworkspace.members = [{path = "packages/nets"}, "packages/train*"]\n'
PDM = '[tool.pdm.workspace]\nmembers = ["packages/nets", "packages/training"]\n'
POETRY = '[tool.poetry.dependencies]\ntorch = "^2"\nnets = {path = "../nets", develop = true}\n'
UV_SOURCE = '[tool.uv.sources]\nnets = {path = "../nets", editable = true}\n'
PLAIN = '[project]\nname = "part"\n'

TRAIN = TRAINING.replace("from model", "from nets.model")
SRC = {"packages/nets/src/nets/__init__.py": "", "packages/nets/src/nets/model.py": MODEL}
FLAT = {"packages/nets/nets/__init__.py": "", "packages/nets/nets/model.py": MODEL}
ELSEWHERE = {"packages/nets/code/nets/__init__.py": "", "packages/nets/code/nets/model.py": MODEL}
LAYOUTS = {
    "uv, src": {**SRC, "pyproject.toml": UV},
    "uv, flat": {**FLAT, "pyproject.toml": UV},
    "hatch": {**SRC, "pyproject.toml": HATCH},
    "pdm": {**SRC, "pyproject.toml": PDM},
    "poetry": {**FLAT, "packages/training/pyproject.toml": POETRY},
    "a source of uv": {**SRC, "packages/training/pyproject.toml": UV_SOURCE},
    "setuptools": {
        **ELSEWHERE,
        "pyproject.toml": UV,
        "packages/nets/pyproject.toml": '[tool.setuptools.packages.find]\nwhere = ["code"]\n',
    },
    "poetry, from": {
        **ELSEWHERE,
        "packages/training/pyproject.toml": POETRY,
        "packages/nets/pyproject.toml": '[tool.poetry]\npackages = [{include = "nets", from = "code"}]\n',
    },
    "hatch, packages": {
        **ELSEWHERE,
        "pyproject.toml": HATCH,
        "packages/nets/pyproject.toml": '[tool.hatch.build.targets.wheel]\npackages = ["code/nets"]\n',
    },
    "pytest": {
        **{name.replace("packages/nets/code", "python"): text for name, text in ELSEWHERE.items()},
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["python"]\n',
    },
    "further up": {"nets/__init__.py": "", "nets/model.py": MODEL},
    "further up, src": {"src/nets/__init__.py": "", "src/nets/model.py": MODEL},
}


def write(top: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def repository(top: Path, files: dict[str, str]) -> Path:
    """A repository of two packages, one of which trains a model of the other."""
    parts = {
        "packages/training/pyproject.toml": PLAIN,
        "packages/training/src/training/loop.py": TRAIN,
        "packages/nets/pyproject.toml": PLAIN,
    }
    (top / ".git").mkdir()
    return write(top, {**parts, **files})


def found(*paths: str) -> list[str]:
    project = find_project(paths, ConfigLoader())
    lint(project, jobs=1, cache=False)
    findings = [finding for part in project.parts for finding in part.report.findings]
    return [f"{Path(finding.location.path).name} {finding.code}" for finding in findings]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_imports_lead_from_package_to_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    monkeypatch.chdir(repository(tmp_path, LAYOUTS[layout]))
    assert found(".") == ["loop.py DL101"]
    assert found("packages/training") == ["loop.py DL101"]
    assert found("packages/training/src/training/loop.py") == ["loop.py DL101"]
    [model] = tmp_path.rglob("model.py")
    assert found(str(model)) == ["loop.py DL101"]  # its importers are found, too


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if "further" not in name and name != "pytest"])
def test_from_within_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    monkeypatch.chdir(repository(tmp_path, LAYOUTS[layout]) / "packages" / "training")
    assert found(".") == found("src/training/loop.py") == ["loop.py DL101"]


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": UV.replace("packages/*", "others/*")},
        {"pyproject.toml": UV.replace("old*", "nets")},
        {"packages/nets/dllint.toml": "", "packages/training/dllint.toml": ""},
        {"pyproject.toml": "[tool.uv.workspace\n"},
        {"pyproject.toml": "[tool]\nuv = 3\n"},
        {"packages/training/pyproject.toml": "[tool.poetry.dependencies]\nnets = {path = 3}\nothers = 'path'\n"},
    ],
    ids=["no member", "excluded", "apart", "broken", "no table", "no path"],
)
def test_nothing_leads_where_nothing_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    monkeypatch.chdir(repository(tmp_path, {**SRC, **files}))
    assert found(".") == []


def test_what_is_nearer_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = MODEL.replace(", nn.Softmax(dim=1)", "")
    own = {"packages/training/src/nets/__init__.py": "", "packages/training/src/nets/model.py": harmless}
    monkeypatch.chdir(repository(tmp_path, {**SRC, "pyproject.toml": UV, **own}))
    assert found(".") == []


def test_a_part_with_a_configuration_is_a_project_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"nets/__init__.py": "", "nets/model.py": MODEL}
    configured = {"packages/training/pyproject.toml": "[tool.dllint]\n"}
    monkeypatch.chdir(repository(tmp_path, {**files, **configured}))
    assert found(".") == []


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What ``--verbose`` tells, without the advice that follows findings."""
    main(["--verbose", *arguments])
    return [line for line in capsys.readouterr().err.splitlines() if not line.startswith("dllint: next: ")]


def test_what_could_not_be_followed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = "import torch\nimport json\nfrom .data import rows\nfrom . import more\nfrom nets.model import Net\n"
    monkeypatch.chdir(repository(tmp_path, {**ELSEWHERE, "packages/training/src/training/again.py": broken}))
    assert told(capsys) == [
        "dllint: .: 4 files; no configuration file: the defaults apply; versions: none is known",
        "dllint: imports of the project's own: 0 followed, 3 not found:",
        "dllint:   `.data` in packages/training/src/training/again.py",
        "dllint:   `.more` in packages/training/src/training/again.py",
        "dllint:   `nets.model` in packages/training/src/training/again.py and 1 more file; "
        "packages/nets/code/nets/model.py may be meant",
        "dllint:   imports start from the folder of a file, those above it, their src/ and lib/, and what the",
        "dllint:   pyproject.toml of these names: packages, members of a workspace, the pythonpath of pytest",
    ]


def test_what_was_followed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository(tmp_path, {**SRC, "pyproject.toml": UV + "[tool.dllint]\n"}))
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    assert told(capsys) == [
        "dllint: .: 3 files; configuration: pyproject.toml; versions: torch 2.4",
        "dllint: imports of the project's own: 1 followed",
    ]
    assert told(capsys, "packages/nets")[1:] == ["dllint: imports of the project's own: there are none"]


def test_many_are_told_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = "".join(f"from .part{number:02} import f\n" for number in range(14))
    monkeypatch.chdir(repository(tmp_path, {"lost.py": lost}))
    lines = told(capsys, "lost.py")
    assert len(lines) == 13 and lines[-1] == "dllint:   and 4 more"


@pytest.mark.parametrize("order", [("outer", "outer/inner"), ("outer/inner", "outer"), ("outer/inner/a.py", "outer")])
def test_a_folder_within_another_that_is_named_is_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("outer/train.py", "outer/inner/a.py"):  # nothing marks a project
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x = 1\n")
    (part,) = find_project(order, ConfigLoader()).parts
    assert part.config.root == tmp_path / "outer"
    assert sorted(part.files) == [tmp_path / "outer/inner/a.py", tmp_path / "outer/train.py"]
