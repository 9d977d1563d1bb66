"""The source text and syntax trees of a program, for rules that must look at what is not interpreted."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Literal, TypeVar

from dllint.config.versions import version_key
from dllint.context.base import ProgramView
from dllint.interp.source.imported import dotted_name, dotted_uses, imported_names, statements_for_their_value
from dllint.interp.source.positions import ancestors
from dllint.interp.source.project import UNPARSABLE, SourceModule
from dllint.interp.source.topics import Topic, speaks_of
from dllint.sites import Site
from dllint.values import Class

N = TypeVar("N", bound=ast.AST)
Where = Literal["everywhere", "here", "related", "elsewhere"]

_SAVING = re.compile(r"dict|save|state|check|snap|update|dump", re.IGNORECASE)


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

    def method_calls(self, name: str, receiver: str = "", about: Topic | None = None) -> Iterator[Site]:
        """All calls ``x.name(...)`` written in the program's file and in the project files that it imports.

        With ``receiver`` only those of it, as it is written (``self.model``); with ``about`` only those of something
        whose name speaks of a topic.
        """
        for module, _ in self.trees(name):
            for node in module.method_calls.get(name, ()):
                if not receiver and about is None:
                    yield Site(module, node)
                    continue
                text = receiver_of(node)
                if (not receiver or text == receiver) and (about is None or speaks_of(about, text)):
                    yield Site(module, node)

    def ancestors(self, site: Site, *types: type[N]) -> Iterator[N]:
        """The nodes of some types (statements, expressions, definitions) around a place, innermost first."""
        return (node for node in ancestors(site) if isinstance(node, types))

    def imports(self, *packages: str, where: Where = "here") -> bool:
        """Whether a file imports one of some packages, or something of them; for ``where`` see `project_mentions`."""
        names = "|".join(map(re.escape, packages))
        return self.project_mentions(rf"(?m)^[ \t]*(?:from|import)[ \t]+(?:{names})\b", where=where)

    def runs_before(self, package: str, version: str) -> bool:
        """Whether the project says that it also runs with releases of a package before a version.

        Where it says nothing, it is taken to run with a later one.
        """
        lowest = self.versions.get(package)
        return lowest is not None and version_key(lowest) < version_key(version)

    def may_run_with(self, package: str, version: str) -> bool:
        """Whether a project may run with a version of a package or a later one, by what it says it runs with.

        Where it says nothing, or gives no upper bound, it may.
        """
        limit = self.limits.get(package)
        return limit is None or version_key(limit) > version_key(version)

    def uses_of(self, names: Collection[str]) -> Iterator[tuple[Site, str]]:
        """Where the program's file imports, reads or calls objects of libraries that have one of some dotted names.

        ``np.Inf`` is ``numpy.Inf``; with a prefix such as ``torch.optim.`` among the names, all that is in it counts.
        Names that the file also binds otherwise, or imports only if that works, are left out.
        """
        module = self.program.module
        imported = imported_names(module.tree)
        for node, dotted in dotted_uses(module.tree, imported):
            if (dotted in names or f"{dotted.rpartition('.')[0]}." in names) and self._machine.project.find(
                module, dotted.partition(".")[0]
            ) is None:
                yield Site(module, node), dotted

    def discarded(self) -> Iterator[tuple[Site, str]]:
        """The calls and attributes of the program's file that stand as statements: nobody gets what they give.

        Each comes with its dotted name, if it is something that the file imports. What a
        cell of a notebook may show, and what is tried in a ``try``, is left out.
        """
        module = self.program.module
        imported = imported_names(module.tree)
        is_shown = module.source.notebook is not None
        shown = {id(each.value) for each in module.tree.body if is_shown and isinstance(each, ast.Expr)}
        for node in statements_for_their_value(module.tree):
            if id(node) not in shown:
                yield Site(module, node), dotted_name(node, imported)

    def callers(self, function: Site) -> list[Site]:
        """All calls in the project that may be of a function, by its name. Slow: ask last.

        Args:
            function: where the function is defined.
        """
        name = getattr(function.node, "name", "")
        if not name:
            return []
        own = [module for module, _ in self.trees(name)]
        others = self._machine.project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))
        modules = [*own, *(module for module in others if module not in own and _is_parsed(module))]
        return [Site(module, node) for module in modules for node in module.calls.get(name, ())]

    def mentions(self, *words: str, where: Where = "everywhere") -> bool:
        """Whether some file of the project contains all of some words; for ``where`` see `project_mentions`."""
        return self.project_mentions(*(rf"\b{word}\b" for word in words), where=where)

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

    def is_said_in(self, owner: Class, pattern: str) -> bool:
        """Whether a class of the project or one of its ancestors there has a regular expression in its text."""
        return any(re.search(pattern, _text_of(each.module, each.node)) for each in owner.lineage)

    def is_said_around(self, owner: Class, pattern: str) -> bool:
        """Whether a class of the project, or code that names it, has a regular expression in what is not seen here.

        What its users do with its objects counts, and its other methods do, but not other classes beside it. Slow: ask
        last.
        """
        wanted, name = re.compile(pattern), re.compile(rf"\b{re.escape(owner.name)}\b")
        frames = (frame for event in self.events for frame in event.frame.stack())
        seen = {frame.definition.node for frame in frames if frame.definition is not None}
        methods = ((each.module, item) for each in owner.lineage for item in each.node.body if item not in seen)
        if any(wanted.search(_text_of(module, method)) for module, method in methods):
            return True
        lineage = {ancestor.node for ancestor in owner.lineage}
        beside = (_text_of(owner.module, item) for item in owner.module.tree.body if item not in lineage)
        if any(name.search(text) and wanted.search(text) for text in beside):
            return True
        return any(module is not owner.module for module in self._machine.project.mentioning(name, wanted))

    def entries_beside(self, site: Site) -> list[ast.expr]:
        """The values of the dict that an expression is written in as one of them; none if it stands elsewhere."""
        nodes = site.module.entry_makers
        dicts = (node for node in nodes if isinstance(node, ast.Dict))
        return next((node.values for node in dicts if any(value is site.node for value in node.values)), [])

    def is_entry_written(self, key: str, *, everywhere: bool = False) -> bool:
        """Whether a dict in the program's files gets an entry of this name that is not a plain setting.

        With ``everywhere`` all files of the project are looked at.
        """
        project = self._machine.project
        files = project.mentioning(re.compile(rf"\b{re.escape(key)}\b")) if everywhere else iter(())
        modules = chain((module for module, _ in self.trees(key)), filter(_is_parsed, files))
        return any(_writes(node, key) for module in modules for node in module.entry_makers)


def receiver_of(call: ast.AST) -> str:
    """What a method is called on, as it is written: ``self.model`` in ``self.model.state_dict()``."""
    function = call.func if isinstance(call, ast.Call) else None
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""


def _text_of(module: SourceModule, node: ast.AST) -> str:
    return ast.get_source_segment(module.source.text, node) or ""


def _is_parsed(module: SourceModule) -> bool:
    try:
        return bool(module.tree)
    except UNPARSABLE:
        return False  # reported on its own


def _writes(node: ast.AST, key: str) -> bool:
    if isinstance(node, ast.Dict):
        entries = zip(node.keys, node.values, strict=True)
        return any(_is_text(name, key) and not isinstance(value, ast.Constant | ast.Dict) for name, value in entries)
    if isinstance(node, ast.Call):
        return any(each.arg == key for each in node.keywords) and bool(_SAVING.search(ast.unparse(node.func)))
    if isinstance(node, ast.ClassDef):
        fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
        return bool(_SAVING.search(node.name)) and any(isinstance(f, ast.Name) and f.id == key for f in fields)
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _is_text(node.slice, key)


def _is_text(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text
