"""What a ``try`` leaves behind: by default its body went through, and a handler is the exception."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import Interpreted, run

from dllint.choices import Choice
from dllint.events import RandomSeeded
from dllint.values import Const

MADE = """
import torch

def made():
    try:
        import fast_transforms
        return fast_transforms.Compose(3)
    except {error}:
        {handler}

value = made()
if value:
    torch.manual_seed(0)
"""


def options(interpreted: Interpreted, name: str = "value") -> list[tuple[list[bool | None], object]]:
    value = interpreted.variables[name]
    assert isinstance(value, Choice)
    return [([guard.by_default for guard in guards], option) for guards, option in value.options]


@pytest.mark.parametrize("error", ["ImportError", "ImportError:\n        return False\n    except Exception as error"])
def test_what_the_body_returns_is_returned_by_default(tmp_path: Path, error: str) -> None:
    found = options(run(tmp_path, MADE.format(error=error, handler="print('not there')")))
    assert found[0][0] == [True]
    assert all(True not in marks for marks, _ in found[1:])


def test_a_test_of_it_has_a_default(tmp_path: Path) -> None:
    program = run(tmp_path, MADE.format(error="ImportError", handler="return None"))
    seeding = program.all_of(RandomSeeded)[0]
    assert [guard.by_default for guard in seeding.guards][:1] == [True]


def test_handlers_that_raise_leave_one_way(tmp_path: Path) -> None:
    program = run(tmp_path, MADE.format(error="ImportError", handler="raise"))
    assert not isinstance(program.variables["value"], Choice)


def test_a_body_that_raises_is_no_default(tmp_path: Path) -> None:
    program = run(
        tmp_path,
        """
        def chosen(kind):
            try:
                raise KeyError(kind)
            except KeyError:
                return 1
            except ValueError:
                return 2

        value = chosen("a")
        """,
    )
    assert not any(all(marks) for marks, _ in options(program))


def test_what_a_handler_assigns_is_not_there_by_default(tmp_path: Path) -> None:
    program = run(
        tmp_path,
        """
        workers = 4
        try:
            import fast_loader
        except ImportError:
            workers = 0
        """,
    )
    (before, first), (after, second) = options(program, "workers")
    assert (before, after) == ([True], [False])
    assert isinstance(first, Const) and isinstance(second, Const) and (first.value, second.value) == (4, 0)


ANY_OF = """
import argparse
import torch
from elsewhere import load

parser = argparse.ArgumentParser()
parser.add_argument("--cache", default="no")
cache = parser.parse_args().cache
if {test}:
    torch.manual_seed(0)
"""


@pytest.mark.parametrize(
    ("test", "by_default"),
    [
        ('cache == "ram" or cache == "both"', False),
        ('cache == "no" or load("a")', True),
        ('cache == "ram" and load("a")', False),
        ('not (cache == "ram" and load("a"))', True),
        ('cache == "no" and load("a")', None),
        ('cache == "ram" or load("a")', None),
    ],
)
def test_several_tests_have_a_default_if_known_ones_decide(tmp_path: Path, test: str, by_default: bool | None) -> None:
    program = run(tmp_path, ANY_OF.format(test=test))
    seeding = program.all_of(RandomSeeded)[0]
    whole = [guard.by_default for guard in seeding.guards if guard.node is not None]
    assert whole[0] is by_default
