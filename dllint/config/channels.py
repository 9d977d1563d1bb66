"""The channels of conda that a project takes its packages from.

That of PyTorch ends with torch 2.5.1, as https://github.com/pytorch/pytorch/issues/138506 announces. So whoever follows
``conda install pytorch -c pytorch`` gets no later one, unless conda-forge is named as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LAST_OF_CHANNEL = "2.5.1"
"""The latest torch that the channel has: a bound, and not what somebody has run with."""
_LAST = ("torch", f"<={LAST_OF_CHANNEL}")
_OTHER = "conda-forge"
_COMMAND = re.compile(r"\bconda install\b(?:[^\n\\]|\\\n?)*")
_PACKAGE = re.compile(r"[\s:]pytorch(?=[\s=<>]|$)")
_CHANNEL = re.compile(r"(?:-c|--channel)[ =]+(\S+)")
_CHANNELS = re.compile(r"^channels:[^\S\n]*\n((?:[^\S\n]*[-#][^\n]*\n)+)", re.MULTILINE)
_DEPENDENCY = re.compile(r"^[^\S\n]*-[^\S\n]+['\"]?pytorch\b", re.MULTILINE)


def told_by_command(text: str) -> Iterator[tuple[str, str]]:
    """What the channel says of torch that the commands in a text install it from."""
    for command in _COMMAND.findall(text):
        packages, channels = _CHANNEL.sub("", command), _CHANNEL.findall(command)
        is_of_it = "pytorch" in channels or "pytorch::" in packages
        if is_of_it and _PACKAGE.search(packages) and _OTHER not in command:
            yield _LAST


def told_by_environment(text: str) -> Iterator[tuple[str, str]]:
    """The same of an environment of conda, as a file tells it."""
    channels = _CHANNELS.search(text)
    names = {line.strip(" -'\"\t") for line in channels[1].splitlines()} if channels else set()
    if channels and "pytorch" in names and _OTHER not in names and _DEPENDENCY.search(text, channels.end()):
        yield _LAST
