"""An optimizer that is asked to be fused and something else at once, which no release of torch does.

`fused=True` and `foreach=True` are two implementations of one step, and `differentiable=True` needs a third. torch
refuses to make such an optimizer. Where an option of the command line gives one of the two, only those who use it see
that.

Measured on torch 2.13: SGD, Adam, AdamW and Adagrad raise a `RuntimeError` for `fused` with `foreach` and for `fused`
with `differentiable`.

## Bad
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, fused=True, foreach=True)

## Good
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, fused=True)

## Not reported
Options that are not known, or that are false or `None` by default.

## Fix (safe)
Leaves the choice of the faster one to torch: `foreach=None`, as by default.

## On real code
Off by default, as torch says it in the first run. 280 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, Instance, OptimizerCreated, Rule, set_argument

_FUSED = frozenset(f"torch.optim.{name}" for name in ("SGD", "Adam", "AdamW", "Adagrad"))


class FusedOptimizerConflict(Rule):
    code = "DL311"
    name = "fused-optimizer-conflict"
    category = "correctness"
    severity = "info"
    default = False
    triggers = (("fused",), ("foreach", "differentiable"))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#algorithms",)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer = event.optimizer
        if not isinstance(optimizer, Instance) or optimizer.library_name not in _FUSED:
            return
        given = optimizer.arguments.keywords
        fused = given.get("fused")
        for other in ("foreach", "differentiable"):
            if ctx.constant(fused) is not True or ctx.constant(given.get(other)) is not True:
                continue
            edits = set_argument(event.site, "foreach", "None") if other == "foreach" else Edits()
            yield ctx.finding(
                self,
                event,
                f"`{ctx.class_name(optimizer)}` cannot be `fused` and `{other}` at once: torch refuses to make it",
                on=[fused, given[other]],
                effect="the script ends where the optimizer is made",
                help=f"leave out one of the two, `fused` or `{other}`",
                fix=("Leave the choice to torch", edits),
            )
