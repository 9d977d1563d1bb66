"""Seeds of random generators: what they are computed from, and which of them are the same in every epoch."""

from __future__ import annotations

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import Choice, alternatives
from dllint.context.judging import assumed_under
from dllint.context.phases import Phases
from dllint.dataclass import dataclass
from dllint.events import LoaderCreated, RandomSeeded
from dllint.values import Const, Instance, Setting, Symbol, Value

_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**", "^", "|", "&", "<<", "int", "abs", "hash", "negative"))
_STATE = "numpy.random.get_state"
_FRESH = ("time.", "random.", "numpy.random.", "torch.rand", "os.urandom", "secrets.")
_OF_A_CLOCK = ("time.", "datetime.", "os.urandom", "secrets.")
_NEW_EACH_TIME = ("counter", "element", "torch.initial_seed", "torch.utils.data.get_worker_info")
_MOST_PARTS = 20


@dataclass(frozen=True, slots=True)
class WorkerSeed:
    """A generator that the workers of a loader seed with what is computed from ``parts``, alike in every epoch.

    ``differs`` tells whether the number of the worker is among these.
    """

    event: RandomSeeded
    parts: tuple[Value, ...]
    differs: bool
    assumptions: Assumptions = ()

    @property
    def is_of_numpy_state(self) -> bool:
        """Whether the seed comes from the state of numpy's generator: a constant in workers since torch 1.9."""
        return any(isinstance(part, Symbol) and part.name == _STATE for part in self.parts)


class Seeding(Phases):
    """What random generators are seeded with."""

    def repeated_worker_seeds(self, loader: LoaderCreated) -> list[list[WorkerSeed]]:
        """What each function that may be the `worker_init_fn` of a loader seeds alike in every epoch, in order."""
        worker = Symbol("parameter", site=loader.site, detail="worker_id")
        found: list[list[WorkerSeed]] = []
        for guards, function in alternatives(loader.options.get("worker_init_fn") or Const(None)):
            seeds: list[WorkerSeed] = []
            for event in self.data.calling(function, worker):
                parts = self.fixed_parts(event.seed) if isinstance(event, RandomSeeded) and event.seed else None
                if isinstance(event, RandomSeeded) and parts is not None:
                    named = [part for part in parts if part is not worker and self.is_fixed_by_name(part)]
                    texts = [f"{self.called(part, 'seed')} stays the same, as its name says" for part in named]
                    assumed = (*assumed_under(guards), *(Assumption("name", text) for text in texts))
                    seeds.append(WorkerSeed(event, tuple(parts), any(part is worker for part in parts), assumed))
            found.append(seeds)
        return found

    def fixed_parts(self, seed: Value) -> list[Value] | None:
        """What a seed is computed from, if all of it is the same in every epoch; else `None`.

        An attribute that methods set after the object is made, as a counter of samples, is another one each time.
        """
        found: list[Value] = []
        pending = [seed]
        while pending and len(found) < _MOST_PARTS:
            value = pending.pop()
            if isinstance(value, Symbol) and value.name in _ARITHMETIC:
                pending.extend(value.inputs)
            elif isinstance(value, Choice):
                pending.extend(option for _, option in value.options)
            elif self._is_of_numpy_state(value):
                found.append(Symbol(_STATE))
            elif _is_set_anew(value):
                return None
            elif isinstance(value, Const | Setting) or self.is_fixed_by_name(value):
                found.append(value)
            else:
                return None
        return found

    def differs_in_each_run(self, seeded: RandomSeeded) -> bool:
        """Whether a generator is seeded by a clock, so that each run is meant to draw other numbers."""
        values = (seeded.seed, *self.sources(seeded.seed)) if seeded.seed is not None else ()
        return any(isinstance(value, Symbol) and value.name.startswith(_OF_A_CLOCK) for value in values)

    def is_fixed_by_name(self, value: Value) -> bool:
        """Whether something unresolved is called like what stays the same in a run: a seed, a rank, a worker."""
        if not isinstance(value, Symbol):
            return False
        name = value.hint or str(value.detail) or self.name_of(value)
        if self.speaks_of("moving", name):
            return False
        if self.speaks_of("rank", name):
            return not any(_is_fresh(source) for source in self.sources(value))
        return "seed" in name.lower() and all(_is_object(source) for source in self.sources(value))

    def _is_of_numpy_state(self, value: Value) -> bool:
        """Whether a value is part of the state that numpy's global generator has."""
        return (
            isinstance(value, Symbol)
            and value.name in ("item", "element", _STATE)
            and any(isinstance(source, Symbol) and source.name == _STATE for source in self.sources(value))
        )


def _is_set_anew(value: Value) -> bool:
    """Whether a value is what an attribute of an object starts with, which its other methods set."""
    return isinstance(value, Setting) and value.name.startswith("self.")


def _is_fresh(value: Value) -> bool:
    """Whether a value may be another one in each epoch."""
    return isinstance(value, Symbol) and (value.name in _NEW_EACH_TIME or value.name.startswith(_FRESH))


def _is_object(value: Value) -> bool:
    """Whether a value is an object or an attribute of one, not what a call returned."""
    return isinstance(value, Instance | Const) or (
        isinstance(value, Symbol) and value.name in ("parameter", "attribute", "item", "unknown")
    )
