"""One root cause is one finding, and what only looks like one stays several."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dllint.assumptions import Assumption
from dllint.cli import main
from dllint.findings import Finding, Hop, Location, Report, fingerprints
from dllint.folding import folded
from dllint.report.sources import SourceCache

TEXT = """\
if amp:
    a = softmax(x)
elif half:
    a = softmax(x)
else:
    b = 1
a = softmax(x)
def train():
    a = softmax(x)
    match kind:
        case 1:
            a = softmax(x)
        case 2:
            a = softmax(x)
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(path: str, line: int, **more: object) -> Finding:
    place = Location(path, line, 5, line, 9)
    return Finding("DL101", "a-rule", "message", place, "error", "correctness", **more)  # type: ignore[arg-type]


def write(path: str, text: str = TEXT) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def fold(*findings: Finding) -> list[list[str]]:
    """The places that each finding stands for, the one it is shown at first."""
    report = folded(Report(list(findings)), SourceCache())
    return [
        [f"{place.path}:{place.line}" for place in (finding.location, *finding.others)] for finding in report.findings
    ]


def began(path: str, line: int, message: str = "softmax is applied here") -> Hop:
    return Hop(Location(path, line, 1, line, 9), message)


def test_a_cause_that_several_places_share() -> None:
    hop = began("model.py", 3)
    assert fold(
        found("a.py", 7, trace=(hop,), scope="train"),
        found("b.py", 2, trace=(hop, began("b.py", 2, "the loss receives it")), scope="test"),
        found("a.py", 9, trace=(began("model.py", 4),)),
    ) == [["a.py:7", "b.py:2"], ["a.py:9"]]


def test_the_first_in_the_order_of_presentation_is_kept() -> None:
    hop = began("model.py", 3)
    report = Report([found("b.py", 2, trace=(hop,)), found("a.py", 9, trace=(hop,)), found("a.py", 7, trace=(hop,))])
    (kept,) = folded(report, SourceCache()).findings
    assert kept.location.line == 7
    assert [(place.path, place.line) for place in kept.others] == [("a.py", 9), ("b.py", 2)]


@pytest.mark.parametrize(
    "change",
    [
        {"code": "DL202"},
        {"message": "another"},
        {"severity": "warning"},
        {"confidence": "likely"},
    ],
)
def test_findings_that_differ_are_not_one(change: dict[str, str]) -> None:
    hop = began("model.py", 3)
    other = replace(found("b.py", 2, trace=(hop,)), **change)  # type: ignore[arg-type]
    assert fold(found("a.py", 7, trace=(hop,)), other) == [["a.py:7"], ["b.py:2"]]


def test_a_trace_that_begins_at_the_place_itself_is_no_cause() -> None:
    write("a.py")
    first, second = found("a.py", 7), found("a.py", 9, scope="train")
    assert fold(*(replace(each, trace=(Hop(each.location, "here"),)) for each in (first, second))) == [
        ["a.py:7"],
        ["a.py:9"],
    ]


def test_copies_of_one_statement_have_traces_with_the_same_text() -> None:
    for name in ("a.py", "b.py"):
        write(name)
    write("c.py", TEXT.replace("b = 1", "b = 2"))
    found_in = [
        found(name, 7, statement="a = softmax(x)", trace=(Hop(Location(name, 6, 5, 6, 9), "made here"),))
        for name in ("a.py", "b.py", "c.py")
    ]
    found_in[1] = replace(found_in[1], location=Location("b.py", 9, 5, 9, 9))  # another place, as lines were put in
    assert fold(*found_in) == [["a.py:7", "b.py:9"], ["c.py:7"]]


def test_copies_of_one_statement_stand_between_the_same_lines() -> None:
    write("a.py", "import torch\n\ndevice = choose()\nif device == 'cuda':\n    go()\n")
    write("b.py", "import torch\nimport math\n\ndevice = choose()\n\nif device == 'cuda':\n    go()\n")
    write("c.py", "device = choose()\nif device == 'cuda':\n    stop()\n")
    write("d.py", "if device == 'cuda':\n    go()\n")
    places = {"a.py": 4, "b.py": 6, "c.py": 2, "d.py": 1}
    copies = [found(path, line, statement="if device == 'cuda':") for path, line in places.items()]
    assert fold(*copies) == [["a.py:4", "b.py:6"], ["c.py:2"], ["d.py:1"]]


def test_a_call_on_the_way_counts_in_one_scope_only() -> None:
    call = began("main.py", 40, "calls `run`")
    assert fold(
        found("a.py", 3, trace=(call,), scope="validate"),
        found("a.py", 5, trace=(call,), scope="validate"),
        found("a.py", 9, trace=(call,), scope="test"),
    ) == [["a.py:3", "a.py:5"], ["a.py:9"]]


