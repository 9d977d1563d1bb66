"""Accelerate and Fabric: what their objects do in a loop that the user writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dllint.choices import choose
from dllint.events import LibraryCall, ScalerUnscale
from dllint.interp.run import graph
from dllint.interp.run.roles import known_or_guessed
from dllint.sites import Site
from dllint.values import Arguments, Const, Instance, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_WRAPPERS = {"accelerate": "accelerate.PreparedModel", "fabric": "lightning.fabric.PreparedModel"}
_SCALED = {  # the argument, and the values with which gradients are scaled
    "accelerate": ("mixed_precision", ("fp16",)),
    "fabric": ("precision", ("16-mixed", "16", 16)),
}


def name_of_helper(machine: Machine, base: Value) -> str:
    """``accelerate`` or ``fabric``, if a value is the object of it; else an empty string."""
    return machine.facts.frameworks.get(base.library_name, "") if isinstance(base, Instance) else ""


def scales(machine: Machine, base: Value) -> bool:
    """Whether what goes backward through a helper is certainly scaled up, as is done for half precision."""
    argument, values = _SCALED.get(name_of_helper(machine, base), ("", ()))
    given = base.arguments.keywords.get(argument) if isinstance(base, Instance) else None
    return isinstance(given, Const) and given.value in values


def _prepare(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``accelerator.prepare(...)`` and ``fabric.setup(...)`` wrap models and return the rest as they are."""
    helper = name_of_helper(machine, base)
    if not helper or not arguments.positional:
        return None
    prepared: list[Value] = []
    for given in arguments.positional:
        if known_or_guessed(machine, given) in ("module", "wrapper"):
            prepared.append(Instance(_WRAPPERS.get(helper, _WRAPPERS["fabric"]), Arguments((given,)), site))
        else:
            prepared.append(given)
    result = prepared[0] if len(prepared) == 1 else Items("tuple", prepared, site, exact=arguments.exact)
    machine.emit(LibraryCall(site, f"{helper}.prepare", arguments, result))
    return result


def _unwrap(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    given = arguments.get(0, "model")
    if not name_of_helper(machine, base) or given is None:
        return None
    return _plain(machine, given)


def _plain(machine: Machine, prepared: Value) -> Value:
    """What was prepared, without its wrapper; one of several things may have been prepared, and again after loading."""
    return choose(graph.objects_under(machine, prepared))


def _get_state_dict(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``accelerator.get_state_dict(model)`` is that of the unwrapped model."""
    given = arguments.get(0, "model")
    if not name_of_helper(machine, base) or given is None:
        return None
    return Symbol("state_dict", (_plain(machine, given),), site)


def _unscale_gradients(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    if not name_of_helper(machine, base):
        return None
    machine.emit(ScalerUnscale(site, base, arguments.get(0, "optimizer")))
    return Const(None)


METHODS: dict[str, Callable[[Machine, Value, str, Arguments, Site], Value | None]] = {
    "prepare": _prepare,
    "prepare_model": _prepare,
    "prepare_optimizer": _prepare,
    "prepare_scheduler": _prepare,
    "prepare_data_loader": _prepare,
    "setup": _prepare,
    "setup_module": _prepare,
    "unwrap_model": _unwrap,
    "get_state_dict": _get_state_dict,
    "unscale_gradients": _unscale_gradients,
}
