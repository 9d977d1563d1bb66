"""Names of libraries as a file writes them: what its imports bind, and where what is bound is used."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from dllint.interp.source.trees import walk

_NOT_WATCHING = frozenset(
    ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "autocast", "tqdm", "open", "join", "no_sync",
     "device", "accumulate", "SummaryWriter")
)  # fmt: skip


@lru_cache(maxsize=8)  # several ask about one file in turn; more trees are not to be held
def imported_names(tree: ast.Module) -> Mapping[str, str]:
    """The names that imports of a file bind, at any depth, with the dotted names of what they are.

    A name that is bound more than once, or in a ``try`` that has another way, is left out.
    """
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    nodes = list(walk(tree))
    attempted = {id(inner) for node in nodes if isinstance(node, ast.Try) for inner in walk(node)}
    for node in nodes:
        for name, dotted in _bound(node):
            times[name] += 1 if dotted and id(node) not in attempted and found.get(name) != dotted else 0
            times[name] += 2 if not dotted or id(node) in attempted else 0
            found[name] = dotted
    return {name: dotted for name, dotted in found.items() if dotted and times[name] == 1}


def _bound(node: ast.AST) -> Iterator[tuple[str, str]]:
    """What a node binds; nothing is known of what is no import."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or name, name
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id, ""
    elif isinstance(node, ast.arg):
        yield node.arg, ""
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, ""


@lru_cache(maxsize=8)  # as above: each rule that asks for names reads the same list
def dotted_uses(tree: ast.Module) -> tuple[tuple[ast.expr | ast.alias, str], ...]:
    """What a file imports, reads as an attribute of it, or calls, with dotted names: an alias, attribute or call.

    What is read only if it is there (in a ``try``, after ``hasattr``, below a test of a version) is left out.
    """
    imported = imported_names(tree)
    uses: list[tuple[ast.expr | ast.alias, str]] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Try) or (isinstance(node, ast.If | ast.IfExp) and _asks_what_there_is(node.test)):
            continue
        if isinstance(node, ast.ImportFrom) and not node.level:
            known = (alias for alias in node.names if imported.get(alias.asname or alias.name))
            uses.extend((alias, f"{node.module}.{alias.name}") for alias in known)
        elif isinstance(node, ast.Attribute | ast.Call) and (dotted := dotted_name(node, imported)):
            uses.append((node, dotted))
        pending.extend(reversed(list(ast.iter_child_nodes(node))))
    return tuple(uses)


def _asks_what_there_is(test: ast.expr) -> bool:
    names = [getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(test)]
    return any(name == "hasattr" or "version" in name.lower() for name in names)


def dotted_name(node: ast.Attribute | ast.Call, imported: Mapping[str, str]) -> str:
    """The dotted name of an attribute that is read, or of what is called."""
    parts: list[str] = []
    inner = node.func if isinstance(node, ast.Call) else node
    while isinstance(inner, ast.Attribute):
        if not isinstance(inner.ctx, ast.Load):
            return ""
        parts.append(inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in imported:
        return ""
    return ".".join((imported[inner.id], *reversed(parts)))


def _watches_nothing(item: ast.withitem) -> bool:
    """Whether what a ``with`` enters leaves alone what its statements raise, and how long they take."""
    called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr
    return ast.unparse(called).rpartition(".")[2] in _NOT_WATCHING


def statements_for_their_value(tree: ast.Module) -> Iterator[ast.Attribute | ast.Call]:
    """The attributes and calls that are statements by themselves, outside of what may watch them, as ``try`` does."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute | ast.Call):
            yield node.value
        may_watch = isinstance(node, ast.With) and not all(_watches_nothing(item) for item in node.items)
        if not isinstance(node, ast.Try | ast.expr) and not may_watch:
            pending.extend(reversed(list(ast.iter_child_nodes(node))))
