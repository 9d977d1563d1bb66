"""A model that is evaluated in training mode.

Dropout stays active and batch normalisation uses (and updates) batch statistics, so the score is too low, changes from
run to run, and depends on the batch size; the validation data leak into the running statistics.

Measured on torch 2.13 (batch norm and dropout .5): six evaluations of one model gave losses between .767 and .861 in
training mode and exactly .4205 in evaluation mode; with batches of 4, 1.525 against .514. One validation batch in
training mode moved a running mean by up to 1.73, also under `no_grad`.

## Bad
    def evaluate(model, loader):
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum()

## Good
    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum()

## Not reported
Models without a layer that is known to depend on the mode, evaluation whose caller is not seen (it may have set the
mode), forward passes under `no_grad` inside a training step (teachers, momentum encoders, rollouts, sample grids), what
trains and evaluates by its name (`train_and_validate`), Monte Carlo dropout, models that return something else in
evaluation mode (detectors return losses only in training mode), code that sets training mode right before or has a
comment about the mode, and models that a framework or a context manager switches.

## Fix (unsafe)
Inserts `model.eval()` before the loop of the evaluation, and `model.train()` behind it if training goes on and nothing
else sets the mode; nothing where the same code also trains. Unsafe because scores, and the running statistics of batch
norm, change, as they should.

## On real code
742 public repositories: 31 findings in 14 of them, all true; many are notebooks, one is a test whose attack sets
training mode again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from dllint.api import (
    Assumption,
    Backward,
    Class,
    Context,
    Edit,
    Event,
    Finding,
    Instance,
    ModeChange,
    ModelForward,
    Node,
    OpaqueCall,
    OptimizerCreated,
    Program,
    Rule,
    Site,
    StateRestored,
    Symbol,
    Value,
    insert_after,
    insert_before,
    offer,
    statement_around,
    walk,
)

State = str  # of the model: train, eval or unknown
_MODELS = ("module", "wrapper")
_KINDS = (ModelForward, ModeChange, OpaqueCall)
_EVALUATION = re.compile(
    r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|vali|test|testing|infer|inference|dev)"
    r"(_|$|\d|[A-Z]|loader|data|set|iter)"
    r"|Eval|Valid"
)
_TRAINING = re.compile(r"(^|_)train|Train")
_NOT_EVALUATION = re.compile(
    r"(^|_)(mc|monte|uncertain\w*|update_bn|bn_update|calibrat\w*|adapt|tta|memory|bank|rollout|collect)(_|$)|dropout"
)
_READY_MADE = ("from_pretrained", "from_config", "hub.load")  # come in evaluation mode, or in one not known
_DETECTION = (
    "torchvision.models.detection."  # return their losses in training mode, and other things in evaluation mode
)
_LOSSES = re.compile(r"(^|_)loss_?dict|(^|_)losses$|dict_?loss")  # what detectors return in training mode alone
_MODE_CALL = re.compile(r"\.(eval|train)\((mode=)?(True|False)?\)")
_OF_SHAPE = re.compile(r"_(size|shape|dim|dims|features)$")  # what a layer returns is only measured
_TO_EVALUATION = re.compile(r"\.eval\(\)|\.train\((mode=)?False")
_SPEAKS_OF_MODE = re.compile(r"#.*(\b(eval|train|training)[ -]mode|\.eval\()")


# Networks of a GAN often have neither batch norm nor dropout, and are looked at while they train.
_ADVERSARIAL = re.compile(r"(^|[_.])net_?[GD]\b|(^|\.)[GD]$|generator|discriminator")


class MissingEvalMode(Rule):
    code = "DL207"
    name = "missing-eval-mode"
    category = "suspicious"
    severity = "warning"
    triggers = (("no_grad", "inference_mode", "set_grad_enabled", "backward", "manual_backward", "train"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        candidates = [event for event in ctx.all_of(ModelForward) if self._evaluates(event, ctx)]
        seen: set[tuple[int, int]] = set()
        for model in _distinct(value for event in candidates for value in ctx.objects(event.model)):
            mine = [event for event in candidates if ctx.is_same(event.model, model)]
            is_adversarial = any(_ADVERSARIAL.search(name) for name in (ctx.name_of(model), _called(mine[0], ctx)))
            if not ctx.is_mode_sensitive(model, in_doubt=not is_adversarial) or _needs_training_mode(model, ctx):
                continue
            start = "train" if self._starts_training(model, mine[0], ctx) else "unknown"
            if not isinstance(model, Instance) and not (
                (start == "train" or _is_made(model)) and _is_module(model, mine, ctx)
            ):
                continue  # anything that is called may be meant
            if not isinstance(model, Instance) and _is_made(model) and not _knows_modes(mine[0]):
                continue  # nothing is known of its layers, and nobody here thinks of modes
            flow = ctx.follow(start, _next, _KINDS, partial(_matters, model, ctx))
            for event in mine:
                definition = event.frame.definition  # one finding for a function: one call mends them all
                key = (id(definition.node if definition is not None else None), id(model))
                if flow.arrivals.get(event) != {"train"} or _is_switched_elsewhere(event, model, ctx):
                    continue
                if key not in seen and not _is_meant(event, ctx):
                    seen.add(key)
                    yield self._report(event, model, mine, ctx)

    def _starts_training(self, model: Value, event: ModelForward, ctx: Context) -> bool:
        """Whether a model is in training mode unless the program says otherwise.

        That holds for a model that the program makes, and trains or loads. For one that a function is given, it holds
        where the function that trains it in the same file sets the mode itself, and nobody who names this one sets
        another.
        """
        if isinstance(model, Instance) or (isinstance(model, Symbol) and model.name in ("call", "item")):
            pretrained = isinstance(model, Instance) and model.library_name.endswith(_READY_MADE)
            return not pretrained and self._is_trained(model, ctx)
        if not isinstance(model, Symbol) or model.name not in ("parameter", "attribute"):
            return False
        name, function = str(model.detail), event.frame.function
        module = event.site.module
        trains = all(module.contains(re.compile(each)) for each in (rf"\b{name}\.train\((True)?\)", r"backward\("))
        sets_mode = rf"\b{name}\.(eval\(|train\((mode=)?False)"
        return trains and not ctx.project_mentions(sets_mode, rf"\b{function}\b")

    def _evaluates(self, event: ModelForward, ctx: Context) -> bool:
        """Whether a forward pass belongs to an evaluation: code that says so, outside a training step."""
        if ctx.is_managed(event) or ctx.role(event.model) == "loss-class":
            return False
        if isinstance(event.site.node, ast.Call) and isinstance(event.site.node.func, ast.Call):
            return False  # what `get_model(name)(config)` calls is a class
        frames = list(event.frame.stack())
        loops = ctx.loops_around(event)
        names = [frame.function for frame in frames]
        if ctx.program.complete:
            names.append(ctx.program.name)
        names += [ctx.name_of(loop.iterable) for loop in loops if loop.iterable is not None]
        names += [name for loop in loops if loop.iterable is not None for name in ctx.names_behind(loop.iterable)]
        if "__init__" in names or any(_NOT_EVALUATION.search(name) or _OF_SHAPE.search(name) for name in names):
            return False
        if "forward" in names:
            return False  # a part of a model, whose mode is that of the whole
        evaluating = next((place for place, frame in enumerate(frames) if _is_evaluation(frame.function)), None)
        if evaluating is not None:
            within = frames[: evaluating + 1]
            own = tuple(loop for loop in loops if any(loop.frame is frame for frame in within))
            if loops and not own and event.grad != "off" and ctx.trains(loops[0]):
                return False  # `inference(model, batch)` in a loop that trains with what it returns
            if event.grad != "off" and _is_trained_with(event, ctx):
                return False  # a test of a layer, which goes backward from what it returns
            loops = own
        if loops and ctx.trains(loops[0]):
            return False
        if event.grad != "off" and evaluating is None:
            return False
        return any(_is_evaluation(name) for name in names)

    def _is_trained(self, model: Value, ctx: Context) -> bool:
        """Whether a model is trained (its parameters or those of its owner go into an optimizer), or loaded as such."""
        for event in ctx.events:
            if isinstance(event, ModeChange) and event.training and ctx.is_same(event.model, model):
                return True
            if isinstance(event, StateRestored) and ctx.is_same(event.target, model):
                return True
            if isinstance(event, OptimizerCreated):
                modules, _ = ctx.modules_in(event.parameters)
                if any(ctx.reaches(module, model) for module in modules):
                    return True
        return False

    def _report(self, event: ModelForward, model: Value, evaluations: list[ModelForward], ctx: Context) -> Finding:
        called = _called(event, ctx)
        name = called or ctx.name_of(model) or "the model"
        return ctx.finding(
            self,
            event,
            f"`{name}` is evaluated in training mode",
            effect="dropout is active and batch norm uses and updates batch statistics, so the score is wrong and not "
            "reproducible",
            help=f"call `{name}.eval()` before the evaluation and `{name}.train()` before training goes on",
            trace=[*ctx.calls_to(event), (event.site, "evaluated without `eval()`")],
            fixes=offer(
                "Switch to evaluation mode",
                () if _is_shared(event, evaluations, ctx) else _switch(event, called, model, ctx),
                "unsafe",
                of=event.site,
                at=event.site,
            ),
            assuming=[Assumption("name", "this is evaluation, as names say")],
        )


def _is_evaluation(name: str) -> bool:
    """Whether a name speaks of evaluation, and not of training as well (``train_and_validate``)."""
    return bool(_EVALUATION.search(name)) and not _TRAINING.search(name)


def _knows_modes(event: ModelForward) -> bool:
    """Whether the file that evaluates a model switches the mode of anything."""
    module = event.site.module
    return bool(module.contains(_MODE_CALL))


def _is_trained_with(event: ModelForward, ctx: Context) -> bool:
    """Whether the function that calls a model also goes backward from a loss that the model was behind."""
    backwards = (other for other in ctx.all_of(Backward) if other.frame is event.frame and other.loss is not None)
    return any(
        ctx.is_same(model, event.model)
        for backward in backwards
        for model in ctx.models_behind(backward.loss, with_gradients=True)  # type: ignore[arg-type]
    )


def _is_made(model: Value) -> bool:
    """Whether the program makes a model, by a call of something that is not known."""
    return isinstance(model, Symbol) and model.arguments is not None


def _is_module(model: Value, forwards: list[ModelForward], ctx: Context) -> bool:
    """Whether what is called goes by the name of a module, or is wrapped as only modules are."""
    return any(ctx.guessed_role(value) in _MODELS for value in (model, *(event.model for event in forwards)))


def _called(event: ModelForward, ctx: Context) -> str:
    """What is called, as it is written, where that is a name or an attribute."""
    node = event.site.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return ""
    return ctx.source_of(Site(event.site.module, node.func)).removesuffix(".forward")


def _is_shared(event: ModelForward, evaluations: list[ModelForward], ctx: Context) -> bool:
    """Whether the code that evaluates also trains: it gets to know by an argument what it is to do."""
    return any(
        other.site.node is event.site.node and not any(other is each for each in evaluations)
        for other in ctx.all_of(ModelForward)
    )


def _switch(event: ModelForward, called: str, model: Value, ctx: Context) -> tuple[Edit, ...]:
    """Set the mode before the loop of the evaluation, and back behind it if training goes on and does not set it."""
    loops = [
        loop for loop in ctx.loops_around(event) if loop.frame is event.frame and isinstance(loop.site.node, ast.stmt)
    ]
    if any(
        isinstance(other, ModeChange) and other.frame is event.frame and other.training is False for other in ctx.events
    ):
        return ()  # something sets it back
    if not called or any(called.partition(".")[0] in loop.targets for loop in loops):
        return ()
    evaluation = [loop for loop in loops if not any(isinstance(other, Backward) for other in walk(loop.body))]
    if any(isinstance(other, ModeChange) and other.training for loop in evaluation for other in walk(loop.body)):
        return ()  # it would not last
    place = evaluation[-1].site if evaluation else event.site
    before = insert_before(place, f"{called}.eval()")
    if not before or not _must_be_set_back(event, model, ctx):
        return before
    after = insert_after(place, f"{called}.train()")
    return (*before, *after) if after else ()


def _must_be_set_back(event: ModelForward, model: Value, ctx: Context) -> bool:
    """Whether training goes on after an evaluation in the mode that it finds, or may do so where nobody sees it."""

    def sets_mode(other: Node) -> bool:
        return isinstance(other, ModeChange) and other.training is not False and _matters(model, ctx, other)

    training = [
        list(walk(loop.body))
        for loop in ctx.loops_around(event)
        if any(isinstance(other, Backward) for other in walk(loop.body))
    ]
    if training or ctx.program.complete:
        return not all(any(map(sets_mode, body)) for body in training)
    return not any(map(sets_mode, ctx.all_of(ModeChange)))


def _needs_training_mode(model: Value, ctx: Context) -> bool:
    """Whether a module returns something else in evaluation mode, as detectors do, which have no losses then."""
    forward = ctx.member(model, "forward")
    if forward is None:
        return any(name.startswith(_DETECTION) for name in ctx.library_bases(model))
    return any(
        isinstance(node, ast.If)
        and "self.training" in ast.unparse(node.test)
        and any(isinstance(n, ast.Return) for n in ast.walk(node))
        for node in ast.walk(forward.node)
    )


def _is_meant(event: ModelForward, ctx: Context) -> bool:
    """Whether training mode is wanted.

    So it is where the losses of a detector are asked for, where the mode is set right before, where the evaluation
    chooses it, or where a comment in it speaks of the mode (and says why it is not set).
    """
    statement = statement_around(event.site)
    if isinstance(statement, ast.Assign) and _LOSSES.search(ast.unparse(statement.targets[0])):
        return True
    definition = event.frame.definition
    if definition is None:
        return bool(_SPEAKS_OF_MODE.search(ctx.text(event.site)))
    first = getattr(statement, "lineno", event.site.line)
    if any(
        isinstance(node, ast.Expr) and node.end_lineno == first - 1 and ast.unparse(node) == f"{name}.train()"
        for name in [_called(event, ctx)]
        for node in ast.walk(definition.node)
    ):
        return True
    return bool(_SPEAKS_OF_MODE.search(ctx.source_of(definition))) or _chooses_mode(definition.node)


def _chooses_mode(function: ast.AST) -> bool:
    """Whether ``eval()`` stands under a condition: a call for which it does not hold wants the other mode."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "eval"
        for test in ast.walk(function)
        if isinstance(test, ast.If)
        for node in ast.walk(test)
    )


