"""Abstract values: what the interpreter knows about the objects of a program it does not run.

A value is made once and shared; only ``attributes`` of instances and symbols, and the contents of containers, change
while the program is interpreted. What cannot be resolved is a :class:`Symbol` whose name says how it came about and
whose inputs say from what, so that a rule can still follow ``F.softmax(model(x))`` when ``model`` is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic

from dllint.dataclass import dataclass
from dllint.sites import Site

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose defaults later versions of Python have

    from dllint.choices import Choice
else:
    from typing import TypeVar


class Value:
    """Base of all abstract values. ``site`` is where the value was made, if that is a place in the source."""

    __slots__ = ("site",)
    site: Site | None


if TYPE_CHECKING:
    V = TypeVar("V", default=Value)
else:
    V = TypeVar("V")
"""What events are about: abstract values, or the objects of a real run."""


class Const(Value):
    """A constant known exactly: a number, string, bytes, boolean, ``None`` or ``...``."""

    __slots__ = ("value",)

    def __init__(self, value: Any, site: Site | None = None) -> None:
        self.value = value
        self.site = site

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


class Nothing(Const):
    """``None``, as what a call of a ``function`` gives that has no ``return`` with a value."""

    __slots__ = ("function",)

    def __init__(self, function: Function) -> None:
        super().__init__(None)
        self.function = function


class Setting(Value):
    """A value that a user sets from outside (command line, config class), with the default the program gives it.

    Where the program gives none (a required option), ``has_default`` is false, and ``default`` is something unknown.
    Of one that ``is_fixed`` the user may say what it is by default, and nothing else.
    """

    __slots__ = ("default", "has_default", "is_fixed", "name")

    def __init__(self, name: str, default: Value | None, site: Site | None = None, *, is_fixed: bool = False) -> None:
        self.name = name
        self.is_fixed = is_fixed
        self.has_default = default is not None
        self.default: Value = default if default is not None else Symbol("unknown", site=site)
        self.site = site

    def __repr__(self) -> str:
        return f"Setting({self.name}={self.default!r})"


class External(Value):
    """A function, class, module or constant of a library, by canonical dotted name."""

    __slots__ = ("name",)

    def __init__(self, name: str, site: Site | None = None) -> None:
        self.name = name
        self.site = site

    def __repr__(self) -> str:
        return f"External({self.name})"


@dataclass(slots=True)
class Arguments(Generic[V]):
    """The arguments of one call, evaluated. ``exact`` is false when ``*args`` or ``**kwargs`` could not be expanded.

    ``mapping`` is what stood behind ``**``, where its keys are not known.
    """

    positional: tuple[V, ...] = ()
    keywords: Mapping[str, V] = field(default_factory=dict)
    exact: bool = True
    mapping: V | None = None

    def get(self, position: int | None, keyword: str | None) -> V | None:
        """The argument at a position or under a keyword, or ``None`` if it is not given (or cannot be known)."""
        if keyword is not None and keyword in self.keywords:
            return self.keywords[keyword]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None

    def all(self) -> tuple[V, ...]:
        """All arguments, positional ones first."""
        return (*self.positional, *self.keywords.values()) if self.keywords else self.positional


class Scope:
    """Variables of a module, function, class or comprehension, with the scope it is nested in.

    ``undefined`` are names that a module uses and does not bind: a star import may have brought them.
    ``wanted`` is the only name that imports bind for now, where a module is executed for the sake of one of its names.
    """

    __slots__ = ("function", "global_names", "module", "nonlocal_names", "parent", "undefined", "variables", "wanted")

    def __init__(self, module: Any, parent: Scope | None = None, function: Function | None = None) -> None:
        self.module = module
        self.parent = parent
        self.function = function
        self.variables: dict[str, Value] = {}
        self.undefined: dict[str, Value] = {}
        self.wanted = ""
        self.global_names: frozenset[str] = frozenset()
        self.nonlocal_names: frozenset[str] = frozenset()


class Function(Value):
    """A function or lambda of the project, with the scope it closes over and the class it was defined in.

    ``grad`` is the gradient mode that its decorators set (``off`` for ``@torch.no_grad()``), or ``None``.
    """

    __slots__ = ("grad", "kind", "module", "node", "owner", "scope")

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        module: Any,
        scope: Scope,
        owner: Class | None = None,
    ) -> None:
        self.node = node
        self.module = module
        self.scope = scope
        self.owner = owner
        self.kind = "function"  # or "property", "static", "class", "context-manager"
        self.grad: str | None = None
        self.site = Site(module, node)

    @property
    def name(self) -> str:
        if self.owner is not None and self.owner.members.get("forward") is self.node:
            return "forward"  # of a class that writes ``__call__`` in its place
        return getattr(self.node, "name", "<lambda>")

    @property
    def qualified_name(self) -> str:
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    def __repr__(self) -> str:
        return f"Function({self.qualified_name})"


class Class(Value):
    """A class of the project. ``bases`` are evaluated; ``members`` maps names to their defining statements.

    ``possible_bases`` are what the bases may be: of one that is one of several, each of these.

    ``lineage`` is the class and its project ancestors, nearest first (depth first, each once); ``library_bases`` are
    the canonical names of all library classes among the bases of these.
    """

    __slots__ = (
        "bases", "dataclass", "library_bases", "lineage", "members", "module", "name", "node", "possible_bases",
        "scope", "values",
    )  # fmt: skip

    def __init__(
        self, node: ast.ClassDef, module: Any, scope: Scope, bases: Sequence[Value], possible_bases: Sequence[Value]
    ) -> None:
        self.node = node
        self.name = node.name
        self.module = module
        self.scope = scope
        self.bases = tuple(bases)
        self.possible_bases = tuple(possible_bases)
        self.members: dict[str, ast.stmt] = {}
        self.values: dict[str, Value] = {}
        self.dataclass = False
        self.site = Site(module, node)
        self.lineage = tuple(self._lineage())
        all_bases = (base for ancestor in self.lineage for base in ancestor.possible_bases)
        self.library_bases = tuple(dict.fromkeys(base.name for base in all_bases if isinstance(base, External)))

    def _lineage(self) -> Iterator[Class]:
        seen: set[int] = set()
        pending = [self]
        while pending:
            current = pending.pop(0)
            if id(current) not in seen:
                seen.add(id(current))
                yield current
                pending = [base for base in current.possible_bases if isinstance(base, Class)] + pending

    def __repr__(self) -> str:
        return f"Class({self.name})"


class BoundMethod(Value):
    """A method of the project together with the object it is called on."""

    __slots__ = ("function", "receiver")

    def __init__(self, receiver: Value, function: Function) -> None:
        self.receiver = receiver
        self.function = function
        self.site = function.site


class Partial(Value):
    """``functools.partial(callable, ...)``."""

    __slots__ = ("arguments", "callable")

    def __init__(self, callable: Value, arguments: Arguments, site: Site | None = None) -> None:
        self.callable = callable
        self.arguments = arguments
        self.site = site


class ModuleReference(Value):
    """A module of the project, as a value."""

    __slots__ = ("module",)

    def __init__(self, module: Any) -> None:
        self.module = module
        self.site = None


class OpenAttributes(dict[str, Value]):
    """The attributes of something that is not the project's: those that nobody has set yet are there all the same."""

    def __init__(self, owner: Value) -> None:
        super().__init__()
        self.owner = owner

    def is_read(self, value: Value) -> bool:
        """Whether a value is here only because somebody read it: nobody has set it to something else."""
        return isinstance(value, Symbol) and value.name in ("attribute", "item") and value.inputs[0] is self.owner

    def unset(self, name: str) -> Value:
        """What stands for an attribute where it has not been set."""
        symbol = Symbol("attribute", (self.owner,), self.owner.site, detail=name)
        symbol.hint = name
        return symbol


