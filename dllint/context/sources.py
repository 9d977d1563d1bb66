"""The source text and syntax trees of a program, for rules that must look at what is not interpreted."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, TypeVar

from dllint.context.base import ProgramView
from dllint.interp.source.imported import dotted_name, dotted_uses, imported_names, statements_for_their_value
from dllint.interp.source.imported_modules import calls_of, is_imported
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.patterns import Pattern
from dllint.interp.source.positions import ancestors, enclosing_definition, is_never_reached
from dllint.interp.source.returned import methods_of_returned
from dllint.interp.source.tensor_names import is_used_as_tensor
from dllint.interp.source.topics import Topic, speaks_of
from dllint.interp.source.trials import defines_only, is_tried_out
from dllint.sites import Site
from dllint.values import Class

N = TypeVar("N", bound=ast.AST)
Where = Literal["everywhere", "here", "imported", "related", "elsewhere"]

_MAIN_GUARD = re.compile(r"""__name__\s*==\s*['"]__main__""")
_BGR = r"cv2|(?i:bgr|caffe)|::\s*-1\]|imageio|\[2, ?1, ?0\]"
_WRAPS = r"DataParallel\(|\bDDP\(|torch\.compile\("
STRIPPING = {  # "module." + key puts it on, and so does what is done where not key.startswith("module.")
    "module.": (
        r"['\"]module|\[7:\]|consume_prefix_in_state_dict_if_present",  # fast, and found wherever the next one is
        r"(?m)(?<!startswith\()['\"]module\.['\"](?!\s*\+)|^(?!.*\bnot\b).*\bstartswith\(['\"]module|\[7:\]"
        r"|consume_prefix_in_state_dict_if_present",
    ),
    "_orig_mod.": (r"_orig_mod",),
}
_FOR_TOOLS = frozenset(("setup.py", "conftest.py", "conf.py", "noxfile.py", "tasks.py", "versioneer.py"))
_SAVING = re.compile(r"dict|save|state|check|snap|update|dump", re.IGNORECASE)


class Sources(ProgramView):
    """What stands in the files of a program."""

    def trees(self, word: str) -> Iterator[tuple[SourceModule, ast.Module]]:
        """The syntax trees of the program's file and of the files that it imports, as far as they contain a word.

        Look at each before you ask for the next: of very many files not all are kept.
        """
        return self._trees(module for module in self._files if word in module.words)

    def functions(self, name: str, word: str) -> Iterator[ast.FunctionDef]:
        """The functions of a name at the top of the program's file and of those that it imports that contain a word."""
        defined = re.compile(rf"(?m)^def[ \t]+{re.escape(name)}\b")  # a text that does not have it is not parsed
        modules = (module for module in self._files if word in module.words and name in module.words)
        for _, tree in self._trees(module for module in modules if module.contains(defined)):
            yield from (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)

    @property
    def _files(self) -> Sequence[SourceModule]:
        return self._machine.project.closure(self.program.module)

    def _trees(self, modules: Iterable[SourceModule]) -> Iterator[tuple[SourceModule, ast.Module]]:
        return ((module, module.tree) for module in self._machine.project.reading_each(modules))

    def method_calls(
        self, name: str, receiver: str = "", about: Topic | None = None, *, of: str = "", everywhere: bool = False
    ) -> Iterator[Site]:
        """All calls ``x.name(...)`` written in the program's file and in the project files that it imports.

        With ``receiver`` only those of it, as it is written (``self.model``); with ``of`` those of what has this name
        or attribute, of whatever object; with ``about`` only those of something whose name speaks of a topic; with
        ``everywhere`` those in all files of the project. That is slow: ask last.
        """
        owner = rf"\b{re.escape(of)}\b[\s)]*" if of else ""
        called = re.compile(rf"{owner}\.\s*{re.escape(name)}\s*\(")  # a text that does not have it is not parsed
        project = self._machine.project
        own = [module for module in project.closure(self.program.module) if module.contains(called)]
        found = project.mentioning(called) if everywhere else ()
        for module, _ in self._trees(dict.fromkeys((*own, *found))):
            for node in module.method_calls.get(name, ()):
                if not receiver and about is None and not of:
                    yield Site(module, node)
                    continue
                text = receiver_of(node)
                is_of = not of or text.rpartition(".")[2] == of
                if is_of and (not receiver or text == receiver) and (about is None or speaks_of(about, text)):
                    yield Site(module, node)

    def ancestors(self, site: Site, *types: type[N]) -> Iterator[N]:
        """The nodes of some types (statements, expressions, definitions) around a place, innermost first."""
        return (node for node in ancestors(site) if isinstance(node, types))

    def is_caught(self, site: Site, error: str) -> bool:
        """Whether a ``try`` around a place catches an error that is raised there, by its name or with all others."""
        around = [site.node, *self.ancestors(site, ast.AST)]
        return any(
            handler.type is None
            or not {error, "Exception", "BaseException"}.isdisjoint(ast.unparse(handler.type).strip("()").split(", "))
            for node in self.ancestors(site, ast.Try)
            if any(statement in around for statement in node.body)
            for handler in node.handlers
        )

    def is_retried(self, site: Site) -> bool:
        """Whether the call at a place belongs to a ``try`` that makes it twice: in its body, and where that fails."""
        call = site.node
        if not isinstance(call, ast.Call):
            return False
        name = ast.unparse(call.func)
        for node in self.ancestors(site, ast.Try):
            tried, again = _calls_in(node.body, name), _calls_in(node.handlers, name)
            if tried and again and any(each is call for each in tried + again):
                return True
        return False

    def imports(self, *packages: str, where: Where = "here") -> bool:
        """Whether a file imports one of some packages, or something of them; for ``where`` see `project_mentions`."""
        names = "|".join(map(re.escape, packages))
        return self.project_mentions(rf"(?m)^[ \t]*(?:from|import)[ \t]+(?:{names})\b", where=where)

    def uses_of(self, names: Collection[str]) -> Iterator[tuple[Site, str]]:
        """Where the program's file imports, reads or calls objects of libraries that have one of some dotted names.

        ``np.Inf`` is ``numpy.Inf``; with a prefix such as ``torch.optim.`` among the names, all that is in it counts.
        Names that the file also binds otherwise, or imports only if that works, are left out, and so is what stands
        after a `return`.
        """
        module = self.program.module
        for node, dotted in dotted_uses(module.tree):
            if (dotted in names or f"{dotted.rpartition('.')[0]}." in names) and self._machine.project.find(
                module, dotted.partition(".")[0]
            ) is None:
                site = Site(module, node)
                if not is_never_reached(site):
                    yield site, dotted

    def methods_of_returned(self) -> Iterator[tuple[Site, str]]:
        """Where the program's file calls a method of what a library call returned, by a dotted name.

        `pandas.DataFrame().append` is one, whether a variable holds the table or not. What runs only if it works is
        left out, as by `uses_of`.
        """
        module = self.program.module
        for call, name in methods_of_returned(module, self.facts.returned):
            if not is_never_reached(Site(module, call)):
                yield Site(module, call), name

    def classes_of_libraries(self, names: Collection[str]) -> Iterator[tuple[Site, str]]:
        """The classes of the program's file with one of some classes of libraries as a base, with its dotted name."""
        module, known = self.program.module, {self.facts.canonical(name): name for name in names}
        imported = imported_names(module.tree)
        for definition in nodes_of(module.tree).of(ast.ClassDef):
            bases = (self._dotted(base, imported) for base in definition.bases)
            yield from ((Site(module, definition), known[base]) for base in bases if base in known)

    def _dotted(self, node: ast.expr, imported: Mapping[str, str]) -> str:
        """The canonical name of something of a library that an expression names, or nothing."""
        if isinstance(node, ast.Name):
            return self.facts.canonical(imported.get(node.id, ""))
        return self.facts.canonical(dotted_name(node, imported)) if isinstance(node, ast.Attribute) else ""

    def discarded(self) -> Iterator[tuple[Site, str]]:
        """The calls and attributes of the program's file that stand as statements: nobody gets what they give.

        Each comes with its dotted name, if it is something that the file imports. What a cell of a notebook may show,
        or of a script that is run cell by cell, and what is tried in a ``try``, is left out.
        """
        module = self.program.module
        imported = imported_names(module.tree)
        is_shown = module.source.has_cells
        shown = {id(each.value) for each in module.tree.body if is_shown and isinstance(each, ast.Expr)}
        for node in statements_for_their_value(module.tree):
            if id(node) not in shown:
                yield Site(module, node), dotted_name(node, imported)

    def is_used_as_tensor(self, name: str, site: Site) -> bool:
        """Whether the function around a place computes with a variable, and does nothing that no tensor can do."""
        module: Any = site.module
        return is_used_as_tensor(name, enclosing_definition(site) or module.tree)

    def callers(self, function: Site) -> list[Site]:
        """All calls in the project, its notebooks too, of what may be a function, by its name or alias. Ask last: slow.

        Args:
            function: where the function is defined.
        """
        name = getattr(function.node, "name", "")
        if not name:
            return []
        own = [module for module in self._files if name in module.words]
        others = self._machine.project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))
        notebooks = self._machine.project.notebooks_with(name)
        return [*calls_of(name, self._trees(dict.fromkeys((*own, *others, *notebooks))))]

    def is_application(self, module: SourceModule) -> bool:
        """Whether the project has scripts, so that the callers of what a file defines are in it.

        Of a tree that is but a part of a project, callers may be elsewhere, unless the file is a script itself.
        """
        project = self._machine.project
        if not project.is_whole_around(module):
            return module.calls_its_own or (module.contains(_MAIN_GUARD) and not is_tried_out(module))
        guarded = project.reading_each(project.mentioning(_MAIN_GUARD))
        if module.is_script or any(self._importers(module)) or any(not is_tried_out(each) for each in guarded):
            return True
        near = (each for each in project.mentioning() if each.folder in (module.folder, project.root))
        return any(self._is_flat_script(each) for each in project.reading_each(near) if each is not module)

    def _is_flat_script(self, module: SourceModule) -> bool:
        """Whether a file that nobody imports does something at its top: a script without main guard."""
        is_for_tools = module.file.name in _FOR_TOOLS or module.is_package
        return not (is_for_tools or not module.has_tree or defines_only(module) or any(self._importers(module)))

    def _importers(self, module: SourceModule) -> Iterator[SourceModule]:
        """The files that import another one, but for packages, which only pass names on."""
        project = self._machine.project
        users = (m for m in project.mentioning() if not m.is_package and module in project.imported_by(m))
        return (user for user in users if is_imported(project, user, module))

    def path_in_project(self) -> str:
        """The path of the program's file from the root of its project, which says nothing of where that lies."""
        file, root = self.program.module.file, self._machine.project.root
        path = file.relative_to(root) if file.is_relative_to(root) else file
        return str(path.as_posix())

    def mentions(self, *words: str, where: Where = "everywhere") -> bool:
        """Whether some file of the project contains all of some words; for ``where`` see `project_mentions`."""
        return self.project_mentions(*(rf"\b{word}\b" for word in words), where=where)

    @property
    def sees_whole_project(self) -> bool:
        """Whether the project is here as a whole: where there are modules alone, others may be elsewhere."""
        return self._machine.project.is_whole_around(self.program.module)

    def project_mentions(self, *patterns: str, where: Where = "everywhere") -> bool:
        """Whether some file of the project contains all of the regular expressions. Slow: ask last.

        ``where`` restricts that to the program's own file and those that it imports (``here``, or without its own
        ``imported``), to these and others
        that belong to it (``related``: they stand in its folder or below, or import one of its files), or to these
        others (``elsewhere``).
        """
        compiled = [re.compile(pattern) for pattern in patterns]
        project, main = self._machine.project, self.program.module
        if where == "everywhere":
            is_in_own = all(main.contains(pattern) for pattern in compiled)  # which may be a notebook
            return is_in_own or any(True for _ in project.mentioning(*compiled))
        own = set(project.closure(main))
        if where == "imported":
            return any(all(m.contains(pattern) for pattern in compiled) for m in own if m is not main)
        if where != "elsewhere" and any(all(m.contains(pattern) for pattern in compiled) for m in own):
            return True
        return where != "here" and any(True for _ in self._related(*compiled))

    def _related(self, *patterns: Pattern) -> Iterator[SourceModule]:
        """The files that belong to the program, other than its own, that contain all of the patterns."""
        project, main = self._machine.project, self.program.module
        own = set(project.closure(main))
        for module in project.mentioning(*patterns):
            is_below = main.file.parent in module.file.parents
            if module not in own and (is_below or any(m in own for m in project.imported_by(module))):
                yield module

    def is_said_in(self, owner: Class, pattern: str) -> bool:
        """Whether a class of the project or one of its ancestors there has a regular expression in its text."""
        return any(re.search(pattern, each.module.text_of(each.node)) for each in owner.lineage)

    def code_around(self, owner: Class) -> Iterator[ast.AST]:
        """All nodes of the code of a class, or of code that names it, that is not seen here.

        What its users do with its objects counts, and its other methods do, but not other classes beside it. Slow: ask
        last.
        """
        frames = (frame for event in self.events for frame in event.frame.stack())
        seen = {frame.definition.node for frame in frames if frame.definition is not None}
        for ancestor in owner.lineage:
            for item in ancestor.node.body:
                if item not in seen:
                    yield from ast.walk(item)
        lineage = {ancestor.node for ancestor in owner.lineage}
        for item in owner.module.tree.body:
            if item not in lineage and owner.name in owner.module.words_in(item):
                yield from ast.walk(item)
        for module, tree in self._trees(self._machine.project.mentioning(re.compile(rf"\b{re.escape(owner.name)}\b"))):
            if module is not owner.module and not _defines_class(tree, owner.name):
                yield from ast.walk(tree)

    def comments_in(self, site: Site) -> list[str]:
        """The comments in the lines of a node; to a block belong those at its end that are indented like it.

        So do lines that begin with the sign, and are indented after it: editors comment them out so.
        """
        node: Any = site.node
        if not hasattr(node, "lineno"):
            return list(site.module.comments.values())
        lines = site.module.source.text.split("\n")
        last = node.end_lineno
        if isinstance(node, ast.stmt):
            inside = " " * (node.col_offset + 1)
            while last < len(lines) and (not lines[last].strip() or _is_comment(lines[last], inside)):
                last += 1
        return [text for line, text in site.module.comments.items() if node.lineno <= line <= last]

    def comments_at(self, site: Site) -> list[str]:
        """The comments in the first line of a node, and in the one above it."""
        comments = site.module.comments
        return [comments[line] for line in (site.line - 1, site.line) if line in comments]

    def lines_at(self, site: Site) -> list[str]:
        """The lines in which a node stands, and the one above them, with all that they say in comments and texts."""
        last = getattr(site.node, "end_lineno", site.line)
        return site.module.source.text.split("\n")[max(0, site.line - 2) : last]

    def takes_off(self, prefix: str, where: Where) -> bool:
        """Whether code of the project takes a prefix, ``module.`` or ``_orig_mod.``, off the keys of a state dict.

        With ``related``, so does what another script imports for this that imports files of the program as well.
        """
        is_near = self.project_mentions(*STRIPPING[prefix], where=where)
        if is_near or where != "related":
            return is_near
        project = self._machine.project
        own = set(project.closure(self.program.module))
        stripping = project.mentioning(*map(re.compile, STRIPPING[prefix]))
        users = (user for each in stripping for user in self._importers(each))
        return any(each in own and not each.is_package for user in users for each in project.imported_by(user))

    def wraps_and_loads(self, where: Where) -> bool:
        """Whether a script of the project wraps a model, for several devices or to compile it, and loads into one.

        What the program imports counts as elsewhere.
        """
        patterns = (_WRAPS, r"\.load_state_dict\(")
        main = self.program.module
        imported = self._machine.project.closure(main) if where == "elsewhere" else []
        return self.project_mentions(*patterns, where=where) or any(
            all(module.contains(re.compile(pattern)) for pattern in patterns)
            for module in imported
            if module is not main
        )

    def may_read_bgr(self) -> bool:
        """Whether code of the project speaks of images whose channels are in the order blue, green, red."""
        return self.project_mentions(_BGR) or self.project_mentions(_BGR, where="here")

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
        modules = chain(self.trees(key), self._trees(files))
        return any(_writes(node, key) for module, _ in modules for node in module.entry_makers)


def _calls_in(nodes: Sequence[ast.AST], name: str) -> list[ast.Call]:
    """The calls of a function in some statements, by how it is written."""
    found = (node for statement in nodes for node in ast.walk(statement) if isinstance(node, ast.Call))
    return [node for node in found if ast.unparse(node.func) == name]


def receiver_of(call: ast.AST) -> str:
    """What a method is called on, as it is written: ``self.model`` in ``self.model.state_dict()``."""
    function = call.func if isinstance(call, ast.Call) else None
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""


def _is_comment(line: str, inside: str) -> bool:
    return line.lstrip().startswith("#") and line.expandtabs().startswith((inside, f"#{inside}"))


def _defines_class(tree: ast.Module, name: str) -> bool:
    """Whether a file has a class of its own of some name, and so means that one."""
    return any(isinstance(item, ast.ClassDef) and item.name == name for item in tree.body)


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
