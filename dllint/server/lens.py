"""What stands above a training loop: the optimizer, the schedule and the loss as dllint understands them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from dllint.api import (
    Block,
    Branch,
    Context,
    Finding,
    Invocation,
    Loop,
    LossCall,
    Node,
    OptimizerStep,
    Program,
    Rule,
    SchedulerStep,
    Value,
    walk,
)
from dllint.config.settings import Settings
from dllint.engine import Engine
from dllint.files.source import SourceFile
from dllint.findings import Location
from dllint.interp.source.facts import load_facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project
from dllint.interp.source.search_path import project_root


class TrainingLoop(Rule):
    """Describes the innermost loops in which an optimizer steps."""

    code = "DL000"
    name = "training-loop"
    category = "pedantic"
    severity = "info"
    triggers = (("step",),)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        """Look for the loops of one program."""
        seen: set[tuple[int, str]] = set()
        for loop in _loops(program.body):
            inner = any(_steps(other) for other in _loops(loop.body))
            if _steps(loop) and not inner and loop.site.module is program.module:
                text = _describe(loop, program, ctx)
                key = (loop.site.line, text)
                if key not in seen:
                    seen.add(key)
                    yield ctx.finding(self, loop.site, text)


def _loops(node: Node) -> Iterator[Loop]:
    """The loops below a node, and those in what is called there."""
    pending: list[Node] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Loop):
            yield current
            pending.append(current.body)
        elif isinstance(current, Branch):
            pending.extend(arm.body for arm in current.arms)
        elif isinstance(current, Block):
            pending.extend(current.items)
        elif isinstance(current, Invocation):
            pending.append(current.body)


def _steps(loop: Loop) -> list[OptimizerStep]:
    return [event for event in walk(loop.body) if isinstance(event, OptimizerStep)]


def _describe(loop: Loop, program: Program, ctx: Context) -> str:
    optimizers = [step.optimizer for step in _steps(loop)]
    schedulers = [event.scheduler for event in program.events() if isinstance(event, SchedulerStep)]
    losses = [event.loss.rpartition(".")[2] for event in walk(loop.body) if isinstance(event, LossCall)]
    parts = [
        f"optimizer: {_names(optimizers, ctx) or 'unknown'}",
        f"schedule: {_names(schedulers, ctx) or 'none'}",
        f"loss: {', '.join(dict.fromkeys(losses)) or 'unknown'}",
    ]
    return " · ".join(parts)


def _names(values: list[Value], ctx: Context) -> str:
    """The classes of some objects, each once."""
    names = [ctx.class_name(each) or ctx.name_of(each) for value in values for each in ctx.objects(value)]
    return ", ".join(dict.fromkeys(name for name in names if name))


def loops_of(
    source: SourceFile, settings: Settings, folder: Path, overlay: Mapping[Path, str]
) -> list[tuple[Location, str]]:
    """The training loops of a file, each with what is to stand above it.

    Args:
        source: the file.
        settings: the configuration of its project.
        folder: the workspace folder.
        overlay: the unsaved text of files.
    """
    engine = Engine(load_facts(settings.knowledge), [TrainingLoop], settings)
    project = Project(project_root(source.path, folder), overlay)
    best: dict[int, tuple[Location, str]] = {}
    for finding in engine.analyse(SourceModule(source, source.path.stem), project).findings:
        line = finding.location.line
        known = best.get(line)
        if finding.code == TrainingLoop.code and (known is None or _doubts(known[1]) > _doubts(finding.message)):
            best[line] = (finding.location, finding.message)
    return [best[line] for line in sorted(best)]


def _doubts(text: str) -> int:
    return text.count("unknown") + text.count("none")
