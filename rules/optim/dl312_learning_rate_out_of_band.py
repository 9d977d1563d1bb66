"""A learning rate far outside of what the optimizer can work with.

The rates that train a network span one and a half decades, and those of Adam lie two to three decades below those of
SGD. What is tuned for one is out of the band of the other.

Measured on torch 2.13 (loss after 300 steps, 2.30 at first): Adam with 1e-7 2.305, 1e-6 2.302, 1e-3 .138, 1e-2 .090,
.1 2.189, 1 2.208; SGD with 1e-3 2.292, .1 .320, 1 .049, 3 1.95, 10 2.26. Test accuracy after 400 steps of Adam on
batches of 64 (10 classes, three seeds): with 1e-3 .49 for four layers, .40 for convolutions and .47 for a transformer,
with .1 .20, .12 and .18.

## Bad
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.5)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Not reported
Rates of Adam and its relatives between 1e-7 and .1, and of SGD between 1e-6 and 10; rates that a scheduler multiplies
or replaces, or that the code sets; tensors that are optimized themselves, such as images or prompts, and models of one
layer; optimizers that choose their steps themselves. A rate that is too low is a question (`--possible`): it may be
wanted, and may do. So is one of Adam below .2 or of SGD below 20, unless it is written out and used for batches of
data.

## On real code
280 public repositories: 1 finding, a default that is meant for SGD, and 5 questions: rates that their authors seem to
want, and defaults. Written as .1 into 22 other scripts, one at a time, it is found in 14.

Off by default: in 31 batches of unread repositories 2 of 8 findings were true; the others were trials, and rates that
are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Finding,
    Instance,
    OptimizerCreated,
    OptimizerStep,
    Rule,
    SchedulerCreated,
    Value,
)

_ADAM = (1e-7, 0.1)
_BEYOND_DOUBT = 2
_BANDS: dict[str, tuple[float, float]] = {
    **{f"torch.optim.{name}": _ADAM for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax")},
    "torch.optim.SGD": (1e-6, 10),
}
_UP_TO_RATE = frozenset(  # schedulers that multiply the rate by one at most, and by one at some time
    f"torch.optim.lr_scheduler.{name}"
    for name in ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
                 "PolynomialLR", "LinearLR", "ReduceLROnPlateau")
)  # fmt: skip
_WITH_WARM_UP = ("transformers.get_", "transformers.optimization.get_")


def is_scheduled(event: OptimizerCreated, rate: Value, ctx: Context) -> bool:
    """a scheduler may multiply or replace the rate"""
    made = [
        each
        for each in ctx.all_of(SchedulerCreated)
        if each.optimizer is None or ctx.is_same(each.optimizer, event.optimizer)
    ]
    return any(
        not (isinstance(option, Instance) and _keeps_below(option.library_name))
        for each in made
        for option in ctx.objects(each.scheduler)
    )


def _keeps_below(scheduler: str) -> bool:
    return scheduler in _UP_TO_RATE or (scheduler.startswith(_WITH_WARM_UP) and "_schedule" in scheduler)


def is_set_by_hand(event: OptimizerCreated, rate: Value, ctx: Context) -> bool:
    """the code sets rates of parameter groups"""
    return ctx.are_rates_written()


def is_of_no_network(event: OptimizerCreated, rate: Value, ctx: Context) -> bool:
    """what is optimized is no network, or one of a single layer"""
    modules, is_all = ctx.parameters_of(event.optimizer)
    layers = [module for module in modules if isinstance(module, Instance) and module.library_name == "torch.nn.Linear"]
    return not modules or not is_all or len(layers) == len(modules)


def takes_no_step(event: OptimizerCreated, rate: Value, ctx: Context) -> bool:
    """it takes no step here, or in code that handles several optimizers"""
    return not any(ctx.is_same(step.optimizer, event.optimizer) for step in ctx.all_of(OptimizerStep))


def _wanted(event: OptimizerCreated, given: Value, rate: float, ctx: Context) -> Iterator[Assumption]:
    """Who writes a tiny rate may want to hold a part of the model back, or the loss is a large number.

    What is above the band by little works for small networks that are trained on all data at once. As a default it
    often belongs to another optimizer, and who chooses this one replaces it. What is written out, and used for batches
    of data, is a mistake.
    """
    least, most = _BANDS[event.optimizer.library_name] if isinstance(event.optimizer, Instance) else _ADAM
    if rate <= least:
        yield Assumption("effect", "so low a rate is not wanted, as it is to hold something back or for a large loss")
    elif rate < _BEYOND_DOUBT * most and (ctx.is_setting(given) or not _is_for_batches(event, ctx)):
        what = "the network is not so small, nor trained on so much data at once, that it works"
        yield Assumption("effect", what)


def _is_for_batches(event: OptimizerCreated, ctx: Context) -> bool:
    """Whether an optimizer steps in a loop over data, whose batches are not known to be all of it."""
    steps = [step for step in ctx.steps() if ctx.is_same(step.optimizer, event.optimizer)]
    whole = [one.loop for one in ctx.batch_loops if ctx.has_one_batch(one)]
    loops = [loop for step in steps for loop in ctx.loops_around(step)]
    return any(ctx.goes_over_data(loop) and loop not in whole for loop in loops)


class LearningRateOutOfBand(Rule):
    code = "DL312"
    name = "learning-rate-out-of-band"
    category = "suspicious"
    severity = "warning"
    default = False
    triggers = (("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SGD"),)
    confirmable = True
    references = ("https://arxiv.org/abs/1506.01186",)
    excuses = (takes_no_step, is_of_no_network, is_scheduled, is_set_by_hand)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer = event.optimizer
        if not isinstance(optimizer, Instance) or optimizer.library_name not in _BANDS:
            return
        given = optimizer.arguments.get(1, "lr")
        rate, (least, most) = ctx.constant(given), _BANDS[optimizer.library_name]
        if given is None or isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0:
            return
        if least < rate < most or ctx.excused(self, event, given):
            return
        kind = ctx.class_name(optimizer)
        yield ctx.finding(
            self,
            event,
            f"a learning rate of {rate:g} is far too {'high' if rate >= most else 'low'} for `{kind}`",
            on=[given, event.parameters],
            assuming=_wanted(event, given, rate, ctx),
            effect="the loss does not fall" if rate >= most else "the weights hardly move, however long it trains",
            help=f"start with {'1e-3' if kind != 'SGD' else '.1'}, or see `dllint confirm --lr-range`",
            trace=[(given.site, "the rate is set here")] if given.site is not None else [],
        )
