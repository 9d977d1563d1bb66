"""A script ends at an option that `argparse` refuses to add."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

SCRIPT = """
import argparse, sys
parser = argparse.ArgumentParser({given})
parser.add_argument({option})
args = parser.parse_args()

def save(path, model):
    return path

save(1)
"""


def goes_on(folder: Path, option: str, given: str = "") -> bool:
    return bool(run(folder, SCRIPT.format(option=option, given=given)).all_of(CallRefused))


@pytest.mark.parametrize(
    "option",
    [
        "'i', '--imname', default='test'",
        "'-i', 'imname'",
        "'images', 'masks'",
        "'--amp', action='store_true', type=bool",
        "'--amp', nargs='?', action='store_false'",
    ],
)
def test_nothing_happens_after_it(tmp_path: Path, option: str) -> None:
    assert not goes_on(tmp_path, option)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("'-i', '--imname', default='test'", ""),
        ("'images', nargs='+', type=str", ""),
        ("'--amp', action='store_true', default=False, help='mixed', dest='mixed', required=False", ""),
        ("'--amp', action='store', type=int", ""),
        ("'--amp', action='store_const', const=3", ""),
        ("'--amp', action=sys.argv[1], type=int", ""),
        ("'--amp', sys.argv[1]", ""),
        ("*sys.argv", ""),
        ("'+i', '++imname'", "prefix_chars='+'"),
        ("'+i', '-imname'", "**vars(sys)"),
    ],
)
def test_what_it_takes_goes_on(tmp_path: Path, option: str, given: str) -> None:
    assert goes_on(tmp_path, option, given)
