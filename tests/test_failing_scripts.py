"""What is found in a script that certainly fails is a question, unless the failure itself is what is reported."""

from __future__ import annotations

import pytest

from dllint.registry import load_rules
from dllint.testing.linting import Setup, lint

RULES = Setup([rule for rule in load_rules() if rule.code in ("DL843", "DL846")])
SCRIPT = """
import argparse
import torch
from library import build

def main(args):
    model = build({body})
    torch.optim.AdamW(model.parameters(), lr=1e-3)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    {more}
    args = parser.parse_args()
    main(args)
"""


def tiers(body: str, more: str = "") -> dict[str, str]:
    """How sure each finding is."""
    (linted,) = lint({"main.py": SCRIPT.replace("{body}", body).replace("{more}", more)}, RULES)
    return {finding.code: finding.confidence for finding in linted.findings}


def test_a_script_that_goes_on() -> None:
    assert tiers("args.depth") == {"DL846": "likely"}


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("args.depth, args.vocabulary", ""),
        ("args.depth", "parser.add_argument('--depth', type=int)"),
    ],
)
def test_a_script_that_fails(body: str, more: str) -> None:
    assert tiers(body, more) == {"DL846": "possible"}


def test_who_imports_a_script_has_none_of_what_is_below_its_main_guard() -> None:
    script = SCRIPT.replace("{body}", "args.depth, args.vocabulary").replace("{more}", "")
    linted = lint({"main.py": script, "other.py": "from main import main\nmain(None)\n"}, RULES)
    assert [each.confidence for one in linted for each in one.findings if each.code == "DL846"] == ["possible"]


def test_a_script_whose_failure_is_reported() -> None:
    assert tiers("main(args.depth, 3)") == {"DL843": "likely", "DL846": "likely"}


TRAINING = """
import torch
import torch.nn as nn
import torch.nn.functional as F

model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(loader):
    for epoch in range(10):
        for x, y in loader:
            loss = F.cross_entropy(F.softmax(model(x), 1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        {inside}
    {after}

if __name__ == "__main__":
    train(torch.load("data.pt"))
    {last}
"""


def tier_in_training(inside: str = "pass", after: str = "pass", last: str = "pass") -> str:
    """How sure it is that a loss gets probabilities."""
    rules = Setup([rule for rule in load_rules() if rule.code == "DL101"])
    code = TRAINING.replace("{inside}", inside).replace("{after}", after).replace("{last}", last)
    (linted,) = lint({"main.py": code, "README.md": "# Nets"}, rules)
    (finding,) = linted.findings
    return str(finding.confidence)


def test_training_that_fails_in_its_first_round() -> None:
    assert tier_in_training() != "possible"
    assert tier_in_training("print(loss.item(), 'of', os.getcwd())") == "possible"
    assert tier_in_training("print(f\"{loss.item():.4f if loss else 'N/A'}\")") == "possible"


def test_what_is_trained_to_the_end_is_trained() -> None:
    assert tier_in_training(after="print(os.getcwd())") != "possible"
    assert tier_in_training(last="print(os.getcwd())") != "possible"
    assert tier_in_training("print(epoch)\n        if epoch > 5:\n            print(os.getcwd())") != "possible"
