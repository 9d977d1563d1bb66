"""Automatic variations of a case: the same program written another way, in which a rule must find the same.

A variation takes the files of a case and gives those of the varied one, or ``None`` where it cannot apply: it must
never change what the program does. Marks are comments, so they go where their lines go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dllint.testing.variations.files import with_classes_elsewhere, with_functions_elsewhere
from dllint.testing.variations.names import with_aliases, with_full_names
from dllint.testing.variations.scopes import in_function, in_method
from dllint.testing.variations.text import as_cells, as_one_cell, with_crlf, with_tabs

Files = Mapping[str, str]
Variation = Callable[[Files], "dict[str, str] | None"]

VARIATIONS: dict[str, Variation] = {
    "alias": with_aliases,
    "full-names": with_full_names,
    "function": in_function,
    "method": in_method,
    "classes": with_classes_elsewhere,
    "functions": with_functions_elsewhere,
    "cell": as_one_cell,
    "cells": as_cells,
    "crlf": with_crlf,
    "tabs": with_tabs,
}
"""The variations by name. ``# vary: no-method -- reason`` in a fixture leaves one out."""

NAMES = tuple(VARIATIONS)

MIXES = (
    ("alias", "classes", "functions", "function", "tabs", "crlf"),
    ("full-names", "method", "cell"),
    ("cells",),
)
"""Variations that a case is put in one after another, so that a fixture takes a third of the time: where a mix is
right, its variations are taken to be, and where it is not, each is tried alone."""
