"""Starts the user's command with the probes attached, and collects what they found out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import dllint
from dllint.confirm.evidence import ATTACHED, RECORDS, Record, Settings, read_record
from dllint.errors import UserError

_INJECTED = Path(__file__).parent / "injected"
_QUIET = {"WANDB_MODE": "disabled", "COMET_MODE": "disabled", "NEPTUNE_MODE": "debug", "HF_HUB_DISABLE_TELEMETRY": "1"}
_PROMPT = 5.0  # seconds in which a script ends that was interrupted with dllint
_PATIENCE = 60.0  # seconds beyond its own limit after which the run is ended from outside


class RunError(UserError):
    """The command could not be run. The message says why."""


@dataclass(slots=True)
class Outcome:
    """What a run has left: the records of its processes, by rank, and the exit code of the command.

    ``reached`` is how far attaching to it came: to ``nothing``, to some ``python``, or to some ``torch``.
    """

    command: list[str]
    records: list[Record] = field(default_factory=list)
    exit_code: int = 0
    reached: Literal["nothing", "python", "torch"] = "torch"


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
    """
    folder = Path(tempfile.mkdtemp(prefix="dllint-confirm-"))
    try:
        records, scratch = folder / "records", files or folder / "files"
        records.mkdir()
        scratch.mkdir(exist_ok=True)
        settings = replace(settings, records=str(records), scratch="" if in_place else str(scratch))
        code = _wait(command, _environment(settings, in_place), settings.max_seconds, show_output)
        return Outcome(list(command), _records(records), code, _reached(records))
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


def _wait(command: Sequence[str], environment: dict[str, str], seconds: float, show_output: bool) -> int:
    """Start the command and wait for its end. Returns its exit code. Raises RunError."""
    output = sys.stderr.fileno() if show_output and _has_descriptor() else subprocess.DEVNULL
    try:
        child = subprocess.Popen(list(command), env=environment, stdout=output, stderr=output)
    except OSError as error:
        raise RunError(f"{command[0]} cannot be run: {error.strerror}") from error
    try:
        return child.wait(seconds + _PATIENCE if seconds else None)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
    except KeyboardInterrupt:
        return _interrupted(child)


def _interrupted(child: subprocess.Popen[bytes]) -> int:
    """Let the child end and write its record. On a terminal it has been interrupted as well; else it is now."""
    try:
        return child.wait(_PROMPT)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        return child.wait()


def _reached(records: Path) -> Literal["nothing", "python", "torch"]:
    if (records / ATTACHED["torch"]).exists():
        return "torch"
    return "python" if (records / ATTACHED["python"]).exists() else "nothing"


def _has_descriptor() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.fileno() >= 0
    except (OSError, ValueError):
        return False


def _records(folder: Path) -> list[Record]:
    records = [read_record(path) for path in folder.glob(RECORDS)]
    return sorted(records, key=lambda record: (record.rank, record.process))
