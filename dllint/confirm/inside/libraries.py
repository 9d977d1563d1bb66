"""Observes how Accelerate and the distributed checkpoints of torch save and load, once the script has imported them."""

from __future__ import annotations

import sys
from typing import Any

from dllint.confirm.inside.importing import after_import
from dllint.confirm.inside.patching import observe
from dllint.confirm.inside.run import Run
from dllint.confirm.inside.stacks import stack


def observe_all(run: Run) -> None:
    """Observe them as soon as they are there."""
    after_import("accelerate.accelerator", lambda: run.guard(_observe_accelerate, run))
    after_import("torch.distributed.checkpoint", lambda: run.guard(_observe_sharded, run))


def _observe_accelerate(run: Run) -> None:
    def saving(accelerator: Any, *_: Any, **__: Any) -> None:
        run.tell("accelerator_save", accelerator, stack())

    observe(run, sys.modules["accelerate.accelerator"].Accelerator, "save_state", before=saving)


def _observe_sharded(run: Run) -> None:
    def read(_: Any, state_dict: Any, *__: Any, **___: Any) -> None:
        run.tell("sharded_read", state_dict, stack())

    module = sys.modules["torch.distributed.checkpoint"]
    for name in ("load", "load_state_dict"):
        observe(run, module, name, after=read)
