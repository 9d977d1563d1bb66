"""Named files see their importers: whichever files are named, the same is said about them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from installing import MODEL, TRAINING

from dllint import worker
from dllint.cli.project import find_project, lint, stdin_project
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.files.discovery import find_files
from dllint.findings import Finding, Location
from dllint.import_index import ImportIndex
from dllint.interp.source.import_statements import Import, imports_of
from dllint.merging import by_file
from dllint.outcomes import Analysis, Outcome
from dllint.runner import lint_files
from dllint.server.session import Session
from dllint.worker import Worker

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "fixtures" / "demo"

NET = MODEL
ENGINE = """\
def train(model, criterion, optimizer, loader):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()


def evaluate(model, loader):
    hits = 0
    for images, labels in loader:
        hits += (model(images).argmax(dim=1) == labels).sum().item()
    return hits
"""
MAIN = """\
from torch import nn, optim
from torch.utils.data import DataLoader

{imports}

model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([], batch_size=8, shuffle=True)
{call}(model, nn.CrossEntropyLoss(), optimizer, loader)
"""
CALLED_BY_ITSELF = """\
def fit(model, loader, optimizer, criterion):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
"""
CALLER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from engine import fit


class Clearing(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        self.zero_grad()


model = nn.Linear(3, 2)
fit(model, DataLoader([], shuffle=True), {optimizer}(model.parameters(), lr=0.1), nn.CrossEntropyLoss())
"""

FLAT = {
    "net.py": NET,
    "engine.py": ENGINE,
    "main.py": MAIN.format(imports="import engine\nfrom net import Net", call="engine.train"),
    "other.py": "from engine import (\n    evaluate,  # to look at\n)\nprint(evaluate)\n",
}
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


