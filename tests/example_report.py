"""One realistic report, written in any format: two files, a notebook, fixes, problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

from dllint.engine_rules import ENGINE_RULES
from dllint.findings import Edit, Finding, Fix, Hop, Location, Problem, Report
from dllint.report import render

MODEL = "src/ünet model.py"
MODEL_TEXT = """\
import torch.nn.functional as F


class Net(Base):
    def forward(self, x):
        return F.softmax(self.head(x), dim=1)
"""
TRAIN_TEXT = """\
# 训练 🚀
for x, y in loader:
    loss = criterion(net(x), y)
    loss.backward(); opt = torch.optim.Adam(net.parameters(), weight_decay=0.1)
"""
CELLS = ["# Title\nwith text", "%matplotlib inline\nimport torch", 'scheduler.step()  # "first"\noptimizer.step()\n']


def location(path: str, needle: str, cell: int | None = None) -> Location:
    """Where ``needle`` is in a file (or in a cell of the notebook), for ranges within one line."""
    text = Path(path).read_text(encoding="utf-8") if cell is None else CELLS[cell - 1]
    before = text[: text.index(needle)]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return Location(path, line, column, line, column + len(needle), cell)


def example_report() -> Report:
    """The report, with the files that it is about written to the working directory."""
    Path("src").mkdir()
    Path(MODEL).write_text(MODEL_TEXT, encoding="utf-8")
    Path("src/train.py").write_text(TRAIN_TEXT, encoding="utf-8")
    cells = [nbformat.v4.new_markdown_cell(CELLS[0]), *(nbformat.v4.new_code_cell(cell) for cell in CELLS[1:])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), "nb.ipynb")
    adam = TRAIN_TEXT.index("Adam")
    return Report(
        findings=[
            Finding(
                "DL303", "scheduler-before-optimizer", "`scheduler.step()` before `optimizer.step()`",
                location("nb.ipynb", "scheduler.step()", 3), "warning", "correctness",
                statement="scheduler.step()",
            ),
            Finding(
                "DL301", "adam-weight-decay", "`Adam` with weight decay: 100% <wrong>",
                location("src/train.py", "torch.optim.Adam(net.parameters(), weight_decay=0.1)"),
                "info", "suspicious", "likely", confirmable=True, statement="opt = …",
                fixes=(Fix("use `AdamW`", (Edit(adam, adam + 4, "AdamW"),), "unsafe"),),
            ),
            Finding(
                "DL101", "softmax-before-cross-entropy", "softmax output passed to a loss that applies log-softmax",
                location("src/train.py", "criterion(net(x), y)"), "error", "correctness",
                effect="the loss still falls, but not to zero", help="return the scores",
                scope="Trainer.fit", statement="loss = criterion(net(x), y)",
                trace=(
                    Hop(location(MODEL, "F.softmax(self.head(x), dim=1)"), "softmax is applied here"),
                    Hop(location("src/train.py", "criterion(net(x), y)"), "the loss receives it"),
                ),
            ),
        ],
        problems=[Problem("unreadable", "no such file", "gone.py"), Problem("config", "unknown key `selct`")],
        files=4,
        suppressed=2,
    )  # fmt: skip


def written(report: Report, fmt: str, **options: Any) -> str:
    """A report in a format, from the working directory."""
    return render(report, fmt, root=Path(), rules=ENGINE_RULES, **options)
