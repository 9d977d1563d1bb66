"""Calls: functions of the project are interpreted where they are called, classes instantiated, the rest looked up."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from dllint.choices import Choice, choose
from dllint.events import EpochSet, Frame, GradientClip, OpaqueCall, OptimizerStep
from dllint.forms import class_of, described
from dllint.interp.run import containers, instances, library, methods, modules, names, records, roles, strings
from dllint.interp.run.attributes import get_attribute
from dllint.interp.run.classes import find_member, framework_of, is_foreign_trainer, is_module_class, role_of
from dllint.interp.run.guards import as_option, text_of
from dllint.interp.run.handed_on import options_in
from dllint.interp.run.joining import CallError, outcome_of
from dllint.interp.run.opaque import NOT_ENTERED, opaque
from dllint.interp.run.parameters import bind_parameters
from dllint.interp.run.refusals import refusal
from dllint.interp.run.supers import SuperProxy
from dllint.interp.source.generators import is_endless
from dllint.interp.source.nodes import nodes_of
from dllint.sites import Guards, Site
from dllint.values import (
    Arguments,
    BoundMethod,
    Class,
    Const,
    External,
    Function,
    Instance,
    Items,
    ModuleReference,
    Nothing,
    Partial,
    Setting,
    Symbol,
    Table,
    Value,
)

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_OPTIONS = 4
_CLIPS = re.compile(r"clip_?(the_)?grad", re.IGNORECASE)  # a project's own clipping function is known by its name


def call(machine: Machine, callee: Value, arguments: Arguments, site: Site) -> Value:
    """Call a value.

    Raises:
        CallError: it is nothing that can be called, or does not take these arguments.
    """
    if isinstance(callee, Function):
        return invoke(machine, callee, arguments, site)
    if isinstance(callee, BoundMethod):
        return invoke(machine, callee.function, arguments, site, receiver=callee.receiver)
    if isinstance(callee, Class):
        return instances.instantiate(machine, callee, arguments, site)
    if isinstance(callee, External):
        return library.call_external(machine, callee.name, arguments, site)
    if isinstance(callee, Instance):
        return modules.call_instance(machine, callee, arguments, site)
    if isinstance(callee, Partial):
        merged = Arguments(
            callee.arguments.positional + arguments.positional,
            {**callee.arguments.keywords, **arguments.keywords},
            callee.arguments.exact and arguments.exact,
        )
        return call(machine, callee.callable, merged, site)
    if isinstance(callee, Choice):
        if roles.are_modules(machine, callee) and not any(_is_method_of_modules(o) for _, o in callee.options):
            return modules.call_module(machine, callee, arguments, site)
        return _each_option(machine, callee, site, lambda o: call(machine, o, _under_path(machine, arguments), site))
    if isinstance(callee, Setting):
        return call(machine, callee.default, arguments, site)
    if isinstance(callee, Items | Table) and machine.block is not None:
        raise CallError(site)
    if records.is_record_type(callee):
        return records.make_record(machine, callee, arguments, site)
    if _is_bound_method(callee):  # step = optimizer.step; step()
        owner, name = callee.inputs[0], callee.detail
        if isinstance(owner, Instance):
            return _class_method(machine, owner, name, arguments, site)
        return methods.call_unknown_method(machine, owner, name, arguments, site)
    return modules.call_unknown(machine, callee, arguments, site)


def _is_bound_method(callee: Value) -> TypeGuard[Symbol]:
    """Whether a value is an attribute of an object, and so, when it is called, most likely a method of it."""
    return (
        isinstance(callee, Symbol)
        and callee.name == "attribute"
        and isinstance(callee.detail, str)
        and isinstance(callee.inputs[0], Instance | Symbol)
    )


def _is_method_of_modules(callee: Value) -> bool:
    """Whether a value is ``model.eval`` or another method that all modules have."""
    return _is_bound_method(callee) and callee.detail in methods.OF_ANY_MODULE


def call_method(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value:
    """Call ``base.name(...)``."""
    if name == "__call__" and _is_called_itself(machine, base):
        return call(machine, base.receiver if isinstance(base, SuperProxy) else base, arguments, site)
    if isinstance(base, Instance):
        return _instance_method(machine, base, name, arguments, site)
    if isinstance(base, Symbol):
        stored = base.attribute(name)
        if stored is not None and not (isinstance(stored, Symbol) and stored.name == "attribute"):
            return call(machine, names.under_path(machine, stored), arguments, site)
        return methods.call_unknown_method(machine, base, name, arguments, site)
    if isinstance(base, External | ModuleReference | Class | Function):
        return call(machine, get_attribute(machine, base, name, site), arguments, site)
    if isinstance(base, SuperProxy):
        return _super_method(machine, base, name, arguments, site)
    if isinstance(base, Items | Table):
        return containers.call_method(machine, base, name, arguments, site)
    if isinstance(base, Choice):
        base = names.under_path(machine, base)
        if isinstance(base, Choice):
            if _is_called_as_one(machine, base, name):
                return methods.call_unknown_method(machine, base, name, arguments, site)
            return _each_option(
                machine, base, site, lambda o: call_method(machine, o, name, _under_path(machine, arguments), site)
            )
        return call_method(machine, base, name, arguments, site)
    if isinstance(base, Setting) and base.has_default and not isinstance(base.default, Const):
        return call_method(machine, base.default, name, arguments, site)
    if isinstance(base, Const) and isinstance(base.value, str):
        return strings.string_method(base, name, arguments, site)
    return Symbol(f".{name}", (base, *arguments.positional), site, arguments=arguments, grad=machine.grad)


def _is_called_itself(machine: Machine, base: Value) -> bool:
    """Whether ``base.__call__(...)`` is ``base(...)``: always, but for ``super()`` in a ``__call__`` of its own."""
    if not isinstance(base, SuperProxy):
        return isinstance(base, Instance | Symbol | Function | BoundMethod | Partial)
    cls = base.receiver.cls if isinstance(base.receiver, Instance) else None
    return isinstance(cls, Class) and find_member(machine, cls, "__call__") is None


def _is_called_as_one(machine: Machine, choice: Choice, name: str) -> bool:
    """Whether a method need not be called on each option, as all have it or they are too many to follow."""
    if name in methods.OF_ANY_MODULE and roles.are_modules(machine, choice):
        return True
    if len(choice.options) <= _MAX_OPTIONS:
        return False
    are_unknown = all(isinstance(option, Symbol) for _, option in choice.options)
    return name in methods.OF_ANY_MODULE or are_unknown or bool(roles.common_role(machine, choice))


def _each_option(machine: Machine, choice: Choice, site: Site, action: Callable[[Value], Value]) -> Value:
    """Do something with each option of a choice, as branches; options that are ``None`` would raise and drop out.

    What happens in such a branch assumes that the value is this option, and so do the events in it.
    """
    options = [o for o in choice.options if not (isinstance(o[1], Const) and o[1].value is None)] or list(
        choice.options
    )
    if len(options) == 1:
        return action(options[0][1])
    followed: Sequence[int] = range(len(options))
    if len(options) > Choice.LIMIT or sum(not _is_cheap(value) for _, value in options) > _MAX_OPTIONS:
        followed = [index for index in followed if _is_default(options[index])][:1]
    arms: list[tuple[Guards, Any]] = [
        (_as_option(machine, choice, index, options, site), partial(_without_leaving, action, options[index][1]))
        for index in followed
    ]
    others = [value for index, (_, value) in enumerate(options) if index not in followed]
    if others:
        arms.append(((), lambda: (None, _not_followed(machine, others, site))))
    if not followed:
        return _not_followed(machine, others, site)
    return outcome_of(machine.branch(site, arms), [guards for guards, _ in arms], site)


def _is_default(option: tuple[Guards, Value]) -> bool:
    """Whether a value is what the program's own defaults make of a choice."""
    guards, _ = option
    return bool(guards) and all(guard.by_default for guard in guards)


