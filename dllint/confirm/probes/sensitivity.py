"""What a model depends on, tried out on the live model when observation is over.

Only then: until the script has been stopped, nothing of dllint's runs its model. Random states are put back, and so is
the mode of the model.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.inside.spy import Spy
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.confirm.probes.random_states import random_states_kept
from dllint.confirm.probes.replay import Inputs, can_be_called, tensors
from dllint.events import ModelForward

_MOST_MODELS = 4
_MOST_ELEMENTS = 16_000_000  # of inputs that are kept
_MOST_FEATURES = 64
_SLOW = 2.0  # seconds of a call, above which features are not tried one by one
_NO_EFFECT, _NOISE = 1e-6, 1e-3  # compared with how far outputs are apart
_LEAK, _NO_LEAK = 1e-3, 1e-5  # compared with the largest logit


@dataclass(slots=True)
class _Call:
    """The last call of a model with gradients, or of one that is only evaluated."""

    module: ref[nn.Module]
    inputs: Inputs
    stack: Stack
    calls: int = 1
    tensors: list[str | int] = field(default_factory=list)


class Sensitivity(Probe):
    """Keeps the last inputs of each model, and calls it with others at the end."""

    name = "sensitivity"
    turn = 2  # it calls the model

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._calls: WeakKeyDictionary[nn.Module, _Call] = WeakKeyDictionary()

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        inputs = event.arguments.positional
        named: Any = event.arguments.keywords
        if event.grad != "on" and (self.run.backwards or module.training or not _are_plain([*inputs, *named.values()])):
            return
        known = self._calls.get(module)
        if known is None and len(self._calls) >= _MOST_MODELS:
            return
        given: Inputs = {**dict(enumerate(inputs)), **named}
        tensors = [key for key, value in given.items() if isinstance(value, Tensor) and value.layout == torch.strided]
        if tensors and sum(given[key].numel() for key in tensors) <= _MOST_ELEMENTS:
            kept: Inputs = {key: value.detach() if isinstance(value, Tensor) else value for key, value in given.items()}
            calls = known.calls + 1 if known is not None else 1
            self._calls[module] = _Call(ref(module), kept, stack_of(event), calls, tensors)

    def judge(self) -> Iterator[Judgement]:
        is_enough = self.run.steps >= ENOUGH or not self.run.backwards
        is_over = self.run.ended_by in ("budget", "end", "backwards") and is_enough
        if not is_over or threading.current_thread() is not threading.main_thread():
            return
        for call in list(self._calls.values()):
            module = call.module()
            if module is not None and call.calls >= ENOUGH and can_be_called(module):
                with _as_it_was(module):
                    yield from _Trial(module, call, self.run.steps).judge()


class _Trial:
    """Calls of one model with changed inputs."""

    def __init__(self, module: nn.Module, call: _Call, steps: int) -> None:
        self._module = module.module if isinstance(module, DistributedDataParallel) else module
        self._call, self._steps = call, steps

    def judge(self) -> Iterator[Judgement]:
        """What the outputs depend on. Nothing where the model does not take its own inputs in evaluation."""
        begin = time.perf_counter()
        try:
            plain = self._outputs({})
            is_slow = time.perf_counter() - begin > _SLOW
            with Spy() as spy:
                again = self._outputs({})
        except Exception:  # the model has another signature in evaluation, or needs what is gone
            return
        if plain is None or again is None or plain.shape != again.shape:
            return
        scale = float(plain.std()) or float(plain.abs().max()) or 1.0
        noise = float((again - plain).abs().max()) / scale
        yield self._randomness(noise, spy.dropped, spy.drawn)
        if noise <= _NOISE and self._steps:
            yield from self._ignored(plain, scale, noise, is_slow)
            yield from self._leaks(plain)

    def _outputs(self, changed: Inputs) -> Tensor | None:
        """All floating outputs of the model in one row; None if there are none, or they are not finite."""
        given = {**self._call.inputs, **changed}
        positional = [given[key] for key in sorted(key for key in given if isinstance(key, int))]
        named = {key: value for key, value in given.items() if isinstance(key, str)}
        parts = [part.detach().float().reshape(-1) for part in tensors(self._module(*positional, **named), 3)]
        row = torch.cat(parts) if parts else None
        return row if row is not None and row.numel() and bool(row.isfinite().all()) else None

    def _effect(self, changed: Inputs, plain: Tensor, scale: float) -> float | None:
        """How far outputs move, compared with how far they are apart; None if they cannot be compared."""
        try:
            outputs = self._outputs(changed)
        except Exception:  # an input that must fit the others
            return None
        comparable = outputs is not None and outputs.shape == plain.shape
        return float((outputs - plain).abs().max()) / scale if comparable else None  # type: ignore[operator]

    def _randomness(self, noise: float, dropped: list[str], drawn: list[str]) -> Judgement:
        differs = noise > _NO_EFFECT
        by = f", which {', '.join(dropped or drawn)} drew for" if differs and (dropped or drawn) else ""
        return self._judgement(
            "random-in-evaluation",
            "REFUTED" if not differs else "CONFIRMED" if dropped else "INCONCLUSIVE",
            f"two calls in evaluation mode with the same input differ by {noise:.3g} of the spread of the outputs{by}",
            "any difference, where dropout drew; no difference refutes",
            {"difference": noise, "dropped": dropped, "drawn": drawn},
            "alarm",
        )

    def _ignored(self, plain: Tensor, scale: float, noise: float, is_slow: bool) -> Iterator[Judgement]:
        """Give each input, and each feature of a small one, to the next sample of the batch."""
        effects: dict[str, float] = {}
        for key in self._call.tensors:
            value = self._call.inputs[key]
            if value.dim() and _varies(value):
                effect = self._effect({key: value.roll(1, 0)}, plain, scale)
                effects |= {} if effect is None else {_called(key): effect}
        features: dict[int, float] = {}
        first = self._call.inputs[self._call.tensors[0]]
        if first.dim() == 2 and first.is_floating_point() and first.shape[1] <= _MOST_FEATURES and not is_slow:
            for column in range(first.shape[1]):
                changed = first.clone()
                changed[:, column] = first[:, column].roll(1, 0)
                effect = (
                    self._effect({self._call.tensors[0]: changed}, plain, scale)
                    if _varies(changed[:, column])
                    else None
                )
                features |= {} if effect is None else {column: effect}
        limit = max(_NO_EFFECT, noise)
        if effects:
            ignored = [name for name, effect in effects.items() if effect <= limit]
            main = _called(self._call.tensors[0]) in ignored
            yield self._judgement(
                "input-ignored",
                "CONFIRMED" if ignored else "REFUTED",
                f"the outputs do not depend on {', '.join(ignored)}"
                if ignored
                else f"the outputs depend on {', '.join(effects)}",
                "no output moves by more than 1e-6 of their spread when samples trade the input; else refuted",
                {"effects": effects, "noise": noise},
                "alarm" if main or len(ignored) == len(effects) else "note",
            )
        if features:
            useless = [column for column, effect in features.items() if effect <= limit]
            yield self._judgement(
                "feature-ignored",
                "CONFIRMED" if 0 < len(useless) < len(features) else "REFUTED" if not useless else "INCONCLUSIVE",
                f"the outputs do not depend on {len(useless)} of {len(features)} features"
                + (f" ({', '.join(map(str, useless[:8]))}{', …' if len(useless) > 8 else ''})" if useless else ""),
                "no output moves by more than 1e-6 of their spread when samples trade the feature; else refuted",
                {"ignored": useless, "features": len(features), "noise": noise},
                "note",
            )

    def _leaks(self, plain: Tensor) -> Iterator[Judgement]:
        """Replace the first document of packed rows, and see whether the outputs of the others move."""
        found = _packed(self._call.inputs, self._call.tensors)
        if found is None:
            return
        tokens, positions = found
        ids = self._call.inputs[tokens]
        first = (self._call.inputs[positions] == 0).cumsum(1) == 1
        replaced = torch.where(first, (ids + 1) % (ids.max() + 1), ids)
        later = ~first
        outputs = [self._per_token(changed, later) for changed in ({}, {tokens: replaced})]
        if any(item is None or not item.numel() for item in outputs):
            return
        before, after = outputs
        moved = float((after - before).abs().max()) / (float(before.abs().max()) or 1.0)  # type: ignore[operator, union-attr]
        yield self._judgement(
            "DL905",
            "CONFIRMED" if moved > _LEAK else "REFUTED" if moved <= _NO_LEAK else "INCONCLUSIVE",
            f"other tokens in the first document of a row move the outputs of those after it by {moved:.3g} of the "
            "largest",
            "over 1e-3 of the largest output; 1e-5 or less refutes",
            {"moved": moved, "tokens": _called(tokens), "positions": _called(positions)},
            "alarm",
        )

    def _per_token(self, changed: Inputs, chosen: Tensor) -> Tensor | None:
        """The outputs for some tokens, of the first output that has some for each token."""
        given = {**self._call.inputs, **changed}
        positional = [given[key] for key in sorted(key for key in given if isinstance(key, int))]
        named = {key: value for key, value in given.items() if isinstance(key, str)}
        for part in tensors(self._module(*positional, **named), 3):
            if part.dim() == 3 and part.shape[:2] == chosen.shape:
                return part.detach().float()[chosen]
        return None

    def _judgement(
        self, rule: str, verdict: Verdict, what: str, threshold: str, numbers: dict[str, Any], voice: Voice
    ) -> Judgement:
        return Judgement(
            rule,
            "sensitivity",
            verdict,
            what,
            threshold,
            numbers,
            1,
            (self._steps, self._steps),
            (self._call.stack,),
            voice,
        )


@contextmanager
def _as_it_was(module: nn.Module) -> Iterator[None]:
    """A model in evaluation mode, and random states as they are, for a while."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with random_states_kept():
            yield
    finally:
        for part, training in modes:
            part.training = training


