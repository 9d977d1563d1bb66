"""Which versions the files of tools name: of pyenv, tox, setuptools and pipenv, and of services that run tests."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dllint.files import toml

Read = Callable[[Path], str]
"""Gives the text of a file, or nothing where there is none."""

_PYENV = re.compile(r"(?m)^\s*(?:[a-z][\w-]*?-)?(3\.\d+(?:\.\d+)?)\s*$")
_IDEA = re.compile(r'\bproject-jdk-name="(?:Remote )?Python (\d\.\d+)')
_TOX = re.compile(r"\bpy\{?(\d+(?:,\s*(?:py)?\d+)*)")
_REQUIRES = re.compile(r"(?m)\bpython_requires\s*=\s*[\"']?([^\"'\n#]+)")
_LIST = re.compile(
    r"\bpython(?:[-_]version)?s?:[ \t]*(?:\[([^\]\n]*)\]|((?:\s*\n[ \t]*-[ \t]*['\"]?\d\.\d+[^\n]*)+))"
)  # `python-version: [3.6, 3.7]`, and one below the other
_NUMBER = re.compile(r"(?<![\w.])3\.\d+(?:\.\d+)?")
_INSTALLS = "install_requires"
_INSTALLED = re.compile(r"(?m)^install_requires\s*=[ \t]*([^\n]*(?:\n[ \t]+[^\n]*)*)")
_WHEEL = re.compile(  # of pip, or an archive of conda: `…/linux-64/pillow-5.3.0-py37h34e0f95_0.tar.bz2`
    r"/([\w.-]+?)-(\d+(?:\.\d+)*)(?:\.post\d+)?(?:(?:\+|%2B)[\w.]+)?-(?:[^/\s]*\.whl|[^/\s-]*\.(?:tar\.bz2|conda)\b)"
)
_OF_PACKAGE = re.compile(r"([A-Za-z0-9][\w.]*)-(\d+(?:\.\d+)*)[^-]*\.dist-info")
_SERVICES = (".travis.yml", ".gitlab-ci.yml", "azure-pipelines.yml", ".circleci/config.yml", ".github/workflows/*.y*ml")


def version_of_wheel(url: str) -> str:
    """What the address of a wheel or an archive of conda says: ``==1.13.0`` for ``…/torch-1.13.0%2Bcu117-cp39.whl``."""
    match = _WHEEL.search(url)
    return f"=={match.group(2)}" if match else ""


def package_of_wheel(url: str) -> str:
    """The package of which an address has a wheel, or an archive of conda; empty for any other text."""
    match = _WHEEL.search(url) if url.lstrip().startswith(("http://", "https://")) else None
    return match.group(1) if match else ""


def pythons_of_tools(root: Path, read: Read) -> Iterator[str]:
    """What pyenv, PyCharm, tox and the services for tests say of Python. All of it is run: the last one counts."""
    for version in _PYENV.findall(read(root / ".python-version")):
        yield f"=={version}" if version.count(".") > 1 else f"={version}"
    for version in _IDEA.findall(read(root / ".idea" / "misc.xml")):
        yield f"={version}"
    for numbers in _TOX.findall(read(root / "tox.ini")):
        for number in re.findall(r"3\d+", numbers):
            yield f"=3.{number[1:]}"
    for path in sorted(path for pattern in _SERVICES for path in root.glob(pattern)):
        for across, below in _LIST.findall(read(path)):
            yield from (f"={version}" for version in _NUMBER.findall(across or below))


def pythons_required(root: Path, read: Read) -> Iterator[str]:
    """The Python that ``setup.py`` or ``setup.cfg`` asks for."""
    for name in ("setup.py", "setup.cfg"):
        yield from (specifier.strip() for specifier in _REQUIRES.findall(read(root / name)))


def requirements_of_setup(root: Path, read: Read) -> Iterator[str]:
    """The requirements in ``setup.cfg``, one in a line or after a comma, and those in ``setup.py``."""
    text = read(root / "setup.py")
    yield from _texts_for(_INSTALLS, text) if _INSTALLS in text else ()
    for block in _INSTALLED.findall(read(root / "setup.cfg")):
        yield from (line.strip() for line in block.splitlines() if line.strip())


def _texts_for(name: str, text: str) -> Iterator[str]:
    """The texts of the lists that an argument of this name is given in a file, or a key of a table."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    named: dict[str, list[ast.expr]] = {}
    given: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                named.setdefault(ast.unparse(target), []).append(node.value)
        elif isinstance(node, ast.keyword) and node.arg == name:
            given.append(node.value)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            given += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name]
    for value in given:
        yield from _texts_in(value, named)


def _texts_in(value: ast.expr, named: Mapping[str, Sequence[ast.expr]], *, is_named: bool = False) -> Iterator[str]:
    """The texts in a list, or in several that are added; a name stands for each list that it is set to."""
    if isinstance(value, ast.List | ast.Tuple):
        yield from (each.value for each in value.elts if isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in value.elts:
            yield from _texts_in(each.value, named, is_named=is_named) if isinstance(each, ast.Starred) else ()
    elif isinstance(value, ast.BinOp):
        for part in (value.left, value.right):
            yield from _texts_in(part, named, is_named=is_named)
    elif not is_named:
        for each in named.get(ast.unparse(value), ()):
            yield from _texts_in(each, named, is_named=True)


def packages_of_pipfile(root: Path, read: Read) -> Iterator[tuple[str, str]]:
    """The packages of a ``Pipfile``, with what it says of their versions."""
    try:
        packages: Any = toml.parse(read(root / "Pipfile")).get("packages")
    except ValueError:
        return
    for name, value in packages.items() if isinstance(packages, dict) else ():
        specifier = value.get("version") if isinstance(value, dict) else value
        if isinstance(specifier, str):
            yield name, specifier


def installed_in(root: Path) -> Iterator[tuple[str, str]]:
    """The names of ``*.dist-info`` folders in the project's ``.venv``, else in the active environment if it is its own.

    One that lies elsewhere may be that of a tool, with libraries that the project has never run with.
    """
    environment = root / ".venv"
    if not environment.is_dir():
        active = Path(os.environ.get("VIRTUAL_ENV", environment))
        environment = active if _is_around(active.parent, root) else environment
    for packages in (*environment.glob("lib/python*/site-packages"), environment / "Lib" / "site-packages"):
        try:
            names = os.listdir(packages)
        except OSError:
            continue
        for match in map(_OF_PACKAGE.fullmatch, names):
            if match:
                yield match.group(1), match.group(2)


def _is_around(folder: Path, root: Path) -> bool:
    """Whether a folder is a project's own, or that of the repository or workspace that it is a part of."""
    is_project = (folder / ".git").exists() or (folder / "pyproject.toml").is_file()
    return folder == root or (is_project and folder in root.parents)
