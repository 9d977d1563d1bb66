"""Which versions of torch and its relatives a project runs with, found without importing anything.

A requirement gives the lowest version it allows (``torch>=2.1`` is "2.1") and the one below which it stays (``<3``), a
lock file and an installed package the exact one. The first source that gives a lower bound of a package is believed:
the configuration, the dependencies in ``pyproject.toml``, ``requirements*.txt`` and what ``pip freeze`` has written
under any name, ``setup.py``, ``setup.cfg``, an environment of conda, ``uv.lock``, ``poetry.lock`` or a ``Pipfile``, and
the project's virtual environment. How late a version may be is also read off such files in the folders of the project
and off comments in them, off the image that a Dockerfile begins with, off commands that install or call something or
enter an environment (``pip install torch==1.4``, ``python3.6 x.py``, ``conda activate py36``), off what pyenv, PyCharm,
tox and services for tests run, off its READMEs and other notes, and off the channels of conda that these name; of all
these the strictest counts.
The Python that a notebook ran with is not read: that tells when it was run, not with what it is run today.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dllint.config.channels import told_by_command, told_by_environment
from dllint.config.images import told_by_container, told_by_image, with_arguments
from dllint.config.notes import is_note, notes_in, pythons_entered, told_by_text
from dllint.config.requirement_files import requirement_files
from dllint.config.tools import (
    installed_in,
    package_of_wheel,
    packages_of_pipfile,
    pythons_of_tools,
    pythons_required,
    requirements_of_setup,
    version_of_wheel,
)
from dllint.files import toml
from dllint.files.source import SourceError, read_bytes

# fmt: off
PACKAGES = frozenset((
    "torch", "torchvision", "torchaudio", "lightning", "pytorch-lightning", "transformers", "accelerate", "datasets",
    "trl", "peft", "timm", "deepspeed", "fastai", "pytorch-ignite", "diffusers", "ultralytics", "numpy", "pillow",
    "pyyaml", "scikit-learn", "scikit-image", "scipy", "pandas", "numba", "tensorflow", "torchtext", "allennlp", "cuda",
    "python", "librosa", "networkx", "huggingface-hub", "albumentations", "dgl", "gensim", "gym", "gymnasium",
    "imageio", "kornia", "matplotlib", "monai", "moviepy", "nibabel", "nltk", "segmentation-models-pytorch",
    "sentence-transformers", "stable-baselines3", "tensorboardx", "torch-geometric", "torchmetrics", "wandb",
    "audiomentations", "catalyst", "joblib", "mne", "omegaconf", "opencv-python", "pydicom", "pytorch-cuda", "spacy",
    "threadpoolctl", "grad-cam", "lightgbm", "xgboost",
))
# fmt: on

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;#)]*)")
_LOWER_BOUND = re.compile(r"(?:===?|>=?|~=|\^|~|=|^)\s*v?(\d+(?:\.\d+)*)")
_LOCKED = re.compile(  # early releases of poetry sort the keys, so that others stand between
    r'^name = "([^"\n]+)"\n(?:(?![\[\n]|name)[^\n]*\n)*?version = "(\d+(?:\.\d+)*)', re.MULTILINE
)
_UPPER_BOUND = re.compile(r"(===?|<=?|~=|\^|~|=|^)\s*v?(\d+(?:\.\d+)*)(\.\*)?")
_DEPENDENCIES = re.compile(r"^(?:dependencies|[ ]*python_packages):\s*$", re.MULTILINE)  # of conda, and of Cog
_CONDA = re.compile(r"^\s*-\s+['\"]?(?:[\w-]+::)?([\w.-]+)\s*([<>=!~][^'\"\s#]*)", re.MULTILINE)
_IN_COMMANDS = re.compile(
    r"(?<![\w-])(?:(pytorch|torch|numpy|transformers|pytorch-lightning|tensorflow)(?:==?|[/-])"
    r"|(python)(?:-version)?(?:==?|[/-]|:\s*|(?=3\.))['\"]?)(\d+\.\d+(?:\.\d+)?)"
)
_RUNS_PYTHON_2 = re.compile(r"(?m)^[^#\n]*(?<![\w-])python2 +(?:-\w+ +)*[\w./-]+\.py\b")
_IMAGES = ("[Dd]ockerfile*", "*/[Dd]ockerfile*", "*.def", "*/*.def")  # of Docker and Apptainer
_SCRIPTS = (*(f"{folder}*.{ending}" for ending in ("sh", "slurm", "sbatch", "pbs", "bat") for folder in ("", "*/")),)
_OF_SERVICES = ("runtime.txt", ".travis.yml", ".gitlab-ci.yml", ".circleci/config.yml", ".github/workflows/*.y*ml")
_COMMANDS = (*_IMAGES, *_SCRIPTS, "INSTALL*", "Makefile", *_OF_SERVICES)
_IN_COMMENT = re.compile(r"(?m)^\s*#+\s*(?:pip3? install\s+)?([A-Za-z][\w.-]*)\s*(==\s*\d+(?:\.\d+)*)")
_COMMENT = re.compile(r"(?m)^[ \t]*#+(?!!)(.*)")  # `# pytorch 1.0.1, cuda 9.0` above the commands
_REQUIREMENTS = re.compile(r"req.*\.(?:txt|in)$")
_PIPFILE = re.compile(r'"([\w.-]+)": \{[^{}]*"version": "==(\d+(?:\.\d+)*)')
_PYTHON_OF_PIPFILE = re.compile(r"(?m)^python_version\s*=\s*[\"'](\d\.\d+)")
_TELLING = re.compile(r"requirements$|README|Pipfile|.*\.(?:txt|in|y.*ml|lock|md)$", re.IGNORECASE)
_NOT_OF_PROJECT = ("node_modules", "site-packages", "venv", "third_party", "external")
_ALSO_CALLED = {
    "pytorch": "torch",
    "cudatoolkit": "cuda",
    "cuda-toolkit": "cuda",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "opencv": "opencv-python",
    "opencv-python-headless": "opencv-python",
    "opencv-contrib-python": "opencv-python",
    "opencv-contrib-python-headless": "opencv-python",
}
_UNLIMITED = "99999"
SOME_VERSION = "0"
"""The limit of a package that is fixed at a version which nobody tells: it may be before any, and after none."""
_WITH_BUILD = re.compile(r"\s*=(?!=)\s*([^=\s]+)")  # of conda: `=1.7.1=py3.8_cuda`, the build at the end says nothing


def find_versions(root: Path, configured: Mapping[str, str]) -> dict[str, str]:
    """The versions of the known packages for the project at ``root``; packages nothing is said about are left out."""
    versions = {_normalized(name): version for name, version in configured.items()}
    for read in _SOURCES:
        found: dict[str, str] = {}
        for name, specifier in read(root):
            version = _lower_bound(specifier) if name in PACKAGES else ""
            if version:
                found[name] = min(found.get(name, version), version, key=version_key)
        versions = found | versions
    return dict(sorted(versions.items()))


def find_limits(root: Path, configured: Mapping[str, str]) -> dict[str, str]:
    """The versions below which the known packages stay; packages that may be of any later version are left out.

    Of several sources the strictest counts, but not one that allows only what an earlier one forbids. A source that
    names a package and no version says nothing. An image forbids nothing: it is one way to run a part of the project,
    beside that which the notes tell.
    """
    limits = {_normalized(name): just_above(version) for name, version in configured.items()}
    wanted = {_normalized(name): version for name, version in configured.items()}
    beside: Collection[str] = ()
    for read in _FOR_LIMITS:
        found, lowest = _limits_in(read(root))
        for name, limit in found.items():
            if version_key(limit) > version_key(wanted.get(name, "")):
                limits[name] = min(limits.get(name, limit), limit, key=version_key)
        beside = lowest.keys() if read is _from_dockerfile else beside
        wanted = {name: version for name, version in lowest.items() if name not in beside} | wanted
    return {name: limit for name, limit in sorted(limits.items()) if limit != _UNLIMITED}


def limits_of_file(name: str, text: str) -> dict[str, str]:
    """As :func:`find_limits`, by one file: requirements, an environment of conda, or a note.

    Args:
        name: that of the file, by which it is known what it is.
    """
    if _REQUIREMENTS.search(name):
        return limits_by(_requirements_in(text))
    if name.endswith((".yml", ".yaml")):
        return limits_by(_environment_in(text))
    return limits_by(told_by_text(text)) if is_note(name) else {}


def limits_by(told: Iterable[tuple[str, str]]) -> dict[str, str]:
    """As :func:`find_limits`, by what one source says of packages, as it calls them: notes, or a command."""
    found, _ = _limits_in((_called(name), specifier) for name, specifier in told)
    return {name: limit for name, limit in found.items() if limit != _UNLIMITED}


def _limits_in(told: Iterable[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """The versions below which packages stay by one source, and the lowest ones that it allows."""
    found: dict[str, str] = {}
    lowest: dict[str, str] = {}
    for name, specifier in (each for each in told if each[0] in PACKAGES):
        lower, upper = _lower_bound(specifier), _upper_bound(specifier)
        if lower or upper:
            limit = upper or _UNLIMITED
            found[name] = max(found.get(name, limit), limit, key=version_key)
            lowest[name] = min(lowest.get(name, lower), lower, key=version_key)
    return found, lowest


def just_above(version: str) -> str:
    """The version below which a version is the last one."""
    return ".".join(map(str, (*(*version_key(version), 0, 0, 0)[: max(3, len(version_key(version)))], 1)))


def version_key(version: str) -> tuple[int, ...]:
    """The numbers a version starts with, for comparison: ``"2.1.0+cu118"`` is ``(2, 1, 0)``."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _normalized(name: str) -> str:
    return re.sub(r"[-_.\s]+", "-", name).lower()


