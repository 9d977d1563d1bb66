"""The server's engine leaves out what was silent before, and never misses what another text makes of it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.files.source import SourceFile, source_from_text
from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project
from dllint.server.imports import Imports
from dllint.server.outline import Outline
from dllint.server.remembering import Watch
from dllint.server.session import Session
from dllint.worker import Worker

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

TRAIN = """\
import torch
from torch import nn

from net import Net

RATE = 0.1


def output(model, x):
    return model(x)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x)


def first(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(output(model, x), y)
        loss.backward()
        optimizer.step()


def second(loader):
    model = Head()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


def evaluate(model, loader):
    total = 0
    with torch.no_grad():
        for x, y in loader:
            total += (model(x).argmax(1) == y).sum().item()
    return total
"""
NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x)
"""
TRAINS = "\n\ndef third(model, loss):\n    model.train()\n    loss.backward()\n"


class Editing:
    """A session on a project, and what it interprets."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        self.folder = folder
        self.settings = resolve(ConfigLoader().load(folder))
        self.session = Session(self.settings, folder)
        self.recalled: list[str] = []
        if monkeypatch is not None:
            recall = Watch._recall

            def noted(watch: Watch, silence: object) -> None:
                self.recalled.append(next(name for name, each in watch.memory.silences.items() if each is silence))
                recall(watch, silence)  # type: ignore[arg-type]

            monkeypatch.setattr(Watch, "_recall", noted)

    def check(self, texts: dict[str, str]) -> list[tuple[str, int]]:
        """The codes found in the first file, with their lines; they must be those of a fresh check."""
        self.recalled.clear()
        open_now = {self.folder / name: text for name, text in texts.items()}
        list(self.session.check(open_now, list(open_now), lambda: False))
        main = next(iter(open_now))
        fresh = Worker(self.settings, self.folder, open_now).analyse(main).analysis
        remembered = self.session._outcomes[main].analysis
        assert sorted(map(repr, remembered.findings)) == sorted(map(repr, fresh.findings))
        assert set(fresh.dependencies) <= set(remembered.dependencies)
        return sorted((finding.code, finding.location.line) for finding in fresh.findings)


@pytest.fixture
def editing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editing:
    (tmp_path / "net.py").write_text(NET)
    return Editing(tmp_path, monkeypatch)


def test_what_an_edit_has_no_bearing_on_is_left_out(editing: Editing) -> None:
    assert editing.check({"train.py": TRAIN}) == []
    assert editing.recalled == []
    assert editing.check({"train.py": TRAIN.replace("    total = 0\n", "    total = 00\n")}) == []
    assert set(editing.recalled) >= {"first", "second"}
    assert "evaluate" not in editing.recalled


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    return model(x)\n", "    return model(x).softmax(dim=1)\n", "DL101"),  # a function that is called
        ("return self.body(x)", "return self.body(x).softmax(dim=1)", "DL101"),  # a class that is used
        ("RATE = 0.1", "RATE = 0.1\nnn.functional.cross_entropy = lambda x, y: x", None),  # the module itself
        ("        optimizer.zero_grad()\n", "", "DL202"),  # the definition itself
        ("\n\nclass Head", TRAINS + "\n\nclass Head", "DL207"),  # what a rule asks about the whole file
        ("\n\ndef first", "\n\ndef output(model, x):\n    return model(x).softmax(1)\n\n\ndef first", "DL101"),
        ("from net import Net", "from net import Net\nif RATE:\n    def output(model, x):\n        return x\n", None),
    ],
)
def test_what_an_edit_has_a_bearing_on_is_seen(old: str, new: str, code: str | None, editing: Editing) -> None:
    assert old in TRAIN
    assert editing.check({"train.py": TRAIN}) == []
    found = editing.check({"train.py": TRAIN.replace(old, new)})
    assert code is None or code in {found_code for found_code, _ in found}
    assert editing.check({"train.py": TRAIN}) == []


def test_a_file_that_is_imported_has_a_bearing(editing: Editing) -> None:
    assert editing.check({"train.py": TRAIN, "net.py": NET}) == []
    assert editing.check({"train.py": TRAIN + "\n", "net.py": NET}) == []
    assert "first" in editing.recalled
    assert editing.check({"train.py": TRAIN + "\n", "net.py": NET.replace("4, 2", "4, 3")}) == []
    assert "second" in editing.recalled  # it does not use the file
    assert "first" not in editing.recalled
    softmax = NET.replace("self.body(x)", "self.body(x).softmax(dim=1)")
    assert [code for code, _ in editing.check({"train.py": TRAIN + "\n", "net.py": softmax})] == ["DL101"]
    assert [code for code, _ in editing.check({"train.py": TRAIN, "net.py": softmax})] == ["DL101"]


@pytest.mark.parametrize(
    ("text", "words", "files"),
    [
        ("from net import Net\nimport other", {"Net"}, {"net"}),
        ("from net import Net as N\nimport other", {"N"}, {"net"}),
        ("from net import Net\nimport other as o", {"o"}, {"other"}),
        ("from net import Net\nimport other", {"import_module", "net"}, {"net"}),
        ("from net import Net\nimport other", {"print"}, set()),
        ("from deep import one", {"one"}, {"__init__", "net"}),
        ("from net import *\nimport other", {"print"}, {"net", "other"}),
    ],
)
def test_code_uses_files_by_the_names_of_imports(text: str, words: set[str], files: set[str], tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "__init__.py").write_text("from net import Net as one\n")
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "other.py").write_text("x = 1\n")
    project = Project(tmp_path)
    main = SourceModule(source_from_text(text, tmp_path / "train.py"), "train")
    assert {file.stem for file in Imports(main, project).behind(words)} == files


def test_rules_of_the_project_see_everything_each_time(editing: Editing) -> None:
    (editing.folder / "rules").mkdir()
    (editing.folder / "pyproject.toml").write_text('[tool.dllint]\nrule-paths = ["rules"]\n')
    editing.settings = resolve(ConfigLoader().load(editing.folder))
    editing.session = Session(editing.settings, editing.folder)
    editing.check({"train.py": TRAIN})
    editing.check({"train.py": TRAIN + "\n"})
    assert editing.recalled == []


def test_comments_of_their_own_are_no_code() -> None:
    def outline(text: str) -> Outline:
        return Outline(SourceModule(_source(text), "m"))

    plain = outline('"""\n# not one\n"""\n\ndef f():\n    return 1\n')
    assert plain.rest == outline('"""\n# not one\n"""\n# one\n\n\ndef f():\n    # two\n    return 1\n').rest
    assert plain.rest != outline('"""\n# no one\n"""\n\ndef f():\n    return 1\n').rest
    assert plain.code("f") == outline("def f():\n    # two\n    return 1\n").code("f")
    assert plain.code("f") != outline("def f():\n    return 2\n").code("f")


def _source(text: str) -> SourceFile:
    return source_from_text(text, Path("/m.py"))


def test_random_edits_of_the_fixtures_find_what_a_fresh_check_finds(tmp_path: Path) -> None:
    chance = random.Random(7)
    texts = [path.read_text("utf-8") for path in sorted(FIXTURES.glob("*/dl*.py"))]
    texts = [text for text in texts if text.count("\ndef ") > 1 and text.count("\n") < 300]
    edits = 0
    for number in range(3):
        editing = Editing(tmp_path)
        text = chance.choice(texts)
        for _ in range(20):
            lines = text.split("\n")
            here, there = chance.randrange(len(lines)), chance.choice(lines)
            indent = re.match(r"\s*", lines[here])
            assert indent is not None
            lines[here : here + chance.randrange(2)] = [indent[0] + there.strip()][: chance.randrange(2)]
            try:
                compile("\n".join(lines), "edited", "exec")
            except (SyntaxError, ValueError):
                continue
            text = "\n".join(lines)
            edits += 1
            editing.check({f"train{number}.py": text})
    assert edits > 15
