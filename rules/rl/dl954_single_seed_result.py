"""Agents of several algorithms that are compared by one run of each.

How well an agent turns out depends on the seed as much as on the algorithm: on what it happened to try first. What
`evaluate_policy` gives with its mean is the deviation between episodes of one and the same agent, and says nothing of
how far the next run would be from this one.

Measured (Q-learning in a table on the slippery 4x4 lake, 2000 episodes, 20 seeds for each of two learning rates): with
.05 the goal is reached in .47 of the episodes on average, with .2 in .66, and from .18 to .75 and .23 to .79 in single
runs. Of the 400 pairs of single runs, 21 % say that the worse rate is the better one.

## Bad
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    first = PPO("MlpPolicy", "CartPole-v1").learn(50_000)
    second = A2C("MlpPolicy", "CartPole-v1").learn(50_000)
    print(evaluate_policy(first, first.get_env()), evaluate_policy(second, second.get_env()))

## Good
    import numpy as np
    from stable_baselines3 import A2C, PPO
    from stable_baselines3.common.evaluation import evaluate_policy

    for algorithm in (A2C, PPO):
        returns = []
        for seed in range(10):
            agent = algorithm("MlpPolicy", "CartPole-v1", seed=seed).learn(50_000)
            returns.append(evaluate_policy(agent, agent.get_env())[0])
        print(algorithm, np.mean(returns), np.std(returns))

## Not reported
One algorithm alone, or several in environments of their own; agents that are scored in a loop, or made by one helper
for all; scripts that speak of several seeds, or take one from the user; agents that are loaded; loops that are written
by hand.

## On real code
3 of 495 public repositories that score agents by `evaluate_policy`: no finding. In a search of public code 2 of 10
excerpts compare algorithms by one run of each. What a script is for is a matter of judgement: the rule is off by
default, and its findings are notes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial

from dllint.api import Assumptions, Context, Finding, LibraryCall, Program, Rule, Symbol, Value

_PACKAGES = ("stable_baselines3.", "sb3_contrib.")
_ALGORITHMS = ("PPO", "A2C", "DQN", "SAC", "TD3", "DDPG", "TRPO", "RecurrentPPO", "MaskablePPO", "TQC", "QRDQN", "ARS")
_EVALUATIONS = "evaluate_policy"
_SEEDS = r"\bseeds\b|\bn_seeds\b|for \w*seed\w* in|--seed\b|\.seed\b|\bseed\s*[:=]\s*(?:int|args|cfg|config)|bootstrap"


# ------------------------------------------------------------------------------------------------- excuses


def speaks_of_seeds(event: LibraryCall, ctx: Context) -> bool:
    """the script speaks of several seeds, or takes one from the user"""
    return ctx.project_mentions(_SEEDS, where="here")


class SingleSeedResult(Rule):
    code = "DL954"
    name = "single-seed-result"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("evaluate_policy",), ("stable_baselines3", "sb3_contrib"))
    references = ("https://arxiv.org/abs/1709.06560",)
    excuses = (speaks_of_seeds,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        seen: dict[str, tuple[LibraryCall, Symbol]] = {}  # of each environment, the agent that was scored in it first
        for event in ctx.all_of(LibraryCall):
            agent = _agent_scored(event, ctx)
            if agent is None or agent.site is None:
                continue
            algorithm, place = agent.name.rpartition(".")[2], _environment_of(agent, ctx)
            scored, first = seen.setdefault(place, (event, agent))
            name = first.name.rpartition(".")[2]
            is_apart = first.site is not None and first.site.node is not agent.site.node  # not one helper for both
            if place and name != algorithm and is_apart and not ctx.excused(self, event):
                yield ctx.finding(
                    self,
                    event,
                    f"{name} and {algorithm} are compared by one run of each",
                    on=[scored, first, agent],
                    assuming=(*_assumed_to_score(scored, first, ctx), *_assumed_to_score(event, agent, ctx)),
                    effect="which of them comes out better may be due to the seed",
                    help="train each with several seeds, and show the mean and the spread of the runs",
                    trace=[
                        (first.site or event.site, "one agent"),
                        (agent.site, "the other"),
                        (event.site, "are scored once"),
                    ],
                )
                return


def _agent_scored(event: LibraryCall, ctx: Context) -> Symbol | None:
    """The agent that was trained here and is scored once, outside of any loop."""
    if not event.name.startswith(_PACKAGES) or not event.name.endswith(_EVALUATIONS) or ctx.loops_around(event):
        return None
    model = event.arguments.get(0, "model")
    sources = ctx.sources(model) if model is not None else []
    made = (each for each in sources if isinstance(each, Symbol) and each.name.startswith(_PACKAGES))
    return next((each for each in made if each.name.rpartition(".")[2] in _ALGORITHMS), None)


def _assumed_to_score(event: LibraryCall, agent: Symbol, ctx: Context) -> Assumptions:
    model = event.arguments.get(0, "model")
    return tuple(ctx.assumed_of_computation(model, partial(operator.is_, agent))) if model is not None else ()


def _environment_of(agent: Symbol, ctx: Context) -> str:
    """What tells environments apart that agents are made for: a name, or else the object."""
    given = ctx.argument(agent, 1, "env")
    names = [] if given is None else [name for each in ctx.sources(given) if (name := _name_in(each, ctx))]
    return names[0] if names else "" if given is None else str(id(given))


def _name_in(value: Value, ctx: Context) -> str:
    name = ctx.constant(value)
    return name if isinstance(name, str) else ""
