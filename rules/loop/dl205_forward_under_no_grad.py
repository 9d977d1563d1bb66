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
are not known (`torch.set_grad_enabled(train)`), a backward pass alone inside `no_grad`, and one that a condition keeps
out of the evaluation (`if self.training`).

## Fix (suggestion)
`torch.enable_grad()` in the place of the `torch.no_grad()` of the block, or of the decorator. What else stands in the
block gets a graph, too, so that it is better to take the forward pass out of it by hand.

## On real code
742 public repositories: no finding. Torch raises where this happens, so it does not get that far.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import Backward, Context, Edit, Event, Finding, Guard, Program, Rule, Site, offer, replace_range

_PHASE = re.compile(
    r"(?<![a-z])(train\w*|is_train\w*|optim\w*|backward|phase|mode|update|learn|eval|val|valid|test)(?![a-z])",
    re.IGNORECASE,
)


class ForwardUnderNoGrad(Rule):
    code = "DL205"
    name = "forward-under-no-grad"
    category = "correctness"
    severity = "error"
    triggers = (("backward", "manual_backward"), ("no_grad", "inference_mode", "set_grad_enabled"))
    confirmable = True
    fix_safety = "suggestion"
    references = ("https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        backwards = [event for event in ctx.all_of(Backward) if event.loss is not None]
        found: dict[ast.AST, Finding | None] = {}
        for event in backwards:
            node = event.site.node
            cut = self._cut(event, ctx)
            if node not in found or cut is None:  # elsewhere in the program the same backward pass may be right
                is_wrong = cut is not None and not _is_tried(event.site)
                found[node] = self._report(event, cut, ctx) if cut is not None and is_wrong else None
        yield from (finding for finding in found.values() if finding is not None)

    def _cut(self, event: Backward, ctx: Context) -> Site | None:
        """Where gradients were off when the loss was computed, if that holds for all of it."""
        if event.loss is None or _is_kept_apart(event, ctx):
            return None
        gradient = ctx.gradient(event.loss)
        if gradient.flows is not False:
            return None
        cuts = (cut.site for cut in gradient.cuts if cut.reason == "no_grad")
        return next((site for site in cuts if not _is_left_over(site, event)), None)

    def _report(self, event: Backward, cut: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            "backward pass from a loss that was computed with gradients off",
            effect="no gradient reaches any parameter: torch raises here, or nothing is trained",
            help="compute the forward pass and the loss outside `no_grad`",
            trace=[(cut, "computed with gradients off"), (event.site, "and sent backward")],
            fixes=offer("Compute it with gradients on", _switched_on(cut), "suggestion", of=cut, at=event.site),
        )


def _is_kept_apart(event: Backward, ctx: Context) -> bool:
    """Whether training and evaluation share the code, and a condition keeps the backward pass out of the evaluation.

    What holds already where gradients are switched off (``if args.train: train()``) says nothing of that.
    """
    if event.grad != "off":
        return False
    frames = list(event.frame.stack())
    first: Event = next(e for e in ctx.events if e.grad == "off" and any(e.frame is frame for frame in frames))
    held = {guard.key() for guard in first.guards}
    return any(_is_of_phase(guard) for guard in event.guards if guard.key() not in held)


def _is_of_phase(guard: Guard) -> bool:
    """Whether a condition asks what the code is run for. The ``mode`` of a loss (``mode == "focal"``) is none."""
    subject = guard.subject.rpartition(":")[2]
    if subject == "mode" and isinstance(guard.operand, str):
        return bool(_PHASE.search(guard.operand))
    return bool(_PHASE.search(subject))


def _switched_on(site: Site) -> list[Edit]:
    """The edits that keep gradients on in all blocks and functions around a place that switch them off."""
    module = site.module
    line = getattr(site.node, "lineno", 0)
    around = (node for node in ast.walk(module.tree) if isinstance(node, ast.With | ast.FunctionDef))
    switches: list[ast.expr] = []
    for node in (node for node in around if node.lineno <= line <= (node.end_lineno or 0)):
        switches += [each.context_expr for each in node.items] if isinstance(node, ast.With) else node.decorator_list
    edits: list[Edit] = []
    for switch in switches:
        name = switch.func if isinstance(switch, ast.Call) else switch
        if isinstance(name, ast.Attribute) and name.attr in ("no_grad", "inference_mode"):
            edits += replace_range(Site(site.module, switch), f"{ast.unparse(name.value)}.enable_grad()")
    return edits


def _is_tried(site: Site) -> bool:
    """Whether it is caught that torch raises at a place, as where a lesson shows that it does."""
    module = site.module
    line = getattr(site.node, "lineno", 0)
    tries = (
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Try) and any(_expects(handler) for handler in node.handlers)
    )
    return any(node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0) for node in tries)


def _expects(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for what torch raises, and not for memory that has run out."""
    is_runtime_error = handler.type is not None and "RuntimeError" in ast.unparse(handler.type)
    return is_runtime_error and "memory" not in ast.unparse(handler)


def _is_left_over(site: Site, event: Backward) -> bool:
    """Whether a place is in the ``forward`` of a model that does not switch gradients off itself.

    Its result then comes from an attribute that the model keeps, and the evaluation that is seen to have set it need
    not have been the last to do so.
    """
    forward = _enclosing_forward(site)
    if forward is None or any(frame.function == "forward" for frame in event.frame.stack()):
        return False
    return not re.search(r"no_grad|inference_mode|set_grad_enabled", ast.unparse(forward))


def _enclosing_forward(site: Site) -> ast.AST | None:
    """The definition of the ``forward`` around a place."""
    module = site.module
    line = getattr(site.node, "lineno", 0)
    functions = (n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef) and n.name == "forward")
    return next((function for function in functions if function.lineno <= line <= (function.end_lineno or 0)), None)
