"""Which versions of torch and its relatives a project runs with, found without importing anything.

A requirement gives the lowest version it allows (``torch>=2.1`` is "2.1"), a lock file and an installed package the
exact one. The first source that says something about a package is believed: the configuration, the dependencies in
``pyproject.toml``, ``requirements*.txt``, ``uv.lock`` or ``poetry.lock``, and the active virtual environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dllint.files import toml
from dllint.files.source import SourceError, read_bytes

# fmt: off
PACKAGES = frozenset((
    "torch", "torchvision", "torchaudio", "lightning", "pytorch-lightning", "transformers", "accelerate", "datasets",
    "trl", "peft", "timm", "deepspeed", "fastai", "pytorch-ignite", "diffusers", "ultralytics", "numpy",
))
# fmt: on

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;#)]*)")
_LOWER_BOUND = re.compile(r"(?:===?|>=?|~=|\^|~|^)\s*v?(\d+(?:\.\d+)*)")
_LOCKED = re.compile(r'^name = "([^"\n]+)"\nversion = "(\d+(?:\.\d+)*)', re.MULTILINE)
_INSTALLED = re.compile(r"([A-Za-z0-9][\w.]*)-(\d+(?:\.\d+)*)[^-]*\.dist-info")


def find_versions(root: Path, configured: Mapping[str, str]) -> dict[str, str]:
    """The versions of the known packages for the project at ``root``; packages nothing is said about are left out."""
    versions = {_normalized(name): version for name, version in configured.items()}
    for read in (_from_pyproject, _from_requirements, _from_lock, _from_environment):
        found: dict[str, str] = {}
        for name, version in read(root):
            if name in PACKAGES:
                found[name] = min(found.get(name, version), version, key=version_key)
        versions = found | versions
    return dict(sorted(versions.items()))


def version_key(version: str) -> tuple[int, ...]:
    """The numbers a version starts with, for comparison: ``"2.1.0+cu118"`` is ``(2, 1, 0)``."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read(path: Path) -> str:
    """The text of a file, or nothing: a version is a hint, and a file that cannot be read gives none."""
    try:
        return read_bytes(path).decode("utf-8", "replace")
    except SourceError:
        return ""


def _requirement(text: str) -> Iterator[tuple[str, str]]:
    """The package and lowest version of one requirement (PEP 508), if it gives one."""
    if (match := _REQUIREMENT.match(text)) and (bound := _lower_bound(match.group(2))):
        yield _normalized(match.group(1)), bound


def _lower_bound(specifier: str) -> str:
    """``">=2.1,<3"`` -> ``"2.1"``; of several bounds the highest, as all must hold; "" where there is none."""
    bounds = [match.group(1) for part in specifier.split(",") if (match := _LOWER_BOUND.match(part.strip()))]
    return max(bounds, key=version_key, default="")


def _from_pyproject(root: Path) -> Iterator[tuple[str, str]]:
    text = _read(root / "pyproject.toml")
    try:
        data = toml.parse(text) if text else {}
    except ValueError:
        return
    project = _table(data, "project")
    groups = [project.get("dependencies"), *_table(project, "optional-dependencies").values()]
    groups += _table(data, "dependency-groups").values()
    for group in groups:
        for item in group if isinstance(group, list) else ():
            if isinstance(item, str):
                yield from _requirement(item)
    poetry = _table(_table(data, "tool"), "poetry")
    for table in (poetry, *_table(poetry, "group").values()):
        yield from _poetry(_table(table, "dependencies").items())


def _poetry(dependencies: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, value in dependencies:
        specifier = value.get("version") if isinstance(value, dict) else value
        if isinstance(specifier, str) and (bound := _lower_bound(specifier)):
            yield _normalized(name), bound


def _table(data: object, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _from_requirements(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((*root.glob("requirements*.txt"), *root.glob("requirements/*.txt"))):
        for line in _read(path).splitlines():
            yield from _requirement(line)


def _from_lock(root: Path) -> Iterator[tuple[str, str]]:
    for name in ("uv.lock", "poetry.lock"):
        for match in _LOCKED.finditer(_read(root / name).replace("\r\n", "\n")):
            yield _normalized(match.group(1)), match.group(2)


def _from_environment(root: Path) -> Iterator[tuple[str, str]]:
    """The names of ``*.dist-info`` folders in the project's ``.venv``, else in the active virtual environment."""
    environment = root / ".venv"
    if not environment.is_dir():
        environment = Path(os.environ.get("VIRTUAL_ENV", environment))
    for packages in (*environment.glob("lib/python*/site-packages"), environment / "Lib" / "site-packages"):
        try:
            names = os.listdir(packages)
        except OSError:
            continue
        for match in map(_INSTALLED.fullmatch, names):
            if match:
                yield _normalized(match.group(1)), match.group(2)
