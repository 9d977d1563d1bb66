"""The options of a command line, and whether any code may read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from dllint.context.namespaces import Handed, expansions, handed_on, taken_by_name
from dllint.context.sources import Sources
from dllint.events import LibraryCall
from dllint.interp.source.bindings import Definition
from dllint.interp.source.imported import imported_names, prefixes
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk
from dllint.sites import Module
from dllint.values import Const

_PARSING = ("parse_args", "parse_known_args", "parse_intermixed_args")
_USUAL_NAMES = frozenset(("args", "opt", "opts", "hparams", "FLAGS"))
_WRITING = frozenset(
    ("save", "dump", "dumps", "log", "info", "pprint", "pformat", "init", "deepcopy", "copy", "update")
)
_DECLARING = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Pass)
_MAX_CALLS = 3  # from the parser to what reads the options
_MOST_FILES = 1000  # of a script, and of those that import it: more are a library, all of which may get the options
_WORD = re.compile(r"\w+")
_IMPORTING = re.compile(
    r"\b(import_module|__import__|add_argparse_args|HfArgumentParser)\b|(?<![.\w])(exec|eval)\s*\("  # no `model.eval()`
)


class CommandLine(Sources):
    """Options and their readers."""

    def is_option_read(self, name: str, where: Module) -> bool:
        """Whether some code may read an option of a command line, or gets hold of all of them.

        Args:
            name: what the option is called in the namespace that the parser returns.
            where: the file in which the option is added.
        """
        read = self._read_of_script if where is self.program.module else self._read_anywhere
        return read is None or name in read

    def flag_of_option(self, event: LibraryCall) -> str:
        """The name of an option on the command line, the long one if there are two; empty for a positional argument.

        Args:
            event: a call of `add_argument`.
        """
        texts = [each.value for each in event.arguments.positional[1:] if isinstance(each, Const)]
        flags = [text for text in texts if isinstance(text, str) and text.startswith("-")]
        long = [flag for flag in flags if flag.startswith("--")]
        return (long or flags)[0] if flags and len(flags) == len(texts) else ""

    def option_name(self, event: LibraryCall) -> str:
        """What an option is called in the namespace; empty for a positional argument, and where that is not known.

        Args:
            event: a call of `add_argument`.
        """
        given = event.arguments.keywords.get("dest")
        name = given.value if isinstance(given, Const) else None
        if given is None:
            name = self.flag_of_option(event).lstrip("-").replace("-", "_")
        return name if isinstance(name, str) else ""

    def is_only_parsed(self) -> bool:
        """Whether the file makes a parser and asks it, and nothing else, and no other file imports it.

        Its options are those of code that is not there, or not yet.
        """
        main = self.program.module
        if any(not isinstance(each, _DECLARING) and not _is_declaring_call(each) for each in main.tree.body):
            return False
        named = self._machine.project.mentioning(re.compile(rf"\b{re.escape(main.file.stem)}\b"))
        return not any(main in self._machine.project.imported_by(module) for module in named)

    def default_of_option(self, name: str) -> object:
        """The default of an option of a command line of the project, where it is written as a constant; else `None`."""
        flags = (f"--{name}", f"--{name.replace('_', '-')}")
        pattern = re.compile(rf"--({'|'.join(flag[2:] for flag in flags)})\b")
        for module in (self._machine.main, *self._machine.project.mentioning(pattern)):
            for call in module.calls.get("add_argument", ()):
                given = [each.value for each in call.args if isinstance(each, ast.Constant)]
                default = next((each.value for each in call.keywords if each.arg == "default"), None)
                if isinstance(default, ast.Constant) and any(flag in given for flag in flags):
                    return default.value
        return None

    @cached_property
    def _read_of_script(self) -> frozenset[str] | None:
        """What the files of a script and of those that import it read; ``None`` where unknown code may read all."""
        project, main = self._machine.project, self.program.module
        named = project.mentioning(re.compile(rf"\b{re.escape(main.file.stem)}\b"))
        importing = (module for module in named if main in project.imported_by(module))
        files = dict.fromkeys([*project.closure(main), *(each for one in importing for each in project.closure(one))])
        if len(files) > _MOST_FILES:
            return None
        return self._read_in([*files, *self._meant_by_other_names(list(files))])

    @cached_property
    def _read_anywhere(self) -> frozenset[str] | None:
        project = self._machine.project
        return self._read_in([*project.closure(self.program.module), *project.mentioning()])

    def _meant_by_other_names(self, modules: list[SourceModule]) -> Iterator[SourceModule]:
        """The files that imports may mean which lead nowhere: their package has another name where it is installed."""
        project = self._machine.project
        lost: set[str] = set()
        for module in modules:
            with project.glancing_at(module):
                imports = (*((*each, "") for each in module.top_imports), *module.top_names)
            for name, level, wanted in imports:
                if project.find(module, name, level) is None and (wanted or "." in name):
                    lost |= {name.rpartition(".")[2], wanted}
        found = (project.module(file) for file in project.files if file.stem in lost)
        yield from (module for module in found if module is not None)

    def _read_in(self, modules: list[SourceModule]) -> frozenset[str] | None:
        files = list(dict.fromkeys(modules))
        if len(files) > _MOST_FILES or any(self._may_read_all(module) for module in files):
            return None
        given = self._handed_in(files)
        if given is None:
            return None
        read = [_names_read(module, self._libraries(module)) for module in files]
        return frozenset().union(*read, *(taken_by_name(module, given) for module in files))

    def _handed_in(self, files: list[SourceModule]) -> frozenset[Handed] | None:
        """The dicts of options that functions of some files get, also by one another; ``None`` where others get one."""
        given: frozenset[Handed] = frozenset()
        for _ in range(_MAX_CALLS):
            expanded = {each for module in files for each in expansions(module, given, self._owns(module))}
            passed = {each for module in files for each in handed_on(module, given, self._owns(module))}
            more = frozenset(each for each in (*expanded, *passed) if each is not None)
            if None in expanded or more <= given:
                return None if None in expanded else given
            given |= more
        return given

    def _owns(self, module: SourceModule) -> Mapping[str, str]:
        """The names in a file for what the project defines, with what that is called where it is defined."""
        find, imported, nodes = self._machine.project.find, imported_names(module.tree), nodes_of(module.tree)
        nearby = (alias for each in nodes.of(ast.ImportFrom) if each.level for alias in each.names)
        own = {alias.asname or alias.name: alias.name for alias in nearby}
        whole = (alias for each in nodes.of(ast.Import) for alias in each.names)
        names = (each.asname or each.name.partition(".")[0] for each in whole if find(module, each.name) is not None)
        own |= {name: name for name in names}
        own |= {each.name: each.name for each in module.tree.body if isinstance(each, Definition)}
        for name, dotted in imported.items():
            if any(find(module, each) is not None for each in prefixes(dotted)):
                own[name] = dotted.rpartition(".")[2]
        return own

    def _libraries(self, module: SourceModule) -> frozenset[str]:
        """The names by which a file knows what is not of the project."""
        find = self._machine.project.find
        imported = imported_names(module.tree)
        return frozenset(name for name, dotted in imported.items() if find(module, dotted.partition(".")[0]) is None)

    def _may_read_all(self, module: SourceModule) -> bool:
        """Whether a file has lost statements, imports what nobody can follow, or passes all options to a library."""
        return module.parse_error is not None or module.contains(_IMPORTING) or self._hands_out(module)

    def _hands_out(self, module: SourceModule) -> bool:
        """Whether a file passes a namespace of options on to a library, or reads what a variable names."""
        takers = _takers(module)
        return "" in takers or any(self._machine.project.find(module, root) is None for root in takers)


def _takers(module: SourceModule) -> frozenset[str]:
    """The packages whose functions a file passes a namespace of options to; an empty name stands for anybody."""
    known: frozenset[str] | None = module.told.get(_takers)
    if known is None:
        known = module.told[_takers] = frozenset(_find_takers(module.tree))
    return known


def _find_takers(tree: ast.Module) -> Iterator[str]:
    names = {*_USUAL_NAMES, *_namespaces(tree)}
    imported = imported_names(tree)
    for node in nodes_of(tree).of(ast.Call):
        is_spread = any(keyword.arg is None and _is_dict_of(keyword.value, names) for keyword in node.keywords)
        if is_spread or (_names_an_attribute(node) and _last(node.args[0]) in names):
            yield ""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        root = imported.get(_root(node.func), "").partition(".")[0]
        if root and _last(node.func) not in _WRITING and any(_last(each) in names for each in given):
            yield root


def _is_declaring_call(statement: ast.stmt) -> bool:
    """Whether a statement is a text, or a call of a parser: `parser.add_argument(...)`."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Call):
        return _last(value.func) in ("add_argument", "set_defaults", *_PARSING)
    return isinstance(value, ast.Constant)


