"""Ends the epochs of Lightning early in a way that it takes for their end: it counts batches itself, and neither
validates nor steps schedulers after an epoch whose loader stops before its time."""

from __future__ import annotations

import sys
from typing import Any

from dllint.confirm.inside.patching import observe, when_imported
from dllint.confirm.inside.run import Run

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def observe_all(run: Run) -> None:
    """Have epochs end after as many batches as are asked for, as soon as Lightning is there."""
    if run.settings.epoch_batches and run.settings.mode != "overfit":
        for package in _PACKAGES:
            when_imported(run, f"{package}.loops.fit_loop", _end_epochs)


def _end_epochs(run: Run, module: Any) -> None:
    limit = run.settings.epoch_batches

    def prepared(_: None, loop: Any, *__: Any, **___: Any) -> None:
        trainer = loop.trainer
        if isinstance(trainer.val_check_batch, int) and trainer.check_val_every_n_epoch is not None:
            trainer.val_check_batch = min(trainer.val_check_batch, limit)

    def begun(_: Any, fetcher: Any, *__: Any, **___: Any) -> None:
        trains = getattr(fetcher.combined_loader, "_mode", "sequential") != "sequential"
        if trains and fetcher.length is not None:  # the length of the loader stays as it is: schedules are made for it
            fetcher.length = min(fetcher.length, limit)

    observe(run, getattr(module, "_FitLoop", None), "setup_data", after=prepared)
    fetchers = sys.modules.get(module.__name__.replace("fit_loop", "fetchers"))
    observe(run, getattr(fetchers, "_PrefetchDataFetcher", None), "__iter__", after=begun)
