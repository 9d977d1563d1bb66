"""What is found in a script that certainly fails is a question, unless the failure itself is what is reported."""

from __future__ import annotations

import pytest

from dllint.registry import load_rules
from dllint.testing.linting import Setup, lint

RULES = Setup([rule for rule in load_rules() if rule.code in ("DL843", "DL846")])
SCRIPT = """
import argparse
import torch

def main(args):
    model = build({body})
    torch.optim.AdamW(model.parameters(), lr=1e-3)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
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


def test_a_script_whose_failure_is_reported() -> None:
    assert tiers("main(args.depth, 3)") == {"DL843": "likely", "DL846": "likely"}
