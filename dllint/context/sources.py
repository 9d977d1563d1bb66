"""The source text and syntax trees of a program, for rules that must look at what is not interpreted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from dllint.context.base import ProgramView
from dllint.interp.project import UNPARSABLE, SourceModule
from dllint.sites import Site

Where = Literal["everywhere", "here", "related", "elsewhere"]


class Sources(ProgramView):
    """What stands in the files of a program."""

    def trees(self, word: str) -> Iterator[tuple[SourceModule, ast.Module]]:
        """The syntax trees of the program's file and of the files that it imports, as far as they contain a word."""
        for module in self._machine.project.closure(self.program.module):
            if word not in module.words:
                continue
            try:
                yield module, module.tree
            except UNPARSABLE:
                continue  # reported on its own

    def method_calls(self, name: str) -> Iterator[Site]:
        """All calls ``x.name(...)`` written in the program's file and in the project files that it imports."""
        for module, _ in self.trees(name):
            for node in module.method_calls.get(name, ()):
                yield Site(module, node)

    def project_mentions(self, *patterns: str, where: Where = "everywhere") -> bool:
        """Whether some file of the project contains all of the regular expressions. Slow: ask last.

        ``where`` restricts that to the program's own file and those that it imports (``here``), to these and others
        that belong to it (``related``: they stand in its folder or below, or import one of its files), or to these
        others (``elsewhere``).
        """
        compiled = [re.compile(pattern) for pattern in patterns]
        project, main = self._machine.project, self.program.module
        if where == "everywhere":
            return any(True for _ in project.mentioning(*compiled))
        own = project.closure(main)
        if where != "elsewhere" and any(all(m.contains(pattern) for pattern in compiled) for m in own):
            return True
        return where != "here" and any(
            module not in own
            and (main.file.parent in module.file.parents or any(m in own for m in project.imported_by(module)))
            for module in project.mentioning(*compiled)
        )
