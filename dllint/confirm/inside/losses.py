"""Observes the loss functions, which the modules of ``torch.nn`` call as well."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch.nn.functional as functional
from torch import Tensor

from dllint.confirm.inside.patching import observe
from dllint.confirm.inside.places import here, stack_of
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import stack
from dllint.confirm.probes.events import LossCall

_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
)


def observe_all(run: Run) -> None:
    """Observe the loss functions of ``torch.nn.functional``."""
    for name in _LOSSES:
        if hasattr(functional, name):
            computed, refused = _tellers(run, name, inspect.signature(getattr(functional, name)))
            observe(run, functional, name, after=computed, failed=refused, told="sampled")


def _tellers(run: Run, name: str, signature: inspect.Signature) -> tuple[Callable[..., None], Callable[..., None]]:
    """What tells of a loss that has been computed, and of one that could not be."""
    names = list(signature.parameters)
    defaults = {key: item.default for key, item in signature.parameters.items()}

    def computed(result: Any, *arguments: Any, **named: Any) -> None:
        values = {**defaults, **dict(zip(names, arguments, strict=False)), **named}
        scores, target = values.pop("input"), values.pop("target")
        if all(isinstance(value, Tensor) for value in (scores, target, result)):
            call = here(LossCall, f"torch.nn.functional.{name}", scores, target, values, None, result)
            run.see(f"loss {name}", stack_of(call))
            run.emit(call)

    def refused(error: Exception, *arguments: Any, **named: Any) -> None:
        values = {**dict(zip(names, arguments, strict=False)), **named}
        if isinstance(values.get("input"), Tensor) and isinstance(values.get("target"), Tensor):
            run.tell("loss_refused", name, values["input"], values["target"], stack())

    return computed, refused
