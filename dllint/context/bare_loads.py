"""Bare loads: where the files of a project put a state from a file into a model that is not wrapped there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.context.checkpoints import Part, Saved, is_same_path, path_pattern, path_texts
from dllint.context.filtering import Filtering
from dllint.context.loading import Load, file_name, fits_pattern, loads_in
from dllint.context.sources import STRIPPING, receiver_of
from dllint.interp.run import graph, roles
from dllint.interp.source.imported import imported_names
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site
from dllint.values import Class, Instance, Symbol, Value

_LOADING = re.compile(r"\.\s*load_state_dict\s*\(")
_MOVING = re.compile(r"\b(?:copy|copy2|copyfile|move|rename|replace)\(")
_BEHIND = ("module", "_orig_mod")
_COPYING = frozenset(("copy", "deepcopy"))
_PREPARING = frozenset(("prepare", "compile", "DDP", "DP"))
_MISFIT = "RuntimeError"  # what is raised where keys are missing
_MAX_STEPS = 6  # from a variable to what makes the model


class BareLoads(Filtering):
    """Loads into models that no wrapper is around."""

    def loaded_bare(self, saved: Saved, part: Part, model: Value) -> Site | None:
        """Where code of the project loads a part of a checkpoint into a model that is not wrapped there, as it stands.

        The state comes straight from ``torch.load``, out of a file that may be this one, and from under the same key;
        the model is made by its class, or by a function that the program's own file names, too. What may fail (in a
        ``try``) does not count, nor what a run of this program begins with, as names say, that others have trained.

        Args:
            saved: the checkpoint.
            part: the state in it.
            model: the model that the state is of.
        """
        run = self._restored_bare(saved, part, model)
        return run if run is not None else next(self._written_bare(saved, part, model), None)

    def _restored_bare(self, saved: Saved, part: Part, model: Value) -> Site | None:
        """The same for what the program runs, which tells what the model is."""
        own = [each for each in self.checkpoints.restored if self.is_same(each.event.target, model)]
        own = [each for each in own if each.key == part.key and each.unsure is None]
        known = [each for each in own if is_same_path(saved.event.path, each.read.path)]
        for restored in known or own:
            event, path = restored.event, restored.read.path
            texts = [*path_texts(path), *(guard.subject.rpartition(":")[2] for guard in restored.read.guards)]
            is_of_others = any(self.speaks_of("starting-weights", text) for text in texts)
            may_be = not is_of_others and self._may_be_file(saved, file_name(path_pattern(path)))
            is_wrapped = any(each.prefix for each in self.checkpoints.wrappings(event.target))
            is_file = restored in known or may_be
            is_renamed = self.is_filtered(event) and not any(self.takes_off(each, "here") for each in STRIPPING)
            if is_file and not is_wrapped and not is_renamed and not self.is_caught(event.site, _MISFIT):
                return event.site
        return None

    def _written_bare(self, saved: Saved, part: Part, model: Value) -> Iterator[Site]:
        """The same for code as it is written, whoever runs it."""
        classes = {name for each in self.objects(model) if (name := _maker_of(each))}
        words = self.program.module.words
        run = {id(restored.event.site.node) for restored in self.checkpoints.restored}
        for call in self._loads_of(saved, part):
            assert isinstance(call.node, ast.Call) and isinstance(call.node.func, ast.Attribute)
            if id(call.node) in run and not _is_parameter(call.node.func.value, call):
                continue
            if _is_behind_own(call.node.func.value, call, part):
                yield call
            for name in self._makers(call.node.func.value, call, _MAX_STEPS):
                if name in classes or (name in words and not (classes and name[:1].isupper())):
                    yield call

    def _loads_of(self, saved: Saved, part: Part) -> Iterator[Site]:
        """The calls that load what may be a part of a checkpoint, as they are written."""
        own, project = saved.event.site.module.source.path.parent, self._machine.project
        trained = set(project.closure(self.program.module))
        for module in project.reading_each(dict.fromkeys((*trained, *project.mentioning(_LOADING)))):
            folder = module.file.parent
            if folder not in (own, *own.parents) and own not in folder.parents:
                continue
            for node in module.method_calls.get("load_state_dict", ()):
                site = Site(module, node)
                state = self._state(node.args[0], site, _MAX_STEPS) if node.args else None
                if state is None or state[0] != part.key or not self._may_be_file(saved, state[1].file):
                    continue
                if not self.is_caught(site, _MISFIT) and not (module in trained and self._is_of_others(state[1].site)):
                    yield site

    def _may_be_file(self, saved: Saved, file: str) -> bool:
        """Whether a file that is read may be a checkpoint, by its name, or a copy of it under another one."""
        written = file_name(path_pattern(saved.event.path))
        if not file or not written or fits_pattern(file, written) or fits_pattern(written, file):
            return True
        return saved.event.site.module.contains(_MOVING)

    def _is_of_others(self, load: Site) -> bool:
        """Whether what is loaded is where a run of its own begins, by the condition of it, or by what it is named."""
        texts = [ast.unparse(load.node)]
        texts += [ast.unparse(each.test) for each in self.ancestors(load, ast.If)]
        return any(self.speaks_of("starting-weights", text) for text in texts)

    # -------------------------------------------------------------------------------------------- what is loaded

    def _state(self, node: ast.AST, at: Site, steps: int) -> tuple[str, Load] | None:
        """The key of a state that comes straight from ``torch.load``, and that call; ``None`` for any other."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._entry(node.value, node.slice.value, at, steps)
        if isinstance(node, ast.Call):
            load = next((each for each in loads_in(_module(at)) if each.site.node is node), None)
            if load is not None:
                return "", load
            is_entry = isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop") and node.args
            if is_entry and isinstance(node.func, ast.Attribute) and isinstance(node.args[0], ast.Constant):
                return self._entry(node.func.value, node.args[0].value, at, steps)
            return self._returned(_called(node, at), steps) if steps else None
        values = _bound(node, at) if steps else None
        found = {self._state(each.node, each, steps - 1) for each in values or ()}
        keys = {each[0] if each is not None else None for each in found}
        return next(iter(found)) if len(keys) == 1 else None

    def _entry(self, owner: ast.expr, key: object, at: Site, steps: int) -> tuple[str, Load] | None:
        whole = self._state(owner, at, steps)
        return (key, whole[1]) if whole is not None and not whole[0] and isinstance(key, str) else None

    def _returned(self, name: str, steps: int) -> tuple[str, Load] | None:
        """The same for what the one function of this name in the project returns."""
        functions = list(self._defined(name))
        returned = [
            Site(functions[0].module, each.value)
            for each in (nodes_of(functions[0].node).of(ast.Return) if len(functions) == 1 else ())
            if each.value is not None
        ]
        return self._state(returned[0].node, returned[0], steps - 1) if len(returned) == 1 else None

    def _defined(self, name: str) -> Iterator[Site]:
        """The functions and classes of the project that are called so."""
        pattern, project = re.compile(rf"\b(?:def|class)\s+{re.escape(name)}\b"), self._machine.project
        for module in project.reading_each(project.mentioning(pattern)):
            for each in nodes_of(module.tree).of(ast.FunctionDef, ast.ClassDef):
                if each.name == name:
                    yield Site(module, each)

    # ------------------------------------------------------------------------------------------ what makes a model

    def _makers(self, node: ast.AST, at: Site, steps: int, *, is_behind: bool = False) -> frozenset[str]:
        """The classes or functions that make the model which an expression is; none if it may be wrapped there."""
        inside = _inside(node)
        if inside is not None:
            return self._makers(inside, at, steps, is_behind=True)
        if isinstance(node, ast.Call):
            name = _called(node, at)
            if isinstance(node.func, ast.Attribute) and f".{name}" in graph.SELF_RETURNING:
                return self._makers(node.func.value, at, steps, is_behind=is_behind)
            if self._is_wrapper(name):
                return self._makers(node.args[0], at, steps - 1) if is_behind and node.args else frozenset()
            if name in _COPYING or (name[:1].islower() and any(map(_is_model, node.args[:1]))):
                return self._makers(node.args[0], at, steps, is_behind=is_behind) if node.args else frozenset()
            return frozenset() if self._wraps_within(name) else frozenset((name,))
        values = _bound(node, at) if steps else None
        if values is None:
            return frozenset()
        if not values:
            return self._makers_of_parameter(node, at, steps - 1, is_behind=is_behind)
        found: set[str] = set()
        for value in values:
            if isinstance(node, ast.Attribute) and _mentions(value.node, node):  # what moves it does not make it
                calls = [each for each in ast.walk(value.node) if isinstance(each, ast.Call)]
                makers = frozenset(("",))
                if not is_behind and any(self._is_wrapper(_called(each, value)) for each in calls):
                    return frozenset()
            else:
                makers = self._makers(value.node, value, steps - 1, is_behind=is_behind)
            if not makers:
                return frozenset()
            found |= makers
        return frozenset(found - {""})

    def _makers_of_parameter(self, node: ast.AST, at: Site, steps: int, *, is_behind: bool) -> frozenset[str]:
        """The same for what some calls of the function around hand on to it, where a variable is its parameter."""
        function = enclosing_definition(at)
        if not isinstance(function, ast.FunctionDef) or not isinstance(node, ast.Name):
            return frozenset()
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        if node.id not in names:
            return frozenset()
        place = names.index(node.id) - (names[0] in ("self", "cls"))
        given: set[str] = set()
        for call in self.callers(Site(at.module, function)):
            assert isinstance(call.node, ast.Call)
            if self._is_library_call(call):
                continue  # `torch.load(path)` is no call of a function `load(model)`
            by_name = next((each.value for each in call.node.keywords if each.arg == node.id), None)
            argument = by_name or (call.node.args[place] if place < len(call.node.args) else None)
            if argument is not None:
                given |= self._makers(argument, call, steps, is_behind=is_behind)
        return frozenset(given)

    def _is_library_call(self, call: Site) -> bool:
        """Whether a call is of something in a module that is imported from outside of the project."""
        owner = (
            call.node.func.value
            if isinstance(call.node, ast.Call) and isinstance(call.node.func, ast.Attribute)
            else None
        )
        imported = imported_names(call.module.tree).get(owner.id, "") if isinstance(owner, ast.Name) else ""
        return bool(imported) and self._machine.project.find(_module(call), imported) is None

    def _is_wrapper(self, name: str) -> bool:
        prefixes = self._machine.facts.wrapper_prefixes
        return name in _PREPARING or any(wrapper.rpartition(".")[2] == name for wrapper in prefixes)

    def _wraps_within(self, name: str) -> bool:
        """Whether a function or class of the project, by its name, names a wrapper itself."""
        return any(self._is_wrapper(_last_name(each)) for one in self._defined(name) for each in _names_in(one.node))


