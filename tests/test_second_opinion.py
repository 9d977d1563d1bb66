"""What is asked of astroid: classes that only it can resolve, from the text of one file and nothing else."""

from __future__ import annotations

import pytest

from dllint.registry import load_rules
from dllint.testing.linting import Linted, Setup, lint

PRELUDE = """\
import argparse
import torch.nn as nn
import torch.nn.functional as F


class Base(nn.Module):
    def forward(self, x):
        return F.softmax(self.fc(x), dim=1)


"""
RULES = Setup([rule for rule in load_rules() if rule.code == "DL101"])


def linted(bases: str, **files: str) -> Linted:
    code = f"{PRELUDE}class Net({bases}):\n    pass\n\n\nloss = F.cross_entropy(Net()(x), y)\n"
    return lint({"main.py": code, **{f"{name}.py": text for name, text in files.items()}}, RULES)[0]


@pytest.mark.parametrize("bases", ["type(Base())", "type('Other', (Base,), {}).__mro__[1]"])
def test_a_base_class_is_inferred(bases: str) -> None:
    assert [finding.code for finding in linted(bases).findings] == ["DL101"]


@pytest.mark.parametrize("bases", ["type(argparse)", "models.a.Base", "argparse.unknown().Base", "type(models.a)"])
def test_no_other_file_is_opened(bases: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from astroid.builder import AstroidBuilder

    def opened(self: AstroidBuilder, path: str, modname: str | None = None) -> None:
        raise AssertionError(f"opened {path}")

    monkeypatch.setattr(AstroidBuilder, "file_build", opened)
    assert linted(bases, models="class a: ...\n").findings == []
