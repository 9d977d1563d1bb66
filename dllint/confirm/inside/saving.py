"""Observes what is saved, and sends it where the files of the script are kept."""

from __future__ import annotations

import functools
from typing import Any

import torch

from dllint.confirm.inside.files import for_reading, for_writing
from dllint.confirm.inside.patching import observe
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import stack


def observe_all(run: Run) -> None:
    """Observe ``torch.save``, whose files are written without Python."""
    if run.settings.scratch:
        _redirect()

    def saving(obj: Any, *_: Any, **__: Any) -> None:
        run.tell("save", obj, stack())

    observe(run, torch, "save", before=saving)


def _redirect() -> None:
    save, load = torch.save, torch.load

    @functools.wraps(save)
    def saving(obj: object, f: Any, *arguments: Any, **named: Any) -> None:
        save(obj, for_writing(f), *arguments, **named)

    @functools.wraps(load)
    def loading(f: Any, *arguments: Any, **named: Any) -> Any:
        return load(for_reading(f), *arguments, **named)

    torch.save, torch.load = saving, loading
