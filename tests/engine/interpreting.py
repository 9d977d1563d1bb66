"""What tests of the interpreter share: a small program, interpreted, with its events and the values of its names."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dllint.config.settings import Settings
from dllint.context import Context
from dllint.engine import Engine
from dllint.events import Event
from dllint.interp.run.entry import interpret
from dllint.interp.run.wiring import new_machine
from dllint.interp.source.facts import load_facts
from dllint.interp.source.project import Project
from dllint.structure import Program
from dllint.values import Value

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Interpreted:
    """The module ``main.py`` as it is run: the view that rules have of it, and its variables at the end."""

    context: Context
    variables: dict[str, Value]

    def all_of(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order."""
        return list(self.context.all_of(kind))


def run(folder: Path, source: str, **files: str) -> Interpreted:
    """Interpret ``main.py`` among other files of a project (``model="..."`` is ``model.py``)."""
    for name, text in {"main": source, **files}.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), "utf-8")
    return run_file(folder / "main.py")


def run_file(file: Path, unsaved: str | None = None, root: Path | None = None) -> Interpreted:
    """Interpret a file as it is run, among those beside it or in ``root``; ``unsaved`` is its text in an editor."""
    folder = root or file.parent
    project, facts = Project(folder, {} if unsaved is None else {file: unsaved}), load_facts()
    module = project.load(file)
    machine = new_machine(project, facts, module, None)
    programs: list[Program] = []
    interpret(machine, lambda program, _: programs.append(program))
    context = Engine(facts, [], Settings(folder, frozenset())).view(machine, programs[0])
    return Interpreted(context, dict(machine.module_scope(module).variables))
