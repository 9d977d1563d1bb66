"""What happens to samples on their way: the workers that fetch them, and the random numbers that are drawn for them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import alternatives
from dllint.context.judging import judge
from dllint.dataclass import dataclass
from dllint.events import Event, LibraryCall, LoaderCreated
from dllint.interp.ask.origins import Origin
from dllint.interp.ask.pipelines import TransformStep, numbers_in
from dllint.interp.source.facts import Facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.positions import ancestors
from dllint.interp.source.trials import is_main_guard
from dllint.sites import Site
from dllint.values import Const, Instance, Setting, Symbol, Value

_PROCESSORS = frozenset(("os.cpu_count", "multiprocessing.cpu_count", "os.process_cpu_count"))
_NEW = ("spawn", "forkserver")
_SIZES = {  # of the parts for training and for evaluation
    "MNIST": (60000, 10000), "FashionMNIST": (60000, 10000), "KMNIST": (60000, 10000), "QMNIST": (60000, 60000),
    "CIFAR10": (50000, 10000), "CIFAR100": (50000, 10000), "SVHN": (73257, 26032), "STL10": (5000, 8000),
}  # fmt: skip
_STARTING = ("torch.multiprocessing.set_start_method", "multiprocessing.set_start_method")

_SIZING = frozenset(("Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop"))
_KEEPING = frozenset(
    ("ToTensor", "Normalize", "RandomHorizontalFlip", "RandomVerticalFlip", "ColorJitter", "RandomRotation",
     "RandomErasing", "RandomAffine", "RandomGrayscale", "AutoAugment", "RandAugment", "TrivialAugmentWide")
)  # fmt: skip
_FLOAT = 4  # bytes

Family = Literal["torch", "numpy", "random", ""]
"""The library whose generator is meant; empty where it is one of several."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The worker processes of a loader. ``count`` is ``None`` where it is not known; ``value`` is what it is given.

    ``assumptions`` are what is assumed by whoever takes the loader to have any.
    """

    count: int | None
    value: Value
    is_persistent: bool
    assumptions: Assumptions = ()


@dataclass(frozen=True, slots=True)
class Draw:
    """A random number that is drawn for each sample, from the global generator of a library or from a ``stored`` one.

    ``event`` is the call, or ``None`` where a transform of a library draws.
    """

    family: Family
    stored: Instance | None = None
    event: LibraryCall | None = None


@dataclass(frozen=True, slots=True)
class Randomness:
    """What is drawn for each sample; ``is_known`` says that there is nothing else."""

    draws: tuple[Draw, ...]
    is_known: bool

    @property
    def families(self) -> frozenset[str]:
        """The libraries whose global generators are drawn from."""
        return frozenset(draw.family for draw in self.draws if draw.stored is None)


def workers_of(loader: LoaderCreated) -> Workers | None:
    """The workers of a loader; ``None`` where there are none, or none by default."""
    given = loader.options.get("num_workers")
    options = [Origin(option, guards, ()) for guards, option in alternatives(given)] if given is not None else []
    having = judge(options, lambda option: _has_any(option.value) is not False, loader.guards)
    if given is None or having is None:
        return None
    chosen, assumed = having
    unknown = [each for each in chosen if _has_any(each.value) is None and not isinstance(each.value, Setting)]
    is_kept = isinstance(kept := loader.options.get("persistent_workers"), Const) and kept.value is True
    if unknown and not is_kept:  # a loader without workers refuses to keep them
        assumed = (*assumed, Assumption("effect", "the loader has worker processes"))
    default = _by_default(given)
    count = default.value if isinstance(default, Const) and isinstance(default.value, int) else None
    persistent = _by_default(loader.options.get("persistent_workers"))
    return Workers(count, given, isinstance(persistent, Const) and persistent.value is True, assumed)


def start_method_of(loader: LoaderCreated, calls: Iterable[LibraryCall]) -> str:
    """How the workers of a loader are started, by what it was given or was set for all; empty if nobody says it."""
    given = _by_default(loader.options.get("multiprocessing_context"))
    if given is not None and not (isinstance(given, Const) and given.value is None):
        return given.value if isinstance(given, Const) and given.value in _NEW else "fork"
    methods = [call.arguments.get(0, "method") for call in calls if call.name in _STARTING]
    starts = [method.value for method in map(_by_default, methods) if isinstance(method, Const)]
    return next((start for start in starts if start in _NEW), "fork" if methods else "")


def start_method_written(module: SourceModule) -> str:
    """How a file starts processes when it is run, wherever that is said in it; empty if it does not say one way."""
    calls = module.calls.get("set_start_method", ())
    given = {each.args[0].value for each in calls if each.args and isinstance(each.args[0], ast.Constant)}
    tests = [each for call in calls for each in ancestors(Site(module, call)) if isinstance(each, ast.If)]
    method = next(iter(given)) if len(given) == 1 and all(map(is_main_guard, tests)) else ""
    return method if isinstance(method, str) and method in _NEW and all(each.args for each in calls) else ""


def _has_any(count: Value) -> bool | None:
    """Whether a number of workers is above zero, with the program's own defaults; ``None`` where that is not known."""
    count = _by_default(count) or count
    if isinstance(count, Const):
        return bool(count.value)
    if isinstance(count, Symbol) and count.name in _PROCESSORS:
        return True
    if isinstance(count, Symbol) and count.name in ("min", "max"):
        answers = [_has_any(given) for given in count.inputs]
        decisive = count.name == "max"
        if decisive in answers:
            return decisive
        return None if None in answers or not answers else not decisive
    return None


