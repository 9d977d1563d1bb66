"""What a project tells of its versions anywhere, as the rules get to know it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dllint.cli.project import find_project, lint
from dllint.config.load import ConfigLoader, Source
from dllint.findings import Finding

READS_RATE = """\
import torch
optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
momentum = 1 - scheduler.get_lr()[0]
optimizer.param_groups[0]["momentum"] = momentum
"""
RESUMES = 'import pytorch_lightning as pl\ntrainer = pl.Trainer(resume_from_checkpoint="last.ckpt")\n'


def found(folder: Path, code: str, **files: str) -> list[Finding]:
    """The findings of a rule in a project with one script, and some files that have another ending than `.py`."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    selected = Source("command line", folder, {"extend-select": ["PREVIEW"]})
    project = find_project([str(folder)], ConfigLoader(overrides=[selected]))
    lint(project, jobs=1, cache=False)
    return [finding for part in project.parts for finding in part.report.findings if finding.code == code]


@pytest.mark.parametrize(
    ("readme", "is_early"),
    [("- pytorch 1.0\n", True), ("- PyToch 1.0\n", True), ("- PyTorch 1.4.0\n", False), ("- pytorch >= 1.0\n", False)],
)
def test_a_release_that_a_readme_names_may_be_too_early(tmp_path: Path, readme: str, is_early: bool) -> None:
    assert bool(found(tmp_path, "DL313", train_py=READS_RATE, README_md=readme)) is not is_early


@pytest.mark.parametrize(
    ("code", "script", "told"),
    [("DL313", READS_RATE, "torch>=1.4"), ("DL710", RESUMES, "lightning>=2"), ("DL710", RESUMES, "torch==1.10")],
)
def test_what_no_version_is_told_for_is_assumed(tmp_path: Path, code: str, script: str, told: str) -> None:
    [finding] = found(tmp_path, code, train_py=script)
    assert "version" in [each.kind for each in finding.assumptions]
    kinds = [each.kind for each in found(tmp_path, code, requirements_txt=told) for each in each.assumptions]
    assert "version" not in kinds


