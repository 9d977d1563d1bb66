"""Data pipelines: the steps of a composition of transforms, what a dataset applies to its samples, what it is for."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.dataclass import dataclass
from dllint.interp.ask import splits
from dllint.interp.ask.attempts import attempt
from dllint.interp.ask.draws import conditions_of, draws_of
from dllint.interp.run.classes import find_member, role_of
from dllint.interp.run.graph import inputs_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Guards
from dllint.values import Absent, Class, Const, External, Function, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.facts import Facts

_ARRAYS = ("numpy.array", "torch.tensor")
_MAX_DEPTH = 6
_MAX_VALUES = 400
_TRAIN_FLAGS = frozenset(("train", "is_train", "training", "is_training", "istrain", "train_mode"))
_EVAL_FLAGS = frozenset(("test", "is_test", "val", "is_val", "is_valid", "eval", "is_eval", "validation", "test_mode"))
_PARTS = frozenset(
    ("split", "mode", "phase", "image_set", "subset", "set", "partition", "set_name", "stage", "which_set", "usage",
     "data_type", "dataset_type", "split_name", "data_split", "dset", "flag", "type", "part", "task")
)  # fmt: skip
_MEASURES = frozenset(("attribute", "len", ".size"))  # what is asked of an image without taking its pixels
_COPIES = frozenset(
    (".copy", ".clone", ".astype", "copy.copy", "copy.deepcopy", "numpy.copy", "numpy.array", "torch.tensor",
     "torch.as_tensor", "torch.LongTensor", "int", ".item", ".long")
)  # fmt: skip
_OF_TARGETS = ("target", "label", "mask")


@dataclass(frozen=True, slots=True)
class TransformStep:
    """One step of a pipeline, taken under ``guards``.

    ``kind`` is the name of a library's transform, else empty; ``own`` is the name of one of the project, or of the
    function by which its code draws the random numbers that change a sample. ``is_drawn`` says that it does.
    """

    value: Value
    guards: Guards
    kind: str
    own: str = ""
    is_drawn: bool = False


@dataclass(frozen=True, slots=True)
class TransformCall:
    """A call of a transform on the way to a sample, under ``guards``: ``given`` is what it is applied to."""

    transform: Value
    given: Value
    result: Symbol
    guards: Guards


# ------------------------------------------------------------------------------------------------------ transforms


def steps_of(machine: Machine, transform: Value, guards: Guards = (), depth: int = 0) -> list[TransformStep]:
    """The steps of a transform in order: those of a composition or list, one for anything else."""
    found: list[TransformStep] = []
    for more, option in alternatives(transform):
        if isinstance(option, Absent) or (isinstance(option, Const) and option.value is None):
            continue
        held = _held_by(machine, option) if depth < _MAX_DEPTH else None
        for chosen, inner in alternatives(held) if held is not None else (((), None),):
            here = guards + more + chosen
            if isinstance(inner, Items) and inner.exact:
                for item in inner.items:
                    found.extend(steps_of(machine, item, here, depth + 1))
            else:
                found.append(_step(machine, option, here))
    return found


def _step(machine: Machine, value: Value, guards: Guards) -> TransformStep:
    """A transform as one step; what one of the project does is looked into."""
    if not isinstance(value, Instance) or not isinstance(value.cls, Class):
        return TransformStep(value, guards, kind_of(machine, value))
    for method in ("__call__", "forward"):
        for draw in draws_of(machine, value, method):
            return TransformStep(value, guards + conditions_of(draw), "", value.cls.name, True)
    return TransformStep(value, guards, "", value.cls.name)


def inside(machine: Machine, transform: Value) -> list[TransformStep]:
    """The transforms of a library that one of the project applies to what it is given, without conditions.

    Whether there is something before, ``out is None``, is none: it is so for the first part of an image.
    """
    found: list[TransformStep] = []
    if not isinstance(transform, Instance):
        return found
    for method in ("__call__", "forward"):
        made = _outcome(machine, transform, method, "image")
        if made is not None and not isinstance(made, Items):  # several views of one image are for comparing
            found.extend(_in_sample(machine, made, transform, (), set(), 0))
    return [step for step in found if all(each.relation == "is" and each.operand is None for each in step.guards)]


def list_of(machine: Machine, value: Value) -> Items | None:
    """The list of what a ``Compose`` or ``nn.Sequential`` applies one after another, or a list itself."""
    held = _held_by(machine, value)
    return held if isinstance(held, Items) else None


def _held_by(machine: Machine, value: Value) -> Value | None:
    """The list that a composition was given, which may be one of several."""
    if isinstance(value, Items):
        return value
    if not isinstance(value, Instance):
        return None
    if value.library_name in machine.facts.sequential:
        return Items("list", value.arguments.positional, value.site, exact=value.arguments.exact)
    if value.library_name.rpartition(".")[2] != "Compose" or not kind_of(machine, value):
        return None
    return value.attributes.get("transforms", value.arguments.get(0, "transforms"))


def kind_of(machine: Machine, value: Value) -> str:
    """The short name of a library's transform (``Normalize``); albumentations' are written ``A.Normalize``."""
    name = value.library_name if isinstance(value, Instance) else ""
    if name.startswith("albumentations."):
        return f"A.{name.rpartition('.')[2]}"
    return machine.facts.transform_kind(name)


def numbers_in(value: Value, facts: Facts) -> tuple[float, ...] | None:
    """The numbers in a list, tuple or array, or a single one; ``None`` where they are not all known."""
    if isinstance(value, Symbol) and value.name in _ARRAYS and value.inputs:
        return numbers_in(value.inputs[0], facts)
    if isinstance(value, External):
        return facts.constants.get(value.name)
    items = value.items if isinstance(value, Items) and value.exact else (value,)
    found = [item.value for item in items if isinstance(item, Const) and isinstance(item.value, int | float)]
    return tuple(float(number) for number in found) if len(found) == len(items) else None


def scale_of_normalize(step: Instance) -> float:
    """What albumentations' `Normalize` divides an image by before it takes off the mean; 0 where that is not known."""
    given = step.arguments
    is_sure, kind = given.get(3, "p"), given.keywords.get("normalization")
    scale = given.get(2, "max_pixel_value")
    if not given.exact or (kind is not None and not (isinstance(kind, Const) and kind.value == "standard")):
        return 0.0
    if is_sure is not None and not (isinstance(is_sure, Const) and is_sure.value in (1, True)):
        return 0.0
    if scale is None:
        return 255.0
    return float(scale.value) if isinstance(scale, Const) and isinstance(scale.value, int | float) else 0.0


