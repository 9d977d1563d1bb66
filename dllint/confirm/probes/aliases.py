"""DL719: states that follow the weights they were taken from. ``state_dict()`` copies nothing, so that a `best` that is
kept without a copy is what the model is now: loading it changes nothing, and saving it saves the weights of now.
Remembers which states were asked for at which step, and looks at those that come back in a later one."""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from dllint.confirm.inside.parts import dicts
from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, Tensor, alarm_if, decided, events, nn, stack_of
from dllint.confirm.probes.events import Stack

_MOST = 64  # states that are remembered
_LOOKED_AT = 64  # tensors of a state


class Aliases(PlaceProbe[Samples]):
    _asked: dict[int, tuple[ReferenceType[Any], ReferenceType[nn.Module], int]] = {}  # by id of the state
    _latest: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # the step of the last time

    def on_state_taken(self, event: events.StateTaken) -> None:
        self._latest[event.target] = self.run.all_steps
        if len(self._asked) >= _MOST:
            self._asked = {key: known for key, known in self._asked.items() if known[0]() is not None}
        if len(self._asked) < _MOST:
            self._asked[id(event.state)] = (ref(event.state), ref(event.target), self.run.all_steps)

    def on_state_restored(self, event: events.StateRestored) -> None:
        owner, state, stack = event.target, event.state, stack_of(event)
        if not isinstance(owner, nn.Module) or owner not in self._latest or not isinstance(state, dict):
            return
        if self.is_next_sampled(stack, self.at_first):
            known = self._known(state)
            asked = known[1] if known is not None and known[0] is owner else self._latest[owner]
            is_alias = _is_alias(state, owner)
            if self.run.all_steps and (asked < self.run.all_steps or not is_alias):
                self._note("loaded", stack, is_alias, asked)

    def on_state_saved(self, event: events.StateSaved) -> None:
        for state in dicts(event.content):
            known = self._known(state)
            if known is not None and known[1] < self.run.all_steps:
                self._note("saved", stack_of(event), _is_alias(state, known[0]), known[1])

    def _known(self, state: Any) -> tuple[nn.Module, int] | None:
        """The module that a state was asked of, and the step; None if it is not known or the module is gone."""
        state_of, module_of, step = self._asked.get(id(state), (None, None, 0))
        module = module_of() if module_of is not None else None
        return (module, step) if module is not None and state_of is not None and state_of() is state else None

    def _note(self, what: str, stack: Stack, is_alias: bool, asked: int) -> None:
        seen = self.at(what, stack)
        seen.count(is_alias)
        seen.more["age"] = max(seen.more.get("age", 0), self.run.all_steps - asked)  # steps between asking and now

    def judge_each(self, seen: Samples) -> Judgements:
        how = seen.place[0]
        yield self.judgement("DL719", seen, decided(seen.wrong, True), "", alarm_if(how == "loaded"), how=how)


def _is_alias(state: dict[Any, Any], module: nn.Module) -> bool:
    """Whether the tensors of a state are those of the module, all of them."""
    own = list(module.named_parameters(remove_duplicate=False))[:_LOOKED_AT]
    pairs = [(state.get(name), parameter) for name, parameter in own if parameter.numel()]
    return bool(pairs) and all(isinstance(a, Tensor) and a.data_ptr() == b.data_ptr() for a, b in pairs)