def _is_switched_elsewhere(event: ModelForward, model: Value, ctx: Context) -> bool:
    """Whether a class seen without its users has a method that switches this model, or lets its caller do so.

    They may call it before this one.

    That does not help where the code that evaluates has set training mode itself.
    """
    name = _called(event, ctx)
    if not name or ctx.program.complete:
        return False
    frames = list(event.frame.stack())
    here = (other for other in ctx.all_of(ModeChange) if any(other.frame is frame for frame in frames))
    if any(other.training and ctx.is_same(other.model, model) for other in here):
        return False
    owner = event.frame.receiver
    lineage = owner.cls.lineage if isinstance(owner, Instance) and isinstance(owner.cls, Class) else ()
    modules: list[Any] = [event.site.module, *(ancestor.module for ancestor in lineage)]
    switch = re.compile(rf"\b{re.escape(name)}\.(eval\(|train\((mode=)?(?!\)|True|mode))")
    if any(module.contains(switch) for module in modules):
        return True
    calls = re.compile(rf"\bself\.{event.frame.function}\(")  # a base class evaluates with what is written here
    return any(module.contains(calls) and module.contains(_TO_EVALUATION) for module in modules[2:])


def _distinct(values: Iterator[Value]) -> list[Value]:
    found: list[Value] = []
    for value in values:
        if not any(value is known for known in found):
            found.append(value)
    return found


def _matters(model: Value, ctx: Context, event: Event) -> bool:
    if isinstance(event, ModeChange):
        return any(owner is model or ctx.reaches(owner, model) for owner in ctx.objects(event.model))
    if isinstance(event, OpaqueCall):
        on_tensor = event.name.endswith("_")  # in place, on a parameter
        return not on_tensor and ctx.opaque_to(event, model)
    return isinstance(event, ModelForward) and ctx.is_same(event.model, model)


def _next(event: Event, state: State) -> State:
    if isinstance(event, ModeChange):
        return "unknown" if event.training is None else "train" if event.training else "eval"
    return "unknown" if isinstance(event, OpaqueCall) else state
