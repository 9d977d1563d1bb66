"""The tables of ``docs/confirm.md``, from ``dllint/confirm/judged/``: ``python bench/confirm_tables.py --write``.

Without ``--write`` it only tells (by its exit status) whether they are current.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from dllint.confirm.rules import EXPERIMENTS, judged

PAGE = Path(__file__).resolve().parent.parent / "docs" / "confirm.md"
_TABLE = re.compile(r"(?<=<!-- judged: )(\w+)( -->\n)(?:\|.*\n)*")


def current(text: str) -> str:
    """The page with its tables as the declarations have them."""
    return _TABLE.sub(lambda match: match[1] + match[2] + _table(match[1]), text)


def _table(kind: str) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in _rows(kind))


def _rows(kind: str) -> Iterator[tuple[str, ...]]:
    """The rows of the table of ``codes``, or of the one of ``names``, which no finding is about."""
    yield ("rule" if kind == "codes" else "name", "what is looked at", "confirmed", "speaks as")
    yield ("---",) * 4
    for code, known in judged().items():
        if (kind == "codes") == bool(known.unreached) and code not in EXPERIMENTS:
            shown = code if kind == "codes" else f"`{code}`"
            yield (shown, known.looks, known.confirmed, known.speaks)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page instead of comparing it")
    text = PAGE.read_text("utf-8")
    if parser.parse_args().write:
        PAGE.write_text(current(text), "utf-8")
        return 0
    return int(current(text) != text)


if __name__ == "__main__":
    sys.exit(main())
