"""Classes of the project: their members along the inheritance chain, and the library classes they derive from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.choices import alternatives, give_hint
from dllint.interp.source.bindings import targets_in
from dllint.interp.source.nodes import nodes_of
from dllint.terms import Framework, Role
from dllint.values import Class, External, Function, Instance, Scope, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_PROPERTIES = frozenset(("property", "functools.cached_property", "abc.abstractproperty", "torch.jit.unused"))


def make_class(machine: Machine, node: ast.ClassDef, scope: Scope) -> Class:
    """The value of a class definition."""
    bases = [machine.evaluate(base, scope) for base in node.bases if not isinstance(base, ast.Starred)]
    if any(isinstance(base, Symbol) for base in bases):
        bases = _ask_astroid(machine, node, scope, bases)
    cls = Class(node, scope.module, scope, bases, [option for base in bases for _, option in alternatives(base)])
    for statement in _class_statements(node.body):
        if isinstance(statement, _FUNCTION):
            if not _is_setter(statement):
                cls.members[statement.name] = statement
        elif isinstance(statement, ast.ClassDef):
            cls.members[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    cls.members[target.id] = statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            cls.members[statement.target.id] = statement
    cls.dataclass = any(_decorator_name(machine, decorator, scope) in _DATACLASS for decorator in node.decorator_list)
    if _is_called_for_forward(cls):
        cls.members["forward"] = cls.members.pop("__call__")
    return cls


def _is_called_for_forward(cls: Class) -> bool:
    """Whether ``__call__`` of a module is what ``forward`` is of others: it has no such method, and speaks of none.

    One that trains something has to be seen at each call, and is left as it is.
    """
    call = cls.members.get("__call__")
    if not isinstance(call, _FUNCTION) or set(cls.library_bases) != {"torch.nn.Module"} or has_unknown_base(cls):
        return False
    if any("forward" in each.members or "forward" in nodes_of(each.node).attributes for each in cls.lineage):
        return False
    return _NOT_IN_FORWARD.isdisjoint(nodes_of(call).attributes)


_NOT_IN_FORWARD = frozenset(("__call__", "backward", "step", "zero_grad", "train", "eval"))


_DATACLASS = frozenset(("dataclasses.dataclass", "pydantic.dataclasses.dataclass", "attr.s", "attrs.define"))


def _ask_astroid(machine: Machine, node: ast.ClassDef, scope: Scope, bases: list[Value]) -> list[Value]:
    """Replace bases that could not be resolved by what astroid infers for them."""
    from dllint.interp.run.second_opinion import infer_bases

    inferred = infer_bases(machine, node, scope)
    if inferred is None or len(inferred) != len(bases):
        return bases
    return [
        new if isinstance(old, Symbol) and new is not None else old for old, new in zip(bases, inferred, strict=True)
    ]


def _class_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _class_statements([*statement.body, *statement.orelse])
        else:
            yield statement


def _is_setter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter") for d in node.decorator_list)


def _decorator_name(machine: Machine, decorator: ast.expr, scope: Scope) -> str:
    value = _decorator(machine, decorator, scope)
    return value.name if isinstance(value, External) else ""


def _decorator(machine: Machine, decorator: ast.expr, scope: Scope) -> Value:
    """What decorates, whether it is called for that or not."""
    return machine.evaluate(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)


def _may_switch_gradients(machine: Machine, decorator: Value) -> bool:
    """Whether a decorator of the project has a word for gradients being switched in its code."""
    if not isinstance(decorator, Function):
        return False
    modes = {name.rpartition(".")[2] for name in machine.facts.grad_modes}
    return not modes.isdisjoint(decorator.module.words_in(decorator.node))


def make_function(
    machine: Machine, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, owner: Class | None = None
) -> Function:
    """The value of a function definition, with what its decorators say about it."""
    function = Function(node, scope.module, scope, owner)
    for decorator in node.decorator_list:
        value = _decorator(machine, decorator, scope)
        name = value.name if isinstance(value, External) else ""
        if _may_switch_gradients(machine, value):
            function.grad = "unknown"
        elif name in machine.facts.grad_modes:
            function.grad = _decorated_grad(machine, name, decorator)
        elif name in _PROPERTIES:
            function.kind = "property"
        elif name == "staticmethod":
            function.kind = "static"
        elif name == "classmethod":
            function.kind = "class"
        elif name in ("contextlib.contextmanager", "contextlib.asynccontextmanager"):
            function.kind = "context-manager"
    return function


def _decorated_grad(machine: Machine, name: str, decorator: ast.expr) -> str:
    mode = machine.facts.grad_modes[name]
    arguments = [*decorator.args, *(k.value for k in decorator.keywords)] if isinstance(decorator, ast.Call) else []
    if not arguments:
        return mode if mode != "switch" else "unknown"
    first = arguments[0]
    if not isinstance(first, ast.Constant):
        return "unknown"
    if mode == "switch":
        return "on" if first.value else "off"
    return mode if first.value else "on"


def has_unknown_base(cls: Class) -> bool:
    """Whether some ancestor could not be resolved at all."""
    return any(isinstance(base, Symbol) for ancestor in cls.lineage for base in ancestor.bases)


def find_member(machine: Machine, cls: Class, name: str, after: Class | None = None) -> Value | None:
    """A class member by name along the inheritance chain (behind ``after``, for ``super()``)."""
    skipping = after is not None
    for ancestor in cls.lineage:
        if skipping:
            skipping = ancestor is not after
            continue
        statement = ancestor.members.get(name)
        if statement is not None:
            return _member_value(machine, ancestor, name, statement)
    return None


def _member_value(machine: Machine, cls: Class, name: str, statement: ast.stmt) -> Value:
    known = cls.values.get(name)
    if known is not None:
        return known
    cls.values[name] = Symbol("unknown", detail=name)  # what a circular definition sees
    with machine.aside():
        value: Value = cls.values[name]
        if isinstance(statement, _FUNCTION):
            value = make_function(machine, statement, cls.scope, cls)
        elif isinstance(statement, ast.ClassDef):
            value = make_class(machine, statement, cls.scope)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            value = _evaluate_in(machine, cls, name, statement.value)
            if isinstance(value, Function) and isinstance(statement, ast.AnnAssign) and _is_of_pydantic(cls):
                value = Function(value.node, value.module, value.scope)
                value.kind = "static"  # a field, whose default each object has as it stands
    cls.values[name] = value
    return value


def _is_of_pydantic(cls: Class) -> bool:
    return any(base.startswith("pydantic.") for base in cls.library_bases)


def _evaluate_in(machine: Machine, cls: Class, name: str, node: ast.expr) -> Value:
    """The value that the body of a class assigns to a name."""
    scope = Scope(cls.module, cls.scope)
    scope.variables.update(cls.values)
    scope.variables.pop(name, None)
    return machine.evaluate(node, scope)


def execute_attributes(machine: Machine, cls: Class) -> None:
    """Evaluate what the body of a class assigns and calls something for, so that its events are told."""
    for name, statement in cls.members.items():
        assigned = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if isinstance(assigned, ast.Call) and machine.tick():
            cls.values[name] = _evaluate_in(machine, cls, name, assigned)
            give_hint(cls.values[name], name)


def framework_of(machine: Machine, cls: Class | None) -> Framework:
    """The framework under whose loop the methods of a class run, or an empty string."""
    if cls is None:
        return ""
    known = machine.frameworks.get(cls)
    if known is None:
        known = machine.frameworks[cls] = _framework_of(machine, cls)
    return known


def _framework_of(machine: Machine, cls: Class) -> Framework:
    for name in cls.library_bases:
        framework = machine.facts.frameworks.get(name)
        if framework is not None:
            return framework
        if name.endswith("LightningModule"):
            return "lightning"
        if name.endswith("Trainer") and name.partition(".")[0] in ("transformers", "trl"):
            return "hf-trainer"
    return ""


def is_foreign_trainer(machine: Machine, cls: Class) -> bool:
    """Whether a class is a framework's trainer that another file extends: its loop is looked at there, on its own."""
    return cls.module is not machine.main and framework_of(machine, cls) == "hf-trainer"


