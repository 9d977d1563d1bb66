"""One file of a project: its text, the words in it, its syntax tree, and what can be told of it alone."""

from __future__ import annotations

import ast
import re
import tokenize
from bisect import bisect_right
from collections.abc import Callable, Sequence, Set
from functools import cached_property, lru_cache
from typing import Any

from dllint.files.parsing import parse_module
from dllint.files.recovering import Remains, remains_of
from dllint.files.source import LINE_END, SourceFile
from dllint.interp.source.bindings import Bindings, bindings_of, bound_in
from dllint.interp.source.import_statements import imports_of
from dllint.interp.source.nodes import forget_nodes, nodes_of, take_apart
from dllint.interp.source.patterns import Pattern
from dllint.interp.source.words import WORD, PackedWords, Vocabulary, words_of

_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_OF_PYTHON_2 = ("Missing parentheses in call", "multiple exception types", "leading zeros")
_RAISES_TWO = re.compile(r"\s*raise [A-Za-z_][\w.]*\s*,")  # `raise IOError, "no such file"`

_ONE_WORD = re.compile(r"\\b([^\W\d]\w*)\\b")
_PROSE = re.compile(
    r"""\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:[^"\\\r\n]|\\[^\r\n])*"|'(?:[^'\\\r\n]|\\[^\r\n])*'|\#[^\r\n]*""",
)
_WITH_TREE = ("tree", "bindings", "method_calls", "calls", "_all_calls", "entry_makers", "_code")
_OF_WORDS = ("words", "_bound", "top_level")
_MANY_LINES = ('"""', "'''")
_MANY_ANSWERS = 100  # about as many patterns as rules ask for that are no names


def _without_prose(text: re.Match[str]) -> str:
    """A string of one word may name something (``getattr(optim, "Adam")``); others, and comments, are prose."""
    found = text[0]
    if found[0] != "#" and len(found.split(None, 1)) == 1:
        return found
    return "''" + "\n" * len(LINE_END.findall(found)) if found.startswith(_MANY_LINES) else "''"


@lru_cache(maxsize=1024)
def _one_word(pattern: str) -> str:
    """The word that a pattern is, ``\\bname\\b``; empty if it is another pattern."""
    word = _ONE_WORD.fullmatch(pattern)
    return word[1] if word else ""


