"""A model that is evaluated in training mode.

Dropout stays active and batch normalization uses (and updates) batch statistics, so the score is too low, changes from
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
Models whose `forward` is not seen to lead to a layer that depends on the mode (a norm with `track_running_stats=False`
does not, nor a dropout of zero, nor a layer of which only the parameters are read, or that `forward` passes over as an
attribute says; a layer that only a setting brings in which is off by default makes a question, and so does dropout at a
rate that nothing tells), or that are neither trained nor loaded; evaluation whose caller is not seen (it may have set
the mode), or that a framework runs; forward passes inside a training step (teachers, momentum encoders, rollouts), and
what trains and evaluates by its name (`train_and_validate`); Monte Carlo dropout, by its name or where the same inputs
go in several times, and statistics and shapes that are only measured; models that return something else in evaluation
mode (detectors return losses only in training mode); generators, where no code of the project puts one into evaluation
mode: many are to make samples as in training (a question); what is tried on numbers that are made up on the spot (a
question); code that sets training mode right before, chooses the mode, or has a comment about it; scripts that set
training mode before they evaluate, and train nothing; programs with a comment against evaluation mode (`# do not call
.eval() here`); models that another method or a base class switches, or `eval()` before an engine runs what it was
given, or that are switched part by part (`model.encoder.eval()`), or of which a part is put back (`model.eval();
model.decoder.train()`).

## Fix (unsafe)
Inserts `model.eval()` before the loop of the evaluation, and `model.train()` after it if training goes on and nothing
else sets the mode; nothing where the same code also trains. Unsafe because scores, and the running statistics of batch
norm, change, as they should.

## On real code
742 public repositories: 31 findings in 14 of them, all true; many are notebooks. In 322 others 25: 18 true, 3 false and
4 doubtful; all seven are models without a layer that depends on the mode, and are silent or questions since. Of 89 in
batches of unread repositories 61 were true, 10 false and 18 doubtful: ten of these had no layer in use that depends on
the mode, or a rate of zero, four switch themselves, and five are generators that make samples in training mode on
purpose. Since a layer has to be seen in use, and one generator of the project in evaluation mode, 58 of the true ones
are reported, none of the false and 7 of the doubtful ones, five of them in scripts that fail before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Backward,
    Class,
    Context,
    Edits,
    Event,
    Finding,
    Instance,
    LossCall,
    ModeChange,
    ModelForward,
    Modes,
    OpaqueCall,
    OptimizerCreated,
    Phase,
    Program,
    Rule,
    Site,
    StateRestored,
    Symbol,
    Value,
    insert_after,
    insert_before,
    nodes_of,
    statement_around,
    together,
    walk,
)

_TRAINING = ("backward", "requires_grad", "requires_grad_", "autograd", "GradScaler")
_MADE_UP = tuple(f"numpy.random.{name}" for name in ("rand", "randn", "random", "random_sample", "normal", "uniform"))
_DETECTION = "torchvision.models.detection."  # these return their losses in training mode, and results in the other


# ------------------------------------------------------------------------------------------------- excuses


def is_no_model(event: ModelForward, model: Value, ctx: Context) -> bool:
    """what is called may be something else than a model"""
    return not ctx.is_called_as_model(event, model)


def does_not_depend_on_mode(event: ModelForward, model: Value, ctx: Context) -> bool:
    """no layer of the model is known to depend on the mode"""
    is_adversary = ctx.speaks_of("adversary", ctx.name_of(model), ctx.callee_of(event))
    is_as_loaded = ctx.modes(model, (event,)).is_as_made_at(event)
    in_doubt = not is_adversary  # GANs often have neither norms nor dropout
    return not ctx.is_mode_sensitive(model, in_doubt=in_doubt, as_loaded=is_as_loaded)


def is_neither_trained_nor_loaded(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the model is neither trained nor loaded here, so that nothing is measured"""
    if isinstance(model, Symbol) and model.name not in ("call", "item"):
        return False
    return not any(
        _shows_training(other, model, ctx) for other in ctx.all_of(ModeChange, StateRestored, OptimizerCreated)
    )


def is_a_part_of_a_model(event: ModelForward, model: Value, ctx: Context) -> bool:
    """it is a part of a model, whose mode is that of the whole, or is only being made"""
    return ctx.is_inside_model(event, model)


def is_no_measurement(event: ModelForward, model: Value, ctx: Context) -> bool:
    """it is random on purpose, or measures a shape or statistics, as names say, or the same inputs go in repeatedly"""
    if ctx.is_repeated_as_it_is(event):
        return True
    names = [frame.function for frame in event.frame.stack()]
    names += [ctx.program.name] if ctx.program.complete else []
    iterables = [loop.iterable for loop in ctx.loops_around(event) if loop.iterable is not None]
    names += [name for iterable in iterables for name in ctx.names_behind(iterable)]
    return ctx.speaks_of("sampled-evaluation", *names) or ctx.speaks_of("shape", *names)


