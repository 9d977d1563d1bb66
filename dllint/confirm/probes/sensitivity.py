"""What a model depends on, tried out on the live model when observation is over.

Only then: until the script has been stopped, nothing of dllint's runs its model. Random states are put back, and so is
the mode of the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from dllint.confirm.evidence import Judgement
from dllint.confirm.inside.workers import random_states_kept
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Tensor, Verdict, Voice, alarm_if, decided, events, nn
from dllint.confirm.probes.replay import Inputs, KeptCall, Operations, Replaying, called

_MOST_FEATURES = 64
_SLOW = 2.0  # seconds of a call, above which features are not tried one by one
_NO_EFFECT, _NOISE = 1e-6, 1e-3  # compared with how far outputs are apart
_LEAK, _NO_LEAK = 1e-3, 1e-5  # compared with the largest logit
_DRAWING = ("bernoulli", "dropout", "multinomial", "normal", "rand", "uniform")


class Sensitivity(Replaying):
    most_models = 4

    def is_kept(self, event: events.ModelForward) -> bool:
        """Whether to keep a call: one that trains, or one of a model that is only evaluated."""
        if event.grad == "on" or self.run.backwards or event.model.training:
            return event.grad == "on"
        given = event.arguments.all()  # tensors and numbers alone, and no cache that grows
        return all(value is None or isinstance(value, (Tensor, bool, int, float, str)) for value in given)

    def judge(self) -> Judgements:
        for call, module in self.replayable() if self.run.steps >= ENOUGH or not self.run.backwards else ():
            with _as_it_was(module):
                yield from _Trial(self, module, call).judge()


class _Trial:
    """Calls of one model with changed inputs."""

    def __init__(self, probe: Sensitivity, module: nn.Module, call: KeptCall) -> None:
        self._module = module.module if isinstance(module, DistributedDataParallel) else module
        self._probe, self._call, self._inputs = probe, call, call.inputs
        tensors = {key: value for key, value in self._inputs.items() if isinstance(value, Tensor)}
        self._tensors = [key for key, value in tensors.items() if value.layout == torch.strided]

    def judge(self) -> Judgements:
        """What the outputs depend on. Nothing where the model does not take its own inputs in evaluation."""
        begin, spy = time.perf_counter(), _Spy()
        try:
            plain = self._outputs({}) if self._tensors else None
            is_slow = time.perf_counter() - begin > _SLOW
            with Operations(spy.note):
                again = self._outputs({}) if self._tensors else None
        except Exception:  # the model has another signature in evaluation, or needs what is gone
            return
        if plain is None or again is None or plain.shape != again.shape:
            return
        scale = float(plain.std()) or float(plain.abs().max()) or 1.0
        noise = float((again - plain).abs().max()) / scale
        differs, dropped, drawn = noise > _NO_EFFECT, list(spy.dropped), list(spy.drawn)
        told = f", which {', '.join(dropped or drawn)} drew for" if differs and (dropped or drawn) else ""
        verdict, found = decided(differs and dropped, not differs), {"dropped": dropped, "drawn": drawn}
        yield self._told("random-in-evaluation", verdict, told, "alarm", difference=noise, **found)
        if noise <= _NOISE and self._probe.run.steps:
            yield from self._ignored(plain, scale, noise)
            yield from self._useless(plain, scale, noise) if not is_slow else ()
            yield from self._leaks()

    def _outputs(self, changed: Inputs) -> Tensor | None:
        """All floating outputs of the model in one row; None if there are none, or they are not finite."""
        parts = [part.detach().float().reshape(-1) for part in called(self._module, {**self._inputs, **changed})]
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

    def _told(self, rule: str, verdict: Verdict, told: str, voice: Voice, **found: Any) -> Judgement:
        return self._probe.judgement(rule, self._probe.seen_at(self._call), verdict, told, voice, **found)

    def _ignored(self, plain: Tensor, scale: float, noise: float) -> Judgements:
        """Give each input to the next sample of the batch."""
        effects: dict[str, float] = {}
        for key in self._tensors:
            value = self._inputs[key]
            if value.dim() and _varies(value):
                effect = self._effect({key: value.roll(1, 0)}, plain, scale)
                effects |= {} if effect is None else {_called(key): effect}
        if effects:
            ignored = [name for name, effect in effects.items() if effect <= max(_NO_EFFECT, noise)]
            told = f"do not depend on {', '.join(ignored)}" if ignored else f"depend on {', '.join(effects)}"
            is_main = _called(self._tensors[0]) in ignored or len(ignored) == len(effects)
            found = {"effects": effects, "noise": noise}
            yield self._told("input-ignored", decided(ignored, True), told, alarm_if(is_main), **found)

    def _useless(self, plain: Tensor, scale: float, noise: float) -> Judgements:
        """Give each feature of a small input to the next sample of the batch."""
        first = self._inputs[self._tensors[0]]
        if first.dim() != 2 or not first.is_floating_point() or first.shape[1] > _MOST_FEATURES:
            return
        features: dict[int, float] = {}
        for column in range(first.shape[1]):
            changed = first.clone()
            changed[:, column] = first[:, column].roll(1, 0)
            effect = self._effect({self._tensors[0]: changed}, plain, scale) if _varies(changed[:, column]) else None
            features |= {} if effect is None else {column: effect}
        if features:
            useless = [column for column, effect in features.items() if effect <= max(_NO_EFFECT, noise)]
            verdict = decided(0 < len(useless) < len(features), not useless)
            found = {"ignored": useless, "number": len(useless), "features": len(features), "noise": noise}
            yield self._told("feature-ignored", verdict, "", "note", **found)

    def _leaks(self) -> Judgements:
        """Replace the first document of packed rows, and see whether the outputs of the others move."""
        packed = _packed(self._inputs, self._tensors)
        if packed is None:
            return
        tokens, positions = packed
        ids = self._inputs[tokens]
        first = (self._inputs[positions] == 0).cumsum(1) == 1
        replaced = torch.where(first, (ids + 1) % (ids.max() + 1), ids)
        before, after = (self._per_token(changed, ~first) for changed in ({}, {tokens: replaced}))
        if before is None or after is None or not before.numel() or not after.numel():
            return
        moved = float((after - before).abs().max()) / (float(before.abs().max()) or 1.0)
        found = {"moved": moved, "tokens": _called(tokens), "positions": _called(positions)}
        yield self._told("DL905", decided(moved > _LEAK, moved <= _NO_LEAK), "", "alarm", **found)

    def _per_token(self, changed: Inputs, chosen: Tensor) -> Tensor | None:
        """The outputs for some tokens, of the first output that has some for each token."""
        for part in called(self._module, {**self._inputs, **changed}):
            if part.dim() == 3 and part.shape[:2] == chosen.shape:
                return part.detach().float()[chosen]
        return None


class _Spy(Notes):
    """Notes functions that drop (``dropped``) and others that draw (``drawn``)."""

    dropped: dict[str, None] = {}
    drawn: dict[str, None] = {}

    def note(self, name: str, operate: Callable[[], Any], args: Any, given: Any) -> Any:
        """Note a function, and call it."""
        if "dropout" in name:
            probability = args[1] if len(args) > 1 else given.get("p", 0.5)
            training = args[2] if len(args) > 2 else given.get("training", True)
            if probability and training:
                self.dropped.setdefault(name)
        elif name == "scaled_dot_product_attention" and given.get("dropout_p", args[4] if len(args) > 4 else 0.0):
            self.dropped.setdefault(name)
        elif name.rstrip("_").startswith(_DRAWING):
            self.drawn.setdefault(name)
        return operate()


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


def _called(key: str | int) -> str:
    return f"`{key}`" if isinstance(key, str) else f"input {key + 1}"


def _packed(inputs: Inputs, keys: list[str | int]) -> tuple[str | int, str | int] | None:
    """The tokens and the positions of rows that hold several documents, which positions that restart tell."""
    whole = [key for key in keys if inputs[key].dim() == 2 and not inputs[key].is_floating_point()]
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
