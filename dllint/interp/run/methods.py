"""Methods of library objects and of unresolved ones: optimizers step, losses go backward, models change their mode."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.events import (
    AttributeAssigned,
    Backward,
    EpochSet,
    GradientClip,
    LibraryCall,
    ModeChange,
    ModelChanged,
    OpaqueCall,
    OptimizerStep,
    ParametersAdded,
    ParametersUpdated,
    ScalerUnscale,
    ScalerUpdate,
    SchedulerStep,
    StateRestored,
    StateTaken,
    ZeroGrad,
)
from dllint.forms import attribute_of
from dllint.interp.run import argparse_calls, builtin_calls, graph, helpers, overriding, queues, states
from dllint.interp.run.attributes import set_attribute
from dllint.interp.run.handed_on import options_handed_to
from dllint.interp.run.roles import guess_role, known_or_guessed, matters, role_by_name
from dllint.interp.run.saving import note_saving
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Arguments, BoundMethod, Class, Const, Function, Instance, Items, Partial, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

Method = Callable[["Machine", Value, str, Arguments, Site], "Value | None"]

# Methods whose result is what a function of the library returns.
_AS_FUNCTIONS = {
    "softmax": "torch.softmax",
    "log_softmax": "torch.log_softmax",
    "sigmoid": "torch.sigmoid",
    "sigmoid_": "torch.sigmoid",
    "logsigmoid": "torch.logsigmoid",
    "log": "torch.log",
    "log_": "torch.log",
    "exp": "torch.exp",
    "matmul": "torch.matmul",
    "mm": "torch.mm",
    "bmm": "torch.bmm",
    "relu": "torch.relu",
    "tanh": "torch.tanh",
}
_SCHEDULERS = "torch.optim.lr_scheduler."
_RESHAPES = frozenset(("view", "reshape"))
_UPDATES = frozenset(("add_", "sub_", "mul_", "copy_", "addcdiv_", "addcmul_", "lerp_", "div_"))


def call_library_method(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value:
    """A method that a library class (perhaps an ancestor of a project class) defines."""
    if isinstance(base, Instance) and base.library_name.startswith(("argparse.", "configargparse.")):
        found = argparse_calls.call_method(machine, base, name, arguments, site)
        if found is not None:
            return found
    if isinstance(base, Instance):
        if name in overriding.OF_PARSERS.get(base.library_name, ()):
            made = overriding.parsed(machine, base.arguments.get(0, "dataclass_types"), site)
            return made if isinstance(made, Items) else Items("tuple", (made,), site, exact=False)
        if overriding.sets_attributes(name):
            overriding.overridden(machine, base)
            if name == "parse_args" and isinstance(base.cls, Class):
                return base  # as ``Tap`` has it
    return _method(machine, base, name, arguments, site)


def call_unknown_method(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value:
    """A method of something unresolved: the name of the method is all there is to go by."""
    return _method(machine, base, name, arguments, site)


def _method(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value:
    machine.handed_on.update(options_handed_to(name, (base, *arguments.all())))
    handler = _METHODS.get(name)
    if handler is not None:
        result = handler(machine, base, name, arguments, site)
        if result is not None:
            return result
    function = _AS_FUNCTIONS.get(name)
    if function is not None and not isinstance(base, Instance):
        given = _with_receiver(base, arguments)
        result = Symbol(function, tuple(given.all()), site, arguments=given, grad=machine.grad)
        machine.emit(LibraryCall(site, function, given, result))
        return result
    if isinstance(base, Instance) and base.library_name in machine.facts.random_generators:
        return _draw(machine, base, name, arguments, site)
    if name == "get_lr" and isinstance(base, Instance) and base.library_name.startswith(_SCHEDULERS):
        result = Symbol(f".{name}", (base, *arguments.all()), site, arguments=arguments)
        machine.emit(LibraryCall(site, f"{base.library_name}.{name}", _with_receiver(base, arguments), result))
        return result
    if name in _UPDATES:
        owner = graph.gradient_owner(base)
        if owner is not None:
            machine.emit(AttributeAssigned(site, owner, "grad", Symbol(f".{name}", (base, *arguments.all()), site)))
        elif _updates_parameters(machine, base, name, arguments):
            machine.emit(ParametersUpdated(site, base))
    note_saving(machine, name, arguments, site)
    if name not in machine.facts.harmless_methods:
        _maybe_opaque(machine, base, name, arguments, site)
    result = Symbol(f".{name}", (base, *arguments.all()), site, arguments=arguments, grad=machine.grad)
    if name in _RESHAPES:
        machine.emit(LibraryCall(site, f"torch.Tensor.{name}", _with_receiver(base, arguments), result))
    return result


def _draw(machine: Machine, base: Instance, name: str, arguments: Arguments, site: Site) -> Value:
    """A method of a random generator. ``torch.Generator().manual_seed(0)`` is the generator itself."""
    given = _with_receiver(base, arguments)
    result = base if name == "manual_seed" else Symbol(f".{name}", tuple(given.all()), site, arguments=arguments)
    machine.emit(LibraryCall(site, f"{base.library_name}.{name}", given, result))
    return result


def _with_receiver(base: Value, arguments: Arguments) -> Arguments:
    return Arguments((base, *arguments.positional), arguments.keywords, arguments.exact)


def _maybe_opaque(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> None:
    if name.startswith("register_") and any(isinstance(value, Function) for value in arguments.all()):
        machine.emit(OpaqueCall(site, tuple(arguments.all()), name, base))  # a hook: it may do anything, later
        return
    if isinstance(base, Instance) and base.library_name and machine.facts.is_harmless(base.library_name):
        return
    given = tuple(value for value in arguments.all() if matters(machine, value))
    if isinstance(base, Symbol) and graph.is_tensor_operation(base) and not given:
        return
    if given or matters(machine, base):
        machine.emit(OpaqueCall(site, given, name, base))


def _updates_parameters(machine: Machine, base: Value, name: str, arguments: Arguments) -> bool:
    """``p.data.add_(-lr * p.grad)``: in place, on a parameter, with something that comes from a gradient."""
    return any(graph.mentions_attribute(value, "grad") for value in arguments.all()) and (
        graph.mentions_attribute(base, "data") or machine.grad == "off"
    )


# ------------------------------------------------------------------------------------------------------- training


def _step(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    role = known_or_guessed(machine, base) or _role_as_written(base, site)
    first = arguments.get(0, "optimizer")
    if role == "scheduler":
        machine.emit(SchedulerStep(site, base, arguments))
        return Const(None)
    if first is not None and (role == "scaler" or (not role and known_or_guessed(machine, first) == "optimizer")):
        machine.emit(OptimizerStep(site, first, scaler=base))
        return Const(None)
    if role == "optimizer":
        closure = arguments.get(0, "closure")
        if isinstance(closure, Function | BoundMethod | Partial):
            before, machine.grad = machine.grad, "on"  # optimizers run closures with gradients on
            machine.call(closure, Arguments(), site)
            machine.grad = before
        elif first is not None and not isinstance(base, Instance):
            return None  # step(loss): not an optimizer of torch's kind
        machine.emit(OptimizerStep(site, base))
        return Symbol(".step", (base,), site)
    return None


def _role_as_written(base: Value, site: Site) -> str:
    """The role that an unresolved object has by the variable it is called on: ``for opt in [first, second]``."""
    node = site.node.func if isinstance(site.node, ast.Call) else None
    owner = node.value if isinstance(node, ast.Attribute) else None
    return role_by_name(owner.id) if isinstance(base, Symbol | Choice) and isinstance(owner, ast.Name) else ""


def _zero_grad(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    flag = arguments.get(0, "set_to_none")
    to_none = True if flag is None else bool(flag.value) if isinstance(flag, Const) else None
    machine.emit(ZeroGrad(site, base, to_none))
    return Const(None)


def _zero_in_place(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``p.grad.zero_()`` and ``p.grad.data.zero_()``."""
    owner = graph.gradient_owner(base)
    if owner is None:
        return None
    machine.emit(ZeroGrad(site, owner, False))
    return base


