"""Probes that note something of each place, or of each object, and judge these one by one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, get_args
from weakref import WeakKeyDictionary

from dllint.confirm.probes.base import Probe
from dllint.confirm.probes.judging import Judgements, Samples

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

S = TypeVar("S", bound=Samples)


class _Collecting(Probe, Generic[S]):
    """Notes ``samples`` of one kind, the class that it is given, and judges them one by one."""

    samples: ClassVar[type[Samples]] = Samples

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for kind in (kind for base in vars(cls).get("__orig_bases__", ()) for kind in get_args(base)):
            cls.samples = kind if isinstance(kind, type) else cls.samples

    def noted(self) -> Iterable[S]:
        """All that was noted."""
        raise NotImplementedError

    def judge(self) -> Judgements:
        for seen in self.noted():
            yield from self.judge_each(seen)

    def judge_each(self, seen: S) -> Judgements:
        """What the samples of a place, or of an object, have shown."""
        return iter(())


class PlaceProbe(_Collecting[S]):
    """Judges each place by samples: the first calls from there, and one in so many of those after them.

    Attributes:
        at_first: so many calls from each place are all looked at.
        seen: what was noted, by place.
    """

    at_first: ClassVar[int] = 10

    def __init__(self, run: Run) -> None:
        self.seen: dict[tuple[Hashable, ...], S] = {}
        super().__init__(run)

    def noted(self) -> Iterable[S]:
        return self.seen.values()

    def at(self, *place: Hashable) -> S:
        """What is known of a place, with a further call from there."""
        seen = self.seen.get(place) or self._meet(place)
        seen.calls += 1
        seen.last = self.run.steps
        return seen

    def sample(self, *place: Hashable) -> S | None:
        """The same, if this call is to be looked at."""
        seen = self.seen.get(place) or self._meet(place)
        seen.calls += 1
        if seen.calls > self.at_first and seen.calls % self.run.every:
            return None
        seen.last = self.run.steps
        return seen

    def _meet(self, place: tuple[Hashable, ...]) -> S:
        stacks = tuple(part for part in place if isinstance(part, tuple))
        seen = self.seen[place] = cast(S, self.samples(place, stacks, self.run.steps))
        return seen


class ObjectProbe(_Collecting[S]):
    """Judges each object of a kind, such as a model or a loader. They may be gone when the run ends, and what is known
    of them is not.

    Attributes:
        seen: what was noted, in the order in which the objects came.
        known: the same by object, for those that exist; None for those that are not judged.
    """

    def __init__(self, run: Run) -> None:
        self.seen: list[S] = []
        self.known: WeakKeyDictionary[Any, S | None] = WeakKeyDictionary()
        super().__init__(run)

    def noted(self) -> Iterable[S]:
        for seen in self.seen:
            seen.last = seen.last or self.run.steps
            yield seen

    def of(self, thing: Any, *place: Any) -> S | None:
        """What is known of an object, which was met at a place; None if it is not to be judged."""
        if thing not in self.known:
            seen = self.known[thing] = self.describe(thing, *place)
            if seen is not None:
                self.seen.append(seen)
        return self.known[thing]

    def describe(self, thing: Any, *place: Any) -> S | None:
        """What there is to know of an object when it is met; None if it is not to be judged."""
        return cast(S, self.samples(place, place, self.run.steps))
