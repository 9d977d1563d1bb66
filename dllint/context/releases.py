"""Which releases of libraries a program runs with: by what its project tells, and by what its code needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

from dllint.assumptions import Assumption, Assumptions
from dllint.config.channels import LAST_OF_CHANNEL
from dllint.config.companions import with_companions
from dllint.config.notes import installed_by, installed_by_first_cells, installs_clone, is_note, told_by_notebook
from dllint.config.versions import just_above, limits_by, limits_of_file, version_key
from dllint.context.sources import Sources
from dllint.events import LibraryCall
from dllint.interp.source.clues import MAY_BE_CLUE, clues_in, numbers_read
from dllint.interp.source.early_names import early_names
from dllint.interp.source.gone_names import PUTS_NAMES, Need, is_of_project
from dllint.interp.source.imported import dotted_uses, plain_imports, prefixes
from dllint.interp.source.library_names import Gone, gone
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_scope, is_never_reached
from dllint.interp.source.starting import needed_of_libraries
from dllint.interp.source.trials import has_main_guard
from dllint.sites import Site

# Libraries whose last release is made for early ones of others: it is these that who uses them keeps.
_OF_EARLY = frozenset(("torchtext", "pl_bolts", "pl_examples"))
_GO_WITH_TORCH = frozenset(("torchvision", "torchaudio", "torchtext"))
_PYTHON = "3.10"  # with an earlier one nobody has the newest releases
_MANY = 20  # files
_TELLING = re.compile(r"^README|req.*\.txt$|\.(?:md|MD)$|(?:env|conda).*\.ya?ml$")
_TOLD_BY_ALL = frozenset(("README.md", "requirements.txt"))  # asked for in any case, as they may be added
_OWN_SETUP = frozenset(("setup.py", "setup.cfg", "pyproject.toml"))
_LONGEST = 200_000  # characters; what is longer is no note
_INSTALLING = ("pip_install", "uv_pip_install")
_IS_VERSION = re.compile(r"(?P<name>\w+)\.__version__ == '(?P<version>[^']+)'")
_BEGINS_WITH = re.compile(
    r"(?P<name>\w+)\.__version__"
    r"(?:(?:\.split\('\.'(?:, \d)?\))?\[0\] == '(?P<first>\d+)'|\.startswith\('(?P<begin>\d+(?:\.\d+)*)\.'\))"
)
_REQUIRED = re.compile(r"(?P<name>[A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?P<version>[=<>~!].*)")


class Releases(Sources):
    """The versions of packages that a program runs with."""

    def predates_no_grad(self, site: Site) -> bool:
        """Whether a file has `volatile=True`, for torch before 0.4, and its project does not ask for a later one.

        Code that is as old and does not have it keeps what gradients need: `no_grad` took the place of `volatile`.
        """
        assert isinstance(site.module, SourceModule)
        lowest = self.versions.get("torch")
        is_later = lowest is not None and version_key(lowest) >= version_key("0.4")
        return "volatile" in site.module.words and not is_later

    def runs_before(self, package: str, version: str) -> bool:
        """Whether the project says that it also runs with releases of a package before a version.

        Where it gives no lowest one, it is taken to run with a later one, unless it stays below the version, as it
        says or as its code does (see `limit_of`).
        """
        lowest = self.versions.get(package)
        if lowest is not None:
            return version_key(lowest) < version_key(version)
        return not self.may_run_with(package, version)

    def may_run_with(self, package: str, version: str) -> bool:
        """Whether a project may run with a version of a package or a later one, by what it says it runs with.

        Where it says nothing, or gives no upper bound, it may, unless the version needs a torch that it does not run
        with.
        """
        return self._may_run_below(self.limit_of(package), package, version)

    def may_run_in_spite(self, package: str, version: str) -> bool:
        """As `may_run_with`, by what the project says, and whatever its code does that a release refuses by itself.

        For a claim about the very thing in its code that tells of an early release: an import that is gone.
        """
        return self._may_run_below(self._limits_in_spite.get(package), package, version)

    def uses_of_old(self) -> Iterator[tuple[Site, str, str]]:
        """What the program's file uses and a release has no more, with its name and this release (`torch 2.0`).

        That are imports which tell of an early release, methods of what library calls returned, and `loss.data[0]`.
        """
        module, known = self.program.module, self.facts.old_imports
        for site, name in self.uses_of({*known, *(f"{each}." for each in known)}):
            release = known.get(name) or known.get(name.rpartition(".")[0], "")
            if isinstance(site.node, ast.alias) and name.partition(".")[0] != "torchtext":
                yield site, name, release
        for alias, name in plain_imports(module.tree):
            release = known.get(name, "python 3.0")  # a module of Python 2 says that the program is for Python 2
            is_own = release.startswith(f"{name.partition('.')[0]} ")
            is_left_over = "." not in name and name not in _OF_EARLY and release != "python 3.0"
            if is_own or (is_left_over and not is_of_project(self._machine.project, module, name)):
                yield Site(module, alias), name, release
        for node in numbers_read(module):
            limits = self.facts.clues["item"]
            yield from ((Site(module, node), ast.unparse(node), f"torch {limits[each]}") for each in limits)

    @cached_property
    def uses_of_gone(self) -> Sequence[tuple[Site, Gone]]:
        """What the program's file imports, reads or calls of libraries and later releases do not have.

        Only what the table tells that was read off their releases; what a rule tells by itself is left out.
        """
        return tuple(self._uses_of_gone())

    def _uses_of_gone(self) -> Iterator[tuple[Site, Gone]]:
        module, known = self.program.module, self.facts.old_imports
        imported: set[Gone] = set()  # whose import fails: what is done with them is the same thing
        uses = chain(plain_imports(module.tree), dotted_uses(module.tree))
        for node, dotted in sorted(uses, key=lambda use: not isinstance(use[0], ast.alias)):
            found, library = gone(dotted), dotted.partition(".")[0]
            if found is None or found in imported or library in _OF_EARLY:
                continue
            is_told = self._is_reported(found.name) or self._is_reported(dotted)
            is_told = is_told or any(each in known for each in prefixes(dotted))
            site = Site(module, node)
            is_there = is_of_project(self._machine.project, module, library) or self._puts_names
            if not is_told and not is_there and not is_never_reached(site):
                imported.update([found] if isinstance(node, ast.alias) else ())
                yield site, found

    def _may_run_below(self, limit: str | None, package: str, version: str) -> bool:
        if limit is not None and version_key(limit) <= version_key(version):
            return False
        return all(self.may_run_with(needed, release) for needed, release in self._needed_with(package, version))

    def _needed_with(self, package: str, version: str) -> list[tuple[str, str]]:
        """The packages and releases without which a release does not go, by the latest row up to it."""
        rows = [(key.rpartition(" "), needs) for key, needs in self.facts.needed_releases.items()]
        own = [(version_key(release), needs) for (name, _, release), needs in rows if name == package]
        _, needs = max((row for row in own if row[0] <= version_key(version)), default=((), ""))
        pairs = (need.partition(" ") for need in needs.split(", ") if need)
        return [(needed, release) for needed, _, release in pairs]

    def limit_of(self, package: str) -> str | None:
        """The version below which a package stays: as the project says, or else as its code does.

        Code for Python 2 or TensorFlow 1, `async=True` as an argument and `loss.data[0]` run with early releases only.
        Code is that of the program's own files, and of those in its folder or below. So do imports of what later
        releases have no more (`torch._six`), in the program's file and in those that it imports at the top. What goes
        together is told together: an early Python has no late numpy. ``None`` where nothing is known.
        """
        return self._limits.get(package)

    def assumed_version(self, package: str, version: str, *, name: str = "", site: Site | None = None) -> Assumptions:
        """What a claim about a version of a package and later ones assumes; with ``name``, that this is gone from them.

        That is such a version, where the project gives no bound of any, that somebody has run the code since, where it
        came out long ago (but for an import at the top, at ``site``: nobody gets by that today), and that what the
        notes have installed from a clone goes with it; and where code that runs uses what an earlier release of that
        package has taken away, or of the one that it needs, that somebody mends this.
        """
        found = []
        if package not in self.versions and package not in self._limits_told:
            found.append(Assumption("version", f"the project runs with {package} {version} or a later one"))
            if f"{package} {version}" in self.facts.releases_of_long_ago and not _keeps_from_starting(site):
                found.append(
                    Assumption("effect", f"somebody has run this since {package} {version} came out, long ago")
                )
            if self._is_installed_with_another:
                told = f"what the notes have cloned and installed goes with {package} {version} or a later one"
                found.append(Assumption("effect", told))
        by_package = {package: version, **dict(self._needed_with(package, version))}
        for each in self._early_names:
            release = by_package.get(each.package, "0")
            is_same = bool(name) and (each.package, each.version) == (package, version)
            if not is_same and version_key(each.version) <= version_key(release):
                told = f"`{each.name}` exists, which {each.package} {each.version} and later releases do not have"
                return (*found, Assumption("effect", told))
        return tuple(found)

    def assumed_start(self, site: Site) -> Assumptions:
        """What a claim that something fails with late releases assumes: that the program gets there with these.

        Names that it needs to start, and that a later release does not have, are there after all, unless the project
        stays below that release, or the place of the claim comes first.
        """
        assert isinstance(site.module, SourceModule)
        is_top, file = not enclosing_scope(site), site.module.file
        found = [
            [need.gone for need in needs if not (is_top and need.is_after(file, site.line))]
            for needs in self._needs_gone
        ]
        if not found or not all(found):
            return ()
        gone = found[0][0]
        told = f"`{gone.name}` exists, which {gone.package} {gone.version} and later releases do not have"
        return (Assumption("effect", told),)

    @cached_property
    def _is_installed_with_another(self) -> bool:
        """Whether the notes have another repository installed, which brings the releases that it needs.

        A project that can be installed itself is the one that its notes mean.
        """
        project = self._machine.project
        names = project.names_in(project.root)
        if not _OWN_SETUP.isdisjoint(names):
            return False
        notes = sorted(name for name in names if is_note(name))
        return any(installs_clone(project.text(project.root / name)[:_LONGEST]) for name in notes[:_MANY])

    @cached_property
    def _puts_names(self) -> bool:
        """Whether some file of the program may put names into modules of others."""
        project = self._machine.project
        closure = project.reading_each(project.closure(self.program.module))
        return any(each.contains(PUTS_NAMES) for each in closure)

    @cached_property
    def _early_names(self) -> Sequence[Gone]:
        """The names that code of the program uses and that are gone, which no rule reports."""
        found = early_names(self._machine.project, self.program.module)
        return [each for each in found if not self._is_reported(each.name)]

    @cached_property
    def _needs_gone(self) -> Sequence[tuple[Need, ...]]:
        """What the file needs and is gone; if it needs no such thing and is no script, what each script needs that
        imports it. Nothing if one of these needs none."""
        found: list[tuple[Need, ...]] = []
        pending = [self.program.module]
        for module in pending:  # which grows meanwhile
            needs = tuple(need for need in self._machine.project.gone_names(module) if self._may_be_gone(need.gone))
            is_run = bool(needs) or self._is_started(module)
            importers = [] if is_run else [each for each in self._importers(module) if each not in pending]
            pending += importers
            if not needs and (not importers or len(pending) > _MANY):
                return ()
            found += [needs] if needs else []
        return found

    def _may_be_gone(self, gone: Gone) -> bool:
        """Whether the project may run with a release that lacks a name, and no rule reports this."""
        told = self._bounds_told
        limit = told.get(gone.package)
        if limit is not None and version_key(limit) <= version_key(gone.version):
            return False
        goes_with = gone.package in _GO_WITH_TORCH and "torch" in told
        is_early = version_key(told.get("python", _PYTHON)) < version_key(_PYTHON)
        return not goes_with and not is_early and not self._is_reported(gone.name)

    def _is_reported(self, name: str) -> bool:
        """Whether a rule tells that a name is gone."""
        return not self.facts.removed_names.keys().isdisjoint((name, self.facts.canonical(name)))

    @cached_property
    def _limits_told(self) -> Mapping[str, str]:
        """What the project says, and of a file what it says itself, which counts for it: in cells, or at its top.

        What it asserts, or a file that it imports, counts as well.
        """
        notebook, tree = self.program.module.source.notebook, self.program.module.tree
        asserted = [told for _, each in self.trees("__version__") for told in _asserted_in(each)]
        if notebook is not None:
            return {**self.limits, **limits_by((*told_by_notebook(notebook.raw), *asserted))}
        told = (*installed_by(ast.get_docstring(tree) or ""), *asserted, *_installed_in(tree))
        return {**self.limits, **limits_by(told)}

    @cached_property
    def _limits_around(self) -> Mapping[str, str]:
        """What the notes and requirements say that lie in the folders around the file, below the project's own.

        A project that is kept there has its own, which bind no other one, and may be stricter than those of the others.
        """
        project = self._machine.project
        found = self._limits_of_tutorials()
        for folder in self.program.module.folder, *self.program.module.folder.parents:
            if project.root not in folder.parents:
                return found
            telling = sorted(each for each in project.names_in(folder) if _TELLING.search(each))
            for name in _TOLD_BY_ALL.union(telling[:_MANY]):
                for package, limit in limits_of_file(name, project.text(folder / name)[:_LONGEST]).items():
                    found[package] = min(found.get(package, limit), limit, key=version_key)
        return found

    def _limits_of_tutorials(self) -> dict[str, str]:
        """What the notebooks in the root of the project install, of packages of which it says nothing else.

        It counts for the files that they show how to use, and not for other notebooks: each of these installs its own.
        """
        project = self._machine.project
        found: dict[str, str] = {}
        if self.program.module.source.notebook is None:
            names = sorted(name for name in project.names_in(project.root) if name.endswith(".ipynb"))
            for name in names[:_MANY]:
                found |= limits_by(installed_by_first_cells(project.text(project.root / name)))
        return {package: limit for package, limit in found.items() if package not in {*self.limits, *self.versions}}

    @cached_property
    def _limits(self) -> Mapping[str, str]:
        """The limits that are told, of other packages those of the code, and of those that go with these."""
        return self._bounds(chain(self._limits_of_clues(), self._limits_of_names()))

    @cached_property
    def _limits_in_spite(self) -> Mapping[str, str]:
        """The limits that are told, and those of what no Python or library of a later time can read at all."""
        return self._bounds(self._limits_of_clues(but_for="item"))

    @cached_property
    def _bounds_told(self) -> Mapping[str, str]:
        """The limits that are told, and those that go with these, whatever the code says."""
        return self._bounds(())

    def _bounds(self, of_code: Iterable[tuple[str, str]]) -> Mapping[str, str]:
        found = dict(self._limits_told)
        for package, below in chain(self._limits_around.items(), of_code):
            if package not in self._limits_told or package in self._limits_around:
                found[package] = min(found.get(package, below), below, key=version_key)
        used = self._limits_told.keys() - self.versions.keys()  # notes alone name those that were used
        if self._limits_told.get("torch") == just_above(LAST_OF_CHANNEL):
            used -= {"torch"}
        return with_companions(found, used, self.versions, self.facts.companions)

    def _limits_of_clues(self, but_for: str = "") -> Iterator[tuple[str, str]]:
        project = self._machine.project
        modules = project.reading_each(chain(project.closure(self.program.module), self._related(MAY_BE_CLUE)))
        for clue in {clue for module in modules for clue in clues_in(module)} - {but_for}:
            yield from self.facts.clues.get(clue, {}).items()

    def _limits_of_names(self) -> Iterator[tuple[str, str]]:
        """The limits by what the program imports at the top, or calls in any case, and later releases do not have."""
        yield from self._limits_to_start(self.program.module)
        starts = [dict(self._limits_to_start(each)) for each in self._scripts_around]
        for package in set.intersection(*map(set, starts)) if starts else ():
            yield package, max((each[package] for each in starts), key=version_key)
        for call in self.all_of(LibraryCall):
            if not call.guards and (release := self.facts.old_calls.get(call.name)):
                package, _, below = release.partition(" ")
                yield package, below

    def _limits_to_start(self, module: SourceModule) -> Iterator[tuple[str, str]]:
        """The limits by what a file needs to be run, or imported; of a package the strictest comes last."""
        found: list[str] = []
        for name in needed_of_libraries(self._machine.project, module):
            found += [release for each in prefixes(name) if (release := self.facts.old_imports.get(each))]
        needs = self._machine.project.gone_names(module)
        found += [f"{each.gone.package} {each.gone.version}" for each in needs if not self._is_reported(each.gone.name)]
        for release in sorted(found, key=lambda each: version_key(each.partition(" ")[2]), reverse=True):
            package, _, below = release.partition(" ")
            yield package, below

    @cached_property
    def _scripts_around(self) -> Sequence[SourceModule]:
        """The scripts that lead to the program's file, if it is none itself; none if there are very many."""
        pending, found = [self.program.module], []
        for module in pending:  # which grows meanwhile
            importers = [] if self._is_started(module) else list(self._importers(module))
            found += [] if importers or module is self.program.module else [module]
            pending += [each for each in importers if each not in pending]
            if len(pending) > _MANY:
                return ()
        return found

    def _is_started(self, module: SourceModule) -> bool:
        """Whether a file may be run by itself, or by a notebook."""
        return module.is_script or has_main_guard(module) or any(self._machine.project.notebooks_with(module.file.stem))


def _keeps_from_starting(site: Site | None) -> bool:
    """Whether a place is an import at the top of a file: what cannot be imported keeps it from starting."""
    return site is not None and isinstance(site.node, ast.alias) and not enclosing_scope(site)


def _installed_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The versions that a file installs where it has itself run: ``image.pip_install("torch>=2.4")`` of Modal."""
    for call in nodes_of(tree).of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _INSTALLING:
            texts = (each.value for each in call.args if isinstance(each, ast.Constant))
            found = (_REQUIRED.fullmatch(text) for text in texts if isinstance(text, str))
            yield from ((each["name"], each["version"]) for each in found if each is not None)


def _asserted_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The versions without which a file does not go on, with how they bind.

    ``assert timm.__version__ == "0.3.2"``, or what it begins with: ``assert torch.__version__.split(".")[0] == "1"``.
    """
    for test in (ast.unparse(each.test) for each in nodes_of(tree).of(ast.Assert)):
        if match := _IS_VERSION.fullmatch(test):
            yield match["name"], f"=={match['version']}"
        elif match := _BEGINS_WITH.fullmatch(test):
            yield match["name"], f"=={match['first'] or match['begin']}.*"
