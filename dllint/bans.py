"""Calls that a project has banned (``[[tool.dllint.ban]]``): rules that are data, and run no code.

A call is told by the imports of its file alone. What a file binds otherwise, what is imported under one name from
several places, and what comes with a star are left alone: it is not known what they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dllint.dataclass import dataclass
from dllint.engine_rules import BannedCallRule
from dllint.findings import Finding
from dllint.interp.source.imported import dotted_name, imported_names
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
    names = imported_names(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and (called := _full_name(node, names, module)):
            for ban in by_word.get(called.rpartition(".")[2], ()):
                if ban.call == called and not ban.excuses(node):
                    yield _finding(module, node, ban)


def _full_name(call: ast.Call, names: Mapping[str, str], module: SourceModule) -> str:
    """The full name of what is called, as far as imports tell; empty otherwise. A name that nothing binds is itself."""
    if isinstance(call.func, ast.Name) and not module.binds(call.func.id):
        return call.func.id
    return dotted_name(call, names)


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
