"""Names of libraries as a file writes them: what its imports bind, and where what is bound is used."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import children, walk

KNOWN = sys.stdlib_module_names | {  # modules that are not of the project, whatever its files are called
    "torch", "torchvision", "torchaudio", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "cv2", "PIL",
    "tensorflow", "transformers", "pytorch_lightning", "lightning",
}  # fmt: skip
ALSO_KNOWN = frozenset(("clip", "datasets", "evaluate", "peft", "tokenizers", "trl"))  # names that files have, too
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
    nodes = nodes_of(tree)
    attempted = {id(inner) for node in nodes.of(ast.Try) for inner in walk(node)}
    for statement in nodes.of(ast.Import, ast.ImportFrom):
        for name, dotted in _bound(statement):
            times[name] += 2 if id(statement) in attempted else 1 if found.get(name) != dotted else 0
            found[name] = dotted
    definitions = nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    others = {node.arg for node in nodes.of(ast.arg)} | {node.name for node in definitions}
    others |= {name for name in found if any(isinstance(node.ctx, ast.Store) for node in nodes.names.get(name, ()))}
    return {name: dotted for name, dotted in found.items() if times[name] == 1 and name not in others}


@lru_cache(maxsize=8)
def all_imported_as(tree: ast.Module) -> Mapping[str, frozenset[str]]:
    """All that each name may be which imports of a file bind: one of several, where a condition chooses one."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for statement in nodes_of(tree).of(ast.Import, ast.ImportFrom):
        for name, dotted in _bound(statement):
            found[name].add(dotted)
    return {name: frozenset(dotted) for name, dotted in found.items()}


def prefixes(dotted: str) -> Iterator[str]:
    """A dotted name and the packages that it is in, the outermost first: `models`, then `models.gat`."""
    parts = dotted.split(".")
    yield from (".".join(parts[:size]) for size in range(1, len(parts) + 1))


def _bound(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, with the dotted names of what they are."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or name, name
    elif not statement.level:
        yield from ((alias.asname or alias.name, f"{statement.module}.{alias.name}") for alias in statement.names)


@lru_cache(maxsize=8)  # as above: each rule that asks for names reads the same list
def dotted_uses(tree: ast.Module) -> tuple[tuple[ast.expr | ast.alias, str], ...]:
    """What a file imports, reads as an attribute of it, or calls, with dotted names: an alias, attribute or call.

    What is read only if it is there (in a ``try``, after ``hasattr``, below a test of a version) is left out.
    """
    imported = imported_names(tree)
    nodes, guarded = nodes_of(tree), guarded_nodes(tree)
    uses: list[tuple[ast.expr | ast.alias, str]] = []
    for node in nodes.of(ast.ImportFrom):
        known = (alias for alias in node.names if not node.level and imported.get(alias.asname or alias.name))
        uses.extend((alias, f"{node.module}.{alias.name}") for alias in known if id(node) not in guarded)
    named = ((node, dotted_name(node, imported)) for node in nodes.of(ast.Attribute, ast.Call))
    uses.extend((node, dotted) for node, dotted in named if dotted and id(node) not in guarded)
    return tuple(sorted(uses, key=_position))


def plain_imports(tree: ast.Module) -> Iterator[tuple[ast.alias, str]]:
    """The modules that a file imports as such (``import gdal``), but for what it may do without."""
    guarded = guarded_nodes(tree)
    for statement in nodes_of(tree).of(ast.Import):
        if id(statement) not in guarded:
            yield from ((alias, alias.name) for alias in statement.names)


@lru_cache(maxsize=8)  # as above
def guarded_nodes(tree: ast.Module) -> frozenset[int]:
    """What runs only if it works, by `id`: in a ``try``, after ``hasattr``, below a test of a version, or in place of
    what ``getattr(module, name, None)`` did not find."""
    nodes, found = nodes_of(tree), _looked_up(tree)
    tests = (node for node in nodes.of(ast.If, ast.IfExp) if _asks_what_there_is(node.test, found))
    parts = (
        node for node in nodes.of(ast.BoolOp) if any(_asks_what_there_is(each, found) for each in node.values[:-1])
    )
    return frozenset(id(inner) for node in (*nodes.of(ast.Try), *tests, *parts) for inner in walk(node))


def _looked_up(tree: ast.Module) -> frozenset[str]:
    """The lookups in imported modules that have a default (``getattr(np, "trapezoid", None)``), and variables that are
    assigned one, as they are written."""
    nodes, imported = nodes_of(tree), imported_names(tree)
    calls = [call for call in nodes.of(ast.Call) if len(call.args) == 3 and getattr(call.func, "id", "") == "getattr"]
    lookups = [call for call in calls if isinstance(call.args[0], ast.Name) and call.args[0].id in imported]
    made = {id(call) for call in lookups}
    assigned = (each.targets[0] for each in nodes.of(ast.Assign) if id(each.value) in made and len(each.targets) == 1)
    return frozenset(ast.unparse(each) for each in (*lookups, *assigned))


def _position(use: tuple[ast.expr | ast.alias, str]) -> tuple[int, ...]:
    """Where something stands; what begins there and is longer comes first."""
    node = use[0]
    return node.lineno, node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)


def _asks_what_there_is(test: ast.expr, found: frozenset[str]) -> bool:
    names = [getattr(node, "id", getattr(node, "attr", "")) for node in walk(test)]
    if any(name == "hasattr" or "version" in name.lower() for name in names):
        return True
    asked = test.operand if isinstance(test, ast.UnaryOp) else test.left if isinstance(test, ast.Compare) else test
    return bool(found) and ast.unparse(asked) in found


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
            pending += reversed(children(node))
