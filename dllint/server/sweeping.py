"""All files of the workspace, open or not: checked as they are on disk, by a process of its own.

That process keeps results as the command line does, so that a second look at files that have not changed costs little,
and it runs with low priority: what is being typed comes first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from dllint.config.settings import Settings
from dllint.dataclass import dataclass
from dllint.files.discovery import find_files
from dllint.findings import Finding
from dllint.server.options import Options
from dllint.server.session import read_baseline
from dllint.server.workspace import Workspace

_DELAY = 0.3  # seconds to wait whether more files are saved

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """What to check: folders, with the settings of the client for all of them and for single ones."""

    folders: Sequence[Path]
    options: Options
    own: Mapping[Path, Options]


@dataclass(slots=True)
class Swept:
    """What was found in a file: what is new, and what the baseline knows."""

    findings: list[Finding] = field(default_factory=list)
    known: list[Finding] = field(default_factory=list)


class Sweeper:
    """Checks the files on disk whenever it is asked to, one check after the other.

    Args:
        order: says what there is to check.
        show: called with what was found, by path; files without findings are left out.
    """

    def __init__(self, order: Callable[[], Order], show: Callable[[Mapping[Path, Swept]], None]) -> None:
        self._order = order
        self._show = show
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = False

    def request(self) -> None:
        """Something has changed on disk: check everything, soon."""
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def settled(self) -> None:
        """Wait until everything has been checked."""
        if self._task is None:
            self.request()
        assert self._task is not None
        await asyncio.shield(self._task)

    def close(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._is_wanted:
            await asyncio.sleep(_DELAY)
            self._is_wanted = False
            found = await sweep(self._order())
            if found is not None:
                self._show(found)


async def sweep(order: Order) -> Mapping[Path, Swept] | None:
    """Check files in a process of its own. None if that process fails, of which the log then tells."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", f"from {__name__} import main; main()"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate(pickle.dumps(order))
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        _log.error("the check of the workspace failed: %s", errors.decode("utf-8", "replace"))
        return None
    found: Mapping[Path, Swept] = pickle.loads(output)
    return found


def main() -> None:
    """Be the process that checks: an order comes on standard input, what was found goes to standard output."""
    if hasattr(os, "nice"):
        os.nice(10)
    sys.stdout.buffer.write(pickle.dumps(check(pickle.load(sys.stdin.buffer))))


def check(order: Order) -> dict[Path, Swept]:
    """Check all files in some folders."""
    from dllint.runner import lint_files

    found: dict[Path, Swept] = {}
    for settings, files in _parts(order):
        findings = lint_files(files, settings, jobs=max(1, (os.cpu_count() or 1) // 2)).findings
        baseline = read_baseline(settings)
        new = {id(finding) for finding in (findings if baseline is None else baseline.split(findings)[0])}
        for finding in findings:
            swept = found.setdefault(Path(finding.location.path).absolute(), Swept())
            (swept.findings if id(finding) in new else swept.known).append(finding)
    return found


def _parts(order: Order) -> Iterable[tuple[Settings, list[Path]]]:
    """The files of each project."""
    workspace = Workspace()
    workspace.configure(order.folders, order.options, order.own)
    parts: dict[Path, tuple[Settings, list[Path]]] = {}
    for file in find_files(order.folders, exclude=(), root=Path.cwd()).files:
        session = workspace.session(file)
        if session is not None:
            parts.setdefault(session.settings.root, (session.settings, []))[1].append(file)
    return parts.values()