def _names_in(node: ast.AST) -> Iterator[ast.expr]:
    yield from nodes_of(node).of(ast.Name)
    yield from nodes_of(node).of(ast.Attribute)


def _maker_of(model: Value) -> str:
    """The name of the class or function that made a model; empty if that is not known."""
    if isinstance(model, Instance):
        return model.cls.name if isinstance(model.cls, Class) else model.cls.rpartition(".")[2]
    is_made = isinstance(model, Symbol) and model.arguments is not None
    return model.name.rpartition(".")[2] if is_made and isinstance(model, Symbol) else ""


def _inside(node: ast.AST) -> ast.expr | None:
    """The wrapper out of which an expression takes a model."""
    if isinstance(node, ast.Attribute) and node.attr in _BEHIND:
        return node.value
    is_unwrapped = isinstance(node, ast.Call) and _last_name(node.func) == "unwrap_model" and node.args
    return node.args[0] if isinstance(node, ast.Call) and is_unwrapped else None


def _is_behind_own(node: ast.expr, at: Site, part: Part) -> bool:
    """Whether what is loaded into is taken out of the wrapper whose state is saved, as both are written."""
    saved = part.value.site
    if saved is None or saved.module is not at.module:
        return False
    found = [each.node for each in _bound(node, at) or ()] if isinstance(node, ast.Name) else [node]
    inside = [_inside(each) for each in found]
    own = receiver_of(saved.node)
    return bool(inside) and all(each is not None and ast.unparse(each) == own for each in inside)


