"""A loss that is built where gradients are off, and then sent backward.

Under `torch.no_grad()` nothing is recorded, so there is nothing to go back through. What decides is where the forward
pass runs: `loss.backward()` inside `no_grad` works when the forward pass ran outside.

Measured on torch 2.13: forward under `no_grad` or `inference_mode` makes `backward` raise "element 0 of tensors does
not require grad" when everything is inside, 0 of the parameters get a gradient; forward outside and backward inside
gives identical gradients.

## Bad
    with torch.no_grad():
        loss = criterion(model(x), y)
    loss.backward()

## Good
    loss = criterion(model(x), y)
    loss.backward()

## Not reported
Losses of which some part is computed with gradients on (teachers and targets under `no_grad` are right), modes that
are not known (`torch.set_grad_enabled(train)`), and a backward pass alone inside `no_grad`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Backward, Context, Finding, Rule


class ForwardUnderNoGrad(Rule):
    code = "DL205"
    name = "forward-under-no-grad"
    category = "correctness"
    severity = "error"
    triggers = (("backward", "manual_backward"), ("no_grad", "inference_mode", "set_grad_enabled"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",)

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        if event.loss is None:
            return
        gradient = ctx.gradient(event.loss)
        without = [cut for cut in gradient.cuts if cut.reason == "no_grad"]
        if gradient.flows is not False or not without:
            return
        yield ctx.finding(
            self,
            event.site,
            "backward pass from a loss that was computed with gradients off",
            effect="no gradient reaches any parameter: torch raises here, or nothing is trained",
            help="compute the forward pass and the loss outside `no_grad`",
            trace=[(without[0].site, "computed with gradients off"), (event.site, "and sent backward")],
        )
