"""Values that a loop over batches computes of one batch alone: nothing on the way keeps what earlier batches gave."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.context.scores import BatchLoop, Scores
from dllint.events import LossCall, ModelForward
from dllint.interp.source.batch_calls import bound_in, calls_behind, may_keep, root_of
from dllint.interp.source.imported import imported_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.structure import walk
from dllint.values import Class, Instance

_MAX_DEPTH = 3
_METERS = "torchmetrics"


class BatchValues(Scores):
    """What is computed with nothing but one batch."""

    def assumed_of_batch(self, one: BatchLoop, value: ast.expr, name: str) -> Assumptions:
        """What the claim assumes that a value in a loop over batches is of one batch alone.

        Nothing is assumed where all that is called on the way to it is known to keep nothing: losses, models, functions
        of libraries, functions of the project that write to no object, and methods of what the batch has given.
        """
        events = [each for each in walk(one.loop.body) if isinstance(each, LossCall | ModelForward)]
        known = {id(each.site.node) for each in events if isinstance(each, LossCall) or _is_plain_model(each)}
        calls = calls_behind(value, one.node, known)
        module: Any = one.loop.site.module
        unknown = next((call for call in calls if not self._keeps_nothing(call, bound_in(one.node), module, 0)), None)
        if unknown is None:
            return ()
        called = ast.unparse(unknown.func)
        return (Assumption("effect", f"`{called}`, which `{name}` is computed by, keeps nothing of earlier batches"),)

    def _keeps_nothing(self, call: ast.Call, batch: frozenset[str], module: SourceModule, depth: int) -> bool:
        """Whether a call is known to keep nothing of what it is given; ``batch`` are the names that come from there."""
        function = call.func
        name = getattr(function, "attr", getattr(function, "id", ""))
        root = root_of(function)
        if isinstance(function, ast.Attribute) and root in batch:
            return True
        if self.speaks_of("called-for-each-batch", name):
            return True
        imported = imported_names(module.tree).get(root, "")
        if imported and not self._is_of_project(imported, module):
            return not imported.startswith(_METERS)
        if isinstance(function, ast.Name) and hasattr(builtins, name):
            return True
        found = list(self._definitions(name))
        is_of_result = not root and isinstance(function, ast.Attribute)  # the call that returns it is asked about, too
        return (bool(found) or is_of_result) and all(self._is_plain(each, home, depth) for each, home in found)

    def _is_plain(self, definition: ast.AST, home: SourceModule, depth: int) -> bool:
        """Whether a function of the project, and all that it calls, keeps nothing; to make an object keeps nothing."""
        if isinstance(definition, ast.ClassDef):
            return True
        if may_keep(definition) or depth > _MAX_DEPTH:
            return False
        batch = bound_in(definition)
        calls = nodes_of(definition).of(ast.Call)
        return all(self._keeps_nothing(each, batch, home, depth + 1) for each in calls)

    def _is_of_project(self, dotted: str, module: SourceModule) -> bool:
        """Whether an import leads to a file of the project."""
        project = self._machine.project
        package = dotted.rpartition(".")[0]
        return any(name and project.find(module, name) is not None for name in (dotted, package))

    def _definitions(self, name: str) -> Iterator[tuple[ast.AST, SourceModule]]:
        """The functions and classes of a name in the program's files."""
        project = self._machine.project
        files = [each for each in project.closure(self.program.module) if name in each.words]
        for module in project.reading_each(files):
            for node in nodes_of(module.tree).of(ast.FunctionDef, ast.ClassDef):
                if node.name == name:
                    yield node, module


def _is_plain_model(event: ModelForward) -> bool:
    """Whether a module is known, and does not write to itself when it is called."""
    model = event.model
    if not isinstance(model, Instance) or not isinstance(model.cls, Class):
        return isinstance(model, Instance) and model.library_name.startswith("torch.nn.")
    methods = nodes_of(model.cls.node).of(ast.FunctionDef)
    return not any(each.name in ("forward", "__call__") and may_keep(each) for each in methods)
