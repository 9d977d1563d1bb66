"""Whether code outside of a class reads an attribute of its objects, as far as names tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dllint.interp.source.attribute_owners import Owners
from dllint.interp.source.kin import NAMING, Kin, classes_with
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_ASKING = frozenset(("getattr", "hasattr"))
_LOOKING_UP = re.compile(
    r"\bgetattr\(|\bget_submodule\(|\bnamed_(modules|children)\(|\b_modules\b|\battrgetter\(|return_(layers|nodes)|__dict__"
)
_KEY_CALLS = frozenset(("get", "pop", "setdefault", "add_argument", "print", "append_scalar", "add_scalar", "log"))
_OF_LIBRARIES = re.compile(r"features|classifier|fc|conv1|bn1|layer[1-4]|avgpool|encoder|decoder|embeddings|head|heads")
_HOOKS = re.compile(r"register_(full_)?(forward|backward)_(pre_)?hook")
_WEIGHTS = frozenset(("weight", "bias", "data"))
_SETTING = re.compile(r"(normal|uniform|constant|zero|ones|fill|xavier|kaiming|orthogonal|eye|dirac|copy|trunc)\w*_$")
_INITIALIZING = re.compile(r"(.*\.)?init\.\w+")


def is_read_outside(
    project: Project, files: Sequence[SourceModule], lineage: Sequence[tuple[SourceModule, ast.ClassDef]], name: str
) -> bool | None:
    """Whether something that is no class of a lineage reads an attribute of an object of its first class.

    Args:
        project: where it is searched.
        files: the files that may read it.
        lineage: the class and those that it derives from.
        name: the attribute.

    Returns:
        ``None`` where something of this name is read of what may be such an object, or one of another class that has
        an attribute of the name, too.
    """
    kin = Kin(project, lineage)
    owners = Owners(project, kin)
    is_doubtful = False
    concerned = [module for module in files if name in module.words and module.has_tree]
    for module in project.reading_each(concerned):
        for told in _answers(module, name, owners):
            if told is True:
                return True
            is_doubtful |= told is None
    return (None if _has_others(project, concerned, kin, name) else True) if is_doubtful else False


def has_twin(project: Project, files: Sequence[SourceModule], owner: str, name: str) -> bool:
    """Whether a class of a name in one of some files reads an attribute of its own: a copy that uses it."""
    return any(
        node.name == owner and any(isinstance(each.ctx, ast.Load) for each in nodes_of(node).attributes.get(name, ()))
        for module in project.reading_each([each for each in files if owner in each.words and each.has_tree])
        for node in nodes_of(module.tree).of(ast.ClassDef)
    )


def is_only_prepared(use: Site) -> bool:
    """Whether what is read of an object is a layer of which only the weights are set, or that gets a hook."""
    around = ancestors(use)
    parent = next(around, None)
    if isinstance(parent, ast.Attribute) and _HOOKS.fullmatch(parent.attr):
        return True
    last: ast.AST = use.node
    while isinstance(parent, ast.Attribute) and parent.attr in _WEIGHTS:
        last, parent = parent, next(around, None)
    if last is use.node:
        return False
    if isinstance(parent, ast.Attribute):
        return bool(_SETTING.search(parent.attr)) and _is_statement(next(around, None), around)
    if not isinstance(parent, ast.Call) or last not in parent.args:
        return False
    return bool(_INITIALIZING.fullmatch(ast.unparse(parent.func))) and _is_statement(parent, around)


def _is_statement(node: ast.AST | None, around: Iterator[ast.AST]) -> bool:
    return isinstance(node, ast.Call) and isinstance(next(around, None), ast.Expr)


def _answers(module: SourceModule, name: str, owners: Owners) -> Iterator[bool | None]:
    """For each place of a file that may read the attribute, whether it does."""
    nodes = nodes_of(module.tree)
    for node in nodes.attributes.get(name, ()):
        if isinstance(node.ctx, ast.Load) and not is_only_prepared(Site(module, node)):
            yield owners.is_kin(node.value, module)
    looks_up = module.contains(_LOOKING_UP)
    for text in nodes.of(ast.Constant):
        if text.value == name:
            yield _is_asked_for(text, module, owners, looks_up=looks_up)


def _is_asked_for(text: ast.Constant, module: SourceModule, owners: Owners, *, looks_up: bool) -> bool | None:
    """Whether a text is the name of an attribute that is looked up: not the key of an entry."""
    parent = next(ancestors(Site(module, text)), None)
    if isinstance(parent, ast.Call):
        called = ast.unparse(parent.func).rpartition(".")[2]
        if called in _ASKING and text in parent.args[1:2]:
            return owners.is_kin(parent.args[0], module)
        if called in NAMING or (called in _KEY_CALLS and not looks_up):
            return False
    if isinstance(parent, ast.Tuple) and text is parent.elts[0] and isinstance(parent.elts[-1], ast.Call):
        return False  # a layer of an `OrderedDict` is called so
    is_key = isinstance(parent, ast.Subscript) or (isinstance(parent, ast.Dict) and text in parent.keys)
    return False if is_key and not looks_up else None


def _has_others(project: Project, modules: Sequence[SourceModule], kin: Kin, name: str) -> bool:
    """Whether objects of other classes have an attribute of the name: of the project, or well-known models."""
    if _OF_LIBRARIES.fullmatch(name):
        return True
    return any(not kin.has(module, cls) for module, cls in classes_with(project.reading_each(modules), name))
