"""What a process keeps of a large project, and that nothing is lost when it lets go."""

from __future__ import annotations

import ast
import gc
import re
import time
import weakref
from collections.abc import Iterable
from pathlib import Path

import pytest

from dllint import processes, runner, worker
from dllint.api import Context, Finding, Program, Rule
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.context.loading import loads_in
from dllint.flow import _tests_ahead
from dllint.interp.run import machine
from dllint.interp.source import failing
from dllint.interp.source import project as projects
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.project import Project
from dllint.interp.source.words import PackedWords, Vocabulary, words_of
from dllint.runner import lint_files
from dllint.sites import Guard, Site
from dllint.structure import Arm, Block, Branch
from dllint.testing.linting import Setup, lint
from dllint.worker import Worker

HEADS = """\
import torch.nn.functional as F

def head_of(outputs):
    return F.softmax(outputs, dim=1)
"""
TRAIN = """\
import torch.nn.functional as F
from heads import head_of

def train{number}(model, loader, optimizer):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(head_of(model(inputs)), targets)
        loss.backward()
        optimizer.step()
"""
EVALUATE = """\
import heads
import torch
from meters import Meter, accuracy_of

def validate(model, loader):
    model.eval()
    meter = Meter()
    with torch.no_grad():
        for x, y in loader:
            accuracy = meter(model(x).argmax(1), y)
    return accuracy.item()
"""
METERS = """\
class Meter:
    def __call__(self, predicted, y):
        self.right += (predicted == y).sum()
        return self.right

def accuracy_of(predicted, y):
    return (predicted == y).float().mean()
"""
FILES = 6


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of several files that need another one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heads.py").write_text(HEADS)
    for number in range(FILES):
        (tmp_path / f"train{number}.py").write_text(TRAIN.format(number=number))
    return tmp_path


def new_worker(folder: Path) -> Worker:
    return Worker(resolve(ConfigLoader(isolated=True).load(folder)), folder)


def codes_of(worker: Worker, folder: Path) -> list[list[str]]:
    outcomes = [worker.analyse_next(folder / f"train{number}.py") for number in range(FILES)]
    return [sorted(finding.code for finding in outcome.analysis.findings) for outcome in outcomes]


def parsed(worker: Worker) -> int:
    return sum(project.characters_parsed for project in worker._projects.values())


