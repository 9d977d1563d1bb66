"""The formats for people: exact output, and lines that are hard to show."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllint.findings import Edit, Finding, Fix, Hop, Location, Problem, Report
from dllint.report import render
from dllint.report.columns import Row, _lay_out, left_margin
from dllint.report.frame import Layout, frame
from dllint.report.style import Style
from dllint.report.summary import summary_line

MODELS = """\
import torch.nn.functional as F


class Net(Base):
    def forward(self, x):
        x = self.head(x)
        return F.softmax(x, dim=1)
"""
TRAIN = """\
net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(
    net.parameters(),
    weight_decay=0.01,
)

for images, labels in loader:
    scores = net(images)
    loss = criterion(scores, labels)
    loss.backward()
"""
ADAM = TRAIN.index("Adam")

SOFTMAX = Finding(
    code="DL101",
    name="softmax-before-cross-entropy",
    message="softmax output passed to `CrossEntropyLoss`, which applies log-softmax itself",
    location=Location("train.py", 10, 12, 10, 37),
    severity="error",
    category="correctness",
    effect="The loss still falls, but its gradients are squashed, and the model ends up less accurate.",
    help="return the scores from `forward` and apply softmax where probabilities are wanted",
    trace=(
        Hop(Location("models.py", 7, 16, 7, 35), "softmax is applied here"),
        Hop(Location("train.py", 9, 14, 9, 25), "`Net.forward` returns it"),
        Hop(Location("train.py", 10, 12, 10, 37), "the loss receives it"),
    ),
)
DECAY = Finding(
    code="DL301",
    name="adam-weight-decay",
    message="`Adam` mixes weight decay into its statistics",
    location=Location("train.py", 3, 13, 6, 2),
    severity="warning",
    category="suspicious",
    confidence="likely",
    fixes=(Fix("use `AdamW`", (Edit(ADAM, ADAM + 4, "AdamW"),), "unsafe"),),
    confirmable=True,
)

FULL = """\
error[DL101]: softmax output passed to `CrossEntropyLoss`, which applies log-softmax itself
  --> train.py:10:12 (softmax-before-cross-entropy)
   |
 9 |     scores = net(images)
10 |     loss = criterion(scores, labels)
   |            ^^^^^^^^^^^^^^^^^^^^^^^^^
11 |     loss.backward()
   |
   = effect: The loss still falls, but its gradients are squashed, and the model ends up less
       accurate.
   = trace: how it comes about
     1. models.py:7:16  softmax is applied here
         7 |         return F.softmax(x, dim=1)
           |                ~~~~~~~~~~~~~~~~~~~
     2. train.py:9:14  `Net.forward` returns it
         9 |     scores = net(images)
           |              ~~~~~~~~~~~
     3. train.py:10:12  the loss receives it
   = help: return the scores from `forward` and apply softmax where probabilities are wanted

warning[DL301]: `Adam` mixes weight decay into its statistics
 --> train.py:3:13 (adam-weight-decay, likely)
  |
