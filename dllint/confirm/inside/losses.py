"""Observes the loss functions, which the modules of ``torch.nn`` call as well."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch.nn.functional as functional
from torch import Tensor

from dllint.confirm.inside.devices import fails_later, is_device_lost
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


_OF_CLASSES = ("cross_entropy", "nll_loss")  # whose targets are looked up


def observe_all(run: Run) -> None:
    """Observe the loss functions of ``torch.nn.functional``."""
    for name in _LOSSES:
        if hasattr(functional, name):
            given, computed, refused = _tellers(run, name, inspect.signature(getattr(functional, name)))
            before = given if name in _OF_CLASSES else None
            observe(run, functional, name, before=before, after=computed, failed=refused, told="sampled")


def _tellers(run: Run, name: str, signature: inspect.Signature) -> tuple[Callable[..., None], ...]:
    """What tells of a loss that will fail later, of one that has been computed, and of one that could not be."""
    names = list(signature.parameters)
    defaults = {key: item.default for key, item in signature.parameters.items()}

    def computed(result: Any, *arguments: Any, **named: Any) -> None:
        values = {**defaults, **dict(zip(names, arguments, strict=False)), **named}
        scores, target = values.pop("input"), values.pop("target")
        if all(isinstance(value, Tensor) for value in (scores, target, result)):
            call = here(LossCall, f"torch.nn.functional.{name}", scores, target, values, None, result)
            run.see(f"loss {name}", stack_of(call))
            run.emit(call)

    def refused(error: Exception | None, *arguments: Any, **named: Any) -> None:
        values = {**dict(zip(names, arguments, strict=False)), **named}
        scores, target = values.get("input"), values.get("target")
        if isinstance(scores, Tensor) and isinstance(target, Tensor) and not is_device_lost(error):
            run.tell("loss_refused", name, scores, target, stack())

    def given(*arguments: Any, **named: Any) -> None:
        values = {**defaults, **dict(zip(names, arguments, strict=False)), **named}
        scores, target = values["input"], values["target"]
        if isinstance(target, Tensor) and fails_later(target) and target.numel() and not target.is_floating_point():
            classes = scores.shape[min(1, scores.dim() - 1)]
            if bool(((target >= classes) & (target != values["ignore_index"])).any()):
                refused(None, *arguments, **named)

    return given, computed, refused
