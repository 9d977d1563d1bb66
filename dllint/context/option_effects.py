"""Whether it makes a difference what an option of a command line is set to, or what a call returns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from dllint.context.command_line import CommandLine, has_its_own
from dllint.context.option_names import USUAL_NAMES, is_of_object, last_of, namespaces
from dllint.context.running import Running
from dllint.events import LibraryCall
from dllint.interp.run.argparse_calls import PARSE
from dllint.interp.source.effects import Effects, LostValue, definitions_around
from dllint.interp.source.left_out import LeftOut, left_out
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.only_parsing import PARSING
from dllint.sites import Module, Site
from dllint.values import Const, Instance, Items, Value

_TAKES_ALL = "from_argparse_args"
_EMPTY = frozenset(("[]", "()", "''"))


class OptionEffects(CommandLine, Running):
    """What comes of options, and of other values: whether anything but a log has them."""

    def has_effect(self, name: str, where: Module) -> bool:
        """Whether code that shares a parser does something with an option of it; in doubt, it does.

        An option has none if it is only printed, kept in variables and attributes that nobody reads, given to functions
        that do not look at it, or read in functions that nobody calls.

        Args:
            name: what the option is called in the namespace that the parser returns.
            where: the file in which the option is added.
        """
        return self.has_reader(name, where) and self._where_lost(name, where, self._may_get_to) is None

    def where_option_is_lost(self, name: str, where: Module) -> Sequence[LostValue]:
        """Where an option is lost that code reads: parameters that nothing uses, and attributes that nobody reads.

        Args:
            name: what the option is called in the namespace that the parser returns.
            where: the file in which the option is added.

        Returns:
            Nothing where something may come of it, where it is only shown, and where a function that gets it is not
            written yet.
        """
        lost = self._where_lost(name, where, lambda _: True) or ()
        return lost if all(each.is_meant for each in lost) else ()

    def where_option_is_left_out(self, name: str, where: Module) -> LeftOut | None:
        """Where a call leaves an option out which hands the others on and takes it, if nothing else comes of it.

        It is only written down with the others, or given where the same class is made of a checkpoint.

        Args:
            name: what the option is called in the namespace that the parser returns.
            where: the file in which the option is added.
        """
        read = self._read_by_sharing(where)
        if read is None or any(each.takes(name) for each in read.values()):
            return None
        reading = self._machine.project.reading_each
        own = [module for module in read if module is where or not has_its_own(module, name)]
        naming = list(reading(module for module in own if name in module.words))
        places = [(module, node) for module in naming for node in self._reads(module, name)]
        if len({id(module) for module, _ in places}) != 1 or any(_looks_up(module.tree, name) for module in naming):
            return None
        nodes = [node for _, node in places if isinstance(node, ast.Attribute)]
        return left_out(name, places[0][0], nodes, naming)

    def _where_lost(self, name: str, where: Module, may_run: Callable[[Site], bool]) -> Sequence[LostValue] | None:
        """Where an option is lost that some files read; ``None`` where something may come of it."""
        read = self._read_by_sharing(where)
        if read is None or self._is_text_in(read, name):
            return None
        modules = list(read)
        takers = self._takers_of_all(modules) if any(each.takes(name) for each in read.values()) else None
        reading = self._machine.project.reading_each
        if any(_takes_all(module) for module in reading(each for each in modules if _TAKES_ALL in each.words)):
            return None
        effects = Effects(modules, may_run)
        if takers is not None and effects.has_effect_as_parameter(takers, name):
            return None
        naming = reading(module for module in modules if name in module.words)
        is_used = any(effects.has_effect(module, node) for module in naming for node in self._reads(module, name))
        return None if is_used else effects.lost

    def is_only_shown(self, site: Site) -> bool:
        """Whether nothing comes of the value of an expression but that it is printed or logged; in doubt, more does.

        It may also be kept in variables and attributes that nobody reads. See `has_effect`, which asks it of options.

        Args:
            site: the expression.
        """
        files = self._sharing(site.module)
        if files is None or not isinstance(site.module, SourceModule) or any(each.parse_error for each in files):
            return False
        with self._machine.project.reading(site.module):
            return not Effects(list(files), lambda _: True).has_effect(site.module, site.node)

    def is_idle_option(self, event: LibraryCall) -> bool:
        """Whether a script parses an option, and nothing that shares the parser does anything with it but show it."""
        name = self.option_name(event)
        is_asked = any(True for parse in PARSING for _ in self.method_calls(parse))
        is_run = self.program.kind == "module"  # with all that adds options: also those of a part of the command line
        return (
            bool(name)
            and is_asked
            and (is_run or isinstance(event.arguments.positional[0], Instance))
            and (is_run or self.is_application(self.program.module))
            and not self.has_effect(name, event.site.module)
        )

    def is_read_nowhere(self, event: LibraryCall) -> bool:
        """Whether nothing comes of an option, or no file of the project has its name as an attribute or a text."""
        name = self.option_name(event)
        return self.is_idle_option(event) or not self.project_mentions(rf"\.{name}\b|['\"]{name}['\"]")

    def is_option_overwritten(self, event: LibraryCall) -> bool:
        """Whether code of the file gives an option a value of its own after the parsing: `opt.train = self.train`."""
        name = self.option_name(event)
        nodes = nodes_of(event.site.module.tree).attributes.get(name, ())
        return any(isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != "self" for node in nodes)

    def are_options_set_by_name(self, where: Module) -> bool:
        """Whether a file gives options values whose names it reads elsewhere: `setattr(args, key, value)`.

        Args:
            where: the file in which the options are added.
        """
        names = {*USUAL_NAMES, *namespaces(where.tree)}
        for call in nodes_of(where.tree).of(ast.Call):
            function = last_of(call.func)
            if function == "setattr" and len(call.args) == 3 and last_of(call.args[0]) in names:
                return True
            holder = call.func.value if isinstance(call.func, ast.Attribute) and function == "update" else None
            if isinstance(holder, ast.Attribute) and holder.attr == "__dict__" and last_of(holder.value) in names:
                return True
            if isinstance(holder, ast.Call) and last_of(holder.func) == "vars":
                return any(last_of(each) in names for each in holder.args)
        return False

    def has_no_command_line(self, where: Module) -> bool:
        """Whether all parsers of a file are only asked about an empty list or text: `parse_args(args=[])`.

        Where the program asks some of them, these count: a function may ask about what it is given, or else a list.

        Args:
            where: the file in which an option is added; where it asks no parser, all files of the program count.
        """
        every = [site for name in PARSING for site in self.method_calls(name)]
        calls = [site.node for site in every if site.module is where] or [site.node for site in every]
        asked = [each for each in self.all_of(LibraryCall) if each.name == PARSE and each.site.node in calls]
        if asked and all(len(each.arguments.positional) == 2 for each in asked):
            return all(_is_empty(each.arguments.positional[1]) for each in asked)
        given = [
            call.args[:1] or [each.value for each in call.keywords] for call in calls if isinstance(call, ast.Call)
        ]
        return bool(given) and all(len(each) == 1 and ast.unparse(each[0]) in _EMPTY for each in given)

    def _reads(self, module: SourceModule, name: str) -> Iterator[ast.AST]:
        """Where a file reads what may be an option: an attribute that objects of a class do not make up themselves.

        A library may hold the options that it was given: ``wandb.config.epochs``.
        """
        libraries = self._libraries(module)
        for node in nodes_of(module.tree).attributes.get(name, ()):
            is_held = _root(node) not in libraries or getattr(node.value, "attr", "") == "config"
            if isinstance(node.ctx, ast.Load) and is_held and not is_of_object(module, node):
                yield node

    def _may_get_to(self, site: Site) -> bool:
        """Whether some code that runs may call the function or class around a place, as far as names tell."""
        around = definitions_around(site)
        if not around:
            return True
        outer = around[-1]
        if not self._may_be_called(Site(site.module, outer)):
            return False
        return not isinstance(outer, ast.ClassDef) or len(around) == 1 or self._is_read(around[-2], outer)


def _looks_up(tree: ast.Module, name: str) -> bool:
    """Whether a file has a name as a text that is no key of a dict which is written out."""
    nodes = nodes_of(tree)
    keys = {id(key) for each in nodes.of(ast.Dict) for key in each.keys}
    return any(each.value == name and id(each) not in keys for each in nodes.of(ast.Constant))


def _is_empty(value: Value) -> bool:
    """Whether a value is an empty list or text."""
    if isinstance(value, Items):
        return value.exact and not value.items
    return isinstance(value, Const) and value.value == ""


def _takes_all(module: SourceModule) -> bool:
    return _TAKES_ALL in nodes_of(module.tree).attributes


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
