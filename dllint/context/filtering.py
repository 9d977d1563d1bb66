"""Whether code chooses which entries of a state dict it loads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.context.checkpoints import is_loader, is_same_path
from dllint.context.resuming import Resuming
from dllint.events import StateRestored
from dllint.interp.run import graph
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site
from dllint.values import Class, Instance, Symbol, Table, Value

_TAKING_OUT = frozenset(("pop", "filter", "filter_state_dict", "intersect_dicts"))
_NEAREST = 30  # values that a state is made of


class Filtering(Resuming):
    """What is loaded of a state dict."""

    def is_from_file(self, restored: StateRestored) -> bool:
        """Whether a state that is loaded was read from a file, by torch or by what is called a loader."""
        return any(isinstance(source, Table) or is_loader(source) for source in self._made_of(restored))

    def is_made_unseen(self, restored: StateRestored) -> bool:
        """Whether code that is not seen had a hand in a state that is loaded: anything may have been left out."""
        calls = (source for source in self._made_of(restored) if isinstance(source, Symbol) and source.arguments)
        return any(not is_loader(each) and not each.name.startswith((".", "torch.")) for each in calls)

    def is_filtered(self, restored: StateRestored) -> bool:
        """Whether the code that makes a state to load chooses among its entries, or takes some out."""
        sites = [restored.site, *(source.site for source in self._made_of(restored))]
        places = {id(place): place for site in sites if site is not None and (place := _around(site)) is not None}
        return any(True for place in places.values() for _ in _choices(place))

    def is_of_other_make(self, event: StateRestored) -> bool:
        """Whether the program saves the file with the state of another class of model, or of one in another wrapper."""
        for restored in self.checkpoints.restored:
            if restored.event is not event or not is_as_read(event.state, restored.read.result):
                continue
            owners = [
                part.value.inputs[0]
                for saved in self.checkpoints.saved
                for part in saved.parts
                if is_same_path(saved.event.path, restored.read.path)
                if part.key == restored.key and isinstance(part.value, Symbol) and part.value.name == "state_dict"
            ]
            return bool(owners) and all(self._differ(owner, event.target) for owner in owners)
        return False

    def _differ(self, saved: Value, loaded: Value) -> bool:
        """Whether two models are of different classes, or differ in what wraps them, whichever objects they are."""
        prefixes = [{each.prefix for each in self.checkpoints.wrappings(model)} for model in (saved, loaded)]
        classes = [{each for one in self.objects(model) for each in _classes_of(one)} for model in (saved, loaded)]
        if not all(classes) or any(None in found for found in classes):
            return False
        return prefixes[0].isdisjoint(prefixes[1]) or classes[0].isdisjoint(classes[1])

    def _made_of(self, restored: StateRestored) -> list[Value]:
        """The values that a state was made of, up to where it was read; not the path of the file."""
        found: list[Value] = [] if restored.state is None else [restored.state]
        for value in found:  # which grows meanwhile
            inputs = () if is_loader(value) or len(found) > _NEAREST else graph.inputs_of(value)
            found.extend(each for each in inputs if not any(each is known for known in found))
        return found


def is_as_read(state: Value | None, result: Value) -> bool:
    """Whether a state is what was read or an entry of it, as it is."""
    is_entry = isinstance(state, Symbol) and state.name in ("item", ".get", ".pop") and bool(state.inputs)
    return state is result or (isinstance(state, Symbol) and is_entry and state.inputs[0] is result)


def _classes_of(model: Value) -> tuple[Class | str | None, ...]:
    """The class of a model and its ancestors in the project, or its name in a library; ``None`` if it is not known."""
    if not isinstance(model, Instance):
        return (None,)
    return model.cls.lineage if isinstance(model.cls, Class) else (model.cls,)


def _around(site: Site) -> ast.AST | None:
    tree: ast.AST | None = getattr(site.module, "tree", None)
    return enclosing_definition(site) or tree


def _choices(definition: ast.AST) -> Iterator[ast.AST]:
    """Where entries are chosen: a comprehension with a condition, `pop` and `del`, a loop that stores some only."""
    for node in ast.walk(definition):
        if isinstance(node, ast.DictComp):
            is_choice = any(generator.ifs for generator in node.generators)
        elif isinstance(node, ast.Call):
            is_choice = getattr(node.func, "attr", getattr(node.func, "id", "")) in _TAKING_OUT
        elif isinstance(node, ast.Delete):
            is_choice = any(isinstance(target, ast.Subscript) for target in node.targets)
        else:
            inside = ast.walk(node) if isinstance(node, ast.For) else ()
            is_choice = any(isinstance(each, ast.If) and _stores_some(each) for each in inside)
        if is_choice:
            yield node


def _stores_some(branch: ast.If) -> bool:
    """Whether an entry is stored under a condition and not otherwise, or skipped under one."""
    if any(isinstance(each, ast.Continue) for each in branch.body):
        return True
    return _stores(branch.body) and not _stores(branch.orelse)


def _stores(body: Sequence[ast.stmt]) -> bool:
    targets = (target for each in body if isinstance(each, ast.Assign) for target in each.targets)
    return any(isinstance(target, ast.Subscript) for target in targets)
