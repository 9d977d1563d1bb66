"""Names of libraries that late releases do not have: what programs that need them say, and what is claimed of these."""

from __future__ import annotations

from pathlib import Path

import pytest

from dllint.cli.project import find_project, lint
from dllint.config.load import ConfigLoader
from dllint.config.versions import PACKAGES, version_key
from dllint.findings import Finding
from dllint.interp.source import library_names
from dllint.interp.source.facts import load_facts
from dllint.interp.source.library_names import TABLE, gone

NUMBERS = "import numpy as np\ndef count():\n    return np.zeros(3, dtype=np.float)\ncount()\n"
SUMMARY = "from gensim.summarization import summarize\n"


def found(folder: Path, code: str, **files: str) -> list[Finding]:
    """What a rule finds in a project, questions among it; the names of the files are given with `_` for the dot."""
    (folder / "dllint.toml").write_text(f'select = ["{code}"]\nconfidence = "possible"\n')
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    project = find_project([str(folder)], ConfigLoader())
    lint(project, jobs=1, cache=False)
    return [finding for part in project.parts for finding in part.report.findings]


def doubts(findings: list[Finding]) -> list[str]:
    """What is assumed of a finding, as the program needs what is gone, which is one itself."""
    [finding] = [each for each in findings if "at the latest" not in each.message]
    return [each.text for each in finding.assumptions if "later releases do not have" in each.text]


@pytest.mark.parametrize(
    ("dotted", "package", "name"),
    [
        ("gensim.summarization.summarizer.summarize", "gensim", "gensim.summarization"),
        ("transformers.XLMProphetNetForConditionalGeneration", "transformers", None),
        ("torchaudio.set_audio_backend", "torchaudio", None),
        ("huggingface_hub.HfFolder", "huggingface-hub", None),
        ("pytorch_lightning.metrics.Accuracy", "pytorch-lightning", "pytorch_lightning.metrics"),
        ("torchtext.data.Field", "torchtext", None),
        ("torch._utils._accumulate", "torch", None),
        ("moviepy.editor.VideoFileClip", "moviepy", "moviepy.editor"),
        ("torch.ifft", "torch", None),
        ("catalyst.dl.State", "catalyst", None),
        ("pydicom.read_file", "pydicom", None),
        ("gdal", "gdal", None),
        ("osr.SpatialReference", "gdal", "osr"),
        ("pl_bolts.datamodules.CIFAR10DataModule", "pytorch-lightning", "pl_bolts"),
        ("pytorch_lightning.Trainer.add_argparse_args", "pytorch-lightning", None),
    ],
)
def test_what_is_gone(dotted: str, package: str, name: str | None) -> None:
    known = gone(dotted)
    assert known is not None and (known.package, known.name) == (package, name or dotted)


@pytest.mark.parametrize(
    "dotted",
    [
        *("torch", "torch.nn.Linear", "torch.cuda.amp.GradScaler", "torch.load", "torch.utils.data.DataLoader"),
        *("torchvision.transforms.Compose", "torchvision.models.resnet18", "numpy.float32", "numpy.random.seed"),
        *("transformers.AutoModel", "transformers.BertModel", "transformers.BertTokenizerFast", "PIL.Image.open"),
        *("sklearn.metrics.f1_score", "scipy.signal.windows.hann", "matplotlib.pyplot.plot", "pandas.DataFrame"),
        *("osgeo.gdal", "pytorch_lightning.Trainer.fit", "gdalnumeric"),
        *("timm.create_model", "timm.models.layers.DropPath", "sklearn.externals", "nothing.at.all", ""),
    ],
)
def test_what_there_is(dotted: str) -> None:
    assert gone(dotted) is None


def test_a_script_that_imports_a_module_which_no_release_has(tmp_path: Path) -> None:
    assert doubts(found(tmp_path, "DL842", main_py=f"import gdal\n{NUMBERS}"))


def test_a_module_that_a_script_may_do_without(tmp_path: Path) -> None:
    text = "try:\n    from osgeo import gdal\nexcept ImportError:\n    import gdal\n"
    assert not doubts(found(tmp_path, "DL842", main_py=text + NUMBERS))


