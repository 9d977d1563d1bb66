"""Observes functions: losses, which the modules of ``torch.nn`` call as well, distributions, embeddings, deviations and
derivatives; what is loaded, saved, read and restored, which is sent where the files of the script are kept."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.optim import Optimizer, lr_scheduler, swa_utils

from dllint.confirm.inside.devices import fails_later, is_device_lost
from dllint.confirm.inside.files import for_reading, for_writing
from dllint.confirm.inside.patching import ended, observe, replace
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import calling_module, here, stack, stack_of
from dllint.confirm.inside.training import gradient_scaler
from dllint.confirm.probes.events import Load, LossCall
from dllint.events import StateRead, StateRestored, StateSaved, StateTaken
from dllint.values import Arguments

_OF_CLASSES = ("cross_entropy", "nll_loss")  # whose targets are looked up
_OF_LABELS = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
)
_OF_NUMBERS = ("huber_loss", "kl_div", "l1_loss", "mse_loss", "smooth_l1_loss")


def observe_all(run: Run) -> None:
    for name in (*_OF_CLASSES, *_OF_LABELS, *_OF_NUMBERS):
        if hasattr(functional, name):
            _observe_loss(run, name, inspect.signature(getattr(functional, name)).parameters)
    _observe_numbers(run)
    _observe_states(run)


def _observe_loss(run: Run, name: str, parameters: Mapping[str, inspect.Parameter]) -> None:
    defaults = {key: parameter.default for key, parameter in parameters.items()}

    def bound(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        return {**defaults, **dict(zip(defaults, arguments, strict=False)), **named}

    def computed(result: Any, *arguments: Any, **named: Any) -> None:
        values = bound(arguments, named)
        scores, target = values.pop("input"), values.pop("target")
        if all(isinstance(value, Tensor) for value in (scores, target, result)):
            call = here(LossCall, f"torch.nn.functional.{name}", scores, target, values, None, result)
            run.see(f"loss {name}", stack_of(call))
            run.emit(call)

    def refused(error: Exception | None, *arguments: Any, **named: Any) -> None:
        values = bound(arguments, named)
        scores, target = values["input"], values["target"]
        if isinstance(scores, Tensor) and isinstance(target, Tensor) and not is_device_lost(error):
            run.tell("loss_refused", name, scores, target, stack())

    def given(*arguments: Any, **named: Any) -> None:
        values = bound(arguments, named)
        scores, target = values["input"], values["target"]
        if isinstance(target, Tensor) and fails_later(target) and target.numel() and not target.is_floating_point():
            classes = scores.shape[min(1, scores.dim() - 1)]
            if bool(((target >= classes) & (target != values["ignore_index"])).any()):
                refused(None, *arguments, **named)

    before = given if name in _OF_CLASSES else None
    observe(run, functional, name, before=before, after=computed, failed=refused, told="sampled")


def _observe_numbers(run: Run) -> None:
    def refused(error: Exception | None, input: Any, weight: Any, *__: Any, **___: Any) -> None:
        if isinstance(input, Tensor) and isinstance(weight, Tensor) and not is_device_lost(error):
            run.tell("lookup_refused", input, weight, stack())

    def given(input: Any, weight: Any, *__: Any, **___: Any) -> None:
        is_asked = isinstance(input, Tensor) and fails_later(input) and input.numel() and not run.rests.are_on
        if is_asked and bool(((input < 0) | (input >= weight.shape[0])).any()):
            refused(None, input, weight)

    def made(_: None, distribution: Any, probs: Any = None, logits: Any = None, *__: Any, **___: Any) -> None:
        if isinstance(logits, Tensor) and not calling_module().startswith("torch."):
            run.tell("logits", logits, stack())

    def packing(*_: Any) -> None:
        run.packs = True

    def deviation(result: Any, values: Any, *arguments: Any, **named: Any) -> None:
        if not arguments and named.keys() <= {"unbiased", "correction"} and isinstance(result, Tensor):
            run.tell("deviation", values, result, stack())

    observe(run, functional, "embedding", before=given, failed=refused)
    observe(run, torch.distributions.Categorical, "__init__", after=made, told="sampled")
    observe(run, torch.Tensor, "std", after=deviation, told="sampled")
    _keep_warnings_of_deviations()
    observe(run, torch.autograd, "grad", before=lambda *_, **__: run.tell("derivative"), told="awake")
    observe(run, torch.autograd.graph.saved_tensors_hooks, "__enter__", before=packing)


def _keep_warnings_of_deviations() -> None:
    """Have the warning of a deviation of one number tell of the line of the user's: it comes from code in C++, which
    takes the innermost frame for the place."""

    def std(original: Any, values: Tensor, *arguments: Any, **named: Any) -> Any:
        if values.numel() > 1:
            return original(values, *arguments, **named)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = original(values, *arguments, **named)
        for warning in caught:
            warnings.warn(warning.message, warning.category, stacklevel=1)
        return result

    replace(torch.Tensor, "std", std)


def _observe_states(run: Run) -> None:
    def restoring(owner: Any, state_dict: Any, *arguments: Any, **named: Any) -> None:
        run.emit(here(StateRestored, owner, state_dict, Arguments[Any]((state_dict, *arguments), named)))

    def asked(state: Any, module: nn.Module, *_: Any, **named: Any) -> None:
        if named.get("destination") is None:  # else it is part of a module that is asked
            run.emit(here(StateTaken, module, state))

    def loaded(outcome: Any, module: nn.Module, state_dict: Any, strict: bool = True, *_: Any, **__: Any) -> None:
        error = str(outcome) if isinstance(outcome, Exception) else ""
        parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
        buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)}
        run.tell("load", Load(module, set(state_dict), parameters, buffers, bool(strict), error, stack()))

    if run.settings.scratch:  # these write and read files without Python
        replace(torch, "save", lambda save, obj, f, *rest, **named: save(obj, for_writing(f), *rest, **named))
        replace(torch, "load", lambda load, f, *rest, **named: load(for_reading(f), *rest, **named))
    observe(run, torch, "save", before=lambda obj, f, *_, **__: run.emit(here(StateSaved, obj, f, "torch.save")))
    observe(run, torch, "load", after=lambda content, f, *_, **__: run.emit(here(StateRead, f, content)))
    observe(run, nn.Module, "load_state_dict", after=loaded, failed=loaded)
    schedulers = [kind for kind in vars(lr_scheduler).values() if inspect.isclass(kind)]
    for owner in (nn.Module, Optimizer, gradient_scaler(), *schedulers):
        if "load_state_dict" in vars(owner):
            observe(run, owner, "load_state_dict", before=restoring)
    observe(run, nn.Module, "state_dict", after=asked)
    observe(run, swa_utils.AveragedModel, "update_parameters", after=ended(run, "average"))