class SourceModule:
    """One file of the project: its text, the words in it and, once asked for, its syntax tree.

    ``name`` is the dotted name by which it was first imported, or the stem of the file.
    """

    def __init__(self, source: SourceFile, name: str) -> None:
        self.source = source
        self.file = source.path
        self.folder = source.path.parent
        self.path = source.display
        self.name = name
        self._among: tuple[frozenset[str], frozenset[str]] | None = None
        self._contains: dict[Pattern, bool] = {}
        self._parse_error: Exception | None = None
        self._was_parsed = False
        self.remains: Remains | None = None
        self._words_in: dict[ast.stmt, frozenset[str]] = {}
        self.derived: dict[Callable[..., object], Any] = {}  # what functions have made of the tree, by function
        self.told: dict[Callable[..., object], Any] = {}  # the same without any node, which outlives the tree

    @cached_property
    def words(self) -> Set[str]:
        """The identifiers (and words in strings and comments) of the file."""
        return words_of(self.source.text)

    def text_of(self, statement: ast.stmt) -> str:
        """The lines of a statement, those of its decorators included."""
        starts = self.source.line_starts
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        last = statement.end_lineno or first
        end = starts[last] if last < len(starts) else len(self.source.text)
        return self.source.text[starts[first - 1] : end]

    def code_of(self, statement: ast.stmt) -> str:
        """The lines of a statement without comments and without strings of more, or less, than one word."""
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        return "\n".join(self._code[first - 1 : statement.end_lineno])

    @property
    def code(self) -> str:
        """The whole of the file without comments and prose, see :meth:`code_of`."""
        return "\n".join(self._code)

    @cached_property
    def _code(self) -> list[str]:
        return LINE_END.split(_PROSE.sub(_without_prose, self.source.text))

    def words_in(self, statement: ast.stmt) -> frozenset[str]:
        """The words in the source of a statement, those in its comments and strings included."""
        known = self._words_in.get(statement)
        if known is None:
            known = self._words_in[statement] = words_of(self.text_of(statement))
        return known

    def read_words_in(self, statement: ast.stmt) -> Set[str]:
        """As :meth:`words_in`, for who asks once: nothing is kept."""
        return set(WORD.findall(self.text_of(statement)))

    @cached_property
    def imports_itself(self) -> bool:
        """Whether a file imports its own name, as one does that wraps a library: ``import lpips`` in `lpips.py`.

        So do others beside it then, and mean the library.
        """
        name = re.escape(self.file.stem)
        return self.contains(re.compile(rf"(?m)^[ \t]*(?:import[ \t]+{name}\b(?!\.)|from[ \t]+{name}[ \t]+import\b)"))

    def contains(self, pattern: Pattern) -> bool:
        """Whether the text has a match of a pattern in it. A word (``\\bname\\b``) is looked up, not searched for."""
        word = _one_word(pattern.pattern)
        if word:
            return word in self.words
        known = self._contains.get(pattern)
        if known is None:
            was_packed = self.source.is_packed
            known = self._contains[pattern] = pattern.search(self.source.text) is not None
            if was_packed:  # one of very many, which are searched in turn
                self.source.pack()
        return known

    def contains_in_code(self, pattern: re.Pattern[str]) -> bool:
        """As :meth:`contains`, where a match in a comment does not count."""
        return self.contains(pattern) and any(
            not self._is_in_comment(match.start()) for match in pattern.finditer(self.source.text)
        )

    def _is_in_comment(self, offset: int) -> bool:
        line = bisect_right(self.source.line_starts, offset)
        comment = self.comments.get(line)
        start = self.source.text.find(comment, self.source.line_starts[line - 1]) if comment else -1
        return 0 <= start <= offset

    def words_among(self, interesting: frozenset[str]) -> frozenset[str]:
        """Which of some words the file contains."""
        if self._among is None or self._among[0] is not interesting:
            self._among = (interesting, interesting.intersection(self.words))
        return self._among[1]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; of a file with a ``parse_error``, of what is left without the statements that are broken.

        It is empty where Python can parse no part of the file, which ``has_tree`` tells.
        """
        try:
            tree = parse_module(self.source.text)
        except _UNPARSABLE as error:
            self._parse_error = error
            self.remains = remains_of(self.source.text) if isinstance(error, SyntaxError) else None
            tree = self.remains.tree if self.remains is not None else ast.Module([], [])
        self._was_parsed = True
        return tree

    @property
    def parse_error(self) -> Exception | None:
        """Why Python cannot parse the file: a syntax error, a NUL, or expressions that are nested too deeply."""
        if not self._was_parsed:
            self.tree  # noqa: B018 -- which finds out
        return self._parse_error

    @property
    def has_tree(self) -> bool:
        """Whether Python can parse the file, or a part of it."""
        return self.parse_error is None or self.remains is not None

    @property
    def is_parsed(self) -> bool:
        """Whether the syntax tree has been asked for."""
        return "tree" in vars(self)

    def forget_tree(self, vocabulary: Vocabulary, *, for_all: bool = False) -> None:
        """Let go of the syntax tree, to be made again when it is asked for, and pack the rest.

        Who has nodes of it may use them still, unless it is gone ``for_all``. What Python cannot parse is kept: to
        make something of it takes long.
        """
        kept = vars(self)
        if len(self._contains) > _MANY_ANSWERS:
            self._contains.clear()
        if self._parse_error is None:
            if self.is_parsed:
                (take_apart if for_all else forget_nodes)(self.tree)
            for name in _WITH_TREE:
                kept.pop(name, None)
            self._words_in.clear()
            self.derived.clear()
            self.pack(vocabulary)

    def pack(self, vocabulary: Vocabulary) -> None:
        """Hold the text and the words in it in less memory: they may not be asked for again."""
        self.words  # noqa: B018 -- which are told from the text
        for name in _OF_WORDS:
            if isinstance(known := vars(self).get(name), frozenset):
                setattr(self, name, PackedWords(known, vocabulary))
        self.source.pack()

    def is_broken(self, node: ast.AST) -> bool:
        """Whether a function has lost statements that Python cannot parse."""
        return self.remains is not None and node in self.remains.functions

    @property
    def is_incomplete(self) -> bool:
        """Whether code outside of functions has lost statements."""
        return self.remains is not None and self.remains.is_incomplete

    @cached_property
    def bindings(self) -> Bindings:
        """The names bound at the top level; none in a file that cannot be parsed (which is reported on its own)."""
        return bindings_of(self.tree.body)

    @cached_property
    def top_level(self) -> Set[str]:
        """The names that the top level binds, known without the tree, as the stars are: see ``bindings``."""
        self.stars  # noqa: B018 -- who finds no name here goes on with these
        return frozenset(self.bindings.names)

    @cached_property
    def is_unparsable(self) -> bool:
        """Whether no Python can parse the file. Code for Python 2, or for a newer one, can be run elsewhere."""
        error = self.parse_error
        if error is None:
            return self.repeated_argument is not None
        is_of_a_newer = isinstance(error, SyntaxError) and str(error.msg).startswith("f-string")
        return isinstance(error, SyntaxError) and not is_of_a_newer and not self.is_of_python_2

    @cached_property
    def is_of_python_2(self) -> bool:
        """Whether Python cannot parse the file, where Python 2 could."""
        error = self.parse_error
        if not isinstance(error, SyntaxError):
            return False
        return str(error.msg).startswith(_OF_PYTHON_2) or bool(_RAISES_TWO.match(error.text or ""))

    @cached_property
    def repeated_argument(self) -> tuple[str, int, int] | None:
        """Name, line and column of a keyword that a call gives twice: it can be parsed, and no Python compiles it."""
        for call in self._all_calls if self.parse_error is None and not self.source.has_cells else ():
            seen: set[str | None] = {None}  # `**` may stand there several times
            for each in call.keywords:
                if each.arg is not None and each.arg in seen:
                    return each.arg, each.lineno, each.col_offset
                seen.add(each.arg)
        return None

    @cached_property
    def top_imports(self) -> tuple[tuple[str, int], ...]:
        """The modules that the import statements at the top need, outside of any condition, with their leading dots."""
        if self.parse_error is not None:
            return ()
        found: list[tuple[str, int]] = []
        for statement in self.tree.body:
            if isinstance(statement, ast.Import):
                found += [(alias.name, 0) for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom):
                found.append((statement.module or "", statement.level))
        return tuple(found)

    @cached_property
    def imported_stems(self) -> frozenset[str]:
        """The last parts of the modules that are imported somewhere, in lower case, and perhaps others: told fast."""
        text = self.source.text.replace("\\\n", " ").replace("\\\r\n", " ")
        return frozenset(each.module.rpartition(".")[2].lower() for each in imports_of(text))

    @cached_property
    def top_names(self) -> tuple[tuple[str, int, str], ...]:
        """What the statements at the top import from modules: the module, the number of dots, the name."""
        if self.parse_error is not None:
            return ()
        return tuple(
            (statement.module or "", statement.level, alias.name)
            for statement in self.tree.body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        )

    @cached_property
    def stars(self) -> tuple[tuple[str, int], ...]:
        """The modules all of whose names the file takes, with their leading dots."""
        return tuple((star.module or "", star.level) for star in self.bindings.stars)

    @property
    def is_script(self) -> bool:
        """Whether the file does something when it is run: its top level loops, or calls a function of its own."""
        return self.calls_its_own or any(isinstance(node, ast.For | ast.While) for node in self.tree.body)

    @property
    def calls_its_own(self) -> bool:
        """Whether the top level of the file calls a function of it, for the sake of what that does."""
        own = {node.name for node in self.tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        calls = (node.value for node in self.tree.body if isinstance(node, ast.Expr))
        return any(isinstance(each, ast.Call) and getattr(each.func, "id", "") in own for each in calls)

    def binds(self, name: str) -> bool:
        """Whether anything in the file binds a name, at any depth."""
        return name in self.top_level or name in self._bound

    @cached_property
    def _bound(self) -> Set[str]:
        """All names that are bound somewhere in the file."""
        return bound_in(nodes_of(self.tree).all)

    @cached_property
    def comments(self) -> dict[int, str]:
        """The comments of the file by line."""
        found: dict[int, str] = {}
        lines = iter(self.source.text.splitlines(keepends=True))
        try:
            for token in tokenize.generate_tokens(lambda: next(lines, "")):
                if token.type == tokenize.COMMENT:
                    found[token.start[0]] = token.string
        except (*_UNPARSABLE, tokenize.TokenError):
            return found  # those up to where it is broken
        return found

    @cached_property
    def method_calls(self) -> dict[str, list[ast.Call]]:
        """All calls ``x.name(...)`` in the file, by name."""
        found: dict[str, list[ast.Call]] = {}
        for node in self._all_calls:
            if isinstance(node.func, ast.Attribute):
                found.setdefault(node.func.attr, []).append(node)
        return found

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """All calls ``name(...)`` and ``x.name(...)`` in the file, by name."""
        found = {name: list(calls) for name, calls in self.method_calls.items()}
        for node in self._all_calls:
            if isinstance(node.func, ast.Name):
                found.setdefault(node.func.id, []).append(node)
        return found

    @cached_property
    def _all_calls(self) -> Sequence[ast.Call]:
        return nodes_of(self.tree).of(ast.Call)

    @cached_property
    def entry_makers(self) -> Sequence[ast.Dict | ast.Call | ast.ClassDef | ast.Subscript]:
        """All nodes in the file that can give a dict an entry, or an object a field, in the order of ``ast.walk``."""
        return nodes_of(self.tree).of(ast.Dict, ast.Call, ast.ClassDef, ast.Subscript)

    @property
    def is_package(self) -> bool:
        return self.file.name == "__init__.py"

    def __repr__(self) -> str:
        return f"SourceModule({self.path})"
