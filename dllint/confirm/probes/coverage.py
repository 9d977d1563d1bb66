"""Which parameters are used, held by an optimizer, registered, frozen, and moved: DL306 to DL309, and DL601. Notes the
parameters that gradients go to, and compares them with what optimizers and modules hold."""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils.weak import WeakIdRef

from dllint.confirm.evidence import Judgement, Verdict, Voice
from dllint.confirm.inside.devices import local
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Probe, Tensor, decided, events, nn, parameters_of

_TYPOS = ("require_grad", "requires_grads", "required_grad", "require_grads", "requires_gradient", "requires_grad_")
_FIRST = 24  # steps of an optimizer before each of which it is asked what it holds
_EDGE = 512  # elements of a parameter that are compared


class _Watched(Notes):
    """What is known of a parameter. It may be gone when the run ends, so what it was like is noted while it exists."""

    parameter: WeakIdRef
    is_matrix: bool
    begin: Tensor  # the first elements of its value
    name: str
    is_registered: bool = True
    is_held: bool = False  # by an optimizer
    is_beside: bool = False  # others of its module are held
    is_frozen: bool = False
    has_moved: bool = False
    owner: int = -1  # the number of the module that has it
    steps: int = 0  # of its optimizer, as far as they were looked at

    def look(self) -> Tensor | None:
        """Note what the parameter is like now. Returns it, if it exists."""
        parameter: Tensor | None = self.parameter()
        if parameter is not None:
            self.is_frozen = not parameter.requires_grad
            self.has_moved = not torch.equal(_edge(parameter).to(self.begin.device), self.begin)
        return parameter


