"""Which definitions of a module are worth interpreting: those whose words, with all they call, can make a rule fire."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dllint.interp.project import WORD

if TYPE_CHECKING:
    from dllint.interp.project import Project, SourceModule
    from dllint.rule import Triggers

Node = tuple["SourceModule", str]


class Relevance:
    """Answers, for the top-level definitions of one module, whether a rule could fire in them.

    The words of a definition are its own and those of everything it names: functions, classes, constants, and what
    they name in turn, across the project. A word of interest is a bit, a set of words an integer.

    The first alternatives of a rule's triggers must stand in the file itself: in the definition, or in functions and
    classes of the file that it names. Models do not count for those who merely build them; they are looked at on
    their own.
    """

    def __init__(self, project: Project, module: SourceModule, triggers: Sequence[Triggers]) -> None:
        self._project = project
        self._module = module
        words = sorted({word for trigger in triggers for alternatives in trigger for word in alternatives})
        self._bits = {word: 1 << index for index, word in enumerate(words)}
        self._masks = [[self._mask(alternatives) for alternatives in trigger] for trigger in triggers]
        self._closures: dict[Node, int] = {}

    def is_relevant(self, definition: ast.stmt) -> bool:
        """Whether some rule could fire when this top-level definition is interpreted on its own."""
        name = getattr(definition, "name", "")
        here = self._words_here(definition)
        if not any(here & trigger[0] for trigger in self._masks if trigger):
            return False
        mask = self._closure((self._module, name))
        return any(here & trigger[0] and all(mask & words for words in trigger) for trigger in self._masks if trigger)

    def _words_here(self, definition: ast.stmt) -> int:
        """The words of a definition and of the functions and classes of this file that it names, but models."""
        mask = 0
        pending = [definition]
        seen: set[ast.stmt] = set()
        while pending:
            statement = pending.pop()
            if statement in seen:
                continue
            seen.add(statement)
            words = _words_of(self._module, statement)
            mask |= self._mask(words)
            for word in set(words):
                for named in self._module.bindings.names.get(word, ()):
                    if not isinstance(named, ast.ClassDef) or not _is_model(named):
                        pending.append(named)
        return mask

    def _mask(self, words: Iterable[str]) -> int:
        mask = 0
        for word in words:
            mask |= self._bits.get(word, 0)
        return mask

    def _closure(self, start: Node) -> int:
        """The words reachable from a definition (Tarjan's algorithm: definitions that name each other share them)."""
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

        if start in self._closures:
            return self._closures[start]
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
        return self._closures[start]

    def _close(self, root: Node, component: list[Node], on_stack: set[Node]) -> None:
        """Give all members of a finished component the words of all of them."""
        members = component[component.index(root) :]
        del component[-len(members) :]
        mask = 0
        for member in members:
            on_stack.discard(member)
            mask |= self._closures[member]
        for member in members:
            self._closures[member] = mask

    def _contents(self, node: Node) -> tuple[int, list[Node]]:
        """The words of a definition itself, and the definitions it names."""
        module, name = node
        if not name:  # a whole module
            return self._mask(module.words), []
        words: set[str] = set()
        successors: list[Node] = []
        for statement in module.bindings.names.get(name, ()):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                successors.extend(self._imported(module, statement, name))
                words.update(WORD.findall(ast.unparse(statement)))
            else:
                words.update(_words_of(module, statement))
        for word in words:
            if word != name and word in module.bindings.names:
                successors.append((module, word))
        successors.extend(self._through_stars(module, words))
        return self._mask(words), successors

    def _imported(self, module: SourceModule, statement: ast.Import | ast.ImportFrom, name: str) -> Iterator[Node]:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                target = self._project.find(module, alias.name)
                if target is not None:
                    yield (target, "")
            return
        origin = self._project.find(module, statement.module or "", statement.level)
        for alias in statement.names:
            if (alias.asname or alias.name) != name:
                continue
            if origin is not None and (alias.name in origin.bindings.names or origin.bindings.stars):
                yield (origin, alias.name) if alias.name in origin.bindings.names else (origin, "")
                continue
            submodule = self._project.find_in_namespace(module, statement.module or "", statement.level, alias.name)
            if submodule is not None:
                yield (submodule, "")

    def _through_stars(self, module: SourceModule, words: set[str]) -> Iterator[Node]:
        for statement in module.bindings.stars:
            origin = self._project.find(module, statement.module or "", statement.level)
            if origin is None or origin is module:
                continue
            for word in words:
                if word in origin.bindings.names:
                    yield (origin, word)
            if origin.bindings.stars:
                yield (origin, "")


def _is_model(node: ast.ClassDef) -> bool:
    """Whether a class looks like an ``nn.Module``."""
    if any(isinstance(base, ast.Attribute | ast.Name) and ast.unparse(base).endswith("Module") for base in node.bases):
        return True
    return any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)


def _words_of(module: SourceModule, statement: ast.stmt) -> list[str]:
    starts = module.source.line_starts
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
    last = statement.end_lineno or first
    end = starts[last] if last < len(starts) else len(module.source.text)
    return WORD.findall(module.source.text[starts[first - 1] : end])
