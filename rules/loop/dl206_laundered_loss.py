"""A backward pass from a loss that was cut off from the model.

`.item()`, `.detach()`, `.data`, NumPy and `torch.tensor(loss)` cut the graph. Setting `requires_grad` on the result
makes the error message go away and trains nothing: the backward pass ends at the new tensor.

Measured on torch 2.13: `torch.tensor(loss.item(), requires_grad=True).backward()`, `loss.detach().requires_grad_()`,
`Variable(loss, requires_grad=True)` and `torch.tensor([l1, l2], requires_grad=True).mean().backward()` run silently and
leave the gradient of 100 % of the parameters at `None`.

## Bad
    loss = torch.tensor(loss.item(), requires_grad=True)
    loss.backward()

## Good
    loss = criterion(model(x), y)
    loss.backward()

## Not reported
Losses of which some term still carries gradients (a detached target, a detached weight), inputs that are optimized
themselves (adversarial images, style transfer, latent codes), and losses whose parts cannot be followed.

## Fix (unsafe)
Removes the line where it puts the new tensor in the place of the loss itself (`loss = torch.tensor(loss, ...)`). Unsafe
because training begins, as it should.

## On real code
742 public repositories: no finding. Of 50 losses laundered in them as a test, 48 were found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Backward, Context, Edits, Finding, Rule, Site, remove, statement_around


class LaunderedLoss(Rule):
    code = "DL206"
    name = "laundered-loss"
    category = "correctness"
    severity = "error"
    triggers = (
        ("backward", "manual_backward"),
        ("requires_grad", "requires_grad_", "detach", "detach_", "item", "data", "numpy", "tensor", "tolist", "float"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/autograd.html",)

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        if event.loss is None:
            return
        gradient = ctx.gradient(event.loss)
        cuts = [cut for cut in gradient.cuts if cut.reason in ("leaf", "detach")]
        if gradient.flows is not False or not cuts:
            return
        anew = next((cut for cut in cuts if cut.reason == "leaf"), None)
        cut = anew or cuts[0]
        if anew is not None:
            what = "made into a new tensor with `requires_grad`"
            effect = "the backward pass ends at the new tensor: no parameter gets a gradient, and no error says so"
        else:
            what = "detached from the model"
            effect = "no gradient reaches any parameter: torch raises here, or nothing is trained"
        yield ctx.finding(
            self,
            event,
            f"backward pass from a loss that was {what}",
            effect=effect,
            help="call `backward` on the loss as the criterion returned it; use `.item()` only for logging",
            trace=[(cut.site, "the graph is cut here"), (event.site, "so it depends on no model")],
            fix=("Keep the loss", _keep(cut.site)),
        )


def _keep(cut: Site) -> Edits:
    """Remove the statement that puts something cut off in the place of a variable: ``loss = f(loss)``."""
    statement = statement_around(cut)
    if not isinstance(statement, ast.Assign):
        return Edits()
    target = ast.unparse(statement.targets[0])
    reads = {ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, ast.Name | ast.Attribute)}
    return remove(cut) if len(statement.targets) == 1 and target in reads else Edits()
