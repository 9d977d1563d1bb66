"""What rules about data can ask: the loaders of a program, what they are for, and what happens to their samples."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import combinations

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import alternatives
from dllint.context import normalizing
from dllint.context.normalization import Normalization, NormalizationUse, normalizations
from dllint.context.passes import Passes
from dllint.context.sampling import (
    Draw,
    Randomness,
    Workers,
    draws_in,
    image_bytes,
    most_batches,
    number_of_samples,
    start_method_of,
    start_method_written,
    workers_of,
)
from dllint.events import (
    DatasetCreated,
    Event,
    LibraryCall,
    LoaderCreated,
    ModelForward,
    OpaqueCall,
    TransformsComposed,
)
from dllint.flow import Structure
from dllint.interp.ask import images, pictures, pipelines, splits
from dllint.interp.ask.draws import draws_for_parts
from dllint.interp.ask.images import Image, image_of
from dllint.interp.ask.permuted import Pick, name_of_pick, picks
from dllint.interp.ask.pipelines import TransformCall, TransformStep
from dllint.interp.ask.ragged import asks_for_entries, is_filled_up, is_text, ragged_in, without_others
from dllint.interp.ask.samples import samples_behind
from dllint.interp.ask.windows import bounds_of, overlapping_windows
from dllint.interp.run.classes import find_member
from dllint.interp.run.machine import Machine
from dllint.interp.source.phases import without_phase
from dllint.sites import Guards, Site
from dllint.structure import Program, walk
from dllint.values import Arguments, BoundMethod, Class, Const, Function, Instance, Items, Partial, Symbol, Table, Value

_FETCHES = ("__getitem__", "__getitems__")


class DataView(Passes):
    """The data side of one program."""

    def __init__(self, machine: Machine, structure: Structure, program: Program) -> None:
        super().__init__(machine, structure, program)
        self._applied: dict[int, list[TransformStep]] = {}
        self._fetched: dict[int, tuple[Event, ...]] = {}

    # ------------------------------------------------------------------------------------------ transforms

    def steps(self, transform: Value) -> list[TransformStep]:
        """The steps of a transform in order: those of a composition or list, one for anything else."""
        return pipelines.steps_of(self._machine, transform)

    def normalizations(self, transform: Value, guards: Guards = ()) -> list[Normalization | None]:
        """How the pipelines that a transform may be normalize; ``None`` stands for numbers that are not known."""
        return normalizations(self.steps(transform), guards, self._machine.facts)

    def normalized_datasets(self) -> list[NormalizationUse]:
        """How the datasets of the program are normalized, and what they are for."""
        return normalizing.of_datasets(self)

    def normalized_by_name(self, events: Iterable[TransformsComposed]) -> list[NormalizationUse]:
        """The same by the names of pipelines that one function builds: ``train_transform`` and ``test_transform``."""
        return normalizing.by_names(self, events)

    def created(self) -> list[Instance]:
        """The datasets that the program builds."""
        events = self._structure.all_of(DatasetCreated)
        made = (event.dataset for event in events if isinstance(event, DatasetCreated))
        return [dataset for dataset in made if isinstance(dataset, Instance)]

    def list_site(self, composition: Value) -> Site | None:
        """Where the list of a composition's steps is written."""
        found = pipelines.list_of(self._machine, composition)
        return found.site if isinstance(found, Items) else None

    def applied(self, dataset: Value) -> list[TransformStep]:
        """The library transforms that a dataset applies to its samples; a composition is one step."""
        known = self._applied.get(id(dataset))
        if known is None:
            known = self._applied[id(dataset)] = pipelines.applied(self._machine, dataset)
        return known

    def transformed(self, dataset: Instance) -> list[TransformCall]:
        """The calls of transforms on the way to a sample of a dataset of the project, in the order of the text."""
        sample = pipelines.sample_of(self._machine, dataset)
        calls = list(pipelines.calls_in(self._machine, sample)) if sample is not None else []
        return sorted(calls, key=lambda call: call.result.site.line if call.result.site is not None else 0)

    def happening_in(self, composition: Value) -> tuple[Event, ...]:
        """What happens when the transforms of a composition are applied one after another to something unknown.

        Up to the first of a library: only what classes of the project do is followed.
        """
        events: list[Event] = []
        sample: Value = Symbol("sample", site=composition.site)
        for step in self.steps(composition):
            own, site = step.value, step.value.site
            if not isinstance(own, Instance) or not isinstance(own.cls, Class) or site is None:
                break
            trial = self._machine.tried(partial(self._machine.call, own, Arguments((sample,)), site))
            events.extend(walk(trial.body))
            sample = trial.result if trial.result is not None else Symbol("unknown", site=site)
        return tuple(events)

    def samples_behind(self, part: Value) -> list[Table]:
        """The samples, as dicts of which all entries are known, that a part of a batch comes from."""
        return samples_behind(self._machine, part)

    def makes_views(self, dataset: Instance) -> bool:
        """Whether a sample is several views of one image: what one transform makes of it each time."""
        held = [each for whole in pipelines.inner_datasets(self._machine, dataset) for _, each in alternatives(whole)]
        if held:
            return any(isinstance(each, Instance) and each is not dataset and self.makes_views(each) for each in held)
        pairs = combinations(self.transformed(dataset), 2)
        return any(a.transform is b.transform and a.given is b.given and a.guards == b.guards for a, b in pairs)

    def ragged(self, dataset: Instance) -> list[tuple[Guards, Symbol]]:
        """What makes parts of the samples of a dataset of the project differ in length, with its conditions.

        Of the characters of a text (see :meth:`is_text`) it is not known that there are not as many in each.
        """
        sample = pipelines.sample_of(self._machine, dataset)
        found = ragged_in(without_others(sample, dataset)) if sample is not None else ()
        return [
            (tuple(guard for guard in guards if not asks_for_entries(guard, dataset)), cause)
            for guards, cause in found
            if not is_filled_up(cause, dataset)
        ]

    def is_text(self, value: Value) -> bool:
        """Whether a value is a text, or one of several."""
        return is_text(value)

    def windows_in(self, value: Value) -> list[Symbol]:
        """The slices of a sequence that overlap, in a value or in the samples of a dataset of the project."""
        sample = pipelines.sample_of(self._machine, value) if isinstance(value, Instance) else None
        return list(overlapping_windows(self._machine, sample if sample is not None else value))

    def bounds_of(self, window: Value) -> tuple[Value, Value] | None:
        """Where a slice begins and ends, along the first axis if it is one of several."""
        return bounds_of(window)

    def picked_at_random(self, order: Value, part: str) -> list[Pick]:
        """What a random order picks, by its first or last indices, for `train` or `eval`, as names say."""
        found = list(picks(order)) if isinstance(order, Symbol) else []
        names = (
            (pick, (name_of_pick(pick), pick.index.hint if isinstance(pick.index, Symbol) else "")) for pick in found
        )
        return [pick for pick, called in names if splits.part_of_texts(called) == part]

    def name_of_pick(self, pick: Pick) -> str:
        """What is bound to a pick by a random order is called."""
        return name_of_pick(pick)

    def random_parts(self) -> list[tuple[LoaderCreated, Instance, Value]]:
        """The loaders over a part that `random_split` drew, each with the part and the dataset that was split."""
        return [
            (loader, part, whole)
            for loader in self.loaders
            for part in self.datasets(loader.dataset)
            if "<split>" in part.attributes
            for whole in self.inner(part)
        ]

    def moving_pixels(self, transform: Value) -> list[TransformStep]:
        """The steps of a transform that flip, crop or turn an image; `is_random` tells whether each time otherwise."""
        geometric = self._machine.facts.transforms["geometric"]
        return [step for step in self.steps(transform) if step.kind in geometric and isinstance(step.value, Instance)]

    def drawn_for_parts(self, transform: Value) -> list[tuple[LibraryCall, ast.For]]:
        """The numbers that move pixels and that a transform of the project draws anew for each entry of a sample, each
        with the loop over the entries."""
        is_own = isinstance(transform, Instance) and isinstance(transform.cls, Class)
        return draws_for_parts(self._machine, transform) if is_own and isinstance(transform, Instance) else []

    def picture_use(self, transform: Value) -> tuple[Guards, Site] | None:
        """Where, and when, a transform of the project does what only images of PIL can (``image.convert("L")``)."""
        return pictures.picture_use(self._machine, transform)

    # ------------------------------------------------------------------------------------------ datasets

    def datasets(self, value: Value | None) -> list[Instance]:
        """The datasets that a value may be and those behind them (of subsets, concatenations), outermost first."""
        found: list[Instance] = []
        pending = [option for _, option in alternatives(value)] if value is not None else []
        while pending and len(found) < 20:
            option = pending.pop(0)
            if isinstance(option, Instance) and not any(option is known for known in found):
                found.append(option)
                pending.extend(pipelines.inner_datasets(self._machine, option))
        return found

    def inner(self, dataset: Value) -> list[Value]:
        """The datasets that a library's wrapper (``Subset``, ``ConcatDataset``) draws from."""
        return pipelines.inner_datasets(self._machine, dataset)

    def arguments(self, instance: Instance) -> dict[str, Value]:
        """The arguments of an object's constructor by parameter name."""
        return pipelines.named_arguments(self._machine, instance)

    def is_map_style(self, dataset: Instance) -> bool:
        """Whether samples are taken by their index; of a class that gives no sign of it nothing is said."""
        bases = dataset.cls.library_bases if isinstance(dataset.cls, Class) else (dataset.cls,)
        is_known = any(base.startswith("torchvision.datasets.") for base in bases)
        own = dataset.cls if isinstance(dataset.cls, Class) else None
        if any("Iterable" in base for base in bases) or (own and find_member(self._machine, own, "__iter__")):
            return False
        return is_known or bool(own and isinstance(find_member(self._machine, own, "__getitem__"), Function))

    def part(self, dataset: Value) -> str:
        """``train``, ``eval``, or nothing if neither is clear: by what a dataset was given and is called."""
        return pipelines.part_of(self._machine, dataset)

    def is_told_part(self, dataset: Value) -> bool:
        """Whether an argument says what a dataset is for (``train=False``), so that no name has to."""
        return isinstance(dataset, Instance) and bool(pipelines.told_part(self._machine, dataset))

    def part_of_name(self, name: str) -> str:
        """The same by a name alone."""
        return splits.part_of_text(name)

    def has_counterpart(self, name: str, site: Site) -> bool:
        """Whether the file has a name for training that otherwise equals one for evaluation."""
        rest = without_phase(name)
        words = site.module.words
        return any(without_phase(word) == rest and splits.part_of_text(word) == splits.TRAIN for word in words)

    def part_of_loader(self, event: LoaderCreated) -> str:
        """``train`` or ``eval``: what a loader is for, by its use, its name, its sampler's and its datasets'."""
        if self.is_trained_on(event.loader):
            return splits.TRAIN
        if hook := splits.part_of_hook(event.frame.stack()):
            return hook
        names = [getattr(event.loader, "hint", "")]
        sampler = event.options.get("sampler")
        if sampler is not None:
            names.append(getattr(sampler, "hint", ""))
        own = splits.part_of_texts(names)
        outer = self.datasets(event.dataset)[:1]
        of_data = {part for dataset in outer if (part := self.part(dataset))}
        if sampler is not None and own:
            return own
        return splits.part_of_texts([own, *of_data])

    def calling(self, function: Value, *given: Value) -> tuple[Event, ...]:
        """What happens when a function that a loader or dataset was given is called; nothing else changes by it."""
        if not isinstance(function, Function | BoundMethod | Partial | Instance | Class) or function.site is None:
            return ()
        site = function.site
        return tuple(walk(self._machine.tried(lambda: self._machine.call(function, Arguments(given), site)).body))

    def collated(self, loader: LoaderCreated) -> Value | None:
        """What the ``collate_fn`` of a loader makes of some samples; ``None`` where that is not known."""
        collate = loader.options.get("collate_fn")
        if not isinstance(collate, Function | BoundMethod | Partial | Instance | Class) or collate.site is None:
            return None
        site, batch = collate.site, Arguments[Value]((Symbol("batch", site=loader.site),))
        return self._machine.tried(lambda: self._machine.call(collate, batch, site)).result

    def fetching(self, dataset: Instance) -> tuple[Event, ...]:
        """What happens when a sample of a dataset of the project is fetched."""
        known = self._fetched.get(id(dataset))
        if known is None:
            own = dataset.cls if isinstance(dataset.cls, Class) else None
            fetches = [find_member(self._machine, own, name) for name in _FETCHES] if own is not None else []
            known = self._fetched[id(dataset)] = tuple(
                event
                for fetch in fetches
                if isinstance(fetch, Function)
                for event in self.calling(fetch, dataset, Symbol("index", site=fetch.site))
            )
        return known

    @cached_property
    def made(self) -> tuple[Instance, ...]:
        """The datasets that the program makes, or that its loaders draw from, each once."""
        events = self._structure.all_of(DatasetCreated)
        given = [
            event.dataset for event in (*events, *self.loaders) if isinstance(event, DatasetCreated | LoaderCreated)
        ]
        found = [dataset for value in given for dataset in self.datasets(value)]
        return tuple({id(dataset): dataset for dataset in found}.values())

    @cached_property
    def images(self) -> tuple[tuple[Instance, Guards, Image], ...]:
        """The images in the samples of datasets of the project: what is known of them when a sample is complete.

        Each comes with its dataset and the conditions under which the sample has it.
        """
        own = (dataset for dataset in self.made if isinstance(dataset.cls, Class))
        samples = [(dataset, pipelines.sample_of(self._machine, dataset)) for dataset in own]
        return tuple(
            (dataset, guards, image)
            for dataset, sample in samples
            if sample is not None
            for guards, image in images.images_in(self._machine, sample)
        )

    @cached_property
    def model_images(self) -> tuple[tuple[ModelForward, Image], ...]:
        """The images that models get, as far as it is known from which batches they are, each with the call."""
        calls = (event for event in self._structure.all_of(ModelForward) if isinstance(event, ModelForward))
        given = ((call, image_of(self._machine, each)) for call in calls for each in call.arguments.positional[:1])
        return tuple((call, image) for call, image in given if image is not None)

    def assumed_reading(self, dataset: Instance) -> Assumptions:
        """What a claim about samples assumes if no loader of their dataset is read here: that somebody takes some."""
        drawing = [made for made in self.loaders if any(d is dataset for d in self.datasets(made.dataset))]
        is_read = any(self.is_read(made.loader) for made in drawing) or not drawing
        return () if is_read else (Assumption("effect", "somebody takes samples from the dataset"),)

    # ------------------------------------------------------------------------------------------ workers

    def workers(self, loader: LoaderCreated) -> Workers | None:
        """The worker processes of a loader; ``None`` where there are none, or none by default."""
        return workers_of(loader)

    def most_batches(self, loader: LoaderCreated) -> int:
        """How many batches of a loader with workers are in shared memory at once, at most; 0 where it is not known."""
        return most_batches(loader)

    def batch_bytes(self, loader: LoaderCreated) -> int:
        """The bytes of the images in a batch, by the transforms of the dataset: at least so many; 0 if not known."""
        sizes: list[int] = []
        for dataset in self.datasets(loader.dataset):
            applied = self.applied(dataset)
            steps = [inner for step in applied for inner in self.steps(step.value)]
            if applied:
                is_sure = not any(step.guards for step in applied)
                sizes.append(image_bytes(steps, self._machine.facts) if is_sure else 0)
        return min(sizes, default=0) * (self.batch_size(loader.loader) or 0)

    def start_method(self, loader: LoaderCreated) -> str:
        """How the workers of a loader are started: ``fork``, ``spawn`` or ``forkserver``; empty if nobody says it."""
        calls = self._structure.all_of(LibraryCall)
        told = start_method_of(loader, [event for event in calls if isinstance(event, LibraryCall)])
        return told or start_method_written(self._machine.main)

    def randomness(self, loader: LoaderCreated) -> Randomness:
        """The random numbers that are drawn for each sample, by datasets, by their transforms and by ``collate_fn``."""
        draws: list[Draw] = []
        options = [option for _, option in alternatives(loader.dataset)] if loader.dataset is not None else []
        is_known = bool(options) and all(isinstance(option, Instance) for option in options)
        for dataset in self.datasets(loader.dataset):
            if not self.inner(dataset):
                is_known = self._is_seen_through(dataset) and is_known
                draws.extend(self._drawn_by_transforms(dataset))
            draws.extend(draws_in(self.fetching(dataset), self._machine.facts))
        for _, collate in alternatives(loader.options.get("collate_fn") or Const(None)):
            is_known = is_known and isinstance(collate, Const)
            events = self.calling(collate, Symbol("batch", site=loader.site))
            draws.extend(draws_in(events, self._machine.facts))
        return Randomness(tuple(draws), is_known)

    def _steps_of(self, dataset: Instance) -> list[TransformStep]:
        """The transforms of a dataset, one by one; what it draws itself is seen where a sample is fetched."""
        applied = (
            step.value for step in self.applied(dataset) if isinstance(step.value, Instance) or not step.is_drawn
        )
        return [inner for value in applied for inner in self.steps(value)]

    def _drawn_by_transforms(self, dataset: Instance) -> Iterator[Draw]:
        """What the transforms of torchvision draw: from the generators of torch and of Python."""
        if any(step.kind in self._machine.facts.transforms["random"] for step in self._steps_of(dataset)):
            yield from (Draw("torch"), Draw("random"))

    def _is_seen_through(self, dataset: Instance) -> bool:
        """Whether all that happens to a sample is known."""
        steps = self._steps_of(dataset)
        if any(not step.kind or step.kind == "Lambda" or step.kind.startswith("A.") for step in steps):
            return False
        own = dataset.cls if isinstance(dataset.cls, Class) else None
        fetches = own is not None and isinstance(find_member(self._machine, own, "__getitem__"), Function)
        return (fetches or bool(steps)) and not any(isinstance(e, OpaqueCall) for e in self.fetching(dataset))

    def number_of_samples(self, dataset: Value | None) -> int | None:
        """How many samples a dataset has, where that is written: the part of a split, or a set that everybody knows."""
        datasets = self.datasets(dataset)
        outer = datasets[0] if datasets else None
        if not isinstance(outer, Instance):
            return None
        return number_of_samples(outer, told=self.part(outer) if len(datasets) == 1 else "")
