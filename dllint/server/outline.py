"""What a file consists of: its definitions, what they name of each other, and everything else."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dllint.interp.source.module import SourceModule
from dllint.interp.source.words import WORD

_STRING_OR_COMMENT = re.compile(
    r"""\"{3}(?:[^\\]|\\[\s\S])*?\"{3}|'{3}(?:[^\\]|\\[\s\S])*?'{3}"""
    r"""|"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'|(?m:^)[^\S\n]*\#[^\n]*"""
)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Member = tuple[str, int]
"""A function at the top level (its name and -1), or a method: the name of its class and its place in the body."""


class Outline:
    """The functions and classes at the top level of a file, each by the name that it alone binds.

    ``others`` are all definitions besides these and what is in them, ``places`` the functions that they consist of.
    Everything else is the ``rest``: other statements, comments between definitions, and the headers of definitions,
    which are evaluated where they stand. Texts are kept as their hashes.
    """

    def __init__(self, module: SourceModule) -> None:
        body = [node for node in module.tree.body if isinstance(node, Definition)]
        bound = Counter(node.name for node in body)
        self.nodes: dict[str, Definition] = {node.name: node for node in body if bound[node.name] == 1}
        self.others = frozenset(_definitions_in(node for node in module.tree.body if node not in self.nodes.values()))
        self.places = {node: place for name in self.nodes for node, place in self.members(name).items()}
        self.texts: dict[str, str] = {}
        self._codes: dict[str, int] = {}
        self._words: dict[str, frozenset[str]] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._everything: dict[str, frozenset[str]] = {}
        rest: list[str] = []
        self._named_in_rest: set[str] = set()
        starts = [*module.source.line_starts, len(module.source.text)]
        behind = 0
        for name, node in self.nodes.items():
            start, body_start = starts[_first_line(node) - 1], starts[max(_first_line(node), node.body[0].lineno) - 1]
            end = starts[min(node.end_lineno or node.lineno, len(starts) - 1)]
            text = module.source.text[start:end]
            header = module.source.text[start : body_start if body_start > start else end]
            rest += module.source.text[behind:start], header
            self._named_in_rest |= self._named(rest[-2]) | (self._named(header) - {name})
            self.texts[name] = text
            self._words[name] = frozenset(WORD.findall(text))
            self._names[name] = frozenset(self.nodes.keys() & self._words[name]) - {name}
            behind = end
        rest.append(module.source.text[behind:])
        self._named_in_rest |= self._named(rest[-1])
        self.rest = _hash_of_code("\n".join(rest))
        plain = (node for node in module.tree.body if not isinstance(node, Definition | ast.Import | ast.ImportFrom))
        self.words_of_rest = {word for node in plain for word in module.words_in(node)}
        self.words_of_rest.update(word for part in rest[1::2] for word in WORD.findall(part))

    def code(self, name: str) -> int:
        """The hash of the code of a definition, without the lines of comments in it."""
        known = self._codes.get(name)
        if known is None:
            known = self._codes[name] = _hash_of_code(self.texts[name])
        return known

    def words(self, names: Iterable[str]) -> set[str]:
        """All words in some definitions."""
        return {word for name in names for word in self._words[name]}

    def _named(self, text: str) -> frozenset[str]:
        return frozenset(self.nodes.keys() & set(WORD.findall(text)))

    def around(self, name: str) -> frozenset[str]:
        """A definition and all that can be reached from it by name."""
        known = self._everything.get(name)
        if known is None:
            known = self._everything[name] = self._reachable([name], lambda _: True)
        return known

    def seen_by_rest(self, called: Iterable[ast.AST]) -> frozenset[str]:
        """The definitions on which the state of the module depends, if it has called these functions.

        Others may be named, in a table for instance, without being looked into. With classes nobody can say.
        """
        ran = set(called)

        def counts(name: str) -> bool:
            return isinstance(self.nodes[name], ast.ClassDef) or self.nodes[name] in ran

        entered = self._reachable(self._named_in_rest, counts)
        classes = [name for name in entered if isinstance(self.nodes[name], ast.ClassDef)]
        return entered.union(*(self.around(name) for name in classes))

    def _reachable(self, names: Iterable[str], counts: Callable[[str], bool]) -> frozenset[str]:
        """Names, and what they name, as far as it counts."""
        found: set[str] = set()
        pending = [name for name in names if counts(name)]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(other for other in self._names[name] - found if counts(other))
        return frozenset(found)

    def members(self, name: str) -> dict[ast.AST, Member]:
        """The functions that a definition consists of: itself, or its methods."""
        node = self.nodes[name]
        if not isinstance(node, ast.ClassDef):
            return {node: (name, -1)}
        return {item: (name, place) for place, item in enumerate(node.body) if isinstance(item, Definition)}

    def node(self, member: Member) -> ast.AST:
        """The function that is a member."""
        name, place = member
        node = self.nodes[name]
        return node.body[place] if isinstance(node, ast.ClassDef) else node


def _definitions_in(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    for statement in statements:
        yield from (node for node in ast.walk(statement) if isinstance(node, Definition))


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _hash_of_code(text: str) -> int:
    """A hash of all lines but empty ones and comments."""
    code = _STRING_OR_COMMENT.sub(_without_comment, text)
    return hash("\n".join(line for line in code.splitlines() if line.strip()))


def _without_comment(match: re.Match[str]) -> str:
    return "" if match[0].lstrip().startswith("#") else match[0]