2 |   criterion = nn.CrossEntropyLoss()
3 |   optimizer = torch.optim.Adam(
  |  _____________^
4 | |     net.parameters(),
5 | |     weight_decay=0.01,
6 | | )
  | |_^
  |
  = fix (unsafe, applied by --fix --unsafe-fixes): use `AdamW`
       2 | criterion = nn.CrossEntropyLoss()
       3 - optimizer = torch.optim.Adam(
       3 + optimizer = torch.optim.AdamW(
       4 |     net.parameters(),
  = note: likely, not certain: `dllint confirm` can settle it by running the script

Found 1 error, 1 warning in 1 of 2 files (1 fixable with --fix --unsafe-fixes)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(tmp_path)
    Path("models.py").write_text(MODELS)
    Path("train.py").write_text(TRAIN)
    return Report([SOFTMAX, DECAY], files=2)


def full(report: Report, **options: object) -> str:
    return render(report, "full", root=Path(), **options)  # type: ignore[arg-type]


def test_full(project: Report) -> None:
    assert full(project) == FULL


def test_what_is_said_of_the_place_itself_is_a_note(project: Report) -> None:
    project.findings = [replace(SOFTMAX, trace=SOFTMAX.trace[2:])]
    text = full(project)
    assert "   = note: the loss receives it\n   = help:" in text and "trace" not in text


def test_colors_change_nothing_else(project: Report) -> None:
    project.findings[0] = replace(SOFTMAX, url="https://example.org/DL101")
    for fmt, plain in (("full", FULL), ("concise", render(project, "concise", root=Path()))):
        painted = render(project, fmt, root=Path(), color=True)
        assert "\x1b[1;31merror[DL101]\x1b[0m" in painted
        assert "\x1b]8;;https://example.org/DL101\x1b\\" in painted
        assert re.sub(r"\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\", "", painted) == plain


def test_concise(project: Report) -> None:
    assert render(project, "concise", root=Path()).splitlines() == [
        "train.py:10:12: error[DL101] softmax-before-cross-entropy: softmax output passed to `CrossEntropyLoss`, "
        "which applies log-softmax itself",
        "train.py:3:13: warning[DL301] adam-weight-decay: `Adam` mixes weight decay into its statistics (likely)",
        "Found 1 error, 1 warning in 1 of 2 files (1 fixable with --fix --unsafe-fixes)",
    ]


def test_missing_and_changed_files_leave_out_the_code(project: Report) -> None:
    Path("train.py").write_text("short = 1\n")
    Path("models.py").unlink()
    lines = full(project).splitlines()
    assert lines[:3] == [
        *FULL.splitlines()[:2],
        "   = effect: The loss still falls, but its gradients are squashed, and the model ends up less",
    ]
    assert "     1. models.py:7:16  softmax is applied here" in lines
    assert not any("|" in line for line in lines)
    assert "  = fix (unsafe, applied by --fix --unsafe-fixes): use `AdamW`" in lines


def test_overlay_is_shown_instead_of_the_file(project: Report) -> None:
    text = full(project, overlay={Path("train.py").absolute(): TRAIN.replace("images", "pixels")})
    assert "scores = net(pixels)" in text
    assert "images" not in text


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = ["import torch", "%matplotlib inline\nx = 1\nscheduler.step()\noptimizer.step()"]
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells]), tmp_path / "nb.ipynb"
    )
    place = Location("nb.ipynb", 3, 1, 3, 17, 2)
    finding = Finding("DL303", "scheduler-first", "too early", place, "error", "correctness")
    assert full(Report([finding], files=1)).splitlines()[:7] == [
        "error[DL303]: too early",
        " --> nb.ipynb:cell 2:3:1 (scheduler-first)",
        "  |",
        "2 | x = 1",
        "3 | scheduler.step()",
        "  | ^^^^^^^^^^^^^^^^",
        "4 | optimizer.step()",
    ]


@pytest.mark.parametrize("fmt", ["full", "concise"])
@pytest.mark.parametrize(("counts", "hinted"), [((3, 1), True), ((1, 3), False), ((None, None), False)])
def test_cells_that_were_run_in_another_order_are_hinted_at(
    fmt: str, counts: tuple[int | None, int | None], hinted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [nbformat.v4.new_code_cell("x = 1", execution_count=count) for count in counts]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "nb.ipynb")
    finding = Finding("DL303", "x", "m", Location("nb.ipynb", 1, 1, 1, 2, 2), "error", "correctness")
    text = render(Report([finding, finding], files=1), fmt, root=tmp_path, width=120)
    assert text.count("the cells were last run in the order 2, 1") == (0 if not hinted else 2 if fmt == "full" else 1)


def test_fix_of_a_notebook_counts_lines_of_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dllint.files.source import read_source

    monkeypatch.chdir(tmp_path)
    cells = ["import torch", "%matplotlib inline\nscheduler.step()\noptimizer.step()"]
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells]), tmp_path / "nb.ipynb"
    )
    text = read_source(Path("nb.ipynb")).text
    first, second = text.index("scheduler.step()"), text.index("optimizer.step()")
    edits = (Edit(first, second, ""), Edit(second + 16, second + 16, "\nscheduler.step()"))
    place = Location("nb.ipynb", 2, 1, 2, 17, 2)
    finding = Finding("DL303", "x", "m", place, "error", "correctness", fixes=(Fix("s", edits, "safe"),))
    lines = full(Report([finding], files=1)).splitlines()
    start = lines.index("  = fix (safe, applied by --fix): s")
    assert lines[start + 1 : start + 5] == [
        "       1 | %matplotlib inline",
        "       2 + optimizer.step()",
        "       2 | scheduler.step()",
        "       3 - optimizer.step()",
    ]


def fix_diff(text: str, edits: tuple[Edit, ...]) -> list[str]:
    Path("a.py").write_text(text, newline="")
    finding = Finding(
        "DL999", "x", "m", Location("a.py", 1, 1, 1, 2), "error", "correctness", fixes=(Fix("s", edits, "safe"),)
    )
    lines = full(Report([finding], files=1)).splitlines()
    start = lines.index(next(line for line in lines if "= fix" in line)) + 1
    return [line.strip() for line in lines[start:-2]]


