"""Edits of the code at a site, for the fixes that rules offer."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from dllint.findings import Edit, Fix, Safety
from dllint.syntax.edits import remove_call_wrapper, rename_callee, replace_call_argument
from dllint.values import Site

Edits = tuple[Edit, ...]


def rename_call(call: Site, name: str) -> Edits:
    """Call something else of the same module: ``optim.Adam(...)`` becomes ``optim.AdamW(...)``."""
    module: Any = call.module
    return rename_callee(module.source, module.tree, call.node, name) if isinstance(call.node, ast.Call) else ()


def set_argument(call: Site, name: str, text: str, *, position: int | None = None) -> Edits:
    """Give an argument of a call another value, or add it as a keyword."""
    module: Any = call.module
    if not isinstance(call.node, ast.Call):
        return ()
    return replace_call_argument(module.source, call.node, name, text, position=position)


def unwrap_call(call: Site, argument: ast.expr) -> Edits:
    """Put one of its arguments in the place of a call."""
    module: Any = call.module
    return remove_call_wrapper(module.source, call.node, argument) if isinstance(call.node, ast.Call) else ()


def replace_range(start: Site, text: str, *, end: Site | None = None) -> Edits:
    """Put ``text`` in the place of a node, or of everything from one node to the end of another."""
    source: Any = start.module.source  # type: ignore[attr-defined]
    first: Any = start.node
    last: Any = (end or start).node
    begins = source.offset(first.lineno, first.col_offset)
    return (Edit(begins, source.offset(last.end_lineno, last.end_col_offset), text),)


def offer(message: str, edits: Sequence[Edit], safety: Safety, *, of: Site, at: Site) -> list[Fix]:
    """The fix with these edits of the file of ``of``, if there are any and a finding ``at`` a place can carry them."""
    return [Fix(message, tuple(edits), safety)] if edits and of.module is at.module else []
