"""Edits that know which file they are of."""

from __future__ import annotations

from collections.abc import Iterable

from dllint.findings import Edit
from dllint.sites import Module


class Edits(tuple[Edit, ...]):
    """Edits of one file; none where something cannot be changed by replacing text.

    ``module`` is the file, or ``None`` where there are no edits. A finding carries only edits of its own file.
    """

    module: Module | None = None

    @classmethod
    def of(cls, module: Module, edits: Iterable[Edit]) -> Edits:
        """Some edits of a file."""
        made = cls(edits)
        if made:
            made.module = module
        return made


def together(*parts: Edits) -> Edits:
    """Several edits as one: all of them, or none if one cannot be made or they are of several files."""
    module = parts[0].module if parts else None
    if module is None or any(part.module is not module for part in parts):
        return Edits()
    return Edits.of(module, (edit for part in parts for edit in part))