# -------------------------------------------------------------------------------------------------------- datasets


def named_arguments(machine: Machine, instance: Instance) -> dict[str, Value]:
    """The arguments of an object's constructor by parameter name; those whose name is not known by their position."""
    names: tuple[str, ...] = machine.facts.signatures.get(instance.library_name, ())
    if isinstance(instance.cls, Class):
        init = find_member(machine, instance.cls, "__init__")
        if isinstance(init, Function):
            names = tuple(parameter.arg for parameter in init.node.args.args[1:])
    positional = instance.arguments.positional
    named = {names[i] if i < len(names) else str(i): value for i, value in enumerate(positional)}
    return {**named, **instance.arguments.keywords}


def inner_datasets(machine: Machine, dataset: Value) -> list[Value]:
    """The datasets that a library's wrapper (``Subset``, ``ConcatDataset``) draws from."""
    if not isinstance(dataset, Instance) or not dataset.library_name.startswith("torch.utils.data."):
        return []
    held = dataset.attributes.get("dataset") or dataset.attributes.get("datasets")
    given = held or dataset.arguments.get(0, "dataset") or dataset.arguments.keywords.get("datasets")
    if isinstance(given, Items):
        return [option for item in given.items for _, option in alternatives(item)]
    return [option for _, option in alternatives(given)] if given is not None else []


def part_of(machine: Machine, dataset: Value) -> str:
    """``train`` or ``eval`` by what a dataset was given (``train=False``, ``split="val"``, its path) and is called."""
    if not isinstance(dataset, Instance):
        return splits.part_of_texts(splits.texts_in(dataset))
    told = told_part(machine, dataset)
    if told:
        return told
    texts = [dataset.hint]
    for name, value in named_arguments(machine, dataset).items():
        if not isinstance(value, Instance) and "transform" not in name and not _is_flag(name, value):
            texts.extend(splits.texts_in(value))
    return splits.part_of_texts(texts)


