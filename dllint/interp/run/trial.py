"""What comes of code that is run aside, for somebody who asks."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dllint.dataclass import dataclass
from dllint.structure import Block
from dllint.values import Value


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of code that was run for somebody who asked.

    ``result`` is `None` where the call cannot be made, ``body`` has its events, ``reached`` the definitions it called.
    ``settled`` are comparisons of numbers that it draws which come out the same, whatever these are; of others
    there is no outcome.
    """

    result: Value | None
    body: Block
    reached: frozenset[ast.AST]
    settled: Mapping[ast.AST, bool | None]