def _not_followed(machine: Machine, values: Sequence[Value], site: Site) -> Value:
    """What comes of doing something with one of many values, none of which is followed."""
    symbol = Symbol("unknown", tuple(values), site)
    machine.emit(OpaqueCall(site, (symbol,)))
    return symbol


def _under_path(machine: Machine, arguments: Arguments) -> Arguments:
    """The arguments of a call of one option: ``x.size(0)`` in ``x.view(x.size(0), -1)`` is of the same ``x``."""
    if not any(isinstance(given, Choice) for given in arguments.all()):
        return arguments
    return replace(
        arguments,
        positional=tuple(names.under_path(machine, given) for given in arguments.positional),
        keywords={name: names.under_path(machine, given) for name, given in arguments.keywords.items()},
    )


def _without_leaving(action: Callable[[Value], Value], value: Value) -> tuple[None, Value]:
    return None, action(value)


def _as_option(
    machine: Machine, choice: Choice, index: int, options: Sequence[tuple[Guards, Value]], site: Site
) -> Guards:
    """The conditions under which one of several options is the one that is called here."""
    guards, value = options[index]
    machine.choices[id(choice)] = choice  # kept, so that no other gets its identity
    node = site.node
    called = getattr(node, "func", node)
    called = called.value if isinstance(called, ast.Attribute) else called
    name = text_of(called) if isinstance(called, ast.Name | ast.Attribute) else "what is called"
    text = f"`{name}` is {described(value)}"
    return as_option(guards, str(id(choice)), index, len(options), text, class_of(value))


