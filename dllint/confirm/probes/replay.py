"""Calls of models that are kept, and made again on copies of them when observation is over.

What the copies do changes nothing of the script's: neither weights and buffers, nor modes, nor random states.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from dllint.confirm.evidence import Stack
from dllint.confirm.inside.stacks import stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.confirm.probes.random_states import random_states_kept
from dllint.events import ModelForward

_MOST_MODELS = 8
_MOST_ELEMENTS = 16_000_000  # of inputs that are kept
_MOST_WEIGHTS = 100_000_000  # of a model that is copied
_MOST_TRACED = 50_000_000  # elements of activations that are compared
_SAME = 1e-5  # compared with how far the numbers of a tensor are apart

Inputs = dict[str | int, Any]  # arguments by position or name


@dataclass(slots=True)
class KeptCall:
    """The last call of a model with gradients."""

    module: ref[nn.Module]
    inputs: Inputs
    stack: Stack
    calls: int


class Replaying(Probe):
    """A probe that keeps the last inputs of each model that trains."""

    turn = 2  # it calls models

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.calls: WeakKeyDictionary[nn.Module, KeptCall] = WeakKeyDictionary()

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        known = self.calls.get(module)
        if event.grad != "on" or (known is None and len(self.calls) >= _MOST_MODELS):
            return
        named: Any = event.arguments.keywords
        given = {**dict(enumerate(event.arguments.positional)), **named}
        kept = {key: value.detach() if isinstance(value, Tensor) else value for key, value in given.items()}
        if sum(value.numel() for value in kept.values() if isinstance(value, Tensor)) <= _MOST_ELEMENTS:
            self.calls[module] = KeptCall(ref(module), kept, stack_of(event), known.calls + 1 if known else 1)

    def copies(self) -> Iterator[tuple[KeptCall, nn.Module]]:
        """The calls of models that can be made again, each with a copy of its model in evaluation mode."""
        is_over = self.run.ended_by in ("budget", "end", "backwards") and self.run.steps >= ENOUGH
        if not is_over or threading.current_thread() is not threading.main_thread():
            return
        for call in list(self.calls.values()):
            module = call.module()
            if module is not None and call.calls >= ENOUGH and can_be_called(module):
                made = _copied(module)
                if made is not None:
                    with random_states_kept(), torch.no_grad():
                        yield call, made


def can_be_called(module: nn.Module) -> bool:
    """Whether calling a model once more involves no other process."""
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return not several or isinstance(module, DistributedDataParallel)


def tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """The floating tensors of an output, which may be a tuple, a dict or an object of several."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif depth:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        for part in parts or getattr(value, "__dict__", {}).values():
            yield from tensors(part, depth - 1)


