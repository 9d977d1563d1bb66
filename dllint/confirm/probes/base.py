"""What a probe is: it listens to events of the run, and judges rules when observation ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn
from torch.optim import Optimizer

from dllint import events
from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.inside.feed import Batches
from dllint.confirm.inside.places import stack_of as stack_of
from dllint.confirm.probes.judging import Judgements, Samples

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

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


@dataclass(slots=True, eq=False)
class BackwardCall(events.Backward[Tensor]):
    """A call of ``torch.autograd.backward``, from one tensor or several; ``factor`` is the number that its gradient
    argument multiplies by, and ``batches`` the pass over a loader whose latest batch it is the first to follow."""

    roots: Sequence[Tensor] = ()
    factor: float = 1.0
    batches: Batches | None = None
    leaves: list[Tensor] | None = None  # the tensors that it sends gradients to, where the graph was looked at
    scale: float = 1.0  # that a scaler has multiplied the loss by
    _value: float | None = None

    @property
    def value(self) -> float | None:
        """The loss, unscaled; None where it is no single number. Reads from the device, once."""
        if self._value is None and self.loss is not None and self.loss.numel() == 1:
            self._value = float(self.loss.detach()) / self.scale
        return self._value


@dataclass(slots=True)
class Load:
    """A call of ``load_state_dict``: the names that it was ``given``, and those that the module has. ``error`` is what
    it raised, if it did."""

    module: nn.Module
    given: set[str]
    parameters: set[str]
    buffers: set[str]
    strict: bool
    error: str
    stack: Stack


class Probe:
    """Listens to the run by overriding some of the hooks. Whatever one raises stays inside dllint.

    What the vocabulary has an event for is told by it, to the hook that rules have for it; of what takes its time, the
    beginning is told as well (``before_…``). The other hooks are about what only a run can see.
    """

    name: ClassVar[str]  # that of its file
    turn: ClassVar[int] = 0  # when it listens, and judges, among the others: those that others ask come before them

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__module__.rpartition(".")[2]

    def __init__(self, run: Run) -> None:
        self.run = run
        self.begin()

    def begin(self) -> None:
        """Know nothing yet: what is remembered begins here."""

    def on_optimizer_created(self, event: OptimizerCreated) -> None:
        """An optimizer has been made."""

    def on_model_forward(self, event: ModelForward) -> None:
        """A model is called that is called by no other: a module that has parameters. There is no result yet."""

    def on_call_aside(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], stack: Stack) -> None:
        """A module without parameters is called by no model: a criterion, a transform, a metric."""

    def on_mode_change(self, event: ModeChange) -> None:
        """A module has been put into training or evaluation mode."""

    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        """A function that drops is called, inside of the call of ``outermost``."""

    def on_loss_call(self, call: LossCall) -> None:
        """A loss has been computed."""

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        """A loss function has raised an exception."""

    def on_logits(self, logits: Tensor, stack: Stack) -> None:
        """A categorical distribution has been made of what is given as its logits."""

    def on_deviation(self, values: Tensor, result: Tensor, stack: Stack) -> None:
        """``Tensor.std`` has been computed over a whole tensor."""

    def on_lookup_refused(self, indices: Tensor, weight: Tensor, stack: Stack) -> None:
        """An embedding has raised an exception."""

    def on_load(self, load: Load) -> None:
        """``load_state_dict`` of a module has been called."""

    def on_derivative(self) -> None:
        """``torch.autograd.grad`` is called."""

    def before_backward(self, call: BackwardCall) -> None:
        """Gradients are about to be computed."""

    def on_backward(self, call: BackwardCall) -> None:
        """Gradients have been computed."""

    def on_zero_grad(self, event: ZeroGrad) -> None:
        """``zero_grad`` of an optimizer or module has been called."""

    def on_gradient_clip(self, event: GradientClip) -> None:
        """Gradients of a list of parameters are about to be clipped."""

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        """An optimizer is about to step. Where it is given a closure, there are no gradients yet."""

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        """An optimizer has stepped."""

    def on_step_passed_over(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped while observing rested. Nothing else is told of such a step."""

    def on_gap(self) -> None:
        """Observing has rested until now: what is under way may have begun before, or without being told of."""

    def on_scheduler_step(self, event: SchedulerStep) -> None:
        """A scheduler has stepped; with arguments where it was told the epoch."""

    def on_plateau(self, scheduler: Any, metric: float | None, stack: Stack) -> None:
        """A scheduler that waits for a plateau is about to be told a metric; None where it is not given any."""

    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None:
        """``get_lr`` of a scheduler has returned something to the script."""

    def on_scale(self, scaler: Any, scaled: Tensor) -> None:
        """A scaler has scaled a loss."""

    def on_scaler_unscale(self, event: ScalerUnscale) -> None:
        """A scaler has unscaled the gradients of an optimizer."""

    def on_scaler_update(self, event: ScalerUpdate) -> None:
        """A scaler has been updated."""

    def on_reward(self, environment: Any, reward: float, is_terminal: bool) -> None:
        """An environment has taken a step; ``is_terminal`` where the episode is over by it."""

    def on_episode(self, environment: Any) -> None:
        """An environment has been reset."""

    def on_agent_learns(self, agent: Any, stack: Stack) -> None:
        """An agent of Stable-Baselines3 is about to learn."""

    def on_agent_saved(self, agent: Any, stack: Stack) -> None:
        """An agent of Stable-Baselines3 has been saved."""

    def on_normalizer(self, what: str, normalizer: Any, stack: Stack) -> None:
        """What normalizes observations for agents has been ``saved`` or ``restored``, or ``used`` for a step."""

    def on_pass(self, batches: Batches) -> None:
        """A pass over a loader begins."""

    def on_batch(self, batches: Batches, batch: Any) -> None:
        """A batch has been taken from a loader."""

    def on_batch_refused(self, batches: Batches, error: Exception) -> None:
        """A loader has raised an exception in place of a batch."""

    def on_pass_end(self, batches: Batches) -> None:
        """A loader has no more batches. Not told where dllint ends the pass."""

    def on_replicate(self, module: nn.Module, stack: Stack) -> None:
        """A model has been wrapped in DistributedDataParallel, which ``module`` is."""

    def on_average(self, average: nn.Module) -> None:
        """An ``AveragedModel`` has taken in the weights of a model."""

    def on_state_saved(self, event: StateSaved) -> None:
        """Something is about to be saved, where ``torch.save`` was told to: a path, or a file that is open."""

    def on_state_read(self, event: StateRead) -> None:
        """``torch.load`` has read something."""

    def on_state_restored(self, event: StateRestored) -> None:
        """``load_state_dict`` of a module, an optimizer, a scheduler or a scaler is about to take a state."""

    def on_latents(self, latents: Tensor, vae: nn.Module | None, stack: Stack) -> None:
        """Latents have been drawn from what an autoencoder of diffusers has made of images; ``vae`` is None where that
        is not known."""

    def on_trainer(self, trainer: Any, given: Any, error: Exception | None, stack: Stack) -> None:
        """A trainer of trl has been made for a dataset, or has begun to train (``given`` is None then), and raised an
        exception unless ``error`` is None."""

    def on_state_taken(self, event: StateTaken) -> None:
        """A module that is part of no other call has been asked for its ``state_dict``."""

    def on_accelerator_save(self, accelerator: Any, stack: Stack) -> None:
        """``save_state`` of an ``Accelerator`` is about to save."""

    def on_sharded_read(self, state: Any, stack: Stack) -> None:
        """``torch.distributed.checkpoint`` has read something into a dict of states."""

    def judge(self) -> Judgements:
        """What the probe has found out, when observation ends."""
        return iter(())

    def judgement(
        self,
        rule: str,
        seen: Samples,
        verdict: Verdict,
        message: str,
        statistics: dict[str, Any],
        voice: Voice = "declared",
    ) -> Judgement:
        """A judgement by what was seen. What it is compared with, and how it speaks, the tables say."""
        steps = (seen.first, seen.last)
        return Judgement(rule, self.name, verdict, message, "", statistics, seen.looks, steps, seen.stacks, voice)

    def whole(self, *stacks: Stack, looks: int = 1) -> Samples:
        """What was seen in the whole run, of some places or of none in particular."""
        return Samples(stacks=stacks, last=self.run.steps, looks=looks)

    def is_sampled(self, number: int, at_first: int) -> bool:
        """Whether to look at something, by its number from 1: so many at first, and then one in so many."""
        return number <= at_first or number % self.run.every == 0


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """All parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