def role_of(machine: Machine, value: Value) -> Role:
    """The role of an object: ``optimizer``, ``scheduler``, ``scaler``, ``loader``, ``module``, … or an empty string.

    A class of the project has the role of the library class it derives from.
    """
    if isinstance(value, Setting):
        return role_of(machine, value.default)
    if not isinstance(value, Instance):
        return ""
    if isinstance(value.cls, str):
        return _library_role(machine, value.cls)
    known = machine.roles.get(value.cls)
    if known is None:
        known = machine.roles[value.cls] = _project_role(machine, value.cls)
    return known


def _project_role(machine: Machine, cls: Class) -> Role:
    roles = {_library_role(machine, name) for name in cls.library_bases}
    for role in _INHERITED:
        if role in roles:
            return role
    return "module" if is_module_class(machine, cls) else ""


def _library_role(machine: Machine, name: str) -> Role:
    role = machine.facts.role(name)
    if role:
        return role
    if machine.facts.is_module_class(name) or name.endswith(".LightningModule"):
        return "module"
    if name.startswith("torchvision.datasets."):
        return "dataset"
    last = name.rpartition(".")[2]
    return _ROLE_BY_SUFFIX.get(last, "")


_INHERITED: tuple[Role, ...] = (
    *("optimizer", "scheduler", "scaler", "loader", "sampler", "dataset", "loss-class", "module"),
)
_ROLE_BY_SUFFIX: dict[str, Role] = {"Optimizer": "optimizer", "LRScheduler": "scheduler", "_LRScheduler": "scheduler"}


