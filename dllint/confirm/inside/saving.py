"""Observes what is saved, read and restored, and sends what is saved where the files of the script are kept."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer, lr_scheduler, swa_utils

from dllint.confirm.inside.files import for_reading, for_writing
from dllint.confirm.inside.patching import ended, observe, replace
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import here
from dllint.confirm.inside.training import gradient_scaler
from dllint.events import StateRead, StateRestored, StateSaved, StateTaken
from dllint.values import Arguments


def observe_all(run: Run) -> None:
    """Observe ``torch.save``, whose files are written without Python, ``torch.load``, and what takes a state."""
    if run.settings.scratch:
        replace(torch, "save", lambda save, obj, f, *rest, **named: save(obj, for_writing(f), *rest, **named))
        replace(torch, "load", lambda load, f, *rest, **named: load(for_reading(f), *rest, **named))

    observe(run, torch, "save", before=lambda obj, f, *_, **__: run.emit(here(StateSaved, obj, f, "torch.save")))
    observe(run, torch, "load", after=lambda content, f, *_, **__: run.emit(here(StateRead, f, content)))
    _observe_states(run)


def _observe_states(run: Run) -> None:
    def restoring(owner: Any, state_dict: Any, *arguments: Any, **named: Any) -> None:
        given = Arguments[Any]((state_dict, *arguments), named)
        run.emit(here(StateRestored, owner, state_dict, given))

    def asked(state: Any, module: nn.Module, *_: Any, **named: Any) -> None:
        if named.get("destination") is None:  # else it is part of a module that is asked
            run.emit(here(StateTaken, module, state))

    schedulers = [kind for kind in vars(lr_scheduler).values() if inspect.isclass(kind)]
    for owner in (nn.Module, Optimizer, gradient_scaler(), *schedulers):
        if "load_state_dict" in vars(owner):
            observe(run, owner, "load_state_dict", before=restoring)
    observe(run, nn.Module, "state_dict", after=asked)
    observe(run, swa_utils.AveragedModel, "update_parameters", after=ended(run, "average"))
