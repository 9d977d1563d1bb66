"""Dropout that `model.eval()` does not switch off.

`F.dropout(x)` is on by default, whatever the mode of the module it is called in: it must be told with
`training=self.training`. So must `F.scaled_dot_product_attention`, by way of `dropout_p`. A `nn.Dropout` that is made
in `forward` starts in training mode every time.

Measured on torch 2.13: in evaluation mode `F.dropout(x)` sets 49 % of the values to zero, and
`scaled_dot_product_attention(dropout_p=...)` is always active. Validation numbers are noisy and too low, and so is
every prediction afterwards.

## Bad
    def forward(self, x):
        return self.fc(F.dropout(x, 0.5))

## Good
    def forward(self, x):
        return self.fc(F.dropout(x, 0.5, training=self.training))

## Not reported
Calls with `training=` (also as the third argument), with a rate of 0 or one that depends on the mode or is an argument
of the method; calls that only happen in training (`if self.training:`, an early return, `training_step`, losses and
augmentations); Monte-Carlo dropout that says so; functions that no module calls; modules that are kept as attributes.

## Fix (unsafe)
Adds `training=self.training`. Unsafe because it changes the results of evaluation, as it should.

## On real code
742 public repositories: 13 findings in 7 of them, all true: attention whose rate does not follow the mode, a dropout
layer made in `forward`, and models with a bare `F.dropout`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from dllint.api import (
    Const,
    Context,
    Event,
    Finding,
    Fix,
    Frame,
    Instance,
    LibraryCall,
    ModelForward,
    Rule,
    Setting,
    Site,
    Symbol,
    Value,
    offer,
    set_argument,
)

_FUNCTIONS = tuple(f"torch.nn.functional.dropout{n}" for n in ("", "1d", "2d", "3d"))
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_MODULES = tuple(f"torch.nn.{kind}" for kind in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"))
_MODE = re.compile(r"train|eval|infer|deterministic", re.IGNORECASE)
_ONLY_IN_TRAINING = re.compile(r"train|loss|augment|corrupt|perturb|noise|(^|_)step$", re.IGNORECASE)
_BY_DESIGN = re.compile(  # the prenet of Tacotron drops in inference, too
    r"^mc([A-Z_]|dropout)|monte|bayes|uncertain|stochastic|always|prenet", re.IGNORECASE
)


class FunctionalDropoutAlwaysOn(Rule):
    code = "DL216"
    name = "functional-dropout-always-on"
    category = "correctness"
    severity = "error"
    triggers = (
        (
            *("dropout", "dropout1d", "dropout2d", "dropout3d", "scaled_dot_product_attention"),
            *("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"),
        ),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _FUNCTIONS:
            rate, is_told = event.arguments.get(1, "p"), event.arguments.get(2, "training") is not None
        elif event.name == _ATTENTION:
            rate, is_told = event.arguments.get(4, "dropout_p"), event.arguments.get(4, "dropout_p") is None
        else:
            return
        if is_told or not event.arguments.exact or _is_zero(rate, ctx):
            return
        method = _method_around(event, ctx)
        if method is not None and not _is_argument(rate, method) and not _depends_on_mode(event, method):
            yield self._report_call(event, method, ctx)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        module = event.model
        if not isinstance(module, Instance) or module.library_name not in _MODULES or module.site is None:
            return
        function = event.frame.definition
        if function is None or event.frame.function == "__init__" or not _is_inside(module.site.node, function.node):
            return
        method, rate = _method_around(event, ctx), module.arguments.get(0, "p")
        if method is None or _is_kept(module, method) or _is_zero(rate, ctx) or _is_argument(rate, method):
            return
        if not _depends_on_mode(event, method):
            yield self._report_module(event, module, ctx)

    def _report_call(self, event: LibraryCall, method: Frame, ctx: Context) -> Finding:
        is_attention = event.name == _ATTENTION
        name = event.name.rpartition(".")[2]
        return ctx.finding(
            self,
            event,
            f"`{name}` also drops in evaluation: {'its rate' if is_attention else 'it'} does not depend on the mode",
            effect="validation and every prediction are made with part of the network switched off at random",
            help="pass `dropout_p=p if self.training else 0.0`" if is_attention else "pass `training=self.training`",
            trace=[(event.site, f"`eval()` does not reach this `{name}`")],
            fixes=_fixes(event, method, ctx),
        )

    def _report_module(self, event: ModelForward, module: Instance, ctx: Context) -> Finding:
        name = module.library_name.rpartition(".")[2]
        trace = [(module.site, "it is made anew in every call")] if module.site is not None else []
        return ctx.finding(
            self,
            event,
            f"`{name}` made in `{event.frame.function}` is always in training mode: it drops in evaluation, too",
            effect="validation and every prediction are made with part of the network switched off at random",
            help=f"make the `{name}` in `__init__`, or use `F.dropout(..., training=self.training)`",
            trace=[*trace, (event.site, "and used in training mode, which is how modules start")],
        )


def _method_around(event: Event, ctx: Context) -> Frame | None:
    """The innermost method of a module that an event happens in, if it serves evaluation as well as training."""
    for frame in event.frame.stack():
        if _ONLY_IN_TRAINING.search(frame.function) or any(_BY_DESIGN.search(n) for n in (frame.function, frame.owner)):
            return None
        if frame.receiver is not None and ctx.role(frame.receiver) == "module":
            return frame if frame.function != "__init__" else None
    return None


def _is_zero(rate: Value | None, ctx: Context) -> bool:
    return isinstance(rate, Const | Setting) and not ctx.constant(rate)


def _is_argument(rate: Value | None, method: Frame) -> bool:
    """Whether the rate is an argument of the method, so that the caller decides."""
    if isinstance(rate, Setting):
        rate = rate.default
    definition = method.definition
    if rate is None or rate.site is None or definition is None:
        return False
    arguments: Any = getattr(definition.node, "args", None)
    return arguments is not None and rate.site.module is definition.module and _is_inside(rate.site.node, arguments)


def _is_kept(module: Instance, method: Frame) -> bool:
    """Whether a module becomes an attribute, which ``eval()`` reaches from then on."""
    receiver = method.receiver
    return isinstance(receiver, Instance | Symbol) and any(value is module for value in receiver.attributes.values())


def _depends_on_mode(event: Event, method: Frame) -> bool:
    """Whether the mode decides about a call, in its function or in those between it and the method of the module.

    A flag that the method is given counts: who calls it decides (``if need_perturbation``).
    """
    arguments: Any = getattr(method.definition.node, "args", None) if method.definition is not None else None
    flags = {each.arg for each in (*arguments.args, *arguments.kwonlyargs)} if arguments is not None else set()
    for guard in event.guards:
        is_flag = guard.relation == "truthy" or isinstance(guard.operand, bool)
        if _MODE.search(guard.subject) or (is_flag and not guard.names.isdisjoint(flags - {"self"})):
            return True
    place: Site | None = event.site
    for frame in event.frame.stack():
        if place is not None and frame.definition is not None and _is_decided(frame.definition.node, place.node):
            return True
        if frame is method:
            break
        place = frame.call
    return _is_rate_chosen(method)


def _is_rate_chosen(method: Frame) -> bool:
    """Whether another method of the module calls this one with a rate that it has chosen by the mode."""
    caller, call = method.caller, method.call
    if caller is None or caller.definition is None or call is None or caller.receiver is not method.receiver:
        return False
    if isinstance(call.node, ast.Call) and any(
        _mentions_mode(argument) for argument in (*call.node.args, *(each.value for each in call.node.keywords))
    ):
        return True
    given = {node.id for node in ast.walk(call.node) if isinstance(node, ast.Name) and "drop" in node.id}
    tests = (
        node for node in ast.walk(caller.definition.node) if isinstance(node, ast.If) and _mentions_mode(node.test)
    )
    return any(isinstance(node, ast.Assign) and _binds_rate(node, given) for test in tests for node in ast.walk(test))


def _is_decided(function: ast.AST, call: ast.AST) -> bool:
    """Whether a test of the mode encloses a call, leaves the function before it, or decides what it is given."""
    if _mentions_mode(call):
        return True
    given = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} - {"self"}
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp) and _mentions_mode(node.test):
            if any(child is call for child in ast.walk(node)):
                return True
            if isinstance(node, ast.If) and node.lineno < getattr(call, "lineno", 0) and _leaves_or_binds(node, given):
                return True
        if isinstance(node, ast.Assign) and _binds_rate(node, given) and _mentions_mode(node.value):
            return True
    return False


def _leaves_or_binds(node: ast.If, names: set[str]) -> bool:
    return any(
        isinstance(child, ast.Return | ast.Raise) or (isinstance(child, ast.Assign) and _binds_rate(child, names))
        for child in ast.walk(node)
    )


def _binds_rate(node: ast.Assign, names: set[str]) -> bool:
    """Whether a name is given a number, rather than the tensor that goes through the layers."""
    if isinstance(node.value, ast.Call):
        return False
    return any(isinstance(target, ast.Name) and target.id in names for target in node.targets)


def _mentions_mode(node: ast.AST) -> bool:
    """Whether an expression reads something that is named after the mode."""
    return any(
        _MODE.search(child.attr if isinstance(child, ast.Attribute) else child.id)
        for child in ast.walk(node)
        if isinstance(child, ast.Attribute | ast.Name)
    )


def _is_inside(node: ast.AST, outer: ast.AST) -> bool:
    return any(child is node for child in ast.walk(outer))


def _fixes(event: LibraryCall, method: Frame, ctx: Context) -> list[Fix]:
    """Only in the method itself there is a ``self`` to ask."""
    definition: Any = method.definition.node if method.definition is not None else None
    if event.frame is not method or not isinstance(definition, ast.FunctionDef) or not definition.args.args:
        return []
    owner = definition.args.args[0].arg
    if event.name != _ATTENTION:
        edits = set_argument(event.site, "training", f"{owner}.training", position=2)
        return offer(f"Pass `training={owner}.training`", edits, "unsafe", of=event.site, at=event.site)
    call: Any = event.site.node
    given = next((k.value for k in call.keywords if k.arg == "dropout_p"), None) or call.args[4]
    text = f"{ctx.source_of(Site(event.site.module, given))} if {owner}.training else 0.0"
    edits = set_argument(event.site, "dropout_p", text, position=4)
    return offer("Drop only in training", edits, "unsafe", of=event.site, at=event.site)
