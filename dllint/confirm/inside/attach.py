"""Waits for the script to import torch, and attaches the probes then; does other things as soon as other modules have
been imported.

What is here imports little: it is used before the script imports anything, and the script should import what it needs
itself.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

from dllint.confirm.evidence import ATTACHED, Settings
from dllint.confirm.inside.user_warnings import keep_places


def await_torch(settings: str) -> None:
    """Attach the probes as soon as torch has been imported, and keep the files of the user from being changed.

    Args:
        settings: the settings of the run as JSON.
    """
    parsed = Settings(**json.loads(settings))
    _note(parsed, "python")
    keep_places()
    if parsed.notebook:  # its script expects the folder, and what kernels show values with
        os.chdir(parsed.notebook)
        sys.path.append(parsed.notebook)
        builtins.display = print  # type: ignore[attr-defined]
        builtins.get_ipython = lambda: None  # type: ignore[attr-defined]
    if parsed.scratch:
        from dllint.confirm.inside.files import guard_files
        from dllint.confirm.inside.native_files import guard_native_files

        guard_files(parsed.scratch, parsed.records)
        guard_native_files()
    after_import("torch", lambda: _attach(parsed))


def _note(settings: Settings, what: str) -> None:
    """Leave a file that says how far attaching has come."""
    os.close(os.open(os.path.join(settings.records, ATTACHED[what]), os.O_CREAT | os.O_WRONLY))


def _attach(settings: Settings) -> None:
    try:
        _note(settings, "torch")
        from dllint.confirm.inside.install import install

        install(settings)
    except Exception as error:  # the script must run as it would without dllint
        print(f"dllint confirm: the probes cannot be attached: {error!r}", file=sys.stderr)


def after_import(name: str, action: Callable[[], None]) -> None:
    """Do something once a module has been imported; now, if it has been."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder:
    """Finds one module as it would be found without dllint, and adds one thing to do after its import.

    It stays until the module is imported: libraries also look for modules only to know whether they are installed. It
    is no ``importlib.abc.MetaPathFinder``: that module imports much that the script should import itself.
    """

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name, self._action = name, action
        self._is_asked = False

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """The specification of the module; None for any other."""
        if fullname != self._name or self._is_asked:
            return None
        self._is_asked = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_asked = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            is_first = self in sys.meta_path
            if is_first:
                sys.meta_path.remove(self)
            execute(module)
            if is_first:
                self._action()

        spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
