"""Which steps of an image pipeline give another result from call to call."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from dllint.choices import Choice
from dllint.context.objects import Objects
from dllint.events import TransformsComposed
from dllint.interp.ask.draws import draws_of
from dllint.interp.ask.pipelines import (
    TransformStep,
    calls_in,
    inner_datasets,
    inside,
    parts_around,
    parts_of,
    sample_of,
    steps_of,
    without_copies,
)
from dllint.interp.source.nodes import nodes_of
from dllint.values import Const, Instance, Items, Setting, Value

# fmt: off
_POSITION_OF_P = {"RandomPerspective": 1, "RandomPosterize": 1, "RandomSolarize": 1, "RandomAdjustSharpness": 1,
                  "RandomApply": 1}
_STRENGTHS = {"RandomRotation": ("degrees",), "RandomAffine": ("degrees", "translate", "scale", "shear"),
              "ColorJitter": ("brightness", "contrast", "saturation", "hue"), "RandomResizedCrop": ()}
_FOR_EACH_AXIS = ("translate",)  # two numbers that are a width and a height, and no range
_ALL_OR_NOTHING = frozenset(
    ("HorizontalFlip", "VerticalFlip", "Grayscale", "Invert", "Equalize", "AutoContrast", "Autocontrast", "Posterize",
     "Solarize", "AdjustSharpness")
)
"""What does the same to every image that it is applied to."""
# fmt: on
_RESIZES = ("Resize", "Scale")
_SIZES = {
    **dict.fromkeys(("CIFAR10", "CIFAR100", "SVHN"), 32),
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "QMNIST", "EMNIST"), 28),
    "STL10": 96,
}
"""Height and width of the images of datasets of torchvision."""


class Chance(Objects):
    """Transforms that draw random numbers."""

    def is_random(self, step: TransformStep, among: Sequence[TransformStep] = (), dataset: Value | None = None) -> bool:
        """Whether a step certainly gives different results from call to call.

        ``among`` are the steps of its pipeline: a crop of the size that another one has made, or that the images of the
        ``dataset`` have anyway, changes nothing.
        """
        transform, kinds = step.value, self.facts.transforms
        if step.is_drawn:
            return True
        if not isinstance(transform, Instance):
            return False
        if step.own:
            return any(not each.own and self.is_random(each) for each in inside(self._machine, transform))
        if step.kind.startswith("A."):
            return step.kind[2:] in kinds["albumentations-random"] and self._is_now_and_then(transform, None)
        if step.kind not in kinds["random"] or self._keeps_all(step, among, dataset):
            return False
        if step.kind in _STRENGTHS:
            return self._is_strong(transform, step.kind)
        return self._is_now_and_then(transform, _POSITION_OF_P.get(step.kind, 0 if "Crop" not in step.kind else None))

    def keeps_original(self, dataset: Instance) -> bool:
        """Whether a sample of a dataset of the project holds an image beside what a random transform makes of it.

        The changed one is then no augmented sample: it is what the other one is compared with, or told from.
        """
        sample = sample_of(self._machine, dataset)
        if sample is None:
            return False
        calls = [call for call in calls_in(self._machine, sample) if self._is_of_chance(call.transform)]
        changed = {id(call.result) for call in calls}
        return any(parts_around(sample, call.given, call.result, changed) for call in calls)

    def _is_of_chance(self, transform: Value) -> bool:
        steps = steps_of(self._machine, transform)
        return any(self.is_random(step, steps) for step in steps)

    def tells_what_was_drawn(self, dataset: Instance) -> bool:
        """Whether a part of each sample is the number that changes it, or what this decides: the answer to be found."""
        draws = draws_of(self._machine, dataset, "__getitem__")
        sample = sample_of(self._machine, dataset) if draws else None
        parts = [without_copies(part) for part in parts_of(sample)] if sample is not None else []
        return any(part is draw.result for part in parts for draw in draws) or any(map(_is_decided_by_chance, parts))

    def is_applied_again_and_again(self, event: TransformsComposed, name: str) -> bool:
        """Whether a composition of some name is applied to one image many times: `[transform(x) for _ in range(n)]`."""
        for node in nodes_of(event.site.module.tree).of(ast.ListComp, ast.GeneratorExp):
            called = node.elt.func if isinstance(node.elt, ast.Call) else None
            over = node.generators[0].iter
            is_count = isinstance(over, ast.Call) and getattr(over.func, "id", "") == "range"
            if is_count and isinstance(called, ast.Name) and called.id == name:
                return True
        return False

    def _keeps_all(self, step: TransformStep, among: Sequence[TransformStep], dataset: Value | None) -> bool:
        """Whether a crop is as large as what it is given, by the settings of the program."""
        if step.kind != "RandomCrop" or not isinstance(step.value, Instance) or self.argument(step.value, 1, "padding"):
            return False
        before = next((each.value for each in among if each.kind in _RESIZES), None)
        size = self._height_and_width(before) if isinstance(before, Instance) else None
        if before is None and dataset is not None and not any("Pad" in each.kind for each in among):
            sizes = {self._size_of_images(each) for each in (inner_datasets(self._machine, dataset) or [dataset])}
            size = sizes.pop() if len(sizes) == 1 else None
        return size is not None and size == self._height_and_width(step.value)

    def _size_of_images(self, dataset: Value) -> tuple[int, int] | None:
        name = dataset.library_name if isinstance(dataset, Instance) else ""
        size = _SIZES.get(name.rpartition(".")[2]) if name.startswith("torchvision.datasets.") else None
        return (size, size) if size is not None else None

    def _height_and_width(self, transform: Instance) -> tuple[int, int] | None:
        """What a transform is told. To resize by a single number keeps the shape of an image: then it is unknown."""
        given = self.argument(transform, 0, "size")
        items = given.items if isinstance(given, Items) else [given, given] if "Crop" in transform.library_name else []
        sizes = [self.constant(each) for each in items]
        return (sizes[0], sizes[1]) if len(sizes) == 2 and all(isinstance(each, int) for each in sizes) else None

    def _is_now_and_then(self, transform: Instance, position: int | None) -> bool:
        """Whether a transform is applied to some images alone, or always and differently (as a crop is)."""
        given = self.argument(transform, position, "p")
        if given is None:
            return True
        value = self.constant(given)
        if value == 1 and self.class_name(transform).removeprefix("Random") in _ALL_OR_NOTHING:
            return False
        return isinstance(value, int | float) and not isinstance(given, Setting) and value > 0

    def _is_strong(self, transform: Instance, kind: str) -> bool:
        """Whether some strength that was given is other than nothing."""
        if kind == "RandomResizedCrop":
            scale = self.argument(transform, 1, "scale")
            return not (isinstance(scale, Items) and all(self.constant(bound) == 1 for bound in scale.items))
        names = _STRENGTHS[kind]
        given = {name: self.argument(transform, index, name) for index, name in enumerate(names)}
        return any(
            value is not None and not _is_nothing(value, is_range=name not in _FOR_EACH_AXIS)
            for name, value in given.items()
        )


def _is_decided_by_chance(part: Value) -> bool:
    """Whether a part of a sample is one of several constants, as something that was drawn decides."""
    return (
        isinstance(part, Choice)
        and all(isinstance(option, Const) for _, option in part.options)
        and any("rand" in guard.subject for guards, _ in part.options for guard in guards)
    )


def _is_nothing(value: Value, *, is_range: bool = True) -> bool:
    """Whether a strength is 0 or, where two numbers are a range, from one to the same."""
    if isinstance(value, Items):
        is_one_number = is_range and len(value.items) == 2 and _is_same(*value.items)
        return is_one_number or all(_is_nothing(item) for item in value.items)
    return not isinstance(value, Const) or not value.value


def _is_same(low: Value, high: Value) -> bool:
    return low is high or (isinstance(low, Const) and isinstance(high, Const) and low.value == high.value)
