"""Finds objects of libraries that probes know by their classes, among all that exist: their libraries need not be
imported for that, and nothing of them is changed."""

from __future__ import annotations

import gc
import re
from typing import Any

from dllint.confirm.inside.parts import vars_of


def objects(classes: re.Pattern[str], attributes: tuple[str, ...]) -> list[Any]:
    """What exists of classes whose name matches and that has one of these attributes.

    Only types are asked, and what instances keep by themselves, since asking for anything else may run code of theirs.
    """
    answers: dict[type, bool] = {}
    found = []
    for item in gc.get_objects():
        kind = type(item)
        is_wanted = answers.get(kind)
        if is_wanted is None:
            is_wanted = answers[kind] = classes.search(kind.__name__) is not None
        if is_wanted and any(name in vars_of(item) for name in attributes):
            found.append(item)
    return found
