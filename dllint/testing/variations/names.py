"""Variations of names: imports under other names, and no short names at all."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping

from dllint.dataclass import dataclass
from dllint.findings import Edit
from dllint.testing.variations.source import Code, code_of, imports_of, module_name

_ALIASES = {"torch": "th", "nn": "tnn", "F": "FX", "np": "num", "optim": "topt", "transforms": "tvt"}
_MODULES = frozenset(
    (
        "torch.nn",
        "torch.nn.functional",
        "torch.optim",
        "torch.optim.lr_scheduler",
        "torch.utils.data",
        "torchvision.datasets",
        "torchvision.models",
        "torchvision.transforms",
        "torchvision.transforms.v2",
    )
)


@dataclass(frozen=True, slots=True)
class _Import:
    """One name that an import statement binds. ``target`` is the full name of what it means."""

    statement: ast.Import | ast.ImportFrom
    alias: ast.alias
    name: str
    target: str


_Vary = Callable[[Code, list[_Import], frozenset[str]], Iterator[Edit]]


def with_aliases(files: Mapping[str, str]) -> dict[str, str] | None:
    """``import torch as th``, ``from torch.nn import functional as FX``: every import under another name."""
    return _varied(files, _aliased)


def with_full_names(files: Mapping[str, str]) -> dict[str, str] | None:
    """``torch.nn.functional.softmax``: every library name in full, every import without ``from`` and ``as``."""
    return _varied(files, _in_full)


def _varied(files: Mapping[str, str], vary: _Vary) -> dict[str, str] | None:
    codes = {name: code_of(text) for name, text in files.items()}
    if any(code.is_dynamic for code in codes.values()):
        return None
    own = frozenset(module_name(name).partition(".")[0] for name in files)
    varied = {}
    for name, code in codes.items():
        others = [other for file, other in codes.items() if file != name]
        kept = frozenset() if name.endswith("__init__.py") else _used_elsewhere(others, own)
        imports = [] if name.endswith("__init__.py") else list(_renamable(code, kept))
        varied[name] = code.edited(vary(code, imports, own))
    return varied if varied != dict(files) else None


def _used_elsewhere(others: Iterable[Code], own: frozenset[str]) -> frozenset[str]:
    """The names that other files take from files of the project, by ``from`` or as attributes of a module."""
    names: set[str] = set()
    for code in others:
        modules = set()
        for statement in imports_of(code):
            root = (getattr(statement, "module", None) or "").partition(".")[0]
            for alias in statement.names:
                if getattr(statement, "level", 0) or (root or alias.name.partition(".")[0]) in own:
                    names.add(alias.name)
                    modules.add(alias.asname or alias.name.partition(".")[0])
        names.update(
            node.attr
            for node in code.nodes
            if isinstance(node, ast.Attribute) and any(_is_name(part, modules) for part in ast.walk(node))
        )
    return frozenset(names)


def _is_name(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _renamable(code: Code, kept: frozenset[str]) -> Iterator[_Import]:
    """The names of a module that only imports bind and nothing else asks for."""
    taken = kept | code.names_in_strings | code.otherwise_bound
    for statement in imports_of(code):
        for alias in statement.names:
            name = alias.asname or alias.name.partition(".")[0]
            if name in taken or getattr(statement, "module", None) == "__future__":
                continue
            if isinstance(statement, ast.Import):
                yield _Import(statement, alias, name, alias.name if alias.asname else name)
            else:
                yield _Import(statement, alias, name, f"{'.' * statement.level}{statement.module or ''}.{alias.name}")


def _aliased(code: Code, imports: list[_Import], own: frozenset[str]) -> Iterator[Edit]:
    plain = [item for item in imports if item.alias.asname or "." not in item.alias.name]  # not `import torch.nn`
    news = {name: code.fresh(_ALIASES.get(name, f"{name}_")) for name in sorted({item.name for item in plain})}
    for item in plain:
        yield _other_form(code, item, news[item.name], own)
    yield from _renamed(code, news)


def _other_form(code: Code, item: _Import, new: str, own: frozenset[str]) -> Edit:
    """The import under the new name; where it can be, ``import a.b as c`` as ``from a import b as c`` or back."""
    alone = len(item.statement.names) == 1 and item.statement.lineno == item.statement.end_lineno
    package, _, last = item.alias.name.rpartition(".")
    if alone and isinstance(item.statement, ast.Import) and package and package.partition(".")[0] not in own:
        return code.replace(item.statement, f"from {package} import {last} as {new}")
    if alone and item.target in _MODULES:
        return code.replace(item.statement, f"import {item.target} as {new}")
    return code.replace(item.alias, f"{item.alias.name} as {new}")


def _in_full(code: Code, imports: list[_Import], own: frozenset[str]) -> Iterator[Edit]:
    statements = {item.statement for item in imports}
    while True:  # until all names of a statement can be replaced wherever they are bound
        kept_names = {item.name for item in imports if item.statement not in statements}
        kept_names |= {item.name for item in imports if not _can_be_in_full(code, item, imports, own)}
        replaceable = {
            statement
            for statement in statements
            if kept_names.isdisjoint(alias.asname or alias.name.partition(".")[0] for alias in statement.names)
        }
        if replaceable == statements:
            break
        statements = replaceable
    for statement in statements:
        items = [item for item in imports if item.statement is statement]
        if len(items) == len(statement.names):
            yield code.replace(statement, _plain_import(items))
    yield from _renamed(code, {item.name: item.target for item in imports if item.statement in statements})


def _can_be_in_full(code: Code, item: _Import, imports: list[_Import], own: frozenset[str]) -> bool:
    """Whether an imported name means one thing of a library, whose own name is free for it."""
    root = item.target.partition(".")[0]
    targets = {other.target for other in imports if other.name == item.name}
    at_root = {other.target for other in imports if other.name == root}
    bound = code.otherwise_bound | code.names_in_strings
    is_local = item.statement in code.local_imports
    is_free = root not in bound and (at_root <= {root} or at_root == {item.target})
    return bool(root) and root not in own and len(targets) == 1 and is_free and not is_local


def _plain_import(items: list[_Import]) -> str:
    statement = items[0].statement
    if isinstance(statement, ast.Import):
        return "import " + ", ".join(item.alias.name for item in items)
    modules = [item.target if item.target in _MODULES else statement.module or "" for item in items]
    return "import " + ", ".join(dict.fromkeys(modules))


def _renamed(code: Code, news: Mapping[str, str]) -> Iterator[Edit]:
    for node in code.nodes:
        if isinstance(node, ast.Name) and node.id in news:
            yield code.replace(node, news[node.id])