def test_the_table_is_one_of_known_packages() -> None:
    text = TABLE.read_text("utf-8")
    assert len(text) < 500_000
    for line in text.splitlines():
        first, *rest = line.split(" ")
        if first == "==":
            assert rest[1] in PACKAGES | load_facts().companions.keys()
        elif first and not first.startswith("#"):
            assert version_key(rest[0]) and len(rest) > 1, line


@pytest.mark.parametrize(
    "code",
    [
        SUMMARY + NUMBERS,
        f"import gensim\n{NUMBERS}print(gensim.summarization)\n",
        f"import gensim\nclass Text(gensim.summarization.Text):\n    pass\n{NUMBERS}",
        f"{NUMBERS}if __name__ == '__main__':\n    {SUMMARY}",
        f"with open('log') as file:\n    import gensim\n    gensim.summarization.log(file)\n{NUMBERS}",
        f"import net\n{NUMBERS}",
        f"from net import size\n{NUMBERS}",
        f"import parts.net\n{NUMBERS}",
    ],
)
def test_a_claim_about_late_releases_assumes_what_they_do_not_have(tmp_path: Path, code: str) -> None:
    (tmp_path / "net.py").write_text(f"{SUMMARY}size = 3\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text(SUMMARY)
    (tmp_path / "parts" / "net.py").write_text("size = 3\n")
    findings = found(tmp_path, "DL842", train_py=code)
    assert len(doubts(findings)) == 1
    assert {each.confidence for each in findings if "np.float" in each.message} == {"possible"}


@pytest.mark.parametrize(
    "code",
    [
        f"try:\n    {SUMMARY}except ImportError:\n    summarize = None\n{NUMBERS}",
        f"def later():\n    {SUMMARY}\n{NUMBERS}",
        f"import os\nif os.name:\n    {SUMMARY}{NUMBERS}",
        f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {SUMMARY}{NUMBERS}",
        f"import gensim\nif hasattr(gensim, 'summarization'):\n    print(gensim.summarization)\n{NUMBERS}",
        f"import gensim\nprint(hasattr(gensim, 'summarization') and gensim.summarization)\n{NUMBERS}",
        f"import sys\nsys.modules['gensim.summarization'] = sys\n{SUMMARY}{NUMBERS}",
        f"import numpy as np\nsize = np.zeros(3, dtype=np.float)\n{SUMMARY}",  # which fails first
        f"from gensim.models import Word2Vec\n{NUMBERS}",
        f"from summaries import summarize\n{NUMBERS}",
    ],
)
def test_what_may_be_left_out_says_nothing(tmp_path: Path, code: str) -> None:
    (tmp_path / "summaries.py").write_text(f"def summarize(text):\n    {SUMMARY}    return text\n")
    findings = [each for each in found(tmp_path, "DL842", train_py=code) if "np.float" in each.message]
    assert not doubts(findings)


@pytest.mark.parametrize(
    "code",
    [
        "import moviepy.editor as mpy\nprint(mpy.VideoFileClip('x'))\n",
        "from moviepy.editor import VideoFileClip\nprint(VideoFileClip('x'))\n",
        "from moviepy import editor\nprint(editor.VideoFileClip('x'))\n",
    ],
)
def test_an_import_that_fails_is_one_finding(tmp_path: Path, code: str) -> None:
    [finding] = found(tmp_path, "DL842", train_py=code)
    assert (finding.location.line, finding.confidence) == (1, "likely")
    assert finding.message == "`moviepy.editor` is gone since moviepy 2.2.1 at the latest"


def test_what_stands_after_the_end_of_a_script_is_a_question(tmp_path: Path) -> None:
    findings = found(tmp_path, "DL842", train_py=f"from datasets import load_metric\n{NUMBERS}")
    assert {each.message.partition("`")[2].partition("`")[0]: each.confidence for each in findings} == {
        "datasets.load_metric": "likely",
        "np.float": "possible",
    }


def test_a_module_that_a_program_makes_itself_is_there(tmp_path: Path) -> None:
    code = "import sys\nsys.modules['moviepy.editor'] = sys\nimport moviepy.editor\n"
    assert not found(tmp_path, "DL842", train_py=code)


@pytest.mark.parametrize(
    ("told", "is_doubted"),
    [("", True), ("gensim\n", True), ("gensim>=3.6\n", True), ("gensim==3.8.3\n", False), ("gensim<4\n", False)],
)
def test_a_project_that_stays_with_an_earlier_release_has_the_name(tmp_path: Path, told: str, is_doubted: bool) -> None:
    findings = found(tmp_path, "DL842", train_py=SUMMARY + NUMBERS, requirements_txt=told)
    assert bool(doubts(findings)) is is_doubted


def test_a_module_of_the_project_may_be_called_like_a_library(tmp_path: Path) -> None:
    (tmp_path / "copies" / "gensim").mkdir(parents=True)
    (tmp_path / "copies" / "gensim" / "summarization.py").write_text("def summarize(text):\n    return text\n")
    assert not doubts(found(tmp_path, "DL842", train_py=SUMMARY + NUMBERS))


def test_what_only_such_programs_import_is_not_reached_either(tmp_path: Path) -> None:
    (tmp_path / "numbers_of.py").write_text(NUMBERS.replace("\ncount()", ""))
    use = "from numbers_of import count\nif __name__ == '__main__':\n    print(count())\n"
    assert doubts(found(tmp_path, "DL842", train_py=SUMMARY + use))
    assert not doubts(found(tmp_path, "DL842", train_py=SUMMARY + use, test_py=use))


def test_a_bug_of_any_release_is_one_in_such_a_program(tmp_path: Path) -> None:
    code = """\
import torch
from data import loader
model = torch.nn.Linear(3, 2)
for x, y in loader:
    loss = torch.nn.CrossEntropyLoss()(torch.softmax(model(x), 1), y)
    loss.backward()
"""
    assert not doubts(found(tmp_path, "DL101", train_py=SUMMARY + code))


def test_a_name_that_is_gone_tells_the_releases_of_what_goes_with_it(tmp_path: Path) -> None:
    code = "import torch\nbest = torch.load('model.pt')\nbest.eval()\n"
    assert not found(tmp_path, "DL718", train_py=f"from torch._utils import _accumulate\n{code}")
    assert found(tmp_path, "DL718", train_py=f"from torch._utils import _flatten_dense_tensors\n{code}")


LOADS = "import torch\nbest = torch.load('model.pt')\nbest.eval()\n"
SIGNALS = "import torch\ndef signal(x):\n    return torch.ifft(x, 2)\n"


@pytest.mark.parametrize(
    ("code", "is_doubted"),
    [
        (f"{SIGNALS}print(signal(torch.zeros(3, 2)))\n{LOADS}", True),
        (f"import signals\nprint(signals.signal(torch.zeros(3, 2)))\n{LOADS}", True),
        (f"{SIGNALS}{LOADS}", False),  # which nobody calls
        (f"if hasattr(torch, 'ifft'):\n    torch.ifft(torch.zeros(3, 2), 2)\n{LOADS}", False),
        (f"torch.fft.ifft(torch.zeros(3))\n{LOADS}", False),
        (
            f"import pydicom\ndef read():\n    return pydicom.read_file('x')\nread()\n{LOADS}",
            False,
        ),  # which tells nothing of torch
    ],
)
def test_who_uses_an_early_name_anywhere_has_an_early_release(tmp_path: Path, code: str, is_doubted: bool) -> None:
    (tmp_path / "signals.py").write_text(SIGNALS)
    (tmp_path / "README.md").write_text("Run train.py.\n")
    findings = found(tmp_path, "DL718", train_py=f"import torch\n{code}if __name__ == '__main__':\n    print(best)\n")
    assert bool(doubts(findings)) is is_doubted


def test_an_early_name_that_is_gone_later_says_nothing(tmp_path: Path) -> None:
    code = "import librosa\ndef filters():\n    return librosa.filters.constant_q(22050)\nprint(filters())\n"
    assert not doubts(found(tmp_path, "DL842", train_py=f"{code}librosa.stft(librosa.load('x')[0], 1024)\n"))


def test_the_table_is_read_when_somebody_asks(tmp_path: Path) -> None:
    library_names._parts.cache_clear()
    library_names._names_of.cache_clear()
    found(tmp_path, "DL718", train_py="import torch\nx = torch.zeros(3).mean().backward()\n")
    assert not library_names._parts.cache_info().currsize
