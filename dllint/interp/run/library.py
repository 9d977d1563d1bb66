"""Calls of library functions and classes: what they make, and the events they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dllint.events import (
    Backward,
    DatasetCreated,
    GradientClip,
    LibraryCall,
    LoaderCreated,
    ModelChanged,
    OpaqueCall,
    OptimizerCreated,
    RandomSeeded,
    SchedulerCreated,
    StateRead,
    StateSaved,
    TransformsComposed,
    ZeroGrad,
)
from dllint.interp.run import builtin_calls, graph, overriding
from dllint.interp.run.copies import deep_copy
from dllint.interp.run.joining import CallError
from dllint.interp.run.modules import record_loss, sequence_items
from dllint.interp.run.refusals import cannot_be_bound, is_path_of_nothing, lacks_process_group
from dllint.interp.run.saving import note_saving
from dllint.sites import Site
from dllint.structure import Block, Loop
from dllint.values import Arguments, Class, Const, Function, Instance, Items, Partial, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def call_external(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """Call a library object by its canonical name.

    Raises:
        CallError: it does not take these arguments, is a class that needs a group of processes, or a function of paths
            that is given `None`.
    """
    if cannot_be_bound(machine, name, arguments, site) or lacks_process_group(machine, name, arguments):
        raise CallError(site)
    if is_path_of_nothing(machine, name, arguments):
        raise CallError(site)
    builtin = builtin_calls.BUILTINS.get(name)
    if builtin is not None:
        found = builtin(machine, arguments, site)
        if found is not None:
            return found
    handler = _BY_NAME.get(name) or _BY_ROLE.get(machine.facts.role(name))
    if handler is not None:
        return handler(machine, name, arguments, site)
    if name in machine.facts.spawners:
        return _spawn(machine, name, arguments, site)
    kind = machine.facts.transform_kind(name)
    if kind or _is_albumentations(name):
        return _transform(machine, name, kind, arguments, site)
    if machine.facts.is_module_class(name):
        return _module(machine, name, arguments, site)
    return _other(machine, name, arguments, site)


def _other(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """A library call without a role: an object if the name is that of a class, else a symbol."""
    last = name.rpartition(".")[2]
    result: Value
    is_dataset = name.startswith("torchvision.datasets.") and last[:1].isupper()
    is_tensor = name == "torch.autograd.Variable" or (name.startswith("torch.") and last.endswith("Tensor"))
    is_class = last[:1].isupper() and not last.isupper() and not is_tensor
    if is_dataset or last in machine.facts.module_classmethods or is_class:
        result = Instance(name, arguments, site)
    else:
        result = Symbol(name, tuple(arguments.all()), site, arguments=arguments, grad=machine.grad)
    machine.emit(LibraryCall(site, name, arguments, result))
    if is_dataset or "IterableDataset" in last:
        machine.emit(DatasetCreated(site, result, arguments))
    if not machine.facts.is_harmless(name):
        note_saving(machine, last, arguments, site)
        machine.emit(OpaqueCall(site, tuple(arguments.all()), name))
    return result


def _module(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    machine.emit(LibraryCall(site, name, arguments, result))
    if name in _CHANGING:
        given = arguments.get(0, None)
        if given is not None:
            machine.emit(ModelChanged(site, given, name, arguments, result))
    return result


_CHANGING = frozenset(("peft.get_peft_model",))


def argument(machine: Machine, name: str, arguments: Arguments, parameter: str) -> Value | None:
    """An argument of a library call by parameter name, given by position or keyword."""
    signature = machine.facts.signatures.get(name, ())
    return arguments.get(signature.index(parameter) if parameter in signature else None, parameter)


def bound(machine: Machine, name: str, arguments: Arguments) -> dict[str, Value]:
    """All arguments of a library call by parameter name."""
    signature = machine.facts.signatures.get(name, ())
    return {**dict(zip(signature, arguments.positional, strict=False)), **arguments.keywords}


def _optimizer(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    parameters = arguments.get(0, machine.facts.signatures[name][0])
    machine.emit(OptimizerCreated(site, result, parameters))
    return result


def _scheduler(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    machine.emit(SchedulerCreated(site, result, argument(machine, name, arguments, "optimizer")))
    return result


def _plain_instance(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    machine.emit(LibraryCall(site, name, arguments, result))
    return result


def _loader(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    options = bound(machine, name, arguments)
    dataset = options.pop("dataset", None)
    machine.emit(LoaderCreated(site, result, dataset, options))
    return result


def initialise_base(machine: Machine, instance: Instance, arguments: Arguments, site: Site) -> None:
    """What the constructor of a library class does to an instance of a project class that derives from it.

    It keeps its arguments under the names of its parameters; that of a loader makes a loader, that of a sequence holds
    the layers that it is given, and that of a composition its transforms.
    """
    if not isinstance(instance.cls, Class):
        return
    for base in instance.cls.library_bases:
        if base in machine.facts.sequential or base == "torch.nn.ModuleList":
            machine.emit(LibraryCall(site, base, arguments, instance))
        steps = arguments.get(0, "transforms") if base.endswith(".Compose") else None
        if steps is not None and machine.facts.transform_kind(base):
            machine.write(instance.attributes, "transforms", steps)
    layers = _layers_given(machine, instance.cls, arguments, site)
    if layers is not None:
        machine.write(instance.attributes, "<items>", layers)
    bases = [base for base in instance.cls.library_bases if base in machine.facts.signatures]
    options = bound(machine, bases[0], arguments) if len(bases) == 1 else dict(arguments.keywords)
    for name, value in options.items():
        if name not in instance.attributes:
            machine.write(instance.attributes, name, value)
    if any(machine.facts.role(base) == "loader" for base in bases):
        dataset = options.pop("dataset", None)
        machine.emit(LoaderCreated(site, instance, dataset, options))


def _layers_given(machine: Machine, cls: Class, arguments: Arguments, site: Site) -> Items | None:
    """What ``super().__init__(nn.Linear(i, o), nn.Sigmoid())`` gives a class that derives from ``nn.Sequential``."""
    base = next((base for base in cls.library_bases if base in machine.facts.sequential), None)
    layers = sequence_items(machine, Instance(base, arguments, site)) if base is not None else None
    return Items("list", layers, site, exact=arguments.exact) if layers else None


def _dataset(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    machine.emit(DatasetCreated(site, result, arguments))
    return result


def _loss(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    return record_loss(machine, name, arguments, site)


def _wrapper(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """A wrapped module; ``compile`` also serves as a decorator and on functions, which stay what they are."""
    inner = arguments.get(0, machine.facts.signatures[name][0])
    if inner is None or isinstance(inner, Function):
        return inner if inner is not None else Symbol("unknown", site=site)
    result = Instance(name, Arguments((inner, *arguments.positional[1:]), arguments.keywords, arguments.exact), site)
    machine.emit(ModelChanged(site, inner, name, arguments, result))
    return result


def _clip(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    named = machine.facts.signatures.get(name, ())[1:2]
    limit = arguments.get(1, named[0] if named else None)
    machine.emit(GradientClip(site, arguments.get(0, "parameters"), name, limit))
    return Symbol(name, tuple(arguments.all()), site, arguments=arguments)


def _seed(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    machine.emit(RandomSeeded(site, name, arguments.get(0, machine.facts.signatures[name][0])))
    return Symbol(name, tuple(arguments.all()), site, arguments=arguments)


def _backward(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    tensors = arguments.get(0, "tensors")
    for loss in tensors.items if isinstance(tensors, Items) else (tensors,):
        machine.emit(Backward(site, loss, via=name))
    return Const(None)


def _save(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    machine.emit(StateSaved(site, arguments.get(0, "obj"), arguments.get(1, "f"), name))
    return Const(None)


def _load(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    path = arguments.get(0, "f")
    result = Symbol(name, tuple(arguments.all()), site, arguments=arguments)
    machine.emit(StateRead(site, path, result))
    return result


def _set_grad_enabled(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """As a statement it switches the mode from here on; as a context manager it is undone at the end of the block."""
    given = arguments.get(0, "mode")
    result = Instance(name, arguments, site)
    machine.emit(LibraryCall(site, name, arguments, result))
    machine.grad = grad_of_flag(given)
    return result


def grad_of_flag(flag: Value | None) -> str:
    if isinstance(flag, Const):
        return "on" if flag.value else "off"
    return "unknown"


def _random_split(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    dataset = arguments.get(0, "dataset")
    lengths = arguments.get(1, "lengths")
    count = len(lengths.items) if isinstance(lengths, Items) and lengths.exact else 2
    parts = [
        Instance("torch.utils.data.Subset", Arguments((dataset,) if dataset is not None else ()), site)
        for _ in range(count)
    ]
    for index, part in enumerate(parts):
        part.attributes["<split>"] = Const(index)
        if isinstance(lengths, Items) and lengths.exact:
            part.attributes["<length>"] = lengths.items[index]
    return Items("list", parts, site, exact=isinstance(lengths, Items) and lengths.exact)


def _transform(machine: Machine, name: str, kind: str, arguments: Arguments, site: Site) -> Value:
    result = Instance(name, arguments, site)
    machine.emit(LibraryCall(site, name, arguments, result))
    if kind == "Compose" or name.endswith(".Compose"):
        given = arguments.get(0, "transforms")
        if isinstance(given, Items) and name.startswith("torchvision."):
            result.attributes["transforms"] = given  # the very list, to which more may be added
        machine.emit(TransformsComposed(site, result, given.items if isinstance(given, Items) else None))
    return result


def _is_albumentations(name: str) -> bool:
    package, _, last = name.rpartition(".")
    return package.startswith("albumentations") and last[:1].isupper()


def _partial(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    if not arguments.positional:
        return Symbol(name, tuple(arguments.all()), site, arguments=arguments)
    rest = Arguments(arguments.positional[1:], arguments.keywords, arguments.exact)
    return Partial(arguments.positional[0], rest, site)


def _spawn(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """``mp.spawn(worker, args=(...))`` and the like call the function they are given."""
    fact = machine.facts.spawners[name]
    target = (
        arguments.get(fact["callable"], "fn") or arguments.keywords.get("target") or arguments.keywords.get("function")
    )
    passed = arguments.get(fact["arguments"], "args")
    if target is None:
        return Symbol(name, tuple(arguments.all()), site, arguments=arguments)
    added = tuple(Symbol("counter", site=site) for _ in range(fact["added"]))
    given = passed.items if isinstance(passed, Items) else ()
    exact = passed.exact if isinstance(passed, Items) else passed is None and not fact.get("options")
    if fact.get("loop"):
        loop = Loop("for", site, None, None, Block(), machine.frame)
        with machine.looping(loop):
            machine.call(target, Arguments(added + given, exact=exact), site)
    else:
        machine.call(target, Arguments(added + given, exact=exact), site)
    return Symbol(name, tuple(arguments.all()), site, arguments=arguments)


def _ordered_dict(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    found = builtin_calls.make_dict(machine, arguments, site)
    return found if found is not None else Symbol(name, tuple(arguments.all()), site, arguments=arguments)


def _deepcopy(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    given = arguments.get(0, "x")
    if isinstance(given, Instance):
        return deep_copy(machine, given, site)
    if isinstance(given, Const | Setting):
        return given
    return Symbol(name, tuple(arguments.all()), site, arguments=arguments)


def _scale_loss(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """``with amp.scale_loss(loss, optimizer) as scaled_loss``: apex unscales by itself when it steps."""
    loss = arguments.get(0, "loss")
    return loss if loss is not None else Symbol("unknown", site=site)


def _replace_parameters(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """``fully_shard(module)`` and ``weight_norm(module)`` return the module, which has other parameters now."""
    given = arguments.get(0, "module")
    if given is None:
        return _other(machine, name, arguments, site)
    machine.emit(LibraryCall(site, name, arguments, given))
    machine.emit(ModelChanged(site, given, name, arguments, given))
    return given


def _foreach_zero(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    given = arguments.get(0, "self")
    for source in graph.sources(given) if given is not None else ():
        owner = graph.gradient_owner(source)
        if owner is not None:
            machine.emit(ZeroGrad(site, owner, False))
            break
    return Const(None)


def _amp_initialize(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """``amp.initialize(model, optimizer)`` returns what it is given."""
    given = list(arguments.positional[:2])
    given.extend(arguments.keywords[key] for key in ("models", "optimizers") if key in arguments.keywords)
    return Items("tuple", given, site) if len(given) != 1 else given[0]


def _parse_options(machine: Machine, name: str, arguments: Arguments, site: Site) -> Value:
    """``tyro.cli(Config)`` and the like make an object of a class, whose fields are options of the command line."""
    options = next((value for value in arguments.all() if isinstance(value, Class | Function)), None)
    return overriding.parsed(machine, options or arguments.get(0, "config_class"), site)


Handler = Callable[["Machine", str, Arguments, Site], Value]

_BY_NAME: dict[str, Handler] = {
    "torch.autograd.backward": _backward,
    "torch.save": _save,
    "torch.load": _load,
    "torch.set_grad_enabled": _set_grad_enabled,
    **dict.fromkeys(
        (
            "tyro.cli",
            "simple_parsing.parse",
            "pyrallis.parse",
            "draccus.parse",
            "jsonargparse.CLI",
            "jsonargparse.auto_cli",
            "omegaconf.OmegaConf.structured",
        ),
        _parse_options,
    ),
    "torch.utils.data.random_split": _random_split,
    "functools.partial": _partial,
    "collections.OrderedDict": _ordered_dict,
    "copy.deepcopy": _deepcopy,
    "apex.amp.scale_loss": _scale_loss,
    "torch._foreach_zero_": _foreach_zero,
    "torch.distributed.fsdp.fully_shard": _replace_parameters,
    "torch.nn.utils.weight_norm": _replace_parameters,
    "torch.nn.utils.parametrizations.weight_norm": _replace_parameters,
    "apex.amp.initialize": _amp_initialize,
}

_BY_ROLE: dict[str, Handler] = {
    "optimizer": _optimizer,
    "scheduler": _scheduler,
    "scaler": _plain_instance,
    "sampler": _plain_instance,
    "generator": _plain_instance,
    "helper": _plain_instance,
    "loss-class": _plain_instance,
    "loader": _loader,
    "dataset": _dataset,
    "loss": _loss,
    "wrapper": _wrapper,
    "clip": _clip,
    "seed": _seed,
}
