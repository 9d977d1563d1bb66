"""The entries of a dict that a key which is not known may ask for: a registry, asked for what an option names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import present
from dllint.interp.run.guards import equality
from dllint.sites import Guards, Site
from dllint.values import Const, Setting, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def entries_asked_for(machine: Machine, table: Table, key: Value, site: Site) -> list[tuple[Guards, Value]]:
    """The entries, one of which a key asks for, as the options of a choice.

    Of a setting the program's default tells which one it is, as it does in ``if args.optimizer == "sgd":``.
    """
    entries = table.entries()
    default = key.default if isinstance(key, Setting) and key.has_default else None
    node = _written(site.node)
    if node is None or not isinstance(default, Const) or default.value not in entries:
        return [((), present(value)) for value in entries.values()]
    scope = machine.scope_of(node)
    return [
        (equality(node, name, scope, by_default=name == default.value), present(value))
        for name, value in entries.items()
    ]


def _written(node: ast.AST) -> ast.expr | None:
    """The key as it is written: in brackets, or as the first argument of ``get``."""
    if isinstance(node, ast.Subscript):
        return node.slice
    return node.args[0] if isinstance(node, ast.Call) and node.args else None
