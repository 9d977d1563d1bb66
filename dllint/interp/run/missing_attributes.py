"""Attributes that a class of the project and its objects certainly lack, so that to read them raises `AttributeError`.

Only what is certain counts: the class and all that it derives from are known, none of them binds the name or makes
attributes in a way that is not written out, and no file of the program gives the name to anything from outside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set as AbstractSet
from importlib import import_module
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.events import NameMissing
from dllint.interp.run.classes import find_member
from dllint.interp.run.guards import text_of
from dllint.interp.run.missing_names import is_not_in, is_of_project, named
from dllint.interp.run.names import under_path
from dllint.interp.run.unset_attributes import stores_left_out
from dllint.interp.source.bindings import bindings_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_scope
from dllint.sites import Site
from dllint.values import Class, Const, External, Instance, Items, ModuleReference, Nothing, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule

_MODULE = "torch.nn.Module"
_NAMED_ALIKE = frozenset(("copy", "datetime", "glob", "pprint", "random", "time"))  # modules, with something called so
_ENUMS = frozenset(("enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"))
_ROOTS = _ENUMS | frozenset((
    "object", "str", "int", "abc.ABC", _MODULE, "torch.utils.data.Dataset", "torch.utils.data.IterableDataset",
    "torch.utils.data.Sampler",
))  # fmt: skip
_PLAIN = frozenset(("object", "abc.ABC"))
_OF_ROOTS = frozenset((  # what objects of these have, as of any release
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile", "cpu",
    "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "functions", "get_buffer",
    "get_extra_state", "get_parameter", "get_submodule", "half", "ipu", "load_state_dict", "modules", "mro", "mtia",
    "named_buffers", "named_children", "named_modules", "named_parameters", "parameters", "register_backward_hook",
    "register_buffer", "register_datapipe_as_function", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "register_function",
    "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_module",
    "register_parameter", "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_",
    "set_extra_state", "set_submodule", "share_memory", "state_dict", "to", "to_empty", "train", "training", "type",
    "xpu", "zero_grad",
))  # fmt: skip
_MAKES_ATTRIBUTES = re.compile(  # for objects of a class, in its file
    r"\b(setattr|delattr|exec|locals|globals|vars|update_wrapper)\("
    r"|__dict__|__getattr(ibute)?__|__setattr__|__class__\s*="
)
_MAKES_PARTS = re.compile(r"\b(add_module|register_\w+|(weight|spectral)_norm|prune)\(")  # for those of modules
_SETS_ANY = re.compile(  # in any other file of a program, but for what its classes set of their own objects
    r"\b(setattr\((?!self\b)|(exec|import_module|__import__|patch)\()|\b__dict__\b(?!\.(?:items|keys|values|copy|get)\(|\[\w+\]\()"
    r"|\bvars\([^()]+\)\s*(\[|\.update)|\bsys\.modules\b"
)
_WRAPS = re.compile(  # what makes another object of a module, which is taken for the same one
    r"\b(prepare|initialize|compile|script|trace|wrap|parallelize|setup\w*|\w*[Pp]arallel|FSDP|DDP|deepspeed|fabric"
    r"|accelerat\w+|peft\w*|get_peft_model|lora\w*|module)\b"
)


def missing_member(machine: Machine, base: Value, read: ast.Attribute, reader: SourceModule) -> NameMissing | None:
    """That ``base.name`` raises `AttributeError`, if so: a file or a class of the project has no such name.

    Of several things that it may be, all lack it.
    """
    if isinstance(base, Choice):
        return _of_each(machine, under_path(machine, base), read, reader)
    if isinstance(base, ModuleReference) and is_not_in(machine, base, read.attr):
        return NameMissing(Site(reader, read), read.attr, "module", *named(base.module))
    if isinstance(base, Nothing | Items | External):
        return _of_builtin(machine, base, read, reader)
    cls = base.cls if isinstance(base, Instance) else base
    if not isinstance(base, Class | Instance) or not isinstance(cls, Class):
        return None
    lacking = cls.name, Site(cls.module, cls.node)
    is_missing = _has_not(machine, base, cls, read.attr, read.value)
    return NameMissing(Site(reader, read), read.attr, "object", *lacking) if is_missing else None


def _of_each(machine: Machine, base: Value, read: ast.Attribute, reader: SourceModule) -> NameMissing | None:
    """That none of the things that a value may be has an attribute: objects of classes of the project, and `None`."""
    options = [option for _, option in alternatives(base) if not (isinstance(option, Const) and option.value is None)]
    if hasattr(None, read.attr) or not all(isinstance(each, Instance) for each in options):
        return None
    missing = [missing_member(machine, each, read, reader) for each in options]
    return missing[0] if missing and all(missing) else None


def _of_builtin(
    machine: Machine, base: Nothing | Items | External, read: ast.Attribute, reader: SourceModule
) -> NameMissing | None:
    """That an attribute is read of what a function gives that returns nothing, of a list, or of what is no module."""
    if machine.block is None or machine.main.source.notebook is not None:
        return None
    site = Site(reader, read)
    if isinstance(base, Nothing):
        function = base.function
        lacking = function.qualified_name, Site(function.module, function.node)
        return None if hasattr(None, read.attr) else NameMissing(site, read.attr, "nothing", *lacking)
    if isinstance(base, Items):
        made = base.site if base.kind == "list" and not hasattr([], read.attr) else None
        is_here = (
            isinstance(read.value, ast.Name)
            and made is not None
            and enclosing_scope(made) == enclosing_scope(site)
            and made.module is reader
        )
        is_list = made is not None and is_here and isinstance(made.node, ast.List | ast.ListComp)
        return NameMissing(site, read.attr, "library", "list", made) if made is not None and is_list else None
    imported = _import_of(read.value, reader) if _is_of_module(base.name, read.attr) else None
    return NameMissing(site, read.attr, "library", base.name, Site(reader, imported)) if imported is not None else None


def _import_of(node: ast.expr, module: SourceModule) -> ast.stmt | None:
    """The only statement that binds what is read: ``from time import time``, or ``import time`` of ``time.time``."""
    root = node.value if isinstance(node, ast.Attribute) else node
    bound = module.bindings.names.get(root.id, ()) if isinstance(root, ast.Name) else ()
    kind = ast.Import if isinstance(node, ast.Attribute) else ast.ImportFrom
    return bound[0] if len(bound) == 1 and isinstance(bound[0], kind) else None


def _is_of_module(name: str, attribute: str) -> bool:
    """Whether an attribute is one of a module, and is read of what the module has under its own name."""
    module, _, last = name.partition(".")
    if module != last:
        return False
    if module == "tqdm":
        return attribute == last
    return module in _NAMED_ALIKE and not hasattr(getattr(import_module(module), last), attribute)


def _has_not(machine: Machine, base: Class | Instance, cls: Class, name: str, node: ast.expr) -> bool:
    """Whether ``base.name`` raises `AttributeError`: nothing in a class, or anywhere, sets it.

    Args:
        machine: what interprets the program.
        base: a class, or an object of one.
        cls: the class.
        name: the attribute.
        node: the expression that gave it.
    """
    if machine.block is None or name.startswith("__") or machine.main.source.notebook is not None:
        return False
    if name in _OF_ROOTS and not _PLAIN.issuperset(cls.library_bases):
        return False
    if isinstance(base, Instance) and not _is_all_known(base, cls, name):
        return False
    if find_member(machine, cls, name) is not None:
        return False
    left_out = stores_left_out(base, name) if isinstance(base, Instance) else frozenset()
    key = (next(iter(left_out), cls.node), name)
    known = machine.lacking.get(key)
    if known is None:
        is_closed = is_of_project(machine, machine.main) and _is_closed(cls)
        known = machine.lacking[key] = is_closed and not _may_be_given(machine, cls, name, left_out)
    is_module = _MODULE in cls.library_bases
    is_itself = isinstance(node, ast.Name) and node.id == "self"
    return known and (not is_module or is_itself or not _is_wrapped(machine))


def _is_all_known(instance: Instance, cls: Class, name: str) -> bool:
    """Whether nothing is known to give an object an attribute, and all that its constructor got is known."""
    return instance.arguments.exact and name not in instance.attributes and _ENUMS.isdisjoint(cls.library_bases)


def _is_closed(cls: Class) -> bool:
    """Whether objects of a class have nothing but what is written in it and in the classes that it derives from."""
    return all(_is_plain(ancestor) for ancestor in cls.lineage)


def _is_plain(cls: Class) -> bool:
    decorators = {text_of(each).partition("(")[0].rpartition(".")[2] for each in cls.node.decorator_list}
    if not decorators <= {"dataclass"} or cls.node.keywords or cls.module.parse_error is not None:
        return False
    if "__new__" in cls.members:  # which may make an object of another class
        return False
    if cls.module.contains(_MAKES_ATTRIBUTES) or len(cls.bases) != len(cls.node.bases):
        return False
    if _MODULE in cls.library_bases and cls.module.contains(_MAKES_PARTS):
        return False
    return all(isinstance(base, Class) or (isinstance(base, External) and base.name in _ROOTS) for base in cls.bases)


def _may_be_given(machine: Machine, cls: Class, name: str, left_out: AbstractSet[ast.AST]) -> bool:
    """Whether something may give an object of a class an attribute: its classes, or any file of the program.

    But for what its constructor certainly did not do for this object.
    """
    if name.startswith("_") and _MODULE in cls.library_bases:
        return True
    if any(name in bindings_of(ancestor.node.body).names for ancestor in cls.lineage):
        return True
    lineage = {ancestor.node for ancestor in cls.lineage}
    own = {ancestor.module for ancestor in cls.lineage}
    files = [*own, *(each for each in machine.project.closure(machine.main) if each not in own)]
    for module in files:
        if module not in own and module.contains(_SETS_ANY):
            return True
        if name in module.words:
            with machine.project.reading(module):
                if _is_set_in(module, name, lineage, left_out):
                    return True
    return False


def _is_set_in(module: SourceModule, name: str, lineage: set[ast.ClassDef], left_out: AbstractSet[ast.AST]) -> bool:
    """Whether a file sets an attribute of a name, or has the name as a text; what other classes set is their own."""
    if module.parse_error is not None:
        return True
    nodes = nodes_of(module.tree)
    if any(each.value == name for each in nodes.of(ast.Constant)):
        return True
    stored = (each for each in nodes.attributes.get(name, ()) if not isinstance(each.ctx, ast.Load))
    return any(each not in left_out and not _is_of_another_class(Site(module, each), lineage) for each in stored)


def _is_of_another_class(stored: Site, lineage: set[ast.ClassDef]) -> bool:
    """Whether ``self.name = …`` stands in a class that the object has nothing to do with."""
    target = stored.node
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name) or target.value.id != "self":
        return False
    classes = [each for each in ancestors(stored) if isinstance(each, ast.ClassDef)]
    return len(classes) == 1 and classes[0] not in lineage


def _is_wrapped(machine: Machine) -> bool:
    return any(each.contains(_WRAPS) for each in machine.project.closure(machine.main))
