"""Putting an observer around a function of torch, and keeping compilers out of the way, which read the functions that
are observed, or replace what would be observed."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.jit import _recursive
from torch.optim import Optimizer

from dllint.confirm.inside.attach import after_import
from dllint.confirm.inside.stacks import stack

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

Observer = Callable[..., Any]

_HANDED_ON = "__torch_function__"  # a call that was told of, and which torch has handed to a mode or a kind of tensor,
# such as a default device, that makes it now: https://docs.pytorch.org/docs/stable/notes/extending.html

ORIGINALS: dict[Any, Any] = {}
"""The functions of torch, by those that stand in their place."""


def replace(owner: Any, name: str, act: Callable[..., Any]) -> None:
    """Put a function in the place of another, which it is given before the arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def acting(*arguments: Any, **named: Any) -> Any:
        return act(original, *arguments, **named)

    ORIGINALS[acting] = original
    setattr(owner, name, acting)


def observe(
    run: Run,
    owner: Any,
    name: str,
    *,
    before: Observer | None = None,
    after: Observer | None = None,
    failed: Observer | None = None,
    told: Literal["always", "awake", "sampled"] = "always",
) -> None:
    """Have a function observed. It takes and returns what it did; observers that fail are noted and forgotten.

    Args:
        run: the run that guards the observers.
        owner: the module or class that has the function. Nothing happens where it has none of this name.
        name: the name of the function.
        before: is given the arguments before the call.
        after: is given the result and the arguments after the call, if that succeeds.
        failed: is given the exception and the arguments, if the call raises one.
        told: which calls are observed: all of them, even if that takes too long; those that are made while nothing
            rests, which belong to a step; or some of these, by the places that they come from.
    """
    original = getattr(owner, name, None)
    if original is None:
        return

    rests, is_sampled = told != "always", told == "sampled"

    @functools.wraps(original)
    def observed(*arguments: Any, **named: Any) -> Any:
        if (rests and run.rests.are_on) or not run.is_listening:
            return original(*arguments, **named)
        caller = sys._getframe(1)
        if caller.f_code.co_name == _HANDED_ON or (is_sampled and not run.is_due(caller)):
            return original(*arguments, **named)
        if before is not None:
            run.guard(before, *arguments, **named)
        try:
            result = original(*arguments, **named)
        except Exception as error:
            if failed is not None and run.is_listening:
                run.guard(failed, error, *arguments, **named)
            raise
        if after is not None and run.is_listening:
            run.guard(after, result, *arguments, **named)
        return result

    ORIGINALS[observed] = original
    setattr(owner, name, observed)


def when_imported(run: Run, name: str, act: Callable[[Run, Any], None]) -> None:
    """Do something with a module as soon as it has been imported."""
    after_import(name, lambda: run.guard(act, run, sys.modules[name]))


def beginning(run: Run, hook: str, *what: Any) -> Observer:
    """Tells of a call of a method that is about to be made: of its object, and where."""
    return lambda owner, *_, **__: run.tell(hook, *what, owner, stack())


def ended(run: Run, hook: str, *what: Any) -> Observer:
    """Tells of one that has been made."""
    return lambda _, owner, *__, **___: run.tell(hook, *what, owner, stack())


def spare_compilers() -> None:
    """Have TorchScript read torch's own functions, and what ``torch.compile`` is given run as it stands."""

    def scripting(script: Any, item: Any, *rest: Any, **named: Any) -> Any:
        return script(ORIGINALS.get(item, item) if isinstance(item, FunctionType) else item, *rest, **named)

    replace(_recursive, "try_compile_fn", scripting)
    replace(torch.jit, "script", scripting)
    replace(torch, "compile", _compiling)
    # to which `torch.compile` hands on what it is given, and which may be called by itself
    after_import("torch._dynamo", lambda: replace(sys.modules["torch._dynamo"], "optimize", _compiling))


def _compiling(original: Any, *arguments: Any, **named: Any) -> Any:
    if hasattr(torch.compiler, "set_stance"):  # torch 2.6 and later; keeps the wrapper around the model
        torch.compiler.set_stance("force_eager")
    else:
        import_module("torch._dynamo").config.disable = True
    compiled = original(*arguments, **named)
    _hook_steps_again()
    return compiled


def _hook_steps_again() -> None:
    """Have steps of optimizers call their hooks, of which old versions of torch rid them where anything is compiled."""
    if hasattr(torch.compiler, "set_stance"):
        return
    calling = Optimizer.profile_hook_step(Optimizer.step).__code__
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type) and issubclass(kind, Optimizer)]
    for kind in kinds:
        step = vars(kind).get("step")
        if getattr(step, "hooked", False) and getattr(step, "__code__", None) is not calling:
            hooked: Any = Optimizer.profile_hook_step(step)  # type: ignore[arg-type]
            hooked.hooked = True
            kind.step = hooked  # type: ignore[method-assign]
