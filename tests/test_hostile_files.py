"""Files that a linter must survive: each is told of or linted, and the others are linted all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

IMPORT = "import torch.nn.functional as F\n"
BUG = "\nloss = F.cross_entropy(F.softmax(m(x), 1), y)\nloss.backward()\n"

LINTED = {
    "latin.py": "# -*- coding: latin-1 -*-\n# café\n".encode("latin-1") + (IMPORT + BUG).encode(),
    "marked.py": b"\xef\xbb\xbf" + (IMPORT + BUG).encode(),
    "old_mac.py": (IMPORT + BUG).replace("\n", "\r").encode(),
    "many_terms.py": (IMPORT + "z = " + "+".join(["a"] * 10_000) + BUG).encode(),
    "many_losses.py": (IMPORT + "z = " + "+".join(["F.mse_loss(a, b)"] * 3_000) + BUG).encode(),
    "many_attributes.py": (IMPORT + "z = a" + ".b" * 3_000 + BUG).encode(),
    "many_signs.py": (IMPORT + "z = " + "-" * 3_000 + "1" + BUG).encode(),
    "many_calls.py": (IMPORT + "z = " + "F.relu(" * 90 + "a" + ")" * 90 + BUG).encode(),
    "many_cases.py": (IMPORT + "if a: b = 0\n" + "elif a: b = 1\n" * 500 + BUG).encode(),
    "many_items.py": (IMPORT + "z = [" + "1," * 50_000 + "]" + BUG).encode(),
}
TOLD = {
    "binary.py": (b"\x00\x01", "binary.py: binary file (NUL byte at offset 0)"),
    "undeclared.py": (b"# caf\xe9\n", "undeclared.py: not utf-8 text (byte 0xe9 at offset 5)"),
    "odd.py": (b"# coding: nonsense\n", "odd.py: declares an unknown encoding: 'nonsense'"),
    "big.py": (b"x = 1\n" * 900_000, "big.py: larger than the limit of 5 MB"),
    "no.ipynb": (b"[]", "no.ipynb: "),
}


def run(folder: Path, *arguments: str) -> tuple[int, set[tuple[str, str]], str]:
    """The exit code, the file and code of each finding, folded ones too, and what was written to standard error."""
    command = [sys.executable, "-m", "dllint", "check", "--no-cache", "--output-format", "json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    places = {(each["path"], found["code"]) for found in json.loads(done.stdout) for each in (found, *found["others"])}
    return done.returncode, places, done.stderr


def test_what_can_be_read_is_linted(tmp_path: Path) -> None:
    for name, raw in LINTED.items():
        (tmp_path / name).write_bytes(raw)
    assert run(tmp_path) == (1, {(name, "DL101") for name in LINTED}, "")


def test_what_cannot_be_read_is_told_and_the_rest_is_linted(tmp_path: Path) -> None:
    for name, (raw, _) in TOLD.items():
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "fine.py").write_text(IMPORT + BUG)
    code, found, errors = run(tmp_path)
    assert (code, {each for each in found if each[1]}) == (2, {("fine.py", "DL101")})
    for _, message in TOLD.values():
        assert f"dllint: error: {message}" in errors
    assert len(errors.splitlines()) == len(TOLD)


def test_what_python_cannot_parse_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "brackets.py").write_text("x = " + "(" * 300 + ")" * 300)
    assert run(tmp_path) == (1, {("broken.py", "DL001"), ("brackets.py", "DL001")}, "")


def test_a_cell_that_python_cannot_parse_is_a_finding_at_its_place(tmp_path: Path) -> None:
    sources = (IMPORT, "x = 1\nfor (:\n", BUG)
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    command = [sys.executable, "-m", "dllint", "--no-cache", "--output-format", "concise"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "a.ipynb:cell 2:2:6: error[DL001] syntax-error: invalid syntax\n" in done.stdout
    assert "a.ipynb:cell 3:2:8: error[DL101]" in done.stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "nowhere.py").symlink_to("missing.py")
    code, found, errors = run(tmp_path, "pipe.py", "nowhere.py", "missing.py", "--exit-zero")
    assert (code, {each for each in found if each[1]}) == (2, set())
    for message in ("pipe.py: not a regular file", "nowhere.py: broken", "missing.py: no such file or directory"):
        assert f"dllint: error: {message}" in errors


ENDLESS = '''"""A rule that never ends."""
from dllint.api import Rule


class Endless(Rule):
    code = "END001"
    name = "endless"
    category = "correctness"
    triggers = (("endless",),)

    def on_loss_call(self, event, ctx):
        while True:
            pass
'''


def test_a_rule_that_never_ends_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "lints").mkdir()
    (tmp_path / "lints" / "end001_endless.py").write_text(ENDLESS)
    (tmp_path / "dllint.toml").write_text("rule-paths = ['lints']\nexclude = ['lints']\ntime-limit = 0.3\n")
    (tmp_path / "a.py").write_text(IMPORT + BUG + "endless = 1\n")
    (tmp_path / "b.py").write_text(IMPORT + BUG)
    assert run(tmp_path) == (1, {("a.py", "DL101"), ("a.py", "DL003"), ("b.py", "DL101")}, "")


def test_a_file_that_is_indented_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "indented.py").write_text("# only\n    x = 1\n")
    (tmp_path / "fine.py").write_text(IMPORT + BUG)
    code, found, _ = run(tmp_path)
    assert (code, found) == (1, {("indented.py", "DL001"), ("fine.py", "DL101")})


def test_files_that_import_all_of_each_other(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("from tools import *\nrate = float('0.1')\n")
    (tmp_path / "tools.py").write_text("from config import *\n")
    (tmp_path / "train.py").write_text(f"from config import *\n{IMPORT}{BUG}")
    code, found, _ = run(tmp_path)
    assert (code, found) == (1, {("train.py", "DL101")})


def test_what_imports_a_file_that_python_gives_up_on_is_linted(tmp_path: Path) -> None:
    """Such a file may hold anything: names that others import, users of what they define, settings."""
    (tmp_path / "README.md").write_text("a project")
    (tmp_path / "deep.py").write_text("from nets import Net, helper\nNet().measure()\nx = " + "-" * 200_000 + "1\n")
    (tmp_path / "nets.py").write_text(
        "import torch.nn as nn\nimport torch.nn.functional as F\n\nclass Net(nn.Module):\n"
        "    def measure(self, x, y):\n        F.cross_entropy(F.softmax(self(x), 1), y).backward()\n"
    )
    (tmp_path / "main.py").write_text(f"import argparse\nfrom deep import missing, Net\n{IMPORT}m = Net(){BUG}")
    code, found, errors = run(tmp_path)
    codes = {each for each in found if each[1].startswith("DL0")}
    assert (code, codes, errors) == (1, {("deep.py", "DL003")}, "")
