"""dllint's dataclasses compare, hash and tell objects as those of the standard library do."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from dllint.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    label: str = dataclasses.field(default="", compare=False)
    marks: tuple[int, ...] = dataclasses.field(default=(), hash=False)


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: int = 2
    label: str = dataclasses.field(default="", compare=False)
    marks: tuple[int, ...] = dataclasses.field(default=(), hash=False)


@dataclass(frozen=True, slots=True)
class Point3(Point):
    z: int = 3


@dataclass(frozen=True)
class Single:
    value: float


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(frozen=True, slots=True, order=True)
class Ranked:
    rank: int
    name: str = ""


@dataclass(slots=True)
class Counter:
    count: int = 0


@dataclass(slots=True, eq=False)
class Node:
    value: int


@dataclass(frozen=True)
class Loose:
    text: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose) and other.text.lower() == self.text.lower()

    def __hash__(self) -> int:
        return hash(self.text.lower())


def test_equality_and_hash_are_of_the_fields_that_count() -> None:
    assert Point(1) == Point(1, label="other")
    assert Point(1) != Point(1, 3)
    assert Point(1, marks=(1,)) != Point(1)
    for made in (Point, StandardPoint):
        assert hash(made(1, marks=(1,))) == hash(made(1, label="other"))  # marks are compared, but not hashed
    assert hash(Point(1)) == hash(StandardPoint(1))


def test_objects_of_other_classes_are_never_equal() -> None:
    assert Point(1) != Point3(1)
    assert Point3(1, z=4) != Point3(1)
    assert Point(1) != StandardPoint(1)
    assert Point(1).__eq__(1) is NotImplemented


def test_one_field_or_none() -> None:
    nan = float("nan")
    assert Single(nan) == Single(nan)  # as fields are compared in a tuple
    assert Single(1.0) != Single(2.0)
    assert hash(Single(1.0)) == hash((1.0,))
    assert Empty() == Empty()
    assert hash(Empty()) == hash(())


def test_an_order_compares_all_fields() -> None:
    assert sorted([Ranked(2), Ranked(1, "b"), Ranked(1, "a")]) == [Ranked(1, "a"), Ranked(1, "b"), Ranked(2)]
    assert len({Ranked(1), Ranked(1), Ranked(2)}) == 2


def test_what_may_change_has_no_hash() -> None:
    assert Counter(1) == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter(1))


def test_without_equality_objects_are_themselves() -> None:
    node = Node(1)
    assert node == node
    assert node != Node(1)
    assert node in {node}


def test_own_methods_stay() -> None:
    assert Loose("A") == Loose("a")
    assert len({Loose("A"), Loose("a")}) == 1


def test_objects_are_told_and_copied_as_usual() -> None:
    point = Point(1, label="here")
    assert repr(point) == repr(StandardPoint(1, label="here")).replace("StandardPoint", "Point")
    assert dataclasses.replace(point, x=5) == Point(5)
    assert pickle.loads(pickle.dumps(point)) == point
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)
