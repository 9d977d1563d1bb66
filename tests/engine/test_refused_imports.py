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


UNBOUND = [
    "if network and torch.cuda.is_available():\n    print(3)",
    "network.eval()",
    "print(names)",
    "stop = [*texts]",
    "if __name__ == '__main__':\n    fit(epochs)\n    print(1)",
    "def fit():\n    rounds = 3\nfor i in range(rounds):\n    fit()",
    "def fit(i):\n    print(i)\nprint([i for i in range(3)])\nprint(i)",
]


@pytest.mark.parametrize("text", UNBOUND)
def test_a_script_of_a_project_ends_at_a_name_that_nothing_binds(tmp_path: Path, text: str) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    assert not run(tmp_path, f"import torch, data\n{text}\n{CALL}", data=HERE).all_of(CallRefused)


def test_a_program_of_a_project_ends_at_such_a_name_also_if_it_imports_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    text = "import torch\nif __name__ == '__main__':\n    fit(epochs)"
    assert not run(tmp_path, f"{text}\n{CALL}").all_of(CallRefused)


def test_a_script_with_a_model_of_its_own_ends_at_such_a_name_also_if_it_is_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    text = (
        "import torch\nclass Net:\n    pass\nfor epoch in range(3):\n    for x, y in loader:\n        print(Net()(x))"
    )
    assert not run(tmp_path, f"{text}\n{CALL}").all_of(CallRefused)
    assert run(tmp_path, f"import torch\n{text[text.index('for epoch') :]}\n{CALL}").all_of(CallRefused)


def test_what_a_star_brings_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    text = "import torch\nfrom data import *\ndef fit():\n    network.eval()\nfit()\n"
    assert not run(tmp_path, f"{text}\n{CALL}", data=HERE).all_of(CallRefused)


@pytest.mark.parametrize(
    "text",
    [
        "from setup import *\nmodel.eval()",
        "from data import *\nload(3)",
        "from torchvision.models import *\nfrom data import *\nmodel.eval()",
        "globals()['model'] = torch.nn.Linear(3, 3)\nmodel.eval()",
        "def make():\n    global model\n    model = 3\nmake()\nmodel.eval()",
        "try:\n    model.eval()\nexcept NameError:\n    pass",
        "if torch.cuda.is_available():\n    model.eval()",
        "if torch.cuda.is_available() and model:\n    print(model)",
        "ready = torch.cuda.is_available() or model.eval()",
        "print(__file__, __doc__, raw_input)",
        "get_ipython().system('pip install timm')",
        "print([i for i in range(3)], {i: j for i, j in zip('ab', 'cd')}, (lambda i: i)(3))",
        "names = [str(name) for name in [__doc__, 'a'[0]] if name]",
        "names = [name for name in [__doc__]]",
        "for i, (a, *b) in enumerate(zip('ab', 'cd')):\n    pass\nprint(i, a, b)",
        "try:\n    pass\nexcept ValueError as error:\n    print(error)\nwith open('a') as file:\n    print(file)",
        "if (size := len('ab')) > 1:\n    print(size)\nclass Net:\n    width = 3\n    height = width",
        "def make():\n    global rounds\n    rounds = 3\nmake()\nprint(rounds)",
        "import torch.nn as layers\nfrom torch import optim as o\nprint(layers, o, torch)",
        "def evaluate():\n    model.eval()",
        "def evaluate():\n    model.eval()",
        "@profile\ndef evaluate():\n    pass",
    ],
)
def test_a_script_of_a_project_goes_on_elsewhere(tmp_path: Path, text: str) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    assert run(tmp_path, f"import torch, data\n{text}\n{CALL}", data=HERE).all_of(CallRefused)


@pytest.mark.parametrize("text", UNBOUND)
def test_a_script_that_is_being_edited_goes_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    (tmp_path / "data.py").write_text(HERE)
    unsaved = f"import torch, data\n{text}\n{CALL}"
    assert run_file(tmp_path / "main.py", unsaved).all_of(CallRefused)


@pytest.mark.parametrize("text", [each for each in UNBOUND if "__main__" not in each])
@pytest.mark.parametrize(("head", "readme"), [("import torch, data", ""), ("import torch", "# Models\n")])
def test_a_file_alone_may_be_a_piece_of_a_script(tmp_path: Path, head: str, readme: str, text: str) -> None:
    """Such as an example of a page, in whose folder there is a project."""
    if readme:
        (tmp_path / "README.md").write_text(readme)
    assert run(tmp_path, f"{head}\n{text}\n{CALL}", data=HERE).all_of(CallRefused)


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


INSIDE = "def main():\n    from tools.data import Missing\n    return Missing\n\nmain()"


def folders(root: Path, **more: str) -> Path:
    """A script in a folder of a project that imports, in a function, from another one."""
    files = {"README.md": "# Models\n", "tools/data.py": HERE, "scripts/main.py": INSIDE + CALL}
    for name, text in {**files, **more}.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)
    return root / "scripts" / "main.py"


def test_a_function_ends_at_an_import_from_a_file_above_the_script(tmp_path: Path) -> None:
    assert not run_file(folders(tmp_path), root=tmp_path).all_of(CallRefused)


@pytest.mark.parametrize(
    "more",
    [
        {"other/tools/data.py": HERE},
        {"README.md": "PYTHONPATH=lib python scripts/main.py\n"},
        {"scripts/main.py": "import sys\nsys.path.insert(0, find())\n" + INSIDE + CALL},
        {"scripts/main.py": INSIDE.replace("Missing", "load") + CALL},
    ],
    ids=["two", "notes", "path", "there"],
)
def test_another_file_may_be_meant(tmp_path: Path, more: dict[str, str]) -> None:
    assert run_file(folders(tmp_path, **more), root=tmp_path).all_of(CallRefused)
