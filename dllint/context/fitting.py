"""Whether the shapes of a state dict fit the model that loads it, as far as both tell how large their layers are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.context.axes import AxesOfTensors
from dllint.context.checkpoints import is_loader, is_same_path, path_texts
from dllint.context.filtering import Filtering, is_as_read
from dllint.dataclass import dataclass
from dllint.events import AttributeAssigned, Event, StateRestored, StateTaken
from dllint.sites import Site
from dllint.values import Class, Instance, Symbol, Value

_HEADS = {  # the last layer of networks of torchvision, by how the names of their constructors begin
    "fc": ("resnet", "resnext", "wide_resnet", "shufflenet", "googlenet", "inception", "regnet"),
    "classifier": ("densenet",),
    "head": ("swin",),
}
_HEAD_OF = {kind: head for head, kinds in _HEADS.items() for kind in kinds}
_FILE = re.compile(r"\b([a-z]+(?:_resnet)?)\w*-[0-9a-f]{8}\.pth$")  # as torchvision calls the files of its weights
_IMAGENET = 1000
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """How many features or channels a layer takes and makes; ``None`` where that is not known. ``site`` made it."""

    takes: int | None
    makes: int | None
    site: Site | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """A layer of another size in a state than in the model that loads it: what it makes there and here."""

    name: str
    saved: Layer
    loaded: Layer


class Fitting(AxesOfTensors, Filtering):
    """Sizes of layers, compared by their names."""

    def misfit(self, event: StateRestored) -> Misfit | None:
        """A layer whose size in the state that is loaded is certainly another one than in the model."""
        targets = self.objects(event.target)
        if len(targets) != 1 or event.state is None:
            return None
        here = dict(self._layers_at(targets[0], event))
        for owner, taken in self._owners(event):
            if owner is not targets[0]:
                for name, saved in self._layers_at(owner, taken):
                    if name in here and _differ(saved, here[name]):
                        return Misfit(name, saved, here[name])
        for name, saved in self._published(event):
            if name in here and _differ(saved, here[name]):
                return Misfit(name, saved, here[name])
        return None

    def _owners(self, event: StateRestored) -> Iterator[tuple[Value, Event]]:
        """The model whose state is loaded, as it was taken here, or in this program written to the file."""
        state = event.state
        kept = [(part.value, read.event.path, part.key) for read in self.checkpoints.saved for part in read.parts]
        states = [state] if isinstance(state, Symbol) and state.name == "state_dict" else []
        for restored in self.checkpoints.restored:
            if restored.event is event and state is not None and is_as_read(state, restored.read.result):
                states += [
                    value
                    for value, path, key in kept
                    if key == restored.key and isinstance(value, Symbol) and is_same_path(path, restored.read.path)
                ]
        taken = {id(each.state): each for each in self.all_of(StateTaken)}
        found = [(each, taken[id(each)]) for each in states if id(each) in taken]
        if len(found) == len(states) == 1:
            owners = self.objects(found[0][1].target)
            yield from ((owner, found[0][1]) for owner in owners if len(owners) == 1)

    def _published(self, event: StateRestored) -> Iterator[tuple[str, Layer]]:
        """The last layer of a network of torchvision's whose file is loaded as it is: of the thousand of ImageNet."""
        state = event.state
        if isinstance(state, Symbol | Instance) and is_loader(state) and state.arguments is not None:
            for text in path_texts(state.arguments.get(0, "url")):
                kind = _FILE.search(text)
                head = _HEAD_OF.get(re.sub(r"\d.*", "", kind[1])) if kind is not None else None
                if head is not None:
                    yield head, Layer(None, _IMAGENET)

    def _layers_at(self, model: Value, event: Event) -> Iterator[tuple[str, Layer]]:
        """The layers that a model has at an event, by their names, as far as their sizes are known."""
        assigned = [each for each in self.all_of(AttributeAssigned) if self.is_same(each.target, model)]
        changed = {each.attribute for each in assigned if self.position(each) > self.position(event)}
        for name, layer in self.sizes_of_layers(model):
            if name.partition(".")[0] not in changed:
                yield name, layer
        before = {each.attribute for each in assigned if self.position(each) < self.position(event)}
        if isinstance(model, Instance):
            for name, layer in self._made_head_of(model):
                if name in model.attributes and name not in before:  # it was read only, or replaced after the event
                    yield name, layer

    def sizes_of_layers(self, model: Value, depth: int = 0) -> Iterator[tuple[str, Layer]]:
        """The layers of a module with the names that a state dict has for them, as far as their sizes are known."""
        if not isinstance(model, Instance) or depth > _MAX_DEPTH:
            return
        named = list(model.attributes.items())
        if isinstance(model.cls, str) and model.library_name == "torch.nn.Sequential" and model.arguments.exact:
            named = [(str(number), each) for number, each in enumerate(model.arguments.positional)]
        for name, part in named:
            if isinstance(part, Instance):
                wanted, made = self.wanted_size(part), self.made_size(part)
                if made is not None:
                    yield name, Layer(wanted[1] if wanted is not None else None, made, part.site)
                yield from ((f"{name}.{inner}", layer) for inner, layer in self.sizes_of_layers(part, depth + 1))
        yield from self._head_of(model)

    def _head_of(self, model: Instance) -> Iterator[tuple[str, Layer]]:
        """The last layer of a network of torchvision, where nobody has replaced it."""
        yield from (pair for pair in self._made_head_of(model) if pair[0] not in model.attributes)

    def _made_head_of(self, model: Instance) -> Iterator[tuple[str, Layer]]:
        """The last layer that a network of torchvision has when it is made."""
        if isinstance(model.cls, Class) or not model.library_name.startswith("torchvision.models."):
            return
        head = _HEAD_OF.get(re.sub(r"\d.*", "", model.library_name.rpartition(".")[2]).rstrip("_"))
        given = model.arguments.keywords.get("num_classes")
        classes = self.constant(given) if given is not None else _IMAGENET
        if head is not None and isinstance(classes, int) and model.arguments.exact:
            yield head, Layer(None, classes, model.site)


def _differ(left: Layer, right: Layer) -> bool:
    """Whether two layers certainly have weights of different shapes."""
    pairs = ((left.takes, right.takes), (left.makes, right.makes))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)
