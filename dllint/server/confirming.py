"""``dllint confirm`` in a process of its own, and its verdicts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from dllint.dataclass import dataclass
from dllint.errors import UserError
from dllint.findings import Finding

_FAILED = 2
_NOT_REACHED = "not reached"
_CRASHED = "the command failed"  # in the line that tells why
_PATIENCE = 5.0  # seconds for a run to end when it is asked to


class ConfirmError(UserError):
    """The run could not be made. The message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run says about a finding: the answer in lower case, and what was seen or why nothing was."""

    answer: str
    reason: str


async def confirm(script: Path, folder: Path, finding: Finding) -> Verdict:
    """Run a script under probes, until it has shown what there is to see of a finding.

    Args:
        script: what to run, as it is on disk.
        folder: where to run it.
        finding: what to settle.

    Raises:
        ConfirmError: the run failed before it showed anything.
    """
    with tempfile.TemporaryDirectory(prefix="dllint-") as scratch:
        file = Path(scratch, "evidence.json")
        command = [sys.executable, "-m", "dllint", "confirm", "--quiet", "--possible", "--only", finding.code]
        command += ["--json", str(file)]
        process = await asyncio.create_subprocess_exec(
            *command,
            str(script),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # so that the script can be ended with it
        )
        try:
            _, errors = await process.communicate()
        except asyncio.CancelledError:
            await asyncio.shield(_end(process))
            raise
        verdict = _verdict(json.loads(file.read_text("utf-8")), finding, folder) if file.is_file() else None
        if verdict is None or (process.returncode == _FAILED and verdict.answer == _NOT_REACHED):
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            told = next((line for line in lines if _CRASHED in line), lines[-1] if lines else "")
            raise ConfirmError("the run failed: " + (told or f"exit code {process.returncode}"))
        return verdict


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a run, and the script in it: as a key on a terminal does and, if that is not enough, by force."""
    for number, patience in ((signal.SIGINT, _PATIENCE), (getattr(signal, "SIGKILL", signal.SIGTERM), None)):
        if process.returncode is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, number)
            else:
                process.terminate()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), patience)


def _verdict(document: dict[str, Any], finding: Finding, folder: Path) -> Verdict:
    """The verdict on a finding in the evidence of a run."""
    wanted = (finding.code, os.path.abspath(finding.location.path), finding.location.line)
    for item in document["verdicts"]:
        if (item["rule"], os.path.abspath(folder / item["path"]), item["line"]) == wanted:
            return Verdict(item["verdict"].lower(), _because(item))
    return Verdict(_NOT_REACHED, "the run did not come to it")


def _because(item: dict[str, Any]) -> str:
    evidence = item.get("evidence") or {}
    seen = evidence.get("message") or evidence.get("summary") or item.get("reason") or ""
    premise = item.get("premise")
    return f"{seen} ({premise})" if premise else str(seen)
