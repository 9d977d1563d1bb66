"""Whether code chooses which entries of a state dict it loads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dllint.context.checkpoints import is_loader, is_same_path
from dllint.context.resuming import Resuming
from dllint.events import StateRestored
from dllint.interp.run import graph
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.interp.source.renamed_entries import names_kept
from dllint.sites import Site
from dllint.values import Class, Instance, Symbol, Table, Value

_TAKING_OUT = frozenset(("pop", "filter", "filter_state_dict", "intersect_dicts"))
_MODULES = frozenset(("torch.nn.Module", "lightning.pytorch.LightningModule"))
_OTHER_NAMES = re.compile(  # what a class gives its objects, or looks entries up by, otherwise
    r"setattr|getattr__|add_module|register_|__dict__|_load_from_state_dict|def load_state_dict"
)
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

    def names_that_fit_nothing(self, event: StateRestored) -> frozenset[str]:
        """The parts that chosen entries are of, by their names, if the model that gets them has none of these.

        Only of a model of a class of the project of which all attributes are seen.
        """
        made = event.state.site.node if isinstance(event.state, Table) and event.state.site is not None else None
        names = names_kept(made) if isinstance(made, ast.DictComp) else frozenset()
        return names if names and _lacks_all(event.target, names) else frozenset()

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


def _lacks_all(model: Value, names: frozenset[str]) -> bool:
    """Whether a model certainly has none of some parts."""
    cls = model.cls if isinstance(model, Instance) else None
    if not isinstance(model, Instance) or not isinstance(cls, Class) or not model.attributes:
        return False
    is_known = bool(cls.library_bases) and _MODULES.issuperset(cls.library_bases)
    if not is_known or not names.isdisjoint(model.attributes):
        return False
    named = (each for one in cls.lineage for name in names for each in nodes_of(one.node).attributes.get(name, ()))
    is_set = any(isinstance(each.ctx, ast.Store) for each in named)
    return not is_set and not any(each.module.contains(_OTHER_NAMES) for each in cls.lineage)


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