def _read(path: Path) -> str:
    """The text of a file, or nothing: a version is a hint, and a file that cannot be read gives none."""
    try:
        raw = read_bytes(path)
    except SourceError:
        return ""
    is_wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell writes it, and pip reads it
    return raw.decode("utf-16" if is_wide else "utf-8-sig", "replace")


def _requirement(text: str) -> Iterator[tuple[str, str]]:
    """The package of one requirement (PEP 508), and what is said of its version."""
    if package := package_of_wheel(text):
        yield _called(package), version_of_wheel(text)
    elif match := _REQUIREMENT.match(text):
        yield _called(match.group(1)), version_of_wheel(match.group(2)) or _without_build(match.group(2))


def _called(name: str) -> str:
    """The name of a package, normalized, also where it is that of conda."""
    name = _normalized(name)
    return _ALSO_CALLED.get(name, name)


def _without_build(specifier: str) -> str:
    """``=1.7.1=py3.8_cuda``, as conda writes it, also into a ``requirements.txt``, as ``=1.7.1``."""
    match = _WITH_BUILD.match(specifier)
    return f"={match.group(1)}" if match else specifier


def _lower_bound(specifier: str) -> str:
    """``">=2.1,<3"`` -> ``"2.1"``; of several bounds the highest, as all must hold; "" where there is none."""
    bounds = [match.group(1) for part in specifier.split(",") if (match := _LOWER_BOUND.match(part.strip()))]
    return max(bounds, key=version_key, default="")


