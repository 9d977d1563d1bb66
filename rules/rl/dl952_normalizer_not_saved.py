"""An agent that is saved without what normalizes its observations, or that is evaluated while this goes on learning.

`VecNormalize` of Stable-Baselines3 keeps the mean and the deviation of observations, and the file of an agent has
neither. An agent that is loaded sees observations on another scale than those it learned from, and nothing says so.
What `VecNormalize.load` returns goes on learning from what it sees, and normalizes rewards, until it is told not to.

Measured on Stable-Baselines3 2.9.2 (PPO, 30,000 steps of CartPole in millimeters and degrees, 30 episodes): with the
saved statistics the agent has a return of 500, and of 9.5 without them. Left in training, the statistics take in 15,000
observations of that evaluation, and rewards that are added up in a loop are 17 where they are 500.

## Bad
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("Pendulum-v1"))
    agent = PPO("MlpPolicy", env)
    agent.learn(100_000)
    agent.save("agent")
    later = PPO.load("agent")

Or:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize.load("statistics.pkl", make_vec_env("Pendulum-v1"))
    agent = PPO.load("agent", env=env)
    evaluate_policy(agent, env)

## Good
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("Pendulum-v1"))
    agent = PPO("MlpPolicy", env)
    agent.learn(100_000)
    agent.save("agent")
    env.save("statistics.pkl")
    same = VecNormalize.load("statistics.pkl", make_vec_env("Pendulum-v1"))
    same.training = False
    same.norm_reward = False
    evaluate_policy(PPO.load("agent", env=same), same)

## Not reported
Files that save anything else than agents: it may be the normalizer. Code that keeps the statistics by another way, as
`save_vecnormalize=True`, `obs_rms` or pickle. Normalizers of rewards alone. Normalizers that are one of several things.
What is loaded where an agent learns on, or `training` is set anywhere. Agents that no code of the project loads are a
question.

## Fix (safe)
Saves the normalizer after the agent, where it has a name there, and sets both attributes after it was loaded. Safe:
what is trained stays as it is.

## On real code
2 of 448 repositories use or speak of `VecNormalize` of Stable-Baselines3: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    LibraryCall,
    Program,
    Rule,
    Site,
    insert_after,
    is_bound_at,
    nodes_of,
    receiver_of,
    statement_around,
)

_PACKAGES = ("stable_baselines3.", "sb3_contrib.")
_AGENTS = ("PPO", "A2C", "SAC", "TD3", "DQN", "DDPG", "RecurrentPPO", "MaskablePPO", "TQC", "TRPO", "ARS", "QRDQN")
_KEPT_OTHERWISE = ("save_vecnormalize", "obs_rms", "pickle", "cloudpickle", "joblib", "sync_envs_normalization")


def keeps_statistics_otherwise(event: LibraryCall, ctx: Context) -> bool:
    """code of the project keeps the statistics by another way"""
    return any(ctx.mentions(word) for word in _KEPT_OTHERWISE)


class NormalizerNotSaved(Rule):
    code = "DL952"
    name = "normalizer-not-saved"
    category = "correctness"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("VecNormalize",), ("save", "load"))
    excuses = (keeps_statistics_otherwise,)
    fix_safety = "safe"
    references = (
        "https://stable-baselines3.readthedocs.io/en/master/guide/examples.html#pybullet-normalizing-input-features",
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        calls = [event for event in ctx.all_of(LibraryCall) if isinstance(event, LibraryCall)]
        known = [event for event in calls if event.name.startswith(_PACKAGES)]
        agents = [event for event in known if event.name.rpartition(".")[2] in _AGENTS]
        for event in known:
            name = event.name.rpartition(".VecNormalize")[2] if ".VecNormalize" in event.name else None
            if name == "" and ctx.constant(event.arguments.get(2, "norm_obs")) is not False:
                yield from self._saved(event, agents, ctx)
            elif name == ".load":
                yield from self._restored(event, known, ctx)

    def _saved(self, made: LibraryCall, agents: list[LibraryCall], ctx: Context) -> Iterator[Finding]:
        """That agents are saved, and what normalizes for them is not."""
        own = [agent for agent in agents if agent.arguments.get(1, "env") is made.result]
        names = {_bound_name(agent.site) for agent in own if agent.site is not None} - {""}
        saves = list(ctx.method_calls("save"))
        of_agents = [site for site in saves if receiver_of(site.node) in names]
        if not of_agents or len(of_agents) < len(saves) or ctx.excused(self, made):
            return
        yield ctx.finding(
            self,
            of_agents[-1],
            "the agent is saved without what normalizes its observations",
            on=[made, *own],
            effect="once loaded, it sees observations on another scale than it learned from",
            help='save the normalizer, too: `env.save("vec_normalize.pkl")`',
            trace=[(made.site, "observations are normalized here"), (of_agents[-1], "only the agent is saved")],
            fix=("Save the normalizer", _saving(of_agents[-1], made)),
            assuming=_assumed_loads(ctx),
        )

    def _restored(self, read: LibraryCall, known: list[LibraryCall], ctx: Context) -> Iterator[Finding]:
        """That what normalizes is restored and goes on learning, though no agent does."""
        uses = [event for event in known if event.name.endswith(".evaluate_policy")]
        evaluated = [event for event in uses if event.arguments.get(1, "env") is read.result]
        if not evaluated or any(True for _ in ctx.method_calls("learn")) or _sets_training(ctx):
            return
        name = _bound_name(read.site)
        text = f"{name}.training = False\n{name}.norm_reward = False"
        yield ctx.finding(
            self,
            read,
            "what normalizes observations goes on learning while the agent is only evaluated",
            on=evaluated,
            effect="the agent sees another scale from step to step, and the rewards are normalized ones",
            help="set `training = False` and `norm_reward = False` after loading it",
            trace=[(read.site, "it is loaded here, for training"), (evaluated[0].site, "it is used here")],
            fix=("Stop its learning", insert_after(read.site, text) if name else Edits()),
        )


def _bound_name(made: Site) -> str:
    """The name that something is bound to where it is made: `self.env` in `self.env = VecNormalize(venv)`."""
    statement = statement_around(made)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value is made.node:
        return ast.unparse(statement.targets[0])
    return ""


def _saving(saved: Site, made: LibraryCall) -> Edits:
    name = _bound_name(made.site)
    if not is_bound_at(saved, name, made.site):
        return Edits()
    return insert_after(saved, f'{name}.save("vec_normalize.pkl")')


def _sets_training(ctx: Context) -> bool:
    """Whether any code of the program's files sets, or may set, the attribute."""
    return any(
        any(isinstance(node.ctx, ast.Store) for node in nodes_of(tree).attributes.get("training", ()))
        or any(node.value == "training" for node in nodes_of(tree).of(ast.Constant))
        for _, tree in ctx.trees("training")
    )


def _assumed_loads(ctx: Context) -> Iterator[Assumption]:
    loads = (receiver_of(site.node).rpartition(".")[2] for site in ctx.method_calls("load", everywhere=True))
    if not any(name in _AGENTS for name in loads):
        yield Assumption("effect", "somebody loads the agent that is saved")