def _varies(value: Tensor) -> bool:
    return len(value) > 1 and bool((value != value.roll(1, 0)).any())


def _are_plain(values: list[Any]) -> bool:
    """Whether a call is given tensors and numbers alone, and no cache that grows."""
    return all(value is None or isinstance(value, (Tensor, bool, int, float, str)) for value in values)


def _called(key: str | int) -> str:
    return f"`{key}`" if isinstance(key, str) else f"input {key + 1}"


def _packed(inputs: Inputs, tensors: list[str | int]) -> tuple[str | int, str | int] | None:
    """The tokens and the positions of rows that hold several documents, which positions that restart tell."""
    whole = [key for key in tensors if inputs[key].dim() == 2 and not inputs[key].is_floating_point()]
    for positions in whole:
        value = inputs[positions]
        follows = (value[:, 1:] == value[:, :-1] + 1) | (value[:, 1:] == 0)
        starts = (value == 0).sum(1)
        if value.shape[1] > 1 and bool((value[:, 0] == 0).all()) and bool(follows.all()) and bool((starts > 1).any()):
            same = [key for key in whole if key != positions and inputs[key].shape == value.shape]
            tokens = [key for key in same if int(inputs[key].max()) > 1]  # masks are none
            if tokens and int(value.max()) > 0:
                return tokens[0], positions
    return None