def _is_cheap(value: Value) -> bool:
    """Whether nothing of the project is interpreted when a value, or a method of it, is called."""
    return isinstance(value, Const | External) or (isinstance(value, Instance) and not isinstance(value.cls, Class))


def _instance_method(machine: Machine, base: Instance, name: str, arguments: Arguments, site: Site) -> Value:
    stored = base.attributes.get(name)
    if stored is not None and not (isinstance(stored, Symbol) and stored.name == "attribute"):
        return call(machine, names.under_path(machine, stored), arguments, site)
    return _class_method(machine, base, name, arguments, site)


def _class_method(machine: Machine, base: Instance, name: str, arguments: Arguments, site: Site) -> Value:
    """Call a method that the class of an object has, whatever the object itself may hold under that name."""
    if isinstance(base.cls, Class):
        member = find_member(machine, base.cls, name)
        if isinstance(member, Function):
            if is_foreign_trainer(machine, base.cls):
                return opaque(machine, member, arguments, site, base)
            if name == "forward" and machine.frame.receiver is not base and is_module_class(machine, base.cls):
                return modules.call_module(machine, base, arguments, site)  # the same as calling the model
            if name == "set_epoch":
                machine.emit(EpochSet(site, base))
            if name == "step" and _updates_by_itself(member, base.cls, arguments):
                machine.emit(OptimizerStep(site, base))
            return _call_member(machine, base, base.cls, member, arguments, site)
        if member is not None:
            return call(machine, member, arguments, site)
    elif name == "forward" and role_of(machine, base) in ("module", "wrapper"):
        return modules.call_instance(machine, base, arguments, site)
    return methods.call_library_method(machine, base, name, arguments, site)


def _updates_by_itself(step: Function, cls: Class, arguments: Arguments) -> bool:
    """Whether the step of a class is that of an optimizer which works out what to add, and asks no other to step.

    One that is given a closure computes gradients first, or in between.
    """
    is_optimizer = any(name.startswith("torch.optim.") and "lr_scheduler" not in name for name in cls.library_bases)
    has_closure = not all(modules.is_none(each) for each in arguments.all())
    return is_optimizer and not has_closure and not any("step" in each for each in nodes_of(step.node).attributes)


def _call_member(
    machine: Machine, base: Value, cls: Class, member: Function, arguments: Arguments, site: Site
) -> Value:
    if member.kind == "static":
        return invoke(machine, member, arguments, site)
    if member.kind == "class":
        return invoke(machine, member, arguments, site, receiver=cls)
    if member.kind == "property":
        return call(machine, invoke(machine, member, Arguments(), site, receiver=base), arguments, site)
    return invoke(machine, member, arguments, site, receiver=base)


def _super_method(machine: Machine, base: SuperProxy, name: str, arguments: Arguments, site: Site) -> Value:
    receiver = base.receiver
    cls = receiver.cls if isinstance(receiver, Instance) else receiver
    if isinstance(cls, Class):
        member = find_member(machine, cls, name, after=base.owner)
        if isinstance(member, Function):
            return _call_member(machine, receiver, cls, member, arguments, site)
    if name == "__init__":
        if isinstance(receiver, Instance):
            library.initialise_base(machine, receiver, arguments, site)
        return Const(None)
    return methods.call_library_method(machine, receiver, name, arguments, site)


