"""Observes environments of gymnasium, and agents of Stable-Baselines3, once the script has imported them."""

from __future__ import annotations

import sys
from typing import Any

from dllint.confirm.inside.patching import beginning, ended, observe, when_imported
from dllint.confirm.inside.run import Run


def observe_all(run: Run) -> None:
    """Observe them as soon as they are there."""
    when_imported(run, "gymnasium.wrappers", _observe_environments)
    when_imported(run, "stable_baselines3", _observe_agents)


def _observe_environments(run: Run, module: Any) -> None:
    """Observe environments that ``gymnasium.make`` makes."""

    def stepped(outcome: Any, environment: Any, *_: Any, **__: Any) -> None:
        if isinstance(outcome, tuple) and len(outcome) == 5:
            run.tell("reward", environment, float(outcome[1]), bool(outcome[2]))

    def began(_: Any, environment: Any, *__: Any, **___: Any) -> None:
        run.tell("episode", environment)

    kind = getattr(module, "OrderEnforcing", None)  # which is around each of them
    observe(run, kind, "step", after=stepped)
    observe(run, kind, "reset", after=began)


def _observe_agents(run: Run, _: Any) -> None:
    """Observe agents that learn and are saved, and what normalizes their observations."""
    agents = sys.modules.get("stable_baselines3.common.base_class")
    normalizers = sys.modules.get("stable_baselines3.common.vec_env.vec_normalize")

    base = getattr(agents, "BaseAlgorithm", None)
    observe(run, base, "save", after=ended(run, "agent_saved"))
    for kind in _kinds(base):
        if "learn" in vars(kind):
            observe(run, kind, "learn", before=beginning(run, "agent_learns"))
    normalizer = getattr(normalizers, "VecNormalize", None)
    observe(run, normalizer, "set_venv", after=ended(run, "normalizer", "restored"))  # which loading one calls
    observe(run, normalizer, "save", after=ended(run, "normalizer", "saved"))
    observe(run, normalizer, "step_wait", after=ended(run, "normalizer", "used"))


def _kinds(base: type[Any] | None) -> list[type[Any]]:
    """A class and all that extend it."""
    below = [] if base is None else base.__subclasses__()
    return ([] if base is None else [base]) + [kind for each in below for kind in _kinds(each)]