def write(folder: Path, files: dict[str, str]) -> Path:
    (folder / "pyproject.toml").write_text("[tool.dllint]\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


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


def about(findings: Sequence[Finding], path: str) -> set[tuple[str, Location]]:
    """What is said about a file: in it, or with a trace through it."""
    return {
        (finding.code, finding.location)
        for finding in findings
        if path in (finding.location.path, *(hop.location.path for hop in finding.trace))
    }


def names(project: Path) -> list[str]:
    return [file.relative_to(project).as_posix() for file in find_files([project], exclude=(), root=project).files]


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
        assert given.parts[0].report.findings == in_file(whole, name)


def test_so_does_the_file_that_is_open_in_an_editor(project: Path) -> None:
    whole = report(["."])
    settings = resolve(ConfigLoader().load(project))
    for name in names(project):
        file = project / name
        session = Session(settings, project, lambda: find_files([project], exclude=(), root=project).files)
        results = dict(session.check({file: file.read_text("utf-8")}, [file], lambda: False))
        assert results[file].findings == in_file(whole, name)


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


def dllint(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dllint", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)


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
    useless = SUPPRESSED + "\n\nrows = 3  # dllint: ignore[DL301] -- old\n"
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


IMPORTS = "import nn, optim\nfrom torch.utils.data import DataLoader\n"


def known(project: Path) -> set[tuple[str, str, str]]:
    return {tuple(entry) for entry in json.loads((project / ".dllint_baseline.json").read_text())["findings"]}


def entries(project: Path) -> set[tuple[str, str]]:
    kept = json.loads((project / ".dllint_baseline.json").read_text())["findings"]
    return {(path, code) for path, code, _ in kept}


def test_a_baseline_of_a_part_keeps_the_rest(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
    project = write(tmp_path, {})
    dllint(project, "baseline")
    whole = entries(project)
    assert ("engine.py", "DL101") in whole
    for name in names(project)[::3]:
        assert "0 added, 0 removed" in dllint(project, "baseline", name).stderr
        assert "0 added, 0 removed" in dllint(project, "baseline", "prune", name).stderr
        assert dllint(project, name).returncode == 0
    assert entries(project) == whole


def test_a_baseline_of_a_part_takes_in_what_that_part_is_told(tmp_path: Path) -> None:
    project = write(tmp_path, FLAT)
    dllint(project, "baseline", "net.py")
    assert entries(project) == {("engine.py", "DL101")}
    assert dllint(project, "net.py").returncode == 0


TWICE = """\
from torch import nn, optim

from net import Net
from other import Net as Other


def train(model, second, loader):
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD([*model.parameters(), *second.parameters()], lr=0.1)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    model = second
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
"""
RUNS = """\
from torch import nn
from torch.utils.data import DataLoader

from engine import train
from net import Net

train({models}, DataLoader([], batch_size=8, shuffle=True))
"""


@pytest.mark.parametrize(
    ("files", "name", "line"),
    [
        ({"main.py": f"{TWICE}\n\ntrain(Other(), Net(), DataLoader([], shuffle=True))\n"}, "net.py", 19),
        ({"main.py": f"{TWICE}\n\ntrain(Other(), Net(), DataLoader([], shuffle=True))\n"}, "other.py", 13),
        (
            {
                "engine.py": TWICE,
                "first.py": RUNS.format(models="Net(), nn.Linear(3, 2)"),
                "second.py": RUNS.format(models="nn.Linear(3, 2), Net()"),
            },
            "second.py",
            19,
        ),
    ],
)
def test_what_is_found_twice_elsewhere_has_the_entry_that_it_has_in_a_run_over_the_project(
    tmp_path: Path, files: dict[str, str], name: str, line: int
) -> None:
    files = {path: text.replace("import nn, optim\n", IMPORTS) for path, text in files.items()}
    project = write(tmp_path, {"net.py": NET, "other.py": NET, **files})
    [place] = files.keys() & {"engine.py", "main.py"}
    dllint(project, "baseline")
    whole = known(project)
    assert len({entry for entry in whole if entry[0] == place}) == 2
    (project / ".dllint_baseline.json").unlink()
    dllint(project, "baseline", name)
    assert known(project) < whole
    left = dllint(project, "--output-format", "concise").stdout
    assert f"{place}:{13 + 19 - line}:" in left and f"{place}:{line}:" not in left
    assert dllint(project, name).returncode == 0


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


# ------------------------------------------------------------------------------------ definitions by themselves


def codes_of(tmp_path: Path, files: dict[str, str]) -> list[tuple[str, bool]]:
    """What is found in engine.py: each code, and whether it was found in a definition by itself."""
    project = write(tmp_path, files)
    settings = resolve(ConfigLoader().load(project))
    analyst = Worker(settings, project)
    analyses = [analyst.analyse(project / name).analysis for name in sorted(files)]
    found = by_file(analyses).get(str(project / "engine.py"), [])
    return [(finding.code, finding.alone is not None) for finding in found]


def test_what_nobody_calls_speaks_for_itself(tmp_path: Path) -> None:
    assert codes_of(tmp_path, {"engine.py": CALLED_BY_ITSELF}) == [("DL202", True)]
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": "from engine import fit\nprint(fit)\n"}
    assert codes_of(tmp_path, files) == [("DL202", True)]


def test_a_caller_that_shows_it_is_right_has_the_say(tmp_path: Path) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": CALLER.format(optimizer="Clearing")}
    assert codes_of(tmp_path, files) == []


def test_so_has_one_that_shows_it_is_wrong(tmp_path: Path) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": CALLER.format(optimizer="torch.optim.SGD")}
    assert codes_of(tmp_path, files) == [("DL202", False)]
    both = {**files, "right.py": CALLER.format(optimizer="Clearing")}
    assert codes_of(tmp_path, both) == [("DL202", False)]


def test_a_unit_test_shows_nothing(tmp_path: Path) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "tests/test_engine.py": CALLER.format(optimizer="Clearing")}
    assert codes_of(tmp_path, files) == [("DL202", True)]


def test_a_caller_that_a_rule_has_not_seen_has_no_say_about_it(tmp_path: Path) -> None:
    caller = "from engine import fit\n\n\ndef main(model, loader):\n    fit(model, loader, None, None)\n"
    assert codes_of(tmp_path, {"engine.py": CALLED_BY_ITSELF, "train.py": caller}) == [("DL202", True)]


def test_two_that_call_each_other_do_not_silence_each_other() -> None:
    place = Location("a.py", 5, 1, 5, 2)
    one = Finding("DL202", "a", "b", place, "error", "correctness", alone=("a.py", 1))
    other = Finding("DL202", "a", "b", place, "error", "correctness", alone=("b.py", 1))
    seen = frozenset(["DL202"])
    first = Analysis(findings=[one], reached={("b.py", 1): seen})
    second = Analysis(findings=[other], reached={("a.py", 1): seen})
    assert [finding.location for finding in by_file([first, second])["a.py"]] == [place]
    assert by_file([first, Analysis(reached={("a.py", 1): seen})]) == {}
    assert by_file([first, Analysis(reached={("a.py", 1): frozenset()})]) == {"a.py": [one]}


def test_it_is_kept_with_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"engine.py": CALLED_BY_ITSELF, "train.py": CALLER.format(optimizer="Clearing")}
    project = write(tmp_path, files)
    monkeypatch.chdir(project)
    settings = resolve(ConfigLoader().load(project))
    paths = [project / name for name in files]
    for _ in range(2):
        assert lint_files(paths, settings).findings == []
    from dllint.cache import Cache

    outcome = Cache.open(settings).get(project / "train.py")
    assert outcome is not None
    assert "DL202" in outcome.analysis.reached["engine.py", 1]


# ------------------------------------------------------------------------------------------------- the index


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a", [Import(0, "a")]),
        ("import a.b as c, d", [Import(0, "a.b"), Import(0, "d")]),
        ("x = 1; import a", [Import(0, "a")]),
        ("if x: import a", [Import(0, "a")]),
        ("    from a import b", [Import(0, "a", ("b",))]),
        ("if x: from a import b", [Import(0, "a", ("b",))]),
        ("from . import b", [Import(1, "", ("b",))]),
        ("from ..a.b import *", [Import(2, "a.b", ("*",))]),
        ("from .. a import(b)", [Import(2, "a", ("b",))]),
        ("from a import (b, # c\n  d)\nprint(e)", [Import(0, "a", ("b", "c", "d"))]),
        ("from a import b, \\\n  c\nprint(d)", [Import(0, "a", ("b", "c"))]),
        ("from a import b\r\nfrom a import b\r\n", [Import(0, "a", ("b",))]),
        ("importlib.reload(a)\nreimport = 1", []),
    ],
)
def test_imports_are_read_without_parsing(text: str, expected: list[Import]) -> None:
    assert imports_of(text) == expected


