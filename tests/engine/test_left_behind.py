"""Files that say by their names, or by what they open, that nobody runs them as they are."""

from __future__ import annotations

import pytest
from engine_support import FITS, found, kinds

OLD = "import numpy as np\nprint(np.float(3))\n"


def effects(source: dict[str, str]) -> list[str]:
    """What the only finding of a removed name takes for granted, but for the version of the library."""
    (finding,) = found("DL842", "", source)
    return [each.text for each in finding.assumptions if each.kind == "effect"]


@pytest.mark.parametrize(
    ("folder", "is_question"),
    [
        ("archieve", True),
        ("somebody@192.168.10.118", True),
        ("scratch", True),
        ("transformer_from_scratch", False),
        ("net@work@home", False),
    ],
)
def test_folders(folder: str, is_question: bool) -> None:
    assert bool(effects({f"{folder}/run.py": OLD})) is is_question


@pytest.mark.parametrize(
    ("files", "is_question"),
    [
        ({"train copy.py": OLD, "train.py": FITS}, True),
        ({"train_copy2.py": OLD, "train.py": FITS}, True),
        ({"train (1).py": OLD, "train.py": FITS}, True),
        ({"train - Copy.py": OLD, "train.py": FITS}, True),
        ({"copy of train.py": OLD, "train.py": FITS}, True),
        ({"train copy.py": OLD, "other.py": FITS}, False),
        ({"train_copy.py": OLD, "train.py": FITS, "run.py": f"import train_copy\n{FITS}"}, False),
        ({"train_copy.py": OLD, "train.py": FITS, "README.md": "`python train_copy.py`"}, False),
    ],
    ids=["mac", "numbered", "download", "windows", "colab", "no-original", "imported", "run-by-a-command"],
)
def test_copies(files: dict[str, str], is_question: bool) -> None:
    assert bool(effects(files)) is is_question


@pytest.mark.parametrize(
    ("line", "is_question"),
    [
        ("data = load('/path/to/your/files')", True),
        ("data_dir = 'path/to/data'", True),
        ("root = '/PATH_TO_TEXTURES/train'", True),
        ("DATA_DIR = '/path/to/data'", False),
        ("parser.add_argument('--data', default='/path/to/data')", False),
        ("options = {'data': '/path/to/data'}", False),
        ("data = os.environ.get('DATA', '/path/to/data')", False),
        ("data = load('/data/path_to_all.csv')", False),
        ("data = load('data/paths/total.csv')", False),
        ("print('give the path to the data')", False),
    ],
)
def test_a_placeholder_is_no_path(line: str, is_question: bool) -> None:
    draft = f"import os\nfrom reading import load, parser\n{line}\n{OLD}"
    assert bool(effects({"draft.py": draft, "run.py": FITS})) is is_question


@pytest.mark.parametrize(
    ("files", "is_question"),
    [
        ({"run.py": FITS, "README.md": "`python draft.py`"}, False),
        ({"run.py": f"import draft\n{FITS}"}, False),
        ({"README.md": "put your path into it"}, False),
    ],
    ids=["run-by-a-command", "imported", "the-only-script"],
)
def test_the_script_that_is_run_is_no_draft(files: dict[str, str], is_question: bool) -> None:
    draft = f"from reading import load\ndata = load('/path/to/your/files')\n{OLD}"
    assert bool(effects({"draft.py": draft, **files})) is is_question


USED = "import torch\nimport numpy as np\n\n\ndef scale(x):\n    return np.float(x)\n"


@pytest.mark.parametrize(
    ("importer", "user", "expected"),
    [
        ("tools/loading.py", "", ["effect"]),
        ("loading.py", "", []),
        ("tools/loading.py", "names = ['scaling']\n", []),
        ("tools/loading.py", "# scaling is imported by its name\n", []),
    ],
    ids=["told-nowhere", "from-above", "named", "in-a-comment"],
)
def test_what_may_be_imported_by_any_name_is_told_somewhere(importer: str, user: str, expected: list[str]) -> None:
    files = {
        "nets/scaling.py": USED,
        importer: f"from importlib import import_module\n\ndef read(name):\n    return import_module(name)\n{FITS}",
        "run.py": f"{user}{FITS}",
        "README.md": "",
    }
    (finding,) = found("DL842", "", files)
    assert [each.kind for each in finding.assumptions if each.kind != "version"] == expected


@pytest.mark.parametrize(
    ("first", "is_question"),
    [
        ("# Not used", True),
        ("# (not used)", True),
        ("# This script is no longer used.", True),
        ("# A label that is not used is 0", False),
        ("#!/usr/bin/env python", False),
    ],
)
def test_what_the_first_comment_says(first: str, is_question: bool) -> None:
    assert bool(effects({"run.py": f"{first}\n{OLD}"})) is is_question


def test_what_is_kept_from_earlier_uses_nothing() -> None:
    user = f"from main import scale\n{FITS}\nprint(scale(2))\n"
    files = {"README.md": "", "run.py": f"from main import other\n{FITS}"}
    assert "effect" in kinds("DL842", USED, {**files, "old/run.py": user})
    assert "effect" not in kinds("DL842", USED, {**files, "new/run.py": user})
