"""What astroid infers where the interpreter cannot resolve the base classes of a class of the project.

It is asked rarely, about one file at a time as it stands in the project, and opens no other: whatever a file imports
is an import error to it. Answers therefore depend on the text of the file alone.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from dllint.values import External, Scope, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.module import SourceModule

Answers = dict[int, list[str]]  # by the line of a class: what its bases are, empty where that is not known

_MAX_CLASSES = 50  # of one file
_answers: WeakKeyDictionary[SourceModule, Answers] = WeakKeyDictionary()


def infer_bases(machine: Machine, node: ast.ClassDef, scope: Scope) -> list[Value | None] | None:
    """What astroid makes of the bases of a class: project classes, library names, or ``None`` for each unknown one."""
    module = scope.module
    if not any(_is_of_this_file(module, base) for base in node.bases):
        return None
    if module not in _answers:
        _answers[module] = _ask(module)
    found = _answers[module].get(node.lineno)
    return None if found is None else [_value_of(machine, module, name) for name in found]


def _is_of_this_file(module: SourceModule, base: ast.expr) -> bool:
    """Whether an expression starts from something that the file itself or Python defines, and not from an import."""
    head = base
    while not isinstance(head, ast.Name):
        if isinstance(head, ast.Attribute | ast.Subscript):
            head = head.value
        elif isinstance(head, ast.Call):
            head = head.func
        else:
            return False
    bound = module.bindings.names.get(head.id)
    if bound is None:
        return hasattr(builtins, head.id) and head is not base
    return not all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in bound)


def _ask(module: SourceModule) -> Answers:
    """The bases of the first classes of a file: names of the file, or dotted names of Python's own."""
    from astroid import nodes
    from astroid.manager import AstroidManager

    path = str(module.file)
    with _without_imports():
        try:
            tree = AstroidManager().ast_from_string(module.source.text, filepath=path)
        except Exception:  # astroid fails in many ways on unusual code (assertions among them): it has no opinion then
            return {}
        classes = list(tree.nodes_of_class(nodes.ClassDef))[:_MAX_CLASSES]
        return {cls.lineno: [_infer(base, path) for base in cls.bases] for cls in classes}


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


def _infer(base: Any, path: str) -> str:
    """The class that an expression certainly is: one of this file, or a builtin one."""
    from astroid import nodes

    try:
        inferred = list(base.infer())
    except Exception:  # as above
        return ""
    if len(inferred) != 1 or not isinstance(inferred[0], nodes.ClassDef):
        return ""
    cls = inferred[0]
    return str(cls.name if cls.root().file == path else cls.qname())


def _value_of(machine: Machine, module: SourceModule, name: str) -> Value | None:
    from dllint.interp.run.names import module_attribute

    if "." in name:
        return External(machine.facts.canonical(name))
    return module_attribute(machine, module, name) if name else None
