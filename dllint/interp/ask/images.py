"""Images on their way to the model: in which order their channels are, and how large their numbers are.

What is followed: OpenCV, PIL, numpy and torch by hand, and the pipelines of torchvision and albumentations. Whatever is
not known ends the claim: the order becomes empty, the largest number ``None``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.dataclass import dataclass
from dllint.forms import element_of
from dllint.interp.ask import pipelines
from dllint.interp.ask.pipelines import TransformStep, numbers_in
from dllint.interp.run.graph import inputs_of
from dllint.interp.run.guards import consistent
from dllint.sites import Guards
from dllint.values import Class, Const, External, Instance, Items, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.source.facts import Facts

_LOADER = "torch.utils.data.DataLoader"
_MAX_DEPTH = 30
_MAX_VALUES = 400
_MAX_OPTIONS = 8
_MOST_IN_A_BYTE = 256  # by which people divide as well
_PLAIN_ARGUMENTS = frozenset(("root", "train", "split", "transform", "target_transform", "download"))
_FLIPPED = re.compile(r"\((?::, :|\.\.\.), (?:::-1|[\[(]2, 1, 0[\])])\)")
_CROPPED = re.compile(r"[(:,\s\w+\-*/]*:[(:,\s\w+\-*/]*\)?")
_DIVIDES = frozenset(
    ("/", ".div", ".div_", ".divide", ".divide_", ".true_divide", "torch.div", "torch.divide", "torch.true_divide",
     "numpy.divide", "numpy.true_divide")
)  # fmt: skip
_MULTIPLIES = frozenset(
    ("*", ".mul", ".mul_", ".multiply", ".multiply_", "torch.mul", "torch.multiply", "numpy.multiply")
)
_OTHER_ORDER = {"bgr": "rgb", "rgb": "bgr", "": ""}
_FLOATS = ("float", "float32", "float16", "float64", "double", "half", "single", "f", "f4")
_SAME = frozenset(
    ("numpy.array", "numpy.asarray", "numpy.ascontiguousarray", "numpy.copy", "numpy.transpose", "numpy.moveaxis",
     "numpy.fliplr", "numpy.flipud", "numpy.rot90", "numpy.pad", "numpy.expand_dims",
     "torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.Tensor", "torch.FloatTensor", "torch.unsqueeze",
     "torch.permute", "PIL.Image.fromarray", "cv2.resize", "cv2.flip", "cv2.GaussianBlur", "cv2.blur",
     "cv2.copyMakeBorder", "cv2.rotate", "cv2.warpAffine",
     ".transpose", ".permute", ".copy", ".unsqueeze", ".contiguous", ".clone", ".resize", ".crop", ".rotate",
     ".astype", ".float", ".double", ".half", ".to", ".cuda", ".type", ".squeeze", ".reshape", ".view", ".flatten",
     ".convert", "torch.autograd.Variable", "torch.flatten")
)  # fmt: skip
_GEOMETRIC = re.compile(
    r"(A\.)?(\w*(Crop|Flip|Resize|Rotat\w*|Scale|Affine|Pad\w*|Blur|Perspective|Transpose|Jitter|Erasing|Dropout"
    r"|LongestMaxSize|SmallestMaxSize|Distortion|Contrast|Brightness\w*|HueSaturation\w*|Noise|Cutout|CLAHE|Gamma"
    r"|ToPILImage|ToImage|PILToTensor|ToTensorV2|Transform))"
)


@dataclass(frozen=True, slots=True)
class Image:
    """What is known of an image.

    ``order`` is ``rgb``, ``bgr`` or nothing; ``largest`` is its largest possible number (255, 1, 1 / 255), ``None`` if
    that is not known; ``is_integer`` says that its numbers are bytes. ``origin`` is the call that read it.
    ``normalized`` are the steps that subtract a mean, each with the largest number before it.
    """

    origin: Symbol
    order: str
    largest: float | None = 255.0
    is_integer: bool = True
    normalized: tuple[tuple[Instance, float | None], ...] = ()
    scaled: tuple[Value, ...] = ()

    @property
    def kind(self) -> tuple[object, ...]:
        """All that is known but where it comes from."""
        return (self.order, self.largest, self.is_integer, tuple(size for _, size in self.normalized))

    def divided(self, by: float, at: Value) -> Image:
        largest = self.largest / by if self.largest is not None else None
        return replace(self, largest=largest, is_integer=False, scaled=(*self.scaled, at))


Options = list[tuple[Guards, Image | None]]


def images_in(machine: Machine, sample: Value, guards: Guards = ()) -> Iterator[tuple[Guards, Image]]:
    """The images that a sample of a dataset consists of, as far as they are known."""
    pending: list[tuple[Guards, Value]] = [(guards, sample)]
    for _ in range(_MAX_VALUES):
        if not pending:
            return
        here, value = pending.pop(0)
        if isinstance(value, Symbol) or all(isinstance(option, Symbol) for _, option in alternatives(value)):
            found = _options(machine, value)
            if _are_alike(found) and found[0][1] is not None:
                yield here, found[0][1]
            else:
                yield from ((here + more, each) for more, each in found if each is not None and consistent(more, here))
        elif isinstance(value, Choice):
            pending.extend((here + more, option) for more, option in value.options if consistent(more, here))
        else:
            pending.extend((here, each) for each in inputs_of(value))


def image_of(machine: Machine, value: Value, depth: int = 0) -> Image | None:
    """What is known of a value as an image in any case, moved to a device or not; ``None`` where nothing is."""
    found = _options(machine, value, depth)
    return found[0][1] if _are_alike(found) else None


def _are_alike(options: Options) -> bool:
    """Whether the same is known in any case."""
    return len({image.kind if image is not None else None for _, image in options}) == 1


def _options(machine: Machine, value: Value, depth: int = 0) -> Options:
    """The images that a value may be, each with its conditions; ``None`` where it is not known to be one."""
    if isinstance(value, Choice):
        return [
            (guards + more, image)
            for guards, option in value.options[:_MAX_OPTIONS]
            for more, image in _options(machine, option, depth + 1)
            if consistent(more, guards)
        ][:_MAX_OPTIONS]
    if not isinstance(value, Symbol) or depth > _MAX_DEPTH:
        return [((), None)]
    if value.name in ("cv2.imread", "cv2.imdecode"):
        return [((), _read_by_opencv(value))]
    if value.name == "PIL.Image.open":
        return [((), Image(value, "rgb"))]
    if not value.inputs:
        return [((), None)]
    first = value.inputs[0]
    if value.name.endswith("()") and isinstance(first, Instance) and len(value.inputs) > 1:
        steps = pipelines.steps_of(machine, first)
        return [
            (guards + more, after)
            for guards, image in _options(machine, value.inputs[1], depth + 1)
            for more, after in (_transformed(image, steps, machine.facts) if image is not None else [((), None)])
            if consistent(more, guards)
        ][:_MAX_OPTIONS]
    loader = element_of(first) if value.name == "item" else None
    if isinstance(loader, Instance) and loader.library_name == _LOADER:
        return [((), _in_batch(machine, loader, value, depth + 1))]
    return [
        (guards, _changed(image, value) if image is not None else None)
        for guards, image in _options(machine, first, depth + 1)
    ]


def _in_batch(machine: Machine, loader: Instance, part: Symbol, depth: int) -> Image | None:
    """What is known of a part of the batches that a loader puts together by itself, as it is in each sample."""
    given = loader.arguments.get(0, "dataset")
    if given is None or "collate_fn" in loader.arguments.keywords or not loader.arguments.exact:
        return None
    found = [_in_sample(machine, dataset, part, depth) for _, dataset in alternatives(given)]
    return found[0] if _are_alike([((), each) for each in found]) else None


def _in_sample(machine: Machine, dataset: Value, part: Symbol, depth: int) -> Image | None:
    while inner := pipelines.inner_datasets(machine, dataset):
        if len(inner) > 1:
            return None
        dataset = inner[0]
    if not isinstance(dataset, Instance):
        return None
    if not isinstance(dataset.cls, Class):
        return _of_library(machine, dataset, part)
    sample, key = pipelines.sample_of(machine, dataset), part.detail
    if isinstance(sample, Items) and sample.exact and isinstance(key, int) and 0 <= key < len(sample.items):
        return image_of(machine, sample.items[key], depth)
    inside = sample.contents.get(key) if isinstance(sample, Table) and isinstance(key, str) else None
    return image_of(machine, inside, depth) if inside is not None else None


def _of_library(machine: Machine, dataset: Instance, part: Symbol) -> Image | None:
    """The image in the samples of a dataset of torchvision, which applies one transform to images of PIL."""
    is_image = part.detail == 0 and "transform" in machine.facts.signatures.get(dataset.library_name, ())
    if not is_image or not set(pipelines.named_arguments(machine, dataset)) <= _PLAIN_ARGUMENTS:
        return None
    steps = pipelines.applied(machine, dataset)
    if len(steps) != 1 or steps[0].guards:
        return None
    made = _transformed(Image(part, "rgb"), pipelines.steps_of(machine, steps[0].value), machine.facts)
    return made[0][1] if len(made) == 1 else None


def _read_by_opencv(value: Symbol) -> Image | None:
    """An image in color is read in the order of OpenCV; of other flags nothing is said."""
    flag = value.arguments.get(1, "flags") if value.arguments is not None else None
    name = flag.name if isinstance(flag, External) else ""
    if flag is None or name.endswith(".IMREAD_COLOR") or (isinstance(flag, Const) and flag.value == 1):
        return Image(value, "bgr")
    return Image(value, "rgb") if name.endswith(".IMREAD_COLOR_RGB") else None


def _changed(image: Image, value: Symbol) -> Image | None:
    """An image after one operation; ``None`` after one that is not known."""
    name = value.name
    if name == "cv2.cvtColor":
        code = value.inputs[1] if len(value.inputs) > 1 else None
        is_swap = isinstance(code, External) and code.name.endswith((".COLOR_BGR2RGB", ".COLOR_RGB2BGR"))
        return replace(image, order=_OTHER_ORDER[image.order]) if is_swap else replace(image, order="")
    if name == "item":
        return _indexed(image, str(value.detail))
    if name in (*_DIVIDES, *_MULTIPLIES) and len(value.inputs) > 1:
        by = value.inputs[1]
        is_plain = len(value.inputs) == 2 and not (value.arguments is not None and value.arguments.keywords)  # no `out`
        if not is_plain or not isinstance(by, Const) or not isinstance(by.value, int | float) or not by.value:
            return replace(image, largest=None, is_integer=False)
        if name in _DIVIDES and by.value > _MOST_IN_A_BYTE:  # of 16 bits: a depth, or a medical image
            return replace(image, largest=None, is_integer=False)
        return image.divided(by.value if name in _DIVIDES else 1 / by.value, value)
    if name in ("-", "+"):
        return replace(image, largest=None, is_integer=False)
    if name not in _SAME:
        return None
    if name == ".convert" and not (len(value.inputs) > 1 and _is_text(value.inputs[1], "RGB")):
        return replace(image, order="")
    return replace(image, is_integer=False) if _makes_floats(value) else image


def _indexed(image: Image, detail: str) -> Image | None:
    if detail in ("image", "img", "0"):  # of what a pipeline returns, or of a batch of one
        return image
    if _FLIPPED.fullmatch(detail):
        return replace(image, order=_OTHER_ORDER[image.order])
    return image if _CROPPED.fullmatch(detail) and "::" not in detail else None


def _is_text(value: Value, text: str) -> bool:
    return isinstance(value, Const) and value.value == text


def _makes_floats(value: Symbol) -> bool:
    """Whether a cast, or the type that a constructor is given, is one of floating point."""
    if value.name in (".float", ".double", ".half", "torch.Tensor", "torch.FloatTensor"):
        return True
    given = list(value.inputs[1:2]) if value.name in (".astype", ".to", ".type", "numpy.array") else []
    if value.arguments is not None and "dtype" in value.arguments.keywords:
        given.append(value.arguments.keywords["dtype"])
    names = (each.name if isinstance(each, External) else getattr(each, "value", "") for each in given)
    return any(str(name).rpartition(".")[2] in _FLOATS for name in names)


def _transformed(image: Image, steps: list[TransformStep], facts: Facts) -> Options:
    """What a pipeline may make of an image: a step that has conditions may be taken or not."""
    options: Options = [((), image)]
    for step in steps:
        reached = []
        for guards, before in options:
            if before is None or not consistent(step.guards, guards):
                reached.append((guards, before))
                continue
            after = _after_step(before, step.kind, step.value, facts) if isinstance(step.value, Instance) else None
            reached.append((guards if after == before else (*guards, *step.guards), after))
            if step.guards and after is not None and after != before:
                reached.append((guards, before))
        options = reached[:_MAX_OPTIONS]
    return options


def _after_step(image: Image, kind: str, step: Instance, facts: Facts) -> Image | None:
    given = step.arguments.keywords
    if kind == "ToTensor":
        return image.divided(255, step) if image.is_integer else image
    if kind in ("ConvertImageDtype", "A.ToFloat"):
        return (
            image.divided(255, step) if image.is_integer and "max_value" not in given else replace(image, largest=None)
        )
    if kind == "ToDtype":
        scales = step.arguments.get(1, "scale")
        if not isinstance(scales, Const | None) or not isinstance(step.arguments.get(0, "dtype"), External):
            return None
        if scales is not None and scales.value is True and image.is_integer:
            return image.divided(255, step)
        return replace(image, is_integer=False)
    if kind == "Normalize":
        if image.is_integer:
            return None  # it raises for what is no tensor, or for one of bytes
        left = _largest_after(step, image.largest, facts)
        return replace(image, largest=left, normalized=(*image.normalized, (step, image.largest)))
    if kind == "A.Normalize":
        scale = pipelines.scale_of_normalize(step)
        largest = image.largest / scale if image.largest is not None and scale else None
        seen = ((step, largest),) if scale else ()
        return replace(image, largest=None, is_integer=False, normalized=(*image.normalized, *seen))
    return image if _GEOMETRIC.fullmatch(kind) else None


def _largest_after(normalize: Instance, largest: float | None, facts: Facts) -> float | None:
    """The largest number after a mean was subtracted and the rest divided; ``None`` where one of them is not known."""
    given = normalize.arguments
    mean, std = (
        numbers_in(value, facts) if (value := given.get(at, name)) is not None else None
        for at, name in enumerate(("mean", "std"))
    )
    if largest is None or not mean or not std or len(mean) != len(std) or 0 in std:
        return None
    return max(max(abs(largest - m), abs(m)) / s for m, s in zip(mean, std, strict=True))
