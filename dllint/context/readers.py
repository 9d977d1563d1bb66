"""Who else reads the attributes of a class: code outside of it, and other classes of its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from dllint.context.sources import Sources
from dllint.events import LoaderCreated
from dllint.interp.source.attribute_readers import has_twin, is_read_outside
from dllint.interp.source.left_out_data import counterparts, kept_attributes, methods_reading, unread_variable
from dllint.interp.source.module import SourceModule
from dllint.sites import Site
from dllint.values import Class, External, Instance

_PLAIN_BASES = frozenset(("LightningDataModule", "LightningModule", "Module", "object", "ABC"))  # that read no data


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

    def left_unread(self, event: LoaderCreated, purpose: str) -> Site | None:
        """Where the data for evaluation is made that stands beside the training data of a loader, and is never read.

        Of a loader that is given `train_set` it is the `val_set` of the same function or file, and of one that is given
        `self.train_set` that of the same object, if nothing but `len` and `print` gets it.

        Args:
            event: the loader that is made.
            purpose: what it is called, so that of data for validation and for the test the fitting one is looked at.
        """
        call, module = event.site.node, event.site.module
        if not isinstance(call, ast.Call) or not isinstance(module, SourceModule):
            return None
        named = next((each.value for each in call.keywords if each.arg == "dataset"), None)
        given = call.args[0] if call.args else named
        if isinstance(given, ast.Name):
            return unread_variable(given, module, purpose, self._machine.project)
        if not isinstance(given, ast.Attribute) or ast.unparse(given.value) != "self":
            return None
        owner = event.frame.receiver
        cls = owner.cls if isinstance(owner, Instance) else None
        return self._unread_attribute(given.attr, cls, purpose) if isinstance(cls, Class) else None

    def _unread_attribute(self, name: str, cls: Class, purpose: str) -> Site | None:
        bases = [base for each in cls.lineage for base in each.possible_bases if not isinstance(base, Class)]
        is_plain = all(isinstance(base, External) and base.name.rpartition(".")[2] in _PLAIN_BASES for base in bases)
        nodes = [each.node for each in cls.lineage]
        if not is_plain or "train_dataloader" not in methods_reading(name, nodes):
            return None
        kept = kept_attributes(nodes)
        unread = (each for each in counterparts(name, kept, purpose) if self.is_read_outside(cls, each) is False)
        return next((_place(cls, kept[each]) for each in unread), None)

    def _files_with(self, name: str) -> Sequence[SourceModule]:
        """The files that have a name: of the program, of the project, and notebooks."""
        project = self._machine.project
        own = [module for module, _ in self.trees(name)]
        others = project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))
        return list(dict.fromkeys((*own, *others, *project.notebooks_with(name))))


def _file_of(cls: Class) -> object:
    module: Any = cls.module
    return module.file


def _place(cls: Class, node: ast.Attribute) -> Site:
    """The place of a node in the file of whichever class of a lineage it stands in."""
    owner = next(each for each in cls.lineage if any(inner is node for inner in ast.walk(each.node)))
    return Site(owner.module, node)
