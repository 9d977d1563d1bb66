"""DL719: states that follow the weights they were taken from. ``state_dict()`` copies nothing, so that a `best` that is
kept without a copy is what the model is now: loading it changes nothing, and saving it saves the weights of now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe, stack_of
from dllint.confirm.probes.contents import dicts
from dllint.events import StateRestored, StateSaved, StateTaken

_MOST = 64  # states that are remembered
_LOOKED_AT = 64  # tensors of a state
_FIRST = 10  # loads from each place that are looked at


@dataclass(slots=True)
class _Seen:
    """States that were loaded or saved at one place after they had been asked for, and those of them that alias."""

    what: str
    states: int = 0
    aliases: int = 0
    age: int = 0  # the most steps between asking and now
    first: int = 0
    last: int = 0


class Aliases(Probe):
    """Remembers which states were asked for at which step, and looks at those that come back in a later one."""

    name = "aliases"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._asked: dict[int, tuple[ReferenceType[Any], ReferenceType[nn.Module], int]] = {}  # by id of the state
        self._latest: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # the step of the last time
        self._seen: dict[tuple[str, Stack], _Seen] = {}
        self._loads: dict[Stack, int] = {}

    def on_state_taken(self, event: StateTaken[Any]) -> None:
        module: nn.Module = event.target
        state: Any = event.state
        self._latest[module] = self.run.all_steps
        if len(self._asked) >= _MOST:
            self._asked = {key: known for key, known in self._asked.items() if known[0]() is not None}
        if len(self._asked) < _MOST:
            self._asked[id(state)] = (ref(state), ref(module), self.run.all_steps)

    def on_state_restored(self, event: StateRestored[Any]) -> None:
        owner: Any = event.target
        state: Any = event.state
        stack = stack_of(event)
        if not isinstance(owner, nn.Module) or owner not in self._latest or not isinstance(state, dict):
            return
        loads = self._loads[stack] = self._loads.get(stack, 0) + 1
        if loads <= _FIRST or loads % self.run.every == 0:
            known = self._known(state)
            asked = known[1] if known is not None and known[0] is owner else self._latest[owner]
            is_alias = _is_alias(state, owner)
            if self.run.all_steps and (asked < self.run.all_steps or not is_alias):
                self._note("loaded", stack, is_alias, asked)

    def on_state_saved(self, event: StateSaved[Any]) -> None:
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
        seen = self._seen.setdefault((what, stack), _Seen(what, first=self.run.steps))
        seen.states += 1
        seen.aliases += is_alias
        seen.age = max(seen.age, self.run.all_steps - asked)
        seen.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for (what, stack), seen in self._seen.items():
            yield Judgement(
                "DL719",
                self.name,
                "CONFIRMED" if seen.aliases else "REFUTED",
                f"{seen.aliases} of {seen.states} states that were {what} here up to {seen.age} steps after they were "
                "taken are the weights of the model itself, which have moved since",
                "any state that shares the memory of all weights, a step or more after it was taken; none refutes",
                {"aliases": seen.aliases, "states": seen.states, "age": seen.age},
                seen.states,
                (seen.first, seen.last),
                (stack,),
                "alarm" if what == "loaded" else "note",
            )


def _is_alias(state: dict[Any, Any], module: nn.Module) -> bool:
    """Whether the tensors of a state are those of the module, all of them."""
    own = dict(module.named_parameters(remove_duplicate=False))
    names = [name for name in list(own)[:_LOOKED_AT] if own[name].numel()]
    found = [state.get(name) for name in names]
    return bool(names) and all(
        isinstance(value, Tensor) and value.data_ptr() == own[name].data_ptr()
        for name, value in zip(names, found, strict=True)
    )
