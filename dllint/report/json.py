"""``json``: one array with an object for each finding."""

from __future__ import annotations

import json

from dllint.findings import Report
from dllint.report.context import Context
from dllint.report.record import records


def render(report: Report, context: Context) -> str:
    """An array of the objects described in :mod:`dllint.report.record`; ``[]`` when nothing was found."""
    return json.dumps(records(report, context.sources), indent=2) + "\n"
