"""Places in the source, and the conditions under which something holds there."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from dllint.files.source import SourceFile

from dllint.assumptions import Assumption


class Module(Protocol):
    """The file a value was made in, as far as values and rules need to know it.

    ``path`` is what users see, ``name`` the dotted name by which it was first imported.
    """

    path: str
    name: str

    @property
    def source(self) -> SourceFile:
        """The text of the file, and positions in it."""

    @property
    def tree(self) -> ast.Module:
        """Its syntax tree."""

    @property
    def words(self) -> Set[str]:
        """The identifiers (and words in strings and comments) of the file."""

    @property
    def method_calls(self) -> Mapping[str, Sequence[ast.Call]]:
        """All calls ``x.name(...)`` in the file, by name."""

    @property
    def entry_makers(self) -> Sequence[ast.Dict | ast.Call | ast.ClassDef | ast.Subscript]:
        """All nodes that can give a dict an entry, or an object a field."""

    @property
    def comments(self) -> Mapping[int, str]:
        """The comments of the file by line."""

    def contains(self, pattern: re.Pattern[str], /) -> bool:
        """Whether the text has a match of a pattern in it."""


class Site:
    """A place in the source: a node of the syntax tree and the module it belongs to."""

    __slots__ = ("module", "node")

    def __init__(self, module: Module, node: ast.AST) -> None:
        self.module = module
        self.node = node

    @property
    def path(self) -> str:
        return self.module.path

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 1)

    def __repr__(self) -> str:
        return f"{self.path}:{self.line}"


GuardTopic = Literal["mode", "phase", "resume", "period", "none", ""]


class Guard:
    """A condition under which something holds: ``subject relation operand`` is ``holds``.

    ``subject`` is the normalized text of an expression. ``relation`` is ``truthy``, ``is``, ``==``, ``<``, ``<=``,
    ``>``, ``>=`` or ``in``; the negated forms are expressed by ``holds``. ``names`` are the variables it reads.
    ``by_default`` tells, where the subject is a setting with a default, whether the condition holds under it.
    ``periodic`` marks conditions that hold every so many times: a remainder takes part in them. ``assumption`` is what
    is taken for granted by whoever takes the condition to hold: that a value which is one of several is this one.
    ``node`` is the expression that is tested, where there is one. ``topic`` is what it asks about, as far as its names
    tell (by ``topic_of``): the mode of a module, the phase that the code is run for, whether training is resumed, a
    period, whether something is ``None``, or nothing of these.
    """

    __slots__ = (
        "_key", "_topic_of", "assumption", "by_default", "holds", "names", "node", "operand", "periodic", "relation",
        "subject",
    )  # fmt: skip

    def __init__(
        self,
        subject: str,
        relation: str,
        operand: Any,
        holds: bool,
        names: frozenset[str] = frozenset(),
        by_default: bool | None = None,
        periodic: bool = False,
        assumption: Assumption | None = None,
        node: ast.expr | None = None,
        topic_of: Callable[[ast.expr], GuardTopic] | None = None,
    ) -> None:
        self.subject = subject
        self.relation = relation
        self.operand = operand
        self.holds = holds
        self.names = names
        self.by_default = by_default
        self.periodic = periodic
        self.assumption = assumption
        self.node = node
        self._topic_of = topic_of
        self._key: tuple[str, str, str, bool] | None = None

    @property
    def topic(self) -> GuardTopic:
        """What the test asks about. Few conditions are asked, so that none is worked out before."""
        if self.periodic:
            return "period"
        return self._topic_of(self.node) if self._topic_of is not None and self.node is not None else ""

    def key(self) -> tuple[str, str, str, bool]:
        if self._key is None:
            self._key = (self.subject, self.relation, repr(self.operand), self.holds)
        return self._key

    def negated(self) -> Guard:
        by_default = None if self.by_default is None else not self.by_default
        return Guard(
            self.subject, self.relation, self.operand, not self.holds, self.names, by_default, self.periodic,
            None, self.node, self._topic_of,
        )  # fmt: skip

    def __str__(self) -> str:
        text = self.subject if self.relation == "truthy" else f"{self.subject} {self.relation} {self.operand!r}"
        return text if self.holds else f"not ({text})"


Guards = tuple[Guard, ...]
