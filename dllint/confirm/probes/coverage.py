"""Which parameters are used, held by an optimizer, registered, frozen, and moved: DL306, DL308, DL309 and DL601."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet, ref

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe

_TYPOS = ("require_grad", "requires_grads", "required_grad", "require_grads", "requires_gradient", "requires_grad_")
_EDGE = 512  # elements of a parameter that are compared


@dataclass(slots=True)
class _Watched:
    """A parameter, and what it was like when it was first seen."""

    parameter: ref[Tensor]
    is_matrix: bool
    begin: Tensor  # the first elements of its value
    is_registered: bool = True
    steps: int = 0  # of its optimizer since then

    def is_still(self) -> bool:
        """Whether it exists, and has the value that it had."""
        parameter = self.parameter()
        return parameter is not None and torch.equal(_edge(parameter).to(self.begin.device), self.begin)


class _List:
    """Parameters in the order in which they were seen. They may be gone, and others may have their ids."""

    def __init__(self) -> None:
        self.items: list[_Watched] = []
        self._by_id: dict[int, _Watched] = {}

    def add(self, parameter: Tensor) -> _Watched:
        item = _Watched(ref(parameter), parameter.dim() > 1, _edge(parameter))
        self.items.append(item)
        self._by_id[id(parameter)] = item
        return item

    def find(self, parameter: Tensor) -> _Watched | None:
        known = self._by_id.get(id(parameter))
        return known if known is not None and known.parameter() is parameter else None


class Coverage(Probe):
    """Notes the parameters that gradients go to, and compares them with what optimizers and modules hold."""

    name = "coverage"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._used = _List()  # parameters that gradients go to
        self._frozen = _List()  # those of optimizers that want none
        self._modules: WeakSet[nn.Module] = WeakSet()
        self._held: set[int] = set()

    def on_forward(self, module: nn.Module, inputs: Any, with_gradients: bool, stack: Any) -> None:
        self._modules.add(module)

    def on_backward_start(self, call: BackwardCall) -> None:
        new = [leaf for leaf in call.leaves or () if isinstance(leaf, nn.Parameter) and not self._used.find(leaf)]
        registered = {id(p) for module in self._modules for p in module.parameters()} if new else set()
        for leaf in new:
            self._used.add(leaf).is_registered = id(leaf) in registered

    def on_step_start(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._held.add(id(parameter))
                if not parameter.requires_grad:
                    (self._frozen.find(parameter) or self._frozen.add(parameter)).steps += 1

    def judge(self) -> Iterator[Judgement]:
        steps = self.run.steps
        if steps < ENOUGH or not self._used.items:
            return
        yield self._uncovered()
        yield self._unregistered()
        yield from self._misspelt()
        yield from self._moved_though_frozen()

    def _uncovered(self) -> Judgement:
        used = self._used.items
        beside = {id(p) for module in self._modules if self._is_trained(module) for p in module.parameters()}
        missing = [p for p in _alive(item for item in used if item.is_still()) if id(p) not in self._held]
        missing = [p for p in missing if id(p) in beside or not self._is_registered(p)]
        held = any(self._is_held(item) for item in used)
        matters = held and any(p.dim() > 1 for p in missing)
        verdict = "CONFIRMED" if matters else "INCONCLUSIVE" if missing else "REFUTED"
        return Judgement(
            "DL306",
            self.name,
            verdict,  # type: ignore[arg-type]
            f"{len(missing)} of {len(self._used.items)} parameters with gradients are in no optimizer and do not move"
            + self._named(missing),
            "any such matrix of a model that is trained, after 3 or more steps; none refutes",
            {"missing": len(missing), "with_gradients": len(self._used.items), "names": self._names(missing)},
            self.run.steps,
            (0, self.run.steps),
            voice="note" if self._is_a_part(missing) else "alarm",
        )

    def _unregistered(self) -> Judgement:
        strangers = [item for item in self._used.items if not item.is_registered]
        is_seen = len(strangers) < len(self._used.items)  # else what makes up the model is called by other names
        matters = is_seen and any(item.is_matrix for item in strangers)
        verdict = "CONFIRMED" if matters else "INCONCLUSIVE" if strangers else "REFUTED"
        return Judgement(
            "DL308",
            self.name,
            verdict,  # type: ignore[arg-type]
            f"{len(strangers)} of {len(self._used.items)} parameters with gradients are registered in no module"
            + self._named(_alive(strangers)),
            "any such matrix in a model that is called; none refutes",
            {"unregistered": len(strangers), "with_gradients": len(self._used.items)},
            self.run.steps,
            (0, self.run.steps),
            voice="note",
        )

    def _misspelt(self) -> Iterator[Judgement]:
        owners: list[tuple[str, list[Tensor]]] = []
        for module in self._modules:
            for name, part in module.named_modules():
                if vars(part).get("requires_grad", True) is False:
                    owners.append((f"{name or type(part).__name__}.requires_grad", list(part.parameters())))
            for name, parameter in module.named_parameters():
                owners += [(f"{name}.{typo}", [parameter]) for typo in _TYPOS if typo in vars(parameter)]
        trained = [name for name, parameters in owners if any(self._used.find(p) for p in parameters)]
        frozen = any(not p.requires_grad for module in self._modules for p in module.parameters())
        if owners or frozen:
            yield Judgement(
                "DL309",
                self.name,
                "CONFIRMED" if trained else "REFUTED",
                f"{trained[0]} is set, and gradients arrive all the same" if trained else "what is frozen has none",
                "a misspelt attribute on what has gradients; frozen parameters without any refute",
                {"set_in_vain": trained},
                self.run.steps,
                (0, self.run.steps),
                voice="alarm",
            )

    def _moved_though_frozen(self) -> Iterator[Judgement]:
        watched = [item for item in self._frozen.items if item.steps >= ENOUGH]
        still = [item for item in watched if (p := item.parameter()) is not None and not p.requires_grad]
        moved = _alive(item for item in still if not item.is_still())
        if still:
            yield Judgement(
                "DL601",
                self.name,
                "CONFIRMED" if moved else "REFUTED",
                f"{len(moved)} of {len(still)} frozen parameters in optimizers moved" + self._named(moved),
                "any change over 3 or more steps; none refutes",
                {"moved": len(moved), "frozen": len(still), "names": self._names(moved)},
                self.run.steps,
                (0, self.run.steps),
                voice="alarm",
            )

    def _is_trained(self, module: nn.Module) -> bool:
        """Whether an optimizer holds parameters of a module; it may hold none of one that only makes a loss."""
        return any(id(parameter) in self._held for parameter in module.parameters())

    def _is_registered(self, parameter: Tensor) -> bool:
        item = self._used.find(parameter)
        return item is None or item.is_registered

    def _is_held(self, item: _Watched) -> bool:
        return id(item.parameter()) in self._held

    def _names(self, parameters: list[Any]) -> list[str]:
        wanted = {id(parameter) for parameter in parameters}
        return [name for module in self._modules for name, p in module.named_parameters() if id(p) in wanted][:20]

    def _named(self, parameters: list[Any]) -> str:
        names = self._names(parameters)[:3] or [f"shape {list(p.shape)}" for p in parameters[:3]]
        return f" ({', '.join(names)}{', …' if len(parameters) > 3 else ''})" if names else ""

    def _is_a_part(self, missing: list[Any]) -> bool:
        """Whether just one child of a module is missing, with all of its parameters: a probe on fixed features."""
        wanted = {id(parameter) for parameter in missing}
        children = [child for module in self._modules for child in module.children()]
        return any({id(p) for p in child.parameters()} == wanted for child in children)


def _edge(tensor: Tensor) -> Tensor:
    return tensor.detach().flatten()[:_EDGE].clone()


def _alive(watched: Iterable[_Watched]) -> list[Tensor]:
    return [parameter for item in watched if (parameter := item.parameter()) is not None]