def outputs(module: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The floating outputs of a model; none where it refuses the inputs."""
    positional = [inputs[key] for key in sorted(key for key in inputs if isinstance(key, int))]
    named = {key: value for key, value in inputs.items() if isinstance(key, str)}
    try:
        return list(map(_kept, tensors(module(*positional, **named))))
    except Exception:  # it has another signature in evaluation, or needs what is gone
        return []


def _copied(module: nn.Module) -> nn.Module | None:
    whole = module.module if isinstance(module, DistributedDataParallel) else module
    if sum(each.numel() for each in whole.parameters()) > _MOST_WEIGHTS:
        return None
    try:
        return copy.deepcopy(whole).eval()
    except Exception:  # it holds what cannot be copied: a graph, a lock, a file
        return None


def _differ(left: Tensor, right: Tensor) -> bool:
    return left.shape != right.shape or not bool((left == right).all())


def _kept(tensor: Tensor) -> Tensor:
    return tensor.detach().float().clone()


# ------------------------------------------------------------------------------------------- how far changes spread


def is_confined(before: list[Tensor], after: list[Tensor], chosen: Tensor) -> bool | None:
    """Whether tensors have changed at the chosen steps of one axis alone.

    ``None`` where they have not changed, have no such axis, or two of them, as the similarities of samples have.
    """
    found = [_is_confined(old, new, chosen) for old, new in zip(before, after, strict=False)]
    return None if set(found) <= {None} else False not in found


def _is_confined(before: Tensor, after: Tensor, chosen: Tensor) -> bool | None:
    if before.shape != after.shape or not before.numel():
        return None
    moved = (after - before).abs() > _SAME * (float(before.std()) if before.numel() > 1 else 1.0)
    axes = [axis for axis, size in enumerate(before.shape) if size == len(chosen)]
    times, surplus = divmod(before.shape[0], len(chosen)) if before.dim() else (0, 1)
    is_joined = not axes and times > 1 and not surplus
    if len(axes) > 1 or not (axes or is_joined) or not bool(moved.any()):
        return None
    if axes:
        return not bool(moved.movedim(axes[0], 0)[~chosen].any())
    return any(not bool(moved[~each].any()) for each in (chosen.repeat_interleave(times), chosen.repeat(times)))


@dataclass(slots=True)
class Culprit:
    """The first operation that was given a change at the chosen steps alone, and returned one beyond them."""

    name: str  # of the module that it belongs to
    modules: list[nn.Module]  # that are being called then, the innermost last
    stack: Stack


class Trace:
    """Two calls of a model, the inputs of which differ at chosen steps of one axis: where others begin to change."""

    def __init__(self, module: nn.Module, chosen: Tensor) -> None:
        self._module, self._chosen = module, chosen
        self._told: list[tuple[str, list[Tensor]]] = []
        self._at: int | None = None  # what of that the second call has come to
        self._open: list[tuple[str, nn.Module, bool | None]] = []
        self._size = 0
        self.culprit: Culprit | None = None
        self.confined: list[tuple[nn.Module, Stack]] = []

    def compare(self, first: Inputs, second: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs of both calls; none where a model draws in evaluation, too, or refuses the inputs."""
        plain = outputs(self._module, first)
        with self._watched():
            before = outputs(self._module, first)
            if not plain or len(plain) != len(before) or any(map(_differ, plain, before)):
                return [], []
            self._at = 0
            return before, outputs(self._module, second)

    def operate(self, name: str, operate: Callable[[], Any], given: Any) -> Any:
        """Carry an operation out, and see what it makes of a change."""
        was = self._compared(name, list(tensors(given)))
        result = operate()
        now = self._compared(name, list(tensors(result)))
        if was is True and now is False and self.culprit is None and self._open:
            self.culprit = Culprit(self._open[-1][0], [module for _, module, _ in self._open], stack())
        return result

    @contextmanager
    def _watched(self) -> Iterator[None]:
        hooks = []
        for name, part in self._module.named_modules():
            hooks.append(part.register_forward_pre_hook(self._before(name), with_kwargs=True))
            hooks.append(part.register_forward_hook(self._after(name)))
        try:
            with _Operations(self):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _before(self, name: str) -> Any:
        def hook(module: nn.Module, given: Any, named: Any) -> None:
            with _unwatched():
                self._open.append((name, module, self._compared(name, [*tensors(given), *tensors(named)])))

        return hook

    def _after(self, name: str) -> Any:
        def hook(module: nn.Module, given: Any, result: Any) -> None:
            with _unwatched():
                now = self._compared(name, list(tensors(result)))
            if self._open.pop()[2] is True and now:
                self.confined.append((module, stack()))

        return hook

    def _compared(self, name: str, found: list[Tensor]) -> bool | None:
        """In the first call, keep some tensors; in the second, compare them with those that were kept."""
        if self._at is None:
            self._size += sum(each.numel() for each in found)
            self._told.append((name, list(map(_kept, found)) if self._size <= _MOST_TRACED else []))
            return None
        known = self._told[self._at] if self._at < len(self._told) else ("", [])
        self._at += 1
        return is_confined(known[1], list(map(_kept, found)), self._chosen) if known[0] == name else None


class _Operations(TorchFunctionMode):
    """Tells of each operation of torch's that is called by name."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__", "size", "dim"):
            return function(*given, **(named or {}))
        everything = [given, named or {}]
        return self._trace.operate(name, lambda: function(*given, **(named or {})), everything)


def _unwatched() -> Any:
    return torch._C.DisableTorchFunction()
