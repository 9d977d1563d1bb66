"""The user's own facts in ``[tool.dllint.knowledge]``: rules find with them what they find of torch's own names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dllint.interp.source.facts import load_facts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = """\
[project]
name = "example"

[tool.dllint.knowledge.{table}]
{entry}
"""
MODEL = """\
import torch
{imports}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(x).{activation}


{code}
loss.backward()
"""
ALIAS = "aliases", '"mylib.FancyCE" = "torch.nn.CrossEntropyLoss"'
CLASS = "criterion = mylib.FancyCE()\nloss = criterion(Net()(x), y)"


def project(folder: Path, table: str, entry: str, imports: str, code: str, activation: str = "softmax(1)") -> None:
    (folder / "pyproject.toml").write_text(PYPROJECT.format(table=table, entry=entry))
    (folder / "train.py").write_text(MODEL.format(imports=imports, code=code, activation=activation))


def codes(folder: Path, *paths: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "dllint",
        "check",
        "--no-cache",
        "--output-format",
        "json",
        *(paths or ("train.py",)),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [finding["code"] for finding in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("table", "entry", "imports", "code"),
    [
        (*ALIAS, "import mylib", CLASS),
        (*ALIAS, "from mylib import FancyCE as Loss", "loss = Loss()(Net()(x), y)"),
        ("aliases", '"mylib.ce" = "torch.nn.functional.cross_entropy"', "import mylib", "loss = mylib.ce(Net()(x), y)"),
        (
            "prefixes",
            '"mylib.losses" = "torch.nn"',
            "import mylib",
            "loss = mylib.losses.CrossEntropyLoss()(Net()(x), y)",
        ),
        ("loss-class", '"mylib.FancyCE" = "torch.nn.functional.cross_entropy: weight"', "import mylib", CLASS),
    ],
)
def test_a_loss_like_cross_entropy(tmp_path: Path, table: str, entry: str, imports: str, code: str) -> None:
    project(tmp_path, table, entry, imports, code)
    assert codes(tmp_path) == ["DL101"]
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'example'\n")
    assert codes(tmp_path) == []


def test_an_activation_of_the_users_own(tmp_path: Path) -> None:
    code = "loss = torch.nn.functional.cross_entropy(mylib.normed(x), y)"
    project(tmp_path, "aliases", '"mylib.normed" = "torch.nn.functional.softmax"', "import mylib", code, "relu()")
    assert codes(tmp_path) == ["DL101"]


@pytest.mark.parametrize(("file", "name"), [("losses.py", "losses.FancyCE"), ("own/__init__.py", "own.FancyCE")])
def test_a_class_of_the_project(tmp_path: Path, file: str, name: str) -> None:
    module = name.rpartition(".")[0]
    entry = f'"{name}" = "torch.nn.functional.cross_entropy: "'
    project(
        tmp_path,
        "loss-class",
        entry,
        f"from {module} import FancyCE\nfrom elsewhere import x, y",
        "loss = FancyCE()(Net()(x), y)",
    )
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("class FancyCE:\n    def __call__(self, input, target): ...\n")
    assert codes(tmp_path) == codes(tmp_path, file, "train.py") == ["DL101"]


def test_a_class_of_the_same_file(tmp_path: Path) -> None:
    code = "class FancyCE:\n    def __call__(self, input, target): ...\n\n\nloss = FancyCE()(Net()(x), y)"
    project(tmp_path, "aliases", '"train.FancyCE" = "torch.nn.CrossEntropyLoss"', "", code)
    assert codes(tmp_path) == ["DL101"]


def test_what_is_declared_without_parameters(tmp_path: Path) -> None:
    kinds = (
        "optimizer",
        "scheduler",
        "scaler",
        "sampler",
        "loader",
        "dataset",
        "wrapper",
        "clip",
        "seed",
        "checkpoint",
    )
    tables = "".join(f'[tool.dllint.knowledge.{kind}]\n"mylib.{kind}" = ""\n' for kind in kinds)
    project(
        tmp_path, "aliases", f'"mylib.a" = "mylib.b"\n"mylib.b" = "mylib.a"\n{tables}', "import mylib", "mylib.a(x)"
    )
    with (tmp_path / "pyproject.toml").open("a") as file:
        file.write('[tool.dllint.knowledge.loss]\n"mylib.loss" = {input = "logits"}\n')
        file.write('[tool.dllint.knowledge.loss-class]\n"mylib.Loss" = ""\n"mylib.Other" = "mylib.other"\n')
    calls = "".join(f"mylib.{kind}(x)\nmylib.{kind}()\n" for kind in (*kinds, "loss", "Loss", "Other"))
    (tmp_path / "train.py").write_text(f"import mylib\n{calls}mylib.Loss()(x, y)\nmylib.Other()(x, y).backward()\n")
    assert codes(tmp_path) == []


def _named(table: Mapping[str, Any]) -> Iterator[str]:
    """The names of torch in a table of facts."""
    for key, entry in table.items():
        listed = entry if isinstance(entry, list) else ()
        yield from (each.removesuffix("()") for each in (key, *listed) if str(each).startswith("torch."))
        if isinstance(entry, dict):
            yield from _named(entry)


def test_torch_is_known_by_the_modules_that_define_it() -> None:
    """People also import a class from the file that it stands in, as editors propose: ``torch.nn.modules.rnn.LSTM``."""
    torch = pytest.importorskip("torch")
    with (files("dllint.knowledge") / "torch.toml").open("rb") as file:
        tables = {name: table for name, table in tomllib.load(file).items() if name not in ("aliases", "prefixes")}
    facts, found = load_facts({}), 0
    for name in sorted(set(_named(tables))):
        thing = torch
        for part in name.split(".")[1:]:
            thing = getattr(thing, part, None)
        origin = f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', None)}"
        if origin.startswith("torch.") and "._" not in origin:
            found += 1
            assert facts.canonical(origin) == facts.canonical(name)
    assert found > 100


def test_the_functional_module_of_another_path() -> None:
    facts = load_facts({})
    assert facts.canonical("torch.functional.F.mse_loss") == facts.canonical("torch.nn.functional.mse_loss")
    assert facts.canonical("torch.functional.F") == "torch.nn.functional"
    assert facts.canonical("torch.functional.einsum") == "torch.einsum"