def invoke(
    machine: Machine, function: Function, arguments: Arguments, site: Site, receiver: Value | None = None
) -> Value:
    """Interpret a call of a project function and return what it returns.

    Raises:
        CallError: the arguments do not fit, or there is such a call on every way through the function.
    """
    refused = refusal(machine, function, arguments, site, receiver)
    if refused is not None:
        machine.reached.update(_entered_by(function))  # no other caller is to be imagined
        machine.emit(refused)
        raise CallError(site)
    is_whole = function.kind != "context-manager" and not function.module.is_broken(function.node)
    if not machine.tick() or not machine.may_call(function) or not is_whole:
        return opaque(machine, function, arguments, site, receiver)
    if _is_irrelevant(machine, function, arguments, receiver):
        given = (function, *arguments.all())
        machine.handed_on.update(options_in(arguments.all() if receiver is None else (*arguments.all(), receiver)))
        result = Symbol("call", given, site, detail=NOT_ENTERED, arguments=arguments, grad=machine.grad)
        if isinstance(receiver, Instance):
            machine.left_out(receiver, function, arguments, result)
        return Nothing(function) if _only_acts(function, receiver) else result
    if _CLIPS.search(function.name) and not modules.is_none(arguments.get(1, None)):
        machine.emit(GradientClip(site, arguments.get(0, None), function.name, arguments.get(1, None)))
    scope = bind_parameters(machine, function, arguments, receiver)
    owner = receiver.cls if isinstance(receiver, Instance) and isinstance(receiver.cls, Class) else function.owner
    frame = Frame(
        function.name,
        function.owner.name if function.owner else "",
        framework_of(machine, owner) or machine.frame.framework,
        site,
        machine.frame,
        function.site,
        receiver,
    )
    node = function.node
    with machine.calling(function, scope, frame, site) as activation:
        if isinstance(node, ast.Lambda):
            return machine.evaluate(node.body, scope)
        left = machine.execute_block(node.body, scope)
    if activation.yielded:
        detail = "endless" if is_endless(node) else None
        return Symbol("generator", (choose(activation.yielded),), site, detail=detail)
    if left == "raise" and activation.refused and not activation.returned and machine.block is not None:
        raise CallError(site)
    returned: list[tuple[Guards, Value]] = list(activation.returned)
    if left is None and not returned and _returns_nothing(function, receiver):
        return Nothing(function)
    if left is None or not returned:
        returned.append(((), Const(None)))
    return choose(returned)


def _returns_nothing(function: Function, receiver: Value | None) -> bool:
    """Whether a plain function, which is more than a stub, has no ``return`` with a value.

    A method may have one in another class, of which the object may be where it is not known how it was made.
    """
    node = function.node
    is_this = function.owner is None or (isinstance(receiver, Instance) and receiver.arguments.exact)
    if not isinstance(node, ast.FunctionDef) or not is_this or node.decorator_list:
        return False
    is_stub = all(isinstance(each, ast.Pass | ast.Raise) or _is_constant(each) for each in node.body)
    returns = (each for each in nodes_of(node).of(ast.Return, ast.Yield, ast.YieldFrom) if each.value is not None)
    return not is_stub and not any(returns)


def _only_acts(function: Function, receiver: Value | None) -> bool:
    """Whether a function that is not entered certainly comes back, without a value."""
    node = function.node
    if receiver is not None or not isinstance(node, ast.FunctionDef) or isinstance(node.body[-1], ast.Raise | ast.Expr):
        return False
    return _returns_nothing(function, receiver) and not nodes_of(node).of(ast.Yield, ast.YieldFrom)


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _entered_by(function: Function) -> Iterable[ast.AST]:
    """What is never entered where a call of a function is refused: of a constructor, the class with all its methods."""
    if function.name == "__init__" and function.owner is not None:
        methods = (member for member in function.owner.members.values() if isinstance(member, ast.FunctionDef))
        return (function.owner.node, *methods)
    return (function.node,)


def _is_irrelevant(machine: Machine, function: Function, arguments: Arguments, receiver: Value | None) -> bool:
    """Whether interpreting a call could show no rule anything: neither in what it names nor in what it is given."""
    if machine.relevance is None or machine.relevance.can_matter(function):
        return False
    return not any(roles.can_act(machine, value) for value in (*arguments.all(), *([receiver] if receiver else ())))
