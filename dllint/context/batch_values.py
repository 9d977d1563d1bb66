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
from dllint.interp.source.left_out_data import unread_variable
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.sites import Site
from dllint.structure import walk
from dllint.values import Class, Instance

_MAX_DEPTH = 3
_METERS = "torchmetrics"


class BatchValues(Scores):
    """What is computed with nothing but one batch."""

    def evaluated_on_training(self) -> Iterator[tuple[BatchLoop, Site, Site]]:
        """The evaluations between epochs that go over the loader that is trained on, while that for validation is there
        and nothing reads it: each with the variable that it is given, and where the other gets its value.

        None where some other loop goes over a loader of which no batches are trained on.
        """
        held_out = (loader for one in self.data.passes for loader in one.loaders if not self.data.is_trained_on(loader))
        if next(held_out, None) is not None:
            return
        for one in self.batch_loops if self.data.passes else ():
            for given in _variables_given(one) if self._is_between_epochs(one) and self._is_over_known(one) else ():
                name, module = given.node, given.module
                if isinstance(name, ast.Name) and isinstance(module, SourceModule) and _is_loader(name.id):
                    unread = unread_variable(name, module, "val", self._machine.project)
                    if unread is not None and self.speaks_of("training", name.id):
                        yield one, given, unread
                        break

    def _is_between_epochs(self, one: BatchLoop) -> bool:
        """Whether a loop evaluates what is trained in a loop around it: it computes a loss, or its function says so."""
        around = [loop for loop in self.loops_around(one.event) if loop is not one.loop]
        if one.event.grad != "off" or self.trains(one.loop) or not any(map(self.trains, around)):
            return False
        measures = any(isinstance(each, LossCall) for each in walk(one.loop.body))
        return measures or bool(self.evaluating_functions(one.event))

    def _is_over_known(self, one: BatchLoop) -> bool:
        return any(each.loop is one.loop and bool(each.loaders) for each in self.data.passes)

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


def _variables_given(one: BatchLoop) -> Iterator[Site]:
    """The variables that the function of a loop is given, or that it goes over where no function is called."""
    call, caller = one.loop.frame.call, one.loop.frame.caller
    if call is not None and caller is not None and isinstance(call.node, ast.Call):
        given = [*call.node.args, *(each.value for each in call.node.keywords)]
        yield from (Site(call.module, each) for each in given)
    else:
        yield from (one.site(each) for each in ast.walk(one.node.iter))


def _is_loader(name: str) -> bool:
    return any(word.endswith("loader") or word == "dl" for word in name.lower().split("_"))
