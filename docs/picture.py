"""The picture of a real run, ``docs/images/demo.svg``: ``python docs/picture.py --write``.

It is drawn from what dllint prints. Without ``--write`` the exit status tells whether the picture is current.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "demo.svg"
COMMAND = ("check", "--select", "DL101", "fixtures/demo")

_SGR = re.compile(r"\x1b\[([\d;]*)m")
_COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#56d4dd"}
_WIDTH, _LINE, _EDGE = 8.4, 19, 20  # of a character, from line to line, around the text: pixels at 14 pixels of font
_COLUMNS = 100
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def printed() -> str:
    """What dllint prints on a terminal with colors, without the line that counts."""
    options = ("--isolated", "--no-cache", "--output-format", "full", "--color", "always")
    done = subprocess.run(
        [sys.executable, "-m", "dllint", *COMMAND, *options],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": str(_COLUMNS)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stdout.rstrip("\n")


def drawn(text: str) -> str:
    """The text, with the command in front, as SVG."""
    lines = [f"\x1b[1m$ dllint {' '.join(COMMAND)}\x1b[0m", "", *text.split("\n")]
    width, height = round(_COLUMNS * _WIDTH + 2 * _EDGE), len(lines) * _LINE + 2 * _EDGE
    rows = "\n".join(_row(line, _EDGE + (number + 0.8) * _LINE) for number, line in enumerate(lines) if line)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>dllint reports a softmax in front of a cross-entropy, with the way through three files</title>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<g font-family="{_FONT}" font-size="14" fill="#e6edf3">
{rows}
</g>
</svg>
"""


def _row(line: str, y: float) -> str:
    """One line, each stretch of one style at its own column, so that any font keeps the columns."""
    parts, column = [], 0
    for text, style in _stretches(line):
        if text.strip():
            lead = len(text) - len(text.lstrip())
            place = f'x="{_EDGE + (column + lead) * _WIDTH:.1f}" textLength="{len(text.strip()) * _WIDTH:.1f}"'
            parts.append(f'<text {place} y="{y:.1f}" xml:space="preserve"{style}>{escape(text.strip())}</text>')
        column += len(text)
    return "".join(parts)


def _stretches(line: str) -> Iterator[tuple[str, str]]:
    """The text between changes of style, and the attributes of its style."""
    style, start = "", 0
    for match in _SGR.finditer(line):
        yield line[start : match.start()], style
        start, codes = match.end(), match[1].split(";")
        color = next((f' fill="{_COLORS[code]}"' for code in codes if code in _COLORS), "")
        style = color + (' font-weight="bold"' if "1" in codes else "")
    yield line[start:], style


def main() -> int:
    """Write the picture, or compare it."""
    picture = drawn(printed())
    if "--write" in sys.argv[1:]:
        PICTURE.write_text(picture, "utf-8")
        return 0
    return int(PICTURE.read_text("utf-8") != picture)


if __name__ == "__main__":
    sys.exit(main())
