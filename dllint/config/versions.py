"""Which versions of torch and its relatives a project runs with, found without importing anything.

A requirement gives the lowest version it allows (``torch>=2.1`` is "2.1") and perhaps a ceiling (``torch<3``), a lock
file and an installed package the exact one. The first source that says something about a package is believed: the
configuration, the dependencies in ``pyproject.toml``, ``requirements*.txt``, ``environment*.yml`` of conda, ``uv.lock``
or ``poetry.lock``, and the active virtual environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dllint.files import toml

# fmt: off
PACKAGES = frozenset((
    "torch", "torchvision", "torchaudio", "lightning", "pytorch-lightning", "transformers", "accelerate", "datasets",
    "trl", "peft", "timm", "deepspeed", "fastai", "pytorch-ignite", "diffusers", "ultralytics", "numpy",
))
# fmt: on

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;#)]*)")
_LOWER_BOUND = re.compile(r"(?:={1,3}|>=?|~=|\^|~|^)\s*v?(\d+(?:\.\d+)*)")
_CEILING = re.compile(r"(={1,3}|<=?|~=|\^|~|^)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_CONDA = re.compile(r"(?m)^\s*-\s*[\"']?(?:[\w-]+::)?(pytorch|torch|torchvision|torchaudio)\s*([=<>~!][^#\"'\n]*)")
_LOCKED = re.compile(r'^name = "([^"\n]+)"\nversion = "(\d+(?:\.\d+)*)', re.MULTILINE)
_INSTALLED = re.compile(r"([A-Za-z0-9][\w.]*)-(\d+(?:\.\d+)*)[^-]*\.dist-info")


def find_versions(root: Path, configured: Mapping[str, str]) -> dict[str, str]:
    """The versions of the known packages for the project at ``root``; packages nothing is said about are left out."""
    return _first_said(root, configured, _lower_bound, version_key)


def find_ceilings(root: Path, configured: Mapping[str, str]) -> dict[str, str]:
    """The latest versions that the project at ``root`` allows: "2.5.1", or "<2.6". What may be any is left out."""
    return _first_said(root, configured, _ceiling, lambda ceiling: version_key(ceiling.lstrip("<")))


def allows(ceiling: str, version: str) -> bool:
    """Whether a ceiling, as `find_ceilings` gives it, allows some release from a version on."""
    highest, wanted = version_key(ceiling.lstrip("<")), version_key(version)
    return highest > wanted if ceiling.startswith("<") else highest >= wanted


def _first_said(
    root: Path,
    configured: Mapping[str, str],
    bound: Callable[[str], str],
    key: Callable[[str], tuple[int, ...]],
) -> dict[str, str]:
    """The least bound of each package in the first source that bounds it."""
    bounds = {_normalise(name): version for name, version in configured.items()}
    for read in (_from_pyproject, _from_requirements, _from_conda, _from_lock, _from_environment):
        found: dict[str, str] = {}
        for name, specifier in read(root):
            if name in PACKAGES and (given := bound(specifier)):
                found[name] = min(found.get(name, given), given, key=key)
        bounds = found | bounds
    return dict(sorted(bounds.items()))


def version_key(version: str) -> tuple[int, ...]:
    """The numbers a version starts with, for comparison: ``"2.1.0+cu118"`` is ``(2, 1, 0)``."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read(path: Path) -> str:
    """The text of a file, or nothing: a version is a hint, and a file that cannot be read gives none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _requirement(text: str) -> Iterator[tuple[str, str]]:
    """The package and the version specifier of one requirement (PEP 508)."""
    if match := _REQUIREMENT.match(text):
        yield _normalise(match.group(1)), match.group(2)


def _lower_bound(specifier: str) -> str:
    """``">=2.1,<3"`` -> ``"2.1"``; of several bounds the highest, as all must hold; "" where there is none."""
    bounds = [match.group(1) for part in specifier.split(",") if (match := _LOWER_BOUND.match(part.strip()))]
    return max(bounds, key=version_key, default="")


def _ceiling(specifier: str) -> str:
    """``">=2.1,<3"`` -> ``"<3"``, ``"==1.8.1"`` -> ``"1.8.1"``, ``"~=1.13"`` -> ``"<2"``; "" where there is none."""
    bounds: list[str] = []
    for match in filter(None, (_CEILING.match(part.strip()) for part in specifier.split(","))):
        operator, version, any_after = match.groups()
        numbers = version_key(version)
        if operator == "^":
            bounds.append(f"<{numbers[0] + 1}")
        elif operator in ("~=", "~") or any_after:
            kept = numbers if any_after else numbers[:-1] or numbers
            bounds.append("<" + ".".join(map(str, (*kept[:-1], kept[-1] + 1))))
        else:
            bounds.append(f"<{version}" if operator == "<" else version)
    return min(bounds, key=lambda bound: version_key(bound.lstrip("<")), default="")


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
        if isinstance(specifier, str):
            yield _normalise(name), specifier


def _table(data: object, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _from_requirements(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((*root.glob("requirements*.txt"), *root.glob("requirements/*.txt"))):
        for line in _read(path).splitlines():
            yield from _requirement(line)


def _from_conda(root: Path) -> Iterator[tuple[str, str]]:
    """The packages in the dependencies of a conda environment, read off the text: a plain install has no YAML."""
    for path in sorted((*root.glob("environment*.yml"), *root.glob("environment*.yaml"))):
        for match in _CONDA.finditer(_read(path)):
            yield "torch" if match.group(1) == "pytorch" else match.group(1), match.group(2).strip()


def _from_lock(root: Path) -> Iterator[tuple[str, str]]:
    for name in ("uv.lock", "poetry.lock"):
        for match in _LOCKED.finditer(_read(root / name).replace("\r\n", "\n")):
            yield _normalise(match.group(1)), match.group(2)


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
                yield _normalise(match.group(1)), match.group(2)
