"""Run a program and measure it: CPU seconds with those of its children, time on the clock, and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """One run. ``memory`` is the largest resident set, in bytes, of the program or any process it has started."""

    cpu: float
    wall: float
    memory: int
    exit_code: int
    output: str


def run(command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str]) -> Run:
    """Run a program to its end. Its standard error is not kept."""
    began = time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    wall = time.perf_counter() - began
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * unit, process.returncode, output)


def best(command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str], times: int) -> Run:
    """The run that took the least CPU time of several: what disturbs a run only ever makes it slower."""
    return min((run(command, cwd, environment) for _ in range(times)), key=lambda done: done.cpu)
