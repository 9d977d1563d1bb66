"""Keeps compilers out of the way: they read the functions that are observed, or replace what would be observed."""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType
from typing import Any

import torch
from torch.jit import _recursive
from torch.optim import Optimizer

from dllint.confirm.inside.importing import after_import
from dllint.confirm.inside.patching import ORIGINALS, replace


def spare_compilers() -> None:
    """Have TorchScript read torch's own functions, and what ``torch.compile`` is given run as it stands."""

    def scripting(script: Any, item: Any, *rest: Any, **named: Any) -> Any:
        return script(ORIGINALS.get(item, item) if isinstance(item, FunctionType) else item, *rest, **named)

    def compiling(original: Any, *arguments: Any, **named: Any) -> Any:
        _disable()
        return original(*arguments, **named)

    replace(_recursive, "try_compile_fn", scripting)
    replace(torch.jit, "script", scripting)
    replace(torch, "compile", compiling)
    after_import("torch._dynamo", _spare_dynamo)


def _disable() -> None:
    if hasattr(torch.compiler, "set_stance"):  # torch 2.6 and later; keeps the wrapper around the model
        torch.compiler.set_stance("force_eager")
    else:
        import_module("torch._dynamo").config.disable = True


def _spare_dynamo() -> None:
    """Have what is given to ``torch._dynamo.optimize``, as ``torch.compile`` does, run as it stands."""

    def optimizing(original: Any, *arguments: Any, **named: Any) -> Any:
        _disable()
        optimized = original(*arguments, **named)
        _hook_steps_again()
        return optimized

    replace(sys.modules["torch._dynamo"], "optimize", optimizing)


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
