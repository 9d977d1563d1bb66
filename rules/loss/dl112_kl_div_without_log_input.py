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
Inputs that are not known to be probabilities (or their mean over some axis) or the output of a layer, divided by a
temperature or not; logarithms, also of probabilities with a small number added. Of a model that is not known, what is
divided by the same temperature as the scores of which the target takes the softmax is reported all the same: such a
quotient is no logarithm of probabilities, whatever the model returns.

## Fix (unsafe)
Calls `log_softmax` where a softmax stands in the call of the loss. Unsafe because it changes training, as it should.

## On real code
138 public repositories: no finding. In 127 others 1 finding, true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from dllint.api import Const, Context, Edits, Finding, LossCall, Origin, Rule, Symbol, Value, judge, rename_call

_LOSS = "torch.nn.functional.kl_div"
_QUOTIENTS = ("/", "torch.div", ".div")
_MEANS = (".mean", "torch.mean")
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
        temperatures = _temperatures(event.target, ctx)
        given = [each for origin in ctx.origins(event.input) for each in _behind_mean(origin, ctx)]
        origins = [each for origin in given for each in _behind_quotient(origin, temperatures, ctx)]
        verdict = judge(origins, lambda origin: _is_no_logarithm(origin.value, ctx), event.guards)
        if verdict is None:
            return
        bad, assumed = verdict
        made = bad[0].value.site
        what = "probabilities" if ctx.kind(bad[0].value) == "probabilities" else "a layer's output"
        what = "scores divided by a temperature" if _is_quotient(bad[0].value) else what
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


def _behind_mean(origin: Origin, ctx: Context) -> list[Origin]:
    """The probabilities that an origin is the mean of, or the sum of with a number: no logarithm is taken there."""
    value = origin.value
    if not isinstance(value, Symbol) or not (value.name in _MEANS or _is_shifted(value)):
        return [origin]
    nearer = [Origin(each.value, origin.guards + each.guards, origin.hops + each.hops)
              for each in ctx.origins(value.inputs[0])]  # fmt: skip
    inner = [each for near in nearer for each in _behind_mean(near, ctx)]
    return inner if all(ctx.kind(each.value) == "probabilities" for each in inner) else [origin]


def _is_shifted(value: Symbol) -> bool:
    """Whether a small number is added: ``p + 1e-8``."""
    return value.name == "+" and len(value.inputs) > 1 and isinstance(value.inputs[1], Const)


def _behind_quotient(origin: Origin, temperatures: Sequence[Value], ctx: Context) -> list[Origin]:
    """What is divided, if anything is: the quotient itself, where it tells more than what it is of."""
    quotient = origin.value
    if not _is_quotient(quotient):
        return [origin]
    divided = (Origin(each.value, origin.guards + each.guards, origin.hops + each.hops)
               for each in ctx.origins(quotient.inputs[0]))  # fmt: skip
    inner = [each for nearer in divided for each in _behind_quotient(nearer, temperatures, ctx)]
    is_known = all(_is_no_logarithm(each.value, ctx) or ctx.kind(each.value) for each in inner)
    is_softened = any(_are_equal(quotient.inputs[1], each) for each in temperatures)
    return [origin] if is_softened and not is_known else inner


def _temperatures(target: Value | None, ctx: Context) -> list[Value]:
    """By what the scores are divided of which a target takes the softmax; not by 1, which leaves them as they are."""
    softmax = [origin.value for origin in ctx.origins(target)] if target is not None else []
    made = [each for each in softmax if isinstance(each, Symbol) and ctx.kind(each).endswith("probabilities")]
    divided = [origin.value for each in made for part in each.inputs for origin in ctx.origins(part)]
    found = [each.inputs[1] for each in divided if _is_quotient(each) and ctx.constant(each.inputs[1]) != 1]
    return found if len(found) == len(softmax) else []  # whichever the target is


def _is_quotient(value: Value) -> TypeGuard[Symbol]:
    return isinstance(value, Symbol) and value.name in _QUOTIENTS and len(value.inputs) > 1


def _are_equal(left: Value, right: Value) -> bool:
    """Whether two divisors are one variable, or the same number."""
    return left is right or (isinstance(left, Const) and isinstance(right, Const) and left.value == right.value)


def _is_no_logarithm(value: Value, ctx: Context) -> bool:
    is_made = isinstance(value, Symbol) and (ctx.kind(value) in ("probabilities", "logits") or value.name in _LAYERS)
    return is_made or _is_quotient(value)


def _with_log_softmax_in(event: LossCall, source: Value) -> Edits:
    """``kl_div(F.softmax(x), y)``: the softmax is for this loss alone."""
    call, made = event.site.node, source.site
    given = call.args[:1] if isinstance(call, ast.Call) else []
    if not isinstance(source, Symbol) or source.name != "torch.softmax" or made is None or given != [made.node]:
        return Edits()
    return rename_call(made, "log_softmax")
