"""Probabilities passed to a distribution as its logits.

`Categorical(logits=p)` applies a softmax to `p`. If `p` is a softmax already, the distribution is nearly uniform: a
policy explores at random whatever it has learned, and its log-probabilities and entropies are those of another
distribution.

Measured on torch 2.13: probabilities of nearly 0 and 1 become .27 and .73; with 10 classes no probability is more than
.23, nor less than .077.

## Bad
    policy = torch.distributions.Categorical(logits=torch.softmax(model(x), dim=-1))
    action = policy.sample()

## Good
    policy = torch.distributions.Categorical(logits=model(x))
    action = policy.sample()

## Not reported
`probs=`, which is also what the first argument is; logits, and log-probabilities, which are logits as well.

## Fix (unsafe)
Writes `probs=`. Unsafe because it changes what is sampled and trained, as it should.

## On real code
138 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, LibraryCall, Rule, Site, judge, replace_range

_DISTRIBUTIONS = frozenset(
    ("Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Multinomial", "Bernoulli")
)
_LOGITS_AT = {"Multinomial": 2}  # the position of `logits`; 1 in the others


class CategoricalLogitsAreProbabilities(Rule):
    code = "DL116"
    name = "categorical-logits-are-probabilities"
    category = "correctness"
    severity = "error"
    triggers = (tuple(sorted(_DISTRIBUTIONS)), ("softmax", "Softmax", "sigmoid", "Sigmoid"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/distributions.html#categorical",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        kind = event.name.rpartition(".")[2]
        if kind not in _DISTRIBUTIONS or not event.name.startswith("torch.distributions."):
            return
        logits = event.arguments.get(_LOGITS_AT.get(kind, 1), "logits")
        if logits is None or not event.arguments.exact:
            return
        verdict = judge(ctx.origins(logits), lambda each: ctx.kind(each.value) == "probabilities", event.guards)
        if verdict is None:
            return
        bad, assumed = verdict
        made = bad[0].value.site
        yield ctx.finding(
            self,
            event,
            f"`{kind}` gets probabilities as its logits, and normalizes them once more",
            effect="the distribution is nearly uniform, whatever the model has learned",
            help="pass them as `probs=`, or pass what comes before the softmax",
            trace=[
                *([(made, "these are probabilities")] if made is not None else []),
                *reversed(bad[0].hops),
                (event.site, "and the distribution takes them for logits"),
            ],
            fix=("Pass them as probabilities", _as_probabilities(event, ctx)),
            on=[ctx.left_alone(event, model) for model in ctx.models_behind(logits)],
            assuming=[*assumed, *ctx.assumed_use(event.result, "the distribution")],
        )


def _as_probabilities(event: LibraryCall, ctx: Context) -> Edits:
    call = event.site.node
    keywords = call.keywords if isinstance(call, ast.Call) else []
    found = next((each for each in keywords if each.arg == "logits"), None)
    if found is None:
        return Edits()
    return replace_range(Site(event.site.module, found), f"probs={ctx.source_of(Site(event.site.module, found.value))}")
