"""One call of `eval()` mends all that is evaluated in a pass: the first place is the finding."""

from __future__ import annotations

from dllint.registry import load_rules
from dllint.testing.linting import Setup, lint

RULES = Setup([rule for rule in load_rules() if rule.code == "DL207"])
CODE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
        self.decoder = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1))

    def forward(self, x):
        return self.decoder(self.encoder(x))

class Losses:
    def __init__(self, model):
        self.model = model

    def compute(self, x):
        return F.mse_loss(self.decode(self.model.encoder(x)), x)

    def decode(self, code):
        return self.model.decoder(code)

def draw(model, x):
    return model(x).mean()

def score(model, x):
    return model(x).sum()

model = Coder()
losses = Losses(model)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(10):
    model.train()
    for x, _ in train_loader:
        optimizer.zero_grad()
        losses.compute(x).backward()
        optimizer.step()
    with torch.no_grad():
        {evaluation}
"""


def lines(evaluation: str) -> list[str]:
    """The text of each line at which DL207 is reported."""
    code = CODE.replace("{evaluation}", evaluation)
    (linted,) = lint({"main.py": code}, RULES)
    return [code.splitlines()[found.location.line - 1].strip() for found in linted.findings]


def test_parts_of_what_computes_the_losses() -> None:
    assert lines("for x, _ in test_loader:\n            print(losses.compute(x))") == [
        "return F.mse_loss(self.decode(self.model.encoder(x)), x)"
    ]


def test_functions_that_one_loop_calls() -> None:
    assert lines("for x, _ in test_loader:\n            print(score(model, x), draw(model, x))") == [
        "return model(x).sum()"
    ]


def test_loops_after_each_other() -> None:
    loops = "for x, _ in val_loader:\n            print(score(model, x))\n        " + (
        "for x, _ in test_loader:\n            print(draw(model, x))"
    )
    assert len(lines(loops)) == 2
