"""Writing to standard output and standard error, which may be closed, full, or unable to show a character.

A reader that goes away (``dllint . | head``) must change neither the exit code nor anything else, so what is written to
a closed pipe is dropped. Output that is lost for another reason, as on a full disk, is an error.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from dllint.errors import UserError

_color = "auto"


class OutputError(UserError):
    """Something could not be written. The message says what and why."""


def prepare() -> None:
    """Make the standard streams show any text: characters that the encoding lacks are written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # else the stream is closed (None) or replaced by a test
            reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write to standard output. Raises OutputError if that fails and not because its reader has gone."""
    _write(sys.stdout, text)


def write_bytes(data: bytes) -> None:
    """Write exactly these bytes to standard output. Raises OutputError as :func:`write`."""
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError as error:
            _give_up(sys.stdout, error)


def draw(text: str) -> None:
    """Write to standard error as it is."""
    _write(sys.stderr, text)


def note(text: str) -> None:
    """Write a line to standard error, for people."""
    draw(f"dllint: {text}\n")


def warn(text: str) -> None:
    """Write a warning to standard error."""
    note(f"warning: {text}")


def fail(text: str) -> None:
    """Write an error, of one or more lines, to standard error."""
    for line in text.splitlines():
        note(f"error: {line}")


def use_color(when: str) -> None:
    """Use colors ``always``, ``never``, or where that makes sense (``auto``)."""
    global _color
    _color = when


def has_color(stream: TextIO | None) -> bool:
    """Whether to use colors: as ``--color`` says; else on a terminal that has them.

    ``NO_COLOR`` in the environment switches them off, and ``FORCE_COLOR`` on.
    """
    if _color != "auto":
        return _color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that can do more than print line after line."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed before dllint started
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        _give_up(stream, error)


def _give_up(stream: TextIO, error: OSError) -> None:
    """Send what is still to come nowhere, so that Python's own flush at exit cannot fail and change the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    if not isinstance(error, BrokenPipeError) and stream is sys.stdout:
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error
