"""Which files of a folder list requirements, as pip reads them, or all that conda has installed (``@EXPLICIT``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_NAMES = tuple(f"{place}.{ending}" for place in ("*req*", "requirements/*") for ending in ("txt", "in"))
_FIXED = re.compile(  # `numpy==1.21`, of conda `numpy=1.21.5=py39_0`, or the address of an archive
    r"[A-Za-z][\w.-]*(?:\[[\w,]+\])?\s*(?:==\s*\d|@ |=\d[\w.]*=)|https?://\S+\.(?:whl|conda|tar\.bz2)(?:#\w+)?\s*$"
)
_SHORT = 100_000  # bytes
_MOST = 20  # files with such an ending; more of them are data
_FEWEST, _NEARLY_ALL = 5, 0.8  # lines


def requirement_files(folder: Path, read: Callable[[Path], str]) -> list[Path]:
    """The files with such a name, and those that are what ``pip freeze`` writes, whatever they are called."""
    named = {path for pattern in _NAMES for path in folder.glob(pattern)}
    others = [path for path in folder.glob("*.txt") if path not in named]
    looked_at = filter(_is_short, others if len(others) <= _MOST else ())
    return sorted(named | {path for path in looked_at if _is_frozen(read(path))})


def _is_frozen(text: str) -> bool:
    """Whether nearly each line fixes the version of a package, but for comments and the headline of conda."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(("#", "@"))]
    return len(lines) >= _FEWEST and sum(map(bool, map(_FIXED.match, lines))) >= _NEARLY_ALL * len(lines)


def _is_short(path: Path) -> bool:
    try:
        return path.stat().st_size < _SHORT
    except OSError:  # a link that leads nowhere
        return False
