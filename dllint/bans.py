"""Calls that a project has banned (``[[tool.dllint.ban]]``): rules that are data, and run no code.

A call is told by the imports of its file alone. What a file binds otherwise, what is imported under one name from
several places, and what comes with a star are left alone: it is not known what they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dllint.engine_rules import BannedCallRule
from dllint.findings import Finding
from dllint.interp.source.bindings import bound_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.positions import enclosing_scope, enclosing_statement
from dllint.sites import Site


@dataclass(frozen=True, slots=True)
class Ban:
    """One banned call.

    Attributes:
        call: the full name of what is called, such as ``torch.load``.
        message: what to say of it; empty for a message that names the call.
        unless: an argument with which the call is fine, such as ``weights_only=True``; without a value, any will do.
    """

    call: str
    message: str = ""
    unless: str = ""

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> Ban:
        """The ban that a table of the configuration stands for."""
        return cls(**table)

    def excuses(self, call: ast.Call) -> bool:
        """Whether a call has, or may have, the argument with which it is fine."""
        name, _, value = (part.strip() for part in self.unless.partition("="))
        if not name:
            return False
        if any(keyword.arg is None for keyword in call.keywords):
            return True  # `**options`: it may be among them
        given = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
        if given is None:
            return False
        return not value or not isinstance(given, ast.Constant) or ast.unparse(given) == value


def banned_calls(module: SourceModule, bans: Sequence[Ban]) -> Iterator[Finding]:
    """What a file calls that is banned."""
    by_word: dict[str, list[Ban]] = {}
    for ban in bans:
        by_word.setdefault(ban.call.rpartition(".")[2], []).append(ban)
    if module.words.isdisjoint(by_word):
        return
    names = _imported(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and (called := _full_name(node.func, names)):
            for ban in by_word.get(called.rpartition(".")[2], ()):
                if ban.call == called and not ban.excuses(node):
                    yield _finding(module, node, ban)


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each name of a file stands for; empty where that is not known."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        found: dict[str, str] = {}
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            origin = "" if node.level else f"{node.module}."
            found = {alias.asname or alias.name: origin and origin + alias.name for alias in node.names}
        elif isinstance(node, ast.stmt):
            found = dict.fromkeys(bound_names(node), "")
        elif isinstance(node, ast.arg):
            found = {node.arg: ""}
        for name, target in found.items():
            names[name] = target if names.get(name, target) == target else ""
    return names


def _full_name(function: ast.expr, names: Mapping[str, str]) -> str:
    """The full name of what is called, as far as imports tell; empty otherwise. A name that nothing binds is itself."""
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ""
    first = names.get(function.id, "" if parts else function.id)
    return ".".join([first, *reversed(parts)]) if first else ""


def _finding(module: SourceModule, call: ast.Call, ban: Ban) -> Finding:
    rule = BannedCallRule
    site = Site(module, call)
    return Finding(
        rule.code,
        rule.name,
        ban.message or f"`{ban.call}` is banned in this project",
        module.source.location(*_span(call)),
        rule.severity,
        rule.category,
        help=f"pass `{ban.unless}`" if ban.unless else "",
        scope=enclosing_scope(site),
        statement=enclosing_statement(site),
    )


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
