"""Who imports whom in a project: found without parsing it, and kept between runs.

Of each file its import statements are kept under its size and time. What they lead to is worked out afresh in each run,
and only where it may be one of the files asked about, so that files may come and go.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from dllint.dataclass import dataclass
from dllint.files.atomic import write_atomic
from dllint.files.source import MAX_BYTES, SourceError, read_bytes, read_source, source_from_text
from dllint.interp.source.import_statements import Import, has_definitions, imports_of
from dllint.interp.source.listings import text_of
from dllint.interp.source.search_path import SearchPaths, project_root

_FORMAT = 2
_NAME = "imports.index"
_DOUBTFUL = 2_000_000_000  # nanoseconds: a file as young as that may change and keep its time
_PACKAGE = "__init__.py"

State = tuple[int, int, int, int]  # times of the last change of contents and of anything, size, number of the file


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a file. ``passes_on`` says that it is a package that defines nothing itself."""

    state: State
    imports: tuple[Import, ...] = ()
    passes_on: bool = False


class ImportIndex:
    """The imports of the files of a project.

    Args:
        file: where they are kept between runs; nowhere if None.
        kept: what is known already, by path.
        written: when that was found out, in nanoseconds.
    """

    def __init__(self, file: Path | None, kept: Mapping[str, Entry], written: int = 0) -> None:
        self._file = file
        self._entries = dict(kept)
        self._files: list[str] = []
        self._unsaved: dict[str, Entry] = {}
        self._written = written
        self._changed = False

    @classmethod
    def open(cls, cache_directory: Path | None) -> ImportIndex:
        """The index that is kept in a folder; empty if there is none that can be read."""
        file = cache_directory / _NAME if cache_directory is not None else None
        try:
            kept = json.loads(file.read_bytes()) if file is not None else {}
            if kept.get("format") == _FORMAT:
                return cls(file, {path: _entry(data) for path, data in kept["files"].items()}, kept["written"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(file, {})  # there is none, or it is damaged: it is made again
        return cls(file, {})

    def refresh(self, files: Iterable[Path], overlay: Mapping[Path, str]) -> None:
        """Take note of what the files of a project are now.

        Args:
            files: all of them, absolute.
            overlay: the unsaved text of some.
        """
        started = time.time_ns()
        self._files = list(map(str, files))
        entries = {path: entry for path in self._files if (entry := self._read(path)) is not None}
        self._changed |= entries.keys() != self._entries.keys()
        self._entries, self._written = entries, started
        self._unsaved = self._entries_of(overlay)

    def fits(self, overlay: Mapping[Path, str]) -> bool:
        """Whether files with this unsaved text import what they did when last looked at."""
        return self._unsaved == self._entries_of(overlay)

    def _entries_of(self, overlay: Mapping[Path, str]) -> dict[str, Entry]:
        texts = {str(path): text for path, text in overlay.items()}
        return {path: _entry_of(path, texts[path], (0, 0, 0, 0)) for path in self._files if path in texts}

    def _read(self, path: str) -> Entry | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        # The first time is set by programs that copy or unpack files, so that alone it does not tell files apart.
        state = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        known = self._entries.get(path)
        if known is not None and known.state == state and state[0] < self._written - _DOUBTFUL:
            return known
        self._changed = True
        return _entry_of(path, _text(path), state)

    def save(self) -> None:
        """Write what has changed. A project that cannot be written to has no index."""
        if self._file is None or not self._changed:
            return
        files = {
            path: [*entry.state, entry.passes_on, [[*each] for each in entry.imports]]
            for path, entry in self._entries.items()
        }
        kept = {"format": _FORMAT, "written": self._written, "files": files}
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            (self._file.parent / ".gitignore").write_text("*\n", "utf-8")
            write_atomic(self._file, json.dumps(kept, separators=(",", ":")).encode())

    def importers(self, files: Iterable[Path], working_directory: Path, otherwise: Path | None = None) -> list[Path]:
        """The files that import one of some files, directly or not, in order; without these themselves.

        ``otherwise`` bounds the search for imports where nothing marks a project (see ``project_root``).
        """
        search = _Search(self._entries, self._unsaved, lambda file: project_root(file, working_directory, otherwise))
        wanted = {str(file) for file in files}
        return sorted(Path(path) for path in search.importers(wanted) - wanted)


def _entry(data: Sequence[Any]) -> Entry:
    *state, passes_on, imports = data
    modified, changed, size, number = state
    return Entry(
        (modified, changed, size, number),
        tuple(Import(level, module, None if names is None else tuple(names)) for level, module, names in imports),
        passes_on,
    )


def _entry_of(path: str, text: str, state: State) -> Entry:
    """What there is to know of a file; of one that cannot be read nothing, as its own check will report."""
    if not path.endswith(".py"):
        try:
            text = source_from_text(text, Path(path)).text
        except SourceError:
            return Entry(state)
    passes_on = os.path.basename(path) == _PACKAGE and not has_definitions(text)
    return Entry(state, tuple(imports_of(text)), passes_on)


def _text(path: str) -> str:
    """The text of a file as it is on disk; empty if it cannot be read."""
    try:
        if not path.endswith(".py"):
            return read_source(Path(path)).file_text
        return read_bytes(Path(path), MAX_BYTES).decode("utf-8", "replace")
    except SourceError:
        return ""


@dataclass(slots=True)
class _Lead:
    """By which names a package that only passes on leads to what is looked for; ``everything`` for other files."""

    everything: bool = False
    names: set[str] = field(default_factory=set)

    def widen(self, statement: Import, passes_on: bool) -> bool:
        """Take in what a statement binds. Returns whether that is anything new."""
        before = (self.everything, len(self.names))
        if not passes_on or statement.names is None or "*" in statement.names:
            self.everything = True
        else:
            self.names.update(statement.names)
        return (self.everything, len(self.names)) != before

    def is_used_by(self, statement: Import) -> bool:
        return self.everything or statement.is_everything or not self.names.isdisjoint(statement.names or ())


class _Search:
    """One search for importers, from the imported files upward. All paths are strings, which is faster."""

    def __init__(
        self, saved: Mapping[str, Entry], unsaved: Mapping[str, Entry], root_of: Callable[[Path], Path]
    ) -> None:
        self._entries = {**saved, **unsaved}
        self._new = unsaved.keys() - saved.keys()
        self._root_of = root_of
        self._listings: dict[str, frozenset[str]] = {}
        self._bases: dict[str, list[str]] = {}
        self._search_paths = SearchPaths(lambda path: self._list(str(path)), text_of)
        self._found: dict[tuple[str, str], str | None] = {}

    def importers(self, files: Iterable[str]) -> set[str]:
        """The files that lead to some files, and these."""
        leads = {file: _Lead(everything=True) for file in files}
        pending = list(leads)
        while pending:
            target = pending.pop()
            for path, statement in self._candidates(target):
                if self._leads_to(path, statement, target, leads[target]):
                    lead = leads.setdefault(path, _Lead())
                    if lead.widen(statement, self._entries[path].passes_on):
                        pending.append(path)
        return set(leads)

    def _candidates(self, target: str) -> Iterator[tuple[str, Import]]:
        """The imports that have the name of a module in them."""
        folder, name = os.path.split(target)
        if name == _PACKAGE:
            yield from self._by_word.get(os.path.basename(folder), ())
            yield from self._by_word.get("", ())
        else:
            yield from self._by_word.get(os.path.splitext(name)[0], ())

    @cached_property
    def _by_word(self) -> dict[str, list[tuple[str, Import]]]:
        found: dict[str, list[tuple[str, Import]]] = defaultdict(list)
        for path, entry in self._entries.items():
            for statement in entry.imports:
                for word in {*statement.module.split("."), *(statement.names or ())}:
                    found[word].append((path, statement))
        return dict(found)

    def _leads_to(self, importer: str, statement: Import, target: str, lead: _Lead) -> bool:
        folder = os.path.dirname(importer)
        level, module, names = statement
        if names is None:
            parts = module.split(".")
            return any(self._find(folder, 0, ".".join(parts[: n + 1])) == target for n in range(len(parts)))
        if lead.is_used_by(statement) and self._find(folder, level, module) == target:
            return True
        name = os.path.splitext(os.path.basename(target))[0]
        last = name if name != "__init__" else os.path.basename(os.path.dirname(target))
        return last in names and self._find(folder, level, f"{module}.{last}" if module else last) == target

    def _find(self, folder: str, level: int, module: str) -> str | None:
        """The file that an import in a folder means."""
        parts = module.split(".") if module else []
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self._at(folder, parts)
        key = (folder, module)
        if key not in self._found:
            places = (self._at(base, parts) for base in self._search_path(folder))
            self._found[key] = next((place for place in places if place is not None), None)
        return self._found[key]

    def _at(self, base: str, parts: Sequence[str]) -> str | None:
        for part in parts[:-1]:
            if part not in self._list(base):
                return None
            base = f"{base}{os.sep}{part}"
        if not parts:
            return f"{base}{os.sep}{_PACKAGE}" if _PACKAGE in self._list(base) else None
        listing, last = self._list(base), parts[-1]
        if last in listing and _PACKAGE in self._list(f"{base}{os.sep}{last}"):
            return f"{base}{os.sep}{last}{os.sep}{_PACKAGE}"
        return f"{base}{os.sep}{last}.py" if f"{last}.py" in listing else None

    def _search_path(self, folder: str) -> list[str]:
        known = self._bases.get(folder)
        if known is None:
            root = self._root_of(Path(folder, _PACKAGE))
            known = self._bases[folder] = [str(base) for base in self._search_paths.of(Path(folder), root)]
        return known

    def _list(self, folder: str) -> frozenset[str]:
        known = self._listings.get(folder)
        if known is None:
            try:
                names = os.listdir(folder)
            except OSError:
                names = []
            known = self._listings[folder] = frozenset([*names, *self._unsaved.get(folder, ())])
        return known

    @cached_property
    def _unsaved(self) -> dict[str, list[str]]:
        """The names that folders have of files that are not on disk yet, and of the folders of those."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self._new:
            while (folder := os.path.dirname(path)) != path:
                found[folder].append(os.path.basename(path))
                path = folder
        return dict(found)
