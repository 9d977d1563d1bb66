"""Waits for the script to import torch, and attaches the probes then."""

from __future__ import annotations

import builtins
import json
import os
import sys

from dllint.confirm.evidence import ATTACHED, Settings
from dllint.confirm.inside.importing import after_import
from dllint.confirm.inside.user_warnings import keep_places


def await_torch(settings: str) -> None:
    """Attach the probes as soon as torch has been imported, and keep the files of the user from being changed.

    Args:
        settings: the settings of the run as JSON.
    """
    parsed = Settings(**json.loads(settings))
    _note(parsed, "python")
    keep_places()
    if parsed.notebook:
        _resemble_a_kernel(parsed.notebook)
    if parsed.scratch:
        from dllint.confirm.inside.files import guard_files
        from dllint.confirm.inside.native_files import guard_native_files

        guard_files(parsed.scratch, parsed.records)
        guard_native_files()
    after_import("torch", lambda: _attach(parsed))


def _note(settings: Settings, what: str) -> None:
    """Leave a file that says how far attaching has come."""
    os.close(os.open(os.path.join(settings.records, ATTACHED[what]), os.O_CREAT | os.O_WRONLY))


def _resemble_a_kernel(folder: str) -> None:
    """Have what a script of a notebook expects: its folder, and what kernels show values with."""
    os.chdir(folder)
    sys.path.append(folder)
    builtins.display = print  # type: ignore[attr-defined]
    builtins.get_ipython = lambda: None  # type: ignore[attr-defined]


def _attach(settings: Settings) -> None:
    try:
        _note(settings, "torch")
        from dllint.confirm.inside.install import install

        install(settings)
    except Exception as error:  # the script must run as it would without dllint
        print(f"dllint confirm: the probes cannot be attached: {error!r}", file=sys.stderr)
