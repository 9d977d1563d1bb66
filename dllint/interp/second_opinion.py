"""What astroid infers where the interpreter cannot resolve the base classes of a class of the project.

It is asked rarely, only about files of the project, and never opens a library: a module outside the project's root
is an import error to it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllint.values import External, Scope, Value

if TYPE_CHECKING:
    from dllint.interp.machine import Machine

_MAX_QUESTIONS = 6
_asked: dict[str, int] = {}


def infer_bases(machine: Machine, node: ast.ClassDef, scope: Scope) -> list[Value | None] | None:
    """What astroid makes of the bases of a class: project classes, library names, or ``None`` for each unknown one."""
    path = scope.module.path
    if not all(isinstance(base, ast.Name | ast.Attribute | ast.Call | ast.Subscript) for base in node.bases):
        return None
    if _asked.get(path, 0) >= _MAX_QUESTIONS:
        return None
    _asked[path] = _asked.get(path, 0) + 1
    tree = _tree(machine, scope.module)
    if tree is None:
        return None
    found = next((cls for cls in tree.nodes_of_class(_class_type()) if cls.lineno == node.lineno), None)
    if found is None:
        return None
    return [_infer(machine, base) for base in found.bases]


def _class_type() -> Any:
    from astroid import nodes

    return nodes.ClassDef


def _tree(machine: Machine, module: Any) -> Any:
    manager = _manager(machine.project.root)
    from astroid.exceptions import AstroidError

    try:
        return manager.ast_from_file(str(module.file), module.file.stem, source=True)
    except (AstroidError, RecursionError):
        return None


_managers: dict[Path, Any] = {}


def _manager(root: Path) -> Any:
    """A manager that sees the project and nothing else."""
    manager = _managers.get(root)
    if manager is None:
        from astroid.exceptions import AstroidImportError
        from astroid.manager import AstroidManager

        manager = AstroidManager()
        original = manager.ast_from_file

        def inside_only(filepath: str, *args: Any, **kwargs: Any) -> Any:
            if root not in Path(filepath).resolve().parents:
                raise AstroidImportError(f"{filepath} is not in the project")
            return original(filepath, *args, **kwargs)

        manager.ast_from_file = inside_only
        _managers[root] = manager
    return manager


def _infer(machine: Machine, base: Any) -> Value | None:
    from astroid import nodes
    from astroid.exceptions import AstroidError

    try:
        inferred = list(base.infer())
    except (AstroidError, RecursionError):
        return None
    classes = [value for value in inferred if isinstance(value, nodes.ClassDef)]
    if len(inferred) != 1 or len(classes) != 1:
        return None
    return _value_of(machine, classes[0])


def _value_of(machine: Machine, cls: Any) -> Value | None:
    """The project class that astroid found, or the library class that it derives from by name."""
    from dllint.interp.names import module_attribute

    file = Path(cls.root().file or "")
    module = machine.project.module(file) if file.suffix == ".py" else None
    if module is not None:
        return module_attribute(machine, module, cls.name)
    return External(machine.facts.canonical(cls.qname()))