def test_trees_are_let_go_and_made_again(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = new_worker(large)
    expected = codes_of(patient, large)
    assert expected == [["DL101"]] * FILES and parsed(patient) > 0
    monkeypatch.setattr(worker, "_PARSED", 0)
    forgetful = new_worker(large)
    assert codes_of(forgetful, large) == expected
    assert parsed(forgetful) == 0


def test_trees_make_room_for_a_very_long_file(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = new_worker(large)
    assert codes_of(patient, large) == [["DL101"]] * FILES and parsed(patient) > 0
    monkeypatch.setattr(worker, "_PARSED", parsed(patient) + 10_000)
    held: list[int] = []
    analyse = patient.analyse
    monkeypatch.setattr(patient, "analyse", lambda file: (held.append(parsed(patient)), analyse(file))[1])
    (large / "long.py").write_text("# " + "long " * 3_000)
    patient.analyse_next(large / "train0.py")
    patient.analyse_next(large / "long.py")
    assert held[0] > 0 and held[1] == 0


def test_everything_is_let_go_of_and_read_again(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = codes_of(new_worker(large), large)
    monkeypatch.setattr(worker, "_READ", 0)
    forgetful = new_worker(large)
    assert codes_of(forgetful, large) == expected
    assert not forgetful._projects


@pytest.mark.parametrize("jobs", [1, 2])
def test_new_processes_go_on_after_much_source(large: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    settings = resolve(ConfigLoader(isolated=True).load(large))
    for number in range(FILES, 20):
        (large / f"train{number}.py").write_text(TRAIN.format(number=number))
    files = sorted(large.glob("*.py"))
    expected = [(found.code, found.location) for found in lint_files(files, settings, jobs=jobs, cache=False).findings]
    started: list[int] = []
    pool = runner.Pool
    monkeypatch.setattr(runner, "Pool", lambda count, *given: (started.append(count), pool(count, *given))[1])
    monkeypatch.setattr(processes, "_SHIFT", 12_000 // jobs)
    report = lint_files(files, settings, jobs=jobs, cache=False)
    assert started == [jobs] * 2
    assert [(found.code, found.location) for found in report.findings] == expected and len(expected) > 0


def test_files_that_are_glanced_at_are_not_kept(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (large / "other.py").write_text("import helpers\n" + TRAIN.format(number=9))
    (large / "helpers.py").write_text("def helper():\n    pass\n")
    kept = new_worker(large)
    monkeypatch.setattr(projects, "_MAX_GLANCED_AT", 0)
    glancing = new_worker(large)
    for each in (kept, glancing):
        assert [finding.code for finding in each.analyse(large / "other.py").analysis.findings] == ["DL101"]
    assert parsed(glancing) <= parsed(kept)
    (project,) = glancing._projects.values()
    assert project.seconds_glancing > 0


def test_texts_are_packed_once_it_is_known_what_they_import(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = codes_of(new_worker(large), large)
    monkeypatch.setattr(projects, "_MAX_UNPACKED", 0)
    packing = new_worker(large)
    assert codes_of(packing, large) == expected
    (project,) = packing._projects.values()
    assert isinstance(project.load(large / "heads.py").words, PackedWords)


def test_a_tree_that_was_glanced_at_is_freed_at_once(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "_MAX_GLANCED_AT", 0)
    project = Project(large)
    module = project.load(large / "train0.py")
    gc.disable()
    try:
        with project.reading(module):
            kept = [weakref.ref(nodes_of(node)) for node in (module.tree, *module.tree.body)]
            assert module.binds("train0") and not module.binds("train1")
        assert not [index for index in kept if index() is not None]
    finally:
        gc.enable()


def test_what_a_file_binds_is_known_without_its_tree(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "_MAX_GLANCED_AT", 0)
    project = Project(large)
    module = project.load(large / "train0.py")
    with project.reading(module):
        assert module.binds("train0") and not module.binds("loader_")
    assert module.binds("train0") and module.binds("loss") and not module.binds("train1")
    assert module.has_tree and not module.is_parsed


def test_files_that_names_are_only_looked_for_in_are_not_kept(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "_MAX_GLANCED_AT", 0)
    train = TRAIN.format(number=9).replace("heads import head_of", "package import head_of")
    (large / "other.py").write_text(train + "        print(F.softmax(inputs, dim=1))\n")
    (large / "package.py").write_text("from heads import *\nfrom more import *\n")
    (large / "more.py").write_text("import torch.nn as nn\n\nclass Loss(nn.Module):\n    pass\n")
    patient = new_worker(large)
    assert [finding.code for finding in patient.analyse(large / "other.py").analysis.findings] == ["DL101"]
    (project,) = patient._projects.values()
    kept = [name for name in ("heads", "more", "package") if project.load(large / f"{name}.py").is_parsed]
    assert kept == ["heads"]


def test_texts_that_are_searched_stay_packed(large: Path) -> None:
    project = Project(large)
    module = project.load(large / "heads.py")
    module.pack(Vocabulary())
    assert module.contains(re.compile(r"softmax\(")) and not module.contains(re.compile(r"relu\("))
    assert module.source.is_packed
    assert "softmax(" in module.source.text and not module.source.is_packed


def test_files_that_are_searched_for_what_keeps_count_are_not_kept(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projects, "_MAX_GLANCED_AT", 0)
    (large / "meters.py").write_text(METERS)
    (large / "evaluate.py").write_text(EVALUATE)
    patient = new_worker(large)
    found = patient.analyse(large / "evaluate.py").analysis.findings
    assert [each.confidence for each in found] == ["possible"]  # as nothing tells whether the meter keeps count
    (project,) = patient._projects.values()
    assert not project.load(large / "heads.py").is_parsed
    (large / "evaluate.py").write_text(EVALUATE.replace("meter(", "accuracy_of("))
    found = new_worker(large).analyse(large / "evaluate.py").analysis.findings
    assert [(each.code, each.confidence) for each in found] == [("DL871", "likely")]


def test_what_a_file_does_not_load_is_known_without_its_tree(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "_MAX_GLANCED_AT", 0)
    (large / "config.py").write_text("import json\n\ndef read(file):\n    return json.load(file)\n")
    project = Project(large)
    module = project.load(large / "config.py")
    assert [loads_in(each) for each in project.reading_each([module])] == [()]
    assert not loads_in(module) and not module.is_parsed


def test_who_asks_for_the_modes_of_one_file_looks_at_no_other() -> None:
    files: list[bool] = []

    class Asking(Rule):
        code = "AXC99"
        name = "asking"
        category = "correctness"
        triggers = (("torch",),)

        def on_program(self, program: Program, ctx: Context) -> Iterable[Finding]:
            if program.module.name == "main":
                assert ctx.modes_set(program.module) == {True}
                files.extend(module.is_parsed for module in ctx._files if module is not program.module)
            return ()

    main = "import other\nimport torch\nnet = torch.nn.Linear(2, 2)\nnet.train()\n"
    lint({"main.py": main, "other.py": "def evaluate(net):\n    net.eval()\n"}, Setup([Asking], sieve=False))
    assert files == [False]


def test_nodes_with_the_same_tests_ahead_hold_them_once(large: Path) -> None:
    test = Guard("flag", "is", True, True, frozenset(("flag",)))
    place = Site(Project(large).load(large / "heads.py"), ast.Pass(lineno=1, col_offset=0))
    body = Block([Branch(place, [Arm((test,), Block())]) for _ in range(50)])
    assert len({id(subjects) for subjects in _tests_ahead(body).values()}) < 5


def test_packed_words_are_the_same_set() -> None:
    vocabulary = Vocabulary()
    texts = ("import torch", "from heads import head_of", "torch.nn", "")
    for text in texts:
        words = words_of(text)
        packed = PackedWords(words, vocabulary)
        assert packed == words and set(packed) == words and len(packed) == len(words)
        assert packed & {"torch", "head_of"} == words & {"torch", "head_of"}
        assert {"torch", "head_of"} & packed == words & {"torch", "head_of"}
        assert packed.isdisjoint({"torch"}) is ("torch" not in words)
        assert "tensorflow" not in packed


def test_files_glanced_at_before_take_no_time_of_the_next_file(large: Path) -> None:
    """A thread of its own analyzes each part of a run: its clock starts again, and that of the project goes on."""
    patient = new_worker(large)
    patient.analyse(large / "train0.py")
    (project,) = patient._projects.values()
    project.seconds_glancing += 1_000
    assert codes_of(patient, large) == [["DL101"]] * FILES


def test_names_are_looked_up_in_a_part_of_a_very_large_package(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_OPENED", 0)
    assert codes_of(new_worker(large), large) == [[]] * FILES


def test_a_network_with_many_joins_is_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each join doubles the ways through a U-Net: 30 of them were more than a billion."""
    monkeypatch.chdir(tmp_path)
    joins = "".join("        x = self.layer(x) + x\n" for _ in range(30))
    (tmp_path / "net.py").write_text(f"""\
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
{joins}        return x

def train(loader, optimizer):
    net = Net()
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(net(inputs), targets)
        loss.backward()
        optimizer.step()
""")
    began = time.process_time()
    outcome = new_worker(tmp_path).analyse(tmp_path / "net.py")
    assert not outcome.analysis.findings
    assert time.process_time() - began < 5


def test_what_a_script_does_not_get_to_is_worked_out_once(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = failing.left_out

    def spy(module: SourceModule, project: Project) -> frozenset[failing.Place]:
        searched.append(module.file.name)
        return search(module, project)

    monkeypatch.setattr(failing, "left_out", spy)
    (large / "many.py").write_text("".join(f"def f{n}():\n    return f{n + 1}()\n\n\n" for n in range(9)))
    project = Project(large)
    module = project.load(large / "many.py")
    used = [project.uses(module, each) for each in module.tree.body]
    assert not any(used)
    assert searched == ["many.py"]
