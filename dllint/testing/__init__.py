"""Testing rules: code with marks on the lines that must be reported, checked both ways.

:func:`check` is for tests written in Python. Rules are usually tested by a fixture, a file of marked cases that the
pytest plugin (:mod:`dllint.testing.plugin`) collects; ``docs/writing-rules.md`` describes its format.
"""

from __future__ import annotations

from dllint.testing.checking import check
from dllint.testing.doubts import NAMES as DOUBTS
from dllint.testing.marks import FixtureError

__all__ = ["DOUBTS", "FixtureError", "check"]
