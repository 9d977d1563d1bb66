"""What a claim takes for granted: the interpreter records it, and how sure a finding is follows from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dllint.dataclass import dataclass

Kind = Literal["alternative", "default", "no-default", "entry", "name", "opaque", "version", "effect"]

KINDS: dict[Kind, str] = {
    "alternative": "a value is one of several, and the others are not known to behave alike",
    "default": "it holds for the program's own default of a setting, or where nothing is raised",
    "no-default": "a setting without a default is taken to have some value",
    "entry": "code is interpreted by itself, as nothing that could be followed calls it, or is that of one of several "
    "agents or trainers",
    "name": "what something is for is guessed from its name",
    "opaque": "code that could not be followed is taken to leave something alone",
    "version": "it depends on the version of a library, which is not known",
    "effect": "what it does to training depends on something that is not known",
}
"""The kinds of assumptions, each with what it means."""


@dataclass(frozen=True, slots=True, order=True)
class Assumption:
    """One thing that a claim takes for granted. ``text`` completes the sentence "this assumes that …".

    Of a value that is one of several, ``choice`` identifies the choice and ``option`` tells which of its ``options``
    it is: claims about all of them together do not assume any. ``asks`` is what a run can be asked instead, if it can:
    ``reached`` (the place of the claim is), ``batches`` (are taken from the loader that is made there), or the name of
    the class that an object there has.
    """

    kind: Kind
    text: str
    choice: str = ""
    option: int = 0
    options: int = 0
    asks: str = ""


Assumptions = tuple[Assumption, ...]


def one_of(
    text: str, choice: str, option: int, options: int, *, by_default: bool = False, asks: str = ""
) -> Assumption:
    """That a value is this one of several; ``text`` says which. ``choice`` identifies the choice among ``options``."""
    if by_default:
        return Assumption("default", f"{text}, as by default", choice, option, options, asks)
    text = f"{text}, which is one of {options} things it may be"
    return Assumption("alternative", text, choice, option, options, asks)


def union(*parts: Iterable[Assumption]) -> Assumptions:
    """All assumptions of some claims, each once, in order."""
    return tuple(dict.fromkeys(assumption for part in parts for assumption in part))