def _upper_bound(specifier: str) -> str:
    """``">=2.1,<3"`` -> ``"3"``, ``"==2.1"`` -> ``"2.1.0.1"``; of several bounds the lowest; "" where there is none.

    What was built on somebody's machine (``@ file:///...``) is fixed, and nobody says at what.
    """
    if specifier.lstrip().startswith("@ file:"):
        return SOME_VERSION
    bounds = []
    for part in specifier.split(","):
        if match := _UPPER_BOUND.match(part.strip()):
            sign, version, star = match.groups()
            bounds.append(_limit(sign, version, is_prefix=bool(star)))
    return min(bounds, key=version_key, default="")


def _limit(sign: str, version: str, *, is_prefix: bool) -> str:
    numbers = version_key(version)
    if sign == "<":
        return version
    if sign == "^":  # the first number that is not zero stays
        kept = next((index for index, number in enumerate(numbers) if number), 0) + 1
    elif sign in ("~=", "~"):
        kept = max(1, len(numbers) - 1) if sign == "~=" or len(numbers) > 2 else len(numbers)
    elif is_prefix or sign == "=":
        kept = len(numbers)
    else:
        return just_above(version)
    return ".".join(map(str, (*numbers[: kept - 1], numbers[kept - 1] + 1)))


def _from_pyproject(root: Path) -> Iterator[tuple[str, str]]:
    text = _read(root / "pyproject.toml")
    try:
        data = toml.parse(text) if text else {}
    except ValueError:
        return
    project = _table(data, "project")
    if isinstance(python := project.get("requires-python"), str):
        yield "python", python
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
        told = value if isinstance(value, dict) else {"version": value}
        specifier = told.get("version") or version_of_wheel(str(told.get("url", "")))
        if isinstance(specifier, str):
            yield _normalized(name), specifier


