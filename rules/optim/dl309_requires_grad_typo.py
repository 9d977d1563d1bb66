"""A freeze that freezes nothing: `requires_grad` set on a module, or misspelled.

Python lets any attribute be set on a module or parameter. `backbone.requires_grad = False` sets one that nobody reads:
the parameters of the module go on being trained. So do `p.require_grad = False`, and `p.requires_grad_ = False`, which
replaces a method.

Measured on torch 2.13: after `module.requires_grad = False` all parameters still have `requires_grad=True`; after
`param.require_grad`, `requires_grads` or `required_grad = False` and after `param.requires_grad_ = False` so do they.
None of it says a word.

## Bad
    model.backbone.requires_grad = False
    for p in model.encoder.parameters():
        p.require_grad = False

## Good
    model.backbone.requires_grad_(False)
    for p in model.encoder.parameters():
        p.requires_grad = False

## Not reported
Tensors and parameters, which have this attribute; objects that are not known to be modules; `self.requires_grad = ...`
in a class of one's own; classes, and of what may be no module files, that read an attribute of that name themselves;
modules whose parameters the same function switches the same way, so that the line is one too many and no more. A
misspelling that would only switch off what is off anyway (`torch.zeros(n).require_grad = False`), or on what is on, is
reported only when the rule is selected by name; so is a new layer of torch's that is switched on. A module that is
switched on is a question where nothing in the program has frozen it. A misspelling is a question where it would have
gradients computed for an input, and no code reads any, or freeze a model that was put into evaluation mode in a script
that trains nothing. What would freeze something is a question where nothing tells that it is trained: each optimizer
was given something else or other parameters of it, it is only called without gradients, or the script trains nothing;
and where it stands in a function that nothing calls, or in a class of which another file makes objects: what that
trains is told there. Nothing is said of what is switched off and on again with no step between of an optimizer that
may have it, nor of a parameter that was made without gradients.

## Fix (unsafe)
Writes `module.requires_grad_(...)`, or the right name. Unsafe because it changes what is trained, as it should.

## On real code
742 public repositories: 11 findings in 10 of them, all but one true: layers and models that were meant to be frozen
and are not. One is doubtful: the tensor is only saved. Of four more, two are true; one switches on
a layer that was just made, as is reported no more, and one stands in a method that nothing in its project asks for. In
46 others 34 findings, 33 of them in one project: 26 true and 8 doubtful, of which five stand beside a loop that does it
right, and are silent now. As they were read in 1,400 more, 8 of 16 were true and 8 doubtful, of which 7 are questions
now: networks that no optimizer has, or that nobody uses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Backward,
    Class,
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    ModeChange,
    OptimizerStep,
    Rule,
    Site,
    Symbol,
    Value,
    misspellings,
    rename_attribute,
    replace_range,
    statement_around,
)

_NAME = "requires_grad"
_MISSPELT = (
    misspellings(_NAME)
    | {"require_grads", "requires_grads", "required_grad", "required_grads", "requiresGrad", "requireGrad"}
    | {"require_gradient", "requires_gradient", "require_gradients", "requires_gradients", "requires_grad_"}
)
_IS_TENSOR = Assumption("name", "what is assigned to is a tensor, as its use says")
_TRAINS = ("backward", "fit", "manual_backward", "train")
_READS_GRADIENTS = (
    r"\.grad\b|autograd\.grad|\bgrad\(|jacobian|\bcheckpoint\(|utils\.checkpoint"  # which needs an input with gradients
)


# ------------------------------------------------------------------------------------------------- excuses


def is_of_its_own_object(event: AttributeAssigned, ctx: Context) -> bool:
    """a method sets an attribute of its own object"""
    definition = event.frame.definition.node if event.frame.definition is not None else None
    parameters = definition.args.args if isinstance(definition, ast.FunctionDef) and event.frame.owner else []
    owner = event.site.node.value if isinstance(event.site.node, ast.Attribute) else None
    return bool(parameters) and isinstance(owner, ast.Name) and owner.id == parameters[0].arg


def is_used_by_its_class(event: AttributeAssigned, ctx: Context) -> bool:
    """the class of the module has a use for the attribute"""
    cls = event.target.cls if isinstance(event.target, Instance) else None
    if not isinstance(cls, Class):
        return False
    return event.attribute in cls.members or bool(ctx.attribute_uses(cls, event.attribute))


def is_used_in_the_file(event: AttributeAssigned, ctx: Context) -> bool:
    """what it is set on may be no module, and the file reads the attribute or has a parameter of that name"""
    if ctx.is_module(event.target) or ctx.is_parameter(event.target):
        return False
    here = (tree for module, tree in ctx.trees(event.attribute) if module is event.site.module)
    return any(
        (isinstance(node, ast.Attribute) and node.attr == event.attribute and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg | ast.keyword) and node.arg == event.attribute)
        for tree in here
        for node in ast.walk(tree)
    )


def is_done_for_the_parameters(event: AttributeAssigned, ctx: Context) -> bool:
    """the same function switches the parameters of that module the same way, so that the line is only one too many"""
    if ctx.is_parameter(event.target):
        return False
    return any(
        ctx.is_same(module, event.target)
        for switch in ctx.gradient_switches
        if isinstance(switch.site.node, ast.Call) or ctx.is_parameter(switch.target)
        if switch.frame is event.frame and ctx.constant(switch.value) == ctx.constant(event.value)
        for module in ctx.modules_switched(switch)
    )


def is_undone_before_training(event: AttributeAssigned, ctx: Context) -> bool:
    """it would be switched off, and on again, with no step between of an optimizer that may have it"""
    value, owner = ctx.constant(event.value), _set_on(event)
    others = [
        other
        for other in ctx.all_of(AttributeAssigned)
        if other.frame is event.frame and other.attribute == event.attribute and _set_on(other) == owner
        if ctx.constant(other.value) is (not value)
    ]
    for other in others if isinstance(value, bool) else ():
        off, on = (event, other) if value is False else (other, event)
        steps = [each for each in ctx.steps() if _is_between(each, off, on, ctx)]
        is_kept = ctx.position(off) < ctx.position(on) or any(ctx.loops_around(off))
        if is_kept and not any(ctx.may_train_switched(each.optimizer, event) for each in steps):
            return True
    return False


def _is_between(step: OptimizerStep, off: AttributeAssigned, on: AttributeAssigned, ctx: Context) -> bool:
    """Whether a step is taken after something is switched off, and before it is on again, be it in the next turn."""
    if ctx.position(off) < ctx.position(on):
        return ctx.position(off) < ctx.position(step) < ctx.position(on)
    return not ctx.position(on) < ctx.position(step) < ctx.position(off)


def _set_on(event: AttributeAssigned) -> str:
    """What an attribute is set on, as it is written."""
    return ast.unparse(event.site.node.value) if isinstance(event.site.node, ast.Attribute) else ""


class RequiresGradTypo(Rule):
    code = "DL309"
    name = "requires-grad-typo"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = ((_NAME, *sorted(_MISSPELT)),)
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.requires_grad_",)
    excuses = (
        is_of_its_own_object,
        is_used_by_its_class,
        is_used_in_the_file,
        is_done_for_the_parameters,
        is_undone_before_training,
    )

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        if not isinstance(event.site.node, ast.Attribute):
            return  # calls of `requires_grad_` are assignments, too
        is_known = ctx.is_module(event.target)
        if ctx.constant(event.value) is False and _is_made_without(event.target, ctx):
            return
        if event.attribute in _MISSPELT:
            is_switch = isinstance(event.target, Symbol) and isinstance(ctx.constant(event.value), bool)
            is_known = is_known or ctx.is_parameter(event.target)
            if (is_known or is_switch) and not ctx.excused(self, event):
                yield self._misspelled(event, ctx, is_known=is_known)
        elif event.attribute == _NAME and is_known and not ctx.excused(self, event):
            yield self._on_module(event, ctx)

    def _on_module(self, event: AttributeAssigned, ctx: Context) -> Finding:
        is_on = ctx.constant(event.value) is True and _is_trained_anyway(event, ctx)
        return ctx.finding(
            self,
            event,
            "`requires_grad` set on a module: none of its parameters change",
            assuming=[*_assumed_frozen(event, ctx), *_assumed_trained(event, ctx)],
            effect="harmless here: the layer is new, so that it is trained anyway"
            if is_on
            else "what was to be frozen is trained"
            if ctx.constant(event.value) is False
            else "its parameters stay as they are, frozen or not",
            help="call `requires_grad_(...)`, which sets it on all parameters of the module",
            trace=[(event.site, "a module has no such attribute, and nobody reads it")],
            fix=("Call `requires_grad_`", _as_call(event, ctx)),
            severity="info" if is_on else None,
            pedantic=is_on,
        )

    def _misspelled(self, event: AttributeAssigned, ctx: Context, *, is_known: bool) -> Finding:
        on_module = ctx.is_module(event.target)
        value = ctx.constant(event.value)
        is_on = value is True and isinstance(event.target, Instance) and ctx.is_parameter(event.target)
        is_off = not is_known and value is False and (_is_computed(event.target) or _is_made_of_data(event.target, ctx))
        is_vain = is_on or is_off
        return ctx.finding(
            self,
            event,
            "`requires_grad_` is a method: assigning to it sets nothing"
            if event.attribute == "requires_grad_"
            else f"`{event.attribute}` is not `{_NAME}`: assigning to it sets nothing",
            assuming=[
                *_needed(event, ctx),
                *(_assumed_frozen(event, ctx) if is_known else [_IS_TENSOR]),
                *(_assumed_trained(event, ctx) if is_known else []),
            ],
            effect="harmless here: it carries gradients anyway"
            if is_on
            else "harmless here: the tensor carries no gradients anyway"
            if is_vain
            else "the parameters stay as they are: what was to be frozen is trained",
            help="call `requires_grad_(...)`" if on_module else f"set `{_NAME}`",
            trace=[(event.site, "Python sets any attribute without complaint")],
            fix=("Call `requires_grad_`", _as_call(event, ctx))
            if on_module
            else (f"Set `{_NAME}`", rename_attribute(event.site, _NAME)),
            severity="info" if is_vain else None,
            pedantic=is_vain,
        )


def _assumed_frozen(event: AttributeAssigned, ctx: Context) -> Iterator[Assumption]:
    """That what is switched on was off before, where nothing in the program freezes it."""
    if _is_switched_on(event) and not ctx.freezes_of(event):
        yield Assumption("effect", "its parameters were frozen before, which nothing here does")


def _assumed_trained(event: AttributeAssigned, ctx: Context) -> Iterator[Assumption]:
    """That an optimizer has what is to be frozen: what is not trained anyway, or not used at all, stays as it is."""
    if _is_switched_on(event):
        return
    trained = ctx.trains_switched(event)
    if trained is False or (trained is None and _trains_nothing(ctx)):
        yield Assumption("effect", "its parameters are trained, which nothing here does")
    elif trained is None and (_is_made_elsewhere(ctx) or _is_of_entry(event, ctx)):
        yield Assumption("effect", "it is used where its parameters are trained")


def _is_of_entry(event: AttributeAssigned, ctx: Context) -> bool:
    """Whether nothing that could be followed calls the definition that the program is."""
    return any(each.kind == "entry" for each in ctx.runs(event.site, event))


def _is_made_elsewhere(ctx: Context) -> bool:
    """Whether the program is a class by itself of which another file makes objects, and so tells what trains them."""
    module, name = ctx.program.module, ctx.program.name.partition(".")[0]
    classes = (each for each in module.tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    return ctx.program.kind == "class" and any(
        call.module is not module for each in classes for call in ctx.callers(Site(module, each))
    )


def _is_switched_on(event: AttributeAssigned) -> bool:
    """Whether something is switched on as it is written, and not by what a configuration has now."""
    statement = statement_around(event.site)
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value is True


def _trains_nothing(ctx: Context) -> bool:
    """Whether the program is a script, and neither it nor what it imports says anywhere that something is trained."""
    module = ctx.program.module
    is_script = ctx.program.kind == "module" and (module.is_script or "__main__" in module.source.text)
    return (
        is_script
        and not ctx.all_of(Backward, OptimizerStep)
        and not any(True for name in _TRAINS for _ in ctx.method_calls(name))
    )


def _needed(event: AttributeAssigned, ctx: Context) -> Iterator[Assumption]:
    """That gradients are of use: somebody reads those of an input, and trains with a model that is to evaluate."""
    value, node = ctx.constant(event.value), event.site.node
    owner = node.value if isinstance(node, ast.Attribute) else None
    if value is True and isinstance(owner, ast.Name) and isinstance(event.target, Symbol):
        is_listed = any(
            isinstance(each, ast.List | ast.Tuple)
            and isinstance(each.ctx, ast.Load)
            and owner.id in map(ast.unparse, each.elts)
            for each in ast.walk(event.site.module.tree)
        )  # for an optimizer
        if not is_listed and not ctx.is_parameter(event.target) and not ctx.project_mentions(_READS_GRADIENTS):
            yield Assumption(
                "effect", f"somebody reads the gradient of `{owner.id}`, which no code of the project does"
            )
    is_evaluated = any(
        change.training is False and change.frame is event.frame and ctx.is_same(change.model, event.target)
        for change in ctx.all_of(ModeChange)
    )
    if value is False and is_evaluated and ctx.program.kind == "module" and not ctx.all_of(Backward, OptimizerStep):
        yield Assumption("effect", "something is trained with it, which this program does not do")


def _is_made_without(value: Value, ctx: Context) -> bool:
    """Whether a parameter was made without gradients in the first place."""
    made = value.arguments.get(1, "requires_grad") if isinstance(value, Instance) else None
    return ctx.is_parameter(value) and ctx.constant(made) is False


def _is_trained_anyway(event: AttributeAssigned, ctx: Context) -> bool:
    """Whether a layer of torch has just been made, and nothing was switched off since then."""
    made = [call for call in ctx.all_of(LibraryCall) if call.result is event.target]
    if not made or not made[0].name.startswith("torch.nn."):
        return False
    since = range(ctx.position(made[0]), ctx.position(event))
    others = (each for each in ctx.all_of(AttributeAssigned) if each.attribute == _NAME and each is not event)
    return all(ctx.constant(each.value) is True or ctx.position(each) not in since for each in others)


def _is_computed(value: Value) -> bool:
    """Whether a value is computed, by functions or methods of tensors, rather than read from somewhere."""
    return isinstance(value, Symbol) and value.name.startswith(("torch.", "."))


def _is_made_of_data(value: Value, ctx: Context) -> bool:
    """Whether a value is one of several that a function of torch's made of tensors without gradients (``meshgrid``)."""
    source = value.inputs[0] if isinstance(value, Symbol) and value.name in ("item", "slice") else value
    name = source.name if isinstance(source, Symbol) else ""
    is_made = name.startswith("torch.") and name.count(".") == 1 and name != "torch.load"
    return is_made and ctx.gradient(value).flows is False


def _as_call(event: AttributeAssigned, ctx: Context) -> Edits:
    """``module.requires_grad = flag`` as ``module.requires_grad_(flag)``."""
    statement = statement_around(event.site)
    target = event.site.node
    if not isinstance(statement, ast.Assign) or statement.targets != [target] or not isinstance(target, ast.Attribute):
        return Edits()
    module, value = Site(event.site.module, target.value), Site(event.site.module, statement.value)
    return replace_range(event.site, f"{ctx.source_of(module)}.requires_grad_({ctx.source_of(value)})", end=value)
