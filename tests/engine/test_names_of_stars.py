"""A name that nothing binds ends a script, whatever star imports and functions of its files bind for themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

CALL = "\ndef save(path, model):\n    return path\n\nsave(1)\n"
GUARD = "\nif __name__ == '__main__':\n    print(label)\n    from elsewhere import save_it\n"
NETS = "import torch\n\ndef show(label):\n    return label\n"


def goes_on(folder: Path, script: str, **files: str) -> bool:
    (folder / "README.md").write_text("# Models\n")
    return bool(run(folder, script + CALL, **files).all_of(CallRefused))


@pytest.mark.parametrize(
    "star",
    [
        "from nets import *",
        "from more import *",
        "from typing import *",
        "from torch.nn import *",
        "from pynvml import *\nfrom os.path import *",
    ],
)
def test_a_star_gives_what_its_module_has(tmp_path: Path, star: str) -> None:
    script = f"{star}\ndef plot(label):\n    return label\n{GUARD}"
    assert not goes_on(tmp_path, script, nets=NETS, more="from nets import *\nfrom math import *\n")


@pytest.mark.parametrize(
    ("star", "nets"),
    [
        ("from nets import *", "label = 3\n"),
        ("from nets import *", "def make():\n    global label\n    label = 3\n"),
        ("from nets import *", "for name in 'ab':\n    label = name\n"),
        ("from nets import *", NETS + "globals().update(label=3)\n"),
        ("from nets import *", NETS + "from fastai.vision import *\n"),
        ("from nets import *", "from other import *\n"),
        ("from fastai.vision import *", NETS),
        ("from typing import *\nlabel = 3", NETS),
        ("import nets\nnets.label = 3\nimport main\nmain.label = 4", NETS),
    ],
)
def test_it_may_be_given_after_all(tmp_path: Path, star: str, nets: str) -> None:
    script = f"{star}\ndef plot(label):\n    return label\n{GUARD}"
    assert goes_on(tmp_path, script, nets=nets, other="label = 3\n")


def test_another_file_of_the_name_may_be_meant(tmp_path: Path) -> None:
    plot = "def plot(label):\n    return label\n"
    script = f"from nets import *\nimport other\n{plot}for each in range(3):\n    print(label)\n"
    assert not goes_on(tmp_path, script, nets=NETS, other="")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "nets.py").write_text("label = 3\n")
    assert goes_on(tmp_path, script, nets=NETS, other="")


LONG = "import torch\n" + "".join(f"value{n} = {n}\n" for n in range(20))


@pytest.mark.parametrize(
    "use",
    [
        "a",
        "for each in range(3):\n    print(a)",
        "try:\n    print(value1, a)\nexcept Exception as error:\n    print(a, error)",
    ],
)
def test_a_long_script_is_no_piece(tmp_path: Path, use: str) -> None:
    assert not goes_on(tmp_path, f"{LONG}{use}\n")


@pytest.mark.parametrize(
    "script",
    [
        "import torch\na\n",
        f"{LONG}a, b\n",
        f"{LONG}from fastai.vision import *\na\n",
        f"{LONG}if torch.cuda.is_available():\n    a = 3\nelse:\n    a = 4\na\n",
        f"{LONG}if torch.cuda.is_available():\n    a\n",
        f"{LONG}try:\n    a\nexcept NameError:\n    pass\n",
        f"{LONG}[a for a in range(3)]\n",
    ],
)
def test_a_piece_may_be_given_names(tmp_path: Path, script: str) -> None:
    assert goes_on(tmp_path, script)
