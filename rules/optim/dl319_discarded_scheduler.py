"""A scheduler that is replaced by another one, after its constructor has changed the learning rate.

Schedulers for a warm-up set the rate to its first value as soon as they are made. A second scheduler for the same
optimizer goes on from the rate that it finds, and brings it back at no time.

Measured on torch 2.13 (a rate of .1): after `LinearLR` or `ConstantLR` it is .033, after `OneCycleLR` .004, and after
`CyclicLR` its lower limit. A `StepLR`, `CosineAnnealingLR` or `ExponentialLR` that is made next begins there: half way
down a cosine is .0167 instead of .05. Only `LambdaLR` goes back to .1, unless the first one was `OneCycleLR` or
`CyclicLR`.

## Bad
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=1000)
    scheduler = CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        train(model, loader, optimizer)
        scheduler.step()

## Good
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        train(model, loader, optimizer)
        scheduler.step()

## Not reported
Schedulers whose constructor leaves the rate as it is; parts of a `SequentialLR` or `ChainedScheduler`; schedulers that
are made under conditions that exclude each other, or for optimizers of their own; those that go to code which cannot be
followed.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, Program, Rule, Unstepped

_TORCH = "torch.optim.lr_scheduler."
_LEFT_AT: dict[str, str] = {
    f"{_TORCH}LinearLR": "a third of it",
    f"{_TORCH}ConstantLR": "a third of it",
    f"{_TORCH}OneCycleLR": "its first value, by default 1/25 of the largest",
    f"{_TORCH}CyclicLR": "its lower limit",
}


class DiscardedScheduler(Rule):
    code = "DL319"
    name = "discarded-scheduler"
    category = "correctness"
    severity = "warning"
    triggers = (("LinearLR", "ConstantLR", "OneCycleLR", "CyclicLR"), ("step",))
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.SequentialLR.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for found in ctx.unstepped_schedulers():
            scheduler = found.made.scheduler
            if found.other is None or not isinstance(scheduler, Instance) or scheduler.library_name not in _LEFT_AT:
                continue
            yield self._report(found, scheduler, ctx)

    def _report(self, found: Unstepped, scheduler: Instance, ctx: Context) -> Finding:
        assert found.other is not None
        name = ctx.class_name(scheduler)
        return ctx.finding(
            self,
            found.made,
            f"this `{name}` is never stepped, and has changed the rate that another scheduler goes on from",
            on=[found.step, found.other, found.made.optimizer],
            effect=f"its constructor leaves the rate at {_LEFT_AT[scheduler.library_name]}, for the whole run",
            help="remove it, or put both into a `SequentialLR`",
            trace=[
                (found.made.site, "the constructor changes the rate"),
                (found.other.site, "and only another scheduler is stepped"),
            ],
        )
