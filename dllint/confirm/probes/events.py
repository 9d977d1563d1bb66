"""What happens in a run, as probes are told of it: events of the vocabulary, whose values are the real objects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from dllint import events
from dllint.confirm.evidence import Stack as Stack
from dllint.confirm.inside.loaders import Batches as Batches
from dllint.confirm.inside.stacks import stack_of as stack_of
from dllint.confirm.probes.graph import nodes
from dllint.dataclass import dataclass

GradientClip = events.GradientClip[Any]
ModeChange = events.ModeChange[Any]
ModelForward = events.ModelForward[Any]
OptimizerCreated = events.OptimizerCreated[Any]
OptimizerStep = events.OptimizerStep[Any]
ScalerUnscale = events.ScalerUnscale[Any]
ScalerUpdate = events.ScalerUpdate[Any]
SchedulerStep = events.SchedulerStep[Any]
StateRead = events.StateRead[Any]
StateRestored = events.StateRestored[Any]
StateSaved = events.StateSaved[Any]
StateTaken = events.StateTaken[Any]
ZeroGrad = events.ZeroGrad[Any]


@dataclass(slots=True, eq=False)
class LossCall(events.LossCall[Tensor]):
    """A call of a loss function of ``torch.nn.functional``, whose tensors are all known."""

    input: Tensor
    target: Tensor


@dataclass(eq=False)
class BackwardCall(events.Backward[Tensor]):
    """A call of ``torch.autograd.backward``, from one tensor or several; ``factor`` is the number that its gradient
    argument multiplies by, and ``batches`` the pass over a loader whose latest batch it is the first to follow."""

    roots: Sequence[Tensor] = ()
    factor: float = 1.0
    batches: Batches | None = None
    leaves: list[Tensor] | None = None  # the tensors that it sends gradients to, where the graph was looked at
    scale: float = 1.0  # that a scaler has multiplied the loss by

    @cached_property
    def nodes(self) -> list[Any]:
        """The operations behind it, the last first."""
        return list(nodes(self.roots))

    @cached_property
    def value(self) -> float | None:
        """The loss, unscaled; None where it is no single number. Reads from the device, once."""
        return float(self.loss.detach()) / self.scale if self.loss is not None and self.loss.numel() == 1 else None


@dataclass(slots=True)
class Load:
    """A call of ``load_state_dict``: the names that it was ``given``, those that the module has, and what it raised."""

    module: nn.Module
    given: set[str]
    parameters: set[str]
    buffers: set[str]
    strict: bool
    error: str
    stack: Stack
