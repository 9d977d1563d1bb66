"""The base of all errors that are the user's to mend, and what they suggest."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CODE = re.compile(r"([A-Z]+)(\d)\d*")


class UserError(Exception):
    """Something asked of dllint that it cannot do. The message says what and why; the exit code is 2."""


class RegistryError(Exception):
    """A rule file that cannot be loaded, or two rules that claim one code or name."""


class Terminated(BaseException):
    """The process was told to end (SIGTERM). Whatever it has started and made ends with it."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a misspelled one is most like, if any is near.

    A code is compared with the codes of its own family (``DL1``) alone: DL109 is nearer to DL113 than to DL901.
    """
    from difflib import get_close_matches  # only ever needed on the way to an error

    family = _CODE.fullmatch(word.upper())
    candidates = {key.lower(): key for key in reversed(list(known)) if family is None or _is_of(family, key)}
    near = get_close_matches(word.lower().replace("_", "-"), candidates, n=1, cutoff=0.6)
    return candidates[near[0]] if near else None


def _is_of(family: re.Match[str], key: str) -> bool:
    code = _CODE.fullmatch(key)
    return code is not None and code.groups() == family.groups()
