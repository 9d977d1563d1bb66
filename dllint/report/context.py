"""What a format may need besides the report itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from dllint.report.sources import SourceCache
    from dllint.rule import Rule


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of one rendering. ``root`` is absolute; ``sources`` reads files when a format shows code."""

    root: Path
    color: bool
    width: int
    rules: tuple[type[Rule], ...]
    sources: SourceCache

    def relative(self, path: str) -> str:
        """``path`` (as findings hold it) relative to the root when it lies below it, else absolute; posix form."""
        absolute = Path(os.path.abspath(path))
        try:
            return absolute.relative_to(self.root).as_posix()
        except ValueError:
            return absolute.as_posix()
