"""Which repositories an audit is about: the subfolders of a folder, or the lines of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.errors import UserError


@dataclass(frozen=True, slots=True)
class Repository:
    """A folder, and what it is called in the tables."""

    name: str
    folder: Path

    @property
    def file_name(self) -> str:
        """The name of the file that its result is kept in."""
        mark = blake2b(str(self.folder).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
        return f"{self.folder.name[:80]}-{mark}.json"


def repositories(paths: Iterable[str]) -> list[Repository]:
    """The repositories that some files and folders stand for, each once.

    Raises:
        UserError: a path is not there, or no repository is.
    """
    found = {each.folder: each for path in paths for each in _in(Path(os.path.abspath(path)))}
    if not found:
        raise UserError("there is no repository to audit: give a folder of folders, or a file with one in each line")
    return list(found.values())


def _in(path: Path) -> Iterator[Repository]:
    try:
        if path.is_dir():
            folders = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
            yield from (Repository(folder.name, folder) for folder in folders)
            return
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"{path} cannot be read: {reason}") from error
    for line in lines:
        name = line.strip()
        if name and not name.startswith("#"):
            yield Repository(name, Path(os.path.abspath(path.parent / name)))
