"""What the interpreter remembers about syntax trees from one analysis to the next, and the memory of the process."""

from __future__ import annotations

import sys

from dllint.interp.run import classes, graph, guards
from dllint.interp.source import bindings

_REMEMBERED = (
    bindings._has_no_other_bindings,
    bindings.assigned_in,
    classes.reassigned_attributes,
    graph._names_in,
    guards.guards_of,
    guards.names_in,
    guards._unparsed,
)


def forget_trees() -> None:
    """Let go of the trees of old versions of files. A run over files as they are has no need of it."""
    for function in _REMEMBERED:
        function.cache_clear()


def return_memory() -> None:
    """Give memory that was freed back to the system, which the C library keeps between pieces that are in use."""
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)
