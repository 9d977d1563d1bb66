"""Which steps of an image pipeline give another result from call to call."""

from __future__ import annotations

from collections.abc import Sequence

from dllint.context.objects import Objects
from dllint.interp.ask.pipelines import TransformStep, inside
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


class Chance(Objects):
    """Transforms that draw random numbers."""

    def is_random(self, step: TransformStep, among: Sequence[TransformStep] = ()) -> bool:
        """Whether a step certainly gives different results from call to call.

        ``among`` are the steps of its pipeline: a crop of the size that another one has made changes nothing.
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
        if step.kind not in kinds["random"] or self._keeps_all(step, among):
            return False
        if step.kind in _STRENGTHS:
            return self._is_strong(transform, step.kind)
        return self._is_now_and_then(transform, _POSITION_OF_P.get(step.kind, 0 if "Crop" not in step.kind else None))

    def _keeps_all(self, step: TransformStep, among: Sequence[TransformStep]) -> bool:
        """Whether a crop is as large as what it is given, by the settings of the program."""
        if step.kind != "RandomCrop" or not isinstance(step.value, Instance) or self.argument(step.value, 1, "padding"):
            return False
        before = next((each.value for each in among if each.kind in _RESIZES), None)
        size = self._height_and_width(before) if isinstance(before, Instance) else None
        return size is not None and size == self._height_and_width(step.value)

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


def _is_nothing(value: Value, *, is_range: bool = True) -> bool:
    """Whether a strength is 0 or, where two numbers are a range, from one to the same."""
    if isinstance(value, Items):
        is_one_number = is_range and len(value.items) == 2 and _is_same(*value.items)
        return is_one_number or all(_is_nothing(item) for item in value.items)
    return not isinstance(value, Const) or not value.value


def _is_same(low: Value, high: Value) -> bool:
    return low is high or (isinstance(low, Const) and isinstance(high, Const) and low.value == high.value)
