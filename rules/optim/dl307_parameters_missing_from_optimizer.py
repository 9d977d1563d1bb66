"""A module that takes part in the loss, and whose parameters no optimizer has.

Gradients are computed for it, and nothing uses them: it keeps its random start values for the whole run. The loss
falls all the same, as the other modules learn to get along with it.

The same comes of an optimizer that is given only what is trained when it is made: parts that are frozen then, and
unfrozen after some epochs, are not in it, and keep the weights that they had.

Measured on torch 2.13 (two encoders of 20 numbers each and a head, 4 classes, 600 steps of Adam, three seeds): with one
encoder left out of the optimizer the test accuracy is .48 instead of .74. The training loss falls all the same, to .55.
Of a layer that is unfrozen after `Adam(filter(...))`, no weight has changed after 100 more steps.

## Bad
    encoder, decoder = nn.Linear(16, 8), nn.Linear(8, 16)
    optimizer = optim.Adam(encoder.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(decoder(encoder(x)), x).backward()
        optimizer.step()

## Good
    encoder, decoder = nn.Linear(16, 8), nn.Linear(8, 16)
    optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()])
    for x, y in loader:
        optimizer.zero_grad()
        F.mse_loss(decoder(encoder(x)), x).backward()
        optimizer.step()

## Not reported
Modules that are frozen, only evaluated, or deleted again; modules with weights from elsewhere (a checkpoint, another
model), unless new layers of theirs are trained as well; names such as `teacher`, `ema`, `vgg` or `random_projection`;
networks that see both sides of a comparison, and not only its shape; one part of a model that is trained alone, as a
head is on features; parameters that are updated or set by hand, or that something else asks for and may hand on;
modules whose forward is given the weights to compute with, by a keyword; optimizers that are given single tensors, as
for a style, a prompt or an attack. Where anything that an optimizer is given is not known, nothing is said. Parts that
are unfrozen where the optimizer has frozen ones as well, or gets them then, or another one has them; networks that are
frozen and unfrozen in turn.

## On real code
276 public repositories: no finding. One question, which is right: an estimator of mutual information is made anew in
each step, with random weights. Parts that are unfrozen afterwards: no finding in 763. Of 11 in unread ones 6 were true
(what a loss or a condition learns, twice beside a network), 3 false and 2 doubtful: networks that are frozen by a
helper, that are given their weights, or are meant to stay random. Each of these is silent since; so are layers without
a scale, and weights that are put in by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from dllint.api import (
    AttributeAssigned,
    Backward,
    Class,
    Context,
    Finding,
    GradientClip,
    Instance,
    LossCall,
    ModeChange,
    ModelForward,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    ParametersAdded,
    ParametersUpdated,
    Program,
    Rule,
    Site,
    StateRestored,
    Untrained,
    Value,
    assumed_under,
    attribute_of,
    receiver_of,
)

_WEIGHTS = frozenset(("weights", "biases", "params", "parameters", "fast_weights", "vars"))  # that a forward may take
_FREEZES = r"requires_grad(?:_|\w*\(|\s*=[^=])"  # who only asks for it has not set it
_FROM_ELSEWHERE = rf"pretrained|load_state_dict|torch\.load|\bhub\b|{_FREEZES}|no_grad|register_buffer"
_OF_ALL = rf"load_state_dict|torch\.load|{_FREEZES}|register_buffer|from_pretrained"
_FREEZING = frozenset(("requires_grad", "requires_grad_"))
_HOLDERS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.Yield, ast.Return, ast.keyword, ast.Assign)


# ------------------------------------------------------------------------------------------------- excuses


def is_not_to_be_trained(site: Site, left: Untrained, ctx: Context) -> bool:
    """its name says that it is not to be trained, as that of a network inside a loss does"""
    names = (left.name, ctx.class_name(left.module))
    if any(
        ctx.speaks_of(topic, *names) for topic in ("averaged-model", "frozen-model", "weight-average", "random-map")
    ):
        return True
    has_own = any(ctx.is_parameter(each) for each in left.module.attributes.values())
    return ctx.speaks_of("loss-model", *names) and not has_own


def is_frozen(site: Site, left: Untrained, ctx: Context) -> bool:
    """its parameters are frozen, or those of a part of it or of what it is a part of"""
    frozen = [each for switch in ctx.gradient_switches for each in ctx.modules_switched(switch)]
    calls = (call for call in ctx.all_of(OpaqueCall) if ctx.speaks_of("freezing", call.name))
    if _concerns_any(left, frozen, ctx) or any(ctx.opaque_to(call, left.module) for call in calls):
        return True
    elsewhere = ctx.method_calls("requires_grad_")  # as in a method that a framework calls
    return any(receiver_of(call.node).rpartition(".")[2] == left.name for call in elsewhere)


def is_only_evaluated(site: Site, left: Untrained, ctx: Context) -> bool:
    """it is put into evaluation mode, and never into training mode"""
    changes = [each for each in ctx.all_of(ModeChange) if ctx.is_same(each.model, left.module)]
    changes = [each for each in changes if each.training or not _is_after_training(each, left, ctx)]
    return bool(changes) and all(change.training is False for change in changes)


def is_tried_out(site: Site, left: Untrained, ctx: Context) -> bool:
    """the file deletes it again: it was only tried out"""
    deleted = (node for node in ast.walk(site.module.tree) if isinstance(node, ast.Delete))
    return any(getattr(target, "id", "") == left.name for node in deleted for target in node.targets)


def is_updated_by_hand(site: Site, left: Untrained, ctx: Context) -> bool:
    """the program updates its parameters itself"""
    return any(
        ctx.reaches(event.target, left.module) or _concerns_any(left, ctx.modules_in(event.target)[0], ctx)
        for event in ctx.all_of(ParametersUpdated)
    )


def compares_what_it_sees(site: Site, left: Untrained, ctx: Context) -> bool:
    """it sees both sides of a comparison, as a network does by whose features images are compared"""
    loss = _computed_loss(left)
    calls = [call for _, call in ctx.calls_behind(loss) if ctx.is_same(call.inputs[0], left.module)] if loss else []
    makers = [module for made in left.makers for module in ctx.modules_in(made.parameters)[0]]
    judged = [model for call in calls for each in call.inputs[1:] for model in ctx.models_behind(each)]
    is_judge = len(calls) > 1 and any(ctx.reaches(module, model) for module in makers for model in judged)
    return is_judge and _is_compared_with_itself(left.module, ctx)


def has_a_weight_set_by_hand(site: Site, left: Untrained, ctx: Context) -> bool:
    """its weight is set by hand, as that of a filter is: `conv.weight = nn.Parameter(sobel)`, `.weight.data = table`"""
    for each in ctx.all_of(AttributeAssigned):
        holder = attribute_of(each.target, "weight") if each.attribute == "data" else None
        if holder is left.module or (each.target is left.module and each.attribute in ("weight", "weight.data")):
            return True
    copied = (receiver_of(call.node).split(".") for call in ctx.method_calls("copy_"))
    return any([left.name, "weight"] in (names[-2:], names[-3:-1]) for names in copied)


def is_given_its_weights(site: Site, left: Untrained, ctx: Context) -> bool:
    """its forward is given the weights to compute with, which another network predicts or an inner loop has trained"""
    calls = (event for event in ctx.all_of(ModelForward) if ctx.is_same(event.model, left.module))
    return any(not _WEIGHTS.isdisjoint(call.arguments.keywords) for call in calls)


def has_weights_from_elsewhere(site: Site, left: Untrained, ctx: Context) -> bool:
    """its weights, and not those of all that is trained, come from elsewhere, or its class deals with that itself"""
    events = [each for each in ctx.all_of(StateRestored) if not _is_after_training(each, left, ctx)]
    restored = [each.target for each in events]
    trained = [module for made in left.makers for module in ctx.modules_in(made.parameters)[0]]
    goes_on = all(any(ctx.is_same(each, module) for each in restored) for module in trained)
    if _concerns_any(left, restored, ctx) and not goes_on:
        return True
    classes = [each.cls for each in (left.module, left.owner) if each is not None and isinstance(each.cls, Class)]
    words = _OF_ALL if _has_new_layers(left, ctx) else _FROM_ELSEWHERE
    return any(ctx.is_said_in(cls, words) for cls in classes)


def has_its_parameters_asked_for(site: Site, left: Untrained, ctx: Context) -> bool:
    """its parameters are asked for elsewhere, so that another optimizer may have them"""
    clipped = [event.site for event in ctx.all_of(GradientClip)]
    calls = (call for method in ("parameters", "named_parameters") for call in ctx.method_calls(method))
    mine = (call for call in calls if receiver_of(call.node).rpartition(".")[2] == left.name)
    return any(not any(ctx.is_within(call, each) for each in clipped) and not _only_looks(call, ctx) for call in mine)


class ParametersMissingFromOptimizer(Rule):
    code = "DL307"
    name = "parameters-missing-from-optimizer"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("parameters", "named_parameters"), ("optim", "Optimizer", "SGD", "Adam", "AdamW"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",)
    excuses = (
        is_not_to_be_trained,
        is_frozen,
        is_only_evaluated,
        is_tried_out,
        is_updated_by_hand,
        compares_what_it_sees,
        has_a_weight_set_by_hand,
        is_given_its_weights,
        has_weights_from_elsewhere,
        has_its_parameters_asked_for,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for left in ctx.untrained():
            site = left.call.site
            if site is not None and not ctx.excused(self, site, left):
                yield self._report(left, ctx)
        for made in ctx.all_of(OptimizerCreated):
            switch = _unfrozen_after(made, ctx)
            if switch is not None:
                yield self._report_unfrozen(switch, made, ctx)

    def _report(self, left: Untrained, ctx: Context) -> Finding:
        maker, owner = _maker_of_next_step(left, ctx), ctx.name_of(left.owner) if left.owner is not None else ""
        name = f"{owner}.{left.name}" if owner else left.name
        places = [
            (left.module.site, "the module is made here"),
            (left.call.site, "it takes part in the loss"),
            (maker.site, "and the optimizer is made without it"),
        ]
        return ctx.finding(
            self,
            maker,
            f"`{name}` gets gradients and is in no optimizer",
            on=[left.loss, *left.makers, *(each.parameters for each in left.makers), left.module],
            assuming=[*ctx.left_alone(left.loss, left.module), *assumed_under(left.guards)],
            effect="it keeps the random values that it starts with for the whole run",
            help="give the optimizer its parameters, too, or freeze it with `requires_grad_(False)`",
            trace=[(site, text) for site, text in places if site is not None],
        )

    def _report_unfrozen(self, switch: AttributeAssigned, made: OptimizerCreated, ctx: Context) -> Finding:
        optimizer, step = ctx.called(made.optimizer, "optimizer"), _step_taken_last(made, ctx)
        return ctx.finding(
            self,
            switch,
            f"parameters are unfrozen after {optimizer} was given only those that were trained then",
            on=[made, made.parameters, step, step.optimizer if step is not None else None],
            assuming=ctx.left_alone(step, made.optimizer) if step is not None else (),
            effect="gradients are computed for them, and no step ever moves them",
            help=f"give {optimizer} all parameters, as it skips the frozen ones, or add these with `add_param_group`",
            trace=[(made.site, "the optimizer leaves out what is frozen here"), (switch.site, "and this is too late")],
            confirmable=False,  # they are in no optimizer from the start, and it is the end that matters
        )


def _unfrozen_after(made: OptimizerCreated, ctx: Context) -> AttributeAssigned | None:
    """Where parameters are unfrozen that were frozen when an optimizer was given what is trained, and that it never
    gets."""
    given = ctx.trained_parameters_in(made.parameters)
    own, step = ctx.loops_around(made), _step_taken_last(made, ctx)
    if given is None or step is None:
        return None
    for switch in ctx.gradient_switches:
        if ctx.constant(switch.value) is not True or ctx.position(switch) < ctx.position(made):
            continue
        loops = ctx.loops_around(switch)
        is_trained = ctx.position(step) > ctx.position(switch) or any(each in loops for each in ctx.loops_around(step))
        is_made_again = any(loop in own for loop in loops)
        parts = [each for each in ctx.modules_switched(switch) if ctx.is_part(each, given.inputs[0])]
        if not parts or not is_trained or is_made_again or ctx.exclusive(switch, made):
            continue
        if _is_frozen_for(made, parts, ctx) and not _is_given_elsewhere(made, parts, ctx):
            return switch
    return None


def _is_frozen_for(made: OptimizerCreated, parts: list[Value], ctx: Context) -> bool:
    """Whether modules are frozen before an optimizer is made, still are then, and are not frozen afterwards."""
    changes = [each for each in ctx.gradient_switches if _switches_part_of(each, parts, ctx)]
    after = [each for each in changes if ctx.position(each) > ctx.position(made)]
    if any(ctx.constant(each.value) is not True for each in after):
        return False  # networks that are trained in turn, or what only the run can tell
    before = [each for each in changes if ctx.position(each) < ctx.position(made) and not ctx.exclusive(each, made)]
    frozen = [each for each in before if ctx.constant(each.value) is False]
    return any(not any(_undoes(later, freeze, ctx) for later in before) for freeze in frozen)


def _undoes(later: AttributeAssigned, freeze: AttributeAssigned, ctx: Context) -> bool:
    """Whether all that is frozen is unfrozen again."""
    if ctx.constant(later.value) is False or ctx.position(later) < ctx.position(freeze):
        return False
    unfrozen = ctx.modules_switched(later)
    is_all = all(any(ctx.is_part(part, each) for each in unfrozen) for part in ctx.modules_switched(freeze))
    return is_all and not ctx.conditions_beyond(later, freeze)


def _is_given_elsewhere(made: OptimizerCreated, parts: list[Value], ctx: Context) -> bool:
    """Whether another optimizer or group of parameters has some of these, or may have them."""
    others: list[OptimizerCreated | ParametersAdded] = [*ctx.all_of(OptimizerCreated), *ctx.all_of(ParametersAdded)]
    for other in (each for each in others if each is not made):
        if other.parameters is not None and ctx.reaches(other.parameters, made.optimizer):
            continue  # what wraps it, as `Lookahead(optimizer)` does, has what it has
        held = ctx.modules_in(other.parameters)[0]
        is_of_them = any(ctx.reaches(module, part) or ctx.reaches(part, module) for module in held for part in parts)
        if (is_of_them or not held) and not ctx.exclusive(other, made):
            return True
    return False


def _switches_part_of(switch: AttributeAssigned, parts: list[Value], ctx: Context) -> bool:
    mine = ctx.modules_switched(switch)
    return any(ctx.is_part(one, part) or ctx.is_part(part, one) for one in mine for part in parts)


def _step_taken_last(made: OptimizerCreated, ctx: Context) -> OptimizerStep | None:
    steps = [step for step in ctx.steps() if ctx.is_same(step.optimizer, made.optimizer)]
    return steps[-1] if steps else None


def _is_after_training(event: StateRestored | ModeChange, left: Untrained, ctx: Context) -> bool:
    """Whether something is done only after the training, as in a test of what was saved."""
    loops = ctx.loops_around(left.loss)
    is_later = ctx.position(event) > ctx.position(left.loss)
    return is_later and not any(each is loop for each in ctx.loops_around(event) for loop in loops)


def _maker_of_next_step(left: Untrained, ctx: Context) -> OptimizerCreated | ParametersAdded:
    """Of several optimizers the one that the loss is for: it steps first after the backward pass."""
    later = (step for step in ctx.steps() if ctx.position(step) > ctx.position(left.loss))
    found = (made for step in later for made in left.makers if ctx.is_same(step.optimizer, made.optimizer))
    return next(found, left.makers[0])


def _computed_loss(left: Untrained) -> Value | None:
    return left.loss.loss if isinstance(left.loss, Backward) else left.call


def _is_compared_with_itself(module: Value, ctx: Context) -> bool:
    """Whether what a module makes stands on both sides of a loss, or in none that is known."""
    sides = [
        [side is not None and _is_made_with(side, module, ctx) for side in pair]
        for pair in ((event.input, event.target) for event in ctx.all_of(LossCall))
    ]
    return any(map(all, sides)) or not any(map(any, sides))


def _is_made_with(side: Value, module: Value, ctx: Context) -> bool:
    """Whether a module takes part in what a loss compares, and not only in the shape of it (`torch.ones_like(y)`)."""
    is_of_shape = all(getattr(each.value, "name", "").endswith("_like") for each in ctx.origins(side))
    return not is_of_shape and any(ctx.is_same(model, module) for model in ctx.models_behind(side))


def _has_new_layers(left: Untrained, ctx: Context) -> bool:
    """Whether gradients go through layers of torch that a module has made itself: these have no weights yet."""
    made = ctx.inside(left.call) if isinstance(left.module.cls, Class) else ()
    called = (layer for each in made for _, call in ctx.calls_behind(each) for layer in ctx.objects(call.inputs[0]))
    own = [each for value in left.module.attributes.values() for each in ctx.objects(value)]
    return any(
        isinstance(layer, Instance)
        and layer.library_name.startswith("torch.nn.")
        and not layer.library_name.endswith("Sequential")
        and ctx.has_parameters(layer) is True
        and any(layer is each for each in own)
        for layer in called
    )


def _only_looks(call: Site, ctx: Context) -> bool:
    """Whether parameters are asked for by a loop that copies, counts or measures them, and hands on or freezes none."""
    kinds = (ast.For, ast.GeneratorExp, ast.ListComp, ast.SetComp)
    loop = next(iter(ctx.ancestors(call, *kinds)), None)
    heads = [loop] if isinstance(loop, ast.For) else getattr(loop, "generators", [])
    if loop is None or not any(call.node in ast.walk(head.iter) for head in heads):
        return False
    names = {node.id for head in heads for node in ast.walk(head.target) if isinstance(node, ast.Name)}
    return not any(_hands_on(node, names) or getattr(node, "attr", "") in _FREEZING for node in ast.walk(loop))


def _hands_on(node: ast.AST, names: set[str]) -> bool:
    """Whether one of some variables is put into something, returned, or given to a function or to a method that does
    not work in place."""
    held: list[ast.AST]
    if isinstance(node, ast.Call):
        is_in_place = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
        held = [] if is_in_place else [*node.args]
    elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        held = [node.elt]
    else:
        held = list(ast.iter_child_nodes(node)) if isinstance(node, _HOLDERS) else []
    reads = (each for each in held if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return any(each.id in names for each in reads)


def _concerns_any(left: Untrained, modules: Iterable[Value], ctx: Context) -> bool:
    direct = ((ctx.reaches(each, left.module) or ctx.reaches(left.module, each)) for each in modules)
    return any(direct) or any(ctx.has_held(each, left.module) for each in modules)