def _is_model(node: ast.expr) -> bool:
    return roles.role_by_name(_last_name(node)) in ("module", "wrapper")


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _called(call: ast.Call, at: Site) -> str:
    """The name of what is called, without the modules that it is in, and not the one that it is imported under."""
    name = _last_name(call.func)
    imports = nodes_of(at.module.tree).of(ast.ImportFrom) if isinstance(call.func, ast.Name) else ()
    return next((each.name for one in imports for each in one.names if each.asname == name), name)


def _mentions(value: ast.AST, node: ast.expr) -> bool:
    return ast.unparse(node) in {ast.unparse(part) for part in ast.walk(value) if isinstance(part, ast.expr)}


def _bound(node: ast.AST, at: Site) -> list[Site] | None:
    """What a variable or attribute is assigned, where that may be so at a place; ``None`` if that cannot be told.

    Of the function around what stands before it, else what stands outside of all functions; of an attribute all that
    its file assigns, but for what stands behind the place in the same function.
    """
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    text, scope = ast.unparse(node), enclosing_definition(at)
    found: list[Site] = []
    outside: list[Site] = []
    for each in nodes_of(at.module.tree).of(ast.Assign, ast.AnnAssign):
        targets = each.targets if isinstance(each, ast.Assign) else [each.target]
        names = {ast.unparse(part) for target in targets for part in getattr(target, "elts", [target])}
        if text not in names or each.value is None:
            continue
        around = enclosing_definition(Site(at.module, each))
        if around is scope and each.lineno >= at.line:
            continue
        if text not in map(ast.unparse, targets):
            return None  # one of several that are unpacked
        if around is scope or isinstance(node, ast.Attribute):
            found.append(Site(at.module, each.value))
        elif around is None:
            outside.append(Site(at.module, each.value))
    return found or ([] if _is_parameter(node, at) else outside or None)


def _is_parameter(node: ast.AST, at: Site) -> bool:
    function = enclosing_definition(at)
    given = function.args if isinstance(function, ast.FunctionDef) else None
    names = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)} if given is not None else ()
    return isinstance(node, ast.Name) and node.id in names


def _module(at: Site) -> SourceModule:
    assert isinstance(at.module, SourceModule)
    return at.module