def test_arms_of_a_branch() -> None:
    write("a.py")
    assert fold(
        found("a.py", 2),
        found("a.py", 4),
        found("a.py", 7),
        found("a.py", 9, scope="train"),
        found("a.py", 12, scope="train"),
        found("a.py", 14, scope="train"),
    ) == [["a.py:2", "a.py:4"], ["a.py:7"], ["a.py:9"], ["a.py:12", "a.py:14"]]


def test_two_places_in_one_arm_are_two() -> None:
    write("a.py", "if amp:\n    a = softmax(x)\n    b = softmax(x)\nelse:\n    pass\n")
    assert fold(found("a.py", 2), found("a.py", 3)) == [["a.py:2"], ["a.py:3"]]


def test_both_terms_of_one_statement() -> None:
    write("a.py", "loss = -(log(sigmoid(x)) +\n         log(sigmoid(-y)))\nloss = log(z)\nif log(z):\n    b = log(z)\n")
    places = [found("a.py", line) for line in (1, 2, 3, 4, 5)]
    assert fold(*places) == [["a.py:1", "a.py:2"], ["a.py:3"], ["a.py:4"], ["a.py:5"]]
    other = replace(places[1], message="another `message`")
    assert fold(places[0], other) == [["a.py:1"], ["a.py:2"]]


def test_a_function_in_an_arm_is_another_scope() -> None:
    write("a.py", "if amp:\n    def one():\n        softmax(x)\nelse:\n    def two():\n        softmax(x)\n")
    assert fold(found("a.py", 3, scope="one"), found("a.py", 6, scope="two")) == [["a.py:3"], ["a.py:6"]]


@pytest.mark.parametrize("text", ["if a:\n    b(\n", None])
def test_a_file_that_cannot_be_read_has_no_arms(text: str | None) -> None:
    if text is not None:
        write("a.py", text)
    assert fold(found("a.py", 1), found("a.py", 2)) == [["a.py:1"], ["a.py:2"]]


def test_copies_of_a_file() -> None:
    for path in ("one/a.py", "two/deep/b.py"):
        write(path)
    write("three/a.py", TEXT + "# changed\n")
    assert fold(*(found(path, 7) for path in ("one/a.py", "two/deep/b.py", "three/a.py"))) == [
        ["one/a.py:7", "two/deep/b.py:7"],
        ["three/a.py:7"],
    ]
    assert fold(found("one/a.py", 7), found("two/deep/b.py", 9)) == [["one/a.py:7"], ["two/deep/b.py:9"]]


def test_copies_that_have_drifted_apart() -> None:
    same = {"statement": "loss = f(x)", "scope": "train"}
    assert fold(
        found("ex/one/a.py", 7, **same),
        found("ex/two/a.py", 19, **same),
        found("ex/two/b.py", 7, **same),  # another name
        found("other/three/a.py", 7, **same),  # two folders have other names
    ) == [["ex/one/a.py:7", "ex/two/a.py:19"], ["ex/two/b.py:7"], ["other/three/a.py:7"]]
    assert fold(found("ex/one/a.py", 7), found("ex/two/a.py", 19)) == [["ex/one/a.py:7"], ["ex/two/a.py:19"]]


def test_the_second_of_a_kind_is_a_copy_of_the_second() -> None:
    same = {"statement": "loss = f(x)", "scope": "train"}
    places = [(path, line) for path in ("one/a.py", "two/a.py") for line in (3, 9)]
    assert fold(*(found(path, line, **same) for path, line in places)) == [
        ["one/a.py:3", "two/a.py:3"],
        ["one/a.py:9", "two/a.py:9"],
    ]


def test_causes_are_joined() -> None:
    for path in ("one/a.py", "two/a.py"):
        write(path)
    assert fold(found("one/a.py", 2), found("one/a.py", 4), found("two/a.py", 2), found("two/a.py", 4)) == [
        ["one/a.py:2", "one/a.py:4", "two/a.py:2", "two/a.py:4"]
    ]


def test_fingerprints_are_those_among_all() -> None:
    hop = began("model.py", 3)
    first = found("a.py", 1, statement="f(x)", trace=(hop,))
    second = found("a.py", 2, statement="f(x)", trace=(hop,))
    apart = found("a.py", 3, statement="f(x)")
    marks = dict(fingerprints([first, second, apart]))
    report = folded(Report([first, second, apart]), SourceCache())
    assert [report.fingerprints[finding] for finding in report.findings] == [marks[first], marks[apart]]


def test_notes_are_folded_among_themselves() -> None:
    hop = began("model.py", 3)
    notes = [replace(found("a.py", line, trace=(hop,)), severity="info") for line in (1, 2)]
    report = folded(Report([found("a.py", 3, trace=(hop,))], notes=notes), SourceCache())
    assert [len(finding.others) for finding in (*report.findings, *report.notes)] == [0, 1]


