"""Learning rates: how they are written where their optimizers are used, and where code sets them by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.context.optimizers import Optimizers
from dllint.context.sources import Sources
from dllint.dataclass import dataclass
from dllint.events import Frame, OptimizerCreated
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk
from dllint.sites import Module, Site
from dllint.structure import Loop
from dllint.values import Instance, Value


@dataclass(frozen=True, slots=True)
class RateSetting:
    """A place where code writes the rate of parameters, and the call that leads there, if it is elsewhere."""

    site: Site
    call: Site | None


class Rates(Optimizers, Sources):
    """What the learning rates of optimizers are called, and who changes them."""

    def rate_names(self, created: OptimizerCreated) -> Iterator[tuple[Frame, str]]:
        """The names of the rate that an optimizer begins with: where it is made, and in the functions that ask for it.

        ``make_optimizer(model, args.lr)`` gives the rate the name ``args.lr``, and ``lr`` inside of the function.
        """
        optimizer = created.optimizer
        call = optimizer.site.node if isinstance(optimizer, Instance) and optimizer.site is not None else None
        written = _argument(call, 1, "lr") if isinstance(call, ast.Call) else None
        frame: Frame | None = created.frame
        while frame is not None and isinstance(written, ast.Name | ast.Attribute | ast.Subscript):
            yield frame, ast.unparse(written)
            written, frame = _given_as(written, frame), frame.caller

    def rate_setting(self, loop: Loop, optimizer: Value) -> RateSetting | None:
        """Where a loop, or a function of the project that it calls, sets the rate of an optimizer by hand."""
        name = self.name_of(optimizer).rpartition(".")[2]
        if not name:
            return None
        setting = _setting_in(loop.site.node, name)
        if setting is not None:
            return RateSetting(Site(loop.site.module, setting), None)
        functions = self._functions_with("param_groups")
        for call in (node for node in walk(loop.site.node) if isinstance(node, ast.Call)):
            called = getattr(call.func, "attr", getattr(call.func, "id", ""))
            for module, function in functions.get(called, ()):
                parameter = _parameter_for(name, call, function)
                setting = _setting_in(function, parameter) if parameter else None
                if setting is not None:
                    return RateSetting(Site(module, setting), Site(loop.site.module, call))
        return None

    def are_rates_written(self) -> bool:
        """Whether any code of the program's files writes the rate of a group of parameters (``group["lr"] = …``)."""
        nodes = (node for _, tree in self.trees("param_groups") for node in nodes_of(tree).of(ast.Subscript))
        written = (node for node in nodes if isinstance(node.ctx, ast.Store))
        return any(isinstance(node.slice, ast.Constant) and node.slice.value == "lr" for node in written)

    def _functions_with(self, word: str) -> dict[str, list[tuple[Module, ast.FunctionDef]]]:
        found: dict[str, list[tuple[Module, ast.FunctionDef]]] = {}
        for module, tree in self.trees(word):
            for node in nodes_of(tree).of(ast.FunctionDef):
                found.setdefault(node.name, []).append((module, node))
        return found


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    at_its_place = call.args[position] if len(call.args) > position else None
    is_exact = not any(isinstance(each, ast.Starred) for each in call.args[: position + 1])
    return next((each.value for each in call.keywords if each.arg == name), at_its_place if is_exact else None)


def _given_as(written: ast.expr, frame: Frame) -> ast.expr | None:
    """What the caller of a function gave as one of its parameters."""
    function = frame.definition.node if frame.definition is not None else None
    call = frame.call.node if frame.call is not None else None
    if not isinstance(written, ast.Name) or not isinstance(function, ast.FunctionDef) or not isinstance(call, ast.Call):
        return None
    names = _parameters(function)
    return _argument(call, names.index(written.id), written.id) if written.id in names else None


def _parameters(function: ast.FunctionDef) -> list[str]:
    """The parameters of a function as its callers count them."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] == ["self"] else names


def _parameter_for(name: str, call: ast.Call, function: ast.FunctionDef) -> str:
    """The parameter by which a function gets an object of some name."""
    names = _parameters(function)
    given = [(parameter, _argument(call, index, parameter)) for index, parameter in enumerate(names)]
    return next((parameter for parameter, each in given if each is not None and _last(each) == name), "")


def _setting_in(code: ast.AST, name: str) -> ast.expr | None:
    """Where code writes ``group["lr"]`` for a group of an optimizer."""
    groups = {
        node.target.id
        for node in walk(code)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and _is_groups(node.iter, name)
    }
    for node in walk(code):
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
            continue
        of_group = isinstance(node.value, ast.Name) and node.value.id in groups
        of_groups = isinstance(node.value, ast.Subscript) and _is_groups(node.value.value, name)
        if isinstance(node.slice, ast.Constant) and node.slice.value == "lr" and (of_group or of_groups):
            return node
    return None


def _is_groups(expression: ast.expr, name: str) -> bool:
    is_groups = isinstance(expression, ast.Attribute) and expression.attr == "param_groups"
    return is_groups and _last(expression.value) == name  # type: ignore[attr-defined]


def _last(expression: ast.expr) -> str:
    """The last name of a dotted one."""
    return getattr(expression, "attr", getattr(expression, "id", ""))
