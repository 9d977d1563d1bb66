"""Which words a definition can reach: its own, and those of everything it names across the project.

A word of interest is a bit, a set of words an integer. Answers are kept, so one graph serves all files of a project.
Some words of interest stand in any code (``load``, ``train``, ``labels``): they count where something of that name is
called, or given as a keyword.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING, NamedTuple

from dllint.interp.sieve.outline import NO_WORDS, Entry, Imported, Outline, imported_as
from dllint.interp.source.bindings import binds_by_imports, blocks_of, bound_names
from dllint.interp.source.words import WORD

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

Node = tuple["SourceModule", str]

_COMMON = frozenset(
    ("Dataset", "IterableDataset", "Module", "Optimizer", "PreTrainedModel", "Trainer", "array", "compile", "eval",
     "full", "labels", "linear", "load", "log", "long", "mm", "padding", "parameters", "save", "scale", "script",
     "seed", "stack", "step", "train", "zeros")
)  # fmt: skip
_COMMON_IN_USE = re.compile(rf"\b({'|'.join(sorted(_COMMON))})(?:\s*\(|=(?!=)|\)\s*:)")
_OF_SELF = re.compile(r"\bself\.(\w+)")
_IMPORT = ast.Import | ast.ImportFrom
_NOTHING = Entry()


class _Statement(NamedTuple):
    """What a statement of the top level has in it: its imports are by the names that they bind."""

    mask: int
    class_mask: int
    words: Set[str]
    imports: dict[str, list[ast.Import | ast.ImportFrom]]
    only_imports: bool


class WordGraph:
    """The words of interest that definitions reach, by following the names in them.

    ``mattering`` is where :class:`~dllint.interp.sieve.relevance.Relevance` keeps which functions do something, by the
    words that stand for doing something; other files ask about the same functions.
    """

    def __init__(self, project: Project, interesting: Iterable[str]) -> None:
        self.project = project
        self._bits = {word: 1 << index for index, word in enumerate(sorted(interesting))}
        self._interesting = frozenset(self._bits)
        self._closures: dict[Node, int] = {}
        self._shared: dict[int, int] = {}  # few sets of words are those of many definitions
        self._outlines: dict[SourceModule, Outline] = {}
        self._entries: dict[Entry, Entry] = {}  # many files import the same
        self.mattering: dict[tuple[ast.AST, int], bool] = {}
        self._masks: dict[ast.stmt, int] = {}
        self._imports: dict[ast.stmt, tuple[ast.Import | ast.ImportFrom, ...]] = {}
        self._statements: dict[SourceModule, set[ast.stmt]] = {}  # those in the two above

    def forget(self, module: SourceModule) -> None:
        """Let go of what is known about a module that is no more, and of all that may have come from it."""
        self._closures.clear()
        self._shared.clear()
        self._outlines.clear()
        self._entries.clear()
        self.mattering.clear()
        self._forget_statements(module)

    def forget_trees(self) -> None:
        """Let go of what belongs to syntax trees: these are to be made again."""
        self.mattering.clear()
        self._masks.clear()
        self._imports.clear()
        self._statements.clear()

    def _forget_statements(self, module: SourceModule) -> None:
        for statement in self._statements.pop(module, ()):
            self._masks.pop(statement, None)
            self._imports.pop(statement, None)

    def mask(self, words: Iterable[str]) -> int:
        """A set of words as an integer; words of no interest do not count."""
        mask = 0
        for word in self._interesting.intersection(words):
            mask |= self._bits[word]
        return mask

    def words(self, module: SourceModule, statement: ast.stmt) -> frozenset[str]:
        """The words in the source of a statement, those in its comments and strings included."""
        return module.words_in(statement)

    def own(self, module: SourceModule, statement: ast.stmt) -> int:
        """The words of interest in the code of a statement: what its comments and its prose say does not count."""
        known = self._masks.get(statement)
        if known is None:
            known = self._masks[statement] = self._own(module, statement, self.words(module, statement))
            self._statements.setdefault(module, set()).add(statement)
        return known

    def _own(self, module: SourceModule, statement: ast.stmt, words: Set[str]) -> int:
        if self._interesting.isdisjoint(words):
            return 0
        code = module.code_of(statement)
        found = self._interesting.intersection(WORD.findall(code))
        if not found.isdisjoint(_COMMON):
            found = (found - _COMMON).union(_COMMON_IN_USE.findall(code))
        return self.mask(found)

    def imports_in(
        self, module: SourceModule, statement: ast.stmt
    ) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
        """The imports inside a function, a class or an ``if``, each with a name that it binds there."""
        known = self._imports.get(statement)
        if known is None:
            is_importing = not isinstance(statement, _IMPORT) and "import" in self.words(module, statement)
            known = self._imports[statement] = tuple(_imports_below(statement)) if is_importing else ()
        for each in known:
            yield from ((each, name) for name in bound_names(each))

    def closure(self, module: SourceModule, name: str) -> int:
        """The words reachable from a module-level name (Tarjan: definitions that name each other share them)."""
        start = (module, name)
        known = self._closures.get(start)
        if known is None:
            self._search(start)
            known = self._closures[start]
        return known

    def _search(self, start: Node) -> None:
        index: dict[Node, int] = {}
        low: dict[Node, int] = {}
        component: list[Node] = []
        on_stack: set[Node] = set()
        work: list[tuple[Node, Iterator[Node]]] = []

        def enter(node: Node) -> None:
            index[node] = low[node] = len(index)
            component.append(node)
            on_stack.add(node)
            own, successors = self._contents(node)
            self._closures[node] = own
            work.append((node, iter(successors)))

        enter(start)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in self._closures:
                    enter(successor)
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
                self._closures[node] |= self._closures[successor]
            else:
                work.pop()
                if low[node] == index[node]:
                    self._close(node, component, on_stack)
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                    self._closures[parent] |= self._closures[node]

    def _close(self, root: Node, component: list[Node], on_stack: set[Node]) -> None:
        """Give all members of a finished component, which lie on top, the words of all of them."""
        members: list[Node] = []
        while not members or members[-1] != root:
            members.append(component.pop())
        mask = 0
        for member in members:
            on_stack.discard(member)
            mask |= self._closures[member]
        mask = self._share(mask)
        for member in members:
            self._closures[member] = mask

    def _contents(self, node: Node) -> tuple[int, list[Node]]:
        """The words of a definition itself, and the definitions it names."""
        module, name = node
        outline = self._outline(module)
        if not name:  # a whole module
            return outline.mask, []
        entry = outline.entries.get(name, _NOTHING)
        successors = [found for imported in entry.imports for found in self._meant(module, imported)]
        successors.extend([(module, mentioned) for mentioned in entry.mentions])
        successors.extend(self._through_stars(module, outline, entry.words))
        return entry.mask, successors

    def _outline(self, module: SourceModule) -> Outline:
        """The outline of a module, most of which are asked for nothing else."""
        known = self._outlines.get(module)
        if known is None:
            is_interpreted = module.is_parsed
            with self.project.glancing_at(module):
                known = self._outlines[module] = self._make_outline(module, keep=is_interpreted)
        return known

    def _make_outline(self, module: SourceModule, *, keep: bool) -> Outline:
        bindings = module.bindings
        stars = tuple(Imported(origin, level, "*") for origin, level in module.stars)
        outline = Outline(self.mask(module.words), stars=stars)
        read: dict[ast.stmt, _Statement] = {}  # one may bind very many names
        for name, statements in bindings.names.items():
            for statement in statements:
                if statement not in read:
                    read[statement] = self._read(module, statement, keep=keep)
            outline.entries[name] = self._entry(
                module, name, [read[each] for each in statements], has_stars=bool(stars)
            )
        return outline

    def _read(self, module: SourceModule, statement: ast.stmt, *, keep: bool) -> _Statement:
        """What a statement has in it; with ``keep`` it will be asked for again."""
        if isinstance(statement, _IMPORT):
            return _Statement(0, 0, frozenset(), {name: [statement] for name in bound_names(statement)}, True)
        words = self.words(module, statement) if keep else module.read_words_in(statement)
        imports: dict[str, list[ast.Import | ast.ImportFrom]] = {}
        for each in _imports_below(statement) if "import" in words else ():
            for name in bound_names(each):
                imports.setdefault(name, []).append(each)
        if binds_by_imports(statement):  # many, in the ``__init__`` of a large package: each name has its own
            return _Statement(0, 0, frozenset(), imports, True)
        mask = self.own(module, statement) if keep else self._own(module, statement, words)
        return _Statement(mask, self.mask(words) if isinstance(statement, ast.ClassDef) else 0, words, imports, False)

    def _entry(self, module: SourceModule, name: str, statements: list[_Statement], *, has_stars: bool) -> Entry:
        mask = 0
        words: set[str] = set()
        imports: dict[Imported, None] = {}
        for statement in statements:
            mask |= statement.mask
            words |= statement.words
            for bound in (name,) if statement.only_imports else statement.imports:
                for each in statement.imports.get(bound, ()):
                    mask |= self.of_import(each, bound)
                    imports.update(dict.fromkeys(imported_as(each, bound)))
        mentions = tuple(word for word in words & module.bindings.names.keys() if word != name)
        class_mask = next((statement.class_mask for statement in statements if statement.class_mask), 0)
        kept = frozenset(words) if has_stars and words else NO_WORDS
        entry = Entry(self._share(mask), self._share(class_mask), tuple(imports), mentions, kept)
        return self._entries.setdefault(entry, entry)

    def _share(self, mask: int) -> int:
        """The one object for a set of words that is kept."""
        return self._shared.setdefault(mask, mask)

    def of_import(self, statement: ast.Import | ast.ImportFrom, name: str) -> int:
        """The words of interest in the full name of what an import binds to ``name``.

        A common word counts only where it is given another name: under its own, it is looked for where it is used.
        """
        aliases = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) == name]
        parts = {part for alias in aliases for part in alias.name.split(".") if part not in _COMMON or alias.asname}
        origin = statement.module if isinstance(statement, ast.ImportFrom) and not statement.level else None
        return self.mask(parts.union(origin.split(".")) if origin else parts)

    def imported(self, module: SourceModule, statement: ast.Import | ast.ImportFrom, name: str) -> Iterator[Node]:
        """The definitions in other modules that an import binds to a name; an empty name stands for a whole module."""
        for imported in imported_as(statement, name):
            yield from self._meant(module, imported)

    def _meant(self, module: SourceModule, imported: Imported) -> Iterator[Node]:
        origin = self.project.find(module, imported.module, imported.level)
        if not imported.name:
            if origin is not None:
                yield (origin, "")
            return
        if origin is not None:
            outline = self._outline(origin)
            if imported.name in outline.entries or outline.stars:
                yield (origin, imported.name if imported.name in outline.entries else "")
                return
        submodule = self.project.find_in_namespace(module, imported.module, imported.level, imported.name)
        if submodule is not None:
            yield (submodule, "")

    def class_mask(self, module: SourceModule, name: str) -> int:
        """The words of interest in the text of the class that a name stands for in a module; 0 if it is none."""
        return self._outline(module).entries.get(name, _NOTHING).class_mask

    def classes(self, module: SourceModule, names: Iterable[str]) -> Iterator[tuple[SourceModule, ast.ClassDef]]:
        """The classes of the project that names stand for in a module, defined in it or imported."""
        for name in names:
            for statement in module.bindings.names.get(name, ()):
                if isinstance(statement, ast.ClassDef):
                    yield module, statement
                elif isinstance(statement, _IMPORT):
                    for origin, original in self.imported(module, statement, name):
                        found = origin.bindings.names.get(original, ())
                        yield from ((origin, each) for each in found if isinstance(each, ast.ClassDef))

    def _through_stars(self, module: SourceModule, outline: Outline, words: frozenset[str]) -> Iterator[Node]:
        for star in outline.stars:
            origin = self.project.find(module, star.module, star.level)
            if origin is None or origin is module:
                continue
            beyond = self._outline(origin)
            yield from ((origin, word) for word in words if word in beyond.entries)
            if beyond.stars:
                yield (origin, "")


def _imports_below(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports inside a compound statement or a definition, at any depth; expressions have none."""
    for block in blocks_of(statement):
        for inner in block:
            if isinstance(inner, _IMPORT):
                yield inner
            else:
                yield from _imports_below(inner)


def called_on_self(module: SourceModule, statement: ast.stmt) -> frozenset[str]:
    """The attributes of ``self`` that a method or class names, its own methods among them."""
    return frozenset(_OF_SELF.findall(module.text_of(statement)))
