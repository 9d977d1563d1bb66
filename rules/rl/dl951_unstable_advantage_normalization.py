"""Rewards or returns that are divided by their deviation and nothing else: where they are all equal, that is 0.

Whoever normalizes the returns of an episode, or the rewards of a group of answers, divides by a number that is 0 as
soon as all of them are the same: no reward was found, or every answer was right. Then 0 is divided by 0, the loss is
nan, and after the next step so is every weight.

Measured on torch 2.13 (ten actions of which one is rewarded, groups of 8, a hundred runs of 300 steps): without an
epsilon all hundred runs have weights that are nan, more than half of them after the first step, the last after 49. With
`+ 1e-8` none has.

## Bad
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    for states, actions, rewards in loader:
        advantages = (rewards - rewards.mean()) / rewards.std()
        log_probs = policy(states).log_softmax(1).gather(1, actions)
        loss = -(log_probs * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    for states, actions, rewards in loader:
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
        log_probs = policy(states).log_softmax(1).gather(1, actions)
        loss = -(log_probs * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Not reported
Deviations that something is added to, or that are clamped. Advantages that a network has a part in, such as a critic:
these are hardly ever equal. Divisions under a condition that asks for the deviation or for a number of samples. Results
that `nan_to_num` mends. Numbers whose names do not speak of rewards or returns, and that no loss comes of. The
deviation of a single sample, which is nan with an epsilon, too, as it is not known how long an episode is.

## Fix (unsafe)
Adds `1e-8` to the deviation. Unsafe because it changes the numbers, if by little.

## On real code
147 repositories that compute deviations (CleanRL, DeepRL, Deep Reinforcement Learning Hands-On and other collections of
agents among them): no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Backward, Choice, Context, Edits, Finding, Rule, Site, Symbol, Value, replace_range

_MEANS = (".mean", "torch.mean", "numpy.mean")
_DEVIATIONS = (".std", "torch.std", "numpy.std")
_ENDS = (".get", "torch.nan_to_num", ".nan_to_num", ".nan_to_num_", "numpy.nan_to_num")
_TESTED = ("std", "len", "numel", "size", "shape", "sigma", "count")


def is_tested_before(divided: Symbol, ctx: Context) -> bool:
    """a condition around the division asks for the deviation, or for the number of samples"""
    around = ctx.ancestors(divided.site, ast.If, ast.IfExp) if divided.site is not None else ()
    tests = [node.test for node in around if isinstance(node, ast.If | ast.IfExp)]
    words = [
        node.id if isinstance(node, ast.Name) else node.attr
        for test in tests
        for node in ast.walk(test)
        if isinstance(node, ast.Name | ast.Attribute)
    ]
    return any(tested in word.lower() for word in words for tested in _TESTED)


def is_made_by_a_network(divided: Symbol, ctx: Context) -> bool:
    """a network has a part in the numbers, so that they are hardly ever equal"""
    made_of = ctx.sources_up_to(_centered(divided) or divided, _is_of_environment)
    calls = [each.name for each in made_of if isinstance(each, Symbol)]
    return any(name in ("forward", "call") or name.startswith("torch.nn.") for name in calls)


def _is_of_environment(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name == ".step"


class UnstableAdvantageNormalization(Rule):
    code = "DL951"
    name = "unstable-advantage-normalization"
    category = "correctness"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("std",), ("mean",), ("backward", "training_step"))
    excuses = (is_tested_before, is_made_by_a_network)
    fix_safety = "unsafe"
    references = ("https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/",)

    def __init__(self) -> None:
        self._told: set[int] = set()

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        for value in ctx.sources_up_to(event.loss, _may_be_mended) if event.loss is not None else ():
            numbers = _centered(value)
            if numbers is None or value.site is None or not isinstance(value, Symbol) or id(value) in self._told:
                continue
            deviation = value.inputs[1]
            if not _are_of_rewards(value, numbers, ctx) or ctx.excused(self, value):
                continue
            self._told.add(id(value))
            yield ctx.finding(
                self,
                value.site,
                "rewards are divided by their deviation, which is 0 where they are all equal",
                on=[*event.guards, numbers],
                effect="0 / 0 is nan, and after the next step so is every weight",
                help="add a small number to the deviation: `/ (x.std() + 1e-8)`",
                trace=[(value.site, "the division"), (event.site, "its result goes into the loss")],
                fix=("Add an epsilon", _with_epsilon(value.site, deviation, ctx)),
                assuming=[*ctx.made_up_of(numbers)],
            )


def _may_be_mended(value: Value) -> bool:
    return isinstance(value, Choice) or (isinstance(value, Symbol) and value.name in _ENDS)


def _centered(value: Value) -> Value | None:
    """The numbers `x` in `(x - x.mean()) / x.std()`."""
    if not isinstance(value, Symbol) or value.name != "/" or len(value.inputs) != 2:
        return None
    difference, deviation = value.inputs
    if not isinstance(difference, Symbol) or difference.name != "-" or len(difference.inputs) != 2:
        return None
    numbers, mean = difference.inputs
    of_same = [
        isinstance(each, Symbol) and each.name in names and bool(each.inputs) and each.inputs[0] is numbers
        for each, names in ((mean, _MEANS), (deviation, _DEVIATIONS))
    ]
    return numbers if all(of_same) else None


def _are_of_rewards(value: Symbol, numbers: Value, ctx: Context) -> bool:
    """Whether numbers are rewards, returns or advantages, by what they are called there or where they come from."""
    site = value.site
    names = [node.id for node in ast.walk(site.node) if isinstance(node, ast.Name)] if site is not None else []
    names += [ctx.name_of(value), *ctx.names_behind(numbers)]
    return ctx.speaks_of("one-number", *names) or any("advantage" in name.lower() for name in names)


def _with_epsilon(division: Site, deviation: Value, ctx: Context) -> Edits:
    site = deviation.site
    if site is None or not isinstance(site.node, ast.Call):
        return Edits()
    text = f"{ctx.source_of(site)} + 1e-8"
    return replace_range(site, f"({text})" if ctx.is_within(site, division) else text)
