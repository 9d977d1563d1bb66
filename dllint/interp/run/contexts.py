"""``with`` blocks that matter: gradient modes, autocast, accumulation, and managers that the project defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.interp.run.classes import find_member
from dllint.interp.run.joining import CallError
from dllint.interp.run.library import grad_of_flag
from dllint.interp.run.refusals import cannot_be_entered
from dllint.sites import Site
from dllint.values import Arguments, Class, Const, Function, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_METHODS = frozenset(("no_sync", "accumulate", "autocast"))


def enter(machine: Machine, manager: Value, site: Site) -> None:
    """Apply the effect of entering a context manager to the machine's modes.

    Raises:
        CallError: it was given what it does not take in a `with` statement.
    """
    if cannot_be_entered(machine, manager, site):
        raise CallError(site)
    if isinstance(manager, Choice):
        before = machine.grad
        grads = set()
        for _, option in manager.options:
            machine.grad = before
            enter(machine, option, site)
            grads.add(machine.grad)
        machine.grad = grads.pop() if len(grads) == 1 else "unknown"
        return
    name = _name_of(manager)
    mode = machine.facts.grad_modes.get(name)
    if mode == "switch":
        machine.grad = grad_of_flag(manager.arguments.get(0, "mode") if isinstance(manager, Instance) else None)
    elif mode is not None:
        machine.grad = "on" if _flag(manager) is False else mode
    context = machine.facts.contexts.get(name) or (name.lstrip(".") if name.lstrip(".") in _METHODS else "")
    if context:  # one that is switched off ends what it is in
        inside = frozenset((context,))
        machine.contexts = machine.contexts - inside if _is_disabled(manager) else machine.contexts | inside


def call_enter(machine: Machine, manager: Value, site: Site) -> Value | None:
    """Enter a context manager whose class the project defines. Returns what it gives, or None if it is no such one."""
    if not isinstance(manager, Instance) or not isinstance(manager.cls, Class):
        return None
    if not isinstance(find_member(machine, manager.cls, "__enter__"), Function):
        return None
    return machine.call_method(manager, "__enter__", Arguments(), site)


def call_exit(machine: Machine, manager: Value, site: Site) -> None:
    """Leave a context manager that was entered so."""
    machine.call_method(manager, "__exit__", Arguments((Const(None), Const(None), Const(None))), site)


def may_go_on(manager: Value) -> bool:
    """Whether the code after a block may go on where something was raised in it, as far as is known."""
    if isinstance(manager, Choice):
        return any(may_go_on(option) for _, option in manager.options)
    name = _name_of(manager)
    return not name or name in _UNKNOWN or name.rpartition(".")[2].rstrip("()") in _SWALLOWING


_UNKNOWN = frozenset(("call", "generator", "unknown"))
_SWALLOWING = frozenset(("suppress", "raises", "assertRaises"))


def _name_of(manager: Value) -> str:
    if isinstance(manager, Instance):
        return manager.library_name
    return manager.name if isinstance(manager, Symbol) else ""


def _flag(manager: Value) -> bool | None:
    """The ``mode`` of ``torch.inference_mode(mode)``, if it is constant."""
    arguments = getattr(manager, "arguments", None)
    given = arguments.get(0, "mode") if arguments is not None else None
    return bool(given.value) if isinstance(given, Const) else None


def _is_disabled(manager: Value) -> bool:
    arguments = getattr(manager, "arguments", None)
    if arguments is None:
        return False
    given = (arguments.get(None, "enabled"), arguments.get(0, ""))  # `torch.cuda.amp.autocast(False)`
    return any(isinstance(each, Const) and each.value is False for each in given)
