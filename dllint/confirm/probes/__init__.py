"""The probes. Each listens to what the run does, and judges rules in its light; the order is that of listening."""

from __future__ import annotations

from dllint.confirm.probes.accumulation import Accumulation
from dllint.confirm.probes.activations import Activations
from dllint.confirm.probes.adapters import Adapters
from dllint.confirm.probes.agents import Agents
from dllint.confirm.probes.aliases import Aliases
from dllint.confirm.probes.averages import Averages
from dllint.confirm.probes.backward import Roots
from dllint.confirm.probes.base import Probe
from dllint.confirm.probes.batch_norms import BatchNorms
from dllint.confirm.probes.bootstrap import Bootstrap, Deviations
from dllint.confirm.probes.by_hand import ByHand
from dllint.confirm.probes.channels import ChannelOrder, NormalizedChannels
from dllint.confirm.probes.checkpoints import Checkpoints
from dllint.confirm.probes.classes import Classes
from dllint.confirm.probes.coverage import Coverage
from dllint.confirm.probes.data import Order, Randomness
from dllint.confirm.probes.detection import Detection
from dllint.confirm.probes.diffusion import Diffusion
from dllint.confirm.probes.evaluating import EvaluationGradients, TrainingMode
from dllint.confirm.probes.evaluation_data import EvaluationData
from dllint.confirm.probes.experiments import Overfit, RateRange
from dllint.confirm.probes.finiteness import Finiteness
from dllint.confirm.probes.freezing import Freezing
from dllint.confirm.probes.fused import Fused
from dllint.confirm.probes.gradients import Gradients
from dllint.confirm.probes.half import HalfPrecision
from dllint.confirm.probes.image_tokens import ImageTokens
from dllint.confirm.probes.inputs import InputStatistics, LabelStatistics
from dllint.confirm.probes.kept_graphs import KeptGraphs
from dllint.confirm.probes.latents import Latents
from dllint.confirm.probes.library_states import LibraryStates
from dllint.confirm.probes.loader_setup import LoaderSetup
from dllint.confirm.probes.loading import Loading
from dllint.confirm.probes.logits import Logits
from dllint.confirm.probes.loss_input import LossInput
from dllint.confirm.probes.masked_mean import MaskedMean
from dllint.confirm.probes.metrics import Metrics
from dllint.confirm.probes.modes import EvaluationMode, FunctionalDropout
from dllint.confirm.probes.movement import Movement
from dllint.confirm.probes.names import Names
from dllint.confirm.probes.normalization import Normalization
from dllint.confirm.probes.order import Clipping, ScaledSteps, SchedulerOrder
from dllint.confirm.probes.padding import Padding
from dllint.confirm.probes.passes import Passes, Shares
from dllint.confirm.probes.positions import Generation, RotaryPositions
from dllint.confirm.probes.precision import Autocast, Scaling
from dllint.confirm.probes.preferences import Preferences
from dllint.confirm.probes.pretrained import Pretrained
from dllint.confirm.probes.rank_notes import RankComparison
from dllint.confirm.probes.rates import AskedRates, Plateau
from dllint.confirm.probes.recreated import Recreated
from dllint.confirm.probes.recurrent import Recurrent
from dllint.confirm.probes.refusals import Refusals
from dllint.confirm.probes.replicas import Replicas
from dllint.confirm.probes.resuming import Course
from dllint.confirm.probes.resumption import Resumption
from dllint.confirm.probes.returns import Returns
from dllint.confirm.probes.samples import Samples
from dllint.confirm.probes.schedules import Cadence
from dllint.confirm.probes.sensitivity import Sensitivity
from dllint.confirm.probes.shared_memory import SharedMemory
from dllint.confirm.probes.spectral import SpectralNorms
from dllint.confirm.probes.supervision import Supervision
from dllint.confirm.probes.targets import Targets
from dllint.confirm.probes.towers import Towers
from dllint.confirm.probes.trainer_data import TrainerData
from dllint.confirm.probes.trainers import Trainers
from dllint.confirm.probes.transfers import Transfers
from dllint.confirm.probes.updates import Decay, Traces
from dllint.confirm.probes.wrapping import Wrapping
from dllint.confirm.probes.zero_rate import ZeroRate

EXPERIMENTS: dict[str, type[Probe]] = {"overfit": Overfit, "lr-range": RateRange, "resume": Course}
"""The probes that take part in a run that is made for them alone."""

PROBES: tuple[type[Probe], ...] = (
    Accumulation,  # asks for the gradients of a step before they count as used
    Clipping,
    Gradients,
    Names,
    Roots,
    Coverage,
    LossInput,
    Targets,
    Padding,
    MaskedMean,
    Refusals,
    Logits,
    Metrics,
    Bootstrap,
    ByHand,
    Deviations,
    Returns,
    Agents,
    Adapters,
    Supervision,
    RotaryPositions,
    Generation,
    Preferences,
    EvaluationMode,
    FunctionalDropout,
    TrainingMode,
    EvaluationGradients,
    KeptGraphs,
    Recurrent,
    Recreated,
    Loading,
    AskedRates,
    Plateau,
    Fused,
    ScaledSteps,
    SchedulerOrder,
    Cadence,
    Randomness,
    Order,
    EvaluationData,
    Checkpoints,
    Decay,
    Traces,
    Finiteness,
    ZeroRate,
    Replicas,
    Movement,
    HalfPrecision,
    Activations,
    Scaling,
    Autocast,
    Normalization,
    SpectralNorms,
    Freezing,
    InputStatistics,
    LabelStatistics,
    Passes,
    Shares,
    Samples,
    LoaderSetup,
    SharedMemory,
    Transfers,
    ChannelOrder,
    NormalizedChannels,
    RankComparison,
    BatchNorms,
    Classes,
    Pretrained,
    Detection,
    Wrapping,
    Aliases,
    Resumption,
    LibraryStates,
    Averages,
    Trainers,
    TrainerData,
    Diffusion,
    Latents,
    ImageTokens,
    Towers,
    Sensitivity,  # last: it calls the model
)