def index_of(project: Path) -> ImportIndex:
    index = ImportIndex.open(project / ".dllint_cache")
    index.refresh(find_files([project], exclude=(), root=project).files, {})
    return index


def importers(project: Path, name: str) -> list[str]:
    index = index_of(project)
    index.save()
    return [path.relative_to(project).as_posix() for path in index.importers([project / name], project)]


def test_packages_that_pass_on_names_lead_only_by_these(tmp_path: Path) -> None:
    lazy = {
        "pkg/__init__.py": "from .a import f\nfrom .b import g\n",
        "pkg/a.py": "def f(): ...\n",
        "pkg/b.py": "g = 1\n",
    }
    users = {"use_f.py": "from pkg import f\n", "use_g.py": "from pkg import g\n", "use_all.py": "import pkg\n"}
    project = write(tmp_path, {**lazy, **users})
    assert importers(project, "pkg/a.py") == ["pkg/__init__.py", "use_all.py", "use_f.py"]
    (project / "pkg" / "__init__.py").write_text(lazy["pkg/__init__.py"] + "\n\ndef g():\n    return f()\n")
    assert importers(project, "pkg/a.py") == ["pkg/__init__.py", "use_all.py", "use_f.py", "use_g.py"]


def test_the_index_is_kept_and_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = write(tmp_path, FLAT)
    long_ago = time.time() - 1000
    for name in FLAT:
        os.utime(project / name, (long_ago, long_ago))
    assert importers(project, "net.py") == ["main.py"]
    read: list[str] = []
    monkeypatch.setattr("dllint.import_index.imports_of", lambda text: read.append(text) or imports_of(text))
    assert importers(project, "net.py") == ["main.py"] and read == []
    (project / "other.py").write_text("import net\n")
    assert importers(project, "net.py") == ["main.py", "other.py"] and read == ["import net\n"]
    (project / "other.py").write_text("import ten\n")  # of the same size, perhaps within the same tick of the clock
    assert importers(project, "net.py") == ["main.py"]
    (project / "main.py").unlink()
    assert importers(project, "net.py") == []


@pytest.mark.parametrize(
    "damage", ["", "[]", "{", "{}", '{"format": 2}', '{"format": 2, "written": 1, "files": {"a": 3}}']
)
def test_a_damaged_index_is_made_again(tmp_path: Path, damage: str) -> None:
    project = write(tmp_path, FLAT)
    assert importers(project, "net.py") == ["main.py"]
    (project / ".dllint_cache" / "imports.index").write_text(damage)
    assert importers(project, "net.py") == ["main.py"]


def test_unsaved_text_counts(tmp_path: Path) -> None:
    project = write(tmp_path, FLAT)
    index = index_of(project)
    files = [project / name for name in FLAT]
    new = project / "new.py"
    overlay = {project / "main.py": "import new\n", new: "import net\n"}
    index.refresh([*files, new], overlay)
    assert index.importers([project / "net.py"], project) == [project / "main.py", new]
    assert index.fits(overlay)
    assert index.fits({**overlay, new: "import net  # again\n"})
    assert not index.fits({**overlay, new: "import engine\n"})
