"""Named files see their importers: whichever files are named, the same is said about them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from importing_projects import DEMO, ENGINE, FLAT, MAIN, NET, dllint, names, write
from installing import MODEL, TRAINING

from dllint import worker
from dllint.cli.project import find_project, lint, stdin_project
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.files.discovery import find_files
from dllint.findings import Finding, Location
from dllint.outcomes import Outcome
from dllint.server.session import Session
from dllint.worker import Worker

PACKAGES = {
    "src/lab/__init__.py": "from .models import Net\nfrom .running.engine import train\n",
    "src/lab/models/__init__.py": "from lab.models.net import *\n",
    "src/lab/models/net.py": NET,
    "src/lab/running/engine.py": ENGINE,
    "src/lab/running/loops.py": "from .. import running\nfrom .engine import train as run\n",
    "scripts/main.py": "def main():\n    "
    + MAIN.format(imports="from lab import Net, \\\n  train", call="train").replace("\n", "\n    ").rstrip()
    + "\n\n\nmain()\n",
    "scripts/again.py": MAIN.format(
        imports="from lab.models import Net\nfrom lab.running.loops import run", call="run"
    ),
}


@pytest.fixture(params=["demo", "flat", "packages"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    if request.param == "demo":
        shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
        return write(tmp_path, {})
    return write(tmp_path, FLAT if request.param == "flat" else PACKAGES)


def report(paths: Sequence[str]) -> list[Finding]:
    project = find_project(paths, ConfigLoader())
    lint(project, jobs=1, cache=False)
    assert not project.problems
    return [finding for part in project.parts for finding in part.report.findings]


def in_file(findings: Sequence[Finding], path: str) -> list[Finding]:
    return [finding for finding in findings if finding.location.path == path]


def finished(findings: Sequence[Finding]) -> list[Finding]:
    """What is said as well of a text that may be unfinished: in such, names may be missing (DL856)."""
    return [finding for finding in findings if finding.code != "DL856"]


def about(findings: Sequence[Finding], path: str) -> set[tuple[str, Location]]:
    """What is said about a file: in it, or with a trace through it."""
    return {
        (finding.code, finding.location)
        for finding in findings
        if path in (finding.location.path, *(hop.location.path for hop in finding.trace))
    }


# ------------------------------------------------------------------------------------------------- agreement


def test_a_file_that_is_named_hears_what_the_project_does(project: Path) -> None:
    whole = report(["."])
    assert whole
    for name in names(project):
        alone = report([name])
        assert in_file(alone, name) == in_file(whole, name)
        assert about(alone, name) == {(f.code, f.location) for f in alone}
        assert about(whole, name) <= about(alone, name) <= {(f.code, f.location) for f in whole}


def test_standard_input_hears_the_same_but_of_itself_alone(project: Path) -> None:
    whole = report(["."])
    for name in names(project):
        file = project / name
        given = stdin_project(file, ConfigLoader())
        lint(given, jobs=1, overlay={file: file.read_text("utf-8")})
        assert given.parts[0].report.findings == finished(in_file(whole, name))


def test_so_does_the_file_that_is_open_in_an_editor(project: Path) -> None:
    whole = report(["."])
    settings = resolve(ConfigLoader().load(project))
    for name in names(project):
        file = project / name
        session = Session(settings, project, lambda: find_files([project], exclude=(), root=project).files)
        results = dict(session.check({file: file.read_text("utf-8")}, [file], lambda: False))
        assert results[file].findings == finished(in_file(whole, name))


def test_a_folder_agrees_as_well_and_speaks_of_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, PACKAGES))
    found = report(["src"])
    assert [(f.code, f.location.path) for f in found] == [("DL101", "src/lab/running/engine.py")]
    assert found == in_file(report(["."]), "src/lab/running/engine.py")
    assert report(["scripts"]) == []


def test_a_tree_of_packages_is_one_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"net/net.py": NET, "train.py": TRAINING.replace("from model", "from net.net"), "net/x.toml": ""})
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "net" / "pyproject.toml").write_text("[project]\n")
    monkeypatch.chdir(tmp_path)
    assert [finding.location.path for finding in report(["net/net.py"])] == ["train.py"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_folder_named_from_elsewhere_is_where_its_imports_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    (folder := tmp_path / "unmarked").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    for name, text in FLAT.items():
        place = folder / "scripts" / name if name == "main.py" else folder / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    for number in range(20):  # more than are linted in one process
        (folder / f"more{number}.py").write_text("")

    def codes(path: str) -> list[tuple[str, str]]:
        project = find_project([path], ConfigLoader())
        lint(project, jobs=jobs, cache=False)
        [part] = project.parts
        return [(finding.code, Path(finding.location.path).name) for finding in part.report.findings]

    monkeypatch.chdir(elsewhere)
    from_elsewhere = codes(str(folder))
    monkeypatch.chdir(folder)
    assert from_elsewhere == codes(".") == [("DL101", "engine.py")]


def test_a_folder_that_is_no_project_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"model.py": MODEL, "train.py": TRAINING, "deep/er.py": "from model import Net"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    [part] = find_project(["model.py"], ConfigLoader()).parts
    assert part.around == [tmp_path / "train.py"]


def test_only_files_that_import_a_named_one_are_analysed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[str] = []
    analyse = worker.Worker.analyse

    def spy(self: Worker, file: Path) -> Outcome:
        analysed.append(file.name)
        return analyse(self, file)

    monkeypatch.setattr(worker.Worker, "analyse", spy)
    files = {**FLAT, "alone.py": ENGINE, "settings.py": "rows = 3\n", "reads.py": "import torch, settings\n"}
    monkeypatch.chdir(write(tmp_path, files))
    expected = {
        "alone.py": ["alone.py"],
        "net.py": ["net.py", "main.py"],
        "engine.py": ["engine.py", "main.py", "other.py"],
        "settings.py": ["settings.py"],  # has nothing that any rule could be about
    }
    for name, wanted in expected.items():
        report([name])
        assert analysed == wanted
        analysed.clear()


# ----------------------------------------------------------------------------------------------- consequences


def test_who_commits_the_model_alone_is_told_what_it_breaks(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
    done = dllint(write(tmp_path, {}), "check", "--output-format", "concise", "models.py")
    assert done.returncode == 1
    assert "engine.py:32:20: error[DL101]" in done.stdout
    assert {line.partition(":")[0] for line in done.stdout.splitlines() if "[DL" in line} == {"engine.py", "models.py"}


def test_a_suppression_in_another_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suppressed = TRAINING.replace("labels)\n", "labels)  # dllint: ignore[DL101] -- wanted\n")
    monkeypatch.chdir(write(tmp_path, {"model.py": MODEL, "train.py": suppressed}))
    assert report(["model.py"]) == []


SUPPRESSED = ENGINE.replace("labels)\n", "labels)  # dllint: ignore[DL101] -- wanted\n", 1)


@pytest.mark.parametrize("paths", [["engine.py"], ["engine.py", "other.py"], ["."]])
def test_fixing_one_file_keeps_a_suppression_that_is_needed(tmp_path: Path, paths: list[str]) -> None:
    useless = SUPPRESSED + "\n\nrows = 3  # dllint: ignore[DL213] -- old\n"
    project = write(tmp_path, {**FLAT, "engine.py": useless})
    done = dllint(project, "--fix", *paths)
    assert done.returncode == 0, done.stdout
    assert (project / "engine.py").read_text() == SUPPRESSED + "\n\nrows = 3\n"


def test_what_is_fixed_on_saving_keeps_it_too(tmp_path: Path) -> None:
    project = write(tmp_path, {**FLAT, "engine.py": SUPPRESSED})
    settings = resolve(ConfigLoader().load(project))
    session = Session(settings, project, lambda: find_files([project], exclude=(), root=project).files)
    file = project / "engine.py"
    list(session.check({file: SUPPRESSED}, [file], lambda: False))
    assert session.fixed(session._sources[file]).text == SUPPRESSED


def test_ignores_are_added_to_named_files_only(tmp_path: Path) -> None:
    project = write(tmp_path, FLAT)
    assert "engine.py" in dllint(project, "--add-ignore=later", "net.py").stdout
    assert (project / "engine.py").read_text() == ENGINE


def test_results_hold_while_importers_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, FLAT))

    def found() -> list[str]:
        project = find_project(["engine.py"], ConfigLoader())
        lint(project, jobs=1)
        return [finding.code for finding in project.parts[0].report.findings]

    assert found() == found() == ["DL101"]
    main = (tmp_path / "main.py").read_text()
    (tmp_path / "main.py").unlink()
    assert found() == []
    (tmp_path / "elsewhere.py").write_text(main)
    assert found() == found() == ["DL101"]
    (tmp_path / "elsewhere.py").write_text(main.replace("import engine", "import engines"))
    assert found() == []
    (tmp_path / "net.py").unlink()
    (tmp_path / "elsewhere.py").write_text(main)
    assert found() == []
