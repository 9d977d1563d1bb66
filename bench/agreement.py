"""Compares what the interpreter predicts of scripts with what they do: ``python bench/agreement.py SCRIPT...``.

Each event of the vocabulary that a run tells has a name and a line. One that the interpreter does not predict is
``missed``. One that it predicts without a condition, and that does not happen though the script ends by itself, is
``invented``. Where they differ, one of the two is wrong.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

from dllint.confirm.evidence import Settings
from dllint.confirm.launch import run
from dllint.events import Event, ModelForward, name_of
from dllint.interp.run.entry import interpret
from dllint.interp.run.wiring import new_machine
from dllint.interp.source.facts import load_facts
from dllint.interp.source.project import Project
from dllint.structure import Program, walk
from dllint.values import Instance

TOLD = (
    "backward", "gradient_clip", "loss_call", "mode_change", "model_forward", "optimizer_created", "optimizer_step",
    "scaler_unscale", "scaler_update", "scheduler_step", "state_read", "state_restored", "state_saved", "state_taken",
    "zero_grad",
)  # fmt: skip
"""The events that a run tells."""

Key = tuple[str, str, int]  # the name of an event, and the file and the line that it happens at


@dataclass(slots=True)
class Agreement:
    """How the two streams of a script compare."""

    predicted: int = 0
    observed: int = 0
    missed: list[Key] = field(default_factory=list)
    invented: list[Key] = field(default_factory=list)


def compare(script: Path, *arguments: str) -> Agreement:
    """Interpret a script, run it to its end, and compare the events at its lines."""
    everything, certain = predicted(script)
    seen = observed(script, *arguments)
    return Agreement(len(everything), len(seen), sorted(seen - everything), sorted(certain - seen))


def predicted(script: Path) -> tuple[set[Key], set[Key]]:
    """The events that the interpreter knows of a script, and those without a condition where it is run as a script."""
    project = Project(script.parent)
    machine = new_machine(project, load_facts(), project.load(script))
    everything: set[Key] = set()
    certain: set[Key] = set()

    def visit(program: Program, concerned: object) -> None:
        for event in walk(program.body):
            key = (name_of(type(event)), str(Path(event.site.path).resolve()), event.site.line)
            if key[0] in TOLD:
                everything.add(key)
                if program.complete and not event.guards and _is_known(event):
                    certain.add(key)

    interpret(machine, visit)
    return everything, certain


def _is_known(event: Event) -> bool:
    """Whether what an event is about was resolved: else a call of anything may be one of a model."""
    return not isinstance(event, ModelForward) or isinstance(event.model, Instance)


def observed(script: Path, *arguments: str) -> set[Key]:
    """The events of a run, by the innermost line of the script."""
    settings = Settings("", steps=0, epoch_batches=0, mode="events")
    outcome = run([sys.executable, str(script), *arguments], settings, in_place=False, show_output=False)
    told = [event for record in outcome.records for event in record.told]
    return {
        (event.name, event.stack[0].path, event.stack[0].line) for event in told if event.stack and event.name in TOLD
    }


def main() -> int:
    """Compare each script, and tell the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="+", type=Path)
    for script in parser.parse_args().scripts:
        found = compare(script.resolve())
        print(f"{script}: {found.observed} observed, {found.predicted} predicted")
        for what, keys in (("missed", found.missed), ("invented", found.invented)):
            for name, path, line in keys:
                print(f"  {what} {name} at {Path(path).name}:{line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
