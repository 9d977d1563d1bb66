"""The user's project: its modules, found and parsed on demand, and how their imports resolve.

Only files of the project are ever opened. An import that leads nowhere in the project is a library's.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from dllint.files.source import SourceError, read_source, source_from_text
from dllint.interp.source import failing, gone_names, users
from dllint.interp.source.commands import Command
from dllint.interp.source.files_below import Below, modules_below
from dllint.interp.source.imported_modules import imported_modules
from dllint.interp.source.listings import Listing, digest_of, read_listing
from dllint.interp.source.module import SourceModule
from dllint.interp.source.other_files import OtherFiles
from dllint.interp.source.patterns import Pattern
from dllint.interp.source.search_path import SearchPaths, path_in_package
from dllint.interp.source.starting import Obstacles, obstacles
from dllint.interp.source.words import Vocabulary

_MAX_GLANCED_AT = 1_000_000  # characters
_MAX_UNPACKED = 8_000_000  # characters

Key = TypeVar("Key")
Found = TypeVar("Found")


class Project:
    """The modules below a root. Everything is read once and kept for the life of the object.

    ``used`` collects the files and folders that answers were found in, so that it is known what they depend on.
    """

    def __init__(self, root: Path, overlay: Mapping[Path, str] | None = None) -> None:
        self.root = root
        self._overlay = dict(overlay or {})
        self._modules: dict[Path, SourceModule | None] = {}
        self._listings: dict[Path, Listing] = {}
        self._bases: dict[Path, tuple[tuple[Path, ...], frozenset[Path]]] = {}
        self._vocabulary = Vocabulary()
        self._other_files = OtherFiles(self._others, self._use, self._vocabulary)
        self._search_paths = SearchPaths(self.names_in, self._other_files.text)
        self._imports: dict[tuple[Path, str, int], tuple[SourceModule | None, frozenset[Path]]] = {}
        self._imported: dict[Path, tuple[tuple[SourceModule, ...], frozenset[Path]]] = {}
        self._everything: dict[Path, tuple[tuple[Path, ...], frozenset[Path]]] = {}
        self._run: dict[Path, tuple[frozenset[str], frozenset[Path]]] = {}
        self._written: dict[Path, tuple[tuple[Command, ...], frozenset[Path]]] = {}
        self._path_set: dict[Path, tuple[bool, frozenset[Path]]] = {}
        self._obstacles: dict[Path, tuple[Obstacles, frozenset[Path]]] = {}
        self._uses: dict[tuple[Path, int], tuple[bool, frozenset[Path]]] = {}
        self._left_out: dict[Path, tuple[frozenset[failing.Place], frozenset[Path]]] = {}
        self._gone: dict[Path, tuple[tuple[gone_names.Need, ...], frozenset[Path]]] = {}
        self._below: dict[Below, tuple[tuple[Path, ...], frozenset[Path]]] = {}
        self._dependencies: dict[frozenset[Path], frozenset[Path]] = {}  # many answers depend on the same
        self.used: set[Path] = set()
        self._told: set[int] = set()  # answers whose dependencies are in `used` already
        self._paths: dict[Path, tuple[str, frozenset[Path]]] = {}
        self._known_paths: dict[Path, Path] = {}
        self.seconds_glancing = 0.0  # of CPU time, for all files of the project together
        self._unpacked: dict[Path, SourceModule] = {}  # those that were asked last for what they import
        self._characters_unpacked = 0
        self._glanced_at = 0  # characters of files whose trees are there because somebody glanced at them

    def module(self, file: Path, name: str = "") -> SourceModule | None:
        """The module in a file, or ``None`` if it cannot be read. Unreadable named files are reported by the runner."""
        file = self._use(file)
        if file not in self._modules:
            try:
                self._modules[file] = self.load(file, name)
            except SourceError:
                self._modules[file] = None
        return self._modules[file]

    def load(self, file: Path, name: str = "") -> SourceModule:
        """Read a module.

        Raises:
            SourceError: the file cannot be read.
        """
        known = self._modules.get(file)
        if known is None:
            text = self._overlay.get(file)
            source = read_source(file) if text is None else source_from_text(text, file)
            known = self._modules[file] = SourceModule(source, name or file.stem)
        return known

    @property
    def is_edited(self) -> bool:
        """Whether the text of some file was handed over by an editor or on standard input."""
        return bool(self._overlay)

    @property
    def characters_read(self) -> int:
        """The characters of all files that are held in memory."""
        return sum(module.source.characters for module in self._modules.values() if module is not None)

    @property
    def characters_parsed(self) -> int:
        """The characters of all files whose syntax trees are held in memory."""
        modules = (module for module in self._modules.values() if module is not None and module.is_parsed)
        return sum(module.source.characters for module in modules)

    def forget_trees(self) -> None:
        """Let go of all syntax trees and of what was searched for; nothing that was interpreted may still be in use."""
        self._glanced_at = 0
        self._forget_searches()
        for module in self._modules.values():
            if module is not None:
                module.forget_tree(self._vocabulary, for_all=True)

    def _forget_searches(self) -> None:
        """Let go of answers that very many files were searched for: each holds the paths of all of them."""
        self._obstacles.clear()
        self._left_out.clear()
        self._gone.clear()
        self._uses.clear()
        self._run.clear()
        self._path_set.clear()
        self._dependencies.clear()

    @contextmanager
    def glancing_at(self, module: SourceModule) -> Iterator[None]:
        """As :meth:`reading`, where the time that it takes is not that of the file under analysis."""
        began = time.thread_time()
        with self.reading(module):
            yield
        self.seconds_glancing += time.thread_time() - began

    @contextmanager
    def reading(self, module: SourceModule) -> Iterator[None]:
        """Look at the syntax tree of a file that may never be interpreted, and keep no node of it.

        Once there are many such files, their trees are let go: they are made again where they are needed after all.
        """
        was_parsed = module.is_parsed
        try:
            yield
        finally:
            if not was_parsed:
                self._has_read(module)

    def reading_each(self, modules: Iterable[SourceModule]) -> Iterator[SourceModule]:
        """Files, each for :meth:`reading` until the next one is asked for."""
        for module in modules:
            with self.reading(module):
                yield module

    def _has_read(self, module: SourceModule) -> None:
        if module.is_parsed:
            self._glanced_at += module.source.characters
            if self._glanced_at > _MAX_GLANCED_AT:
                module.forget_tree(self._vocabulary)

    def binds(self, module: SourceModule, name: str) -> bool:
        """Whether the top level of a file binds a name. One that does not is not interpreted for it."""
        was_parsed = module.is_parsed
        is_bound = name in module.top_level
        if not is_bound and not was_parsed:
            self._has_read(module)
        return is_bound

    def change(self, file: Path, text: str | None, module: SourceModule | None = None) -> SourceModule | None:
        """Take a module to have another text from now on; without a text, to be what is on disk.

        Where the text has been made a ``module`` already, that one is used.

        What was worked out from the old text is forgotten. The file must have been there before, or in the overlay.

        Returns:
            The module as it was, if it had been read.
        """
        if text is None:
            self._overlay.pop(file, None)
        else:
            self._overlay[file] = text
        old = self._modules.pop(file, None)
        self._imported.pop(file, None)
        self._forget_searches()
        if old is not None:
            if self._unpacked.pop(file, None) is not None:
                self._characters_unpacked -= old.source.characters
            self._imports = {key: entry for key, entry in self._imports.items() if entry[0] is not old}
            self._imported = {key: entry for key, entry in self._imported.items() if old not in entry[0]}
            if module is not None:
                module.name = old.name
        if module is not None:
            self._modules[file] = module
        return old

    def start_noting(self) -> None:
        """Forget what has been used so far."""
        self.used, self._told = set(), set()

    def _use(self, path: Path) -> Path:
        """Note that an answer depends on a file or folder. Returns its one object: comparing paths is slow."""
        path = self._known_paths.setdefault(path, path)
        self.used.add(path)
        return path

    def digest(self, path: Path) -> str:
        """The digest of a file or folder in :attr:`used`, or an empty string if it could not be read."""
        listing = self._listings.get(path)
        if listing is not None:
            return listing.digest
        module = self._modules.get(path)
        return module.source.digest if module is not None else digest_of(path)

    def _remember(self, memory: dict[Key, tuple[Found, frozenset[Path]]], key: Key, find: Callable[[], Found]) -> Found:
        """Find something once, and say each time what the answer depends on."""
        answer = memory.get(key)
        if answer is None:
            before = (self.used, self._told)
            self.start_noting()
            found, used = find(), frozenset(self.used)
            answer = memory[key] = (found, self._dependencies.setdefault(used, used))
            self.used, self._told = before
        found, used = answer
        if id(used) not in self._told:
            self._told.add(id(used))
            self.used.update(used)
        return found

    def find(self, importer: SourceModule, name: str, level: int = 0) -> SourceModule | None:
        """The project module that ``import name`` in ``importer`` means, or ``None`` if it is not in the project.

        ``level`` counts the leading dots of a relative import.
        """
        folder = importer.folder  # all its files find the same
        return self._remember(self._imports, (folder, name, level), lambda: self._find(folder, name, level))

    def _find(self, folder: Path, name: str, level: int) -> SourceModule | None:
        parts = name.split(".") if name else []
        if level:
            for _ in range(level - 1):
                folder = folder.parent
            return self._module_at(folder, parts, name)
        for base in self.search_path(folder):
            found = self._module_at(base, parts, name)
            if found is not None and (base == self.root or not found.imports_itself):
                return found
        return None

    def _module_at(self, base: Path, parts: list[str], name: str) -> SourceModule | None:
        folder = base
        for part in parts[:-1]:
            if part not in self.names_in(folder):
                return None
            is_hidden = f"{part}.py" in self.names_in(folder) and "__init__.py" not in self.names_in(folder / part)
            if is_hidden:
                return None  # a module comes before a folder that is no package
            folder = folder / part
        if parts and parts[-1] not in self.names_in(folder) and f"{parts[-1]}.py" not in self.names_in(folder):
            return None
        target = folder / parts[-1] if parts else folder
        if "__init__.py" in self.names_in(target):
            return self.module(target / "__init__.py", name)
        if parts and f"{parts[-1]}.py" in self.names_in(folder):
            return self.module(folder / f"{parts[-1]}.py", name)
        return None

    def path_of(self, module: SourceModule) -> str:
        """The dotted path of a module in the package that it belongs to, outermost package first; empty without one."""
        return self._remember(self._paths, module.file, lambda: path_in_package(module.file, self.root, self.names_in))

    def find_submodule(self, package: SourceModule, name: str) -> SourceModule | None:
        """The module ``name`` inside a package."""
        return self.find(package, name, 1) if package.is_package else None

    def find_in_namespace(self, importer: SourceModule, package: str, level: int, name: str) -> SourceModule | None:
        """The module ``name`` inside a folder without ``__init__.py`` that is imported as a package."""
        return self.find(importer, f"{package}.{name}" if package else name, level)

    def search_path(self, folder: Path) -> tuple[Path, ...]:
        """Where an absolute import of a file in ``folder`` is looked up."""
        return self._remember(self._bases, folder, lambda: self._search_paths.of(folder, self.root))

    def text(self, name: str | Path) -> str:
        """The text of a file of the project that is no module, by its path from the root; empty if there is none."""
        return self._other_files.text(self.root / name)

    def names_in(self, folder: Path) -> frozenset[str]:
        """The names in a folder; none if it cannot be read."""
        folder = self._use(folder)
        known = self._listings.get(folder)
        if known is None:
            known = self._listings[folder] = read_listing(folder, self._overlay)
        return known.names

    def is_whole_around(self, module: SourceModule) -> bool:
        """Whether the project is here as a whole, as files around a module tell that are no code.

        A tree of modules alone may be a part of one: what it lacks may be elsewhere.
        """
        for folder in (module.folder, *module.folder.parents):
            self.names_in(folder)
            if self._listings[folder].has_more:
                return True
            if folder == self.root:
                break
        return False

    def importable_in(self, folder: Path) -> frozenset[str]:
        """What the modules and folders in a folder are called by who imports them."""
        self.names_in(folder)
        return self._listings[folder].importable

    def imported_by(self, module: SourceModule) -> tuple[SourceModule, ...]:
        """The project modules that a file imports, judged by its text (nothing is parsed).

        Names that might be submodules are taken from all words of the file, so the answer may be too large, never
        too small.
        """
        return self._remember(self._imported, module.file, lambda: self._read_imported(module))

    def _read_imported(self, module: SourceModule) -> tuple[SourceModule, ...]:
        """As above; of very many files, most are asked for nothing else, and are held in less memory from then on."""
        found = tuple(dict.fromkeys(imported_modules(self, module)))
        if module.file not in self._unpacked:
            self._unpacked[module.file] = module
            self._characters_unpacked += module.source.characters
        if self._characters_unpacked > _MAX_UNPACKED:
            for each in self._unpacked.values():
                if not each.is_parsed:
                    each.pack(self._vocabulary)
            self._unpacked.clear()
            self._characters_unpacked = 0
        return found

    def mentioning(self, *patterns: Pattern) -> Iterator[SourceModule]:
        """The files of the whole project, imported or not, that contain all of the patterns.

        Very large projects are searched in part.
        """
        for file in self.files:
            module = self.module(file)
            if module is not None and all(module.contains(pattern) for pattern in patterns):
                yield module

    def is_configured(self, name: str, *, with_path: bool = False) -> bool:
        """Whether a configuration file or a shell script has a name (not as a comment, or an option of a command)."""
        return self._other_files.is_configured(name, with_path=with_path)

    def is_noted(self, name: str) -> bool:
        """Whether notes, scripts or configuration of the project have a name anywhere."""
        return self._other_files.is_noted(name)

    def configured_as(self, name: str) -> tuple[str, ...]:
        """What each configuration file of the project sets an option to, as it is written: `False`, `0.1`."""
        return self._other_files.configured_as(name)

    @property
    def scripts_run(self) -> frozenset[str]:
        """The scripts, by their names without the ending, that commands in the project's notes and scripts run."""
        return self._remember(self._run, self.root, self._other_files.scripts_run)

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands in the project's notes and scripts that run a file of some project with options."""
        return self._remember(self._written, self.root, self._other_files.commands)

    @property
    def sets_search_path(self) -> bool:
        """Whether the project's notes or scripts set `PYTHONPATH`."""
        return self._remember(self._path_set, self.root, self._other_files.sets_search_path)

    def notebooks_with(self, name: str) -> Iterator[SourceModule]:
        """The notebooks of the project whose code has a name."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        for file in self._other_files.notebooks_naming(name):
            module = self.module(file)
            if module is not None and module.contains(word):
                yield module

    def _others(self, below: Below) -> tuple[Path, ...]:
        """Files of the project that are no modules."""
        return self._remember(self._below, below, lambda: tuple(below(self.root, self.names_in)))

    @property
    def files(self) -> tuple[Path, ...]:
        """The modules of the whole project, imported or not; of a very large one, some of them."""
        return self._remember(
            self._everything, self.root, lambda: modules_below(self.root, self.names_in, iter(self._overlay))
        )

    def obstacles(self, module: SourceModule) -> Obstacles:
        """What keeps a program from starting, of what its imports say."""
        return self._remember(self._obstacles, module.file, lambda: obstacles(self, module))

    def uses(self, module: SourceModule, definition: ast.stmt) -> bool:
        """Whether code of the project that runs may use a function or class at the top of a module."""
        key = module.file, definition.lineno
        return self._remember(self._uses, key, lambda: users.is_used(self, module, definition))

    def left_out(self, module: SourceModule) -> frozenset[failing.Place]:
        """Where the statements of a script stand that are never done, as it certainly fails before."""
        return self._remember(self._left_out, module.file, lambda: failing.left_out(module, self))

    def gone_names(self, module: SourceModule) -> tuple[gone_names.Need, ...]:
        """The names that a file needs to be run, and that their libraries have no more, in the order of their use."""
        return self._remember(self._gone, module.file, lambda: gone_names.gone_names(self, module))

    def closure(self, module: SourceModule) -> list[SourceModule]:
        """A module and all project modules that it imports, directly or not."""
        found = {module: None}
        pending = [module]
        while pending:
            for imported in self.imported_by(pending.pop()):
                if imported not in found:
                    found[imported] = None
                    pending.append(imported)
        return list(found)
