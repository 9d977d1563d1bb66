"""Puts observers around torch, as soon as it has been imported, and sees to the end of the run."""

from __future__ import annotations

import atexit
import sys
from importlib import import_module
from types import TracebackType

from dllint.confirm.evidence import Settings
from dllint.confirm.inside.patching import spare_compilers
from dllint.confirm.inside.run import Run
from dllint.confirm.probes import PROBES, experiment
from dllint.confirm.probes.gradients import Gradients

_ROOMS = ("training", "forwards", "functions", "loaders", "libraries", "images")


def install(settings: Settings) -> Run:
    """Begin to observe this process. Returns the run."""
    run = Run(settings)
    if settings.mode == "observe":
        run.watch([probe for probe in PROBES if not settings.probes or probe.name in settings.probes])
    elif settings.mode != "events":
        run.watch([Gradients, experiment(settings.mode)])
    for room in _ROOMS:
        import_module(f"dllint.confirm.inside.{room}").observe_all(run)
    spare_compilers()
    if settings.scratch:
        from dllint.confirm.inside.files import redirected

        run.redirected = redirected
    _report_at_the_end(run)
    run.start()
    return run


def _report_at_the_end(run: Run) -> None:
    """Write the record when the script ends by itself or by an exception."""
    tell = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        run.finish("exception", f"{kind.__name__}: {error}")
        tell(kind, error, trace)

    sys.excepthook = excepthook
    atexit.register(run.finish, "end")
