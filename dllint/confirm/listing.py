"""The probes by name, for those who choose among them: this is known without importing torch."""

from __future__ import annotations

import ast
from pathlib import Path

from dllint.errors import UserError

ALWAYS = ("gradients", "names")
"""Probes that others ask, and that are never left out."""

EXPERIMENTS = {"overfit": "overfit", "lr-range": "rate_range", "resume": "course"}
"""The probes that take part in a run that is made for them alone, by its mode."""

_FOLDER = Path(__file__).resolve().parent / "probes"


def class_name(name: str) -> str:
    """The name of the class of a probe."""
    return "".join(word.title() for word in name.split("_"))


_found = [
    file.stem for file in sorted(_FOLDER.glob("*.py")) if f"\nclass {class_name(file.stem)}(" in file.read_text("utf-8")
]
NAMES = tuple(name for name in _found if name not in EXPERIMENTS.values())
"""The probes that take part in other runs. They are known without parsing their files, as each run asks for them."""


def listing() -> str:
    """The probes, one in a line: what each looks at, and which rules it decides, by the first sentence of its file."""
    width, lines = max(map(len, NAMES)), []
    for name in NAMES:
        text = ast.get_docstring(ast.parse((_FOLDER / f"{name}.py").read_text("utf-8"))) or ""
        lines.append(f"{name:{width}}  {' '.join(text.split()).partition('. ')[0].rstrip('.')}\n")
    return "".join(lines)


def chosen(text: str) -> list[str]:
    """The names of the probes that are asked for.

    Args:
        text: names with commas between them. If all of them have a minus sign in front, they are left out instead.

    Raises:
        UserError: there is no probe of a name.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    names = {word.lstrip("-") for word in words}
    if unknown := sorted(names - set(NAMES)):
        raise UserError(f"there is no probe {', '.join(unknown)}: `dllint confirm --probes list` shows them")
    if not words or len({word.startswith("-") for word in words}) > 1:
        raise UserError("--probes takes names, or names with a minus sign each")
    leaves_out = words[0].startswith("-")
    return [name for name in NAMES if name in ALWAYS or (name in names) != leaves_out]
