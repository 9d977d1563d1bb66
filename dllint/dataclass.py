"""The dataclasses of dllint: those with ``frozen=True`` are held frozen by the type checker alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, **options: Any) -> Callable[[type], type]:
        """Make a dataclass, as the one of the standard library does, without the methods that refuse an assignment.

        A frozen dataclass of the standard library takes twice as long to make (0.36 ms of CPU time against 0.19,
        Python 3.11), and each of its objects is filled by a call of ``object.__setattr__`` for each field. dllint has
        150 such classes, and makes their objects by the hundred thousand: without this a file of 300 lines took 8 %
        longer. ``mypy --strict`` refuses the assignments, and equality and hash are those of a frozen class.
        """

        def made(cls: type) -> type:
            hashed = frozen and options.get("eq", True) and "__hash__" not in cls.__dict__
            return dataclasses.dataclass(cls, unsafe_hash=hashed, **options)

        return made
