"""What tests of fixes share: findings with fixes, and a rule that replaces what it finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from dllint.files.source import SourceFile
from dllint.findings import Edit, Finding, Fix, Safety

HERE = Path("module.py")


def finding(source: SourceFile, start: int, *fixes: Fix, code: str = "DL999", message: str = "bad") -> Finding:
    """What a rule found at an offset."""
    return Finding(
        code=code,
        name="bad-thing",
        message=message,
        location=source.location_of(start, start),
        severity="error",
        category="correctness",
        statement=source.line_text(source.position(start)[0]).strip(),
        fixes=fixes,
    )


def fix(*edits: Edit, safety: Safety = "safe") -> Fix:
    """A fix that makes some edits."""
    return Fix("mend it", edits, safety)


def replacing(pattern: str, new: str, code: str = "DL999") -> Callable[[SourceFile], list[Finding]]:
    """A rule that finds a pattern and replaces it."""

    def lint(source: SourceFile) -> list[Finding]:
        return [
            finding(source, match.start(), fix(Edit(match.start(), match.end(), match.expand(new))), code=code)
            for match in re.finditer(pattern, source.text)
        ]

    return lint
