"""Starts the user's command with the probes attached, and collects what they found out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import dllint
from dllint.confirm.evidence import ATTACHED, RECORDS, Record, Settings, read_record
from dllint.confirm.rules import declare
from dllint.dataclass import dataclass
from dllint.errors import Terminated, UserError

_INJECTED = Path(__file__).parent / "injected"
_QUIET = {"WANDB_MODE": "disabled", "COMET_MODE": "disabled", "NEPTUNE_MODE": "debug", "HF_HUB_DISABLE_TELEMETRY": "1"}
_PROMPT = 5.0  # seconds in which a script ends that was interrupted with dllint
_PATIENCE = 60.0  # seconds beyond its own limit after which the run is ended from outside
_LINES = 20  # that are kept
_LONGEST = 200  # characters of a line that are kept
_AFTERWARDS = 2.0  # seconds after the end of a command, for what it has started may hold its output open


class RunError(UserError):
    """The command could not be run. The message says why."""


@dataclass(slots=True)
class Outcome:
    """What a run has left: the records of its processes, by rank, and the exit code of the command."""

    command: list[str]
    records: list[Record] = field(default_factory=list)
    exit_code: int = 0
    reached: Literal["nothing", "python", "torch"] = "torch"  # how far attaching to it came
    output: list[str] = field(default_factory=list)  # the last lines that it printed
    is_killed: bool = False  # it did not end when its time was over


def run(
    command: Sequence[str], settings: Settings, *, in_place: bool, show_output: bool, files: Path | None = None
) -> Outcome:
    """Run a command under probes.

    Args:
        command: the words of the command; Python processes that it starts are observed as well.
        settings: the bounds of the run; its folders are filled in.
        in_place: let the script write its files where it wants to.
        show_output: pass what the script prints to standard error.
        files: the folder for what the script writes, which it finds there when it is run again; else it is gone.

    Returns:
        The records of the processes that trained.

    Raises:
        RunError: the command cannot be started.
        Terminated: dllint was told to end. So has the command been then.
    """
    folder = Path(tempfile.mkdtemp(prefix="dllint-confirm-"))
    try:
        records, scratch = folder / "records", files or folder / "files"
        records.mkdir()
        scratch.mkdir(exist_ok=True)
        settings = replace(settings, records=str(records), scratch="" if in_place else str(scratch))
        outcome = Outcome(list(command))
        _wait(outcome, _environment(settings, in_place), settings.max_seconds, show_output)
        outcome.records = sorted(map(read_record, records.glob(RECORDS)), key=lambda each: (each.rank, each.process))
        for judgement in (judgement for record in outcome.records for judgement in record.judgements):
            declare(judgement)
        is_there = {step: (records / name).exists() for step, name in ATTACHED.items()}
        outcome.reached = "torch" if is_there["torch"] else "python" if is_there["python"] else "nothing"
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(settings: Settings, in_place: bool) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(_INJECTED), os.environ.get("PYTHONPATH"))))
    return {
        **os.environ,
        **({} if in_place else _QUIET),
        "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1",
        "DLLINT_CONFIRM": json.dumps(asdict(settings)),
        "DLLINT_CONFIRM_HOME": str(Path(dllint.__file__).parent),
    }


def _wait(outcome: Outcome, environment: dict[str, str], seconds: float, show_output: bool) -> None:
    """Start the command and wait for its end, which goes into the outcome. Raises RunError."""
    command = outcome.command
    try:
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise RunError(f"{command[0]} cannot be run: {error.strerror}") from error
    reader = _Reader(child, show_output)
    try:
        outcome.exit_code = child.wait(seconds + _PATIENCE if seconds else None)
    except subprocess.TimeoutExpired:
        outcome.is_killed = True
        outcome.exit_code = _end(child, environment)
    except Terminated:
        _end(child, environment)
        raise
    except KeyboardInterrupt:
        outcome.exit_code = _ended(child, partial(child.send_signal, signal.SIGINT))
    outcome.output = reader.last_lines()


def _ended(child: subprocess.Popen[bytes], end: Callable[[], None]) -> int:
    """Let the child end and write its record, and end it if it does not: one that is on no terminal was not interrupted
    with dllint. Returns its exit code."""
    try:
        return child.wait(_PROMPT)
    except subprocess.TimeoutExpired:
        end()
        return child.wait()


def _end(child: subprocess.Popen[bytes], environment: dict[str, str]) -> int:
    """End the child, and what it has started. Returns its exit code."""
    child.terminate()
    code = _ended(child, child.kill)
    mark = f"DLLINT_CONFIRM={environment['DLLINT_CONFIRM']}".encode()
    for file in Path("/proc").glob("[0-9]*/environ"):  # where the system tells of them
        with suppress(OSError):
            if mark in file.read_bytes().split(b"\0"):
                os.kill(int(file.parent.name), signal.SIGKILL)
    return code


class _Reader:
    """Passes on what a child prints, in a thread of its own, and keeps its last lines."""

    def __init__(self, child: subprocess.Popen[bytes], is_shown: bool) -> None:
        self._child = child
        self._is_shown = is_shown
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._rest = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def last_lines(self) -> list[str]:
        """The last lines that are not empty, once the child has ended."""
        self._thread.join(_AFTERWARDS)
        lines = [line.decode(errors="replace").rstrip()[:_LONGEST] for line in (*self._lines, self._rest)]
        return [line for line in lines if line]

    def _read(self) -> None:
        assert self._child.stdout is not None
        source = self._child.stdout.fileno()
        while part := os.read(source, 65536):
            if self._is_shown:
                self._show(part)
            *lines, self._rest = (self._rest + part).split(b"\n")
            self._lines.extend(line.rstrip(b"\r").rpartition(b"\r")[2] for line in lines)  # the last state of a bar
            self._rest = self._rest.rpartition(b"\r")[2] or self._rest[-_LONGEST:]

    def _show(self, part: bytes) -> None:
        try:
            sys.stderr.flush()
            while part:
                part = part[os.write(sys.stderr.fileno(), part) :]
        except (AttributeError, OSError, ValueError):  # nobody reads it any more, or it has no descriptor
            self._is_shown = False
