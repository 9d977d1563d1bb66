"""What is assumed of a value that is one of several, where some of them are not known.

There is one such assumption, wherever the choice is met: on the way to an event, behind a value, or around an object.
(That a call goes to one of several things, all known, is a condition of what happens in it: ``guards.as_option``.)
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.assumptions import Assumption
from dllint.choices import Choice
from dllint.interp.run import graph
from dllint.sites import Guards
from dllint.values import Instance, Symbol, Value

_MAX_SOURCES = 60
_MOVES = frozenset((".to", ".cuda", ".cpu", ".pin_memory"))
_TAKEN_OUT = frozenset(("element", "item", "filter", "generator"))


def assumed_of_options(choice: Value, name: str = "") -> Iterator[Assumption]:
    """That a value is one of those that it is known to be, if others are not known; perhaps it is so by default.

    Args:
        choice: the value; of one that is no choice, nothing is assumed.
        name: what it is called if none of its options has a name.
    """
    if not isinstance(choice, Choice) or not (unresolved := unresolved_options(choice)) or is_one(choice):
        return
    hint = next(filter(None, (getattr(option, "hint", "") for _, option in choice.options)), "")
    what = f"`{hint}`" if hint else name or "what is one of several things"
    if all(any(guard.by_default is False for guard in guards) for guards, _ in unresolved):
        yield Assumption("default", f"{what} is one of those that are known, as by default")
    else:
        yield Assumption("alternative", f"{what} is one of those that are known")


def unresolved_options(value: Choice) -> list[tuple[Guards, Symbol]]:
    """Those of several values of which nothing is known: no tensors, and none of which one is made of another."""
    options = [option for _, option in value.options]
    wrapped = {id(given) for option in options if isinstance(option, Instance) for given in option.arguments.all()}
    known = {id(option) for option in options}
    return [
        (guards, option)
        for guards, option in value.options
        if isinstance(option, Symbol)
        and id(option) not in wrapped
        and (option.name == "call" or not graph.is_tensor_operation(option))
        and not _is_parameter_of_known(option)
        and not any(source is not option and id(source) in known for source in graph.sources(option, _MAX_SOURCES))
    ]


def is_one(value: Choice) -> bool:
    """Whether all of several values are the same one, which some ways move to a device: `if gpu: y = y.cuda()`."""
    return len({id(_unmoved(option)) for _, option in value.options}) == 1


def _unmoved(value: Value) -> Value:
    while isinstance(value, Symbol) and value.name in _MOVES and value.inputs:
        value = value.inputs[0]
    return value


def _is_parameter_of_known(option: Symbol) -> bool:
    """Whether something is a parameter of a module that is known, or some of these, taken out of `parameters()`."""
    value = option
    while value.name in _TAKEN_OUT and value.inputs and isinstance(value.inputs[0], Symbol):
        value = value.inputs[0]
    is_asked_for = value.name in ("parameters", "named_parameters") and bool(value.inputs)
    return is_asked_for and isinstance(value.inputs[0], Instance)