def test_possible_findings_are_numbered_last() -> None:
    sure = found("a.py", 9, statement="f(x)")
    doubtful = found("a.py", 1, statement="f(x)", confidence="possible")
    assert dict(fingerprints([doubtful, sure]))[sure] == dict(fingerprints([sure]))[sure]


def test_a_release_that_nothing_rules_out() -> None:
    later = (Assumption("version", "the project runs with numpy 1.24 or a later one"),)
    first, other = (
        replace(found(path, 3, assumptions=later), message=f"`np.{name}` is gone since numpy 1.24")
        for path, name in (("a.py", "float"), ("b.py", "int"))
    )
    assert fold(first, other) == [["a.py:3", "b.py:3"]]
    apart = replace(other, message="`np.Inf` is gone since numpy 2.0")
    assert fold(first, apart) == [["a.py:3", "b.py:3"]]
    [shown] = folded(Report([first, apart]), SourceCache()).findings
    assert [(hop.location.path, hop.message) for hop in shown.trace] == [("b.py", apart.message)]
    assert len(fold(first, replace(apart, confidence="possible"))) == 2
    known = tuple(replace(each, assumptions=()) for each in (first, other))
    assert fold(*known) == [["a.py:3", "b.py:3"]]
    assert len(fold(*(replace(each, message=f"`{each.message[4]}` is refused") for each in known))) == 2


def test_lines_that_differ_in_names_alone() -> None:
    write(
        "a.py",
        "def validate():\n    one.eval()\n    two.eval()\n    three.eval()\n    four.train(False)\n    five.eval()\n",
    )
    left = [
        replace(found("a.py", line), message=f"`{name}` is left in evaluation mode")
        for line, name in enumerate(("one", "two", "three", "four", "five"), 2)
    ]
    assert fold(*left) == [["a.py:2", "a.py:3", "a.py:4"], ["a.py:5"], ["a.py:6"]]
    elsewhere = replace(left[1], scope="other")
    assert len(fold(left[0], elsewhere)) == 2


def test_a_file_stands_before_a_notebook() -> None:
    assumes = (Assumption("version", "the project runs with numpy 2.0 or a later one"),)
    late = Finding(
        "DL842", "removed-api", "gone", Location("z.py", 9, 1, 9, 4), "error", "correctness", assumptions=assumes
    )
    early = replace(late, location=Location("a.ipynb", 2, 1, 2, 4, cell=3))
    assert fold(early, late) == [["z.py:9", "a.ipynb:2"]]


def test_each_project_has_its_releases() -> None:
    write("one/pyproject.toml", "")
    write("two/dllint.toml", "")
    later = (Assumption("version", "the project runs with numpy 1.24 or a later one"),)
    paths = ("one/a.py", "one/src/b.py", "two/pkg/c.py", "two/pkg/d.py", "e.py")
    groups = fold(*(found(path, 3, assumptions=later) for path in paths))
    assert groups == [["e.py:3"], ["one/a.py:3", "one/src/b.py:3"], ["two/pkg/c.py:3", "two/pkg/d.py:3"]]


def test_places_in_one_statement() -> None:
    write(
        "a.py", "loss = -(log(sigmoid(a))\n         + log(1 - sigmoid(b)))\nx = log(sigmoid(a))\nx = log(sigmoid(a))\n"
    )
    both = {"scope": "fit", "statement": "loss = -(log(sigmoid(a)) + log(1 - sigmoid(b)))"}
    alone = {"scope": "fit", "statement": "x = log(sigmoid(a))"}
    findings = [
        found("a.py", 1, **both),
        found("a.py", 2, **both),
        found("a.py", 3, **alone),
        found("a.py", 4, **alone),
    ]
    assert fold(*findings) == [["a.py:1", "a.py:2"], ["a.py:3"], ["a.py:4"]]


FROZEN = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision import models

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = models.resnet18(weights="DEFAULT")
        self.right = models.resnet34(weights="DEFAULT")
        for p in self.left.bn1.parameters():
            p.requires_grad = False
        for p in self.left.layer1.parameters():
            p.requires_grad = False
        for p in self.right.parameters():
            p.requires_grad = False
        self.head = nn.Linear(2000, 2)

    def forward(self, x):
        return self.head(torch.cat((self.left(x), self.right(x)), 1))

model = Net()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    print(model(val_x))
"""


def test_frozen_layers_of_one_network(capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", FROZEN)
    main(["check", "train.py", "--select", "DL602", "--output-format", "jsonl"])
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["line"], [other["line"] for other in each["others"]]) for each in records] == [(12, [14]), (16, [])]