def _by_default(value: Value | None) -> Value | None:
    return value.default if isinstance(value, Setting) else value


def draws_in(events: Iterable[Event], facts: Facts) -> Iterator[Draw]:
    """The random numbers that are drawn by some calls, from generators that were there before and are not seeded."""
    calls = [event for event in events if isinstance(event, LibraryCall)]
    made = {id(call.result) for call in calls}
    seeded = {id(_generator(call, facts)) for call in calls if facts.seeds_generator(call.name)}
    for call in calls:
        generator = _generator(call, facts)
        if generator is None:
            family = facts.draws_from(call.name)
            if family:
                yield Draw(_family(family), None, call)
        elif id(generator) not in made | seeded and not facts.keeps_state(call.name):
            yield Draw(_family(generator.library_name), generator, call)


def _family(name: str) -> Family:
    package = name.partition(".")[0]
    return package if package in ("torch", "numpy", "random") else ""  # type: ignore[return-value]


def _generator(call: LibraryCall, facts: Facts) -> Instance | None:
    """The generator whose method is called, or that is passed as ``generator``."""
    given = call.arguments.keywords.get("generator") or call.arguments.get(0, None)
    return given if isinstance(given, Instance) and given.library_name in facts.random_generators else None


def number_of_samples(dataset: Instance, *, told: str) -> int | None:
    """How many samples a dataset has, where that is written: the part of a split, or a set that everybody knows."""
    part = dataset.attributes.get("<length>")
    if isinstance(part, Const) and isinstance(part.value, int):
        return part.value
    name = dataset.library_name.rpartition(".")[2] if isinstance(dataset.cls, str) else ""
    sizes = dict(zip(("train", "eval"), _SIZES.get(name, ()), strict=False))
    return sizes.get(told)


def image_bytes(steps: Iterable[TransformStep], facts: Facts) -> int:
    """The bytes of an image as a pipeline of torchvision leaves it, or at least so many; 0 where that is not known.

    ``Normalize`` tells the number of channels, the last resize or crop the size; ``Resize(n)`` leaves n x n or more.
    """
    area, channels, is_tensor = 0, 0, False
    for step in steps:
        given = step.value.arguments if isinstance(step.value, Instance) else None
        if given is None or step.guards or step.kind not in _SIZING | _KEEPING:
            return 0
        if step.kind in _SIZING:
            sizes = _numbers(given.get(0, "size"), facts)
            area = int(sizes[0] * sizes[-1]) if len(sizes) in (1, 2) else 0
        elif step.kind == "Normalize":
            channels = len(_numbers(given.get(0, "mean"), facts))
        is_tensor = is_tensor or step.kind == "ToTensor"
    return area * channels * _FLOAT if is_tensor else 0


def _numbers(given: Value | None, facts: Facts) -> tuple[float, ...]:
    """The numbers that an option of a transform is, at least by default; none where they are not known."""
    value = _by_default(given)
    return (numbers_in(value, facts) or ()) if value is not None else ()


def most_batches(loader: LoaderCreated) -> int:
    """How many batches of a loader are in shared memory at once, if the training is slower; 0 where that is not known.

    Each worker has made as many as it may ahead, 2 by default, and one more is in use.
    """
    workers = workers_of(loader)
    ahead = _by_default(loader.options.get("prefetch_factor", Const(2)))
    ahead = Const(2) if isinstance(ahead, Const) and ahead.value is None else ahead
    if workers is None or not workers.count or not isinstance(ahead, Const) or not isinstance(ahead.value, int):
        return 0
    return workers.count * ahead.value + 1
