"""Observes calls of modules, and what drops inside of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from dllint.confirm.inside.patching import observe
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import calling_module, stack

_DROPPING = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def observe_all(run: Run) -> None:
    """Observe modules that no other module calls, and dropout inside of those that are in evaluation mode."""
    calls: list[nn.Module] = []

    def enter(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        calls.append(module)
        if len(calls) == 1 and run.is_listening:
            run.guard(forward, module, inputs, torch.is_grad_enabled())

    def leave(module: nn.Module, *_: Any) -> None:
        if calls:
            calls.pop()

    def forward(module: nn.Module, inputs: tuple[Any, ...], with_gradients: bool) -> None:
        run.mark("forward" if with_gradients else "forward without gradients")
        run.tell("forward", module, inputs, with_gradients, stack())

    def dropping(_: Any, p: float = 0.5, training: bool = True, *__: Any, **___: Any) -> None:
        by_a_module = calling_module().startswith("torch.nn.modules")
        if calls and not calls[0].training and (training or not by_a_module):  # a layer that obeys says nothing
            run.tell("dropout", training, float(p), calls[0], stack())

    register_module_forward_pre_hook(enter)
    register_module_forward_hook(leave, always_call=True)
    for name in _DROPPING:
        observe(run, functional, name, before=dropping)
