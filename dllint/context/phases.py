"""What the program does at an event: training, evaluation or inference, and what says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from dllint.assumptions import Assumption, Assumptions, union
from dllint.choices import Choice
from dllint.context.data import DataView
from dllint.context.loops import Loops
from dllint.context.options import assumed_of_options
from dllint.context.precision import Precisions
from dllint.context.uses import Uses
from dllint.dataclass import dataclass
from dllint.events import Backward, Event, Frame, LibraryCall, LoaderCreated, LossCall, ModelForward, OptimizerCreated
from dllint.interp.run import graph
from dllint.interp.source.counted_loops import ends_by_count
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.phases import PhaseName, phase_of
from dllint.structure import Loop, walk
from dllint.values import Symbol, Value

_MAX_SOURCES = 40
_HOOKS: dict[str, PhaseName] = {  # of Lightning and of what was modeled on it
    "training_step": "training",
    "validation_step": "evaluation",
    "test_step": "evaluation",
    "prediction_step": "evaluation",
    "predict_step": "inference",
}


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a program. ``evidence`` says in words what tells it, and ``assumptions`` what that takes for granted:
    nothing where the structure of the program tells it."""

    name: PhaseName
    evidence: str = ""
    assumptions: Assumptions = ()

    @property
    def is_evaluation(self) -> bool:
        """Whether a trained model is used, to measure it or for what it is there for."""
        return self.name in ("evaluation", "inference")


_UNKNOWN = Phase("unknown")
_WRITING = re.compile(r"(im)?save|imwrite|dump$")
_PARTIAL = frozenset(("itertools.islice", "itertools.cycle"))


