"""Who else reads the attributes of a class: code outside of it, and other classes of its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dllint.context.sources import Sources
from dllint.interp.source.attribute_readers import has_twin, is_read_outside
from dllint.interp.source.module import SourceModule
from dllint.values import Class


class Readers(Sources):
    """The readers of attributes, in all files of a project."""

    def is_read_outside(self, cls: Class, name: str) -> bool | None:
        """Whether code outside of a class and its ancestors reads an attribute of its objects. Slow: ask last.

        ``None`` where something of this name is read of what may be such an object, and may be of another class that
        has an attribute of the name, too.
        """
        lineage: list[Any] = [(each.module, each.node) for each in cls.lineage]
        return is_read_outside(self._machine.project, self._files_with(name), lineage, name)

    def has_twin(self, cls: Class, name: str) -> bool:
        """Whether a class in another file has the name of this one, and does use an attribute. Slow: ask last."""
        project = self._machine.project
        others = [module for module in self._files_with(name) if module.file != _file_of(cls)]
        return has_twin(project, others, cls.name, name)

    def _files_with(self, name: str) -> Sequence[SourceModule]:
        """The files that have a name: of the program, of the project, and notebooks."""
        project = self._machine.project
        own = [module for module, _ in self.trees(name)]
        others = project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))
        return list(dict.fromkeys((*own, *others, *project.notebooks_with(name))))


def _file_of(cls: Class) -> object:
    module: Any = cls.module
    return module.file