def _names_an_attribute(call: ast.Call) -> bool:
    """Whether a call is `getattr(object, name)`, with a name that is no constant."""
    return _last(call.func) == "getattr" and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)


def _namespaces(tree: ast.Module) -> Iterator[str]:
    """The names to which what a parser returns is assigned."""
    for node in nodes_of(tree).of(ast.Assign):
        if any(isinstance(inner, ast.Call) and _last(inner.func) in _PARSING for inner in walk(node.value)):
            for target in node.targets:
                yield from (_last(each) for each in walk(target) if isinstance(each, ast.Name | ast.Attribute))


def _names_read(module: SourceModule, libraries: frozenset[str]) -> frozenset[str]:
    known: tuple[frozenset[str], frozenset[str]] | None = module.derived.get(_names_read)
    if known is None or known[0] != libraries:
        known = module.derived[_names_read] = (libraries, frozenset(_find_names_read(module, libraries)))
    return known[1]


def _find_names_read(module: SourceModule, libraries: frozenset[str]) -> Iterator[str]:
    """The names that a file reads as attributes (`args.lr`) or has as texts (`getattr(args, "lr")`, `"{lr}"`).

    What is read of libraries (`torch.cuda.seed`) is none. Where all options are taken out of the namespace, parameters
    count as well: they may be handed on by name.
    """
    takes_all = "vars" in module.words or "__dict__" in module.words
    pending: list[ast.AST] = [module.tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Load) and _root(node) not in libraries:
                yield node.attr
        elif isinstance(node, ast.Constant):
            yield from _names_in(node.value) if isinstance(node.value, str) else ()
        elif isinstance(node, ast.keyword | ast.arg) and takes_all and node.arg:
            yield node.arg
        elif isinstance(node, ast.Call) and _last(node.func) == "add_argument":
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            pending.extend(each for each in given if not isinstance(each, ast.Constant))
            continue
        pending.extend(ast.iter_child_nodes(node))


def _names_in(text: str) -> list[str]:
    """The names in a text that is one name, or in which something is put at names."""
    if text.replace("-", "_").isidentifier():
        return [text.replace("-", "_")]
    return _WORD.findall(text) if "{" in text or "%(" in text or "args." in text else []


def _is_dict_of(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is `vars(args)`, `args.__dict__`, `args._get_kwargs()` or the namespace itself."""
    if isinstance(node, ast.Call):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return _last(node.func) == "vars" or any(_is_dict_of(each, names) for each in (*owner, *node.args))
    return _last(node) in names or _last(node) == "__dict__"


def _last(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
