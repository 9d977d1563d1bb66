"""Variations of files: definitions of the main file in a module of their own, which the main file imports."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping

from dllint.testing.variations.source import (
    Code,
    Definition,
    code_of,
    first_line,
    is_imported,
    last_line,
    needs,
    share_lines,
)


def with_classes_elsewhere(files: Mapping[str, str]) -> dict[str, str] | None:
    """The classes of the main file in another one, as models often are."""
    return _moved(files, (ast.ClassDef,), "models_")


def with_functions_elsewhere(files: Mapping[str, str]) -> dict[str, str] | None:
    """The functions of the main file in another one, with the classes, as training steps often are."""
    return _moved(files, (ast.FunctionDef, ast.AsyncFunctionDef), "helpers_", (ast.ClassDef,))


_Kinds = tuple[type[ast.stmt], ...]


def _moved(files: Mapping[str, str], kinds: _Kinds, module: str, also: _Kinds = ()) -> dict[str, str] | None:
    """The files with definitions of some kinds, and those that go with them, in another module."""
    main, *others = files
    code = code_of(files[main])
    if code.is_dynamic or is_imported(main, [code_of(files[name]) for name in others]) or share_lines(code.tree.body):
        return None
    if any(isinstance(node, ast.Global) for node in code.nodes):
        return None
    definitions = _self_contained(code, kinds + also)
    if not any(isinstance(node, kinds) for node in definitions):
        return None
    lines = list(code.lines)
    there = [line for node in code.imports for line in lines[node.lineno - 1 : last_line(node)]]
    for node in definitions:
        span = slice(first_line(node) - 1, last_line(node))
        there += ["", "", *lines[span]]
        lines[span] = [""] * len(lines[span])
    names = ", ".join(node.name for node in definitions)
    lines[first_line(definitions[0]) - 1] = f"from {module} import {names}"
    return {**files, main: "\n".join(lines), f"{module}.py": "\n".join(there) + "\n"}


def _self_contained(code: Code, kinds: _Kinds) -> list[Definition]:
    """The definitions that need nothing of the module but its imports and each other, and are bound once."""
    bound = Counter(
        node.name if isinstance(node, Definition) else node.id
        for node in code.nodes
        if isinstance(node, Definition) or (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    )
    imported = {alias.asname or alias.name.partition(".")[0] for node in code.imports for alias in node.names}
    found = [node for node in code.tree.body if isinstance(node, Definition) and isinstance(node, kinds)]
    found = [node for node in found if bound[node.name] == 1]
    while True:
        elsewhere = code.module_names - imported - {node.name for node in found}
        rest = [node for node in found if elsewhere.isdisjoint(needs(node))]
        if len(rest) == len(found):
            return rest
        found = rest
