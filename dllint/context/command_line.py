"""The options of a command line, and whether any code may read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from dllint.context.namespaces import Handed, expansions, handed_on, renames_all, taken_by_name, takers_named
from dllint.context.option_names import ALL, USUAL_NAMES, Names, files_meant, last_of, names_read, namespaces, root_of
from dllint.context.sources import Sources
from dllint.events import LibraryCall
from dllint.interp.source.bindings import Definition
from dllint.interp.source.imported import all_imported_as, imported_names, prefixes
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.only_parsing import PARSING, only_parses
from dllint.interp.source.passed_parsers import takes_parser
from dllint.interp.source.trees import walk
from dllint.interp.source.trials import is_main_guard
from dllint.sites import Module
from dllint.values import Const

_WRITING = frozenset(
    ("save", "dump", "dumps", "log", "info", "pprint", "pformat", "init", "deepcopy", "copy", "update")
)
_KEEPING = frozenset(("save", "dump", "dumps", "save_checkpoint", "save_model"))
_BY_TEXT = frozenset(("vars", "__dict__", "_get_kwargs", "getattr", "attrgetter", "asdict"))
_MAX_CALLS = 3  # from the parser to what reads the options
_MOST_FILES = 1000  # of a script, and of those that import it: more are a library, all of which may get the options
_MOST_IMPORTING = 40  # that get the options of one parser: more are a library, whose users are not seen
_LOADING = re.compile(r"\b(?:safe_|full_)?loads?\(|\bload_(?:args|config|hparams|hyperparams|params)|\bNamespace\(")
_IMPORTING = re.compile(
    r"\b(import_module|__import__|add_argparse_args|HfArgumentParser)\b|(?<![.\w])(exec|eval)\s*\("  # no `model.eval()`
)


_Read = Mapping[SourceModule, Names] | None


class CommandLine(Sources):
    """Options and their readers."""

    def is_option_read(self, name: str, where: Module) -> bool:
        """Whether some code may read an option of a command line, or gets hold of all of them.

        That is any file of the project, but for those that have an option of this name of their own and do not share
        the parser. What the script itself adds is read by what imports it, and by what these files import.

        Args:
            name: what the option is called in the namespace that the parser returns.
            where: the file in which the option is added.
        """
        if where is self.program.module:
            read = self._read_by_sharing(where)
            return (
                read is None
                or self._is_read_without_prefix(read, name)
                or any(names.have(name) and not self._reads_as_a_script(module, name) for module, names in read.items())
                or self._is_read_from_file(name, where)
            )
        sharing = self._sharing(where)
        read = self._read_anywhere if sharing is not None else None
        return (
            sharing is None
            or read is None
            or any(
                names.have(name) and (module in sharing or not has_its_own(module, name))
                for module, names in read.items()
            )
        )

    def _is_read_from_file(self, name: str, where: Module) -> bool:
        """Whether all options go into a file, and code that loads one reads what is called so, or looks that up."""
        names = {*USUAL_NAMES, *namespaces(where.tree)}
        saved = (call for call in nodes_of(where.tree).of(ast.Call) if last_of(call.func) in _KEEPING)
        given = (value for call in saved for value in (*call.args, *(each.value for each in call.keywords)))
        entries = (value for table in nodes_of(where.tree).of(ast.Dict) for value in table.values)
        if not any(last_of(each) in names for each in (*given, *entries)):
            return False
        looked_up = re.compile(rf"\.{re.escape(name)}\b|\[['\"]{re.escape(name)}['\"]")
        reading = self._machine.project.mentioning(looked_up, _LOADING)
        return any(each is not where and not _adds(each, name) for each in reading)

    def _is_read_without_prefix(self, read: Mapping[SourceModule, Names], name: str) -> bool:
        """Whether files that take a prefix off the names of all options have that of an option, and know the rest."""
        places = [place for place in range(1, len(name)) if name[place - 1] in "_."]
        rests = [name[place:] for place in places if any(name[:place] in each.texts for each in read.values())]
        return any(each.have(rest) for each in read.values() for rest in rests) and any(
            renames_all(module) for module in self._machine.project.reading_each(read)
        )

    def _reads_as_a_script(self, module: SourceModule, name: str) -> bool:
        """Whether a file has a name only where it is run itself, which it is not where the program imports it."""
        main = self.program.module
        if module is main or module not in self._files or main in self._machine.project.closure(module):
            return False
        with self._machine.project.reading(module):
            others = [each for each in module.tree.body if not is_main_guard(each)]
            if len(others) == len(module.tree.body):
                return False
            return re.search(rf"\b{re.escape(name)}\b", ast.unparse(ast.Module(others, []))) is None

    def has_reader(self, name: str, where: Module) -> bool:
        """Whether code that shares a parser reads an option of it, or gets hold of all of them.

        Such are the files that import the one of the parser, directly or not, and what these import. What is read
        elsewhere under the same name is another option, and a text is none where no options are looked up by texts.
        See `is_option_read` for the arguments.
        """
        read = self._read_by_sharing(where)
        if read is None or any(name in each.attributes or each.takes(name) for each in read.values()):
            return True
        return self._is_text_in(read, name)

    def _is_text_in(self, read: Mapping[SourceModule, Names], name: str) -> bool:
        """Whether files that look something up by texts have a name as a text."""
        is_asked_by_text = any(not _BY_TEXT.isdisjoint(module.words) for module in read)
        return is_asked_by_text and any(name in each.texts for each in read.values())

    def flag_of_option(self, event: LibraryCall) -> str:
        """The name of an option on the command line, the long one if there are two; empty for a positional argument.

        Args:
            event: a call of `add_argument`.
        """
        return _flag_of(event)

    def option_name(self, event: LibraryCall) -> str:
        """What an option is called in the namespace; empty for a positional argument, and where that is not known.

        Args:
            event: a call of `add_argument`.
        """
        return name_of_option(event)

    def is_only_parsed(self) -> bool:
        """Whether the file makes a parser, asks it, shows the answer, and nothing else, and no other file imports it.

        Its options are those of code that is not there, or not yet, or it is a trial.
        """
        main = self.program.module
        if not only_parses(main.tree):
            return False
        guarded = {id(node) for each in main.tree.body if is_main_guard(each) for node in walk(each)}
        asked = (call for name in PARSING for call in main.calls.get(name, ()))
        if all(id(call) in guarded for call in asked):
            return True  # whoever imports it does not ask
        named = self._machine.project.mentioning(re.compile(rf"\b{re.escape(main.file.stem)}\b"))
        return not any(main in self._machine.project.imported_by(module) for module in named)

    def default_of_option(self, name: str) -> object:
        """The default of an option of a command line of the project, where it is written as a constant; else `None`."""
        spelled = dict.fromkeys((name, name.replace("_", "-")))
        flags = [f"{dashes}{each}" for dashes in ("--", "-") for each in spelled]
        pattern = re.compile(rf"-({'|'.join(spelled)})\b")
        project = self._machine.project
        for module in project.reading_each((self._machine.main, *project.mentioning(pattern))):
            for call in module.calls.get("add_argument", ()):
                given = [each.value for each in call.args if isinstance(each, ast.Constant)]
                default = next((each.value for each in call.keywords if each.arg == "default"), None)
                if isinstance(default, ast.Constant) and any(flag in given for flag in flags):
                    return default.value
        return None

    @cached_property
    def _read_anywhere(self) -> _Read:
        project = self._machine.project
        return self._read_in([*project.closure(self.program.module), *project.mentioning()])

    def _read_by_sharing(self, where: Module) -> _Read:
        """What the files that may get the options of a parser read; ``None`` where unknown code may read all."""
        if where not in self._known_to_share:
            files = list(self._sharing(where) or ())
            is_library = not files or len(files) > _MOST_FILES
            found = None if is_library else self._read_in([*files, *self._meant_by_other_names(files)])
            self._known_to_share[where] = found
        return self._known_to_share[where]

    @cached_property
    def _known_to_share(self) -> dict[Module, _Read]:
        return {}

    def _sharing(self, where: Module) -> dict[SourceModule, None] | None:
        """The files that may get what a parser in some file returns: all that import the file, and what they import.

        What a script parses itself is not passed on by those that import it, unless they take its parser, or the class
        or function that has it. ``None`` where very many do.
        """
        project, main = self._machine.project, self.program.module
        importing = [where if isinstance(where, SourceModule) else main]
        passing = [*importing]
        for parser in passing:  # which grows meanwhile
            more = [each for each in self._importing(parser) if each not in importing]
            importing += more
            is_own = parser is main and where is main
            passing += [each for each in more if not is_own or self._takes_parser(each)]
            if where is not main and len(importing) > _MOST_IMPORTING:
                return None
        return dict.fromkeys(each for module in (main, *importing) for each in project.closure(module))

    def _takes_parser(self, module: SourceModule) -> bool:
        with self._machine.project.reading(module):
            return takes_parser(self._machine.project, module, self.program.module)

    def _importing(self, module: SourceModule) -> Iterator[SourceModule]:
        """The files that import a file of the project, whose name they have in them."""
        name = module.file.parent.name if module.is_package else module.file.stem
        named = self._machine.project.mentioning(re.compile(rf"\b{re.escape(name)}\b"))
        return (each for each in named if module in self._machine.project.imported_by(each))

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

    def _read_in(self, modules: list[SourceModule]) -> _Read:
        """What each of some files reads; ``None`` where unknown code may read all."""
        files, reading = self._with_those_meant(modules), self._machine.project.reading_each
        if files is None or any(self._may_read_all(module) for module in reading(files)):
            return None
        given = self._handed_in(files)
        if given is None:
            return None
        spread = frozenset(name for module in reading(files) for name in _spread_into(module))
        if not spread <= {each.function for each in given if each.place == ALL}:
            return None
        takers = [each for module in reading(files) for each in takers_named(module, spread)]
        closed = (ALL,) if not spread <= {name for name, _ in takers} or not all(more for _, more in takers) else ()
        read = {module: names_read(module, self._libraries(module)) for module in files}
        taken = {module: frozenset((*taken_by_name(module, given), *closed)) for module in files}
        return {module: names._replace(taken=taken[module]) for module, names in read.items()}

    def _with_those_meant(self, modules: list[SourceModule]) -> list[SourceModule] | None:
        """Some files, and those they import by names that they compute; ``None`` where these, or what is run, may be
        any, and where there are very many."""
        files = list(dict.fromkeys(modules))
        for module in files:  # which grows meanwhile
            if len(files) > _MOST_FILES:
                return None
            if module.contains(_IMPORTING):
                with self._machine.project.reading(module):
                    meant = files_meant(module, self._machine.project)
                if meant is None:
                    return None
                files += [each for each in meant if each not in files]
        return files

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

    def _takers_of_all(self, files: list[SourceModule]) -> list[str]:
        """The functions and classes that dicts of options are expanded into, by their names."""
        return sorted({each.function for each in self._handed_in(files) or () if each.place == ALL})

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
            if self._is_own(module, dotted):
                own[name] = dotted.rpartition(".")[2]
        return own

    def _libraries(self, module: SourceModule) -> frozenset[str]:
        """The names by which a file knows what is not of the project."""
        imported = imported_names(module.tree)
        return frozenset(name for name, dotted in imported.items() if not self._is_own(module, dotted))

    def _is_own(self, module: SourceModule, dotted: str) -> bool:
        """Whether what a file imports under a dotted name is of the project, also in a folder without `__init__.py`."""
        return any(self._machine.project.find(module, each) is not None for each in prefixes(dotted))

    def _may_read_all(self, module: SourceModule) -> bool:
        """Whether a file has lost statements, or passes all options to a library."""
        return module.parse_error is not None or self._hands_out(module)

    def _hands_out(self, module: SourceModule) -> bool:
        """Whether a file passes a namespace of options on to a library, or reads what a variable names."""
        return any(not self._is_own(module, taker) or self._is_lost(module, taker) for taker in _takers(module))

    def _is_lost(self, module: SourceModule, dotted: str) -> bool:
        """Whether a dotted name is of a package of the project, but of a part of it that is not there."""
        found = ((each, self._machine.project.find(module, each)) for each in prefixes(dotted))
        longest = max(((each, file) for each, file in found if file is not None), key=lambda pair: len(pair[0]))
        inside = dotted[len(longest[0]) + 1 :].split(".")
        if not longest[1].is_package or len(inside) < 2:
            return False
        with self._machine.project.glancing_at(longest[1]):
            return inside[0] not in longest[1].bindings.names


def has_its_own(module: SourceModule, name: str) -> bool:
    """Whether a file adds an option of some name itself, and reads no settings that others may have written."""
    return _adds(module, name) and not module.contains(_LOADING)


def _adds(module: SourceModule, name: str) -> bool:
    """Whether a file adds an option of some name."""
    given = (each for call in module.calls.get("add_argument", ()) for each in call.args)
    return name in {str(each.value).lstrip("-").replace("-", "_") for each in given if isinstance(each, ast.Constant)}


def _takers(module: SourceModule) -> frozenset[str]:
    """The imported objects that a file passes a namespace of options to; an empty name stands for anybody."""
    known: frozenset[str] | None = module.told.get(_takers)
    if known is None:
        known = module.told[_takers] = frozenset(_find_takers(module.tree))
    return known


def _find_takers(tree: ast.Module) -> Iterator[str]:
    names = {*USUAL_NAMES, *namespaces(tree)}
    imported = all_imported_as(tree)
    own = {each.name for each in tree.body if isinstance(each, Definition)}
    for node in nodes_of(tree).of(ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if _is_spread(node, names) and called not in own:
            yield from imported.get(called, ("",))
        if _names_an_attribute(node) and last_of(node.args[0]) in names:
            yield ""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if last_of(node.func) not in _WRITING and any(last_of(each) in names for each in given):
            yield from imported.get(root_of(node.func), ())


def _is_spread(call: ast.Call, names: set[str]) -> bool:
    """Whether a call gets a namespace of options as its keywords, as it was parsed: `main(**vars(args))`."""
    return any(each.arg is None and _is_dict_of(each.value, names) for each in call.keywords)


def _spread_into(module: SourceModule) -> Iterator[str]:
    """The functions and classes, of a file or imported, that get a namespace of options as their keywords in it."""
    names = {*USUAL_NAMES, *namespaces(module.tree)}
    known = {each.name for each in module.tree.body if isinstance(each, Definition)} | {*all_imported_as(module.tree)}
    for call in nodes_of(module.tree).of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in known and _is_spread(call, names):
            yield call.func.id


def _names_an_attribute(call: ast.Call) -> bool:
    """Whether a call is `getattr(object, name)`, with a name that is no constant."""
    return last_of(call.func) == "getattr" and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)


def _is_dict_of(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is `vars(args)`, `args.__dict__`, `args._get_kwargs()` or the namespace itself."""
    if isinstance(node, ast.Call):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return last_of(node.func) == "vars" or any(_is_dict_of(each, names) for each in (*owner, *node.args))
    is_dict = isinstance(node, ast.Attribute) and node.attr == "__dict__" and last_of(node.value) not in ("self", "cls")
    return is_dict or last_of(node) in names


def name_of_option(event: LibraryCall) -> str:
    """What an option is called in the namespace; empty for a positional argument, and where that is not known."""
    given = event.arguments.keywords.get("dest")
    name = given.value if isinstance(given, Const) else None
    if given is None:
        name = _flag_of(event).lstrip("-").replace("-", "_")
    return name if isinstance(name, str) else ""


def _flag_of(event: LibraryCall) -> str:
    texts = [each.value for each in event.arguments.positional[1:] if isinstance(each, Const)]
    flags = [text for text in texts if isinstance(text, str) and text.startswith("-")]
    long = [flag for flag in flags if flag.startswith("--")]
    return (long or flags)[0] if flags and len(flags) == len(texts) else ""