def is_module_class(machine: Machine, cls: Class) -> bool:
    """Whether a project class is an ``nn.Module``, as far as its bases tell.

    Where they do not, one with a ``forward`` is: but not a class of its own, whose ``forward`` is a method like others.
    """
    if derives_from_module(machine, cls):
        return True
    if any(name.endswith("autograd.Function") for name in cls.library_bases) or _has_no_bases(cls):
        return False
    return any("forward" in ancestor.members for ancestor in cls.lineage)


def _has_no_bases(cls: Class) -> bool:
    """Whether a class derives from nothing but classes of the project that derive from nothing."""
    others = (base for ancestor in cls.lineage for base in ancestor.bases if not isinstance(base, Class))
    return all(isinstance(base, External) and base.name.rpartition(".")[2] in ("object", "ABC") for base in others)


def derives_from_module(machine: Machine, cls: Class) -> bool:
    """Whether a library class among the bases of a project class is known, or named, to be an ``nn.Module``."""
    return any(
        machine.facts.is_module_class(name) or name.endswith(("Module", "PreTrainedModel", "ModelMixin"))
        for name in cls.library_bases
    )


@lru_cache(maxsize=4096)
def reassigned_attributes(node: ast.ClassDef) -> frozenset[str]:
    """The attributes of ``self`` that methods other than ``__init__`` assign: no constants between calls."""
    found: set[str] = set()
    for statement in node.body:
        if not isinstance(statement, _FUNCTION) or statement.name == "__init__" or not statement.args.args:
            continue
        receiver = statement.args.args[0].arg
        for target in targets_in(statement.body):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver:
                found.add(target.attr)
    return frozenset(found)


def set_attributes(cls: Class) -> frozenset[str]:
    """The attributes that any method of the class or its project ancestors assigns after construction."""
    found: frozenset[str] = frozenset()
    for ancestor in cls.lineage:
        found |= reassigned_attributes(ancestor.node)
    return found