class Phases(Precisions, Loops, Uses):
    """The phases of a program."""

    @cached_property
    def data(self) -> DataView:
        """The loaders of the program, their datasets and transforms."""
        return DataView(self._machine, self._structure, self.program)

    def assumed_batches(self, loader: Value) -> Assumptions:
        """What a claim about the batches of a loader assumes if nobody takes any here: that somebody does."""
        if self.data.is_read(loader) and self.is_used(loader):
            return ()
        return (Assumption("effect", "somebody takes batches from the loader", asks="batches"),)

    def trained_with(self, loader: Value) -> list[Value]:
        """The models that are trained with the batches of a loader."""
        losses = [event.loss for event in self.all_of(Backward) if isinstance(event, Backward)]
        drawn = [loss for loss in losses if loss is not None and any(each is loader for each in self.sources(loss))]
        return [model for loss in drawn for model in self.models_behind(loss, with_gradients=True)]

    def has_batches_of_one(self, event: Event) -> bool:
        """Whether an event belongs to batches of one sample, at least by default: nothing in them has to be padded."""
        around = self.loops_around(event)
        known = next((one.loaders for loop in around for one in self.data.passes if one.loop is loop), ())
        loaders = known or [loop.iterable for loop in around[:1]]  # which another part of the file makes
        sizes = [self.data.batch_size(loader) for loader in loaders if loader is not None]
        return bool(sizes) and all(size == 1 for size in sizes)

    def is_scored(self, loader: Value) -> bool:
        """Whether a loss or a metric is computed from the batches of a loader, here or by a framework that gets it."""
        made = (event for event in self.data.loaders if event.loader is loader)
        if any(event.frame.framework for event in made):
            return True
        frameworks = [event for event in self.all_of(LibraryCall) if event.name in self.facts.frameworks]
        if any(self.reaches(given, loader) for event in frameworks for given in event.arguments.all()):
            return True
        loops = (one.loop for one in self.data.passes if any(loader is each for each in one.loaders))
        if any(self._scores(loop) for loop in loops):
            return True
        given = (value for call in self.all_of(LossCall) for value in (call.input, call.target) if value is not None)
        return any(loader is source for value in given for source in self.sources(value))

    def is_read_in_part(self, loader: Value) -> bool:
        """Whether a number of batches is taken from a loader, or endless rounds are made over it.

        Some loop goes over a part of it (`islice`), or each one that there is ends by a count (`if i == steps: break`).
        """
        loops = [one.loop for one in self.data.passes if any(loader is each for each in one.loaders)]
        if loops and all(ends_by_count(loop.site.node) for loop in loops):
            return True
        passes = (loop.iterable for loop in loops)
        sources = (source for iterable in passes if iterable is not None for source in self.sources(iterable))
        return any(isinstance(each, Symbol) and _takes_a_number(each) for each in sources)

    def is_only_written(self, samples: Value) -> bool:
        """Whether all that is done with samples is to write them to files: the loops over them measure nothing.

        Where no loop over them is seen, that is so in a script which writes files and has no model.
        """
        loops = [
            loop
            for loop, _ in self._structure.loops
            if loop.iterable is not None and self.reaches(loop.iterable, samples)
        ]
        if loops:
            return all(_writes(loop) and not self._scores(loop) for loop in loops)
        has_model = any(True for _ in self.all_of(ModelForward, LossCall, OptimizerCreated, LoaderCreated))
        return self.program.complete and not has_model and _has_writing(self.program.module.tree)

    def _scores(self, loop: Loop) -> bool:
        """Whether a loss is computed in a loop, something that is called like a metric, or a number of hits."""
        if any(isinstance(event, LossCall) for event in walk(loop.body)) or _counts_hits(loop.site.node):
            return True
        names = (getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(loop.site.node))
        return any(self.speaks_of("score", name) for name in names if name)

    def phase(self, event: Event) -> Phase:
        """What the program does at an event: the structure tells it, or else names do."""
        return self._by_framework(event) or self._by_structure(event) or self._by_names(event) or _UNKNOWN

    def evaluating_functions(self, event: Event) -> tuple[Frame, ...]:
        """The functions that an event happens in, up to the first that is for evaluation or inference by its name.

        None if there is no such function.
        """
        return tuple(_evaluating_frames(event))

    def _by_framework(self, event: Event) -> Phase | None:
        for frame in event.frame.stack():
            if frame.framework and frame.function in _HOOKS:
                return Phase(_HOOKS[frame.function], f"`{frame.function}` is called by the framework for it")
        return None

    def _by_structure(self, event: Event) -> Phase | None:
        """Training where the loop goes backward; evaluation where it goes over data that is never trained on."""
        own = self._own_loops(event)
        if own and self.trains(own[0]):
            return Phase("training", "its loop goes backward")
        if self._is_used_in_training(event):
            return Phase("training", "what it returns is used for training")
        held_out = next((loop for loop in own if self._goes_over_held_out(loop)), None) if event.grad == "off" else None
        if held_out is not None:
            text = "it goes over data that nothing is trained on, with gradients off"
            return Phase("evaluation", text, self._assumed_of_loaders(held_out))
        return None

    def _own_loops(self, event: Event) -> tuple[Loop, ...]:
        """The loops around an event, up to the function that is for evaluation by its name, if there is one."""
        loops = self.loops_around(event)
        within = _evaluating_frames(event)
        return tuple(loop for loop in loops if any(loop.frame is frame for frame in within)) if within else loops

    def _is_used_in_training(self, event: Event) -> bool:
        """Whether a function that evaluates by its name is a part of training: ``inference(model, batch)`` whose result
        a training loop uses, or a test that goes backward."""
        within = _evaluating_frames(event)
        if not within:
            return False
        loops = self.loops_around(event)
        by_itself = phase_of(within[-1].function) == "evaluation" and event.grad == "off"
        if loops and not self._own_loops(event) and not by_itself and self.trains(loops[0]):
            return True
        return event.grad != "off" and isinstance(event, ModelForward) and self._is_trained_with(event)

    def _is_trained_with(self, event: ModelForward) -> bool:
        """Whether the function that calls a model also goes backward from a loss that the model was behind, or has one
        that it calls do that."""
        here = event.frame
        own = (each for each in self.all_of(Backward) if any(frame is here for frame in each.frame.stack()))
        losses = [each.loss for each in own if each.loss is not None]
        behind = (model for loss in losses for model in self.models_behind(loss, with_gradients=True))
        return any(self.is_same(model, event.model) for model in behind)

    def _goes_over_held_out(self, loop: Loop) -> bool:
        """Whether a loop goes over loaders that nothing is trained on, in a program that trains on another."""
        one = next((each for each in self.data.passes if each.loop is loop), None)
        if one is None or any(self.data.is_trained_on(loader) for loader in one.loaders):
            return False
        return any(self.data.is_trained_on(made.loader) for made in self.data.loaders)

    def _assumed_of_loaders(self, loop: Loop) -> Assumptions:
        """What is assumed by whoever takes a loop to go over the loaders that are known."""
        loaders = {id(loader) for one in self.data.passes if one.loop is loop for loader in one.loaders}
        behind = graph.sources(loop.iterable, _MAX_SOURCES) if loop.iterable is not None else ()
        choices = (each for each in behind if isinstance(each, Choice))
        decisive = (each for each in choices if any(id(option) in loaders for _, option in each.options))
        return union(*(assumed_of_options(choice, "the loader") for choice in decisive))

    def _by_names(self, event: Event) -> Phase | None:
        """What the names of functions, or of what their loops go over, speak of."""
        for name in self._names_around(event):
            phase = phase_of(name)
            if phase != "unknown":
                text = f"`{name}` is for {phase}, as its name says"
                return Phase(phase, text, (Assumption("name", text),))
        return None

    def _names_around(self, event: Event) -> Iterator[str]:
        """The names that tell what an event is for, nearest first: of what loops go over, and of functions."""
        for loop in self._own_loops(event):
            if loop.iterable is not None and (event.grad == "off" or self.goes_over_loader(loop)):
                yield from self.names_behind(loop.iterable)
        yield from (frame.function for frame in event.frame.stack())
        if self.program.complete and not any(True for _ in self.all_of(Backward)):
            yield self.program.name  # of a file that trains as well, it tells nothing of one event in it


def _evaluating_frames(event: Event) -> list[Frame]:
    """The frames from an event up to the first whose function is for evaluation or inference by its name."""
    frames = list(event.frame.stack())
    names = (phase_of(frame.function) for frame in frames)
    place = next((place for place, phase in enumerate(names) if phase in ("evaluation", "inference")), None)
    return frames[: place + 1] if place is not None else []


def _takes_a_number(source: Symbol) -> bool:
    return source.name in _PARTIAL or (source.name == "generator" and source.detail == "endless")


def _writes(loop: Loop) -> bool:
    """Whether a loop writes files, and calls no model."""
    is_model_called = any(isinstance(event, ModelForward) for event in walk(loop.body))
    return _has_writing(loop.site.node) and not is_model_called


def _has_writing(around: ast.AST) -> bool:
    calls = (node.func for node in ast.walk(around) if isinstance(node, ast.Call))
    return any(_WRITING.match(getattr(function, "attr", getattr(function, "id", ""))) for function in calls)


def _counts_hits(loop: ast.AST) -> bool:
    """Whether what is equal to something else is added up: `hits += (logits.argmax(1) == y).sum()`."""
    added = (nodes_of(each.value) for each in nodes_of(loop).of(ast.AugAssign) if isinstance(each.op, ast.Add))
    return any("eq" in each.attributes or any(map(_asks_for_equality, each.of(ast.Compare))) for each in added)


def _asks_for_equality(test: ast.Compare) -> bool:
    return any(isinstance(operator, ast.Eq) for operator in test.ops)
