"""Which parts of a module its code uses: what no method reads that is ever called computes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.choices import alternatives
from dllint.dataclass import dataclass
from dllint.interp.ask.dropout import is_zero
from dllint.interp.run.classes import has_unknown_base
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Class, Const, Instance, Setting, Value

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_GENERAL = frozenset(
    ("children", "named_children", "modules", "named_modules", "_modules", "__dict__", "get_submodule")
)  # ways to all parts


@dataclass(frozen=True, slots=True)
class Use:
    """What the code of a class uses.

    Attributes:
        reads: where each attribute is read, by its name; ``None`` where any may be, by whichever name.
        methods: the identities of the methods that are called.
    """

    reads: dict[str, list[Site]] | None
    methods: frozenset[int]

    def of(self, name: str) -> list[Site] | None:
        """Where a part is read; ``None`` where nothing tells."""
        return None if self.reads is None else self.reads.get(name, [])


def use_of(cls: Class, *, called: bool) -> Use:
    """What the methods of a class use of its objects.

    Of one whose objects are ``called``, these are `forward` and what it leads to, and else all but the constructor.
    """
    methods = _methods_of(cls)
    unknown = Use(None, frozenset(id(each) for found in methods.values() for _, each in found))
    if "forward" not in methods or has_unknown_base(cls):
        return unknown
    pending = ["forward", "__call__"] if called else [name for name in methods if name != "__init__"]
    reads: dict[str, list[Site]] = {}
    reached: set[int] = set()
    seen: set[str] = set()
    for name in pending:  # which grows meanwhile
        if name in seen:
            continue
        seen.add(name)
        for owner, method in methods.get(name, ()):
            reached.add(id(method))
            if _may_read_any(method) or any(len(methods.get(each, ())) < 2 for each in _asked_of_super(method)):
                return unknown
            _note(_own_reads(Site(owner.module, method)), reads, pending)
        _note(_made_with(cls, name), reads, pending)
    return Use(reads, frozenset(reached))


def _methods_of(cls: Class) -> dict[str, list[tuple[Class, ast.stmt]]]:
    """The methods of a class and of its ancestors, by name: any of one name may call that above it."""
    found: dict[str, list[tuple[Class, ast.stmt]]] = {}
    for ancestor in cls.lineage:
        for name, member in ancestor.members.items():
            if isinstance(member, _FUNCTION):
                found.setdefault(name, []).append((ancestor, member))
    return found


def _note(found: Iterator[tuple[str, Site]], reads: dict[str, list[Site]], pending: list[str]) -> None:
    for name, site in found:
        reads.setdefault(name, []).append(site)
        pending.append(name)  # it may be a method


def _own_reads(around: Site) -> Iterator[tuple[str, Site]]:
    """The attributes of ``self`` that are read, and where."""
    for each in nodes_of(around.node).of(ast.Attribute):
        if getattr(each.value, "id", "") == "self" and isinstance(each.ctx, ast.Load):
            yield each.attr, Site(around.module, each)


def _may_read_any(method: ast.stmt) -> bool:
    """Whether a method goes over all parts, gives its object to other code, or looks parts up: ``getattr(self, x)``."""
    if not _GENERAL.isdisjoint(nodes_of(method).attributes):
        return True
    owners = {id(each.value) for each in nodes_of(method).of(ast.Attribute)}
    given = (each for each in nodes_of(method).names.get("self", ()) if isinstance(each.ctx, ast.Load))
    calls = {id(each) for call in nodes_of(method).of(ast.Call) if _is_super(call.func) for each in call.args}
    return any(id(each) not in owners | calls for each in given)


def _asked_of_super(method: ast.stmt) -> Iterator[str]:
    """The methods of base classes that a method calls: what a library's does with the parts is not seen."""
    for call in nodes_of(method).of(ast.Call):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, ast.Call) and _is_super(owner.func):
            yield call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_super(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "super"


def _made_with(cls: Class, name: str) -> Iterator[tuple[str, Site]]:
    """The attributes that another one is made of, in whichever method: ``self.steps = [self.norm, self.head]``."""
    for ancestor in cls.lineage:
        for target in nodes_of(ancestor.node).attributes.get(name, ()):
            statement = next(iter(ancestors(Site(ancestor.module, target))), None)
            if isinstance(statement, ast.Assign) and target in statement.targets:
                yield from _own_reads(Site(ancestor.module, statement.value))


# ------------------------------------------------------------------------------------------------ what is switched off


def is_passed_over(module: Instance, reads: list[Site], *, by_default: bool = False) -> bool:
    """Whether a part is read under conditions alone that do not hold, as attributes of the module tell.

    ``by_default`` counts what does not hold as long as settings have their defaults.
    """
    return bool(reads) and all(_is_unmet(module, each, by_default=by_default) for each in reads)


def _is_unmet(module: Instance, read: Site, *, by_default: bool) -> bool:
    inner: ast.AST = read.node
    for node in ancestors(read):
        if isinstance(node, _FUNCTION):
            return False
        if isinstance(node, ast.If | ast.IfExp) and inner is not node.test:
            holds = _outcome(module, node.test, by_default=by_default)
            body = node.body if isinstance(node.body, list) else [node.body]
            if holds is not None and holds is not any(inner is each for each in body):
                return True
        inner = node
    return False


def _outcome(module: Instance, test: ast.expr, *, by_default: bool) -> bool | None:
    """What a test of an attribute of the module comes to, if that is known: ``self.norm``, ``not self.norm``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _outcome(module, test.operand, by_default=by_default)
        return None if inner is None else not inner
    if not isinstance(test, ast.Attribute) or getattr(test.value, "id", "") != "self":
        return None
    value = module.attributes.get(test.attr)
    options = [option for _, option in alternatives(value)] if value is not None else []
    if options and all(_is_plain(each, by_default=by_default) and is_zero(each) for each in options):
        return False
    is_on = all(isinstance(each, Const) and bool(each.value) for each in options)
    return True if options and is_on else None


def _is_plain(value: Value, *, by_default: bool) -> bool:
    return isinstance(value, Const) or (by_default and isinstance(value, Setting))
