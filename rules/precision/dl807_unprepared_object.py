"""A model, an optimizer or a loader that Accelerate has not prepared, beside others that it has.

`prepare` returns other objects than it is given: a model that averages gradients over processes, an optimizer that
waits for the end of an accumulation and skips steps whose scaled gradients overflow, a loader that gives each process
its share. Whatever is left out, or is used under its old name, does nothing of this.

Measured on torch 2.13 with Accelerate (20 batches, an accumulation of 4): a prepared optimizer changes the weights 5
times, one that is not prepared 20 times, each time by the gradients of a part.

## Bad
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, loader = accelerator.prepare(model, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            accelerator.backward(criterion(model(x), y))
            optimizer.step()

## Good
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            accelerator.backward(criterion(model(x), y))
            optimizer.step()

## Not reported
Calls of `prepare` whose arguments are not all known; models that are unwrapped on purpose, frozen or only evaluated;
loaders with a sampler of their own; objects that go to code which cannot be followed.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dllint.api import (
    Const,
    Context,
    Event,
    Finding,
    LibraryCall,
    ModelForward,
    OptimizerCreated,
    Program,
    Rule,
    Trained,
    Value,
    alternatives,
    assumed_under,
)

_PREPARE = "accelerate.prepare"


class UnpreparedObject(Rule):
    code = "DL807"
    name = "unprepared-object"
    category = "correctness"
    severity = "error"
    triggers = (("accelerate",), ("prepare", "prepare_model"))
    references = ("https://huggingface.co/docs/accelerate/basic_tutorials/migration",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        prepared = ctx.library_calls(_PREPARE)
        if not prepared or not all(call.arguments.exact for call in prepared):
            return
        training = next((each for call in prepared for each in ctx.trained_through(call.result)), None)
        if training is not None:
            yield from self._optimizers(prepared, training, ctx)
            yield from self._loaders(prepared, training, ctx)
        yield from self._models(prepared, ctx)

    def _optimizers(self, prepared: list[LibraryCall], training: Trained, ctx: Context) -> Iterator[Finding]:
        for made in ctx.all_of(OptimizerCreated):
            assert isinstance(made, OptimizerCreated)
            steps = [step for step in ctx.steps() if ctx.is_same(step.optimizer, made.optimizer)]
            modules, is_all = ctx.parameters_of(made.optimizer)
            is_of_prepared = is_all and bool(modules) and all(map(ctx.is_prepared, modules))
            if steps and is_of_prepared and not ctx.is_prepared(made.optimizer):
                name = ctx.called(made.optimizer, "optimizer")
                effect = "it steps after each part of an accumulation, and applies scaled gradients as they are"
                yield self._report(made, name, effect, steps[0], _evidence(training), made.optimizer, prepared[0], ctx)

    def _loaders(self, prepared: list[LibraryCall], training: Trained, ctx: Context) -> Iterator[Finding]:
        for made in ctx.data.loaders:
            given = [made.options[name] for name in ("sampler", "batch_sampler") if name in made.options]
            is_sampled = any(not isinstance(each, Const) for each in given)
            if is_sampled or ctx.is_prepared(made.loader) or not ctx.data.is_trained_on(made.loader):
                continue
            datasets = ctx.data.datasets(made.dataset)
            is_indexed = bool(datasets) and all(map(ctx.data.is_map_style, datasets))
            if is_indexed and any(source is made.loader for source in ctx.sources(training.loss)):
                name = ctx.called(made.loader, "loader")
                effect = "each process goes through all of the data, and an epoch takes as long as on one device"
                at = training.backward
                yield self._report(made, name, effect, at, _evidence(training), made.loader, prepared[0], ctx)

    def _models(self, prepared: list[LibraryCall], ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()
        for event in ctx.all_of(ModelForward):
            assert isinstance(event, ModelForward)
            if event.grad != "on" or not ctx.goes_backward(event.result) or ctx.mentions("unwrap_model"):
                continue
            for call in prepared:
                models = [each for each in call.arguments.positional if ctx.guessed_role(each) in ("module", "wrapper")]
                is_old = ctx.position(call) < ctx.position(event) and not ctx.exclusive(call, event)
                old = next((each for each in models if is_old and _is_itself(event.model, each)), None)
                if old is not None and id(old) not in reported and id(call) not in reported:
                    reported.update((id(old), id(call)))
                    name = ctx.called(old, "model")
                    effect = "its gradients are not averaged over processes: each trains a model of its own"
                    yield self._report(event, name, effect, event, (call,), old, call, ctx)

    def _report(
        self,
        at: Event,
        name: str,
        effect: str,
        used: Event,
        evidence: tuple[Any, ...],
        value: Value,
        call: LibraryCall,
        ctx: Context,
    ) -> Finding:
        is_old = isinstance(at, ModelForward)
        return ctx.finding(
            self,
            at,
            f"{name} is used as it was before `prepare`" if is_old else f"{name} is not prepared, and the model is",
            on=[call, used, *evidence, *ctx.left_alone(used, value)],
            effect=effect,
            help="use what `prepare` returns" if is_old else f"give {name} to `prepare`, and use what that returns",
            trace=[
                (call.site, "this is prepared"),
                *([(at.site, "and this is not")] if at is not used else []),
                (used.site, "and used here"),
            ],
        )


def _evidence(training: Trained) -> tuple[Any, ...]:
    return (training.backward, training.model, *assumed_under(training.guards))


def _is_itself(model: Value, given: Value) -> bool:
    """Whether a model that is called is certainly what was given to `prepare`, and not what that returned."""
    return model is given and len(alternatives(model)) == 1
