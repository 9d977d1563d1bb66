"""The classes of a project that are related to one: what it derives from, what derives from it, and what that takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.bindings import Definition
from dllint.interp.source.nodes import Nodes, nodes_of

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_ROOTS = frozenset(("Module", "object", "ABC", "Generic"))  # whose objects have nothing but what a module has
_MAKING = re.compile(r"__getattr|__dict__|\bsetattr\(\s*self|__setattr__\(|\bvars\(|\bexec\(")
NAMING = frozenset(("register_buffer", "register_parameter", "add_module", "register_module"))
_OF_MODULES = frozenset(
    ("T_destination", "_modules", "_parameters", "_buffers", "add_module", "apply", "bfloat16", "buffers", "children",
     "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer",
     "get_parameter", "get_submodule", "half", "load_state_dict", "modules", "named_buffers", "named_children",
     "named_modules", "named_parameters", "parameters", "register_backward_hook", "register_buffer",
     "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
     "register_full_backward_pre_hook", "register_module", "register_parameter", "requires_grad_", "share_memory",
     "state_dict", "to", "to_empty", "train", "training", "type", "xpu", "zero_grad", "__class__", "__dict__",
     "__name__", "module", "_orig_mod", "no_sync", "__call__", "__doc__", "_get_name")
)  # fmt: skip  # and what wraps them
_MOST = 30  # classes that derive from one

Key = tuple[Path, int]


def key_of(module: SourceModule, definition: ast.stmt) -> Key:
    """What tells a definition from others, also after its file was parsed again."""
    return module.file, definition.lineno


class Kin:
    """The classes that are related to one: in a method of each of them, `self` may be an object of it."""

    def __init__(self, project: Project, lineage: Sequence[tuple[SourceModule, ast.ClassDef]]) -> None:
        self._project = project
        self._lineage = lineage
        self._above = {key_of(module, node) for module, node in lineage}

    def has(self, module: SourceModule, definition: ast.stmt) -> bool:
        """Whether a class is related, or one that a related class also derives from, by its name."""
        keys, beside, _ = self._below
        return key_of(module, definition) in keys | self._above or getattr(definition, "name", "") in beside

    @cached_property
    def attributes(self) -> frozenset[str] | None:
        """The attributes that objects of these classes have; ``None`` where they may have any others."""
        _, beside, found = self._below
        bases = {base for _, node in self._lineage for base in map(_last_of, node.bases)}
        names = {node.name for _, node in self._lineage}
        if found is None or beside or not bases <= _ROOTS | names:
            return None
        own = [_attributes_in(module, node) for module, node in self._lineage]
        known = [each for each in own if each is not None]
        return frozenset().union(_OF_MODULES, found, *known) if len(known) == len(own) else None

    @cached_property
    def _below(self) -> tuple[set[Key], set[str], frozenset[str] | None]:
        """The classes that derive from the class, the names of what they also derive from, and their attributes."""
        keys, beside = set[Key](), set[str]()
        attributes: frozenset[str] | None = frozenset()
        pending = [(self._lineage[0][1].name, self._lineage[0][0])]
        for name, origin in pending:  # which grows meanwhile
            if len(pending) > _MOST:
                return keys, beside, None
            for module, node in self._derived(name, origin):
                key = key_of(module, node)
                if key in keys or key in self._above:
                    continue
                keys.add(key)
                pending.append((node.name, module))
                beside |= {_last_of(base) for base in node.bases} - _ROOTS
                inside = _attributes_in(module, node)
                attributes = attributes | inside if attributes is not None and inside is not None else None
        return keys, beside - {name for name, _ in pending}, attributes

    def _derived(self, name: str, origin: SourceModule) -> Iterator[tuple[SourceModule, ast.ClassDef]]:
        """The classes that have one as their base, by its name or by what it is imported as."""
        modules = [origin, *self._project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))]
        for module in self._project.reading_each(dict.fromkeys(modules)):
            names = {name, *_aliases(module, name)}
            for node in nodes_of(module.tree).of(ast.ClassDef):
                bases = names.intersection(map(_last_of, node.bases))
                if any(not self._is_another(module, each, name, origin) for each in bases):
                    yield module, node

    def _is_another(self, user: SourceModule, name: str, original: str, origin: SourceModule) -> bool:
        """Whether a name certainly means another class than the one in a file."""
        places = user.bindings.names.get(name, ())
        if user.file == origin.file or not places:
            return False
        return all(self._leads_elsewhere(user, each, original, origin) for each in places)

    def _leads_elsewhere(self, user: SourceModule, place: ast.stmt, name: str, origin: SourceModule) -> bool:
        if not isinstance(place, ast.ImportFrom):
            return isinstance(place, Definition)
        source = self._project.find(user, place.module or "", place.level)
        if source is None or source.file == origin.file or not source.has_tree:
            return False
        bound = source.bindings.names.get(name, ())
        return bool(bound) and all(isinstance(each, Definition) for each in bound)


def classes_with(modules: Iterable[SourceModule], attribute: str) -> Iterator[tuple[SourceModule, ast.ClassDef]]:
    """The classes of some files that give their objects an attribute of a name."""
    for module in modules:
        for node in nodes_of(module.tree).of(ast.ClassDef):
            nodes = nodes_of(node)
            is_set = any(isinstance(each.ctx, ast.Store) for each in nodes.attributes.get(attribute, ()))
            if is_set or any(getattr(call.args[0], "value", "") == attribute for call in _naming(nodes)):
                yield module, node


def _attributes_in(module: SourceModule, cls: ast.ClassDef) -> frozenset[str] | None:
    """The attributes that a class itself gives to its objects; ``None`` where some of their names are computed."""
    if _MAKING.search(module.text_of(cls)) or cls.keywords:
        return None
    nodes = nodes_of(cls)
    found = {each.attr for each in nodes.of(ast.Attribute) if isinstance(each.ctx, ast.Store)}
    found |= {each.name for each in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)}
    for statement in cls.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else ()
        found |= {each.id for each in targets if isinstance(each, ast.Name)}
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.add(statement.target.id)
    for call in _naming(nodes):
        name = call.args[0]
        if not isinstance(name, ast.Constant):
            return None
        found.add(str(name.value))
    return frozenset(found)


def _naming(nodes: Nodes) -> Iterator[ast.Call]:
    """The calls that give an object an attribute by its name: ``self.register_buffer("mean", mean)``."""
    for call in nodes.of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in NAMING and call.args:
            yield call


def _last_of(base: ast.expr) -> str:
    """The last part of the name of a base class."""
    named = base.value if isinstance(base, ast.Subscript) else base
    return ast.unparse(named).rpartition(".")[2]


def _aliases(module: SourceModule, name: str) -> Iterator[str]:
    for statement in nodes_of(module.tree).of(ast.ImportFrom):
        yield from (alias.asname for alias in statement.names if alias.name == name and alias.asname)
