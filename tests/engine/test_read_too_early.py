"""A function that binds a name only by `name = name` ends there: the name is its own, and is not bound yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run, run_file

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
    (folder / "README.md").write_text("# Models\n")
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


@pytest.mark.parametrize(
    "body",
    [
        "state = (state - 0.5) * 2",
        "state += 1",
        "print(f'{state}')\n    state = 3",
        "for _ in range(3):\n        state += 1",
        "for _ in range(3):\n        with open('log') as log:\n            print(state)\n        state = 4",
        "for state in range(state):\n        print(state)",
        "if input():\n        print(state)\n    else:\n        print(state)\n    state = 3",
        "print(state)\n    for state in range(3):\n        pass",
        "print(state)\n    import torch as state",
    ],
)
def test_it_is_bound_only_after_it_is_read(tmp_path: Path, body: str) -> None:
    assert not is_reached(tmp_path, body, "path", "3")


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(3):\n        if i:\n            print(state)\n        state = 4",
        "for i in range(3):\n        print(i and state)\n        state = 4",
        "for i in range(3):\n        for j in range(i):\n            print(state)\n        state = 4",
        "while True:\n        if input():\n            state = 4\n        else:\n            print(state)",
        "if input():\n        state = 4\n    print(state)",
        "if input():\n        print(state)\n    state = 3",
        "try:\n        state = 4\n    except ValueError:\n        print(state)",
        "print(lambda: state)\n    state = 4",
        "print(x + state for x in range(3))\n    state = 4",
        "print([state for state in range(3)])\n    print(state)",
        "def bind():\n        nonlocal state\n        state = 4\n    bind()\n    state += 1\n    state = 3",
        "print(state := 4, state)",
        "if (state := path):\n        print(state)\n    state = 3",
        "with open(path) as state:\n        print(state)",
        "state, other = 3, 4\n    state = state * other",
        "global state\n    state += 1",
        "class state:\n        pass\n    state = state",
    ],
)
def test_it_may_be_bound_by_then(tmp_path: Path, body: str) -> None:
    assert is_reached(tmp_path, body, "path", "3")


def test_a_file_alone_is_a_piece(tmp_path: Path) -> None:
    assert run(tmp_path, SCRIPT.format(parameters="", body="state += 1", given="")).all_of(CallRefused)


def test_a_text_that_is_being_edited_goes_on(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    text = SCRIPT.format(parameters="", body="state += 1", given="")
    assert run_file(tmp_path / "main.py", text).all_of(CallRefused)
