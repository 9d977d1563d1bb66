"""``jsonl``: one line with an object for each finding."""

from __future__ import annotations

import json

from dllint.findings import Report
from dllint.report.context import Context
from dllint.report.record import records


def render(report: Report, context: Context) -> str:
    """The objects described in :mod:`dllint.report.record`, one on each line; empty when nothing was found."""
    return "".join(json.dumps(record) + "\n" for record in records(report, context.sources))
