"""A loss that is built where gradients are off, and then sent backward.

Under `torch.no_grad()` nothing is recorded, so there is nothing to go back through. What decides is where the forward
pass runs: `loss.backward()` inside `no_grad` works when the forward pass ran outside.

As a statement, `torch.set_grad_enabled(False)` holds until something switches gradients on again: where it stands at
the head of an evaluation, the next epoch trains without gradients, and so does what comes after a call of a function
in which it stands.

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
out of the evaluation (`if self.training`); what a model keeps from an earlier forward pass; a backward pass whose error
is caught. `torch.set_grad_enabled(False)` as a statement of a training loop, where anything in the program's files
switches gradients on again.

## Fix (suggestion)
`torch.enable_grad()` in the place of the `torch.no_grad()` of the block, or of the decorator. What else stands in the
block gets a graph, too, so that it is better to take the forward pass out of it by hand.

## On real code
742 public repositories: no finding. Torch raises where this happens, so it does not get that far.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    LibraryCall,
    Program,
    Rule,
    Site,
    replace_range,
    together,
)

_SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


# ------------------------------------------------------------------------------------------------- excuses


def is_kept_out_of_evaluation(event: Backward, cut: Site, ctx: Context) -> bool:
    """a condition keeps the backward pass out of the evaluation, which shares the code

    What holds already where gradients are switched off (``if args.train: train()``) says nothing of that.
    """
    if event.grad != "off":
        return False
    frames = list(event.frame.stack())
    first: Event = next(e for e in ctx.events if e.grad == "off" and any(e.frame is frame for frame in frames))
    return any(guard.topic in ("mode", "phase") for guard in ctx.conditions_beyond(event, first))


def is_kept_by_the_model(event: Backward, cut: Site, ctx: Context) -> bool:
    """the loss is what a model keeps from a forward pass, and that need not have been the evaluation's

    So it is where the ``forward`` does not switch gradients off itself, and is not what goes backward.
    """
    forward = next((each for each in ctx.ancestors(cut, ast.FunctionDef) if each.name == "forward"), None)
    if forward is None or any(frame.function == "forward" for frame in event.frame.stack()):
        return False
    return not any(_switch_of(node) for node in ast.walk(forward) if isinstance(node, ast.expr))


def is_caught(event: Backward, cut: Site, ctx: Context) -> bool:
    """the error that torch raises here is caught, as in a lesson that shows it"""
    return any(
        node.body[0].lineno <= event.site.line <= (node.body[-1].end_lineno or 0) and any(map(_expects, node.handlers))
        for node in ctx.ancestors(event.site, ast.Try)
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
    excuses = (is_kept_out_of_evaluation, is_kept_by_the_model, is_caught)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found: dict[ast.AST, Finding | None] = {}
        for event in ctx.all_of(Backward):
            if event.loss is None:
                continue
            cut = next((cut for cut in _cuts(event, ctx) if not ctx.excused(self, event, cut)), None)
            if event.site.node not in found or cut is None:  # elsewhere in the program the same line may be right
                found[event.site.node] = self._report(event, cut, ctx) if cut is not None else None
        for event, switch in _left_off(ctx):
            if found.get(event.site.node) is None and not ctx.excused(self, event, switch.site):
                found[event.site.node] = self._report_left_off(event, switch, ctx)
        yield from (finding for finding in found.values() if finding is not None)

    def _report(self, event: Backward, cut: Site, ctx: Context) -> Finding:
        switch = _last_switch(event, cut, ctx)
        return ctx.finding(
            self,
            event,
            "backward pass from a loss that was computed with gradients off",
            effect="no gradient reaches any parameter: torch raises here, or nothing is trained",
            help="compute the forward pass and the loss outside `no_grad`"
            if switch is None
            else "use `with torch.no_grad():` there, which ends with its block",
            trace=[
                *([(switch.site, "gradients are off from here on")] if switch is not None else []),
                (cut, "computed with gradients off"),
                (event.site, "and sent backward"),
            ],
            fix=("Compute it with gradients on", _switched_on(cut, ctx)),
        )

    def _report_left_off(self, event: Backward, switch: LibraryCall, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            "backward pass in a loop that switches gradients off and never on again",
            on=[event.loss],
            effect="from the second iteration on the loss has no gradient: torch raises here",
            help="use `with torch.no_grad():` for the evaluation, which ends with its block",
            trace=[(switch.site, "gradients are off from here on"), (event.site, "and the loop comes back to this")],
        )


def _cuts(event: Backward, ctx: Context) -> list[Site]:
    """Where gradients were off when the loss was computed, if that holds for all of it."""
    gradient = ctx.gradient(event.loss) if event.loss is not None else None
    if gradient is None or gradient.flows is not False:
        return []
    return [cut.site for cut in gradient.cuts if cut.reason == "no_grad"]


def _last_switch(event: Backward, cut: Site, ctx: Context) -> LibraryCall | None:
    """The statement in another function that has switched gradients off for good, where nothing around a place does."""
    around = [each for node in ctx.ancestors(cut, ast.With, ast.FunctionDef) for each in _switching(node)]
    if any(map(_switch_of, around)):
        return None
    before = [each for each in ctx.all_of(LibraryCall) if each.name == "torch.set_grad_enabled"]
    before = [each for each in before if ctx.position(each) < ctx.position(event) and _is_statement(each, ctx)]
    is_off = bool(before) and ctx.constant(before[-1].arguments.get(0, "mode")) is False
    return before[-1] if is_off and before[-1].frame is not event.frame else None


def _left_off(ctx: Context) -> Iterator[tuple[Backward, LibraryCall]]:
    """Backward passes in loops in which a statement switches gradients off for good, with that."""
    switches = [each for each in ctx.all_of(LibraryCall) if each.name == "torch.set_grad_enabled"]
    if not switches or not all(ctx.constant(each.arguments.get(0, "mode")) is False for each in switches):
        return
    if ctx.project_mentions(r"\benable_grad\b|set_grad_enabled\((?!\s*(mode\s*=\s*)?False)", where="here"):
        return
    for switch in switches:
        loop = ctx.training_loop(switch) if switch.grad == "on" and _is_statement(switch, ctx) else None
        for event in ctx.all_of(Backward) if loop is not None else ():
            gradient = ctx.gradient(event.loss) if event.loss is not None and event.grad == "on" else None
            is_of_training = gradient is not None and gradient.flows is True and gradient.trained
            if is_of_training and loop in ctx.loops_around(event) and not ctx.conditions_beyond(switch, event):
                yield event, switch


def _is_statement(switch: LibraryCall, ctx: Context) -> bool:
    """Whether a switch is no context manager, and so is not undone at the end of a block."""
    innermost = next(ctx.ancestors(switch.site, ast.stmt), None)
    return isinstance(innermost, ast.Expr) and innermost.value is switch.site.node


def _switch_of(node: ast.expr) -> ast.Attribute | ast.Name | None:
    """The ``torch.no_grad`` of an expression that is one, or a call of one."""
    name = node.func if isinstance(node, ast.Call) else node
    is_switch = (
        isinstance(name, ast.Attribute | ast.Name) and getattr(name, "attr", getattr(name, "id", "")) in _SWITCHES
    )
    return name if is_switch and isinstance(name, ast.Attribute | ast.Name) else None


def _switching(node: ast.AST) -> list[ast.expr]:
    """What a block is entered with, or a function decorated."""
    if isinstance(node, ast.With):
        return [each.context_expr for each in node.items]
    return node.decorator_list if isinstance(node, ast.FunctionDef) else []


def _expects(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for what torch raises, and not for memory that has run out."""
    is_runtime_error = handler.type is not None and "RuntimeError" in ast.unparse(handler.type)
    return is_runtime_error and "memory" not in ast.unparse(handler)


def _switched_on(cut: Site, ctx: Context) -> Edits:
    """Keep gradients on in all blocks and functions around a place that switch them off."""
    switches: list[ast.expr] = []
    for node in ctx.ancestors(cut, ast.With, ast.FunctionDef):
        switches += _switching(node)
    named = ((switch, _switch_of(switch)) for switch in switches)
    return together(
        *(
            replace_range(Site(cut.module, switch), f"{ast.unparse(name.value)}.enable_grad()")
            for switch, name in named
            if isinstance(name, ast.Attribute) and name.attr != "set_grad_enabled"
        )
    )
