"""A freeze that takes more than it was meant to, or that is undone at once.

Training in stages freezes the parts that know something already, and trains those that are new. A new layer that was
put into a pretrained network before all of it is frozen is frozen with it, and keeps its random weights: what comes
after it has to get along with a random map. Where nothing comes after it, nothing is trained, and `backward` ends with
`element 0 of tensors does not require grad`. The other way round, a part that is frozen before all of the model is set
to be trained is trained after all, at the rate that is meant for what is new.

Measured on torch 2.13 (a network of three layers trained for 10 classes, its last layer replaced by a new one of 4
numbers, a head after it for 5 classes, 600 steps of Adam, three seeds): with the new layer frozen along, the test
accuracy is .53 to .70, with the layer put in after the freeze .71 to .81.

## Bad
    net = models.resnet18(weights="DEFAULT")
    net.fc = nn.Linear(512, 10)
    for p in net.parameters():
        p.requires_grad = False
    optimizer = optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

## Good
    net = models.resnet18(weights="DEFAULT")
    for p in net.parameters():
        p.requires_grad = False
    net.fc = nn.Linear(512, 10)
    optimizer = optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

## Not reported
Layers that are unfrozen again, here or by some code of the program's files, that get weights from a file, or whose
names say that they stay random; freezes of chosen parameters; networks that no loss is computed with; parts that are
frozen and unfrozen in turn, in loops or with a forward pass between; models that adapters are put on, or that code
gets which is not seen.

## On real code
240 public repositories that speak of `requires_grad`: 2 findings, both false: a head that is unfrozen is made with a
size that it asks of the frozen part, and was taken to have that part in it. They are silent since. Who freezes the new
layer while nothing else learns is told so by `backward`. So little proves nothing, and the rule is off by default.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Backward,
    Context,
    Finding,
    Instance,
    ModelForward,
    OpaqueCall,
    Program,
    Rule,
    StateRestored,
    Symbol,
    Value,
    alternatives,
)

_LIBRARIES = ("torchvision.models.", "timm.", "transformers.")
_DEEPEST_PART = 5  # modules in modules
_UNFREEZES = r"requires_grad_?\w*\s*(?:=\s*True|\((?:\s*\)|.*True))|unfreeze"


# ------------------------------------------------------------------------------------------------- excuses


def has_weights_from_a_file(freeze: AttributeAssigned, module: Value, ctx: Context) -> bool:
    """weights are loaded into the network, or into what it is a part of"""
    restored = (owner for each in ctx.all_of(StateRestored) for owner in ctx.objects(each.target))
    return any(ctx.is_part(module, owner) or ctx.is_part(owner, module) for owner in restored)


def may_be_changed_unseen(freeze: AttributeAssigned, module: Value, ctx: Context) -> bool:
    """code that is not seen gets the network"""
    return any(ctx.opaque_to(call, module) for call in ctx.all_of(OpaqueCall))


class StageFreeze(Rule):
    code = "DL961"
    name = "stage-freeze"
    category = "correctness"
    severity = "error"
    default = False
    triggers = (("requires_grad", "requires_grad_"),)
    references = ("https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html",)
    excuses = (has_weights_from_a_file, may_be_changed_unseen)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for freeze in ctx.freezes:
            module = _whole(freeze, ctx)
            if module is None or not isinstance(module, Instance):
                continue
            yield from self._frozen_along(freeze, module, ctx)
            yield from self._undone(freeze, module, ctx)

    def _frozen_along(self, freeze: AttributeAssigned, module: Instance, ctx: Context) -> Iterator[Finding]:
        """The finding for a new layer that is frozen with the pretrained network that it was put into."""
        if not module.library_name.startswith(_LIBRARIES):
            return
        put = next((each for each in ctx.all_of(AttributeAssigned) if _is_new_layer(each, freeze, module, ctx)), None)
        loss = next((each for each in ctx.all_of(Backward) if _is_behind(module, each, ctx)), None)
        if put is None or loss is None or _is_unfrozen(module, ctx):
            return
        if ctx.excused(self, freeze, module) or ctx.project_mentions(_UNFREEZES, where="here"):
            return
        yield ctx.finding(
            self,
            freeze,
            f"the new layer `{put.attribute}` is frozen with the network that it was put into",
            on=[put, module, loss],
            effect="it keeps its random weights; where nothing else is trained, `backward` fails",
            help=f"put `{put.attribute}` in after the freeze, or unfreeze it",
            trace=[(put.site, "the new layer is put in"), (freeze.site, "and frozen here with the rest")],
        )

    def _undone(self, freeze: AttributeAssigned, part: Instance, ctx: Context) -> Iterator[Finding]:
        """The finding for a part that is frozen before all of the model that it belongs to is unfrozen."""
        undone = next((each for each in ctx.gradient_switches if _thaws_again(each, freeze, part, ctx)), None)
        if undone is None or ctx.excused(self, freeze, part):
            return
        yield ctx.finding(
            self,
            freeze,
            "this freeze is undone: all of the model is set to be trained after it",
            on=[undone, part],
            effect="the part is trained after all, at the rate that is meant for what is new",
            help="freeze the part after that, or leave the other line out",
            trace=[(freeze.site, "the part is frozen"), (undone.site, "and unfrozen again with the rest")],
        )


def _whole(switch: AttributeAssigned, ctx: Context) -> Value | None:
    """The one module of which a switch is set on all parameters, with no condition on the single one."""
    target = switch.target
    turned = {name for loop in ctx.loops_around(switch) for name in loop.targets}
    if any(not guard.names.isdisjoint(turned) for guard in switch.guards):
        return None
    for names in (("item",), ("element",), ("parameters", "named_parameters")):  # which `p` is, innermost last
        if isinstance(target, Symbol) and target.name in names and target.inputs:
            target = target.inputs[0]
    if isinstance(target, Symbol):
        return None
    options = ctx.objects(target)
    return options[0] if len(options) == 1 and ctx.is_module(options[0]) else None


def _is_new_layer(put: AttributeAssigned, freeze: AttributeAssigned, module: Instance, ctx: Context) -> bool:
    """Whether a layer was made and put into a network before this is frozen, and is there in the end."""
    layer = put.value
    if put.target is not module or module.attributes.get(put.attribute) is not layer or not isinstance(layer, Instance):
        return False
    if ctx.has_parameters(layer) is not True or ctx.exclusive(put, freeze) or not ctx.library_bases(layer):
        return False
    is_random = ctx.speaks_of("random-map", put.attribute) or ctx.speaks_of("frozen-model", put.attribute)
    return ctx.position(put) < ctx.position(freeze) and not is_random


def _is_behind(module: Value, backward: Backward, ctx: Context) -> bool:
    models = ctx.models_behind(backward.loss, with_gradients=True) if backward.loss is not None else []
    return any(ctx.is_part(module, model) for model in models)


def _is_unfrozen(module: Value, ctx: Context) -> bool:
    """Whether some code may unfreeze parameters of a network, or of what it is a part of."""
    thawed = [each for each in ctx.gradient_switches if ctx.constant(each.value) is not False]
    parts = [part for each in thawed for part in ctx.modules_switched(each)]
    return any(not isinstance(part, Instance) or _overlap(part, module, ctx) for part in parts)


def _overlap(left: Value, right: Value, ctx: Context) -> bool:
    return ctx.is_part(left, right) or ctx.is_part(right, left)


def _thaws_again(thaw: AttributeAssigned, freeze: AttributeAssigned, part: Instance, ctx: Context) -> bool:
    """Whether all of a model is unfrozen after a part of it was frozen, with nothing between that uses it."""
    first, last = ctx.position(freeze), ctx.position(thaw)
    if ctx.constant(thaw.value) is not True or ctx.is_setting(thaw.value) or last <= first:
        return False
    model = _whole(thaw, ctx)
    if model is None or ctx.is_same(model, part) or not _holds_part(model, part) or _is_seldomer(thaw, freeze):
        return False
    between = (each for each in ctx.all_of(ModelForward, Backward) if first < ctx.position(each) < last)
    again = (each for each in ctx.freezes if ctx.position(each) > last)
    is_refrozen = any(_overlap(one, part, ctx) for each in again for one in ctx.modules_switched(each))
    in_turn = any(ctx.trains(loop) for loop in (*ctx.loops_around(freeze), *ctx.loops_around(thaw)))
    return not is_refrozen and not in_turn and not any(True for _ in between)


def _holds_part(model: Value, part: Value, depth: int = 0) -> bool:
    """Whether a module has another one among its attributes, and not only a number that it is made with."""
    if depth > _DEEPEST_PART or not isinstance(model, Instance):
        return False
    held = [option for value in model.attributes.values() for _, option in alternatives(value)]
    if model.library_name.startswith("torch.nn."):
        held += [each for each in model.arguments.all() if isinstance(each, Instance)]
    return any(each is part or _holds_part(each, part, depth + 1) for each in held)


def _is_seldomer(thaw: AttributeAssigned, freeze: AttributeAssigned) -> bool:
    return not {guard.key() for guard in thaw.guards} <= {guard.key() for guard in freeze.guards}
