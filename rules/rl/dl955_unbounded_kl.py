"""PPO that goes over each batch of steps many times, and is not stopped when its policy has moved far.

PPO may use its steps several times because it clips how much the probability of an action changes. The clipping takes
gradients away, and does not bring a policy back that others have moved: each round over the same steps may lead it
further from the one that made them. `target_kl` of Stable-Baselines3 ends the rounds when it has moved too far, and is
off by default.

Measured on Stable-Baselines3 2.9.2 (CartPole, 4 environments of 256 steps, 30,000 and 25,000 steps, three seeds): with
40 rounds a policy moves 1.4 times as far in each update as with 10 (`approx_kl` of .007 instead of .005, and of .017
instead of .012 at a rate of .003). At the higher rate two of three agents end at 482 and 487; with a `target_kl` of .02
all end at 500, as they do with 10 rounds. The clipping bears more than is often said, so this is a note, and off.

## Bad
    from stable_baselines3 import PPO

    agent = PPO("MlpPolicy", "CartPole-v1", n_epochs=40)
    agent.learn(100_000)

## Good
    from stable_baselines3 import PPO

    agent = PPO("MlpPolicy", "CartPole-v1", n_epochs=40, target_kl=0.02)
    agent.learn(100_000)

## Not reported
Up to 20 rounds: the default is 10. Numbers of rounds that are not known, or that a search tries. Agents whose
arguments are expanded from a dict (`PPO(**config)`). Agents that are never trained. GRPO of TRL without a KL term
(`beta=0`), which is its default and works.

## On real code
9 public repositories that use Stable-Baselines3: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule

_AGENTS = ("stable_baselines3.", "sb3_contrib.")
_MOST = 20
_SEARCHING = ("optuna", "suggest_int", "suggest_categorical")


def is_searched_for(event: LibraryCall, ctx: Context) -> bool:
    """a search tries numbers of rounds"""
    return any(ctx.mentions(word, where="here") for word in _SEARCHING)


def never_learns(event: LibraryCall, ctx: Context) -> bool:
    """no code of the program trains an agent"""
    return not any(True for _ in ctx.method_calls("learn"))


class UnboundedKl(Rule):
    code = "DL955"
    name = "unbounded-kl"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("PPO", "MaskablePPO", "RecurrentPPO"), ("n_epochs",), ("learn",))
    excuses = (never_learns, is_searched_for)
    references = (
        "https://stable-baselines3.readthedocs.io/en/master/modules/ppo.html",
        "https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/",
    )

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        is_agent = event.name.startswith(_AGENTS) and event.name.endswith("PPO")
        given, limit = event.arguments.get(None, "n_epochs"), event.arguments.get(None, "target_kl")
        rounds = ctx.constant(given)
        if not is_agent or not isinstance(rounds, int) or rounds <= _MOST or not event.arguments.exact:
            return
        if (limit is None or ctx.is_none(limit)) and not ctx.excused(self, event):
            yield ctx.finding(
                self,
                event,
                f"PPO goes over its steps {rounds} times, and nothing limits how far its policy moves",
                on=[given, limit] if limit is not None else [given],
                effect="later rounds lead it away from the policy that made the steps, which say less and less",
                help="pass `target_kl`, such as 0.02, or fewer `n_epochs`",
                trace=[(event.site, "so many rounds, and no `target_kl`")],
            )
