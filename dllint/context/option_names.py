"""The names that a file reads, some of which may be those of options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from dllint.interp.source.effects import definitions_around
from dllint.interp.source.imported import imported_names
from dllint.interp.source.imported_by_name import files_imported
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.only_parsing import PARSING
from dllint.interp.source.project import Project
from dllint.interp.source.trees import walk
from dllint.sites import Site

_IMPORTING = frozenset(("import_module", "__import__"))
_BY_NAMES = _IMPORTING | {"add_argparse_args", "HfArgumentParser"}
USUAL_NAMES = frozenset(("args", "opt", "opts", "hparams", "FLAGS"))
_SETTING = frozenset(("setattr", "__dict__", "add_argument", *PARSING))  # in a class: its attributes may be options
ALL = "**"  # the place of a dict that is expanded
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[\w.:/-]+")  # as an option may be called: `--data.size` is read as `options["data.size"]`
_PUT_IN = re.compile(r"\{[^{}]*\}|%\(\w*\)")


class Names(NamedTuple):
    """What a file reads as attributes (`args.lr`), and the names that it has as texts (`getattr(args, "lr")`), or as
    parameters and keywords where it takes all options out of the namespace; ``taken`` are those parameters which get
    what a dict of all options has under their name, and `ALL` where a function gets such a dict and refuses others."""

    attributes: frozenset[str]
    texts: frozenset[str]
    parameters: frozenset[str]
    taken: frozenset[str] = frozenset()

    def have(self, name: str) -> bool:
        """Whether a name is one of any kind, or all parts of one with dots are, which may have become tables."""
        is_there = any(name in each for each in self) or ALL in self.taken
        parts = name.split(".") if "." in name else ()
        return is_there or (bool(parts) and all(self.have(part) or f"{part}." in self.texts for part in parts))

    def takes(self, name: str) -> bool:
        """Whether a parameter gets what has a name, or some function would refuse that."""
        return name in self.taken or ALL in self.taken


def namespaces(tree: ast.Module) -> Iterator[str]:
    """The names to which what a parser returns is assigned."""
    for node in nodes_of(tree).of(ast.Assign):
        if any(isinstance(inner, ast.Call) and last_of(inner.func) in PARSING for inner in walk(node.value)):
            for target in node.targets:
                yield from (last_of(each) for each in walk(target) if isinstance(each, ast.Name | ast.Attribute))


def names_read(module: SourceModule, libraries: frozenset[str]) -> Names:
    """The names that a file reads; ``libraries`` are those by which it knows what is not of the project."""
    known: tuple[frozenset[str], Names] | None = module.derived.get(names_read)
    if known is None or known[0] != libraries:
        found = list(_find_names_read(module, libraries))
        names = Names(*(frozenset(name for name, each in found if each == kind) for kind in Names._fields))
        known = module.derived[names_read] = (libraries, names)
    return known[1]


def _find_names_read(module: SourceModule, libraries: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The names that a file reads as attributes (`args.lr`) or has as texts (`getattr(args, "lr")`, `"{lr}"`).

    What is read of libraries (`torch.cuda.seed`) is none, but for a configuration that they were given
    (`wandb.config.epochs`), and neither is a method (`model.train()`), nor an attribute of an object that its class
    sets itself (`self.classes = classes`). Where all options are taken out of the namespace, parameters count as well:
    they may be handed on by name.
    """
    takes_all = "vars" in module.words or "__dict__" in module.words
    owners = {*USUAL_NAMES, *namespaces(module.tree)}
    pending: list[ast.AST] = [module.tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute):
            is_held = root_of(node) not in libraries or last_of(node.value) == "config"
            if isinstance(node.ctx, ast.Load) and is_held and not is_of_object(module, node):
                yield node.attr, "attributes"
        elif isinstance(node, ast.Constant):
            yield from ((name, "texts") for name in (_names_in(node.value) if isinstance(node.value, str) else ()))
        elif isinstance(node, ast.keyword | ast.arg) and takes_all and node.arg:
            yield node.arg, "parameters"
        elif isinstance(node, ast.Call) and last_of(node.func) == "add_argument":
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            pending.extend(each for each in given if not isinstance(each, ast.Constant))
            continue
        elif isinstance(node, ast.Call) and _is_method(node.func, owners):
            pending.extend((node.func.value, *node.args, *node.keywords))
            continue
        pending.extend(ast.iter_child_nodes(node))


def is_of_object(module: SourceModule, node: ast.Attribute) -> bool:
    """Whether an attribute is one of `self` that methods of its class set, and to no option of this name.

    A class that adds options itself, parses them, or sets attributes by names that are not written may be what the
    options are put into.
    """
    if not isinstance(node.value, ast.Name) or node.value.id != "self":
        return False
    around = [each for each in definitions_around(Site(module, node)) if isinstance(each, ast.ClassDef)]
    if not around or not _names_in_class(around[0]).isdisjoint(_SETTING):
        return False
    given = [
        each.value
        for each in nodes_of(around[0]).of(ast.Assign)
        if any(isinstance(target, ast.Attribute) and _is_same(target, node) for target in each.targets)
    ]
    return bool(given) and not any(_reads_attribute(value, node.attr) for value in given)


def _names_in_class(owner: ast.ClassDef) -> frozenset[str]:
    nodes = nodes_of(owner)
    return frozenset((*nodes.names, *nodes.attributes))


def _is_same(target: ast.Attribute, node: ast.Attribute) -> bool:
    return target.attr == node.attr and isinstance(target.value, ast.Name) and target.value.id == "self"


def _reads_attribute(value: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == name for each in ast.walk(value))


def _is_method(called: ast.expr, namespaces: set[str]) -> TypeGuard[ast.Attribute]:
    """Whether what is called is an attribute, and no option that is a function: `args.optimizer(...)`."""
    return isinstance(called, ast.Attribute) and last_of(called.value) not in namespaces


def _names_in(text: str) -> list[str]:
    """The names in a text that is one name, with dots or without, or in which something is put at names."""
    if _NAME.fullmatch(text):
        return [text.replace("-", "_")]
    parts = [text] if "args." in text else _PUT_IN.findall(text)
    return [word for part in parts for word in _WORD.findall(part)]


def last_of(node: ast.AST) -> str:
    """The name of a variable or an attribute; empty for anything else."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def root_of(node: ast.AST) -> str:
    """The variable that a chain of attributes starts from; empty where it is none."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _runs_by_name(module: SourceModule) -> set[str]:
    """By what a file imports or runs something that a text names, or fills in options from elsewhere; not in comments,
    and not by a function of its own that is called `eval`."""
    nodes, own = nodes_of(module.tree), module.bindings.names
    named = (*nodes.names, *nodes.attributes, *imported_names(module.tree).values())
    called = {node.func.id for node in nodes.of(ast.Call) if isinstance(node.func, ast.Name)}
    runs = {name for name in ("exec", "eval") if name in called and name not in own}
    return runs | {each.rpartition(".")[2] for each in named if each.rpartition(".")[2] in _BY_NAMES}


def files_meant(module: SourceModule, project: Project) -> list[SourceModule] | None:
    """The files that one may import by names which it computes; ``None`` where it may run any."""
    named = _runs_by_name(module)
    if not named <= _IMPORTING:
        return None
    return files_imported(module, project) if named else []
