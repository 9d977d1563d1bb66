"""A function that binds a name only by `name = name` ends there: the name is its own, and is not bound yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

SCRIPT = """
state = 3

def save(path, model):
    return path

def main({parameters}):
    {body}
    save(1)

main({given})
"""


def is_reached(folder: Path, body: str, parameters: str = "", given: str = "") -> bool:
    text = SCRIPT.replace("{parameters}", parameters).replace("{given}", given).replace("{body}", body)
    return bool(run(folder, text).all_of(CallRefused))


@pytest.mark.parametrize("body", ["state = state", "for _ in range(3):\n        state = state"])
def test_nothing_happens_after_it(tmp_path: Path, body: str) -> None:
    assert not is_reached(tmp_path, body)


@pytest.mark.parametrize(
    "body",
    [
        "global state\n    state = state",
        "other = state",
        "for state in range(3):\n        state = state",
        "class Kept:\n        state = state",
        "try:\n        state = state\n    except UnboundLocalError:\n        pass",
    ],
)
def test_what_is_bound_goes_on(tmp_path: Path, body: str) -> None:
    assert is_reached(tmp_path, body)


def test_a_parameter_is_bound(tmp_path: Path) -> None:
    assert is_reached(tmp_path, "state = state", "state", "3")
