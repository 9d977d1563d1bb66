"""A script that imports what is not there ends there; whether it is there has to be certain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from interpreting import run, run_file

from dllint.events import CallRefused

HERE = "def load(size):\n    return size\n"
CALL = "\ndef save(path, model):\n    return path\n\nsave(1)\n"


@pytest.mark.parametrize(
    ("imports", "text"),
    [
        ("from data import Missing", HERE),
        ("from data import load, Missing as M", HERE),
        ("from data import (load,\n    Missing)", HERE),
        ("if __name__ == '__main__':\n    from data import Missing", HERE),
        ("def main():\n    from data import Missing\n    return Missing\n\nmain()", HERE),
        ("from data import Missing", ""),
    ],
)
def test_nothing_happens_after_it(tmp_path: Path, imports: str, text: str) -> None:
    assert not run(tmp_path, imports + "\n" + CALL, data=text).all_of(CallRefused)


@pytest.mark.parametrize(
    ("imports", "text"),
    [
        ("from data import load", HERE),
        ("from data import *", HERE),
        ("from data import __version__", HERE),
        ("from data import Missing", "from torch.utils.data import *\n"),
        ("from data import Missing", HERE + "globals().update(Missing=load)\n"),
        ("from data import Missing", HERE + "globals()['Mis' + 'sing'] = load\n"),
        ("from data import Missing", "def __getattr__(name):\n    return name\n"),
        ("from data import Missing", "import sys\nsys.modules[__name__] = object()\n"),
        ("from data import Missing", "for name in ('Missing',):\n    exec(f'class {name}: pass')\n"),
        ("from data import Missing", "try:\n    from fast import Missing\nexcept ImportError:\n    pass\n"),
        ("from data import Missing", HERE + "print 'Python 2'\n"),
        ("from elsewhere import Missing", HERE),
        ("from package.data import Missing", HERE),
        ("try:\n    from data import Missing\nexcept ImportError:\n    Missing = None", HERE),
        ("import contextlib\nif contextlib.flag:\n    from data import Missing", HERE),
        ("def main():\n    from data import Missing\n    return Missing", HERE),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from data import Missing", HERE),
    ],
)
def test_anything_else_may_go_on(tmp_path: Path, imports: str, text: str) -> None:
    assert run(tmp_path, imports + "\n" + CALL, data=text).all_of(CallRefused)


@pytest.mark.parametrize(
    "text",
    ["data.Missing(2)", "model = data.Missing", "def main():\n    return data.Missing()\n\nmain()"],
)
def test_nothing_happens_after_a_name_that_the_module_does_not_have(tmp_path: Path, text: str) -> None:
    assert not run(tmp_path, f"import data\n{text}\n{CALL}", data=HERE).all_of(CallRefused)


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("data.load(2)", HERE),
        ("data.__file__", HERE),
        ("data.device = 1\nprint(data.device)", HERE),
        ("data.Missing()", f"{HERE}globals().update(found)\n"),
        ("try:\n    data.Missing()\nexcept AttributeError:\n    pass", HERE),
        ("print(getattr(data, 'Missing', None))", HERE),
        ("if data.flag:\n    data.Missing()", f"{HERE}flag = find()\n"),
    ],
)
def test_a_module_may_have_any_other_name(tmp_path: Path, text: str, module: str) -> None:
    assert run(tmp_path, f"import data\n{text}\n{CALL}", data=module).all_of(CallRefused)


def test_a_library_of_the_same_name_has_it(tmp_path: Path) -> None:
    assert run(tmp_path, "from datasets import load_dataset\n" + CALL, datasets=HERE).all_of(CallRefused)


@pytest.mark.parametrize(
    "text",
    [
        'path = f"{datetime.now()}"',
        "path = datetime.datetime.now()",
        "def stamp():\n    return time.time()\n\nstamp()",
        "if __name__ == '__main__':\n    os.makedirs('out')\n    print(1)",
    ],
)
def test_nothing_happens_after_a_module_that_is_not_imported(tmp_path: Path, text: str) -> None:
    assert not run(tmp_path, f"import torch\n{text}\n{CALL}").all_of(CallRefused)


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime\npath = datetime.now()",
        "import os.path\nos.makedirs('out')",
        "from setup import *\nos.makedirs('out')",
        "exec(open('setup.py').read())\nos.makedirs('out')",
        "def stamp(time):\n    return time.time()\n\nstamp(torch.cuda)",
        "try:\n    os.makedirs('out')\nexcept NameError:\n    import os",
        "try:\n    os.makedirs('out')\nexcept NameError:\n    pass",
        "if torch.cuda.is_available():\n    os.makedirs('out')",
        "def stamp():\n    return time.time()",
        "stamp = lambda: time.time()",
        "model.eval()",
        "model.save(loader.dataset)",
    ],
)
def test_any_other_name_may_be_there(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, f"import torch\n{text}\n{CALL}").all_of(CallRefused)


@pytest.mark.parametrize("text", ["from data import Missing", "os.makedirs('out')"])
def test_a_notebook_goes_on_with_its_next_cell(tmp_path: Path, text: str) -> None:
    (tmp_path / "data.py").write_text(HERE)
    cells = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for source in (f"import torch\n{text}", CALL)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "main.ipynb").write_text(json.dumps(notebook))
    assert run_file(tmp_path / "main.ipynb").all_of(CallRefused)
