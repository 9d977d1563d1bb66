"""The loaders of a program, and the loops over their batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from dllint.dataclass import dataclass
from dllint.events import Backward, Event, LibraryCall, LoaderCreated, ModelForward, OpaqueCall, OptimizerStep
from dllint.flow import Structure
from dllint.interp.run.classes import role_of
from dllint.interp.run.graph import inputs_of, reach, sources
from dllint.interp.run.library import bound
from dllint.interp.run.machine import Machine
from dllint.structure import Loop, Program, walk
from dllint.values import Const, Instance, Items, Setting, Symbol, Value

_LOADER = "torch.utils.data.DataLoader"
_MAX_SOURCES = 120
_NUMBERS = frozenset(("range", "len", "counter", "+", "-", "*", "/", "//", "%"))
_NOT_ITERATED = _NUMBERS | {"element", "item", "attribute", "slice"}
_ASKING = frozenset(("len", "print", "type", "isinstance", "id", "str", "repr"))  # calls that take no sample
_GLANCING = _ASKING | {"iter", "next"}


@dataclass(frozen=True, slots=True)
class Pass:
    """A loop over the batches of ``loaders``. ``outer`` are the loops around it, innermost first."""

    loop: Loop
    outer: tuple[Loop, ...]
    loaders: tuple[Value, ...]
    trains: bool


class Passes:
    """Loaders, who reads them, and what is trained on them."""

    def __init__(self, machine: Machine, structure: Structure, program: Program) -> None:
        self._machine = machine
        self._structure = structure
        self._program = program

    @cached_property
    def loaders(self) -> tuple[LoaderCreated, ...]:
        """The data loaders that the program builds."""
        return tuple(event for event in self._structure.all_of(LoaderCreated) if isinstance(event, LoaderCreated))

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """The loops over batches of known loaders."""
        return tuple(self._find_passes()) if self.loaders else ()

    def _find_passes(self) -> Iterator[Pass]:
        for loop, outer in self._structure.loops:
            loaders = self._loaders_in(loop.iterable)
            if loaders:
                yield Pass(loop, outer, loaders, any(self._is_training(event) for event in walk(loop.body)))

        yield from self._drawn_by_hand()

    def _drawn_by_hand(self) -> Iterator[Pass]:
        """The loops that train on batches which they take from ``iter(loader)``, where that is made again and again."""
        events = self._structure.all_of(LibraryCall, Backward)
        made = [event for event in events if isinstance(event, LibraryCall) and event.name == "iter"]
        for event in made:
            loader, outer = event.arguments.get(0, None), self._structure.around.get(event, ())
            if loader is not None and outer and any(loader is known.loader for known in self.loaders):
                for step in events:
                    around = self._structure.around.get(step, ())
                    if set(outer) <= set(around) and isinstance(step, Backward) and _is_computed_from(step, loader):
                        inner = [loop for loop in around if loop not in outer]
                        yield Pass(inner[-1] if inner else outer[0], outer, (loader,), True)
                        break

    def _loaders_in(self, iterable: Value | None) -> tuple[Value, ...]:
        if iterable is None:
            return ()
        known = {id(event.loader) for event in self.loaders}
        found: dict[int, Value] = {}
        pending: list[tuple[Value, bool]] = [(iterable, False)]
        for _ in range(_MAX_SOURCES):
            if not pending:
                break
            value, is_yielded = pending.pop()
            if id(value) in known:
                found[id(value)] = value
            else:
                pending.extend(_iterated_by(value, is_yielded))
        return tuple(found.values())

    def _is_training(self, event: Event) -> bool:
        """Whether an event is part of a training step; unresolved code that gets an optimizer may do one.

        Gradients that are cleared and never computed are none: that line was copied into the loop.
        """
        if isinstance(event, OpaqueCall):
            return any(role_of(self._machine, value) == "optimizer" for value in event.values)
        return isinstance(event, Backward | OptimizerStep)

    def is_trained_on(self, loader: Value) -> bool:
        """Whether gradients are computed from the batches of a loader."""
        return id(loader) in self._trained_on

    @cached_property
    def _trained_on(self) -> frozenset[int]:
        known = {id(event.loader) for event in self.loaders}
        found = {id(loader) for one in self.passes if one.trains for loader in one.loaders}
        found.update(id(event.loader) for event in self.loaders if event.frame.function == "train_dataloader")
        for event in self._structure.all_of(Backward):
            if isinstance(event, Backward) and event.loss is not None:
                found.update(id(source) for source in sources(event.loss) if id(source) in known)
        return frozenset(found)

    def batch_size(self, loader: Value) -> int | None:
        """How many samples the batches of a loader have, at least by default; ``None`` where that is not known."""
        options = self._options_of(loader)
        if options is None:
            return None
        given = options.get("batch_size", Const(1))
        if "batch_sampler" in options:
            sampler = options["batch_sampler"]
            is_plain = isinstance(sampler, Instance) and sampler.library_name == "torch.utils.data.BatchSampler"
            held = sampler.arguments.get(1, "batch_size") if isinstance(sampler, Instance) and is_plain else None
            if held is None:
                return None
            given = held
        given = given.default if isinstance(given, Setting) else given
        return given.value if isinstance(given, Const) and isinstance(given.value, int) else None

    def _options_of(self, loader: Value) -> dict[str, Value] | None:
        """The arguments of a loader by their names; where another part of the file makes it, nothing tells but it."""
        made = next((event for event in self.loaders if event.loader is loader), None)
        if made is not None:
            return made.options
        is_plain = isinstance(loader, Instance) and loader.library_name == _LOADER and loader.arguments.exact
        return bound(self._machine, _LOADER, loader.arguments) if isinstance(loader, Instance) and is_plain else None

    def is_read(self, loader: Value) -> bool:
        """Whether somebody takes batches from a loader, or it is handed to something that may.

        Only of a script that is followed to its end is it known that nobody does.
        """
        if not self._program.complete or self._program.truncated:
            return True
        if any(loader is each for one in self.passes for each in one.loaders) or self.is_trained_on(loader):
            return True
        return any(id(loader) in reach(self._machine, given) for given in self._given(without=_ASKING))

    def is_only_glanced_at(self, data: Value) -> bool:
        """Whether nobody goes over a dataset or loader, or hands it on: single samples are taken, to be looked at."""
        if not self._program.complete or self._program.truncated:
            return False
        if any(data is each for one in self.passes for each in one.loaders):
            return False
        handed_on = (each for each in self._given(without=_GLANCING) if not isinstance(each, Symbol))
        return not any(id(data) in reach(self._machine, given) for given in handed_on)

    def _given(self, without: Collection[str] = ()) -> Iterator[Value]:
        """Everything that calls of code which is not interpreted here are given, but for calls of some names."""
        for event in self._structure.all_of(LibraryCall, OpaqueCall, ModelForward):
            if isinstance(event, LibraryCall) and event.name in without:
                continue
            if isinstance(event, OpaqueCall):
                yield from event.values
                if event.receiver is not None:
                    yield event.receiver
            elif isinstance(event, LibraryCall | ModelForward):
                yield from event.arguments.all()


def _is_computed_from(step: Backward, loader: Value) -> bool:
    return step.loss is not None and any(source is loader for source in sources(step.loss))


def _iterated_by(value: Value, is_yielded: bool) -> Iterator[tuple[Value, bool]]:
    """What an iteration over a value goes over: the loader behind ``enumerate``, a progress bar or a generator.

    With ``is_yielded`` the value is what a generator yields, made from the elements of what the generator goes over.
    """
    if isinstance(value, Symbol) and value.name == "generator":
        yield from ((source, True) for source in value.inputs)
    elif isinstance(value, Symbol) and (value.name in _NUMBERS or (not is_yielded and _is_part(value))):
        return
    elif not isinstance(value, Items) or is_yielded:
        yield from ((source, is_yielded) for source in inputs_of(value))


def _is_part(value: Symbol) -> bool:
    """Whether a value is part of something, or what a method made of it."""
    return value.name in _NOT_ITERATED or (value.name.startswith(".") and value.name != ".__iter__")
