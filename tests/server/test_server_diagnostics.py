"""The language server's diagnostics: pushed and pulled, across files, with unsaved text and broken syntax."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lsprotocol import types
from server_support import PULL, PUSH, Editor, codes, run

from dllint.assumptions import Assumption
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.findings import Finding, Location
from dllint.runner import lint_files
from dllint.server.convert import message_of

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)

    def forward(self, x):
        return self.body(x)
"""
SOFTMAX = MODEL.replace("self.body(x)", "self.body(x).softmax(dim=1)")
TRAIN = """\
import torch
from torch import nn

from net import Net

model = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101", "DL004"]\n')
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.mark.parametrize("client", [PUSH, PULL])
def test_the_demo_shows_what_the_command_line_finds(client: str, tmp_path: Path) -> None:
    root = Path(shutil.copytree(DEMO, tmp_path / "demo"))
    files = sorted(root.glob("*.py"))
    report = lint_files(files, resolve(ConfigLoader().load(root)), jobs=1, cache=False)
    expected = {
        file.name: sorted(
            (
                (f.code, f.location.line)
                for f in report.findings
                if Path(f.location.path) == file and f.code != "DL856"  # names may be missing in unfinished texts
            ),
            key=lambda p: (p[1], p[0]),
        )
        for file in files
    }

    async def scenario(editor: Editor) -> None:
        for name in expected:
            editor.open(name)
        for name, wanted in expected.items():
            if client == PULL:
                assert await editor.codes(name) == wanted
            else:
                found = await editor.published(editor.uri(name), lambda items, wanted=wanted: codes(items) == wanted)
                assert found == wanted

    assert any(expected.values())
    run(scenario, root, client=client)


def test_unsaved_text_of_another_file_counts(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        assert await editor.codes("train.py") == []
        editor.open("net.py", SOFTMAX)
        assert await editor.codes("train.py") == [("DL101", 11)]
        editor.change("net.py", MODEL)
        assert await editor.codes("train.py") == []
        editor.change("net.py", SOFTMAX)
        assert await editor.codes("train.py") == [("DL101", 11)]
        editor.close("net.py")  # without saving: what is on disk counts
        assert await editor.codes("train.py") == []

    run(scenario, project)


def test_related_information_leads_into_the_other_file(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        editor.open("train.py")
        (diagnostic,) = await editor.diagnostics("train.py")
        assert diagnostic.source == "dllint"
        assert diagnostic.code_description is None, "as long as the documentation has no address"
        places = [(each.location.uri, each.location.range.start.line) for each in diagnostic.related_information or ()]
        assert (editor.uri("net.py"), 9) in places

    run(scenario, project)


def test_notes_are_hints(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\nseverity = { DL101 = "info" }\n')

    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        editor.open("train.py")
        (diagnostic,) = await editor.diagnostics("train.py")
        assert diagnostic.severity == types.DiagnosticSeverity.Hint

    run(scenario, project)


def test_the_message_says_what_is_assumed() -> None:
    assumptions = (Assumption("default", "`--loss` is `ce`"), Assumption("name", "`net` is a model"))
    place = Location("train.py", 1, 1, 1, 2)
    finding = Finding("DL101", "a-rule", "wrong", place, "error", "correctness", "likely", assumptions)
    lines = ["wrong [a-rule]", "likely", "assuming: `--loss` is `ce`", "assuming: `net` is a model"]
    assert message_of(finding).splitlines() == lines


def test_a_syntax_error_keeps_the_last_good_result(project: Path) -> None:
    (project / "net.py").write_text(SOFTMAX)

    async def scenario(editor: Editor) -> None:
        editor.open("net.py")
        editor.open("train.py")
        assert await editor.codes("train.py") == [("DL101", 11)]
        editor.change("train.py", TRAIN.replace("model = Net()", "model = Net(\n\n"))
        assert await editor.codes("train.py") == [("DL001", 6), ("DL101", 13)]
        editor.change("train.py", TRAIN)
        assert await editor.codes("train.py") == [("DL101", 11)]
        editor.change("net.py", SOFTMAX + "def broken(:\n")
        assert await editor.codes("net.py") == [("DL001", 11)]
        assert await editor.codes("train.py") == [("DL101", 11)]

    run(scenario, project)


def test_a_file_that_is_opened_broken_can_be_mended(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        editor.open("train.py", TRAIN + "(")
        assert await editor.codes("train.py") == [("DL101", 11), ("DL001", 14)]
        editor.change("train.py", TRAIN + "((")
        assert await editor.codes("train.py") == [("DL101", 11), ("DL001", 14)]
        editor.change("train.py", TRAIN)
        assert await editor.codes("train.py") == [("DL101", 11)]

    run(scenario, project)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions_are_counted_as_the_client_counts(encoding: str, project: Path) -> None:
    line = 'print("ñ\U0001f600\u2028", criterion(model(x), y))'
    text = TRAIN.replace("    loss = criterion(model(x), y)\n", f"    loss = 1; {line}\n")
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    row = text.split("\n")[10]

    def units(end: int) -> int:
        return len(row[:end].encode(codec)) // width

    start = row.index("criterion")

    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        editor.open("train.py", text)
        (diagnostic,) = await editor.diagnostics("train.py")
        assert diagnostic.range.start == types.Position(10, units(start))
        editor.edit("train.py", 10, units(start), units(start + len("criterion")), "len")
        assert await editor.diagnostics("train.py") == []
        editor.edit("train.py", 10, units(start), units(start + len("len")), "criterion")
        assert (await editor.diagnostics("train.py"))[0].range == diagnostic.range

    run(scenario, project, encodings=[encoding])


def test_an_unchanged_result_is_not_sent_again(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        uri = editor.open("train.py")
        first = await editor.pull(uri)
        assert isinstance(first, types.RelatedFullDocumentDiagnosticReport)
        again = await editor.pull(uri, first.result_id)
        assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)

    run(scenario, project)


def test_an_unused_suppression_is_tagged(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("train.py", TRAIN + "x = 1  # dllint: ignore[DL101]\n")
        (diagnostic,) = await editor.diagnostics("train.py")
        assert diagnostic.code == "DL004"
        assert list(diagnostic.tags or ()) == [types.DiagnosticTag.Unnecessary]

    run(scenario, project)


def test_files_that_the_configuration_excludes_are_left_alone(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\nexclude = ["train.py"]\n')

    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        editor.open("train.py")
        assert await editor.codes("train.py") == []

    run(scenario, project)


def test_text_that_is_no_source_is_a_warning(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("train.py", "x = 1\0")
        (diagnostic,) = await editor.diagnostics("train.py")
        assert "NUL" in diagnostic.message

    run(scenario, project)


def test_closing_takes_the_diagnostics_away(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        editor.open("net.py", SOFTMAX)
        uri = editor.open("train.py")
        await editor.published(uri, lambda items: len(items) == 1)
        editor.close("train.py")
        await editor.published(uri, lambda items: not items)

    run(scenario, project, client=PUSH)
