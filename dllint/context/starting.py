"""What has to be there for a program to start: the files that it imports, and the names that they have."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.assumptions import Assumption
from dllint.context.sources import Sources
from dllint.events import Event, NameMissing
from dllint.interp.source.module import SourceModule
from dllint.interp.source.trials import has_main_guard
from dllint.interp.source.unbound_names import unbound_in_cell
from dllint.sites import Site

PACKAGING = frozenset(("setup.py", "setup.cfg", "pyproject.toml"))
_TESTS = frozenset(("test", "tests"))


class Starting(Sources):
    """What is assumed of the files that a program needs."""

    def needed(self, event: Event | None) -> Iterator[Assumption]:
        """That a file which the program cannot do without is mended if it cannot be parsed, or is there after all."""
        project = self._machine.project
        module = self.program.module
        in_one_piece = module.source.notebook is None and not project.is_edited  # the cells of notebooks run one by one
        if module.repeated_argument is not None or (in_one_piece and module.is_unparsable):
            yield Assumption("effect", f"`{module.file.name}` is mended, which no Python compiles")
        elif (user := self._refused_user(event)) is not None:
            yield Assumption("effect", f"`{user.file.name}` is mended, which is to import this and does not start")
        found = project.obstacles(module)
        if found.broken is not None:
            yield Assumption("effect", f"`{found.broken.file.name}` is mended, which is imported and cannot be parsed")
        if found.missing and not self._is_of_library(found.missing):
            yield Assumption("effect", f"`{found.missing}` exists, which is not in the project")
        if found.refused and not (isinstance(event, NameMissing) and event.absence == "import"):
            yield Assumption(
                "effect", f"`{found.refused}` exists, which is imported and which its module does not have"
            )
        if found.stray is not None and not self._is_of_library(found.stray[0]):
            name, importer = found.stray
            told = f"`{name}` is found, which `{importer.file.name}` imports from beside itself, away from the script"
            yield Assumption("effect", told)
        if found.beyond is not None and not self._is_of_library(found.beyond[0]):
            dotted, name = found.beyond
            yield Assumption("effect", f"`{name}` is found, which `{dotted}` imports from above its outermost package")
        if found.unbound is not None:
            name, importer = found.unbound
            yield Assumption(
                "effect", f"`{importer.file.name}` is mended, which is imported and reads `{name}` unbound"
            )
        if found.ending is not None:
            yield Assumption("effect", f"`{found.ending.file.name}` is mended, which is imported and ends the run")
        if found.above and not self._is_of_library(found.above) and not any(self._importers(self.program.module)):
            yield Assumption("effect", f"`{found.above}` is found, which lies in a folder above the script")

    def bound_in_cells(self, site: Site) -> Iterator[Assumption]:
        """That some cell of a notebook binds what the one around a place reads, of which no cell does that is there."""
        if site.path != self.program.module.path:
            return
        module = self.program.module
        project = self._machine.project
        if module.source.notebook is None or project.is_edited or not project.is_whole_around(module):
            return
        name = unbound_in_cell(module, site.line)
        if name:
            yield Assumption("effect", f"`{name}` is bound, which the cell reads and no cell binds")

    def _refused_user(self, event: Event | None) -> SourceModule | None:
        """A file that cannot be imported, if only such files import that of the program, which is no script.

        Where no event tells that a place is reached, files that lack what they import use nothing anyway.
        """
        project, module = self._machine.project, self.program.module
        if not project.is_whole_around(module) or module.is_script or has_main_guard(module):
            return None
        if module.source.notebook is not None or any(project.notebooks_with(module.file.stem)):
            return None
        users = list(self._importers(module))
        hindered = (
            each.is_unparsable or (event is not None and project.obstacles(each).is_lacking)
            for each in project.reading_each(users)
        )
        return users[0] if users and all(hindered) else None

    def _is_of_library(self, dotted: str) -> bool:
        return dotted.partition(".")[0] in self.facts.packages

    def kept(self) -> Iterator[Assumption]:
        """That somebody runs the tests of a library that is kept in the project, with its own file for installation."""
        project, file = self._machine.project, self.program.module.file
        around = [folder for folder in file.parents if project.root in folder.parents]
        for library in around[1:]:
            is_tests = not _TESTS.isdisjoint(file.relative_to(library).parts[:-1])
            if is_tests and not PACKAGING.isdisjoint(project.names_in(library)):
                if any(library not in other.parents for other in project.files):
                    yield Assumption("effect", f"somebody runs the tests of `{library.name}`, which is kept here")
                return
