"""Norms that code puts into evaluation mode one by one, and a later ``train()`` of the model that undoes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

from dllint.context.modes import ModesOfModules
from dllint.dataclass import dataclass
from dllint.events import Event, ModeChange, ModelForward, OpaqueCall
from dllint.values import Symbol, Value

_LISTS = frozenset(("modules", "named_modules", "children", "named_children"))
_KINDS = (ModeChange, ModelForward, OpaqueCall)


@dataclass(frozen=True, slots=True)
class Undone:
    """Norms of ``owner`` that ``switch`` puts into evaluation mode, and ``change`` back before ``call`` trains them."""

    owner: Value
    switch: ModeChange[Value]
    change: ModeChange[Value]
    call: ModelForward[Value]


class NormModes(ModesOfModules):
    """The modes of norms that are not those of their model."""

    @cached_property
    def undone_norm_modes(self) -> tuple[Undone, ...]:
        """Where norms are put into evaluation mode one by one, which is undone before the model is ever called so.

        Where any call of the model comes upon them as they were put, somebody may have ended that on purpose. So it
        may be where an unresolved call comes after that, which may put them so again.
        """
        found: list[Undone] = []
        for switch in self.all_of(ModeChange):
            owner = self._whose_norms(switch)
            if owner is not None and not any(each.owner is owner for each in found):
                found.extend(self._undone(owner, switch))
        return tuple(found)

    def _undone(self, owner: Value, switch: ModeChange[Value]) -> Iterator[Undone]:
        switches = {id(each) for each in self.all_of(ModeChange) if self._whose_norms(each) is owner}
        changes = {id(each) for each in self.all_of(ModeChange) if self.may_set_mode(owner, each)}

        def concerns(event: Event) -> bool:
            if isinstance(event, ModelForward):
                return any(self.is_part(owner, model) for model in self.objects(event.model))
            return id(event) in switches or id(event) in changes or self.may_set_mode(owner, event)

        def after(event: Event, state: str) -> str:
            """``norms`` where they are as they were put, ``undone`` where `train()` came after that, ``perhaps`` where
            an unresolved call came after `train()`."""
            if id(event) in switches:
                return "norms"
            if isinstance(event, OpaqueCall):
                return "perhaps" if state in ("undone", "perhaps") else ""
            if not isinstance(event, ModeChange) or state in ("", "perhaps"):
                return state
            return "undone" if event.training is True else "eval" if event.training is False else ""

        flow = self.follow("", after, _KINDS, concerns)
        calls = {call: states for call, states in flow.arrivals.items() if isinstance(call, ModelForward)}
        if any("norms" in states or "perhaps" in states for states in calls.values()):
            return
        for call, states in calls.items():
            if "undone" in states and self.phase(call).name == "training":
                undoing = self._last_train(owner, call, changes)
                if undoing is not None and self.position(switch) < self.position(call):
                    yield Undone(owner, switch, undoing, call)
                    return

    def _last_train(self, owner: Value, call: ModelForward[Value], changes: set[int]) -> ModeChange[Value] | None:
        """The last change to training mode above a call, in the order of the text."""
        above = [
            each
            for each in self.all_of(ModeChange)
            if id(each) in changes and each.training is True and self.position(each) < self.position(call)
        ]
        return above[-1] if above else None

    def _whose_norms(self, change: ModeChange[Value]) -> Value | None:
        """The module of whose modules a change puts the norms into evaluation mode, as its condition says."""
        if change.training is not False or any(
            frame.function in ("train", "forward") for frame in change.frame.stack()
        ):
            return None
        words = {word for guard in change.guards if guard.holds for word in re.findall(r"\w+", guard.subject)}
        module = change.model
        while isinstance(module, Symbol) and module.name in ("item", "element") and module.inputs:
            module = module.inputs[0]
        if module is change.model or not isinstance(module, Symbol) or module.name not in _LISTS:
            return None
        owners = self.objects(module.inputs[0]) if module.inputs and self.speaks_of("normalization", *words) else []
        return owners[0] if len(owners) == 1 else None
