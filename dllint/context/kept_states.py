"""States of models that are kept: which tensors they have, and what becomes of a model that one is loaded into."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.context.objects import Objects
from dllint.context.paths import Paths
from dllint.events import Event, LibraryCall, ModelForward, OpaqueCall, StateRestored, StateSaved, StateTaken
from dllint.forms import storage_of
from dllint.values import Instance, Symbol, Table, Value

_SAME_TENSORS = (".copy", "dict", "collections.OrderedDict", "copy.copy")
_ENTRY = (("item", 1), ("element", None), (".items", None))


class KeptStates(Objects, Paths):
    """States that are loaded, and models that they are loaded into."""

    def state_behind(self, value: Value) -> Value:
        """The dict whose tensors a value has: of which it is a copy as a whole, or entry by entry, or the value."""
        while (behind := _behind(value)) is not None:
            value = behind
        return value

    def is_restored_in_vain(self, restored: StateRestored) -> bool:
        """Whether nothing in a script uses a model after a state was loaded, or another one takes its place first.

        Nobody computes with it, saves it, or hands it to something. Of a definition by itself that is never known.
        """
        if not self.program.complete or self.program.truncated:
            return False
        loops = {id(loop) for loop in self.loops_around(restored)}
        for event in self.all_of(ModelForward, StateTaken, StateSaved, StateRestored, OpaqueCall, LibraryCall):
            is_after = self.position(event) > self.position(restored)
            is_in_turn = any(id(loop) in loops for loop in self.loops_around(event))
            if event is restored or not (is_after or is_in_turn) or self.exclusive(event, restored):
                continue
            if not isinstance(event, StateRestored) and self._may_use(event, restored.target):
                return False
            is_another = is_after and isinstance(event, StateRestored) and self.is_same(event.target, restored.target)
            if is_another and not self.conditions_beyond(event, restored):
                return True
        return True

    def _may_use(self, event: Event, model: Value) -> bool:
        """Whether an event does something with a model or a part of it, as far as is known."""
        if isinstance(event, ModelForward):
            return not isinstance(event.model, Instance) or self.is_part(event.model, model)
        return any(self.reaches(each, model) for each in _handled_by(event))


def _handled_by(event: Event) -> Iterator[Value]:
    """What an event takes, keeps or gets."""
    if isinstance(event, StateTaken):
        yield event.target
    elif isinstance(event, StateSaved) and event.content is not None:
        yield event.content
    elif isinstance(event, OpaqueCall):
        yield from event.values
    elif isinstance(event, LibraryCall):
        yield from event.arguments.all()


def _behind(value: Value) -> Value | None:
    """The dict with the same tensors of which a value is a copy: as a whole, or entry by entry in a comprehension."""
    if isinstance(value, Table):
        entry = value.contents.get(Table.REST)
        return _dict_of(entry) if entry is not None and len(value.contents) == 1 else None
    if isinstance(value, Symbol) and value.name in _SAME_TENSORS and value.inputs:
        return value.inputs[0]
    return _dict_of(value)


def _dict_of(entry: Value) -> Value | None:
    """The dict whose `.items()` a comprehension goes over, if an entry is its tensor itself, detached or not."""
    entry = storage_of(entry)
    for name, detail in _ENTRY:
        if not isinstance(entry, Symbol) or not entry.inputs or (entry.name, entry.detail) != (name, detail):
            return None
        entry = entry.inputs[0]
    return entry
