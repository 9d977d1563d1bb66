"""Doing something as soon as a module has been imported.

What is here imports little: it is used before the script imports anything, and the script should import what it needs
itself.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


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

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
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
