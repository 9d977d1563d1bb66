"""What code tells about the releases it was written for: what later ones refuse, or have no more."""

from __future__ import annotations

import ast
import re
from weakref import WeakKeyDictionary

from dllint.interp.source.module import OF_PYTHON_2, UNPARSABLE, SourceModule
from dllint.interp.source.trees import walk

# What may be a clue, found fast; whether it is one is told by the syntax tree.
MAY_BE_CLUE = re.compile(
    r"(?m)^[ \t]*(?:print|exec)[ \t]+[\w'\"%(]|\b(?:xrange|raw_input|unicode)\b|\basync\s*=|\.data\[0\]|except .*,.*:"
)
_NAMES_OF_PYTHON_2 = frozenset(("unicode", "xrange", "raw_input"))
_FOR_BOTH = frozenset(("version_info", "six", "PY2", "PY3", "builtins", "past", "future"))
_ASYNC = re.compile(r"[(,]\s*async\s*=\s*(?:True|False)\b")
_NUMBER_OF = re.compile(r"loss|cost|err|criterion", re.IGNORECASE)


_known: WeakKeyDictionary[SourceModule, frozenset[str]] = WeakKeyDictionary()  # all of a project are asked again


def clues_in(module: SourceModule) -> frozenset[str]:
    """``python 2`` and ``async`` for what Python 3, or Python 3.7, cannot run, ``item`` for `loss.data[0]`.

    Names that the file binds itself are none, nor is anything in a file that is for both versions of Python.
    """
    found = _known.get(module)
    if found is None:
        found = _known[module] = _clues_in(module)
    return found


def _clues_in(module: SourceModule) -> frozenset[str]:
    if not module.contains(MAY_BE_CLUE):
        return frozenset()
    try:
        tree = module.tree
    except UNPARSABLE:
        return _refused(module)
    nodes = list(walk(tree))
    found = set(_refused(module))
    if any(isinstance(node, ast.Subscript) and _is_number_read(node) for node in nodes):
        found.add("item")
    names = {node.id for node in nodes if isinstance(node, ast.Name)} & _NAMES_OF_PYTHON_2
    if module.words.isdisjoint(_FOR_BOTH) and any(not module.binds(name) for name in names):
        found.add("python 2")
    return frozenset(found)


def _refused(module: SourceModule) -> frozenset[str]:
    """The clue in what Python cannot parse."""
    error = module.syntax_error
    if error is None:
        return frozenset()
    if str(error.msg).startswith(OF_PYTHON_2):
        return frozenset(["python 2"])
    return frozenset(["async"]) if _ASYNC.search(error.text or "") else frozenset()


def _is_number_read(node: ast.Subscript) -> bool:
    """Whether the number of a loss is read by an index: ``loss.data[0]``, ``self.total_loss.data[0]``."""
    data = node.value
    if not (isinstance(data, ast.Attribute) and data.attr == "data" and isinstance(node.ctx, ast.Load)):
        return False
    is_first = isinstance(node.slice, ast.Constant) and node.slice.value == 0 and node.slice.value is not False
    owner = getattr(data.value, "attr", getattr(data.value, "id", ""))
    return is_first and bool(_NUMBER_OF.search(str(owner)))
