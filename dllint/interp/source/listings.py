"""What a folder or a file is to those who import from it, and the digest by which it is known to be the same still."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

from dllint.dataclass import dataclass
from dllint.files.source import SourceError, read_bytes


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a folder, and a digest of those that bear on what can be imported from it.

    These are modules, folders and links; what folders and links lead to are dependencies of their own. Of other files
    it counts whether there are any.
    """

    names: frozenset[str] = frozenset()
    digest: str = ""
    importable: frozenset[str] = frozenset()  # what the modules and folders are called by who imports them
    has_more: bool = False  # than code: a README, requirements, settings, data, or what git keeps


def read_listing(folder: str | Path, unsaved: Iterable[Path] = ()) -> Listing:
    """The listing of a folder, with ``unsaved`` files below it; without any, an empty one if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            kinds = {entry.name: _kind(entry) for entry in entries}
    except OSError:
        kinds = {}
    for path in unsaved:
        if Path(folder) in path.parents:
            name, *below = path.relative_to(folder).parts
            kinds.setdefault(name, "/" if below else "=")
    importable = frozenset(name.removesuffix(".py") for name in kinds if name != "__init__.py")
    has_more = any(_is_more(name, kind) for name, kind in kinds.items())
    bearing = [f"{name}{kind}" for name, kind in kinds.items() if kind]
    return Listing(frozenset(kinds), _digest_of([*bearing, "/"] if has_more else bearing), importable, has_more)


def _is_more(name: str, kind: str) -> bool:
    """Whether an entry is no code, and nothing that tools leave behind."""
    is_code = bool(kind) or name.endswith((".ipynb", ".pyc")) or name == "__pycache__"
    return not is_code and (name.startswith((".git", ".dllint.toml")) or not name.startswith("."))


def _kind(entry: os.DirEntry[str]) -> str:
    """A mark for the kind of an entry, or nothing if there is nothing to import from it."""
    if entry.name.startswith(".") or entry.name == "__pycache__":
        return ""
    try:
        is_link, is_folder = entry.is_symlink(), entry.is_dir()
    except OSError:
        return "?"
    if is_link:
        return "@"
    if is_folder:
        return "/"
    return "=" if entry.name.endswith(".py") else ""


def _digest_of(lines: Iterable[str]) -> str:
    text = "\n".join(sorted(lines)).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=16).hexdigest() if text else ""


def digest_of(path: str | Path, overlay: Mapping[Path, str] | None = None) -> str:
    """The digest of a file or folder as it is now, given the unsaved text of some; empty if it cannot be read."""
    text = overlay.get(Path(path)) if overlay else None
    if text is not None:
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    if os.path.isdir(path):  # a `Path` for each of thousands of files would take longer than this
        return read_listing(path, overlay or ()).digest
    try:
        return blake2b(read_bytes(path), digest_size=16).hexdigest()
    except SourceError:
        return ""


def text_of(file: Path) -> str:
    """The text of a file that is no module, such as a packaging file; an empty one if it cannot be read."""
    try:
        return read_bytes(file).decode("utf-8", "replace")
    except SourceError:
        return ""
