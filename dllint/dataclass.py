"""The dataclasses of dllint: those of the standard library, but quicker to make; ``frozen`` is for the type checker.

Python compiles source text for each method that a dataclass gets. Every run makes 190 of these classes before it reads
a line, and then their objects by the hundred thousand, so that it counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool = False, eq: bool = True, **options: Any) -> Callable[[type], type]:
        """Make a dataclass, as the one of the standard library does, with two differences.

        Nothing refuses an assignment to a field of a frozen one: ``mypy --strict`` does. Equality and hash are those of
        a frozen class. In the standard library a frozen class takes twice as long to make, and each of its objects is
        filled by a call of ``object.__setattr__`` for each field.

        Only the constructor is compiled for each class (and the methods of an order); what tells, compares and hashes
        objects is written below, once. The 154 classes of the engine take 30 ms of CPU time so, and 50 with
        methods of their own (Python 3.11).
        """

        def made(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # for which the signature would be looked up
            own = frozenset(cls.__dict__)
            if "__repr__" not in own:
                cls.__repr__ = _told
            is_plain = "order" not in options
            done = dataclasses.dataclass(cls, repr=False, eq=eq and not is_plain, **options)
            if eq and is_plain and "__eq__" not in own:
                done.__eq__ = _equality(_reader([each.name for each in dataclasses.fields(done) if each.compare]))
            if eq and "__hash__" not in own:
                fields = dataclasses.fields(done)
                hashed = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
                done.__hash__ = _hash(_reader(hashed)) if frozen else None
            return done

        return made


_Reader = Callable[[Any], tuple[Any, ...]]


def _reader(names: list[str]) -> _Reader:
    """What gives the values of some fields of an object."""
    if not names:
        return lambda made: ()
    one = attrgetter(names[0])
    return attrgetter(*names) if len(names) > 1 else lambda made: (one(made),)


def _equality(values: _Reader) -> Callable[[Any, Any], bool]:
    def equal(one: Any, other: Any) -> bool:
        return values(one) == values(other) if other.__class__ is one.__class__ else NotImplemented

    return equal


def _hash(values: _Reader) -> Callable[[Any], int]:
    return lambda made: hash(values(made))


@recursive_repr()
def _told(made: Any) -> str:
    """The text of an object: its class and its fields."""
    fields = (field for field in dataclasses.fields(made) if field.repr)
    return f"{type(made).__qualname__}({', '.join(f'{field.name}={getattr(made, field.name)!r}' for field in fields)})"
