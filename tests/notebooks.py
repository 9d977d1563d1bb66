"""Notebooks made of cells, as the JSON that a file has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BOOK = Path("book.ipynb")


def book(*cells: str | list[str] | dict[str, Any], **top: Any) -> str:
    """The JSON of a notebook; a cell is the source of a code cell, or a whole cell."""
    made = []
    for index, cell in enumerate(cells):
        if not isinstance(cell, dict):
            source = cell.splitlines(keepends=True) if isinstance(cell, str) else cell
            cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        made.append({"id": f"cell-{index}", **cell})
    content = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **top}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
