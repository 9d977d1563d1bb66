"""Which files a run is about.

A folder stands for the modules and notebooks in it. Where git knows the folder, git is asked (so that what it ignores
is left out); elsewhere the folder is walked. Names that are never a project's own code are left out in both cases.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.files.globs import Globs
from dllint.files.source import display_path, os_reason
from dllint.files.vendored import is_vendored
from dllint.findings import Problem

SUFFIXES = (".py", ".ipynb")

DEFAULT_EXCLUDES = frozenset(
    [
        *(".bzr", ".git", ".hg", ".svn"),
        *(".direnv", ".nox", ".pixi", ".tox", ".venv", "venv", "site-packages", "node_modules"),
        *(".dllint_cache", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache", ".pytype", ".ruff_cache"),
        *(".eggs", "__pycache__", "__pypackages__", "_build", "build", "dist"),
        *(".idea", ".vscode"),
    ]
)
"""Names of folders that are passed over, unless the folder itself was named. So are copies of distributions."""

_PROJECT_MARKERS = (".git", "pyproject.toml", ".dllint.toml", "dllint.toml")

_GIT_TIMEOUT = 60.0
_REPOSITORY_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
_CLOSED_FOLDER = re.compile(rb"could not open directory '(.+?)/?': (.+)")


def is_passed_over(folder: str, name: str) -> bool:
    """Whether a folder in another one is passed over, unless it was named."""
    return name in DEFAULT_EXCLUDES or is_vendored(folder, name)


@dataclass(slots=True)
class Discovery:
    """The files found, absolute, sorted and each once, and what could not be looked at."""

    files: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def find_files(
    paths: Sequence[Path], *, exclude: Sequence[str], root: Path, respect_excludes: bool = True
) -> Discovery:
    """The files that ``paths`` stand for.

    Args:
        paths: files, taken whatever their suffix, and folders.
        exclude: patterns relative to ``root`` (see :mod:`dllint.files.globs`) for files and folders below it, also
            for those that were named.
        root: the folder of the project.
        respect_excludes: whether ``exclude`` counts. The names in :data:`DEFAULT_EXCLUDES` always do, below the
            folder that was named.

    Raises:
        ValueError: a pattern is not valid.
    """
    search = _Search(Globs(exclude if respect_excludes else ()), os.path.abspath(root))
    search.look_into([folder for path in paths if (folder := search.name(os.path.abspath(path))) is not None])
    search.problems.sort(key=lambda problem: problem.path)
    return Discovery([Path(path) for path in search.distinct()], search.problems)


def is_project(folder: Path) -> bool:
    """Whether something marks a folder as that of a project. What is not marked may be anything, even a home."""
    return any(os.path.exists(folder / name) for name in _PROJECT_MARKERS)


def project_files(folder: Path, *, exclude: Sequence[str], root: Path) -> list[Path]:
    """The files of the project in a folder, or if it is none, those right in that folder.

    What cannot be looked at is passed over.
    """
    if is_project(folder):
        return find_files([folder], exclude=exclude, root=root).files
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return find_files([folder / name for name in names if name.endswith(SUFFIXES)], exclude=exclude, root=root).files


class _Search:
    """The state of one search: the files and problems so far. All paths are absolute strings."""

    def __init__(self, exclude: Globs, root: str) -> None:
        self.problems: list[Problem] = []
        self._exclude = exclude
        self._root = os.path.join(root, "")
        self._files: set[str] = set()
        self._links: set[str] = set()

    def name(self, path: str) -> str | None:
        """Take a file that was named, or return the path if it is a folder that is to be looked into."""
        try:
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        except OSError as error:
            self._unreadable(path, os_reason(error, path))
            return None
        if self._excluded(path, is_folder):
            return None
        if is_folder:
            return path
        self._add(path, os.path.islink(path))
        return None

    def look_into(self, folders: Iterable[str]) -> None:
        """Take the files in folders. Each repository that they lie in is asked once."""
        by_repository: dict[str, dict[str, str]] = {}
        for folder in folders:
            real = os.path.realpath(folder)
            repository = _repository(real)
            if repository is None:
                self._walk(folder)
            else:
                by_repository.setdefault(repository, {})[folder] = os.path.relpath(real, repository)
        for repository, places in by_repository.items():
            listing = self._ask_git(repository, places.values())
            has_submodules = os.path.exists(os.path.join(repository, ".gitmodules"))
            for folder, place in places.items():
                prefix = "" if place == "." else f"{place.replace(os.sep, '/')}/"
                inside = [path.removeprefix(prefix) for path in listing if path.startswith(prefix)]
                if not inside:  # git failed, or ignores the folder that was named
                    self._walk(folder)
                for path in inside:
                    self._take_listed(folder, path, has_submodules)

    def _take_listed(self, folder: str, path: str, has_submodules: bool) -> None:
        """Take what git lists at ``path`` in a folder: a file, or a repository within the repository."""
        *above, last = path.rstrip("/").split("/")
        folders = (os.path.join(folder, *above[:depth]) for depth in range(len(above)))
        if any(is_passed_over(parent, name) for parent, name in zip(folders, above, strict=True)):
            return
        absolute = os.path.join(folder, *above, last)
        is_repository = path.endswith("/") or (has_submodules and os.path.isdir(absolute))
        if is_repository:
            is_skipped = is_passed_over(os.path.dirname(absolute), last)
            if not is_skipped and not os.path.islink(absolute) and not self._excluded(absolute, True):
                self.look_into([absolute])
        elif last.endswith(SUFFIXES):
            self._add_found(absolute)

    def _walk(self, folder: str) -> None:
        pending = [folder]
        while pending:
            current = pending.pop()
            try:
                with os.scandir(current) as entries:
                    found = [(entry.path, entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
            except OSError as error:
                self._unreadable(current, os_reason(error, current))
                continue
            if current != folder and any(name == ".git" for _, name, _ in found):
                self.look_into([current])
                continue
            for path, name, is_folder in found:
                if is_folder and not is_passed_over(current, name) and not self._excluded(path, True):
                    pending.append(path)
                elif not is_folder and name.endswith(SUFFIXES):
                    self._add_found(path)

    def _add_found(self, path: str) -> None:
        """Take a file that was come across, unless it is excluded, gone, or no file."""
        if self._excluded(path, False):
            return
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            return  # git knows it, and it has been deleted
        except OSError as error:
            self._unreadable(path, os_reason(error, path))
            return
        if stat.S_ISLNK(mode) and not os.path.exists(path):
            self._unreadable(path, "broken symbolic link")
        elif stat.S_ISREG(mode) or os.path.isfile(path):
            self._add(path, stat.S_ISLNK(mode))

    def _add(self, path: str, is_link: bool) -> None:
        (self._links if is_link else self._files).add(path)

    def distinct(self) -> list[str]:
        """The files, sorted; of several paths to one file the first that is no link."""
        real_folder = cache(os.path.realpath)
        taken: dict[str, str] = {}
        for path in sorted(self._files):
            folder, name = os.path.split(path)
            taken.setdefault(os.path.join(real_folder(folder), name), path)
        for path in sorted(self._links):
            taken.setdefault(os.path.realpath(path), path)
        return sorted(taken.values())

    def _excluded(self, path: str, is_folder: bool) -> bool:
        if not path.startswith(self._root):
            return False
        relative = path[len(self._root) :].replace(os.sep, "/")
        return self._exclude.matches(f"{relative}/" if is_folder else relative)

    def _unreadable(self, path: str, reason: str) -> None:
        self.problems.append(Problem("unreadable", reason, display_path(path)))

    def _ask_git(self, repository: str, folders: Iterable[str]) -> list[str]:
        """What git lists in some folders of a repository; nothing if it fails."""
        import subprocess  # takes a while, and a run over named files does without

        command = ["git", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-C", repository, "ls-files", "-z"]
        command += ["--cached", "--others", "--exclude-standard", "--", *folders]
        environment = {key: value for key, value in os.environ.items() if key not in _REPOSITORY_VARIABLES}
        environment["LC_ALL"] = "C"
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=_GIT_TIMEOUT
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        if done.returncode != 0:
            return []
        for folder, reason in _CLOSED_FOLDER.findall(done.stderr):
            self._unreadable(os.path.join(repository, os.fsdecode(folder)), os.fsdecode(reason).lower())
        return sorted({os.fsdecode(path) for path in done.stdout.split(b"\0") if path})


def _repository(folder: str) -> str | None:
    """The nearest folder at or above one (both real paths) that git calls the top of a work tree."""
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder
