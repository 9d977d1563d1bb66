"""Releases that go together: what is known of one package bounds the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_versions_told import found, notebook

from dllint.config.companions import with_companions
from dllint.config.versions import PACKAGES, just_above, version_key
from dllint.interp.source.facts import Facts, load_facts

FACTS: Facts = load_facts()


def limits(told: dict[str, str], fixed: tuple[str, ...] = (), **lowest: str) -> dict[str, str]:
    return with_companions(told, fixed, lowest, FACTS.companions)


@pytest.mark.parametrize(
    ("package", "version", "other", "below"),
    [
        ("torchvision", "0.11.2", "torch", "1.11"),
        ("torchaudio", "2.1.0", "torch", "2.2"),
        ("torchtext", "0.8.1", "torch", "1.8"),
        ("torchtext", "0.6.0", "torch", None),
        ("tensorflow", "1.14", "numpy", "1.22"),
        ("tensorflow", "2.4.1", "numpy", "1.20"),
        ("tensorflow", "2.19", "numpy", None),
        ("scikit-learn", "0.21.2", "torch", "1.14"),
        ("scikit-learn", "1.3.2", "numpy", "2.0"),
        ("scikit-learn", "1.5.0", "numpy", None),
        ("joblib", "1.0.1", "scikit-learn", "1.2"),
        ("joblib", "1.4.2", "scikit-learn", None),
        ("threadpoolctl", "2.2.0", "scikit-learn", "1.5"),
        ("scipy", "1.5.4", "scikit-learn", "1.4"),
        ("scipy", "1.11.1", "scikit-learn", None),
        ("numpy", "1.19.5", "scikit-learn", "1.7"),
        ("numba", "0.56.4", "numpy", "1.24"),
        ("cuda", "10.1", "torch", "1.9"),
        ("cuda", "11.8", "torch", None),
        ("pytorch-cuda", "11.8", "torch", "2.6"),
        ("python", "3.6.9", "torch", "1.11"),
        ("python", "3.9", "numpy", "2.1"),
        ("python", "2.7", "torch", "1.5"),
        ("python", "3.12", "numpy", None),
        ("torch", "1.7.0", "numpy", "1.25"),
        ("torch", "2.1.2", "torchvision", "0.17"),
        ("torch", "2.6.0", "python", None),
        ("audiomentations", "0.11.0", "librosa", "0.7.3"),
        ("audiomentations", "0.30.0", "librosa", "0.10"),
        ("transformers", "4.10.3", "huggingface-hub", None),
        ("transformers", "4.26.0", "huggingface-hub", "1.0"),
        ("transformers", "5.0.0", "huggingface-hub", None),
        ("numpy", "1.16.2", "librosa", "0.10"),
        ("numpy", "1.20.3", "librosa", "0.12"),
        ("numpy", "1.22.4", "matplotlib", "3.9"),
        ("numpy", "1.26.4", "moviepy", None),
    ],
)
def test_what_goes_with_a_release(package: str, version: str, other: str, below: str | None) -> None:
    assert limits({package: just_above(version)}).get(other) == below


def test_what_is_told_stays() -> None:
    assert limits({"python": "3.7", "torch": "2.1.0.1"}, fixed=("torch",))["torch"] == "2.1.0.1"
    assert limits({"python": "3.7", "torch": "2"}, torch="1.4")["torch"] == "1.11"
    assert limits({"python": "3.7"}, torch="1.13").get("torch") is None
    assert limits({"torchvision": "0.17"}, torch="2.0").get("torch") is None  # asked for as `torch>=2.0`
    assert limits({"torchvision": "0.17", "torch": "3"}, torch="2.0")["torch"] == "2.2"
    assert limits({"numpy": "1.18"}, python="3.6")["python"] == "3.9"
    assert limits({"numpy": "0"}) == {"numpy": "0"}  # fixed at a version which nobody tells


def test_the_table_is_one_of_known_packages_in_order() -> None:
    for package, rows in FACTS.companions.items():
        assert package in PACKAGES | {"pororo"}
        keys = [version_key(row) for row in rows]
        assert keys == sorted(keys)
        for others in rows.values():
            assert others.keys() <= PACKAGES and all(map(version_key, others.values()))
    known = FACTS.companions.keys() | PACKAGES
    assert {release.partition(" ")[0] for release in (*FACTS.old_imports.values(), *FACTS.old_calls.values())} <= known


NUMBERS = "import numpy as np\nx = np.zeros(3, dtype=np.float)\n"
LOADS = "import torch\nbest = torch.load('model.pt')\nbest.eval()\n"


@pytest.mark.parametrize(
    ("told", "is_reported"),
    [
        ({"README_md": "- Scikit-learn 0.21.2\n"}, False),
        ({"README_md": "Requires sklearn 0.21.2.\n"}, False),
        ({"README_md": "- Tensorflow 1.14\n"}, False),
        ({"README_md": "- Tensorflow >= 1.14\n"}, True),
        ({"README_md": "- Scikit-learn 1.3\n- CUDA 12.1\n"}, True),
        ({"requirements_txt": "sklearn==0.0\nmatplotlib==3.1\n"}, True),
        ({"requirements_txt": "numba==0.55.1\n"}, False),
        ({"requirements_txt": "numba==0.57.1\n"}, True),
        ({"requirements_txt": "numpy>=1.19,<2\n", "README_md": "Python 3.7\n"}, False),
        ({"requirements_txt": "numpy>=1.24,<2\n", "README_md": "Python 3.7\n"}, True),
    ],
)
def test_a_release_of_another_package_tells_that_of_numpy(
    tmp_path: Path, told: dict[str, str], is_reported: bool
) -> None:
    assert bool(found(tmp_path, "DL842", train_py=NUMBERS, **told)) is is_reported


@pytest.mark.parametrize(
    ("code", "is_reported"),
    [
        ("from torch._six import inf\n", False),
        ("import torch._six\n", False),
        ("def read():\n    from torch._six import inf\n", True),
        ("try:\n    from torch._six import inf\nexcept ImportError:\n    from math import inf\n", True),
        ("from torchtext.data import Field, BucketIterator\n", False),
        ("from torchtext.data.utils import get_tokenizer\n", False),  # none of its releases loads with torch 2.4
        ("import allennlp.modules\n", False),
        ("from sklearn.externals import joblib\n", False),
        ("from sklearn import externals\n", True),
        ("from collections import Iterable\n", True),  # Python 3.9 has a torch 2.8
        ("from torchvision import transforms\nscale = transforms.Scale(224)\n", False),
        ("from torchvision import transforms\nscale = transforms.Resize(224)\n", True),
        ("import torchvision\nfrom torchvision.models.utils import load_state_dict_from_url\n", False),
    ],
)
def test_what_later_releases_have_no_more_ends_the_script_before(tmp_path: Path, code: str, is_reported: bool) -> None:
    (tmp_path / "net.py").write_text(f"{code}names = 3\n")
    assert bool(found(tmp_path, "DL718", train_py=code + LOADS)) is is_reported


def test_what_a_script_imports_at_the_top_ends_it_too(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch._six import inf\n")
    assert not found(tmp_path, "DL718", train_py=f"import net\n{LOADS}")
    assert found(tmp_path, "DL718", train_py=f"def later():\n    import net\n{LOADS}")
    assert found(tmp_path, "DL718", train_py=LOADS)


MODEL = "import torch\ndef load():\n    best = torch.load('model.pt')\n    best.eval()\n"


def test_what_all_scripts_need_ends_what_they_import(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    start = "from model import load\nif __name__ == '__main__':\n    load()\n"
    for script in ("from torch._six import inf\n", "import urllib2\n", "from itertools import izip\n"):
        assert not found(tmp_path, "DL718", train_py=script + start, test_py=script + start)
        assert found(tmp_path, "DL718", train_py=script + start, test_py=start)
        assert found(tmp_path, "DL718", train_py=script + start, test_py=start, model_py=MODEL + "load()\n")
        (tmp_path / "model.py").write_text(MODEL)


def test_a_call_of_what_is_gone_ends_the_script_before(tmp_path: Path) -> None:
    code = "import time\nstart = time.clock()\nimport numpy as np\nx = np.zeros(3, dtype=np.float)\n"
    assert not found(tmp_path, "DL842", train_py=code)
    assert found(tmp_path, "DL842", train_py=code.replace("clock", "time"))


def test_a_module_of_the_project_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "imgaug.py").write_text("size = 3\n")
    code = "import imgaug\nimport numpy as np\nbest = np.Inf\n"
    assert ["np.Inf" in each.message for each in found(tmp_path, "DL842", train_py=code)] == [True]
    (tmp_path / "imgaug.py").unlink()
    assert ["imgaug" in each.message for each in found(tmp_path, "DL842", train_py=code)] == [True]


def test_a_notebook_that_installs_a_torchvision_has_its_torch(tmp_path: Path) -> None:
    cells = (("code", "!pip install torchvision==0.12.0"), ("code", LOADS))
    assert not found(tmp_path, "DL718", a_ipynb=notebook(*cells))
    assert found(tmp_path, "DL718", a_ipynb=notebook(("code", LOADS)))


def test_a_torch_holds_back_what_needs_a_later_one(tmp_path: Path) -> None:
    code = "from torchmetrics import Dice\nscore = Dice(num_classes=3)\n"
    (tmp_path / "requirements.txt").write_text("torch==1.13.1\n")
    assert not found(tmp_path, "DL842", train_py=code)
    (tmp_path / "requirements.txt").write_text("torch==2.4.0\n")
    assert found(tmp_path, "DL842", train_py=code)


def test_accelerate_wraps_nothing_in_a_notebook(tmp_path: Path) -> None:
    made = "import torch\nfrom accelerate import Accelerator, notebook_launcher\naccelerator = Accelerator()\n"
    trained = (
        "def main(model, optimizer, loader):\n"
        "    model, optimizer = accelerator.prepare(model, optimizer)\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))\n"
        "        optimizer.step()\n"
        "    torch.save(model.state_dict(), 'model.pt')\n"
    )
    started = "notebook_launcher(main, (model, optimizer, loader), num_processes=2)\n"
    alone = made.replace(", notebook_launcher", "")
    assert not found(tmp_path, "DL717", a_ipynb=notebook(("code", alone), ("code", trained)))
    assert found(tmp_path, "DL717", a_ipynb=notebook(("code", made), ("code", trained), ("code", started)))
