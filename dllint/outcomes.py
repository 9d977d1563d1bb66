"""What comes of the analysis of a file: for the engine that makes it, and for all who keep it or report it."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from dllint.findings import Finding, Problem, Silence
    from dllint.interp.run.machine import Place


@dataclass(slots=True)
class Analysis:
    """What came of one file.

    ``dependencies`` are the other files, and the folders, that had a bearing on it. ``reached`` are the definitions of
    other files (path and line) that it was seen to call, each with the codes of the rules that looked on. ``matters``
    tells whether the file has a word without which no rule fires: else nothing that its importers do is about it.
    """

    findings: list[Finding] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    dependencies: list[Path] = field(default_factory=list)
    timing: dict[str, float] = field(default_factory=dict)
    silences: list[Silence] = field(default_factory=list)
    reached: dict[Place, frozenset[str]] = field(default_factory=dict)
    matters: bool = False


@dataclass(slots=True)
class Outcome:
    """The analysis of one file, with what the runner needs to judge comments in it and to cache it."""

    file: Path
    analysis: Analysis
    digest: str = ""
    has_comments: bool = False
    dependencies: tuple[tuple[Path, str], ...] = ()
