"""Questions as a rule asks them, about a small program that is interpreted for it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from dllint.api import Context, Event, Finding, Program, Rule
from dllint.testing.linting import Setup, lint

PRELUDE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
train_loader = DataLoader(train_set, batch_size=4, shuffle=True)
held_out = DataLoader(other_set, batch_size=4)
"""


def ask(code: str, question: Callable[[Context], object], *, kind: str = "module") -> Any:
    """The answer to a question about a script, or about the last definition of it that is interpreted by itself."""
    answers: list[object] = []

    class Asking(Rule):
        code = "AXC99"
        name = "asking"
        category = "correctness"
        triggers = (("torch",),)

        def on_program(self, program: Program, ctx: Context) -> Iterable[Finding]:
            if program.kind == kind:
                answers.append(question(ctx))
            return ()

    lint({"main.py": PRELUDE + textwrap.dedent(code)}, Setup([Asking], sieve=False))
    return answers[-1]


def last(ctx: Context, kind: type[Event]) -> Any:
    """The last event of a kind."""
    return ctx.all_of(kind)[-1]
