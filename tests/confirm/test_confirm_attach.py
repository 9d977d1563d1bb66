"""What can be run: notebooks, commands that an installation made, and whatever else starts Python."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import jsonschema
import nbformat
import pytest
from confirm_support import SCRIPTS

from dllint.cli import main
from dllint.confirm.evidence import Settings
from dllint.confirm.listing import EXPERIMENTS, NAMES, chosen, class_name
from dllint.errors import UserError

pytestmark = pytest.mark.slow
SCHEMA = Path(__file__).parents[2] / "docs" / "confirm.schema.json"

CELLS = (
    ("markdown", "# Training"),
    ("code", "%matplotlib inline\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport helper"),
    ("code", "model = nn.Sequential(nn.Linear(4, 2), nn.Softmax(1))\nassert get_ipython() is None\ndisplay(helper.LR)"),
    ("code", "!pip list\noptimizer = torch.optim.SGD(model.parameters(), lr=helper.LR)"),
    (
        "code",
        "for _ in range(5):\n    optimizer.zero_grad()\n"
        "    loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))\n"
        "    loss.backward()\n    optimizer.step()\ntorch.save(model.state_dict(), 'last.pt')",
    ),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_notebook_is_run_where_it_is_and_judged_by_cells(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "work").mkdir()
    (folder / "work" / "helper.py").write_text("LR = 0.125\n")
    cells = [getattr(nbformat.v4, f"new_{kind}_cell")(source) for kind, source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "work" / "train.ipynb")
    before = (folder / "work" / "train.ipynb").read_text()
    assert main(["confirm", "--json", "out.json", "work/train.ipynb"]) == 1
    output = capfd.readouterr()
    assert "CONFIRMED    DL101 work/train.ipynb:cell 5:3 softmax-before-cross-entropy" in output.out
    assert "0.125" in output.err
    assert (folder / "work" / "train.ipynb").read_text() == before
    assert sorted(path.name for path in (folder / "work").iterdir() if path.suffix) == ["helper.py", "train.ipynb"]
    document = json.loads(Path("out.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    (verdict,) = (item for item in document["verdicts"] if item["rule"] == "DL101")
    frame = verdict["evidence"]["stacks"][0][0]
    assert (verdict["cell"], verdict["line"], frame["cell"], frame["line"]) == (5, 3, 5, 3)
    assert frame["path"] == str(folder / "work" / "train.ipynb")


def test_a_notebook_that_is_no_python_is_told_of(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.ipynb").write_text("{")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = =")]), folder / "cell.ipynb")
    assert main(["confirm", "broken.ipynb"]) == 2
    assert main(["confirm", "cell.ipynb"]) == 2
    errors = capfd.readouterr().err
    assert "broken.ipynb cannot be run" in errors and "cell 1 is no Python" in errors


def test_a_command_of_an_installation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "tool.py").write_text("def main():\n    import runpy\n    runpy.run_path('mixed.py')\n")
    (folder / "mixed.py").write_text((SCRIPTS / "mixed.py").read_text())
    (folder / "bin").mkdir()
    command = folder / "bin" / "my-train"
    command.write_text(f"#!{sys.executable}\nimport sys\nfrom tool import main\nsys.exit(main())\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", os.pathsep.join((str(folder / "bin"), os.environ["PATH"])))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    assert main(["confirm", "--steps", "4", "--run", "my-train --lr 3"]) == 1
    output = capfd.readouterr()
    assert "ALARM        DL101 mixed.py:20" in output.out and "ARGUMENTS ['--lr', '3']" in output.err


@pytest.mark.parametrize(
    ("option", "text"), [("-I", "train.py"), ("-u -Es", "train.py --lr 1"), ("-W ignore -IS", "x")]
)
def test_python_that_cannot_be_attached_to(
    folder: Path, option: str, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["confirm", "--run", f"{sys.executable} {option} {text}"]) == 2
    assert f"under `python {option.split()[-1]}` nothing can be attached" in capfd.readouterr().err


def test_says_how_far_attaching_came(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "isolated.sh").write_text(f"exec {sys.executable} -I -c pass\n")
    for words, reason in (
        ("sh isolated.sh", "no Python was attached to"),
        (f"{sys.executable} -c pass", "it imports no torch"),
        (f"{sys.executable} -c 'import torch'", "it imports torch, but"),
    ):
        assert main(["confirm", "--run", words]) == 3
        assert reason in capfd.readouterr().err


def test_probes_are_listed_and_chosen(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", "--probes", "list"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == list(NAMES)
    (folder / "mixed.py").write_text((SCRIPTS / "mixed.py").read_text())
    words = ["--quiet", "--steps", "4", "--json", "out.json", "mixed.py"]
    assert main(["confirm", "--probes", "loss_input", *words]) == 1
    (run,) = json.loads(Path("out.json").read_text())["runs"]
    assert set(run["seconds"]) == {"attachment", "gradients", "names", "loss_input"} and run["errors"] == []


def test_names_of_probes() -> None:
    everything_but_one = chosen("-traces")
    assert "traces" not in everything_but_one and len(everything_but_one) == len(NAMES) - 1
    assert "gradients" in chosen("-gradients")
    for text in ("nowhere", "traces,-order", ","):
        with pytest.raises(UserError):
            chosen(text)


def test_a_probe_is_a_file_and_the_class_of_its_name() -> None:
    from dllint.confirm.probes import PROBES, experiment

    assert sorted(probe.name for probe in PROBES) == list(NAMES)
    for probe in (*PROBES, *map(experiment, EXPERIMENTS)):
        assert probe.__module__ == f"dllint.confirm.probes.{probe.name}"
        assert probe.__name__ == class_name(probe.name)


def test_each_probe_remembers_for_itself() -> None:
    from dllint.confirm.inside.run import Run
    from dllint.confirm.probes import PROBES, experiment

    run = Run(Settings(""))
    for kind in (*PROBES, *map(experiment, EXPERIMENTS)):
        one, other = kind(run), kind(run)
        own = [name for name, value in vars(one).items() if hasattr(value, "copy")]
        assert own and all(vars(one)[name] is not vars(other)[name] for name in own)


LOOKED_FOR = """
import importlib.util
assert importlib.util.find_spec("torch")
import torch.nn as nn
import torch
import torch.nn.functional as F
model = nn.Sequential(nn.Linear(4, 2), nn.Softmax(1))
for _ in range(4):
    F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
"""


def test_libraries_may_look_for_torch_before_they_import_it(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(LOOKED_FOR)
    assert main(["confirm", "train.py"]) == 1
    assert "CONFIRMED    DL101" in capfd.readouterr().out


EVALUATION = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 64), nn.Linear(64, 2)

    def forward(self, x):
        return self.last(F.dropout(self.first(x), 0.1, {training}))


model = Model().eval()
with torch.no_grad():
    for _ in range(4):
        model(torch.randn(8, 4))
"""


@pytest.mark.parametrize(("training", "drops"), [("True", True), ("self.training", False)])
def test_a_script_that_only_evaluates(
    training: str, drops: bool, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("evaluate.py").write_text(EVALUATION.format(training=training))
    assert main(["confirm", "evaluate.py"]) == int(drops)
    output = capfd.readouterr().out
    assert ("random-in-evaluation evaluate.py:19" in output) == drops
    assert "run: 0 steps" in output
