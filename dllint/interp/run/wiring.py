"""A machine with all its operations: the one place that knows every module of this room."""

from __future__ import annotations

from dllint.interp.run.calls import call, call_method, invoke
from dllint.interp.run.evaluate import evaluate
from dllint.interp.run.execute import execute, execute_block
from dllint.interp.run.machine import Machine, Operations
from dllint.interp.sieve.relevance import Relevance
from dllint.interp.source.facts import Facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project

_OPERATIONS = Operations(evaluate, execute, execute_block, call, call_method, invoke)


def new_machine(project: Project, facts: Facts, main: SourceModule, relevance: Relevance | None = None) -> Machine:
    """A machine that interprets a module of a project; ``relevance`` tells it what may be left out."""
    return Machine(project, facts, main, relevance, _OPERATIONS)
