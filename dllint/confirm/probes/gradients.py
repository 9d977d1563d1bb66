"""Where the gradients of each optimizer come from, whether they are cleared, and whether they are used.

Of each optimizer a few small parameters stand for all. Whether a gradient was cleared shows in the tensor itself (a new
one, or one that was zeroed), so that any way of clearing counts.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any
from weakref import ref

from torch import Tensor, nn
from torch.optim import Optimizer

from dllint.confirm.inside.devices import local
from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, Samples, alarm_if, decided, parameters_of, repeated
from dllint.confirm.probes.events import Stack, stack_of
from dllint.confirm.probes.graph import leaves

_SAMPLES = 3
_PART = 100_000  # elements of a sample that are kept, to see whether it moves
_MANY = 64  # backward passes without a step that are no accumulation
_OVER = ("end", "backwards")  # why a run ends that would have come to a step
_LOOKED_AT = 3  # backward passes from each place whose graph is looked at


class Tracked:
    """What is known about one optimizer and its gradients.

    Attributes:
        is_fresh: gradients have arrived that no step has used.
        is_partial: some of what its next step uses may have come while nobody looked.
        followed: its steps of which all was seen.
        is_scaled: these are the gradients of a scaled loss; ``was_scaled``: some have been.
        window: for each place, the backward passes from there that the present gradients are the sum of.
    """

    def __init__(self, optimizer: Optimizer, stack: Stack) -> None:
        self._optimizer = ref(optimizer)
        self.kind = type(optimizer).__name__
        self.made = stack
        self.steps = self.followed = self.reached = self.stale = self.empty = self.early = self.looked = 0
        self.is_cleared = False  # zero_grad was called after the last backward pass
        self.is_ahead = False  # a model was called after the last backward pass
        self.is_fresh = self.is_scaled = self.was_scaled = self.was_used = self.is_polluted = self.is_partial = False
        self.window: dict[Stack, int] = {}
        self.backward_stacks: dict[Stack, None] = {}
        self.step_stacks: dict[Stack, None] = {}
        self.clear_stacks: dict[Stack, None] = {}
        self._begin: list[tuple[ref[Tensor], Tensor]] = []
        self._has_moved = False
        self._samples: list[ref[Tensor]] = []
        self._number = -1  # of the parameters that the samples were taken from
        # samples, their gradients, the versions of these, and whether they are left from before
        self._before: list[tuple[Tensor, Tensor | None, int, bool]] = []
        self._left: dict[int, tuple[ref[Tensor], int]] = {}  # a sample's gradient and version as last seen non-zero

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer, while it exists."""
        return self._optimizer()

    def parameters(self) -> list[Tensor]:
        """All of its parameters."""
        optimizer = self.optimizer
        return [] if optimizer is None else parameters_of(optimizer)

    def seen(self, looks: int, *stacks: Stack) -> Samples:
        """What was seen of its steps, at places that there are."""
        return Samples(stacks=tuple(filter(None, stacks)), last=self.steps, looks=looks, what=self.kind)

    def samples(self) -> list[Tensor]:
        """The smallest of the first, the middle and the last of its trainable parameters, matrices before vectors.

        They are from all over the model, since layers may be skipped in some steps.
        """
        optimizer = self.optimizer
        if optimizer is None:
            return []
        number = sum([len(group["params"]) for group in optimizer.param_groups])
        samples = [p for p in [known() for known in self._samples] if p is not None and p.requires_grad]
        if number != self._number or len(samples) < len(self._samples):
            trainable = [p for p in self.parameters() if p.requires_grad]
            bounds = [len(trainable) * part // _SAMPLES for part in range(_SAMPLES + 1)]
            parts = [trainable[start:end] for start, end in pairwise(bounds) if start < end]
            samples = [min(part, key=lambda p: (p.dim() < 2, p.numel())) for part in parts]
            self._samples = [ref(p) for p in samples]
            self._number = number
        return samples

    def look_before(self) -> None:
        """Note the gradients before a backward pass."""
        samples = self.samples()
        if not self._begin:
            self._begin = [(ref(p), _part(p).clone()) for p in samples]
        self._before = []
        for p in samples:
            gradient, known = p.grad, self._left.get(id(p))
            version = -1 if gradient is None else gradient._version
            is_as_left = known is not None and known[0]() is gradient and known[1] == version
            is_dirty = gradient is not None and (is_as_left or bool(gradient.any()))
            self._before.append((p, gradient, version, is_dirty))

    def look_after(self, call: events.BackwardCall, scaled: bool) -> bool:
        """Compare with the gradients after the backward pass. Returns whether it reached this optimizer."""
        added: list[bool] = []  # of each gradient that has changed, whether it was added to what was left there
        for parameter, before, version, is_dirty in self._before:
            now = parameter.grad
            if now is not None and (now is not before or now._version != version):
                added.append(is_dirty and now is before)
                self._left[id(parameter)] = (ref(now), now._version)
        self._before = []  # which would keep the gradients
        if not added:
            return False
        if any(added):
            self.is_polluted = self.is_polluted or self.was_used
        else:
            self.is_polluted = self.was_used = False
            self.window = {}
        self.window[stack_of(call)] = self.window.get(stack_of(call), 0) + 1
        self.backward_stacks.setdefault(stack_of(call))
        self.reached += 1
        self.is_ahead = self.is_cleared = False
        self.is_fresh, self.is_scaled = True, scaled
        self.was_scaled = self.was_scaled or scaled
        return True

    def cleared(self, stack: Stack) -> None:
        """Note that ``zero_grad`` was called for it."""
        self.clear_stacks.setdefault(stack)
        self.is_cleared = True

    def stepped(self, stack: Stack, look: bool) -> None:
        """Note a step, and what it used."""
        self.step_stacks.setdefault(stack)
        self.steps += 1
        if self.is_partial:  # not all of it was seen
            self.window, self._left, self.was_used = {}, {}, True
            self.is_partial = self.is_fresh = self.is_scaled = False
            self.is_polluted = self.is_ahead = self.is_cleared = False
            return
        self.followed += 1
        self.stale += self.is_polluted
        if look and self.reached:
            self.looked += 1
            gradients = [p.grad for p in self.parameters() if p.grad is not None]
            is_set_to_zero = self.is_cleared and not any(bool(gradient.any()) for gradient in gradients)
            is_empty = not gradients or is_set_to_zero  # what is computed as zero is a gradient
            self.empty += is_empty and not self.is_ahead
            self.early += is_empty and self.is_ahead
            self.has_moved()
        self.was_used = self.is_polluted or self.is_fresh or self.was_used
        self.is_fresh = self.is_scaled = False

    def has_moved(self) -> bool:
        """Whether a sample has had another value than before the first backward pass."""
        if not self._has_moved:
            now = [(known(), start) for known, start in self._begin]
            self._has_moved = any(p is not None and not bool((_part(p) == start).all()) for p, start in now)
        return self._has_moved


class Gradients(Probe):
    turn = -1
    tracked: list[Tracked] = []
    _scaled: tuple[Any, Tensor] | None = None
    _scale: float | None = None  # that it was scaled by
    _passes: Counter[Stack] = Counter()

    def begin(self) -> None:
        self.run.gradients = self

    def of(self, optimizer: Optimizer) -> Tracked:
        """What is known about an optimizer."""
        known = self.run.tracked.get(optimizer)
        if known is None:
            inner = getattr(optimizer, "optimizer", None)  # of a wrapper, such as that of Accelerate
            known = self.of(inner) if isinstance(inner, Optimizer) else self._track(optimizer, ())
        return known

    def _track(self, optimizer: Optimizer, stack: Stack) -> Tracked:
        tracked = self.run.tracked[optimizer] = Tracked(optimizer, stack)
        self.tracked.append(tracked)
        return tracked

    def on_optimizer_created(self, event: events.OptimizerCreated) -> None:
        self._track(event.optimizer, stack_of(event))

    def on_scale(self, scaler: Any, scaled: Tensor) -> None:
        self._scaled = (scaler, scaled) if scaler.is_enabled() else None
        self._scale = None

    def scale_of(self, roots: Any) -> float | None:
        """What a scaler has multiplied the root of a backward pass by; None if it has not."""
        if self._scaled is None or not any(root is self._scaled[1] for root in roots):
            return None
        if self._scale is None:  # it is read from the device once
            self._scale = float(self._scaled[0].get_scale())
        return self._scale

    def before_backward(self, call: events.BackwardCall) -> None:
        call.scale = self.scale_of(call.roots) or 1.0
        self._passes[stack_of(call)] += 1
        if self._passes[stack_of(call)] <= _LOOKED_AT:
            call.leaves = leaves(call.roots)
        for tracked in self.tracked:
            tracked.look_before()

    def on_gap(self) -> None:
        for tracked in self.tracked:
            tracked.is_partial = True

    def on_backward(self, call: events.BackwardCall) -> None:
        scaled = self.scale_of(call.roots) is not None
        for tracked in self.tracked:
            tracked.look_after(call, scaled)

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on":
            for tracked in self.tracked:
                tracked.is_ahead = True

    def on_scaler_unscale(self, event: events.ScalerUnscale) -> None:
        if event.optimizer is not None:
            self.of(event.optimizer).is_scaled = False

    def on_zero_grad(self, event: events.ZeroGrad) -> None:
        owner: Optimizer | nn.Module = event.target
        stack = stack_of(event)
        if isinstance(owner, Optimizer):
            self.of(owner).cleared(stack)
            return
        owned = {id(parameter) for parameter in owner.parameters()}
        for tracked in self.tracked:
            if not owned.isdisjoint(map(id, tracked.samples())):
                tracked.cleared(stack)

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        tracked = self.of(event.optimizer)
        tracked.stepped(stack_of(event), tracked.looked < ENOUGH or tracked.steps % self.run.settings.every == 0)

    def judge(self) -> Judgements:
        for tracked in self.tracked if self.run.settings.mode == "observe" else ():
            if tracked.reached:
                moved, is_over = tracked.has_moved(), self.run.ended_by in _OVER
                is_used = bool(tracked.steps) or moved
                is_enough = tracked.reached >= ENOUGH and (is_used or is_over or tracked.reached >= _MANY)
                verdict, how = decided(is_enough and not is_used, is_enough), "moved" if moved else "never moved"
                seen = tracked.seen(tracked.reached, *tracked.backward_stacks)
                yield self.judgement("DL201", seen, verdict, "", alarm_if(is_over), steps=tracked.steps, how=how)
            if tracked.steps >= ENOUGH:
                seen = tracked.seen(tracked.followed, *tracked.step_stacks, *tracked.backward_stacks)
                numbers = {"stale": tracked.stale, "steps": tracked.followed}
                yield self.judgement("DL202", seen, repeated(tracked.stale), **numbers)
            if tracked.looked >= ENOUGH:
                seen = tracked.seen(tracked.looked, *tracked.clear_stacks, *tracked.step_stacks)
                found = {"empty": tracked.empty, "backwards": tracked.reached}
                yield self.judgement("DL203", seen, repeated(tracked.empty), **found)
                seen = tracked.seen(tracked.looked, *tracked.step_stacks, *tracked.backward_stacks)
                yield self.judgement("DL204", seen, repeated(tracked.early), early=tracked.early)


def _part(parameter: Tensor) -> Tensor:
    return local(parameter.detach()).flatten()[:_PART]
