"""Values that are one of several, and what is common to the ways that lead to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

from dllint.assumptions import one_of
from dllint.forms import class_of, described
from dllint.sites import Guard, Guards
from dllint.values import Absent, Const, External, Instance, Symbol, Value

_COMPARABLE = (Const, External)
_numbers = count()


class Choice(Value):
    """One of several values, each with the guards under which it is the one.

    An option of which no condition is known gets one that assumes it to be the one: no value of several is ever there
    unconditionally.
    """

    __slots__ = ("_narrowed", "_subjects", "options")
    LIMIT = 12

    def __init__(self, options: Sequence[tuple[Guards, Value]]) -> None:
        for guards, _ in options:  # a plain loop, as this is done for every variable of every branch
            if not guards:
                options = list(_told_apart(options))
                break
        self.options = tuple(options)
        self._subjects: frozenset[str] | None = None
        self._narrowed: dict[tuple[int, ...], tuple[Guards, Value | None]] | None = None
        self.site = options[0][1].site
        for _, option in self.options:
            if isinstance(option, Instance):
                option.choices += (self,)

    @property
    def subjects(self) -> frozenset[str]:
        """What the guards speak of."""
        if self._subjects is None:
            self._subjects = frozenset([guard.subject for guards, _ in self.options for guard in guards])
        return self._subjects

    def narrowed(self, guards: Guards, possible: Callable[[Guards], bool]) -> Value:
        """What is left of it under conditions, by what is ``possible`` with them; all of it, if nothing would be.

        The same conditions are in force wherever a block reads a variable, so that what was left is remembered.
        """
        if self._narrowed is None:
            self._narrowed = {}
        key = tuple(map(id, guards))
        known = self._narrowed.get(key)
        if known is None:
            left = [(own, option) for own, option in self.options if possible(own)]
            value = choose(left) if left and len(left) < len(self.options) else None  # itself would be a cycle
            known = self._narrowed[key] = (guards, value)  # while these guards live, no others have their ids
        return self if known[1] is None else known[1]

    def __repr__(self) -> str:
        return f"Choice({[(' and '.join(map(str, guards)), value) for guards, value in self.options]})"


def choose(options: Sequence[tuple[Guards, Value]]) -> Value:
    """Join values of different paths: equal ones collapse, nested choices are flattened.

    More than ``Choice.LIMIT`` alternatives are unknown, but for what they may be, and when (`detail`).
    """
    if len(options) == 2:  # nearly always, and mostly nothing that needs more care
        (_, left), (_, right) = options
        if left is right:
            return left
        if type(left) is not type(right) and not isinstance(left, Choice) and not isinstance(right, Choice):
            return Choice(options)
    is_open = len(options) > 1 and not all(guards for guards, _ in options)
    if is_open and any(isinstance(value, Choice) for _, value in options):
        options = list(_told_apart(options))  # what is known of one of them does not say that it is the one
    flat: list[tuple[Guards, Value]] = []
    for guards, value in options:
        for more, option in value.options if isinstance(value, Choice) else (((), value),):
            kind = type(option)
            for index, (known, seen) in enumerate(flat):
                if option is seen or (kind in _COMPARABLE and kind is type(seen) and same(option, seen)):
                    flat[index] = (_either(known, guards + more), seen)
                    break
            else:
                flat.append((guards + more, option))
    if len(flat) == 1:
        return flat[0][1]
    if len(flat) > Choice.LIMIT:
        conditions = tuple(guards for guards, _ in flat)
        return Symbol("unknown", tuple(option for _, option in flat), flat[0][1].site, detail=conditions)
    return Choice(flat)


def otherwise(guards: Guards) -> Guards:
    """The condition of the way on where a branch with these conditions has left: that one of them fails.

    It takes nothing for granted, as the other arm of an ``if`` does not; but for conditions which do so themselves,
    against which nothing is known.
    """
    if not guards or any(guard.assumption for guard in guards):
        return ()
    if len(guards) == 1:
        return (guards[0].negated(),)
    defaults = [guard.by_default for guard in guards]
    by_default = True if False in defaults else None if None in defaults else False
    return (Guard(f"value {next(_numbers)}", "==", 0, True, by_default=by_default),)


def _either(left: Guards, right: Guards) -> Guards:
    """The condition of a value that comes by either of two ways: what these have in common, or else that it is one of
    them. That takes nothing for granted where neither does: code after it is reached as it is after each of them."""
    common = shared(left, right)
    if common or not left or not right or any(guard.assumption for guard in (*left, *right)):
        return common
    return (Guard(f"value {next(_numbers)}", "==", 0, True),)


def _told_apart(options: Sequence[tuple[Guards, Value]]) -> Iterator[tuple[Guards, Value]]:
    """Options, with a condition for each that has none."""
    choice = f"value {next(_numbers)}"
    for index, (guards, value) in enumerate(options):
        if not guards:
            assumption = one_of(f"a value is {_words_for(value)}", choice, index, len(options), asks=class_of(value))
            guards = (Guard(choice, "==", index, True, assumption=assumption),)
        yield guards, value


def _words_for(value: Value) -> str:
    if isinstance(value, Choice):
        return " or ".join(dict.fromkeys(described(option) for _, option in value.options))
    return described(value)


def shared(left: Guards, right: Guards) -> Guards:
    """The conditions that two ways have in common."""
    if not left or not right:
        return ()
    keys = {guard.key() for guard in right}
    return tuple(guard for guard in left if guard.key() in keys)


def give_hint(value: Value, name: str) -> None:
    """Remember the first name that an object, or each of several possible objects, is bound to."""
    if isinstance(value, Choice):
        for _, option in value.options:
            give_hint(option, name)
    elif isinstance(value, (Instance, Symbol)) and not value.hint:
        value.hint = name


def same(left: Value, right: Value) -> bool:
    """Whether two values are certainly the same one."""
    if left is right:
        return True
    if isinstance(left, Const) and isinstance(right, Const):
        return type(left.value) is type(right.value) and left.value == right.value
    if isinstance(left, External) and isinstance(right, External):
        return left.name == right.name
    return False


def present(value: Value, otherwise: Value | None = None) -> Value:
    """A value without the options under which it is absent; with ``otherwise`` in their place, if that is given."""
    if not isinstance(value, Choice) or not any(isinstance(option, Absent) for _, option in value.options):
        return value
    if otherwise is None:
        there = [option for option in value.options if not isinstance(option[1], Absent)]
        return choose(there) if there else Symbol("unknown", site=value.site)
    return choose([(guards, otherwise if isinstance(option, Absent) else option) for guards, option in value.options])


def alternatives(value: Value) -> tuple[tuple[Guards, Value], ...]:
    """The options of a choice, or the value itself as the only one."""
    return value.options if isinstance(value, Choice) else (((), value),)
