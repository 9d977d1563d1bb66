"""An off-policy agent that is loaded and learns on, with a replay buffer that is empty.

`save` of Stable-Baselines3 leaves out the replay buffer, as that is large: `load` gives an agent with its networks, its
optimizers and no memory. When it learns on, it learns from its newest steps alone, which are much alike, and what it
has learned about others may go. Nothing says so.

Measured on Stable-Baselines3 2.9.2 (DQN, 40,000 steps of CartPole, three seeds): after `load` the buffer has 0 of its
40,192 samples. Over the next 10,000 steps returns go up and down as much as with them: an environment as small as this
is learned again at once. So it is a note.

## Bad
    from stable_baselines3 import SAC

    agent = SAC.load("agent", env="Pendulum-v1")
    agent.learn(100_000, reset_num_timesteps=False)

## Good
    from stable_baselines3 import SAC

    agent = SAC.load("agent", env="Pendulum-v1")
    agent.load_replay_buffer("agent_buffer")
    agent.learn(100_000, reset_num_timesteps=False)

## Not reported
PPO and other agents that learn from their newest steps anyway. Files that load or set a buffer. Functions and files
whose names speak of fine-tuning: another task has other rewards, and old samples would be wrong. Agents that are loaded
and only used. Agents that another function than the one that loads them trains, unless they are an attribute. Where
`learn` counts its steps from 0 again, it is a question whether the agent goes on in its own environment.

## On real code
9 public repositories that use Stable-Baselines3: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Assumption, Context, Finding, LibraryCall, Rule, Site, receiver_of, statement_around

_FROM = ("stable_baselines3.", "sb3_contrib.")
_OFF_POLICY = ("SAC", "TD3", "DDPG", "DQN", "TQC", "QRDQN", "CrossQ")
_BUFFER = r"load_replay_buffer|\breplay_buffer\s*=|\.replay_buffer\b"


def has_a_buffer(event: LibraryCall, ctx: Context) -> bool:
    """code of the program loads a buffer, or sets it"""
    return ctx.project_mentions(_BUFFER, where="here")


def is_another_task(event: LibraryCall, ctx: Context) -> bool:
    """names speak of fine-tuning"""
    return ctx.speaks_of("fine-tuning", ctx.scope(event.site), ctx.path_in_project())


class ReplayBufferNotSaved(Rule):
    code = "DL953"
    name = "replay-buffer-not-saved"
    category = "suspicious"
    severity = "info"
    default = False
    confirmable = True
    triggers = (("SAC", "TD3", "DDPG", "DQN", "TQC", "QRDQN", "CrossQ"), ("load",), ("learn",))
    excuses = (is_another_task, has_a_buffer)
    references = ("https://stable-baselines3.readthedocs.io/en/master/guide/save_format.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        *_, owner, name = ["", *event.name.split(".")]
        if name != "load" or owner not in _OFF_POLICY or not event.name.startswith(_FROM):
            return
        learning = next(_learning(event.site, ctx), None)
        if learning is not None and not ctx.excused(self, event):
            goes_on = "reset_num_timesteps=False" in ctx.source_of(learning).replace(" ", "")
            yield ctx.finding(
                self,
                event,
                "the agent learns on with an empty replay buffer",
                effect="it learns from its newest steps alone, and may forget what others taught",
                help="save the buffer with `save_replay_buffer`, and load it with `load_replay_buffer`",
                trace=[(event.site, "the agent is loaded, without its buffer"), (learning, "and learns on")],
                assuming=() if goes_on else [_SAME_TASK],
            )


_SAME_TASK = Assumption("effect", "the agent goes on in the environment that it has learned in")


def _learning(loaded: Site, ctx: Context) -> Iterator[Site]:
    """Where the agent that is loaded at a place learns, by the name that it is bound to there."""
    statement = statement_around(loaded)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if target is None or not isinstance(statement, ast.Assign) or statement.value is not loaded.node:
        return
    name, around = ast.unparse(target), next(iter(ctx.ancestors(loaded, ast.FunctionDef, ast.Module)), None)
    for site in ctx.method_calls("learn", name):
        here = next(iter(ctx.ancestors(site, ast.FunctionDef, ast.Module)), None)
        is_same = site.module is loaded.module and (isinstance(target, ast.Attribute) or here is around)
        is_later = site.line > loaded.line or here is not around
        if is_same and is_later and receiver_of(site.node) == name and not _is_in_other_arm(loaded, site, ctx):
            yield site


def _is_in_other_arm(loaded: Site, learning: Site, ctx: Context) -> bool:
    """Whether two places stand in different arms of one `if`."""
    return any(
        any(each is loaded.node for statement in one for each in ast.walk(statement))
        and any(each is learning.node for statement in other for each in ast.walk(statement))
        for branch in ctx.ancestors(learning, ast.If)
        for one, other in ((branch.body, branch.orelse), (branch.orelse, branch.body))
    )
