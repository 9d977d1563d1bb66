"""The audit of one repository, in a process of its own: ``python -m dllint.cli.audit.one ORDER``.

Whatever a repository does to the process, it does it to no other; its memory goes when it ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Order = dict[str, Any]
Result = dict[str, Any]


def audit_apart(order: Order) -> Result:
    """Audit a repository in another process.

    Args:
        order: ``folder``; ``options``, those of ``dllint check`` by name; ``timeout``, seconds on the clock.

    Returns:
        ``status``: ``done``; ``missing`` if there is no such folder; ``failed`` or ``timeout``. If done, what
        :func:`audit` tells as well, else a ``message``.
    """
    if not os.path.isdir(order["folder"]):
        return {"status": "missing", "message": "no such folder"}
    command = [sys.executable, "-m", "dllint.cli.audit.one", json.dumps(order)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=order["timeout"], check=False)
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "message": f"not done within {order['timeout']:g} s"}
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return {"status": "failed", "message": last or f"the process ended with {done.returncode}"}
    return {"status": "done", **json.loads(done.stdout)}


def audit(order: Order) -> Result:
    """Audit a repository in this process, which is then of no other use.

    Returns:
        The ``files`` and ``lines`` that were looked at, the CPU ``seconds`` and largest resident size (``memory``, in
        bytes) that it took, the ``problems``, and the ``findings`` as ``--output-format json`` has them.
    """
    from dllint.cli.options import configuration
    from dllint.cli.project import find_project, lint, presented
    from dllint.report.record import records
    from dllint.report.sources import SourceCache

    os.chdir(order["folder"])
    project = find_project((".",), configuration(order["options"]))
    lint(project, jobs=1, cache=False)
    report = presented(project, {})
    return {
        "files": len(project.files),
        "lines": sum(map(_lines_of, project.files)),
        "problems": [problem.message for problem in report.problems],
        "findings": [record for record in records(report, SourceCache(None)) if record["code"] is not None],
        "seconds": round(time.process_time(), 3),
        "memory": _memory(),
    }


def _lines_of(file: Path) -> int:
    try:
        return file.read_bytes().count(b"\n")
    except OSError:
        return 0


def _memory() -> int | None:
    try:
        import resource
    except ImportError:  # on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    sys.stdout.write(json.dumps(audit(json.loads(sys.argv[1]))))
