"""What astroid infers where the interpreter cannot resolve the base classes of a class of the project.

It is asked rarely, about one file at a time as it stands in the project, and opens no other: whatever a file imports
is an import error to it. Answers therefore depend on the text of the file alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dllint.values import External, Scope, Value

if TYPE_CHECKING:
    from dllint.interp.machine import Machine
    from dllint.interp.project import SourceModule

_MAX_CLASSES = 50  # of one file


def infer_bases(machine: Machine, node: ast.ClassDef, scope: Scope) -> list[Value | None] | None:
    """What astroid makes of the bases of a class: project classes, library names, or ``None`` for each unknown one."""
    if not all(isinstance(base, ast.Name | ast.Attribute | ast.Call | ast.Subscript) for base in node.bases):
        return None
    found = _classes(scope.module).get(node.lineno)
    if found is None:
        return None
    with _without_imports():
        return [_infer(machine, scope.module, base) for base in found.bases]


@lru_cache(maxsize=4)
def _classes(module: SourceModule) -> dict[int, Any]:
    """The first classes of a file as astroid has them, by the line of their ``class`` or first decorator."""
    from astroid import nodes
    from astroid.manager import AstroidManager

    try:
        with _without_imports():
            tree = AstroidManager().ast_from_string(module.source.text, filepath=str(module.file))
    except Exception:  # astroid fails in many ways on unusual code (assertions among them): it has no opinion then
        return {}
    classes = list(tree.nodes_of_class(nodes.ClassDef))
    return {cls.lineno: cls for cls in classes[:_MAX_CLASSES]}


@contextmanager
def _without_imports() -> Iterator[None]:
    """Let astroid import nothing but the builtins for a while."""
    from astroid.exceptions import AstroidImportError
    from astroid.manager import AstroidManager

    original = AstroidManager.ast_from_module_name

    def only_builtins(manager: Any, name: str | None, *args: Any, **options: Any) -> Any:
        if name != "builtins":
            raise AstroidImportError(f"{name} is another file")
        return original(manager, name, *args, **options)

    AstroidManager.ast_from_module_name = only_builtins
    try:
        yield
    finally:
        AstroidManager.ast_from_module_name = original


def _infer(machine: Machine, module: SourceModule, base: Any) -> Value | None:
    """The class that an expression certainly is: one of this file, or a builtin one."""
    from astroid import nodes

    from dllint.interp.names import module_attribute

    try:
        inferred = list(base.infer())
    except Exception:  # as above
        return None
    if len(inferred) != 1 or not isinstance(inferred[0], nodes.ClassDef):
        return None
    cls = inferred[0]
    if cls.root().file == str(module.file):
        return module_attribute(machine, module, cls.name)
    return External(machine.facts.canonical(cls.qname()))
