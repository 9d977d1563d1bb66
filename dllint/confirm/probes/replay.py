"""Calls of models that are kept, and made again on copies of them when observation is over.

What the copies do changes nothing of the script's: neither weights and buffers, nor modes, nor random states.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, ref

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from dllint.confirm.inside.stacks import stack
from dllint.confirm.inside.workers import random_states_kept
from dllint.confirm.probes.base import ENOUGH, Notes, Probe, Samples, Stack, Tensor, events, nn, stack_of
from dllint.confirm.probes.rank_comparison import are_several_ranks

_MOST_ELEMENTS = 16_000_000  # of inputs that are kept
_MOST_WEIGHTS = 100_000_000  # of a model that is copied
_MOST_TRACED = 50_000_000  # elements of activations that are compared
_SAME = 1e-5  # compared with how far the numbers of a tensor are apart

Inputs = dict[str | int, Any]  # arguments by position or name


class KeptCall(Notes):
    module: ref[nn.Module]
    inputs: Inputs
    stack: Stack
    calls: int


class Replaying(Probe):
    """A probe that keeps the last inputs of each model."""

    turn = 2  # it calls models
    most_models: ClassVar[int] = 8
    calls: WeakKeyDictionary[nn.Module, KeptCall] = WeakKeyDictionary()

    def is_kept(self, event: events.ModelForward) -> bool:
        """Whether to keep a call: one that trains."""
        return event.grad == "on"

    def on_model_forward(self, event: events.ModelForward) -> None:
        known = self.calls.get(event.model)
        if not self.is_kept(event) or (known is None and len(self.calls) >= self.most_models):
            return
        named: Any = event.arguments.keywords
        given: Inputs = {**dict(enumerate(event.arguments.positional)), **named}
        kept = {key: value.detach() if isinstance(value, Tensor) else value for key, value in given.items()}
        if sum(value.numel() for value in kept.values() if isinstance(value, Tensor)) <= _MOST_ELEMENTS:
            calls = known.calls + 1 if known is not None else 1
            self.calls[event.model] = KeptCall(ref(event.model), kept, stack_of(event), calls)

    def replayable(self) -> Iterator[tuple[KeptCall, nn.Module]]:
        """The calls that can be made again, and their models: none but where observation is over, in the main thread,
        and where that involves no other process."""
        is_over = self.run.ended_by in ("budget", "end", "backwards")
        is_main = threading.current_thread() is threading.main_thread()
        for call in list(self.calls.values()) if is_over and is_main else ():
            module = call.module()
            is_alone = not are_several_ranks() or isinstance(module, DistributedDataParallel)
            if module is not None and call.calls >= ENOUGH and is_alone:
                yield call, module

    def copies(self) -> Iterator[tuple[KeptCall, nn.Module]]:
        """The same, each with a copy of its model in evaluation mode."""
        for call, module in self.replayable() if self.run.steps >= ENOUGH else ():
            made = _copied(module)
            if made is not None:
                with random_states_kept(), torch.no_grad():
                    yield call, made

    def seen_at(self, call: KeptCall, culprit: Culprit | None = None) -> Samples:
        """What is seen of a call, and where inside of it."""
        return self.now(*((culprit.stack,) if culprit is not None and culprit.stack != call.stack else ()), call.stack)


def tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """The floating tensors of an output, which may be a tuple, a dict or an object of several."""
    if isinstance(value, Tensor):
        if value.is_floating_point():
            yield value
    elif depth:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        for part in parts or getattr(value, "__dict__", {}).values():
            yield from tensors(part, depth - 1)


def called(module: nn.Module, inputs: Inputs) -> Iterator[Tensor]:
    """The floating outputs of a model."""
    positional = [inputs[key] for key in sorted(key for key in inputs if isinstance(key, int))]
    named = {key: value for key, value in inputs.items() if isinstance(key, str)}
    return tensors(module(*positional, **named))


def outputs(module: nn.Module, inputs: Inputs) -> list[Tensor]:
    """Copies of the floating outputs of a model; none where it refuses the inputs."""
    try:
        return list(map(_kept, called(module, inputs)))
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


class Culprit(Notes):
    """An operation that was given a change at the chosen steps alone: the first that returned one beyond them."""

    name: str  # of the module that it belongs to
    modules: list[nn.Module]  # that are being called then, the innermost last
    stack: Stack


class Trace(Notes):
    """Two calls of a model, the inputs of which differ at chosen steps of one axis: where others begin to change."""

    _module: nn.Module
    _chosen: Tensor
    _told: list[tuple[str, list[Tensor]]] = []
    _at: int | None = None  # what of that the second call has come to
    _open: list[tuple[str, nn.Module, bool | None]] = []
    _size: int = 0
    culprit: Culprit | None = None
    confined: list[Culprit] = []  # modules that returned none

    def compare(self, first: Inputs, second: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """The outputs of both calls; none where a model draws in evaluation, too, or refuses the inputs."""
        plain = outputs(self._module, first)
        with self._watched():
            before = outputs(self._module, first)
            is_same = len(plain) == len(before) and all(map(torch.equal, plain, before))
            if not plain or not is_same:
                return [], []
            self._at = 0
            return before, outputs(self._module, second)

    def _operate(self, name: str, operate: Callable[[], Any], given: Any, named: Any) -> Any:
        """Carry an operation out, and see what it makes of a change."""
        if name in ("__get__", "__set__", "size", "dim"):
            return operate()
        was = self._compared(name, list(tensors([given, named])))
        result = operate()
        now = self._compared(name, list(tensors(result)))
        if was is True and now is False and self.culprit is None and self._open:
            self.culprit = Culprit(self._open[-1][0], [module for _, module, _ in self._open], stack())
        return result

    def _watched(self) -> ExitStack:
        """Tells of each module and operation of the model, until it is left."""
        watching = ExitStack()
        for name, part in self._module.named_modules():
            watching.enter_context(part.register_forward_pre_hook(partial(self._enter, name), with_kwargs=True))
            watching.enter_context(part.register_forward_hook(partial(self._leave, name)))
        watching.enter_context(Operations(self._operate))
        return watching

    def _enter(self, name: str, module: nn.Module, given: Any, named: Any) -> None:
        with torch._C.DisableTorchFunction():
            self._open.append((name, module, self._compared(name, [*tensors(given), *tensors(named)])))

    def _leave(self, name: str, module: nn.Module, given: Any, result: Any) -> None:
        with torch._C.DisableTorchFunction():
            now = self._compared(name, list(tensors(result)))
        if self._open.pop()[2] is True and now:
            self.confined.append(Culprit(type(module).__name__, [module], stack()))

    def _compared(self, name: str, found: list[Tensor]) -> bool | None:
        """In the first call, keep some tensors; in the second, compare them with those that were kept."""
        if self._at is None:
            self._size += sum(each.numel() for each in found)
            self._told.append((name, list(map(_kept, found)) if self._size <= _MOST_TRACED else []))
            return None
        known = self._told[self._at] if self._at < len(self._told) else ("", [])
        self._at += 1
        return is_confined(known[1], list(map(_kept, found)), self._chosen) if known[0] == name else None


class Operations(TorchFunctionMode):
    """Has the operations of torch's carried out by a function, which is given the name and the arguments of each."""

    def __init__(self, carry_out: Callable[[str, Callable[[], Any], Any, Any], Any]) -> None:
        super().__init__()
        self._carry_out = carry_out

    def __torch_function__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        """Have one carried out."""
        named = named or {}
        name = getattr(function, "__name__", str(function))
        return self._carry_out(name, partial(function, *given, **named), given, named)
