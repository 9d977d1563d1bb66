"""Calls of objects: modules (``forward`` is interpreted only when somebody asks), losses, and unknown callables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives, choose
from dllint.events import LibraryCall, LossCall, ModelForward, OpaqueCall
from dllint.forms import element_of
from dllint.interp.run import overriding
from dllint.interp.run.classes import find_member, is_module_class, role_of
from dllint.interp.run.joining import CallError
from dllint.interp.run.opaque import opaque
from dllint.interp.run.refusals import refusal
from dllint.interp.run.roles import name_of
from dllint.interp.run.saving import note_saving
from dllint.sites import Guards, Site
from dllint.values import (
    Absent,
    Arguments,
    Class,
    Const,
    External,
    Function,
    Instance,
    Items,
    OpenAttributes,
    Symbol,
    Table,
    Value,
)

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def call_instance(machine: Machine, callee: Instance, arguments: Arguments, site: Site) -> Value:
    """Call an object: ``criterion(x, y)``, ``model(x)``, ``transform(image)``.

    Raises:
        CallError: it has no ``__call__``, as optimizers have none.
    """
    if machine.facts.role(callee.library_name) == "optimizer" and machine.block is not None:
        raise CallError(site)
    if isinstance(callee.cls, Class):
        member = find_member(machine, callee.cls, "__call__")
        if isinstance(member, Function):
            return machine.invoke(member, arguments, site, receiver=callee)
        role = role_of(machine, callee)
        if role == "loss-class" and not isinstance(find_member(machine, callee.cls, "forward"), Function):
            return _library_loss(machine, callee, arguments, site)  # with a forward of its own, it may expect others
        if is_module_class(machine, callee.cls):
            return call_module(machine, callee, arguments, site)
        return opaque(machine, callee, arguments, site, receiver=callee)
    if machine.facts.role(callee.cls) == "loss-class":
        return _library_loss(machine, callee, arguments, site)
    if role_of(machine, callee) in ("module", "wrapper"):
        return call_module(machine, callee, arguments, site)
    name = f"{callee.cls}()"
    result = Symbol(name, (callee, *arguments.all()), site, arguments=arguments, grad=machine.grad)
    if role_of(machine, callee) == "":
        given = Arguments((callee, *arguments.positional), arguments.keywords, arguments.exact)
        machine.emit(LibraryCall(site, name, given, result))
    return result


_WRITTEN_OUT = frozenset(("log", "sigmoid"))


def call_module(machine: Machine, model: Value, arguments: Arguments, site: Site) -> Symbol:
    """Call a module, or what is one of several modules; its ``forward`` is interpreted on demand.

    Raises:
        CallError: the arguments do not fit ``forward``.
    """
    if isinstance(model, Instance) and isinstance(model.cls, Class) and machine.block is not None:
        forward = find_member(machine, model.cls, "forward")
        refused = refusal(machine, forward, arguments, site, model) if isinstance(forward, Function) else None
        if refused is not None:
            machine.emit(refused)
            raise CallError(site)
    result = _output(machine, model, arguments, site, machine.grad)
    machine.emit(ModelForward(site, model, arguments, result))
    if isinstance(model, Instance) and isinstance(model.cls, Class) and machine.block is not None:
        _run_losses(machine, model, model.cls, result)
    return result


def _output(machine: Machine, model: Value, arguments: Arguments, site: Site, grad: str) -> Symbol:
    """What a module returns: of a layer of torch, the result of that layer; of others, of their ``forward``."""
    library_name = model.library_name if isinstance(model, Instance) else ""
    is_layer = library_name.startswith("torch.nn.") and role_of(machine, model) == "module"
    given = (model, *arguments.all())
    if is_layer:
        return Symbol(f"{library_name}()", given, site, arguments=arguments, grad=grad)
    return Symbol("forward", given, site, arguments=arguments, grad=grad)


_STOPS = frozenset(("breakpoint", "set_trace", "exit", "_exit"))


def _run_losses(machine: Machine, model: Instance, cls: Class, result: Symbol) -> None:
    """A module that computes losses is interpreted where it is called: the losses are seen with their inputs.

    So is one in which the run may stop.
    """
    forward = find_member(machine, cls, "forward")
    if not isinstance(forward, Function) or not machine.may_call(forward):
        return
    if not computes_loss(machine, cls) and _STOPS.isdisjoint(forward.module.words_in(forward.node)):
        return
    assert result.site is not None and result.arguments is not None
    machine.forwards[result] = result
    machine.forwards[result] = machine.invoke(forward, result.arguments, result.site, receiver=model)


def computes_loss(machine: Machine, cls: Class) -> bool:
    """Whether the source of a class, or of one it derives from, names a loss function, or has one that is written out:
    the logarithm of a sigmoid."""
    for ancestor in cls.lineage:
        known = machine.loss_classes.get(ancestor.node)
        if known is None:
            words = ancestor.module.words_in(ancestor.node)
            known = words >= _WRITTEN_OUT or not machine.facts.loss_words.isdisjoint(words)
            machine.loss_classes[ancestor.node] = known
        if known:
            return True
    return False


def call_unknown(machine: Machine, callee: Value, arguments: Arguments, site: Site) -> Value:
    """Call something unresolved. It may be a model, and it may do anything to what it is given."""
    package = _looked_up_in(callee)
    if machine.facts.is_module_factory(f"{package}.get_model"):
        return _made_by_name(machine, callee, package, arguments, site)
    result = Symbol("call", (callee, *arguments.all()), site, arguments=arguments, grad=machine.grad)
    machine.emit(ModelForward(site, callee, arguments, result))
    if overriding.sets_options(name_of(callee)):
        for given in arguments.all():
            overriding.overridden(machine, given)
    note_saving(machine, name_of(callee), arguments, site)
    owner = callee.inputs[:1] if isinstance(callee, Symbol) and callee.name == "getattr" else ()  # of some method
    machine.emit(OpaqueCall(site, (*owner, *arguments.all())))
    return result


def _made_by_name(machine: Machine, callee: Value, package: str, arguments: Arguments, site: Site) -> Value:
    """``models.__dict__["resnet18"]()`` is ``models.resnet18()``, and of another name ``models.get_model(name)``."""
    name = callee.inputs[1] if isinstance(callee, Symbol) and len(callee.inputs) > 1 else Symbol("unknown", site=site)
    if isinstance(name, Const) and isinstance(name.value, str) and name.value.isidentifier():
        return machine.call(External(f"{package}.{name.value}"), arguments, site)
    given = Arguments((name, *arguments.positional), arguments.keywords, arguments.exact, arguments.mapping)
    return machine.call(External(f"{package}.get_model"), given, site)


def _looked_up_in(callee: Value) -> str:
    """The library that a function is looked up in by its name: ``models.__dict__[arch]``, ``getattr(models, arch)``."""
    if not isinstance(callee, Symbol) or not callee.inputs or not isinstance(callee.inputs[0], External):
        return ""
    name = callee.inputs[0].name
    if callee.name == "item":
        return name.removesuffix(".__dict__") if name.endswith(".__dict__") else ""
    return name if callee.name == "getattr" else ""


# ------------------------------------------------------------------------------------------------------- losses


def _library_loss(machine: Machine, criterion: Instance, arguments: Arguments, site: Site) -> Value:
    """A call of a loss object: its options are those of the constructor, or what has been set on it since."""
    facts = machine.facts
    cls = criterion.library_name or _loss_base(machine, criterion)
    function = facts.loss_functions[cls]
    constructor = facts.signatures[cls]
    options = {**_bind(constructor, criterion.arguments), **_options_set(criterion, constructor)}
    return record_loss(machine, function, arguments, site, options, criterion)


def _options_set(criterion: Instance, names: Iterable[str]) -> dict[str, Value]:
    """``criterion.reduction = "sum"``; what was read there before, and is put back, is that of the constructor."""
    kept = criterion.attributes
    found = {name: kept[name] for name in names if name in kept}
    return {name: each for name, each in found.items() if not (isinstance(kept, OpenAttributes) and kept.is_read(each))}


def _loss_base(machine: Machine, criterion: Instance) -> str:
    assert isinstance(criterion.cls, Class)
    return next(name for name in criterion.cls.library_bases if name in machine.facts.loss_functions)


def record_loss(
    machine: Machine,
    function: str,
    arguments: Arguments,
    site: Site,
    options: dict[str, Value] | None = None,
    criterion: Value | None = None,
) -> Symbol:
    """Emit the event of a loss and return its value."""
    signature = machine.facts.signatures[function]
    bound = {**(options or {}), **_bind(signature, arguments)}
    first, second = signature[0], signature[1]
    if criterion is not None:  # some loss objects are called with keywords of their own forward
        first, second = ("input", "target") if "input" in bound or "target" in bound else (first, second)
    given = bound.pop(first, None)
    target = bound.pop("target" if "target" in signature else second, None)
    result = Symbol(function, tuple(arguments.all()), site, arguments=arguments, grad=machine.grad)
    machine.emit(LossCall(site, function, given, target, bound, criterion, result))
    return result


def _bind(signature: tuple[str, ...], arguments: Arguments) -> dict[str, Value]:
    """Arguments by parameter name; nothing positional when the argument list is not known exactly."""
    bound = dict(zip(signature, arguments.positional, strict=False))
    return {**bound, **arguments.keywords}


# ------------------------------------------------------------------------------------------- forwards on demand


def force(machine: Machine, value: Value) -> Value:
    """What the call of a module returns: its ``forward`` interpreted on the training path; else the value itself."""
    if not isinstance(value, Symbol) or not value.inputs:
        return value
    if value.name != "forward" and value.name != "torch.nn.Sequential()":
        return value
    known = machine.forwards.get(value)
    if known is None:
        machine.forwards[value] = value  # what a recursive model sees
        known = machine.forwards[value] = _force(machine, value, value.inputs[0])
    return known


def _force(machine: Machine, result: Symbol, model: Value) -> Value:
    arguments = result.arguments or Arguments(result.inputs[1:])
    site = result.site
    assert site is not None
    if isinstance(model, Choice):
        inner = choose(list(_behind_wrappers(machine, model)))
        options = [
            (guards, force(machine, _output(machine, option, arguments, site, result.grad)))
            for guards, option in alternatives(inner)
        ]
        return choose(options)
    if not isinstance(model, Instance):
        return result
    if isinstance(model.cls, Class):
        return _force_project(machine, result, model, model.cls, arguments, site)
    if model.cls in machine.facts.sequential:
        return _run_sequence(machine, model, arguments, result)
    if machine.facts.role(model.cls) == "wrapper" and model.arguments.positional:
        return force(machine, _output(machine, model.arguments.positional[0], arguments, site, result.grad))
    return _replaced_head(machine, model, result)


def _behind_wrappers(machine: Machine, model: Value, depth: int = 0) -> Iterator[tuple[Guards, Value]]:
    """The modules that a value is, without what wraps them: wrapped on some paths or not, a module is the same one."""
    for guards, option in alternatives(model):
        if (
            isinstance(option, Instance)
            and machine.facts.role(option.library_name) == "wrapper"
            and option.arguments.positional
            and depth < _MAX_WRAPPERS
        ):
            wrapped = _behind_wrappers(machine, option.arguments.positional[0], depth + 1)
            yield from ((guards + more, inner) for more, inner in wrapped)
        else:
            yield guards, option


def _replaced_head(machine: Machine, model: Instance, result: Symbol) -> Value:
    """The output of a library's classifier whose last layer the program has replaced is that layer's output."""
    if not machine.facts.is_module_factory(model.library_name) or "inception" in model.library_name:
        return result
    head = next((model.attributes[name] for name in HEADS if isinstance(model.attributes.get(name), Instance)), None)
    if head is None:
        return result
    features = Symbol("unknown", (model, *result.inputs[1:]), result.site, grad=result.grad)
    return apply_last(machine, (head,), features, result)


_MAX_WRAPPERS = 4
HEADS = ("fc", "classifier", "head", "heads", "_fc", "last_linear")


def _force_project(
    machine: Machine, result: Symbol, model: Instance, cls: Class, arguments: Arguments, site: Site
) -> Value:
    forward = find_member(machine, cls, "forward")
    if isinstance(forward, Function):
        if not machine.may_call(forward):
            return result
        with machine.aside():
            machine.grad = result.grad
            return machine.invoke(forward, arguments, site, receiver=model)
    if sequence_items(machine, model) is not None:
        return _run_sequence(machine, model, arguments, result)
    return result


def _run_sequence(machine: Machine, model: Instance, arguments: Arguments, result: Symbol) -> Value:
    """The output of ``nn.Sequential``: only its last item matters for what is returned."""
    items = sequence_items(machine, model)
    if not items:
        return result
    value: Value = Symbol("unknown", (model, *arguments.all()), result.site, grad=result.grad)
    return apply_last(machine, items, value, result)


def apply_last(machine: Machine, items: tuple[Value, ...], given: Value, result: Symbol) -> Value:
    """Apply the last items of a sequence: more than one where the last ones may be absent or change only the shape."""
    last = items[-1]
    options: list[tuple[tuple[object, ...], Value]] = []
    for guards, option in alternatives(last):
        if isinstance(option, Absent):
            value = apply_last(machine, items[:-1], given, result) if len(items) > 1 else given
        else:
            before = given
            if (
                isinstance(option, Instance)
                and f"{option.library_name}()" in machine.facts.shape_only
                and len(items) > 1
            ):
                before = apply_last(machine, items[:-1], given, result)
            with machine.aside():
                machine.grad = result.grad
                assert result.site is not None
                value = force(machine, machine.call(option, Arguments((before,)), option.site or result.site))
        options.append((guards, value))
    return choose(options)  # type: ignore[arg-type]


def sequence_items(machine: Machine, model: Instance) -> tuple[Value, ...] | None:
    """The items of an ``nn.Sequential`` (or a class derived from it), when at least the last one is known."""
    appended = model.attributes.get("<items>")
    extra = appended.items if isinstance(appended, Items) else ()
    arguments = model.arguments
    if isinstance(model.cls, Class):
        return extra or None
    if extra:
        return (*arguments.positional, *extra)
    if len(arguments.positional) == 1:
        first = arguments.positional[0]
        if isinstance(first, Table):
            return tuple(first.entries().values()) or None
        if element_of(first) is not None:
            return None
        if isinstance(first, Symbol) and first.inputs and isinstance(first.inputs[0], Items):  # OrderedDict([...])
            pairs = [pair for pair in first.inputs[0].items if isinstance(pair, Items) and len(pair.items) == 2]
            return tuple(pair.items[1] for pair in pairs) or None
    return arguments.positional or None


def is_none(value: Value | None) -> bool:
    """Whether a value is the constant ``None``."""
    return isinstance(value, Const) and value.value is None