class Coverage(Probe):
    _modules: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # that were called, and a number of each
    _counter = count()  # goes on, whoever counts
    _used: dict[WeakIdRef, _Watched] = {}  # parameters that gradients go to
    _frozen: dict[WeakIdRef, _Watched] = {}  # those of optimizers that want none
    _held: dict[WeakIdRef, None] = {}  # by optimizers, whether these still exist or not
    _misspelled: dict[str, bool] = {}  # attributes, and whether what they are on is trained
    _steps = 0
    _has_gaps = False  # then calls of modules are not all told of
    _holds_strangers = False  # some optimizer holds what no module that was called has, or what is frozen

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.model not in self._modules:
            self._modules[event.model] = next(self._counter)

    def on_gap(self) -> None:
        self._has_gaps = True

    def before_backward(self, call: events.BackwardCall) -> None:
        if not call.leaves:
            return
        new = [leaf for leaf in call.leaves if isinstance(leaf, nn.Parameter) and WeakIdRef(leaf) not in self._used]
        if new and any(self.has_part(module, lambda part: hasattr(part, "reshard")) for module in self._modules):
            return  # by `fully_shard`: gradients go to what the ranks have put together, which is gone afterwards
        registered = {id(p) for module in self._modules for p in module.parameters()} if new else set()
        for leaf in new:
            item = self._used[WeakIdRef(leaf)] = _watched(leaf)
            item.is_registered = id(leaf) in registered or self._has_gaps

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        if not self.is_sampled(self.run.gradients.of(event.optimizer).steps, _FIRST - 1):
            return
        for parameter in parameters_of(event.optimizer):
            key = WeakIdRef(parameter)
            self._held[key] = None
            if not parameter.requires_grad and isinstance(parameter, nn.Parameter):  # else a copy, stepped by hand
                item = self._frozen[key] = self._frozen.get(key) or _watched(parameter)
                item.steps += 1

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        self._steps += 1
        if self.run.gradients.of(event.optimizer).steps <= ENOUGH or self._steps % self.run.settings.every == 0:
            self._look()

    def _look(self) -> None:
        """Note what all that still exists is like."""
        names: dict[int, str] = {}
        owners: dict[int, int] = {}
        beside: set[int] = set()
        held = {id(parameter) for known in self._held if (parameter := known()) is not None}
        for module, number in self._modules.items():
            named = {id(parameter): name for name, parameter in module.named_parameters()}
            names |= named
            owners |= dict.fromkeys(named, number)
            if not held.isdisjoint(named):  # no optimizer need hold any of a module that only makes a loss
                beside |= named.keys()
            self._look_for_typos(module)
        self._holds_strangers = self._holds_strangers or not held <= names.keys() or bool(self._frozen)
        for item in (*self._used.values(), *self._frozen.values()):
            parameter = item.look()
            if parameter is not None:
                item.name = names.get(id(parameter), item.name)
                item.owner = owners.get(id(parameter), item.owner)
                item.is_held = item.is_held or id(parameter) in held
                item.is_beside = id(parameter) in beside or not item.is_registered

    def _look_for_typos(self, module: nn.Module) -> None:
        owners: list[tuple[str, list[Tensor]]] = []
        for name, part in module.named_modules():
            if vars(part).get("requires_grad", True) is False:
                owners.append((f"{name or type(part).__name__}.requires_grad", list(part.parameters())))
        for name, parameter in module.named_parameters():
            owners += [(f"{name}.{typo}", [parameter]) for typo in _TYPOS if typo in vars(parameter)]
            if not parameter.requires_grad:
                self._misspelled.setdefault("", False)  # something is frozen as it should be
        for name, parameters in owners:
            self._misspelled[name] = any(WeakIdRef(parameter) in self._used for parameter in parameters)

    def judge(self) -> Judgements:
        self._look()
        used = list(self._used.values())
        if self.run.steps >= ENOUGH and used:
            yield from self._uncovered(used)
            strangers = [item for item in used if not item.is_registered]
            is_seen = len(strangers) < len(used)  # else what makes up the model is called by other names
            is_wrong = is_seen and any(item.is_matrix for item in strangers)
            yield self._told("DL308", decided(is_wrong, not strangers), strangers, "note")
            if self._misspelled:
                trained = [name for name, is_trained in self._misspelled.items() if is_trained]
                yield self._told("DL309", decided(trained, True), [], "alarm", name=trained[:1])
            frozen = [item for item in self._frozen.values() if item.is_frozen and item.steps >= ENOUGH]
            moved = [item for item in frozen if item.has_moved]
            if frozen:
                yield self._told("DL601", decided(moved, True), moved, frozen=len(frozen))

    def _uncovered(self, used: list[_Watched]) -> Judgements:
        """DL306 where an optimizer holds what something may have replaced; DL307 where it does not."""
        missing = [item for item in used if not item.is_held and not item.has_moved and item.is_beside]
        lost, owners = {id(item) for item in missing}, {item.owner for item in missing}
        # of each module that something is missing of, all biases and scales, which may be among that
        vectors = [[id(item) for item in used if item.owner == owner and not item.is_matrix] for owner in owners]
        are_lost = any(len(each) > 1 and lost.issuperset(each) for each in vectors)
        is_certain = are_lost or any(item.is_matrix for item in missing)
        matters = is_certain and any(item.is_held for item in used)
        is_trained = not missing and any(item.is_held or item.has_moved for item in used)  # by whoever steps
        # just one child of a module is missing, with all of its parameters: a probe on fixed features
        wanted = {id(item.parameter()) for item in missing}
        children = [child for module in self._modules for child in module.children()]
        is_a_part = any({id(p) for p in child.parameters()} == wanted for child in children)
        for rule, is_meant in (("DL306", self._holds_strangers), ("DL307", not self._holds_strangers)):
            voice: Voice = "" if not is_meant else "note" if is_a_part else "alarm"
            yield self._told(rule, decided(matters, is_trained), missing, voice)

    def _told(
        self, rule: str, verdict: Verdict, items: list[_Watched], voice: Voice = "alarm", **more: Any
    ) -> Judgement:
        numbers = {"number": len(items), "with_gradients": len(self._used), **more}
        names, seen = [item.name for item in items][:20], self.whole(looks=self.run.steps)
        return self.judgement(rule, seen, verdict, "", voice, parameters=names, **numbers)


def _watched(parameter: Tensor) -> _Watched:
    return _Watched(WeakIdRef(parameter), parameter.dim() > 1, _edge(parameter), f"shape {list(parameter.shape)}")


def _edge(tensor: Tensor) -> Tensor:
    return local(tensor.detach()).flatten()[:_EDGE].clone()
