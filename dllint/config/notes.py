"""Which versions notes speak of: READMEs and other Markdown, and the cells of a notebook.

``PyTorch 1.11.0`` tells what the authors ran with, ``numpy >= 1.16`` a lower bound alone, and so do commands that
install something (``pip install datasets==1.5.0``, ``conda create --name x python=3.6``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

_LARGEST = 200_000  # bytes; longer ones are data, or made by a tool
_MOST = 20  # notes in one folder
_FIRST_CELLS = 50_000  # characters of a notebook
_OF_ALL_TIMES = re.compile(r"change|history|news|release|contribut|licen[cs]e|conduct|security", re.IGNORECASE)
_NAMES = (
    r"python|pytorch|py-torch|pytoch|pytroch|torch|torchvision|torchaudio|torchtext|numpy|scipy|pillow|pyyaml"
    r"|transformers|pytorch[- ]lightning"
    r"|tensorflow(?:-gpu)?|scikit[- ]learn|sklearn|scikit[- ]image|skimage|pandas|numba|librosa|networkx|albumentations"
    r"|mne|gensim|matplotlib|spacy|nltk|gym|timm|torchmetrics|kornia|monai|nibabel|imageio|pydicom|omegaconf|moviepy"
    r"|diffusers|pil|opencv(?:-contrib)?(?:-python)?(?:-headless)?|torch[-_ ]geometric|wandb"
    r"|cuda(?:[- ]?toolkit)?"
)
_MEANT = {
    "sklearn": "scikit-learn", "skimage": "scikit-image", "pil": "pillow",
    "py-torch": "pytorch", "pytoch": "pytorch", "pytroch": "pytorch",
}  # fmt: skip
_BETWEEN = r"[\s:|*`(]{0,40}"  # bounded, as a note may be anything: a table of spaces, a line of 100,000 words
_IN_PROSE = re.compile(
    rf"(?<!\w)(?<!\w-)({_NAMES})(?:\]\([^()\s]{{0,200}}\)|\]\[[^\[\]\n]{{0,80}}\])?{_BETWEEN}"  # [NumPy](https://numpy.org)
    rf"(?:-(?=\d)|v(?:er(?:\.|sions?)?)?{_BETWEEN})?(>=?|≥|<=?|==?|~=)?\s{{0,8}}v?(\d+\.\d+(?:\.\d+)?)"
    r"(?:\s{0,8}(?:--?|\u2013|~|to)\s{0,8}(\d+\.\d+(?:\.\d+)?))?"  # 3.7 to 3.9
    r"(\+(?!cu|cpu|rocm)|\s{0,8}(?:or|and)\s{1,8}(?:later|above|higher|newer|greater|up))?",
    re.IGNORECASE,
)
_INSTALLS = re.compile(
    r"\b(?:pip3?|conda|mamba|uv|poetry)\b[^\n]{0,80}?\b(?:install|create|add)\b((?:[^\n\\]|\\\r?\n|\\)*)"
)
_IN_CELL = re.compile(r'"\s*[!%]\s*(pip3? install [^"\\\n]*)')  # as the file has it, a text in JSON
_COMMAND = re.compile(r"(?m)^[ \t]*[!%]+(?:[^\n\\]|\\\r?\n|\\)*")  # with the lines that it goes on in
_PINNED = re.compile(r"(?<![\w./-])([A-Za-z][\w-]{0,60})\s?(==?|~=|<=?)\s?(\d+(?:\.\d+)*)")
_CLONES = re.compile(r"\bgit clone (?:-\S+ )*(\S+)")
_INSTALLS_FOLDER = re.compile(
    r"\bcd (?:\./)?([\w.-]+)/?[ \t;&]*(?:\r?\n)?[ \t$;&]*(?:python3? -m )?pip3? install (?:-e )?\.(?!\S)"
)
_ENTERS = re.compile(  # `conda activate py36`, `source ~/envs/python3.7/bin/activate`
    r"\b(?:(?:conda|mamba) activate|source(?: activate)?|workon)[ \t]{1,8}[\w./~-]{0,80}?(?<![A-Za-z])"
    r"p(?:y(?:thon)?)?[-_]?([23])\.?(\d{1,2})(?:/bin/activate)?(?![A-Za-z0-9.])"
)


def told_by_text(text: str) -> Iterator[tuple[str, str]]:
    """The packages of which a note tells a version, as it calls them, and what it says of that.

    What a command installs is fixed, whatever else the note says that would do.
    """
    commands = list(installed_by(text))
    fixed = {name.lower() for name, _ in commands}
    for called, sign, first, last, later in _IN_PROSE.findall(text):
        name = _MEANT.get(called.lower(), called)
        if not later and (last or sign not in (">", ">=", "≥")):
            yield name, f"{sign if sign in ('<', '<=') else '=='}{last or first}"
        elif name.lower() not in fixed:
            yield name, f">={first}"
    yield from commands


def installed_by(text: str) -> Iterator[tuple[str, str]]:
    """The packages that commands in a text install at a version, as they call them, and which one.

    So is the Python of an environment that they enter, by its name.
    """
    for name, sign, version in (pin for told in _INSTALLS.findall(text) for pin in _PINNED.findall(told)):
        yield name, f"{sign}{version}"
    yield from (("python", version) for version in pythons_entered(text))


def pythons_entered(text: str) -> Iterator[str]:
    """The Python of each environment that commands in a text enter, if its name tells one."""
    return (f"={major}.{minor}" for major, minor in _ENTERS.findall(text))


def installs_clone(text: str) -> bool:
    """Whether a note has a repository cloned and installed: ``cd planner`` and ``pip install -e .`` after `git clone`.

    What that needs is installed with it, in the releases that it asks for.
    """
    folders = {each.rstrip("/").removesuffix(".git").rpartition("/")[2] for each in _CLONES.findall(text)}
    return any(folder in folders for folder in _INSTALLS_FOLDER.findall(text))


def is_note(name: str) -> bool:
    """Whether a file is a note by its name, and not one on all releases that there have been."""
    return name.startswith("README") or (name.lower().endswith(".md") and not _OF_ALL_TIMES.search(name[:-3]))


def notes_in(folder: Path) -> Iterator[Path]:
    """The notes in a folder, but not those on all releases that there have been."""
    named = (path for path in sorted(folder.glob("*.[mM][dD]")) if is_note(path.name))
    return (path for path in sorted({*folder.glob("README*"), *islice(named, _MOST)}) if _is_short(path))


def told_by_notebook(raw: str) -> Iterator[tuple[str, str]]:
    """As :func:`told_by_text`, for the Markdown in a notebook, and for the commands in it that install something."""
    try:
        data = json.loads(raw)
    except ValueError:
        return
    cells: Any = data.get("cells") if isinstance(data, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        lines = cell.get("source") if isinstance(cell, dict) else None
        text = "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            text = "\n".join(_COMMAND.findall(text))
        yield from told_by_text(text)


def installed_by_first_cells(raw: str) -> Iterator[tuple[str, str]]:
    """The packages that the first cells of a notebook install at a version: ``!pip install albumentations==0.5.2``.

    Most of such a file are pictures, which are not read.
    """
    for told in _IN_CELL.findall(raw[:_FIRST_CELLS]):
        yield from installed_by(told)


def _is_short(path: Path) -> bool:
    try:
        return path.stat().st_size <= _LARGEST
    except OSError:
        return False
