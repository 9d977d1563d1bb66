"""What the tests of the engine share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from dllint.findings import Finding
from dllint.registry import load_registry
from dllint.testing.checking import find_rules
from dllint.testing.linting import Setup, lint

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x):
        return self.layers[1](self.layers[0](x))
"""
FITS = "from elsewhere import fit\n\nif __name__ == '__main__':\n    fit()\n"


def found(codes: str, source: str, files: Mapping[str, str] | None = None, *, explicit: bool = False) -> list[Finding]:
    """What some rules, named with blanks between them, find in a project of ``main.py`` and other files.

    With ``explicit`` their pedantic variants, too.
    """
    setup = Setup(find_rules(codes.split(), load_registry((), ()).rules), explicit=explicit)
    texts = {name: textwrap.dedent(text) for name, text in {"main.py": source, **(files or {})}.items()}
    return [finding for linted in lint(texts, setup) for finding in linted.findings]


def kinds(code: str, source: str, files: dict[str, str] | None = None) -> list[str]:
    """The kinds of assumption of the findings in ``main.py``."""
    return [each.kind for finding in found(code, source, files) for each in finding.assumptions]