class Instance(Value):
    """An object of a known class: one of the project (:class:`Class`) or of a library (its canonical name).

    ``arguments`` are those of the constructor. Two reads of one variable give the same instance, so identity
    (``is``) tells objects apart. ``choices`` are those that it is an option of.
    """

    __slots__ = ("arguments", "attributes", "choices", "cls", "hint")

    def __init__(self, cls: Class | str, arguments: Arguments, site: Site | None = None) -> None:
        self.cls = cls
        self.arguments = arguments
        self.attributes: dict[str, Value] = OpenAttributes(self) if isinstance(cls, str) else {}
        self.choices: tuple[Choice, ...] = ()
        self.hint = ""
        self.site = site

    @property
    def library_name(self) -> str:
        """The canonical name of a library class, or an empty string for a class of the project."""
        return self.cls if isinstance(self.cls, str) else ""

    def __repr__(self) -> str:
        return f"Instance({self.cls if isinstance(self.cls, str) else self.cls.name})"


class Symbol(Value):
    """The result of an operation, or something unresolved.

    ``name`` is a canonical library name (``torch.softmax``, ``torch.nn.Linear()`` for a call of an instance), a method
    (``.mean``), an operator (``+``, ``/``), or one of :data:`dllint.forms.FORMS`. ``grad`` is the gradient mode in
    which it was computed. ``detail`` is what its form says. ``hint`` is the first variable it was bound to.
    """

    __slots__ = ("_attributes", "arguments", "detail", "grad", "hint", "inputs", "name")

    def __init__(
        self,
        name: str,
        inputs: tuple[Value, ...] = (),
        site: Site | None = None,
        *,
        detail: Any = None,
        arguments: Arguments | None = None,
        grad: str = "on",
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.site = site
        self.detail = detail
        self.arguments = arguments
        self.grad = grad
        self.hint = ""
        self._attributes: dict[str, Value] | None = None

    @property
    def attributes(self) -> dict[str, Value]:
        if self._attributes is None:
            self._attributes = OpenAttributes(self)
        return self._attributes

    def attribute(self, name: str) -> Value | None:
        """An attribute that was set or read before, or ``None``."""
        return self._attributes.get(name) if self._attributes is not None else None

    def __repr__(self) -> str:
        detail = f":{self.detail}" if self.detail is not None else ""
        return f"Symbol({self.name}{detail}{list(self.inputs) if self.inputs else ''})"


class Items(Value):
    """A list, tuple or set. ``contents["items"]`` are its values, ``contents["exact"]`` says whether they are all."""

    __slots__ = ("contents", "kind")

    def __init__(self, kind: str, items: Sequence[Value], site: Site | None = None, *, exact: bool = True) -> None:
        self.kind = kind
        self.contents: dict[str, Any] = {"items": tuple(items), "exact": exact}
        self.site = site

    @property
    def items(self) -> tuple[Value, ...]:
        return self.contents["items"]  # type: ignore[no-any-return]

    @property
    def exact(self) -> bool:
        return self.contents["exact"]  # type: ignore[no-any-return]

    @property
    def times(self) -> Value | None:
        """How often what is in it is repeated, where nobody knows the number: ``[0] * missing``."""
        return self.contents.get("times")

    @property
    def tail(self) -> Items | None:
        """What was put behind the rest and is repeated so: ``ids + [0] * missing``; nothing where ways differ in it."""
        found = self.contents.get("tail")
        return found if isinstance(found, Items) and found.items else None

    def __repr__(self) -> str:
        return f"Items({self.kind}, {list(self.items)}{'' if self.exact else ', ...'})"


class Entries(dict[Any, Value]):
    """The contents of a dict. What only one branch puts in, or takes out, is a choice with :class:`Absent` in it."""

    def unset(self, key: Any) -> Value:
        """What stands for an entry where there is none."""
        return Absent()


class Table(Value):
    """A dict. ``contents`` maps constant keys to values; the key ``Table.REST`` is present when there may be others.

    ``holder`` is the object whose attributes the entries are, in ``vars(x)`` and ``x.__dict__``.
    An entry that is there only under a condition is a :class:`Choice` that has :class:`Absent` among its options.
    """

    __slots__ = ("contents", "holder")
    REST = object()

    def __init__(self, contents: Mapping[Any, Value], site: Site | None = None, *, exact: bool = True) -> None:
        self.contents = Entries(contents)
        if not exact:
            self.contents[Table.REST] = Const(None)
        self.holder: Instance | None = None
        self.site = site

    @property
    def exact(self) -> bool:
        return Table.REST not in self.contents

    def entries(self) -> dict[Any, Value]:
        return {key: value for key, value in self.contents.items() if key is not Table.REST}

    def __repr__(self) -> str:
        return f"Table({self.entries()})"


class Absent(Value):
    """In a list or dict that is built conditionally: the place of an element that is there only under a guard."""

    __slots__ = ()

    def __init__(self) -> None:
        self.site = None