def notebook(*cells: tuple[str, str]) -> str:
    made = [{"cell_type": kind, "metadata": {}, "source": source.splitlines(True)} for kind, source in cells]
    for cell in made:
        cell.update({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


LOADS = "from datasets import load_metric\nmetric = load_metric('f1')\n"


@pytest.mark.parametrize(
    ("told", "assumed"),
    [
        (("code", "!pip install -q datasets==1.5.0 tqdm"), None),
        (("code", "%pip install 'datasets<3'"), None),
        (("code", "!pip install -q \\\n  tqdm \\\n  datasets==1.5.0"), None),
        (("markdown", "    pip install datasets==1.5.0  # important\n"), None),
        (("code", "!pip install datasets"), True),
        (("code", "!pip install other-datasets==1.5.0"), True),
        (("code", "print('pip install datasets==1.5.0')"), True),
        (("code", "!pip install datasets==3.2"), False),
    ],
)
def test_a_notebook_tells_what_it_runs_with(tmp_path: Path, told: tuple[str, str], assumed: bool | None) -> None:
    findings = found(tmp_path, "DL842", a_ipynb=notebook(told, ("code", LOADS)), b_ipynb=notebook(("code", LOADS)))
    of_one = {Path(each.location.path).name: bool(each.assumptions) for each in findings}
    assert of_one == {"b.ipynb": True} | ({} if assumed is None else {"a.ipynb": assumed})


@pytest.mark.parametrize(
    ("told", "is_early"), [("datasets==1.5.0", True), ("datasets", False), ("datasets==3.2", False)]
)
def test_a_notebook_tells_what_the_code_beside_it_runs_with(tmp_path: Path, told: str, is_early: bool) -> None:
    tutorial = notebook(("code", f"!pip install -q {told} tqdm"), ("code", "import metrics"))
    assert bool(found(tmp_path, "DL842", metrics_py=LOADS, tutorial_ipynb=tutorial)) is not is_early


def test_an_early_scipy_needs_an_early_python(tmp_path: Path) -> None:
    assert found(tmp_path, "DL842", train_py="import numpy as np\nbest = np.Inf\n", README_md="scipy 1.14\n")
    assert not found(tmp_path, "DL842", README_md="scipy 1.2.1\n")


def test_what_a_script_asserts_tells_what_it_runs_with(tmp_path: Path) -> None:
    asserted = (
        ('datasets.__version__ == "1.5.0"', False),
        ('datasets.__version__ == "1.5.0" or True', True),
        ('datasets.__version__ >= "1.5.0"', True),
        ("datasets.__version__ == 3", True),
        ('datasets.__version__.split(".")[0] == "1"', False),
        ('datasets.__version__.split(".")[1] == "1"', True),
        ('datasets.__version__.split(".", 1)[0] == "4"', True),
        ('datasets.__version__[0] == "1"', False),
        ('datasets.__version__.startswith("1.")', False),
        ('datasets.__version__.startswith("1")', True),
    )
    for test, is_found in asserted:
        script = f"import datasets\nassert {test}  # version check\n{LOADS}"
        assert bool(found(tmp_path, "DL842", train_py=script)) is is_found


def test_what_a_cell_or_an_imported_file_asserts_tells_what_they_run_with(tmp_path: Path) -> None:
    asserts = "import datasets\nassert datasets.__version__[0] == '1'\n"
    assert not found(tmp_path, "DL842", a_ipynb=notebook(("code", asserts), ("code", LOADS)))
    (tmp_path / "a.ipynb").unlink()
    assert found(tmp_path, "DL842", train_py=f"import checked\n{LOADS}", checked_py="")
    assert not found(tmp_path, "DL842", checked_py=asserts)
    assert found(tmp_path, "DL842", train_py=LOADS)


def test_what_a_script_has_installed_tells_what_it_runs_with(tmp_path: Path) -> None:
    installed = (
        ('image.pip_install("tqdm", "datasets[audio]>=1.4,<2.0")', False),
        ('image.pip_install("tqdm", "datasets")', True),
        ('image.pip_install("datasets>=1.4")', True),
        ('image.apt_install("datasets==1.5.0")', True),
        ("image.pip_install(*packages)", True),
    )
    for call, is_found in installed:
        script = f"import modal\nimage = modal.Image.debian_slim()\nimage = {call}\n{LOADS}"
        assert bool(found(tmp_path, "DL842", train_py=script)) is is_found


def test_the_text_at_the_top_of_a_script_tells_what_it_runs_with(tmp_path: Path) -> None:
    texts = (("pip install datasets==1.5.0", False), ("Needs no datasets 1.5.", True), ("Computes a score.", True))
    for told, is_found in texts:
        script = f'"""{told}"""\n{LOADS}'
        assert bool(found(tmp_path, "DL842", train_py=script)) is is_found


@pytest.mark.parametrize(
    ("file", "text", "is_found"),
    [
        ("kept/code/net/README.md", "Needs datasets 2.1.\nPython 3.6\n", False),
        ("kept/code/net/readme_of_model.md", "Python 3.6\n", False),
        ("kept/code/net/requirements.txt", "datasets==1.5.0\n", False),
        ("kept/code/net/environment.yml", "dependencies:\n  - python=3.6\n", False),
        ("kept/code/net/changelog.md", "datasets==1.5.0\n", True),
        ("kept/code/other/README.md", "Python 3.6\n", True),
        ("kept/code/net/part/README.md", "Python 3.6\n", True),
    ],
)
def test_notes_deep_in_a_project_tell_of_what_is_around_them(
    tmp_path: Path, file: str, text: str, is_found: bool
) -> None:
    for path, content in (("kept/code/net/tools/train.py", LOADS), (file, text)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert bool(found(tmp_path, "DL842", README_md="A collection.\n")) is is_found


@pytest.mark.parametrize(("asked", "count"), [("[]", 0), ("", 1)])
def test_a_notebook_that_asks_its_parser_about_an_empty_list(tmp_path: Path, asked: str, count: int) -> None:
    """Nobody can give it an option, whatever a file that it imports asks of the command line."""
    options = "import argparse\nimport torch\nimport tools\nparser = argparse.ArgumentParser()\n"
    cell = f"{options}parser.add_argument('--path')\nargs = parser.parse_args({asked})\ntools.fit(torch.ones(3))\n"
    tools = "import argparse\n\ndef fit(x):\n    return argparse.ArgumentParser().parse_args()\n"
    assert len(found(tmp_path, "DL846", a_ipynb=notebook(("code", cell)), tools_py=tools)) == count


LOADS_WHOLE = 'import torch\nmodel = torch.load("model.pt")\nmodel.eval()\n'
SAVES_WHOLE = 'import torch\nmodel = torch.nn.Linear(2, 2)\ntorch.save(model, "model.pt")\n'


@pytest.mark.parametrize(
    ("told", "is_known"),
    [
        ({"README_md": "    conda install pytorch torchvision cudatoolkit=11.3 -c pytorch\n"}, True),
        ({"README_md": "conda install -c pytorch \\\n    pytorch torchvision\n"}, True),
        ({"setup_sh": "conda install pytorch::pytorch\n"}, True),
        ({"environment_yml": "channels:\n  - pytorch\n  - defaults\ndependencies:\n  - python\n  - pytorch\n"}, True),
        ({"README_md": "conda install pytorch -c conda-forge -c pytorch\n"}, False),
        ({"README_md": "conda install pytorch -c conda-forge\n"}, False),
        ({"README_md": "conda install faiss-cpu -c pytorch\n"}, False),
        ({"environment_yml": "channels:\n  - conda-forge\n  - pytorch\ndependencies:\n  - pytorch\n"}, False),
        ({"environment_yml": "channels:\n  - pytorch\ndependencies:\n  - faiss-cpu\n"}, False),
    ],
)
def test_the_channel_of_pytorch_has_no_torch_after_2_5(tmp_path: Path, told: dict[str, str], is_known: bool) -> None:
    script = SAVES_WHOLE + LOADS_WHOLE.partition("\n")[2]
    assert bool(found(tmp_path, "DL718", train_py=script, **told)) is not is_known


def test_the_channel_of_pytorch_does_not_tell_which_torch_it_was(tmp_path: Path) -> None:
    note = "conda create -n x python=3.6\nconda install pytorch cudatoolkit=10.0 -c pytorch\n"
    script = "import torch\nfrom torch._six import inf\nprint(torch.ones(1), inf)\n"
    assert not found(tmp_path, "DL842", train_py=script, README_md=note)
    assert found(tmp_path, "DL842", train_py=script, README_md=note.partition("\n")[2].replace("=10.0", ""))


LISTED = ("numpy", "pytorch", "scipy", "tqdm", "zlib")


@pytest.mark.parametrize(
    ("name", "text", "is_known"),
    [
        ("setup_txt", "accelerate==0.21.0\ntorch==2.1.0\nnumpy==1.24.4\nscipy==1.10\nx @ file:///x.whl\n", True),
        ("env_txt", "\n".join(["@EXPLICIT", *(f"https://x.org/{n}-1.9.0-py37_0.conda" for n in LISTED)]), True),
        ("env_txt", "\n".join(["# platform: linux-64", *(f"{n}=1.9.0=py37_0" for n in LISTED)]), True),
        ("links_txt", "\n".join(f"https://x.org/{n}-1.9.0.html" for n in LISTED), False),
        ("classes_txt", "accelerate\ntorch==2.1.0\nnumpy\nscipy\nx\n", False),
        ("setup_txt", "torch==2.1.0\n", False),
        ("requirements_txt", "http://x.org/whl/cu80/torch-0.2.0.post3-cp35-cp35m-manylinux1_x86_64.whl\n", True),
        ("requirements_txt", "https://x.org/whl/cu130/torch-2.11.0%2Bcu130-cp312-cp312-linux_x86_64.whl\n", False),
        ("requirements_txt", "@EXPLICIT\nhttps://x.org/main/linux-64/python-dateutil-2.7.5-py37_0.tar.bz2\n", False),
        ("requirements_txt", "@EXPLICIT\nhttps://x.org/main/linux-64/numpy-1.15.4-py37h7e9f1db_0.tar.bz2\n", True),
        ("requirements_txt", "@EXPLICIT\nhttps://x.org/main/linux-64/numpy-2.1.3-py312h7e9f1db_0.conda#8f\n", False),
    ],
)
def test_what_pip_has_frozen_may_be_called_anything(tmp_path: Path, name: str, text: str, is_known: bool) -> None:
    script = SAVES_WHOLE + LOADS_WHOLE.partition("\n")[2]
    assert bool(found(tmp_path, "DL718", train_py=script, **{name: text})) is not is_known


TUNES = """\
from trl import SFTConfig, SFTTrainer
trainer = SFTTrainer("gpt2", train_dataset=data, args=SFTConfig(max_seq_length=512))
trainer.train()
"""


@pytest.mark.parametrize(
    ("code", "script", "told", "is_ruled_out"),
    [
        ("DL842", TUNES, "trl>=0.9\ndatasets>=2.18,<3.0\n", True),
        ("DL842", TUNES, "trl>=0.9\ndatasets>=2.18,<5.0\n", False),
        ("DL842", "import numpy as np\nx = np.trapz([1])\n", "torch==2.2\n", True),
        ("DL842", "import numpy as np\nx = np.trapz([1])\n", "torch==2.6\n", False),
    ],
)
def test_a_release_needs_what_those_before_it_need(
    tmp_path: Path, code: str, script: str, told: str, is_ruled_out: bool
) -> None:
    assert bool(found(tmp_path, code, train_py=script, requirements_txt=told)) is not is_ruled_out


@pytest.mark.parametrize(("readme", "is_found"), [("- spacy 2.1.8\n", False), ("- spaCy 3.1\n", True), ("", True)])
def test_notes_tell_releases_of_other_libraries(tmp_path: Path, readme: str, is_found: bool) -> None:
    script = "import spacy\nimport torch\nnlp = spacy.load('en')\n"
    assert bool(found(tmp_path, "DL842", train_py=script, README_md=readme)) is is_found
