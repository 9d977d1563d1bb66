"""Observes calls of modules, and what drops inside of them."""

from __future__ import annotations

import functools
import sys
import threading
from multiprocessing import parent_process
from typing import Any
from weakref import WeakSet

import torch
import torch.nn.functional as functional
from torch import nn
from torch.jit import _builtins

from dllint.confirm.inside.patching import observe, replace
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import calling_module, here, stack, stack_of
from dllint.events import ModeChange, ModelForward
from dllint.values import Arguments

_ATTENTION = "scaled_dot_product_attention"
_DROPPING = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


class _Calls(threading.local):
    """The model that is called by no other, while it is being called in this thread."""

    outermost: nn.Module | None = None


def observe_all(run: Run) -> None:
    """Observe models that no other model calls, and dropout inside of those that are in evaluation mode.

    A model has parameters. Criteria, transforms and metrics have none, and are told of apart.
    """
    calls = _Calls()
    _observe_calls(run, calls)
    _observe_modes(run)

    def dropping(input: Any = None, p: float = 0.5, training: bool = True, *__: Any, **___: Any) -> None:
        tell(training, float(p), "torch.nn.modules")

    def attending(*arguments: Any, **named: Any) -> None:
        probability = float(named.get("dropout_p", arguments[4] if len(arguments) > 4 else 0.0))
        tell(probability > 0, probability, "torch.nn")

    def tell(training: bool, probability: float, layers: str) -> None:
        """Tell of it where a model is in evaluation mode; layers that obey say nothing."""
        model = calls.outermost
        if model is not None and not model.training and (training or not calling_module().startswith(layers)):
            run.tell("dropout", training and probability > 0, stack())

    for name in _DROPPING:
        observe(run, functional, name, before=dropping, told="awake")
    script: Any = _builtins
    builtin = script._find_builtin(getattr(functional, _ATTENTION, None))
    observe(run, functional, _ATTENTION, before=attending, told="awake")
    if builtin:  # TorchScript knows it by what it is
        script._register_builtin(getattr(functional, _ATTENTION), builtin)


def _observe_calls(run: Run, calls: _Calls) -> None:
    """Have the calls of modules observed: in place of hooks, which would slow every layer down."""
    original = nn.Module.__call__
    models: WeakSet[nn.Module] = WeakSet()

    def is_model(module: nn.Module) -> bool:
        if module not in models and next(module.parameters(), None) is not None:
            models.add(module)
        return module in models

    @functools.wraps(original)
    def observed(module: nn.Module, *arguments: Any, **named: Any) -> Any:
        if calls.outermost is not None or not run.is_listening:
            return original(module, *arguments, **named)
        with_gradients = torch.is_grad_enabled()
        is_due = run.is_due(sys._getframe(1), evaluates=not with_gradients)
        if (is_due or not run.rests.are_on) and not is_model(module):
            if is_due:
                run.guard(lambda: run.tell("call_aside", module, arguments, named, stack()))
            return original(module, *arguments, **named)
        calls.outermost = module
        try:
            if is_due:
                run.guard(forward, module, arguments, named, with_gradients)
            return original(module, *arguments, **named)
        finally:
            calls.outermost = None

    def forward(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], with_gradients: bool) -> None:
        run.mark("forward" if with_gradients else "forward without gradients")
        run.has_evidence = run.has_evidence or (not with_gradients and parent_process() is None)
        if not with_gradients:
            run.feed.evaluate()
        event = here(ModelForward, module, Arguments[Any](inputs, named), None, grad="on" if with_gradients else "off")
        run.see(f"model {type(module).__name__}", stack_of(event))
        run.emit(event)

    nn.Module.__call__ = observed  # type: ignore[method-assign]


def _observe_modes(run: Run) -> None:
    """Observe which module is put into a mode; those inside of it follow, and are not told of."""
    inside = threading.local()

    def changing(original: Any, module: nn.Module, *arguments: Any, **named: Any) -> Any:
        if getattr(inside, "module", None) is not None or not run.is_listening:
            return original(module, *arguments, **named)
        inside.module = module
        try:
            result = original(module, *arguments, **named)
        finally:
            inside.module = None
        run.guard(lambda: run.emit(here(ModeChange, module, module.training)))
        return result

    replace(nn.Module, "train", changing)
    replace(nn.Module, "eval", changing)
