"""The probes. Each listens to what the run does, and judges rules in its light.

A probe is a file here, and the class of the same name in it (``loss_input.py`` has ``LossInput``). Nothing else has to
know of it, but the tables of ``dllint/confirm/judged``, which say what its judgements mean.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from dllint.confirm.listing import EXPERIMENTS, NAMES, class_name
from dllint.confirm.probes.base import Probe


def probe(name: str) -> type[Probe]:
    """The probe of a name."""
    return cast(type[Probe], getattr(import_module(f"{__name__}.{name}"), class_name(name)))


def experiment(mode: str) -> type[Probe]:
    """The probe that takes part in a run which is made for it alone."""
    return probe(EXPERIMENTS[mode])


PROBES: tuple[type[Probe], ...] = tuple(sorted(map(probe, NAMES), key=lambda kind: (kind.turn, kind.name)))
"""All that take part in other runs, in the order in which they listen."""