def _table(data: object, key: str) -> dict[str, Any]:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _from_requirements(root: Path) -> Iterator[tuple[str, str]]:
    return (found for path in requirement_files(root, _read) for found in _requirements_in(_read(path)))


def _requirements_in(text: str) -> Iterator[tuple[str, str]]:
    return (found for line in text.splitlines() for found in _requirement(line))


def _from_comments(root: Path) -> Iterator[tuple[str, str]]:
    """``# torch==2.4.1+cu118``: what is to be installed by hand, before the rest of a ``requirements.txt``."""
    for path in requirement_files(root, _read):
        for name, specifier in _IN_COMMENT.findall(_read(path)):
            yield _called(name), specifier


def _from_lock(root: Path) -> Iterator[tuple[str, str]]:
    for name in ("uv.lock", "poetry.lock"):
        for match in _LOCKED.finditer(_read(root / name).replace("\r\n", "\n")):
            yield _normalized(match.group(1)), f"=={match.group(2)}"
    for name, version in _PIPFILE.findall(_read(root / "Pipfile.lock")):
        yield _normalized(name), f"=={version}"
    for version in _PYTHON_OF_PIPFILE.findall(_read(root / "Pipfile")):
        yield "python", f"={version}"
    for name, specifier in packages_of_pipfile(root, _read):
        yield _called(name), specifier


def _from_setup(root: Path) -> Iterator[tuple[str, str]]:
    """What ``setup.py``, which is read and not run, and ``setup.cfg`` say that they install."""
    yield from (("python", specifier) for specifier in pythons_required(root, _read))
    for line in requirements_of_setup(root, _read):
        yield from _requirement(line)


def _from_conda(root: Path) -> Iterator[tuple[str, str]]:
    """``- pytorch=1.7.1`` is of conda, ``- torch==1.7.1`` below it of pip. The file may be called anything."""
    return (found for path in sorted(root.glob("*.y*ml")) for found in _environment_in(_read(path)))


def _environment_in(text: str) -> Iterator[tuple[str, str]]:
    for name, specifier in _CONDA.findall(text) if _DEPENDENCIES.search(text) else ():
        yield _called(name), _without_build(specifier)


def _from_environment(root: Path) -> Iterator[tuple[str, str]]:
    """What is installed in the environment of a project."""
    return ((_normalized(name), f"=={version}") for name, version in installed_in(root))