def told_part(machine: Machine, dataset: Instance) -> str:
    """The same by the arguments alone that are there to say it, or by what they are when they are not given."""
    named = named_arguments(machine, dataset)
    signature = machine.facts.signatures.get(dataset.library_name, ())
    is_left_out = "train" in signature and "train" not in named and dataset.arguments.exact
    return _told(named) or (splits.TRAIN if is_left_out else "")


def _is_flag(name: str, value: Value) -> bool:
    """Whether an argument says yes or no to what it is called: ``validation=validation`` may be either."""
    default = value.default if isinstance(value, Setting) else None
    is_switch = isinstance(default, Const) and isinstance(default.value, bool)
    return is_switch or name in _TRAIN_FLAGS | _EVAL_FLAGS


def _told(named: dict[str, Value]) -> str:
    """What the arguments say that are there to say it."""
    found = set()
    for name, value in named.items():
        if not isinstance(value, Const):
            continue
        if name in _TRAIN_FLAGS and isinstance(value.value, bool):
            found.add(splits.TRAIN if value.value else splits.EVAL)
        elif name in _EVAL_FLAGS and value.value is True:
            found.add(splits.EVAL)
        elif name in _PARTS and isinstance(value.value, str):
            found.add(splits.part_of_text(value.value))
    found.discard("")
    return found.pop() if len(found) == 1 else ""


def applied(machine: Machine, dataset: Value, guards: Guards = ()) -> list[TransformStep]:
    """The library transforms that a dataset applies to its samples (compositions are one step), as far as is seen."""
    return list(_applied(machine, dataset, guards, set(), 0))


def _applied(machine: Machine, dataset: Value, guards: Guards, seen: set[int], depth: int) -> Iterator[TransformStep]:
    for more, option in alternatives(dataset):
        if id(option) in seen or depth > _MAX_DEPTH or not isinstance(option, Instance):
            continue
        seen.add(id(option))
        inner = inner_datasets(machine, option)
        for held in inner:
            yield from _applied(machine, held, guards + more, seen, depth + 1)
        sample = None if inner else sample_of(machine, option)
        if sample is not None:
            yield from _in_sample(machine, sample, option, guards + more, seen, depth)
            yield from _drawn(machine, option, guards + more)
        elif not inner:
            yield from _given(machine, option, guards + more, seen, depth)


def _drawn(machine: Machine, dataset: Instance, guards: Guards) -> Iterator[TransformStep]:
    """What a dataset of the project changes at random by itself, or by transforms of the project."""
    for draw in draws_of(machine, dataset, "__getitem__"):
        yield TransformStep(draw.result, guards + conditions_of(draw), "", draw.name, True)


def sample_of(machine: Machine, dataset: Instance) -> Value | None:
    """What ``dataset[index]`` returns, for a class of the project that says so itself."""
    return _outcome(machine, dataset, "__getitem__", "index")


def calls_in(machine: Machine, sample: Value) -> Iterator[TransformCall]:
    """The calls of transforms on the way to a sample, each once."""
    pending: list[tuple[Guards, Value]] = [((), sample)]
    visited: set[int] = set()
    while pending and len(visited) < _MAX_VALUES:
        here, value = pending.pop(0)
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, Choice):
            pending.extend((here + more, option) for more, option in value.options)
            continue
        is_call = isinstance(value, Symbol) and value.name.endswith("()")
        if is_call and isinstance(value, Symbol) and value.inputs[1:] and kind_of(machine, value.inputs[0]):
            yield TransformCall(value.inputs[0], value.inputs[1], value, here)
        pending.extend((here, source) for source in inputs_of(value))


def parts_around(sample: Value, given: Value, made: Value, changed: Container[int]) -> bool:
    """Whether one part of a sample is made of what a transform was given, and another of what it returned.

    The first goes past all that is ``changed``, by identity, and takes more of an image than its size.
    """
    parts, given = parts_of(sample), without_copies(given)
    if isinstance(given, Symbol) and given.name == "index":
        return False
    through = [part for part in parts if _reaches(part, made, ())]
    return any(_reaches(part, given, changed) for part in parts if through != [part]) and bool(through)


