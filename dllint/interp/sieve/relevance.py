"""What is worth interpreting: definitions in which, with all they call, some rule could fire.

A rule's triggers are words without which it cannot fire. The first alternatives of its triggers must stand near the
place that is reported: in the definition itself, or in functions and classes of the same file that it names. Models do
not count for those who merely build them, unless they compute losses; they are looked at on their own.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from dllint.interp.sieve.word_graph import called_on_self
from dllint.interp.source.unbound_names import lack_names

if TYPE_CHECKING:
    from dllint.interp.sieve.word_graph import WordGraph
    from dllint.interp.source.facts import Facts
    from dllint.interp.source.module import SourceModule
    from dllint.rule import Triggers
    from dllint.values import Class, Function

Concerned = frozenset[int]
"""Rules, by their place in the list that a :class:`Relevance` was made for."""

_DEEPEST = 8  # lineage that is followed
_SHORT = 8  # functions of so few lines, but for a docstring, are always interpreted: they often pass something on
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


class Relevance:
    """Answers for one module and a list of rules which of them a definition, a method or a call could concern.

    ``triggers`` are those of the rules, none of them empty. ``of_files`` are the rules that no definition concerns:
    those that look at files as a whole.
    """

    def __init__(
        self,
        graph: WordGraph,
        facts: Facts,
        module: SourceModule,
        triggers: Sequence[Triggers],
        of_files: Collection[int] = (),
    ) -> None:
        self._graph = graph
        self._module = module
        self._loss_words = facts.loss_words
        self._losses = graph.mask(facts.loss_words)
        masks = [[graph.mask(words) for words in trigger] for trigger in triggers]
        self._masks = [(index, trigger) for index, trigger in enumerate(masks) if index not in of_files]
        self._effects = graph.mask(facts.vocabulary | EVENT_WORDS)
        for mask in chain.from_iterable(masks):
            self._effects |= mask
        self._effects &= ~graph.mask(_NUMBERS)
        self._imports: dict[str, list[ast.Import | ast.ImportFrom]] = {}
        self._definitions: dict[str, list[ast.stmt]] = {}
        for name, statements in module.bindings.names.items():
            for statement in statements:
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    self._imports.setdefault(name, []).append(statement)
                elif self._is_named_for_itself(statement):
                    self._definitions.setdefault(name, []).append(statement)
        self._of_imports: dict[str, int] = {}
        self._here: dict[ast.stmt, int] = {}

    def to_definition(self, definition: ast.stmt, reached: Collection[ast.AST]) -> Concerned:
        """The rules that could fire when a top-level definition is interpreted on its own.

        What was ``reached`` before has been seen, with better arguments than this definition could pass on.
        """
        here = self._words_here(definition, {}, reached)
        if isinstance(definition, ast.ClassDef):
            here |= self._words_of_bases(self._module, definition)
            methods = {item.name for item in definition.body if isinstance(item, _FUNCTION)}
            if self._is_driven(self._module, definition, methods):
                here |= self._graph.closure(self._module, definition.name)
        if not any(here & trigger[0] for _, trigger in self._masks):
            return frozenset()
        return self._may_fire(here, self._graph.closure(self._module, getattr(definition, "name", "")))

    def to_nested(self, function: ast.stmt) -> Concerned:
        """The rules that could fire when a function within a function, which nobody called, is interpreted."""
        here = self._words_here(function, {})
        return frozenset(index for index, trigger in self._masks if here & trigger[0])

    def to_method(self, cls: ast.ClassDef, method: ast.stmt) -> Concerned:
        """The rules that could fire when a method is interpreted on its own, on an object just made."""
        methods = {item.name: item for item in cls.body if isinstance(item, _FUNCTION)}
        here = self._words_here(method, methods) | self._words_of_bases(self._module, cls)
        if "__init__" in methods:
            here |= self._words_here(methods["__init__"], methods)
        return self._may_fire(here, self._graph.closure(self._module, cls.name))

    def to_inherited(self, cls: ast.ClassDef) -> Concerned:
        """The rules that could fire when a method that a class inherits is interpreted on an object of the class."""
        reachable = self._graph.closure(self._module, cls.name)
        return self._may_fire(reachable, reachable)

    def _may_fire(self, here: int, reachable: int) -> Concerned:
        return frozenset(
            index for index, trigger in self._masks if here & trigger[0] and all(reachable & words for words in trigger)
        )

    def _words_here(
        self,
        start: ast.stmt,
        methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef],
        besides: Collection[ast.AST] = (),
    ) -> int:
        """The words of a definition and of what it names in this file: functions, methods, classes that are no models.

        Of what it imports, the name counts, and the losses that imported modules compute. ``besides`` are left out.
        """
        known = self._here.get(start)
        if known is not None:
            return known
        mask = 0
        pending = [start]
        seen: set[ast.AST] = set(besides) - {start}
        while pending:
            statement = pending.pop()
            if statement not in seen:
                seen.add(statement)
                words = self._graph.words(self._module, statement)
                mask |= self._graph.own(self._module, statement)
                for word in words & self._imports.keys():
                    mask |= self._of_import(word)
                for inner, name in self._graph.imports_in(self._module, statement):
                    mask |= self._of_one_import(inner, name)
                pending.extend(methods[word] for word in words & methods.keys())
                pending.extend(each for word in words & self._definitions.keys() for each in self._definitions[word])
        self._here[start] = mask
        return mask

    def _of_import(self, name: str) -> int:
        """The words of what an import binds to a name, and of the losses that it computes, if it is a module."""
        known = self._of_imports.get(name)
        if known is None:
            known = 0
            for statement in self._imports[name]:
                known |= self._of_one_import(statement, name)
            self._of_imports[name] = known
        return known

    def _of_one_import(self, statement: ast.Import | ast.ImportFrom, name: str) -> int:
        mask = self._graph.of_import(statement, name)
        for module, original in self._graph.imported(self._module, statement, name):
            mask |= self._graph.class_mask(module, original) & self._losses
        return mask

    def _words_of_bases(self, module: SourceModule, cls: ast.ClassDef, depth: int = 0) -> int:
        """The words by which a class, and those of the project that it derives from, name their bases."""
        parts = (part for base in cls.bases for part in ast.walk(base))
        words = {getattr(part, "attr", getattr(part, "id", "")) for part in parts}
        mask = self._graph.mask(words)
        if depth < _DEEPEST:
            for origin, ancestor in self._graph.classes(module, words):
                mask |= self._words_of_bases(origin, ancestor, depth + 1)
        return mask

    def _is_driven(self, module: SourceModule, cls: ast.ClassDef, methods: set[str], depth: int = 0) -> bool:
        """Whether a class of the project that a class derives from calls methods of these names."""
        names = {getattr(part, "attr", getattr(part, "id", "")) for base in cls.bases for part in ast.walk(base)}
        return depth < _DEEPEST and any(
            not methods.isdisjoint(called_on_self(origin, ancestor))
            or self._is_driven(origin, ancestor, methods, depth + 1)
            for origin, ancestor in self._graph.classes(module, names)
        )

    def _is_named_for_itself(self, statement: ast.stmt) -> bool:
        """Whether who names a definition is concerned with what it does: models are looked at on their own."""
        return not isinstance(statement, ast.ClassDef) or not _is_model(statement) or self._has_loss(statement)

    def _has_loss(self, cls: ast.ClassDef) -> bool:
        """Whether a class names a loss function: such modules are interpreted where they are called."""
        return not self._loss_words.isdisjoint(self._graph.words(self._module, cls))

    def can_matter(self, function: Function) -> bool:
        """Whether interpreting a call of a function could show any rule anything."""
        node = function.node
        key = (node, self._effects)
        known = self._graph.mattering.get(key)
        if known is None:
            known = self._graph.mattering[key] = self._can_matter(function)
        return known

    def _can_matter(self, function: Function) -> bool:
        node = function.node
        if isinstance(node, ast.Lambda) or _lines_after_first(node) < _SHORT:
            return True
        module = function.module
        arguments = node.args
        parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        words = self._graph.words(module, node).difference([parameter.arg for parameter in parameters])
        if self._graph.own(module, node) & self._effects:
            return True
        if function.owner is not None and self._names_effects(module, node, function.owner.members):
            return True
        if any(self._graph.closure(module, word) & self._effects for word in words & module.bindings.names.keys()):
            return True
        for statement, name in self._graph.imports_in(module, node):
            reached = self._graph.of_import(statement, name)
            for origin, original in self._graph.imported(module, statement, name):
                reached |= self._graph.closure(origin, original)
            if reached & self._effects:
                return True
        if function.owner is not None and self._inherits_effects(function.owner, words):
            return True
        return self._lacks_names(module, node, function.owner.members if function.owner is not None else {})

    def _lacks_names(self, module: SourceModule, function: ast.stmt, members: Mapping[str, ast.stmt]) -> bool:
        """Whether a function reads a name that nothing binds, which ends a run, or names one of its file that does."""
        lines = lack_names(self._graph.project, module)
        pending = [function] if lines else []
        for each in pending:  # which grows meanwhile
            if each.lineno in lines:
                return True
            words = self._graph.words(module, each)
            found = [members[word] for word in words & members.keys()]
            found += (one for word in words & module.bindings.names.keys() for one in module.bindings.names[word])
            pending += [one for one in found if isinstance(one, _FUNCTION) and one not in pending]
        return False

    def _names_effects(self, module: SourceModule, method: ast.stmt, members: Mapping[str, ast.stmt]) -> bool:
        """Whether a method names another one of its class that does something, or one that leads to such a one."""
        pending = [method]
        for each in pending:  # which grows meanwhile
            named = [members[word] for word in self._graph.words(module, each) & members.keys()]
            found = [member for member in named if member not in pending]
            if any(self._graph.own(module, member) & self._effects for member in found):
                return True
            pending += found
        return False

    def _inherits_effects(self, cls: Class, words: frozenset[str]) -> bool:
        """Whether a method with these words may call one that its class inherits and that does something."""
        return any(
            self._graph.closure(ancestor.module, ancestor.name) & self._effects
            for ancestor in cls.lineage
            if ancestor is not cls and not words.isdisjoint(ancestor.members)
        )


EVENT_WORDS = frozenset(
    ("backward", "step", "zero_grad", "train", "eval", "no_grad", "inference_mode", "set_grad_enabled", "unscale_",
     "set_epoch", "load_state_dict", "requires_grad", "requires_grad_", "add_param_group", "scale", "ArgumentParser")
)  # fmt: skip
"""Words by which a function does something to a model or an optimizer, whatever the rules ask about, or says what the
settings are by default, which findings assume."""

_NUMBERS = frozenset(("data", "item", "float", "tensor", "numpy", "tolist", "detach", "named_parameters"))
"""Words of triggers by which any code handles numbers: alone they do not make a function worth interpreting."""


def _is_model(node: ast.ClassDef) -> bool:
    """Whether a class looks like an ``nn.Module``."""
    if any(isinstance(base, ast.Attribute | ast.Name) and ast.unparse(base).endswith("Module") for base in node.bases):
        return True
    return any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in node.body)


def _lines_after_first(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function has below its first one, without its docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
    described = (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno - described