def _from_notes(root: Path) -> Iterator[tuple[str, str]]:
    """``PyTorch 1.11.0``, ``Python 3.7``: what the authors ran with, in READMEs and other Markdown."""
    for path in notes_in(root):
        for name, specifier in told_by_text(_read(path)):
            yield _called(name), specifier


def _from_channels(root: Path) -> Iterator[tuple[str, str]]:
    """The channels of conda that READMEs, scripts and environments name."""
    for path in notes_in(root):
        yield from told_by_command(_read(path))
    for text in _commands_in(root):
        yield from told_by_command(text)
    for path in sorted(root.glob("*.y*ml")):
        yield from told_by_environment(_read(path))


def _from_dockerfile(root: Path) -> Iterator[tuple[str, str]]:
    """``FROM pytorch/pytorch:1.7.1-cuda11.0`` and ``FROM python:3.8``, also in a folder, and for Apptainer."""
    for path in sorted(path for pattern in _IMAGES for path in root.glob(pattern)):
        yield from told_by_image(_read(path))


def _from_containers(root: Path) -> Iterator[tuple[str, str]]:
    """The containers that requirements, notes, scripts and settings of jobs name."""
    for path in (*requirement_files(root, _read), *notes_in(root), *sorted(root.glob("*.y*ml"))):
        yield from told_by_container(_read(path))
    for text in _commands_in(root):
        yield from told_by_container(text)


def _from_commands(root: Path) -> Iterator[tuple[str, str]]:
    """``pip install torch==1.4.0``, ``module load python/3.6`` and ``python3.6 train.py``, in scripts and for CI.

    So is what their comments tell, which are notes: ``# pytorch 1.0.1, cuda 9.0``.
    """
    texts = _commands_in(root)
    for name, python, version in (found for text in texts for found in _IN_COMMANDS.findall(text)):
        yield _called(name or python), f"={version}"
    yield from (("python", version) for text in texts for version in pythons_entered(text))
    for name, specifier in (told for text in texts for told in told_by_text("\n".join(_COMMENT.findall(text)))):
        yield _called(name), specifier
    if any(map(_RUNS_PYTHON_2.search, texts)) and not any("python3" in text for text in texts):
        yield "python", "=2.7"


def _commands_in(root: Path) -> list[str]:
    return [with_arguments(_read(path)) for path in sorted({p for pattern in _COMMANDS for p in root.glob(pattern)})]


def _from_below(root: Path) -> Iterator[tuple[str, str]]:
    """What the files for installation in the folders of a project say, and the notes there."""
    for pattern in ("*/", "*/*/", "wandb/run-*/files/"):  # the last has what a run was made with
        for folder in sorted(root.glob(pattern)):
            inside = folder.relative_to(root).parts
            if not any(part.startswith(".") or part in _NOT_OF_PROJECT for part in inside) and _may_tell(folder):
                for read in (_from_requirements, _from_comments, _from_conda, _from_lock, _from_notes):
                    yield from read(folder)


def _may_tell(folder: Path) -> bool:
    """Whether a folder has anything that is read there: most have code alone, and are listed once."""
    try:
        return any(map(_TELLING.match, os.listdir(folder)))
    except OSError:
        return False


def _from_tools(root: Path) -> Iterator[tuple[str, str]]:
    """The Python that pyenv, PyCharm, tox and services for tests run: no limit of what asks for a Python itself."""
    if all(name != "python" for name, _ in (*_from_pyproject(root), *_from_setup(root))):
        yield from (("python", specifier) for specifier in pythons_of_tools(root, _read))


_SOURCES = (_from_pyproject, _from_requirements, _from_setup, _from_conda, _from_lock, _from_environment)
_FOR_LIMITS = (*_SOURCES, _from_tools, _from_comments, _from_below, _from_dockerfile, _from_containers, _from_commands,
               _from_notes, _from_channels)  # fmt: skip
