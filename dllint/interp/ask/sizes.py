"""Sizes of axes, as products of numbers and of sizes that only a run knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field, replace
from math import prod
from typing import Literal

from dllint.dataclass import dataclass
from dllint.values import Const, Setting, Symbol, Value

Meaning = Literal["", "batch", "time", "channel", "height", "width", "feature", "head", "layer"]


@dataclass(frozen=True, slots=True)
class Factor:
    """A size that only a run knows: that of an axis of some tensor, or a value that the program computes.

    ``axis`` is the position of the axis, from the front. ``known_as`` is how the program calls it. ``may_be_one`` says
    that it is a setting which is 1 by the program's own default. ``quotient`` is what it is computed from: the size of
    one of so many equal parts of another.
    """

    owner: int
    axis: int | None = None
    known_as: str = ""
    may_be_one: bool = False
    quotient: tuple[Size, Size] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and (self.owner, self.axis) == (other.owner, other.axis)

    def __hash__(self) -> int:
        return hash((self.owner, self.axis))


@dataclass(frozen=True, slots=True)
class Size:
    """How long an axis is: a number times factors, which may repeat. ``meaning`` is what its steps are, if known."""

    number: int = 1
    factors: tuple[Factor, ...] = ()
    meaning: Meaning = field(default="", compare=False)

    @property
    def is_atomic(self) -> bool:
        """Whether this is the size of one axis: a number above 1, or one factor."""
        return (self.number > 1 and not self.factors) or (self.number == 1 and len(self.factors) == 1)

    @property
    def known(self) -> int | None:
        """The size as a number, where it is one."""
        return None if self.factors else self.number

    def same(self, other: Size) -> bool:
        """Whether two sizes are certainly equal."""
        return self.number == other.number and Counter(self.factors) == Counter(other.factors)

    def meant(self, meaning: Meaning) -> Size:
        """The size, as that of an axis of a meaning."""
        return replace(self, meaning=meaning)

    def __str__(self) -> str:
        parts = [factor.known_as or "?" for factor in self.factors]
        return " * ".join([str(self.number), *parts] if self.number != 1 or not parts else parts)


def of_axis(tensor: Value, axis: int, known_as: str = "", meaning: Meaning = "") -> Size:
    """The size of an axis of a tensor of which nothing else is known."""
    return Size(1, (Factor(id(tensor), axis, known_as),), meaning)


def of_value(value: Value, known_as: str = "") -> Size:
    """A size that a value stands for, whatever it is."""
    is_one = isinstance(value, Setting) and isinstance(value.default, Const) and value.default.value == 1
    return Size(1, (Factor(id(value), None, known_as or _name_of(value), is_one),))


def of_part(value: Value, whole: Size, parts: Size) -> Size:
    """The size of one of some equal parts of another: ``whole // parts``."""
    return Size(1, (Factor(id(value), quotient=(whole, parts)),))


def _name_of(value: Value) -> str:
    """How a program calls a size: the name of an option, a parameter or an attribute."""
    if isinstance(value, Setting):
        return value.name
    is_named = isinstance(value, Symbol) and value.name in ("parameter", "attribute")
    return value.detail if is_named and isinstance(value, Symbol) and isinstance(value.detail, str) else ""


def product(sizes: Iterable[Size]) -> Size:
    """The size of several axes laid together."""
    sizes = [size for size in sizes if size != Size()]
    if len(sizes) == 1:
        return sizes[0]
    return Size(prod(size.number for size in sizes), tuple(factor for size in sizes for factor in size.factors))


def without_common(left: Size, right: Size) -> tuple[Size, Size]:
    """What is left of two sizes when equal factors are struck out."""
    ours, theirs = Counter(left.factors), Counter(right.factors)
    common = ours & theirs
    number = (left.number, right.number) if left.number != right.number else (1, 1)
    return (
        Size(number[0], tuple((ours - common).elements())),
        Size(number[1], tuple((theirs - common).elements())),
    )
