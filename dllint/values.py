"""Abstract values: what the interpreter knows about the objects of a program it does not run.

A value is made once and shared; only ``attributes`` of instances and symbols, and the contents of containers, change
while the program is interpreted. What cannot be resolved is a :class:`Symbol` whose name says how it came about and
whose inputs say from what, so that a rule can still follow ``F.softmax(model(x))`` when ``model`` is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Generic

from dllint.assumptions import one_of
from dllint.sites import Guard, Guards, Site

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose defaults later versions of Python have
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


class Setting(Value):
    """A value that a user sets from outside (command line, config class), with the default the program gives it.

    Where the program gives none (a required option), ``has_default`` is false, and ``default`` is something unknown.
    """

    __slots__ = ("default", "has_default", "name")

    def __init__(self, name: str, default: Value | None, site: Site | None = None) -> None:
        self.name = name
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
        return getattr(self.node, "name", "<lambda>")

    @property
    def qualified_name(self) -> str:
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    def __repr__(self) -> str:
        return f"Function({self.qualified_name})"


class Class(Value):
    """A class of the project. ``bases`` are evaluated; ``members`` maps names to their defining statements.

    ``lineage`` is the class and its project ancestors, nearest first (depth first, each once); ``library_bases`` are
    the canonical names of all library classes among the bases of these.
    """

    __slots__ = (
        "bases", "dataclass", "library_bases", "lineage", "members", "module", "name", "node", "scope", "values",
    )  # fmt: skip

    def __init__(self, node: ast.ClassDef, module: Any, scope: Scope, bases: Sequence[Value]) -> None:
        self.node = node
        self.name = node.name
        self.module = module
        self.scope = scope
        self.bases = tuple(bases)
        self.members: dict[str, ast.stmt] = {}
        self.values: dict[str, Value] = {}
        self.dataclass = False
        self.site = Site(module, node)
        self.lineage = tuple(self._lineage())
        options = [o for ancestor in self.lineage for base in ancestor.bases for _, o in alternatives(base)]
        self.library_bases = tuple(dict.fromkeys(option.name for option in options if isinstance(option, External)))

    def _lineage(self) -> Iterator[Class]:
        seen: set[int] = set()
        pending = [self]
        while pending:
            current = pending.pop(0)
            if id(current) not in seen:
                seen.add(id(current))
                yield current
                options = [option for base in current.bases for _, option in alternatives(base)]
                pending = [option for option in options if isinstance(option, Class)] + pending

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


class Choice(Value):
    """One of several values, each with the guards under which it is the one.

    An option of which no condition is known gets one that assumes it to be the one: no value of several is ever there
    unconditionally.
    """

    __slots__ = ("_subjects", "options")
    LIMIT = 12

    def __init__(self, options: Sequence[tuple[Guards, Value]]) -> None:
        for guards, _ in options:  # a plain loop, as this is done for every variable of every branch
            if not guards:
                options = list(_told_apart(options))
                break
        self.options = tuple(options)
        self._subjects: frozenset[str] | None = None
        self.site = options[0][1].site
        for _, option in self.options:
            if isinstance(option, Instance):
                option.choices += (self,)

    @property
    def subjects(self) -> frozenset[str]:
        """What the guards speak of."""
        if self._subjects is None:
            self._subjects = frozenset([guard.subject for guards, _ in self.options for guard in guards])
        return self._subjects

    def __repr__(self) -> str:
        return f"Choice({[(' and '.join(map(str, guards)), value) for guards, value in self.options]})"


def choose(options: Sequence[tuple[Guards, Value]]) -> Value:
    """Join values of different paths: equal ones collapse, nested choices are flattened.

    More than ``Choice.LIMIT`` alternatives are unknown, but for what they may be.
    """
    if len(options) == 2:  # nearly always, and mostly nothing that needs more care
        (_, left), (_, right) = options
        if left is right:
            return left
        if type(left) is not type(right) and not isinstance(left, Choice) and not isinstance(right, Choice):
            return Choice(options)
    flat: list[tuple[Guards, Value]] = []
    for guards, value in options:
        for more, option in value.options if isinstance(value, Choice) else (((), value),):
            kind = type(option)
            for index, (known, seen) in enumerate(flat):
                if option is seen or (kind in _COMPARABLE and kind is type(seen) and same(option, seen)):
                    flat[index] = (shared(known, guards + more), seen)  # whichever of the two ways it came
                    break
            else:
                flat.append((guards + more, option))
    if len(flat) == 1:
        return flat[0][1]
    if len(flat) > Choice.LIMIT:
        return Symbol("unknown", tuple(option for _, option in flat), flat[0][1].site)
    return Choice(flat)


_COMPARABLE = (Const, External)
_numbers = count()


def _told_apart(options: Sequence[tuple[Guards, Value]]) -> Iterator[tuple[Guards, Value]]:
    """Options, with a condition for each that has none."""
    choice = f"value {next(_numbers)}"
    for index, (guards, value) in enumerate(options):
        if not guards:
            assumption = one_of(f"a value is {described(value)}", choice, index, len(options), asks=class_of(value))
            guards = (Guard(choice, "==", index, True, assumption=assumption),)
        yield guards, value


def shared(left: Guards, right: Guards) -> Guards:
    """The conditions that two ways have in common."""
    if not left or not right:
        return ()
    keys = {guard.key() for guard in right}
    return tuple(guard for guard in left if guard.key() in keys)


def give_hint(value: Value, name: str) -> None:
    """Remember the first name that an object, or each of several possible objects, is bound to."""
    if isinstance(value, Choice):
        for _, option in value.options:
            give_hint(option, name)
    elif isinstance(value, (Instance, Symbol)) and not value.hint:
        value.hint = name


def described(value: Value) -> str:
    """A value in a few words, for people: its class, its name, or that it is unresolved."""
    if isinstance(value, Const):
        return f"`{value.value!r}`"
    if isinstance(value, Instance):
        return f"`{class_of(value)}`"
    if isinstance(value, Class | Function):
        return f"`{value.name}`"
    if isinstance(value, BoundMethod):
        return f"`{value.function.name}`"
    if isinstance(value, External):
        return f"`{value.name.rpartition('.')[2]}`"
    name = (
        value.hint or (value.detail if value.name in ("parameter", "attribute") else "")
        if isinstance(value, Symbol)
        else ""
    )
    return f"`{name}`" if name else "something unresolved"


def class_of(value: Value) -> str:
    """The name of the class of an object; empty for what is none."""
    if not isinstance(value, Instance):
        return ""
    return value.cls.name if isinstance(value.cls, Class) else value.cls.rpartition(".")[2]


def same(left: Value, right: Value) -> bool:
    """Whether two values are certainly the same one."""
    if left is right:
        return True
    if isinstance(left, Const) and isinstance(right, Const):
        return type(left.value) is type(right.value) and left.value == right.value
    if isinstance(left, External) and isinstance(right, External):
        return left.name == right.name
    return False


def present(value: Value, otherwise: Value | None = None) -> Value:
    """A value without the options under which it is absent; with ``otherwise`` in their place, if that is given."""
    if not isinstance(value, Choice) or not any(isinstance(option, Absent) for _, option in value.options):
        return value
    if otherwise is None:
        there = [option for option in value.options if not isinstance(option[1], Absent)]
        return choose(there) if there else Symbol("unknown", site=value.site)
    return choose([(guards, otherwise if isinstance(option, Absent) else option) for guards, option in value.options])


def alternatives(value: Value) -> tuple[tuple[Guards, Value], ...]:
    """The options of a choice, or the value itself as the only one."""
    return value.options if isinstance(value, Choice) else (((), value),)
