"""Who goes on from a checkpoint that lacks an entry which it needs does not get there."""

from __future__ import annotations

from dllint.registry import load_rules
from dllint.testing.linting import Setup, lint

RULES = Setup([rule for rule in load_rules() if rule.code == "DL713"])
SCRIPT = """
import os
import torch
from torch import nn, optim

model = nn.Linear(3, 3)
optimizer = optim.Adam(model.parameters())
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
if os.path.exists("last.pt"):
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer_state"])
for epoch in range(10):
    for x, y in torch.load("batches.pt"):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    torch.save({"model": model.state_dict(), "KEY": optimizer.state_dict()}, "last.pt")
"""


def tiers(key: str, **files: str) -> list[str]:
    """How sure it is that a scheduler starts again."""
    texts = {f"{name}.py": text for name, text in files.items()}
    return [
        finding.confidence
        for linted in lint({"main.py": SCRIPT.replace("KEY", key), **texts}, RULES)
        for finding in linted.findings
    ]


def test_an_entry_that_is_written() -> None:
    assert tiers("optimizer_state") == ["likely"]


def test_an_entry_that_nothing_writes() -> None:
    assert tiers("optimizer") == ["possible"]
    assert tiers("optimizer", other="print(checkpoint['optimizer_state'])") == ["possible"]


def test_an_entry_that_other_code_may_write() -> None:
    assert tiers("optimizer", other="save(optimizer_state=3)") != ["possible"]
    assert tiers("optimizer", other="states['optimizer_state'] = 3") != ["possible"]
    assert tiers("optimizer", other="class States:\n    def save(self):\n        return self.optimizer_state") != [
        "possible"
    ]