def parts_of(sample: Value) -> tuple[Value, ...]:
    """The parts of a sample that is a tuple, list or dict."""
    return inputs_of(sample) if isinstance(sample, Items | Table) else ()


def without_copies(value: Value) -> Value:
    """What a value is a copy of, perhaps as an array or tensor; else itself."""
    while isinstance(value, Symbol) and value.name in _COPIES and value.inputs:
        value = value.inputs[0]
    return value


def _reaches(value: Value, target: Value, avoided: Container[int]) -> bool:
    """Whether a value is made of another, in some alternative, without what is to be avoided."""
    pending, visited = [value], set[int]()
    while pending and len(visited) < _MAX_VALUES:
        each = pending.pop()
        if each is target:
            return True
        if id(each) in visited or id(each) in avoided or (isinstance(each, Symbol) and each.name in _MEASURES):
            continue
        visited.add(id(each))
        pending.extend(inputs_of(each))
    return False


def _outcome(machine: Machine, instance: Instance, method: str, given: str) -> Value | None:
    """What a method of a class of the project returns for something unknown."""
    trial = attempt(machine, instance, method, given)
    return trial.result if trial is not None else None


def _in_sample(
    machine: Machine, sample: Value, dataset: Instance, guards: Guards, seen: set[int], depth: int
) -> Iterator[TransformStep]:
    """The transforms that were called on the way to a sample."""
    pending: list[tuple[Guards, Value]] = [(guards, sample)]
    visited: set[int] = set()
    while pending and len(visited) < _MAX_VALUES:
        here, value = pending.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, Choice):
            pending.extend((here + more, option) for more, option in value.options)
            continue
        if isinstance(value, Symbol) and value.inputs:
            first = value.inputs[0]
            if _is_done_once(value):
                continue
            if value.name.endswith("()") and kind_of(machine, first):
                yield TransformStep(first, here, kind_of(machine, first))
            elif value.name == "item" and isinstance(first, Instance) and first is not dataset:
                yield from _applied(machine, first, here, seen, depth + 1)
            elif value.name == ".__getitem__" and first is dataset:
                yield from _given(machine, dataset, here, seen, depth)
        pending.extend((here, source) for source in inputs_of(value))


def _is_done_once(value: Symbol) -> bool:
    """Whether a transform was applied, or an item taken, where a dataset is made, and not each time a sample is."""
    around = enclosing_definition(value.site) if value.site is not None else None
    is_step = value.name.endswith("()") or value.name == "item"
    return is_step and getattr(around, "name", "") == "__init__"


def _given(machine: Machine, dataset: Instance, guards: Guards, seen: set[int], depth: int) -> Iterator[TransformStep]:
    """The transforms that a dataset was given to apply to its inputs, when a library's class applies them."""
    if isinstance(dataset.cls, Class) and not any("datasets." in name for name in dataset.cls.library_bases):
        return
    named = named_arguments(machine, dataset) | dataset.attributes
    for name, value in named.items():
        if any(word in name for word in _OF_TARGETS):
            continue
        for more, option in alternatives(value):
            if kind_of(machine, option):
                yield TransformStep(option, guards + more, kind_of(machine, option))
            elif isinstance(option, Instance) and "transform" in name and depth <= _MAX_DEPTH:
                step = _step(machine, option, guards + more)
                if step.is_drawn:
                    yield step
                made = _outcome(machine, option, "__call__", "image")
                if made is not None and not isinstance(made, Items):  # several views of one image are for comparing
                    yield from _in_sample(machine, made, option, guards + more, seen, depth + 1)


def is_dataset(machine: Machine, value: Value) -> bool:
    """Whether a value is a dataset: a library's, or one of the project that has items."""
    if not isinstance(value, Instance):
        return False
    if role_of(machine, value) == "dataset":
        return True
    return isinstance(value.cls, Class) and find_member(machine, value.cls, "__getitem__") is not None
