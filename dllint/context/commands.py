"""The commands that a project's notes and scripts write down, and whether its scripts take them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dllint.context.sources import Sources
from dllint.events import LibraryCall
from dllint.interp.source.closed_parsers import flags_of_parser
from dllint.interp.source.commands import Command

_NOTES = (".md", ".rst", ".txt")  # which do not say where a command is to be typed


class RefusedCommand(NamedTuple):
    """A command that a parser refuses: where it is written (``README.md:12``), and the flags that the parser lacks."""

    place: str
    flags: tuple[str, ...]
    known: frozenset[str]


class Commands(Sources):
    """Commands of the project that run the program's script."""

    def refused_commands(self, event: LibraryCall) -> list[RefusedCommand]:
        """The commands for the script that end with `unrecognized arguments` at a call of `parse_args`.

        There are none where the parser may get options elsewhere, or what it is asked about may have been changed.
        """
        project, module = self._machine.project, self.program.module
        named = [each for each in project.commands if each.script.endswith(module.file.name)]  # the cheap look
        if not named or event.guards or self.program.kind != "module" or not _reads_the_command_line(event):
            return []
        flags = flags_of_parser(event.site)
        if flags is None:
            return []
        if any("argv" in each.words for each in project.closure(module)):
            return []
        return [
            RefusedCommand(f"{command.file.relative_to(project.root).as_posix()}:{command.line}", missing, flags)
            for command in named
            if (missing := tuple(each for each in command.options if not _is_known(each, flags)))
            and not _may_be_foreign(command, missing)
            and not self._is_elsewhere(command)
            and self._script_of(command) == module.file
        ]

    def _script_of(self, command: Command) -> Path | None:
        """The file of the project that a command runs; ``None`` where none or several may be meant."""
        project = self._machine.project
        folders = [(base / each).resolve() for base in self._bases_of(command) for each in ("", *command.folders)]
        files, parts = set(project.files), Path(command.script).parts
        found = {file for folder in folders if (file := Path(os.path.normpath(folder / command.script))) in files}
        named = {file for file in files if file.parts[-len(parts) :] == parts} if ".." not in parts else set()
        if not found and command.file.suffix in _NOTES:
            found = named
        nearer = self._nearer(command, named) - found if found else set()
        return found.pop() if len(found) == 1 and not nearer else None

    def _nearer(self, command: Command, named: set[Path]) -> set[Path]:
        """Which of the files that a command may name lie with what writes it down, below the root of the project.

        What a folder has of its own is read as about that folder, as where a repository was copied into another one: a
        note is about all that lies below a folder around it, a script about what lies in one of these.
        """
        root, is_note = self._machine.project.root, command.file.suffix in _NOTES
        around = [folder for folder in command.file.parents if root in folder.parents]
        depth = len(Path(command.script).parts) - 1
        return {
            file
            for file in named
            if any(folder in file.parents if is_note else folder == file.parents[depth] for folder in around)
        }

    def _is_elsewhere(self, command: Command) -> bool:
        """Whether the folder that a note or script changed to before a command is none of the project.

        An absolute path, and the name of what was fetched before, may well be that of the project.
        """
        first, *more = Path(command.folder).parts or ("",)
        project = self._machine.project
        if first in ("", ".", "..", "/", "~", project.root.name, *command.cloned) or first.startswith("$"):
            return False
        return not any(self._has_folder(base, (first, *more)) for base in self._bases_of(command))

    def _has_folder(self, base: Path, parts: Sequence[str]) -> bool:
        return all(part in self._machine.project.names_in(base.joinpath(*parts[:at])) for at, part in enumerate(parts))

    def _bases_of(self, command: Command) -> Iterator[Path]:
        yield command.file.parent
        yield self._machine.project.root


def _may_be_foreign(command: Command, missing: tuple[str, ...]) -> bool:
    """Whether a command may run a script of the same common name in another repository, which the text fetches."""
    return bool(command.cloned) and "/" not in command.script and len(missing) == len(command.options)


def _reads_the_command_line(event: LibraryCall) -> bool:
    """Whether a call of `parse_args` is told nothing else to look at."""
    node = event.site.node
    return isinstance(node, ast.Call) and not node.args and not node.keywords


def _is_known(flag: str, flags: frozenset[str]) -> bool:
    """Whether a parser takes a flag: as it is, shortened, or as a short one with its value right after it."""
    if any(each.startswith(flag) for each in flags):
        return True
    return not flag.startswith("--") and any(len(each) == 2 and flag.startswith(each) for each in flags)