def _backward(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    first = arguments.get(0, "loss") or arguments.keywords.get("tensor")
    role = known_or_guessed(machine, base)
    if name == "manual_backward" or (first is not None and _is_helper(machine, base, role)):
        if _gives_something(site):
            return None
        scales = base if helpers.scales(machine, base) else None
        machine.emit(Backward(site, first, scaler=scales, via=helpers.name_of_helper(machine, base) or name))
        return Const(None)
    scaler: Value | None = None
    loss = base
    if isinstance(base, Symbol) and base.name == "scaled":
        scaler, loss = base.inputs[0], base.inputs[1]
    machine.emit(Backward(site, loss, scaler=scaler))
    return Const(None)


def _gives_something(site: Site) -> bool:
    """Whether a call is made for what it gives: ``flow.backward(z).clamp(0, 1)`` runs a flow the other way round."""
    around = next(ancestors(site), None)
    is_argument = isinstance(around, ast.Call) and around.func is not site.node
    return is_argument or isinstance(around, ast.Attribute | ast.BinOp | ast.Subscript)


def _is_helper(machine: Machine, base: Value, role: str) -> bool:
    """Whether ``base.backward(loss)`` means "go backward from loss": an accelerator, engine or wrapped optimizer."""
    if role in ("optimizer", "module", "helper"):
        return True
    owner = attribute_of(base)
    if isinstance(owner, Symbol) and (owner.name in ("forward", "call") or graph.is_tensor_operation(owner)):
        return False  # a tensor of a model's output, which may be given a gradient
    return isinstance(base, Instance) or (isinstance(base, Symbol) and base.name in ("attribute", "parameter", "item"))


def _scale(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    first = arguments.get(0, "outputs")
    if first is None or known_or_guessed(machine, base) != "scaler":
        return None
    return Symbol("scaled", (base, first), site, grad=machine.grad)


def _scale_loss(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``amp.scale_loss(loss, optimizer)``, whatever ``amp`` is: apex, imported where it is there."""
    return arguments.get(0, "loss")


def _unscale(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    machine.emit(ScalerUnscale(site, base, arguments.get(0, "optimizer")))
    return Const(None)


def _update(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    if known_or_guessed(machine, base) != "scaler":
        return states.merge(machine, base, arguments)
    machine.emit(ScalerUpdate(site, base))
    return Const(None)


def _clip(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    target = arguments.get(0, "parameters")
    if known_or_guessed(machine, base) == "module":
        target = base
    helper = helpers.name_of_helper(machine, base)
    if helper:
        machine.emit(ScalerUnscale(site, base, None))  # they do that first
    machine.emit(GradientClip(site, target, f"{helper or 'method'}.{name}", arguments.get(1, "max_norm")))
    return Symbol(f".{name}", (base, *arguments.all()), site, arguments=arguments)


def _add_param_group(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    machine.emit(ParametersAdded(site, base, arguments.get(0, "param_group")))
    return Const(None)


def _set_epoch(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    machine.emit(EpochSet(site, base))
    return Const(None)


# ------------------------------------------------------------------------------------------------------- modules


def _train(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    flag = arguments.get(0, "mode")
    if name == "eval" and arguments.positional:
        return None
    training: bool | None = name == "train"
    if name == "train" and flag is not None:
        training = bool(flag.value) if isinstance(flag, Const) and isinstance(flag.value, bool) else None
        if not isinstance(flag, Const):
            role = known_or_guessed(machine, base)
            if role not in ("module", "wrapper"):
                return None
    machine.emit(ModeChange(site, base, training))
    return base if isinstance(base, Instance | Choice) else Symbol(f".{name}", (base,), site)


def _same_module(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """Moves and casts of a module return the module itself, and those of a tensor do not.

    Nor do those of one of several things of which nothing says that it is a module.
    """
    options = [option for _, option in base.options] if isinstance(base, Choice) else []
    is_unknown = bool(options) and all(isinstance(each, Symbol) and _is_no_module(each) for each in options)
    role = "" if is_unknown else known_or_guessed(machine, base)
    if isinstance(base, Instance) or (isinstance(base, Choice) and role == "module"):
        machine.emit(ModelChanged(site, base, name, arguments, base))
        return base
    result = Symbol(f".{name}", (base, *arguments.all()), site, arguments=arguments, grad=machine.grad)
    if role in ("module", "wrapper"):
        machine.emit(ModelChanged(site, base, name, arguments, result))
    return result


def _is_no_module(value: Symbol) -> bool:
    return graph.is_tensor_operation(value) or guess_role(value) != "module"


def _parameters(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    return Symbol(name, (base,), site)


def _state_dict(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    state = Symbol(name, (base,), site)
    machine.emit(StateTaken(site, base, state))
    return state


def _load_state_dict(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    machine.emit(StateRestored(site, base, arguments.get(0, "state_dict"), arguments))
    return Symbol(".load_state_dict", (base, *arguments.all()), site, arguments=arguments)


def _requires_grad(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    flag = arguments.get(0, "requires_grad") or Const(True)
    machine.emit(AttributeAssigned(site, base, "requires_grad", flag))
    if isinstance(base, Instance):
        return base
    set_attribute(machine, base, "requires_grad", flag)  # in place: whoever has the tensor sees it
    return Symbol(".requires_grad_", (base, flag), site, arguments=arguments, grad=machine.grad)


def _add_module(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``add_module(name, child)`` and ``append(child)`` on modules and module lists."""
    child = arguments.positional[-1] if arguments.positional else arguments.keywords.get("module")
    if not isinstance(base, Instance) or child is None:
        return queues.append(machine, base, child) if name == "append" else None
    key = arguments.get(0, "name")
    if name != "append" and isinstance(key, Const) and isinstance(key.value, str):
        machine.write(base.attributes, key.value, child)
    held = base.attributes.get("<items>")
    items = held.items if isinstance(held, Items) else ()
    machine.write(base.attributes, "<items>", Items("list", (*items, child), site))
    return base


def _register_tensor(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``register_buffer(name, tensor)`` and ``register_parameter(name, parameter)``: the module has it by this name.

    A buffer that is none is there to be filled later, by another call.
    """
    key, tensor = arguments.get(0, "name"), arguments.get(1, "tensor" if name == "register_buffer" else "param")
    if not isinstance(base, Instance) or tensor is None or not isinstance(key, Const) or not isinstance(key.value, str):
        return None
    if name == "register_parameter" or not isinstance(tensor, Const):
        set_attribute(machine, base, key.value, tensor)
    return Const(None)


def _apply(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``model.apply(init_weights)`` returns the model. What sets modes is called, with any of its modules."""
    given = arguments.get(0, "fn")
    if not isinstance(given, Function | BoundMethod | Partial):
        return None
    if isinstance(given, Function) and any(
        isinstance(node, ast.Attribute) and node.attr in ("train", "eval") for node in ast.walk(given.node)
    ):
        module = Symbol("element", (Symbol("modules", (base,), site),), site)
        machine.call(given, Arguments((module,)), site)
    return base


# Methods that do the same on every module, so that it does not matter which of several it is.
OF_ANY_MODULE = frozenset(
    ("train", "eval", "parameters", "named_parameters", "state_dict", "zero_grad", "load_state_dict", "requires_grad_",
     "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "modules", "named_modules", "children")
)  # fmt: skip

_METHODS: dict[str, Method] = {
    "step": _step,
    "scale_loss": _scale_loss,
    "zero_grad": _zero_grad,
    "zero_": _zero_in_place,
    "backward": _backward,
    "manual_backward": _backward,
    "scale": _scale,
    "unscale_": _unscale,
    "update": _update,
    "clip_grad_norm_": _clip,
    "clip_grad_value_": _clip,
    "clip_gradients": _clip,
    "add_param_group": _add_param_group,
    "set_epoch": _set_epoch,
    "next": builtin_calls.next_of,
    "train": _train,
    "eval": _train,
    **dict.fromkeys(("to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "to_empty"), _same_module),
    **dict.fromkeys(("parameters", "children", "modules"), _parameters),
    **dict.fromkeys(("named_parameters", "named_children", "named_modules"), _parameters),
    "state_dict": _state_dict,
    "load_state_dict": _load_state_dict,
    "requires_grad_": _requires_grad,
    "add_module": _add_module,
    "register_module": _add_module,
    "register_buffer": _register_tensor,
    "register_parameter": _register_tensor,
    "append": _add_module,
    "apply": _apply,
    "add_argument": argparse_calls.add_to_unknown,
    **queues.METHODS,
    **helpers.METHODS,
}
