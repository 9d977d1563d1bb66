"""Reports: what users and other programs see of a run.

Each format is the module of its name in this package, with ``render(report, context) -> str``. Only the module
of the format asked for is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.findings import Report
from dllint.report.context import Context
from dllint.report.sources import SourceCache

if TYPE_CHECKING:
    from dllint.rule import Rule

FORMATS: tuple[str, ...] = (
    "concise",
    "full",
    "json",
    "jsonl",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "markdown",
    "html",
)


def render(
    report: Report,
    fmt: str,
    *,
    root: Path,
    color: bool = False,
    width: int = 100,
    rules: Sequence[type[Rule]] = (),
    overlay: Mapping[Path, str] | None = None,
) -> str:
    """Write a report in one of :data:`FORMATS`.

    Args:
        report: the outcome of a run; findings are shown in the order they have here.
        fmt: one of :data:`FORMATS`.
        root: the folder that paths in machine formats are relative to (the root of the repository).
        color: whether to use ANSI colors and links (``concise`` and ``full`` only).
        width: columns to fit code frames and text into (``full`` only).
        rules: the rules that took part; SARIF describes them.
        overlay: unsaved text of files, by absolute path, shown instead of what is on disk.

    Returns:
        The whole text, ending in a line end unless it is empty; nothing is to be added to it.

    Raises:
        ValueError: ``fmt`` is not one of :data:`FORMATS`.
    """
    if fmt not in FORMATS:
        raise ValueError(f"unknown output format {fmt!r}; choose from {', '.join(FORMATS)}")
    context = Context(root.resolve(), color, max(width, 40), tuple(rules), SourceCache(overlay))
    rendered: str = import_module(f"dllint.report.{fmt}").render(report, context)
    return rendered
