"""What a rule can ask about the program it looks at, and how it reports what it found."""

from __future__ import annotations

from dllint.context.accumulating import Accumulating
from dllint.context.average_uses import AverageUses
from dllint.context.axes import AxesOfTensors
from dllint.context.bare_loads import BareLoads
from dllint.context.best_starts import BestStarts
from dllint.context.chance import Chance
from dllint.context.commands import Commands
from dllint.context.coverage import Coverage
from dllint.context.decisions import Decisions
from dllint.context.denoising import Denoising
from dllint.context.destinations import Destinations
from dllint.context.excuses import Excuses
from dllint.context.expressions import Expressions
from dllint.context.fitting import Fitting
from dllint.context.kept_states import KeptStates
from dllint.context.latents import Latents
from dllint.context.leftovers import Leftovers
from dllint.context.norm_modes import NormModes
from dllint.context.rates import Rates
from dllint.context.readers import Readers
from dllint.context.records import Records
from dllint.context.releases import Releases
from dllint.context.schedules import Schedules
from dllint.context.seeding import Seeding
from dllint.context.side_files import SideFiles
from dllint.context.strides import Strides
from dllint.context.tokenizing import Tokenizing

__all__ = ["Context"]


class Context(
    Excuses,
    Fitting,
    BareLoads,
    BestStarts,
    AxesOfTensors,
    NormModes,
    Records,
    Strides,
    Expressions,
    SideFiles,
    AverageUses,
    Chance,
    Latents,
    Denoising,
    Leftovers,
    Coverage,
    Rates,
    Readers,
    Releases,
    KeptStates,
    Schedules,
    Seeding,
    Accumulating,
    Tokenizing,
    Decisions,
    Destinations,
    Commands,
):
    """The view of one program that rules get. It answers questions; it does not let a rule change anything."""
