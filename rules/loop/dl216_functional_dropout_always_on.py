"""Dropout that `model.eval()` does not switch off.

`F.dropout(x)` is on by default, whatever the mode of the module it is called in: it must be told with
`training=self.training`. So must `F.scaled_dot_product_attention`, by way of `dropout_p`. A `nn.Dropout` that is made
in `forward` starts in training mode every time.

Measured on torch 2.13: in evaluation mode `F.dropout(x)` sets 49 % of the values to zero, and
`scaled_dot_product_attention(dropout_p=...)` is always active. Validation numbers are noisy and too low, and so is
every prediction afterwards.

`training=self.train` does not help: `self.train` is a method, which is true in both modes.

## Bad
    def forward(self, x):
        return self.fc(F.dropout(x, 0.5))

## Good
    def forward(self, x):
        return self.fc(F.dropout(x, 0.5, training=self.training))

## Not reported
Calls with another `training=` (also as the third argument), with a rate of 0 or one that is an argument of the method;
calls that only happen in training (`training_step`, losses and augmentations); Monte-Carlo dropout that says so; calls
about which the mode decides (`if self.training:`, an early return, a rate that depends on it); modules that are kept as
attributes; what happens once, as the module is made (weights that are thinned out); rates that other code sets in the
module (`model.head.dropout = 0` before an evaluation); functions that no module calls; projects for torch before 1.0,
where `F.dropout` is off by default. Nor is `training=self.train` where anything gives a `train` of its own to modules.
In a project that trains and never evaluates it is a question.

## Fix (unsafe)
Adds `training=self.training`. Unsafe because it changes the results of evaluation, as it should.

## On real code
742 public repositories: 13 findings in 7 of them, all true: attention whose rate does not follow the mode, a dropout
layer made in `forward`, and models with a bare `F.dropout`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from dllint.api import (
    Assumption,
    BoundMethod,
    Class,
    Const,
    Context,
    Edits,
    Event,
    Finding,
    Frame,
    Instance,
    LibraryCall,
    ModelForward,
    Rule,
    Setting,
    Site,
    Symbol,
    Value,
    set_argument,
)

_FUNCTIONS = tuple(f"torch.nn.functional.dropout{n}" for n in ("", "1d", "2d", "3d"))
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_MODULES = tuple(f"torch.nn.{kind}" for kind in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d"))
_HOLDERS = ("self", "args", "opt", "opts", "cfg", "config", "hparams", "params", "FLAGS")  # of settings, no modules
_OTHER_TRAIN = r"(?m)^\s+train\b[^(]*=|setattr|__dict__|__getattr|\bproperty\b"  # than that of all modules
_CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
_EFFECT = "validation and every prediction are made with part of the network switched off at random"


# ------------------------------------------------------------------------------------------------- excuses


def is_off_by_default(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """the project runs with torch before 1.0, whose functions do not drop unless they are told to"""
    return isinstance(event, LibraryCall) and event.name in _FUNCTIONS and not ctx.may_run_with("torch", "1.0")


def drops_nothing(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """the rate is zero"""
    return isinstance(rate, Const | Setting) and not ctx.constant(rate)


def has_its_rate_from_the_caller(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """the rate is an argument of the method, or of one that calls it in the module, so that the caller decides"""
    given = rate.default if isinstance(rate, Setting) else rate
    callers = list(takewhile(lambda frame: frame.receiver is method.receiver, method.stack()))
    if given is not None and given.site is not None and any(_is_argument(given.site, each, ctx) for each in callers):
        return True
    made = event.model.site if isinstance(event, ModelForward) and isinstance(event.model, Instance) else event.site
    told = _rate_told(made.node, event) if made is not None and event.frame is method else None
    for frame in callers:
        if not isinstance(told, ast.Name) or frame.definition is None or frame.function in _CONSTRUCTORS:
            return False
        name, function = told.id, frame.definition.node
        if name not in _names_of_parameters(function) or name in _bound_in(function):
            return False
        told = _passed(frame, name)
    return bool(callers)


def has_its_rate_set_by_others(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """the rate is an attribute that other code sets: `model.head.dropout = 0` before the evaluation"""
    told = _rate_told(event.site.node, event)
    if not isinstance(told, ast.Attribute) or not isinstance(told.value, ast.Name):
        return False
    others = "".join(rf"(?<!\b{holder})" for holder in _HOLDERS)
    return ctx.project_mentions(rf"{others}\.{told.attr}\s*=(?!=)")


def _rate_told(node: ast.AST, event: Event) -> ast.expr | None:
    """The expression for the rate in the call of a function, or in that which makes a layer."""
    if not isinstance(node, ast.Call):
        return None
    is_attention = isinstance(event, LibraryCall) and event.name == _ATTENTION
    place = 4 if is_attention else 1 if isinstance(event, LibraryCall) else 0
    by_name = next((each.value for each in node.keywords if each.arg in ("p", "dropout_p")), None)
    return by_name or next(iter(node.args[place:]), None)


def _names_of_parameters(function: ast.AST) -> list[str]:
    """The names of the parameters of a function, those by position first."""
    given = function.args if isinstance(function, ast.FunctionDef) else None
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)] if given is not None else []


def _bound_in(function: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _passed(frame: Frame, name: str) -> ast.expr | None:
    """The expression that the call of a method gives one of its parameters."""
    call = frame.call.node if frame.call is not None else None
    if not isinstance(call, ast.Call) or frame.definition is None:
        return None
    place = _names_of_parameters(frame.definition.node).index(name) - 1
    by_name = next((each.value for each in call.keywords if each.arg == name), None)
    return by_name or next(iter(call.args[place:]), None)


def _is_argument(site: Site, frame: Frame, ctx: Context) -> bool:
    """Whether a place is that of an argument of the function of a frame, or of its default."""
    arguments: Any = getattr(frame.definition.node, "args", None) if frame.definition is not None else None
    if arguments is None or frame.definition is None or frame.function in _CONSTRUCTORS:
        return False
    return ctx.is_within(site, frame.definition) and any(child is site.node for child in ast.walk(arguments))


def happens_in_training_only(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """only training does this, by its name"""
    return ctx.speaks_of("training-only", *(frame.function for frame in _frames_up_to(event, method)))


def happens_once(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """it happens when a module is made, or begun again: what it leaves out is left out for good"""
    around = (frame for frame in event.frame.stack() if frame.receiver and ctx.role(frame.receiver) == "module")
    return any(frame.function in _CONSTRUCTORS or ctx.speaks_of("initialization", frame.function) for frame in around)


def is_random_by_design(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """it is random in evaluation on purpose, and says so by its name"""
    frames = _frames_up_to(event, method)
    return ctx.speaks_of("random-by-design", *(name for frame in frames for name in (frame.function, frame.owner)))


def is_kept_by_the_module(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """the layer becomes an attribute, which `eval()` reaches from then on"""
    layer = event.model if isinstance(event, ModelForward) else None
    receiver = method.receiver
    return isinstance(receiver, Instance | Symbol) and any(value is layer for value in receiver.attributes.values())


def is_decided_by_a_condition(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """it happens under a condition on the mode, or on a flag that the method is given"""
    arguments: Any = getattr(method.definition.node, "args", None) if method.definition is not None else None
    flags = (
        {each.arg for each in (*arguments.args, *arguments.kwonlyargs)} - {"self"} if arguments is not None else set()
    )
    return any(
        guard.topic in ("mode", "phase")
        or ((guard.relation == "truthy" or isinstance(guard.operand, bool)) and not guard.names.isdisjoint(flags))
        for guard in event.guards
    )


def is_decided_by_the_mode(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """a test of the mode encloses the call, leaves the function before it, or decides what it is given"""
    place: Site | None = event.site
    inner: ast.AST | None = None
    for frame in _frames_up_to(event, method):
        function = frame.definition.node if frame.definition is not None else None
        if place is not None and function is not None and _decides(function, place.node, inner, ctx):
            return True
        place, inner = frame.call, function
    return False


def has_its_rate_chosen_by_the_mode(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """another method of the module calls this one with a rate that it has chosen by the mode"""
    caller, call = method.caller, method.call
    if caller is None or caller.definition is None or call is None or caller.receiver is not method.receiver:
        return False
    if isinstance(call.node, ast.Call):
        given = [*call.node.args, *(each.value for each in call.node.keywords)]
        if any(_asks_for_mode(argument, ctx) for argument in given):
            return True
    rates = {name for name in _names_in(call.node) if "drop" in name}
    tests = (n for n in ast.walk(caller.definition.node) if isinstance(n, ast.If) and _asks_for_mode(n.test, ctx))
    return any(isinstance(node, ast.Assign) and _binds_rate(node, rates) for test in tests for node in ast.walk(test))


def is_thrown_away(event: Event, method: Frame, rate: Value | None, ctx: Context) -> bool:
    """nobody takes the result, so that nothing drops at all"""
    place = event.site
    is_statement = isinstance(next(ctx.ancestors(place, ast.AST), None), ast.Expr) and isinstance(place.node, ast.Call)
    is_in_place = any(each.arg == "inplace" for each in getattr(place.node, "keywords", ()))
    return is_statement and not is_in_place and len(getattr(place.node, "args", ())) < 4


def _assumed_evaluation(method: Frame, ctx: Context) -> list[Assumption]:
    """That somebody evaluates the module, which nobody does with what only judges another network."""
    if not ctx.speaks_of("adversary", method.owner):
        return [*ctx.assumed_evaluated()]
    return [Assumption("effect", f"somebody evaluates `{method.owner}`, which its name says to be an adversary")]


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
    excuses = (
        is_off_by_default,
        drops_nothing,
        has_its_rate_from_the_caller,
        has_its_rate_set_by_others,
        happens_in_training_only,
        happens_once,
        is_random_by_design,
        is_kept_by_the_module,
        is_thrown_away,
        is_decided_by_a_condition,
        is_decided_by_the_mode,
        has_its_rate_chosen_by_the_mode,
    )

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _FUNCTIONS:
            rate, told = event.arguments.get(1, "p"), event.arguments.get(2, "training")
        elif event.name == _ATTENTION:
            told = rate = event.arguments.get(4, "dropout_p")
        else:
            return
        method, is_attention = _method_around(event, ctx), event.name == _ATTENTION
        is_told = rate is None if is_attention else told is not None and not _is_method_train(told, method, ctx)
        if is_told or not event.arguments.exact or method is None or ctx.excused(self, event, method, rate):
            return
        name, why = event.name.rpartition(".")[2], "its rate does not depend on the mode"
        if not is_attention:
            why = "it does not depend on the mode" if told is None else "the method `train` is true in each mode"
        yield ctx.finding(
            self,
            event,
            f"`{name}` also drops in evaluation: {why}",
            on=[rate],
            assuming=_assumed_evaluation(method, ctx),
            effect=_EFFECT,
            help="pass `dropout_p=p if self.training else 0.0`" if is_attention else "pass `training=self.training`",
            trace=[*ctx.class_hop(method.receiver), (event.site, f"`eval()` does not reach this `{name}`")],
            fix=("Drop only in training", _tell_mode(event, method, ctx)),
        )

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        layer, function = event.model, event.frame.definition
        if not isinstance(layer, Instance) or layer.library_name not in _MODULES or layer.site is None:
            return
        if function is None or not ctx.is_within(layer.site, function):
            return
        method, rate = _method_around(event, ctx), layer.arguments.get(0, "p")
        if method is None or ctx.excused(self, event, method, rate):
            return
        name = ctx.class_name(layer)
        yield ctx.finding(
            self,
            event,
            f"`{name}` made in `{event.frame.function}` is always in training mode: it drops in evaluation, too",
            on=[rate],
            assuming=ctx.assumed_evaluated(),
            effect=_EFFECT,
            help=f"make the `{name}` in `__init__`, or use `F.dropout(..., training=self.training)`",
            trace=[
                *ctx.class_hop(method.receiver),
                (layer.site, "it is made again in every call"),
                (event.site, "and used in training mode, which is how modules start"),
            ],
        )


def _method_around(event: Event, ctx: Context) -> Frame | None:
    """The innermost method of a module that an event happens in."""
    frames = (frame for frame in event.frame.stack() if frame.receiver is not None)
    return next((frame for frame in frames if frame.receiver and ctx.role(frame.receiver) == "module"), None)


def _is_method_train(told: Value, method: Frame | None, ctx: Context) -> bool:
    """Whether a value is the method `train` of the module, and nothing in the project gives it another meaning."""
    module = method.receiver if method is not None else None
    if not isinstance(module, Instance) or not isinstance(module.cls, Class):
        return False
    bases = [base for each in module.cls.lineage for base in each.possible_bases]
    if any(isinstance(base, Symbol) for base in bases) or ctx.is_said_in(module.cls, _OTHER_TRAIN):
        return False
    is_read = isinstance(told, Symbol) and told.name == "attribute" and told.detail == "train"
    if not (is_read and isinstance(told, Symbol) and told.inputs[0] is module):
        is_read = isinstance(told, BoundMethod) and told.receiver is module and told.function.name == "train"
    return is_read and not ctx.project_mentions(r"(?<!\bargs)\.train\s*=(?!=)")


def _frames_up_to(event: Event, method: Frame) -> list[Frame]:
    """The frames from an event to a method around it."""
    frames = list(event.frame.stack())
    return frames[: frames.index(method) + 1]


def _decides(function: ast.AST, call: ast.AST, called: ast.AST | None, ctx: Context) -> bool:
    """Whether a test of the mode encloses a call, leaves the function before it, or decides what it is given.

    What it is given counts as far as the function that is called, if that is known, reads it.
    """
    if any(_asks_for_mode(each, ctx) for each in _read_of(call, called) if not _is_named_train(each)):
        return True
    given = _names_in(call) - {"self"}
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp) and _asks_for_mode(node.test, ctx):
            if any(child is call for child in ast.walk(node)):
                return True
            if isinstance(node, ast.If) and node.lineno < getattr(call, "lineno", 0) and _leaves_or_binds(node, given):
                return True
        if isinstance(node, ast.Assign) and _binds_rate(node, given) and _asks_for_mode(node.value, ctx):
            return True
    return False


def _read_of(call: ast.AST, called: ast.AST | None) -> list[ast.AST]:
    """A call, or what it gives to those parameters of the function that is called which that reads."""
    if not isinstance(call, ast.Call):
        return [call]
    if not isinstance(called, ast.FunctionDef):
        return [call.func, *call.args, *(each.value for each in call.keywords)]
    names = _names_of_parameters(called)
    read = {node.id for node in ast.walk(called) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    by_place = call.args if names[:1] != ["self"] else [call.func, *call.args]
    ignored = {id(value) for name, value in zip(names, by_place, strict=False) if name not in read}
    ignored |= {id(each.value) for each in call.keywords if each.arg in names and each.arg not in read}
    given = [call.func, *call.args, *(each.value for each in call.keywords)]
    return [value for value in given if id(value) not in ignored]


def _is_named_train(node: ast.AST) -> bool:
    """Whether an expression is no more than `self.train`, by which a module is not asked for its mode."""
    return isinstance(node, ast.Attribute) and node.attr == "train" and getattr(node.value, "id", "") == "self"


def _asks_for_mode(node: ast.AST, ctx: Context) -> bool:
    """Whether an expression reads something that is named after the mode, or what the code is run for."""
    return isinstance(node, ast.expr) and ctx.topic_of(node) in ("mode", "phase")


def _names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _leaves_or_binds(node: ast.If, names: set[str]) -> bool:
    return any(
        isinstance(child, ast.Return | ast.Raise) or (isinstance(child, ast.Assign) and _binds_rate(child, names))
        for child in ast.walk(node)
    )


def _binds_rate(node: ast.Assign, names: set[str]) -> bool:
    """Whether a name is given a number, rather than the tensor that goes through the layers."""
    is_call = isinstance(node.value, ast.Call)
    return not is_call and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)


def _tell_mode(event: LibraryCall, method: Frame, ctx: Context) -> Edits:
    """Only in the method itself there is a ``self`` to ask."""
    definition: Any = method.definition.node if method.definition is not None else None
    if event.frame is not method or not isinstance(definition, ast.FunctionDef) or not definition.args.args:
        return Edits()
    owner = definition.args.args[0].arg
    if event.name != _ATTENTION:
        return set_argument(event.site, "training", f"{owner}.training", position=2)
    call: Any = event.site.node
    given = next((k.value for k in call.keywords if k.arg == "dropout_p"), None) or call.args[4]
    text = f"{ctx.source_of(Site(event.site.module, given))} if {owner}.training else 0.0"
    return set_argument(event.site, "dropout_p", text, position=4)
