"""Frozen batch norms that go on adapting their statistics.

`requires_grad = False` freezes the scale and the shift of a batch norm, and not its running mean and variance: these
are no parameters, and follow the batches in training mode, with or without gradients. The frozen layers are not trained
any more, but what they compute in evaluation mode is not what the pretrained network computed: while training, they
normalize by the batch, and in evaluation by the new statistics.

Measured on torch 2.13 (ten batches in training mode): on data that are shifted and scaled, the features of a frozen
network change by 76 %, 25 % of that after one batch; on data like those of before, by 1.3 to 1.8 %. A new head on
frozen features reached an accuracy of .577 instead of .739 where each batch was of one class. Where batches are mixed,
the statistics of the new data can also help (.993 instead of .822), so decide which of the two it is to be.

## Bad
    net = models.resnet18(weights="DEFAULT")
    for p in net.parameters():
        p.requires_grad = False
    net.fc = nn.Linear(512, 10)
    optimizer = optim.Adam(net.fc.parameters())
    for epoch in range(epochs):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Good
    net = models.resnet18(weights="DEFAULT")
    for p in net.parameters():
        p.requires_grad = False
    net.fc = nn.Linear(512, 10)
    optimizer = optim.Adam(net.fc.parameters())
    for epoch in range(epochs):
        net.eval()
        net.fc.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

Norms that are put into evaluation mode one by one stay in it until the next `train()` of the network: where that comes
at the beginning of each epoch, they have to be put there after it.

## Not reported
Networks that are not known to have batch norms; those of which other parts are unfrozen again that may hold them, or
whose parameters are chosen by a condition that may leave out the norms; those in a plain list or dict of a module,
whose `train()` does not reach them; norms alone, of layers that are trained, as many networks for segmentation have
them; classes with a `train` of their own, and code that puts norms into evaluation mode one by one, or the network in a
`forward`; copies that follow another network (teachers, where any file averages or copies weights), and adaptation to
new data, which want the statistics to move; what takes the features of a part of the same network that is unfrozen, and
has to follow them; networks of torchvision with the random weights that they were made with; parts that are unfrozen
one after the other. Where the program itself never puts the network into evaluation mode, nothing is seen to use the
statistics, and this is a question.

## On real code
206 public repositories: 10 findings in 7 of them, all true: frozen networks with a new head, most of them in image
captioning and transfer learning. In 127 others 2 findings: one is doubtful (the notebook does not run), and one was
false: parts of a network that is in evaluation mode keep that mode, and are not mentioned any more. Of 11 in the ten
batches that were read then, 3 were doubtful for norms alone. In 363 others `train()` undoes in 3 scripts of 2 projects
what was done to norms, all true. Of 51 in batches of unread repositories 33 were true, 6 false and 12 doubtful: what
the true ones have, and most others lack, is that the same program evaluates the network by these statistics. Since that
is asked for, 32 of the true ones are reported, 1 of the false and 2 of the doubtful ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Const,
    Context,
    Event,
    Finding,
    Guard,
    Instance,
    ModeChange,
    ModelForward,
    ParametersUpdated,
    Program,
    Rule,
    Site,
    StateRestored,
    Symbol,
    Undone,
    Value,
)

_NORMS = frozenset(f"torch.nn.{name}" for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))

_AVERAGING = ("copy_", "mul_", "lerp_", "deepcopy")  # how a teacher follows its student
_AVERAGES = ("ema", "EMA", "AveragedModel", "deepcopy")

# ------------------------------------------------------------------------------------------------- excuses


def is_frozen_in_part(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """a condition chooses which parameters are frozen, and may leave out those of the norms"""
    targets = {name for loop in ctx.loops_around(freeze) for name in loop.targets}
    chosen = [guard for guard in freeze.guards if not guard.names.isdisjoint(targets)]
    return not all(_leaves_out_others(guard, ctx) for guard in chosen)


def is_unfrozen(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """the network, or what it is a part of, is unfrozen at another place, be it in part"""
    others = [switch for switch in ctx.gradient_switches if ctx.constant(switch.value) is not False]
    parts = [(other, part) for other in others for part in ctx.modules_switched(other)]
    if any(_is_of_some_part(other, frozen, ctx) for other in others):
        return True
    return any(
        ctx.is_same(part, frozen) or ctx.is_part(frozen, part) or (bool(other.guards) and ctx.is_part(part, frozen))
        for other, part in parts
    )


def _is_of_some_part(switch: AttributeAssigned, frozen: Value, ctx: Context) -> bool:
    """Whether some parts are unfrozen that were taken out of the network, and nothing tells which of them."""
    parts = [each for each in ctx.modules_switched(switch) if isinstance(each, Symbol) and each.name == "item"]
    chosen = [each for each in parts if not any(isinstance(index, Const) for index in each.inputs[1:])]
    return any(ctx.reaches(frozen, source) for each in chosen for source in ctx.sources(each) if ctx.is_module(source))


def is_as_initialized(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """it has the random weights that it was made with, so that there is nothing for its statistics to keep to"""
    if not isinstance(frozen, Instance) or not frozen.library_name.startswith("torchvision.models."):
        return False
    told = frozen.arguments.get(0, "weights") or frozen.arguments.get(None, "pretrained")
    if not frozen.arguments.exact or not (told is None or (isinstance(told, Const) and not told.value)):
        return False
    restored = (each for each in ctx.all_of(StateRestored) if ctx.position(each) < ctx.position(event))
    return not any(ctx.is_part(frozen, owner) for each in restored for owner in ctx.objects(each.target))


def has_its_own_train(freeze: Event, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """the class of the network, or of one that it is a part of, has a `train` of its own"""
    around = (frame.receiver for frame in event.frame.stack() if frame.receiver)
    owners = [*ctx.objects(event.model), frozen, *(each for each in around if ctx.is_module(each))]
    return any(ctx.member(owner, "train") is not None for owner in owners)


def switches_norms(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """the code puts norms into evaluation mode one by one, or a `forward` does that with the network"""
    for site in ctx.method_calls("eval"):
        if _is_before_each_call(site, ctx.name_of(frozen), ctx):
            return True
        names = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(site.node)}
        tests = [node.test for node in ctx.ancestors(site, ast.If)]
        names |= {getattr(node, "attr", getattr(node, "id", "")) for test in tests for node in ast.walk(test)}
        names |= {node.value for test in tests for node in ast.walk(test) if isinstance(node, ast.Constant)}
        names |= {node.name for node in ctx.ancestors(site, ast.FunctionDef)}
        if any(ctx.speaks_of("normalization", str(name)) for name in names):
            return True
    return False


def puts_parts_in_eval(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """a part of the network, which may have all of its norms, is put into evaluation mode, and nothing undoes it"""
    changes = ctx.all_of(ModeChange)
    is_left = any(each.training is False and ctx.is_part(each.model, frozen) for each in changes)
    return is_left and not any(each.training is not False and ctx.may_set_mode(frozen, each) for each in changes)


def _is_before_each_call(site: Site, name: str, ctx: Context) -> bool:
    """Whether this is ``self.name.eval()`` in a `forward`."""
    owner = (
        site.node.func.value if isinstance(site.node, ast.Call) and isinstance(site.node.func, ast.Attribute) else None
    )
    is_own = isinstance(owner, ast.Attribute) and owner.attr == name
    return is_own and any(node.name == "forward" for node in ctx.ancestors(site, ast.FunctionDef))


def wants_to_adapt(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """it is a copy that follows another network, or adapts to new data on purpose"""
    functions = [frame.function for frame in (*freeze.frame.stack(), *event.frame.stack())]
    if _is_called_average(ctx.name_of(frozen), ctx) or ctx.speaks_of("sampled-evaluation", *functions):
        return True
    if any(ctx.is_part(each.target, frozen) for each in ctx.all_of(ParametersUpdated)) or _is_paired(frozen, ctx):
        return True
    written = (each for each in ctx.all_of(AttributeAssigned) if each.attribute == "data")
    return any(ctx.is_same(module, frozen) for each in written for module in ctx.modules_switched(each))


def _is_paired(frozen: Value, ctx: Context) -> bool:
    """Whether code goes over the parameters of a network beside those of another, as by `zip(a.parameters(), b...)`."""
    name = ctx.name_of(frozen)
    calls = [site for each in ("parameters", "named_parameters") for site in ctx.method_calls(each, of=name)]
    around = (next(ctx.ancestors(site, ast.Call), None) for site in calls if name)
    return any(call is not None and isinstance(call.func, ast.Name) and call.func.id == "zip" for call in around)


def _is_called_average(name: str, ctx: Context) -> bool:
    """Whether a network is called as averages are; a teacher is one only where any file averages or copies weights."""
    if not ctx.speaks_of("averaged-model", name):
        return False
    others = "_".join(
        word for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name) if word.lower() not in ("teacher", "model")
    )
    if ctx.speaks_of("averaged-model", others):
        return True
    if any(any(ctx.method_calls(each)) for each in _AVERAGING) or any(any(ctx.trees(each)) for each in _AVERAGES):
        return True
    loads = (site.node for site in ctx.method_calls("load_state_dict") if isinstance(site.node, ast.Call))
    return any("state_dict()" in ast.unparse(each) for call in loads for each in call.args)


def belongs_to_trained_layers(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """scales and shifts alone are frozen: the layers around them are trained, and their statistics have to follow"""
    owners = ctx.objects(event.model)
    frozen_too = (part for other in ctx.freezes for part in ctx.modules_switched(other))
    parts = [part for part in frozen_too if any(ctx.is_part(part, owner) for owner in owners)]
    return bool(ctx.layers_in(frozen)) and all(ctx.layers_in(part) <= _NORMS for part in (frozen, *parts))


def follows_what_is_trained(freeze: AttributeAssigned, frozen: Value, event: ModelForward, ctx: Context) -> bool:
    """it takes what a part of the same network computes that was unfrozen: its statistics have to follow that part"""
    unfrozen = _unfrozen_at(event, ctx)
    if not unfrozen:
        return False
    results = (each for each in ctx.sources_inside(event.result) if isinstance(each, Symbol) and len(each.inputs) > 1)
    given = (value for each in results if ctx.is_same(each.inputs[0], frozen) for value in each.inputs[1:])
    before = [callee for value in given for source in ctx.sources(value) for callee in _called_for(source)]
    inside = [each for each in before if any(ctx.is_part(each, owner) for owner in ctx.objects(event.model))]
    return any(ctx.is_part(part, module) for part in unfrozen for module in inside)


def _called_for(value: Value) -> tuple[Value, ...]:
    """The module that a value is the result of, if it is that of a call."""
    is_call = isinstance(value, Symbol) and (value.name in ("forward", "call") or value.name.endswith("()"))
    return value.inputs[:1] if is_call and isinstance(value, Symbol) else ()


def _unfrozen_at(event: ModelForward, ctx: Context) -> list[Value]:
    """The modules that are unfrozen, and not frozen again, when a model is called."""
    found: list[Value] = []
    for switch in ctx.gradient_switches:
        if ctx.position(switch) < ctx.position(event):
            parts = ctx.modules_switched(switch)
            found = [each for each in found if not any(ctx.is_part(each, part) for part in parts)]
            found += parts if ctx.constant(switch.value) is True else []
    return found


class FrozenBatchnormInTrainMode(Rule):
    code = "DL602"
    name = "frozen-batchnorm-in-train-mode"
    category = "suspicious"
    severity = "warning"
    triggers = (
        ("requires_grad", "requires_grad_", "eval"),
        ("parameters", "named_parameters", "requires_grad_", "modules", "named_modules", "children", "apply"),
    )
    confirmable = True
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html",
        "https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval",
    )
    excuses = (
        is_frozen_in_part,
        is_unfrozen,
        is_as_initialized,
        has_its_own_train,
        switches_norms,
        puts_parts_in_eval,
        wants_to_adapt,
        belongs_to_trained_layers,
        follows_what_is_trained,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        for freeze in ctx.freezes:
            for frozen in ctx.modules_switched(freeze):
                option = ctx.option_with_batch_norm(frozen)
                if id(frozen) in reported or not (ctx.has_batch_norm(frozen) or option is not None):
                    continue
                event = _trained_through(frozen, freeze, ctx)
                if event is not None and not ctx.excused(self, freeze, frozen, event):
                    reported.add(id(frozen))
                    yield self._report(freeze, frozen, event, option, ctx)
        for undone in ctx.undone_norm_modes:
            if not has_its_own_train(undone.switch, undone.owner, undone.call, ctx):
                yield self._undone(undone, ctx)

    def _undone(self, undone: Undone, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            undone.change,
            "this `train()` undoes that batch norms were put into evaluation mode, before anything is trained",
            on=[undone.switch, undone.call, ctx.phase(undone.call), ctx.left_alone(undone.call, undone.owner)],
            effect="the norms that were to stay as they are adapt their statistics to each batch",
            help="put them into evaluation mode after each `train()`",
            confirmable=False,  # what is trained beside them need not be frozen
            trace=[
                *ctx.calls_to(undone.switch),
                (undone.switch.site, "batch norms are put into evaluation mode"),
                (undone.change.site, "and back into training mode"),
                (undone.call.site, "and see batches in it"),
            ],
        )

    def _report(
        self, freeze: AttributeAssigned, frozen: Value, event: ModelForward, option: Value | None, ctx: Context
    ) -> Finding:
        name = ctx.name_of(frozen) or "the frozen network"
        modes = ctx.modes(frozen, (event,))
        return ctx.finding(
            self,
            freeze,
            f"`{name}` is frozen, but its batch norms go on adapting their statistics in training mode",
            on=[event, modes.assumptions_at(event), ctx.phase(event), ctx.left_alone(event, frozen), option],
            assuming=_assumed_evaluated(frozen, freeze, event, ctx),
            effect="what it computes in evaluation mode moves away from what was frozen, though no parameter changes",
            help=f"call `{name}.eval()` after each `train()`, and `train()` of what is trained",
            trace=[
                *_made_here(frozen, freeze, ctx),
                (freeze.site, "the parameters are frozen here"),
                *ctx.calls_to(event),
                (event.site, "and the batch norms see batches in training mode"),
            ],
        )


def _assumed_evaluated(frozen: Value, freeze: Event, event: ModelForward, ctx: Context) -> list[Assumption]:
    """That the statistics are ever used, where the program does not put the network into evaluation mode."""
    if ctx.is_managed(event) or ctx.is_ever_put_into_evaluation(frozen, freeze):
        return []
    name = ctx.name_of(frozen) or "the frozen network"
    return [Assumption("effect", f"somebody evaluates `{name}` by the statistics, which this program does not")]


def _made_here(frozen: Value, freeze: AttributeAssigned, ctx: Context) -> list[tuple[Site, str]]:
    """Where the network is made of which some layers are frozen: of several of them one `train()` is the cause."""
    whole = frozen
    while isinstance(whole, Symbol) and whole.name in ("attribute", "item") and whole.inputs:
        whole = whole.inputs[0]
    made = whole.site if isinstance(whole, Instance) and whole is not frozen else None
    is_near = made is not None and made.module is freeze.site.module
    return [(made, f"`{ctx.name_of(whole)}` is made here")] if made is not None and is_near else []


def _trained_through(frozen: Value, freeze: AttributeAssigned, ctx: Context) -> ModelForward | None:
    """A call in training, after a freeze, of the frozen network or of what it is a part of, in training mode."""
    calls = [
        event
        for event in ctx.all_of(ModelForward)
        if ctx.position(event) > ctx.position(freeze)
        and ctx.phase(event).name == "training"
        and any(ctx.is_part(frozen, model) for model in ctx.objects(event.model))
    ]
    modes = ctx.modes(frozen, tuple(calls)) if calls else None
    return next((event for event in calls if modes is not None and modes.at(event) == {"train"}), None)


def _leaves_out_others(guard: Guard, ctx: Context) -> bool:
    """Whether a condition leaves out only what has another name than norms have: ``"fc" not in name``."""
    listed = guard.operand if guard.relation == "in" and isinstance(guard.operand, list | tuple) else [guard.operand]
    is_one_of = guard.relation in ("in", "==") and all(isinstance(each, str) for each in listed)
    is_by_name = (guard.relation == "in" and guard.subject[:1] in "'\"") or "startswith(" in guard.subject
    words = re.findall(r"\w+", f"{guard.subject} {' '.join(map(str, listed)) if is_one_of else ''}")
    return (is_by_name or is_one_of) and not guard.holds and not ctx.speaks_of("normalization", *words)
