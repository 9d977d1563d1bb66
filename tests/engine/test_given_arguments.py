"""A test of a parameter that all calls in the project decide: what is behind the other outcome never runs."""

from __future__ import annotations

import pytest
from engine_support import FITS, found

SCALED = """
import numpy as np
import torch

class Scale(torch.nn.Module):
    def __init__(self, width, size=None, turned=True):
        super(Scale, self).__init__()
        if {test}:
            self.size = np.int(width)

def scaled(width, size=None, turned=True):
    if {test}:
        return np.int(width)
    return size
"""


def is_asked(test: str, call: str, files: dict[str, str] | None = None) -> list[bool]:
    """Whether each finding assumes that somebody asks for what no call of the function asks for."""
    user = (
        f"import sizes\nfrom main import Scale, scaled\n{FITS}\ndef build(size=3):\n    return {call}\nfit(build())\n"
    )
    given = {"README.md": "", "sizes.py": "SIZE = 512\nopen_size = read()\n", "run.py": user, **(files or {})}
    all_found = found("DL842", SCALED.format(test=test), given)
    return [any(each.kind == "no-default" for each in finding.assumptions) for finding in all_found]


@pytest.mark.parametrize(
    ("test", "call"),
    [
        ("size is None", "(Scale(2, 3), scaled(2, 3))"),
        ("size == None", "(Scale(2, size=3), scaled(2, size=3))"),
        ("not size", "(Scale(2, sizes.SIZE), scaled(2, sizes.SIZE))"),
        ("size is None", "(Scale(2, size), scaled(2, size))"),
        ("size is not None", "(Scale(2), scaled(2, None))"),
        ("size > 4", "(Scale(2, 3), scaled(2, 4))"),
        ("turned", "(Scale(2, 3, False), scaled(2, turned=False))"),
        ("not turned", "(Scale(2, 3), scaled(2))"),
        ("size is None", "(Scale(2, 3, **read()), scaled(2, size=3, **read()))"),
        ("size is None", "(Scale(2, [read()]), scaled(2, sorted(read())))"),
    ],
)
def test_no_call_asks_for_it(test: str, call: str) -> None:
    assert is_asked(test, call) == [True, True]


@pytest.mark.parametrize(
    ("test", "call"),
    [
        ("size is None", "(Scale(2), scaled(2))"),
        ("size is None", "(Scale(2, read()), scaled(2, read()))"),
        ("size is None", "(Scale(2, sizes.open_size), scaled(2, sizes.open_size))"),
        ("size is None", "(Scale(*read()), scaled(*read()))"),
        ("size is None", "(Scale(2, **read()), scaled(2, **read()))"),
        ("size is None", "(Scale(2, 3), make(Scale), scaled(2, 3), make(scaled))"),
        ("size is None", "(Scale(2, 3), scaled(2, 3), Scale(2), scaled(2))"),
        ("width is None", "(Scale(size, 3), scaled(read(), 3), Scale(read()))"),
        ("size > width", "(Scale(2, 3), scaled(2, 3))"),
    ],
)
def test_some_call_may_ask_for_it(test: str, call: str) -> None:
    assert is_asked(test, call) == [False, False]


@pytest.mark.parametrize(
    "files",
    [
        {"more.py": "from main import Scale, scaled\nclass Wide(Scale):\n    pass\nmake = [scaled]\n"},
        {"more.py": "import main\nmake = getattr(main, name)\nnames = ['Scale', 'scaled']\n"},
        {"conf.yaml": "net: main.Scale\nfunction: main.scaled\n"},
        {"more.py": "import main\nmain.Scale(2)\nmain.scaled(2)\n"},
    ],
    ids=["handed-on", "by-name", "configured", "elsewhere"],
)
def test_other_users(files: dict[str, str]) -> None:
    assert is_asked("size is None", "(Scale(2, 3), scaled(2, 3))", files) == [False, False]


SET_AGAIN = """
import numpy as np

def scaled(width, size):
    size = size or width
    if size > 4:
        return np.int(width)
"""


def test_a_parameter_that_is_set_again() -> None:
    user = f"from main import scaled\n{FITS}\nfit(scaled(read(), 3))\n"
    (finding,) = found("DL842", SET_AGAIN, {"README.md": "", "run.py": user})
    assert "no-default" not in [each.kind for each in finding.assumptions]


SET_LATER = """
import numpy as np

def scaled(width, size):
    if size is None:
        return np.int(width)
    size = np.concatenate([width, size])
    return size
"""
COUNTED = """
import numpy as np
from main import scaled

def counted(rows):
    {body}

def run(rows):
    width, size = counted(rows)
    return scaled(width, size)

if __name__ == "__main__":
    run(read())
"""


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ("return np.array(rows), np.array(rows)", True),
        ("return rows, rows", False),
        ("return np.array(rows), find(rows)", False),
        ("if rows:\n        return 1, None\n    return 1, np.array(rows)", False),
        ("if rows:\n        return 1, np.zeros(3)", False),
    ],
)
def test_what_a_function_returns_in_any_case(body: str, asked: bool) -> None:
    (finding,) = found("DL842", SET_LATER, {"README.md": "", "run.py": COUNTED.format(body=body)})
    assert ("no-default" in [each.kind for each in finding.assumptions]) is asked


def test_a_parameter_that_is_set_again_in_a_loop_around() -> None:
    text = "import numpy as np\n\ndef scaled(width, size):\n    for _ in range(9):\n        if size is None:\n"
    text += "            return np.int(width)\n        size = find(width)\n"
    user = f"from main import scaled\n{FITS}\nfit(scaled(read(), 3))\n"
    (finding,) = found("DL842", text, {"README.md": "", "run.py": user})
    assert "no-default" not in [each.kind for each in finding.assumptions]