def test_far_edits_are_shown_apart_with_new_line_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "".join(f"line{number}\r\n" for number in range(1, 10))
    edits = (Edit(text.index("line8"), text.index("line9"), ""), Edit(0, 0, "import a\r\nimport b\r\n"))
    assert fix_diff(text, edits) == [
        "1 + import a", "2 + import b", "1 | line1", "...", "7 | line7", "8 - line8", "9 | line9",
    ]  # fmt: skip


def test_a_long_diff_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = fix_diff("a\n", (Edit(0, 1, "\n".join(f"line{n}" for n in range(100))),))
    assert len(rows) == 41
    assert rows[-1] == "... 61 more lines"


def shown(text: str, place: Location, width: int = 40) -> list[str]:
    layout = Layout(digits=2, width=width, style=Style(False))
    return frame(text.split("\n"), place, layout, mark="^", tone="red", around=1)


def test_tabs_and_wide_characters_keep_the_marks_below_the_code() -> None:
    assert shown("\tloss = f('训练🚀', x)", Location("a.py", 1, 9, 1, 20)) == [
        " 1 |     loss = f('训练🚀', x)",
        "   |            ^^^^^^^^^^^^^^",
    ]
    assert shown("x = 'e\u0301' + y", Location("a.py", 1, 12, 1, 13)) == [" 1 | x = 'e\u0301' + y", "   |           ^"]


def test_control_characters_are_made_visible() -> None:
    assert shown("a = '\x1b[31m\u202e' # b", Location("a.py", 1, 1, 1, 2))[0] == " 1 | a = '␛[31m\ufffd' # b"


def test_long_lines_are_cut_around_the_range() -> None:
    line = "x = [" + "1, " * 10_000 + "TARGET, " + "2, " * 10_000 + "]"
    start = line.index("TARGET") + 1
    top, marks = shown(line, Location("a.py", 1, start, 1, start + 6))
    assert len(top) <= 40
    assert top.startswith(" 1 | … 1")
    assert top.endswith("…")
    assert top[marks.index("^") : marks.rindex("^") + 1] == "TARGET"
    everything = shown(line, Location("a.py", 1, 1, 1, len(line) + 1))
    assert all(len(row) <= 40 for row in everything)


def test_edges_of_ranges() -> None:
    assert shown("ab", Location("a.py", 1, 3, 1, 3)) == [" 1 | ab", "   |   ^"], "the place after the last character"
    assert shown("", Location("a.py", 1, 1, 1, 1)) == [" 1 |", "   | ^"]
    assert shown("ab", Location("a.py", 2, 1, 2, 1)) == []
    assert shown("ab\n\n\ncd\n\n", Location("a.py", 4, 1, 4, 3)) == [" 4 | cd", "   | ^^"], "no blank lines around"
    assert shown("f(\n  1)", Location("a.py", 1, 1, 9, 1)) == [" 1 | / f(", " 2 | |   1)", "   | |____^"]


def test_long_ranges_leave_out_their_middle() -> None:
    text = "\n".join(f"line{number}" for number in range(1, 21))
    rows = shown(text, Location("a.py", 2, 1, 19, 7))
    assert rows == [
        " 1 |   line1", " 2 | / line2", " 3 | | line3", " 4 | | line4", " 5 | | line5", "...  |",
        "18 | | line18", "19 | | line19", "   | |______^", "20 |   line20",
    ]  # fmt: skip


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60), st.integers(16, 50))
def test_rows_fit_their_width(line: str, start: int, end: int, width: int) -> None:
    drop = left_margin(line, start, end, width)
    row = Row(line, drop, width)
    assert len(_lay_out(row.text)[0]) <= width
    assert 0 <= row.column(start - drop) <= width


@given(st.text(max_size=80), st.tuples(*[st.integers(1, 8)] * 4))
def test_frames_never_fail(text: str, numbers: tuple[int, int, int, int]) -> None:
    for row in shown(text.replace("\r", ""), Location("a.py", *numbers)):
        assert row == row.rstrip()


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (Report(), "No files to check"),
        (Report(files=1), "Found nothing in 1 file"),
        (Report(files=9, suppressed=2, baselined=3), "Found nothing in 9 files (2 suppressed, 3 in the baseline)"),
        (
            Report(files=9, problems=[Problem("crash", "x")]),
            "Found nothing in 9 files; 1 problem kept dllint from checking everything",
        ),
        (Report([SOFTMAX], files=1), "Found 1 error in 1 file"),
        (
            Report([SOFTMAX, DECAY, DECAY, replace(DECAY, fixes=(Fix("s", (), "safe"),), severity="info")], files=3),
            "Found 1 error, 2 warnings, 1 note in 1 of 3 files "
            "(1 fixable with --fix, 2 more with --fix --unsafe-fixes)",
        ),
    ],
)
def test_summary(report: Report, line: str) -> None:
    assert summary_line(report) == line
