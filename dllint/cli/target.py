"""What ``dllint confirm`` is to run: a script, a notebook, a module, or any command; and which files that lints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from dllint.confirm.notebooks import NotebookScript

_ISOLATED = re.compile(r"-[a-zA-Z]*[IE]")  # an option of Python by which it does not look at PYTHONPATH
_WITH_VALUE = ("-W", "-X")  # options of Python whose value is the next word
_IMPORTED = re.compile(r"^from (\w+(?:\.\w+)*) import", re.MULTILINE)
_PATIENCE = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Target:
    """The words to run, the files to lint, and the notebook if it is one."""

    words: list[str]
    files: list[str]
    notebook: NotebookScript | None = None


def target_of(given: dict[str, Any], folder: Path) -> Target:
    """What the options ask to run.

    Args:
        given: the options by name.
        folder: where a notebook may be written as a script.

    Raises:
        UsageError: they ask for nothing that can be run, or for several things.
        UserError: the notebook cannot be run.
    """
    ways = [way for way in ("launcher", "module", "script") if given[way]]
    arguments = list(given["arguments"])
    if given["module"] and given["script"]:  # the word after the module is its first argument
        arguments.insert(0, given["script"])
        ways.remove("script")
    if len(ways) != 1:
        raise click.UsageError("give a script, --module or --run, and just one of them")
    python = given["python"] or sys.executable
    if given["launcher"]:
        return command_of(given["launcher"], python, folder)
    if given["module"]:
        return Target([python, "-m", given["module"], *arguments], _files_of_module(given["module"]))
    if not Path(given["script"]).is_file():
        raise click.UsageError(f"there is no script {given['script']}")
    return _script(given["script"], python, arguments, folder)


def command_of(text: str, python: str, folder: Path) -> Target:
    """What a command as for a shell runs; a script or notebook may stand for Python running it.

    Raises:
        UsageError: it is no command, or one to whose Python nothing can be attached.
        UserError: the notebook cannot be run.
    """
    words = _split(text)
    if words[0].endswith((".py", ".ipynb")):
        return _script(words[0], python, words[1:], folder)
    _refuse_isolation(words)
    beside = Path(python).parent / words[0]
    if os.sep not in words[0] and shutil.which(words[0]) is None and beside.is_file():
        words[0] = str(beside)  # a command of the environment that is not activated
    files = [word for word in words if word.endswith(".py") and Path(word).is_file()]
    if "-m" in words[1:-1]:
        files += _files_of_module(words[words.index("-m") + 1])
    return Target(words, files or _files_of_entry_point(words[0]))


def _script(name: str, python: str, arguments: list[str], folder: Path) -> Target:
    if not name.endswith(".ipynb"):
        return Target([python, name, *arguments], [name])
    from dllint.confirm.notebooks import as_script

    notebook = as_script(Path(name), folder)
    return Target([python, str(notebook.script), *arguments], [name], notebook)


def _split(text: str) -> list[str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is no command: {error}") from error
    if not words:
        raise click.UsageError("the command to run is empty")
    return words


def _refuse_isolation(words: list[str]) -> None:
    """Raise UsageError where Python is told not to look at the variable by which probes are attached."""
    if not re.fullmatch(r"python[\d.]*(\.exe)?", Path(words[0]).name):
        return
    rest = iter(words[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-") or word in ("-c", "-m"):
            return
        elif _ISOLATED.match(word) and not word.startswith("--"):
            raise click.UsageError(
                f"under `python {word}` nothing can be attached, as PYTHONPATH is not looked at: leave {word} out"
            )


def _files_of_module(name: str) -> list[str]:
    stem = Path(*name.split("."))
    return [str(file) for file in (stem.with_suffix(".py"), stem / "__main__.py") if file.is_file()]


def _files_of_entry_point(command: str) -> list[str]:
    """The file of a project that a command made by its installation calls into; none where it is something else."""
    found = shutil.which(command)
    try:
        text = Path(found).read_text(encoding="utf-8") if found else ""
    except (OSError, UnicodeDecodeError):  # a program
        return []
    shebang, imported = text.partition("\n")[0], _IMPORTED.search(text)
    if not shebang.startswith("#!") or "python" not in shebang or imported is None:
        return []
    ask = f"import importlib.util as u; print(u.find_spec({imported[1]!r}).origin)"
    try:
        told = subprocess.run(
            [*shebang[2:].split(), "-c", ask], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    file = told.stdout.strip()
    is_installed = any(part in ("site-packages", "dist-packages") for part in Path(file).parts)
    return [file] if file.endswith(".py") and Path(file).is_file() and not is_installed else []