def needs_training_mode(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the model returns something else in evaluation mode"""
    forward = ctx.member(model, "forward")
    if forward is None:
        return any(name.startswith(_DETECTION) for name in ctx.library_bases(model))
    tests = (node for node in ast.walk(forward.node) if isinstance(node, ast.If) and ctx.topic_of(node.test) == "mode")
    return any(isinstance(node, ast.Return) for test in tests for node in ast.walk(test))


def asks_for_losses(event: ModelForward, model: Value, ctx: Context) -> bool:
    """its losses are asked for, which detectors return in training mode only"""
    statement = statement_around(event.site)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return ctx.speaks_of("losses", *(ast.unparse(target) for target in targets))


def sets_training_mode_before(event: ModelForward, model: Value, ctx: Context) -> bool:
    """training mode is set in the line before"""
    first = getattr(statement_around(event.site), "lineno", event.site.line)
    return any(
        other.training and other.frame is event.frame and getattr(other.site.node, "end_lineno", 0) == first - 1
        for other in ctx.all_of(ModeChange)
    )


def is_in_training_mode_without_training(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the program puts the model into training mode before, and trains nothing that it could be meant for"""
    if not ctx.program.complete or any(True for _ in ctx.all_of(Backward, OptimizerCreated)):
        return False
    around = list(event.frame.stack())
    return any(
        change.training is True
        and any(change.frame is frame for frame in around)
        and ctx.position(change) < ctx.position(event)
        and ctx.is_same(change.model, model)
        for change in ctx.all_of(ModeChange)
    )


def is_advised_against(event: ModelForward, model: Value, ctx: Context) -> bool:
    """a comment somewhere in the files of the program speaks against evaluation mode: `# do not call .eval() here`"""
    comments = (text for module, tree in ctx.trees("eval") for text in ctx.comments_in(Site(module, tree)))
    return any(ctx.speaks_of("mode", each) and ctx.speaks_of("no-evaluation-mode", each) for each in comments)


def speaks_of_mode(event: ModelForward, model: Value, ctx: Context) -> bool:
    """a comment in the function speaks of the mode, or in one that puts parts of the model into evaluation mode"""
    around = event.frame.definition or Site(event.site.module, event.site.module.tree)
    off = (each for each in ctx.all_of(ModeChange) if each.training is False and each.frame.definition is not None)
    parts = (each for each in off if any(ctx.is_part(part, model) for part in ctx.objects(each.model)))
    places = [around, *(each.frame.definition for each in parts if each.frame.definition is not None)]
    return any(ctx.speaks_of("mode", *ctx.comments_in(place)) for place in places)


def chooses_mode(event: ModelForward, model: Value, ctx: Context) -> bool:
    """`eval()` stands under a condition in the function, so that its caller chooses the mode"""
    definition = event.frame.definition
    tests = (n for n in ast.walk(definition.node) if isinstance(n, ast.If)) if definition is not None else ()
    calls = (node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "eval" for call in calls)


def is_switched_part_by_part(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the code that evaluates, or a method of the model, switches parts of it, as ``model.encoder.eval()`` does, or the
    model switches itself when it is called: ``self.eval()`` in its `forward`"""
    if _switches_itself(model):
        return True
    frames = list(event.frame.stack())
    off = (each for each in ctx.all_of(ModeChange) if each.training is False)
    changes = [e for e in off if e.frame.receiver is model or any(e.frame is frame for frame in frames)]
    parts = [part for change in changes for part in ctx.objects(change.model) if not ctx.is_same(part, model)]
    return any(ctx.is_part(part, model) for part in parts)


def _switches_itself(model: Value) -> bool:
    """Whether the `forward` of a model of the project puts it into evaluation mode, if it is told to."""
    lineage = model.cls.lineage if isinstance(model, Instance) and isinstance(model.cls, Class) else ()
    methods = (cls.members["forward"] for cls in lineage if "forward" in cls.members)
    return any(ast.unparse(call.func) == "self.eval" for each in methods for call in nodes_of(each).of(ast.Call))


def is_left_training_on_purpose(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the code puts a model into evaluation mode, and then this part of it into training mode, as a decoder whose
    dropout is wanted"""
    return ctx.is_put_back_into_training(model, event)


def is_switched_elsewhere(event: ModelForward, model: Value, ctx: Context) -> bool:
    """another method, or a base class that calls this one, may switch the model before"""
    name = ctx.callee_of(event)
    frames = list(event.frame.stack())
    here = [other for other in ctx.all_of(ModeChange) if other.training and ctx.is_same(other.model, model)]
    if not name or ctx.program.complete or any(other.frame in frames for other in here):
        return False  # ... which does not help where the code that evaluates has set training mode itself
    owner = event.frame.receiver.cls if isinstance(event.frame.receiver, Instance) else None
    ancestors = [ancestor.module for ancestor in owner.lineage] if isinstance(owner, Class) else []
    if any(ctx.modes_set(module, name) - {True} for module in (event.site.module, *ancestors)):
        return True
    calls = [site.module for site in ctx.method_calls(event.frame.function, receiver="self")]
    return any(module in calls and False in ctx.modes_set(module) for module in ancestors[1:])


def is_called_later(event: ModelForward, model: Value, ctx: Context) -> bool:
    """it is in a function that an engine keeps, and the mode is set before that runs"""
    return ctx.is_called_later(model, event)


class MissingEvalMode(Rule):
    code = "DL207"
    name = "missing-eval-mode"
    category = "suspicious"
    severity = "warning"
    triggers = (
        ("no_grad", "inference_mode", "set_grad_enabled", "backward", "manual_backward", "train", "load_state_dict"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval",)
    excuses = (
        is_no_model,
        is_a_part_of_a_model,
        is_no_measurement,
        does_not_depend_on_mode,
        is_neither_trained_nor_loaded,
        needs_training_mode,
        asks_for_losses,
        sets_training_mode_before,
        is_in_training_mode_without_training,
        speaks_of_mode,
        is_advised_against,
        chooses_mode,
        is_switched_part_by_part,
        is_left_training_on_purpose,
        is_switched_elsewhere,
        is_called_later,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        evaluations = {
            event: _use_of_model(event, ctx) for event in ctx.all_of(ModelForward) if not ctx.is_managed(event)
        }
        evaluations = {event: phase for event, phase in evaluations.items() if phase.is_evaluation}
        models = {id(model): model for event in evaluations for model in ctx.objects(event.model)}
        mended: set[tuple[int, int]] = set()
        for model in models.values():
            calls = tuple(event for event in evaluations if ctx.is_same(event.model, model))
            modes = ctx.modes(model, calls)
            for event in calls:
                if modes.at(event) != {"train"} or ctx.excused(self, event, model):
                    continue
                passes = set(_passes(event, model, ctx))
                if mended.isdisjoint(passes):
                    yield self._report(event, model, calls, evaluations[event], modes, ctx)
                mended |= passes

    def _report(
        self,
        event: ModelForward,
        model: Value,
        evaluations: tuple[ModelForward, ...],
        phase: Phase,
        modes: Modes,
        ctx: Context,
    ) -> Finding:
        called = ctx.callee_of(event)
        name = called or ctx.name_of(model) or "model"
        edits = Edits() if _is_shared(event, evaluations, ctx) else _switch(event, called, model, ctx)
        return ctx.finding(
            self,
            event,
            f"`{name}` is evaluated in training mode",
            on=[
                phase,
                modes.assumptions_at(event),
                ctx.assumed_sensitivity(model),
                ctx.assumed_meant_for_evaluation(model, event),
                ctx.assumed_use(event.result, "what it returns"),
            ],
            effect="dropout is active and batch norm uses and updates batch statistics, so the score is wrong and not "
            "reproducible",
            help=f"call `{name}.eval()` before the evaluation and `{name}.train()` before training goes on",
            trace=[*ctx.calls_to(event), (event.site, "evaluated without `eval()`")],
            fix=("Switch to evaluation mode", edits),
        )


def _use_of_model(event: ModelForward, ctx: Context) -> Phase:
    """The phase of an event, also where only its input tells it, or that nothing is trained at all."""
    phase = ctx.phase(event)
    if phase.is_evaluation or (phase.name == "training" and event.grad != "off"):
        return phase
    if _is_only_used(event, ctx) and phase.name == "unknown":
        return Phase("inference", "weights are read from a file for it, and nothing is trained")
    name = _held_out(event, ctx)
    if not name:
        return phase
    text = f"`{name}` is for evaluation, as its name says"
    return Phase("evaluation", text, (Assumption("name", text),))


def _held_out(event: ModelForward, ctx: Context) -> str:
    """The name of what a model is given after it was trained, if it is for evaluation and nothing learns from it."""
    call = event.site.node
    given = call.args[0] if isinstance(call, ast.Call) and call.args else None
    names = [getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(given)] if given is not None else []
    name = next((each for each in names if each and ctx.phase_of_name(each) == "evaluation"), "")
    if (
        not name
        or any(ctx.phase_of_name(each) == "training" for each in names if each)
        or ctx.goes_backward(event.result)
    ):
        return ""
    if not any(ctx.position(other) < ctx.position(event) for other in ctx.all_of(Backward)):
        return ""
    learnt = (loss for loss in ctx.all_of(LossCall) if ctx.goes_backward(loss.result))
    values = (value for loss in learnt for value in (loss.input, loss.target) if value is not None)
    return "" if any(source is event.result for value in values for source in ctx.sources(value)) else name


def _is_only_used(event: ModelForward, ctx: Context) -> bool:
    """Whether a script reads weights from a file, and trains nothing: it does so to use the model."""
    if not ctx.program.complete or any(word in event.site.module.words for word in _TRAINING):
        return False
    if any(True for _ in ctx.all_of(Backward, OptimizerCreated)):
        return False
    if any(ctx.opaque_to(call, event.model) for call in ctx.all_of(OpaqueCall)):
        return False  # which may train it
    behind = (source for given in event.arguments.all() for source in ctx.sources(given))
    if any(isinstance(source, Symbol) and source.name in _MADE_UP for source in behind):
        return False  # a trial
    restored = (each for each in ctx.all_of(StateRestored) if ctx.position(each) < ctx.position(event))
    return any(ctx.is_same(each.target, event.model) for each in restored)


def _passes(event: ModelForward, model: Value, ctx: Context) -> Iterator[tuple[int, int]]:
    """What one call of `eval()` mends: the model, or what holds it, in a function and in the loop that evaluates."""
    definition = event.frame.definition
    yield id(definition.node if definition is not None else None), id(model)
    loops = [loop for loop in ctx.loops_around(event) if not ctx.trains(loop)]
    if loops:
        outside = set(map(id, loops[-1].frame.stack()))
        inside = [frame.receiver for frame in event.frame.stack() if id(frame) not in outside]
        holders = [receiver for receiver in inside if receiver is not None and ctx.reaches(receiver, model)]
        yield from ((id(loops[-1].site.node), id(each)) for each in (model, *holders))


def _shows_training(event: Event, model: Value, ctx: Context) -> bool:
    """Whether an event shows that a model is trained (as it is or in its owner), or loaded to be used."""
    if isinstance(event, ModeChange):
        return event.training is True and ctx.is_same(event.model, model)
    if isinstance(event, StateRestored):
        return ctx.is_same(event.target, model)
    modules = ctx.modules_in(event.parameters)[0] if isinstance(event, OptimizerCreated) else []
    return any(ctx.reaches(module, model) for module in modules)


# --------------------------------------------------------------------------------------------------- the fix


def _is_shared(event: ModelForward, evaluations: tuple[ModelForward, ...], ctx: Context) -> bool:
    """Whether the code that evaluates also trains: it gets to know by an argument what it is to do."""
    same_place = (other for other in ctx.all_of(ModelForward) if other.site.node is event.site.node)
    return any(other not in evaluations for other in same_place)


def _switch(event: ModelForward, called: str, model: Value, ctx: Context) -> Edits:
    """Set the mode before the loop of the evaluation, and back after it if training goes on and does not set it."""
    loops = [
        loop for loop in ctx.loops_around(event) if loop.frame is event.frame and isinstance(loop.site.node, ast.stmt)
    ]
    if any(other.frame is event.frame and other.training is False for other in ctx.all_of(ModeChange)):
        return Edits()  # something sets it back
    if not called or any(called.partition(".")[0] in loop.targets for loop in loops):
        return Edits()
    evaluation = [loop for loop in loops if not ctx.trains(loop)]
    if any(isinstance(other, ModeChange) and other.training for loop in evaluation for other in walk(loop.body)):
        return Edits()  # it would not last
    place = evaluation[-1].site if evaluation else event.site
    before = insert_before(place, f"{called}.eval()")
    if not _must_be_set_back(event, model, ctx):
        return before
    return together(before, insert_after(place, f"{called}.train()"))


def _must_be_set_back(event: ModelForward, model: Value, ctx: Context) -> bool:
    """Whether training goes on after an evaluation in the mode that it finds, or may do so where nobody sees it."""
    setting = [e for e in ctx.all_of(ModeChange) if e.training is not False and ctx.may_set_mode(model, e)]
    training = [loop for loop in ctx.loops_around(event) if ctx.trains(loop)]
    if training or ctx.program.complete:
        return not all(any(loop in ctx.loops_around(each) for each in setting) for loop in training)
    return not setting
