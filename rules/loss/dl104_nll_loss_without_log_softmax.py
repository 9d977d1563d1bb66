"""Negative log-likelihood of something that is no logarithm of probabilities.

`nll_loss` does not compute a logarithm: it averages the negated entries of the target classes. Logits or probabilities
run through it without complaint. With logits the loss falls to minus infinity because nothing holds them down; with
probabilities it falls to -1 and the gradient no longer depends on how wrong a prediction is.

Measured on torch 2.13 (10 classes, 400 steps): logits end at a loss of minus infinity and an accuracy of .106 with SGD
(-34.4 and .433 with Adam), softmax at -.708 and .717 (-.718 and .813), log-softmax at .0714 and .901 (.475 and .863).

## Bad
    loss = F.nll_loss(self.fc(x), target)
    loss.backward()

## Good
    loss = F.nll_loss(F.log_softmax(self.fc(x), dim=1), target)
    loss = F.cross_entropy(self.fc(x), target)
    loss.backward()

## Not reported
Inputs that cannot be followed to a last operation that is known to return logits or probabilities, to the average of
what one returns, or to a sum with logits: models that are not resolved, unknown layers, other sums and products,
log-probabilities of a distribution, `torch.log(p + eps)`; negated calls, which pick elements (`-F.nll_loss(p, y)`), and
those for each sample by itself (`reduction="none"`) without gradients, which do so, too; the loss of an attack in a
program that trains nothing (`x.requires_grad = True`, and `x.grad` is read), which goes along the signs of the
gradient.

## Fix (unsafe)
Replaces `nll_loss` by `cross_entropy` where logits go in, and `softmax` by `log_softmax` where probabilities do, in one
file. Unsafe because it changes the gradients, as it should.

## On real code
742 public repositories: 1 finding, true: the test loss of an adversarial training script is computed from logits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumptions,
    Context,
    Edits,
    Finding,
    Instance,
    LossCall,
    Origin,
    Rule,
    Symbol,
    Value,
    attribute_of,
    judge,
    nodes_of,
    rename_call,
)

_LAYERS = ("Linear()", "LazyLinear()", "Bilinear()", "functional.linear")
_ACTIVATIONS = tuple(
    f"torch.{name}"
    for name in (
        *("relu", "nn.ReLU()", "nn.ReLU6()", "tanh", "nn.Tanh()", "nn.functional.elu", "nn.ELU()"),
        *("nn.functional.leaky_relu", "nn.LeakyReLU()", "nn.functional.gelu", "nn.GELU()"),
    )
)
_GRAPH_LAYER = re.compile(r"(torch_geometric|dgl)\.nn\.([\w.]+\.)?\w*Conv\(\)$")
_PRODUCTS = ("torch.matmul", "torch.mm", "torch.addmm", "torch.spmm", "torch.sparse.mm", "@", "+")
_POOLINGS = tuple(f"{kind}{size}d" for kind in ("avg_pool", "adaptive_avg_pool") for size in (1, 2, 3))
_POOLING_LAYERS = tuple(f"{kind}{size}d()" for kind in ("AvgPool", "AdaptiveAvgPool") for size in (1, 2, 3))
_AVERAGES = ("/", ".div", ".mean", "torch.mean", *(f"torch.nn.functional.{name}" for name in _POOLINGS))
_MAX_DEPTH = 4


def picks_elements(event: LossCall, ctx: Context) -> bool:
    """the call is negated: `-nll_loss(p, y)` is a way to pick the elements of `p` at `y`"""
    return any(node.operand is event.site.node for node in ctx.ancestors(event.site, ast.UnaryOp))


def gives_each_sample_its_own(event: LossCall, ctx: Context) -> bool:
    """it is computed without gradients and for each sample by itself, `reduction="none"`: these are the entries of the
    targets, to weigh or compare samples by"""
    return event.grad == "off" and ctx.constant(event.options.get("reduction")) == "none"


def only_moves_inputs(event: LossCall, ctx: Context) -> bool:
    """nothing is trained, and the gradient of an input is read: an attack goes along its signs, away from the target"""
    if any(True for _ in ctx.steps()) or event.grad == "off":
        return False
    nodes = nodes_of(next(ctx.ancestors(event.site, ast.FunctionDef), event.site.module.tree))
    set_on = (node for node in nodes.attributes.get("requires_grad", ()) if isinstance(node.ctx, ast.Store))
    moved = {ast.unparse(node.value) for node in set_on}
    moved |= {ast.unparse(node.value) for node in nodes.attributes.get("requires_grad_", ())}
    read = {ast.unparse(node.value) for node in nodes.attributes.get("grad", ())}
    calls = (call for call in nodes.of(ast.Call) if ast.unparse(call.func).rpartition(".")[2] == "grad")
    read |= {ast.unparse(each) for call in calls for each in call.args[1:2]}
    return not moved.isdisjoint(read)


class NllLossWithoutLogSoftmax(Rule):
    code = "DL104"
    name = "nll-loss-without-log-softmax"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("nll_loss", "NLLLoss", "NLLLoss2d", "nll_loss2d"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html",)

    excuses = (picks_elements, gives_each_sample_its_own, only_moves_inputs)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss != "torch.nn.functional.nll_loss" or event.input is None or ctx.excused(self, event):
            return
        verdict = judge(ctx.origins(event.input), lambda origin: bool(_what(origin, ctx)), event.guards)
        if verdict is not None:
            bad, assumed = verdict
            yield self._report(event, bad[0], assumed, ctx)

    def _report(self, event: LossCall, origin: Origin, assumed: Assumptions, ctx: Context) -> Finding:
        source = origin.value
        assert isinstance(source, Symbol) and source.site is not None
        operation = source.name.rpartition(".")[2].removesuffix("()")
        what = _what(origin, ctx)
        loss = "NLLLoss" if event.criterion is not None else "nll_loss"
        found = f"`{operation}` output" if operation.isidentifier() else "a layer's output"
        how = f"the last operation is `{operation}`"
        if operation == "forward":
            found, how = "a classifier's output", "it returns logits"
        return ctx.finding(
            self,
            event,
            f"{found} passed to `{loss}`, which expects log-probabilities",
            effect="the loss falls without limit, and training diverges"
            if what == "logits"
            else "the gradient does not depend on how wrong a prediction is, and the model ends up less accurate",
            help="pass logits to `cross_entropy`, or apply `log_softmax` at the end of the model",
            trace=[
                (source.site, how),
                *reversed(origin.hops),
                (event.site, "the loss receives it"),
            ],
            fix=_fix(event, source, what),
            assuming=[*assumed, *ctx.assumed_use(event.result, "the loss")],
        )


def _what(origin: Origin, ctx: Context) -> str:
    """``logits`` or ``probabilities`` if that is certainly what an origin returns, else an empty string."""
    return _returned(origin.value, ctx)


def _returned(value: Value, ctx: Context, depth: int = 0) -> str:
    if not isinstance(value, Symbol):
        return ""
    if ctx.kind(value) == "probabilities":
        return "probabilities"
    if value.name in _ACTIVATIONS or value.name.endswith(_LAYERS) or ".nn.Conv" in value.name:
        return "logits"
    if _GRAPH_LAYER.match(value.name) or (value.name == "forward" and ctx.kind(value) == "logits"):
        return "logits"
    averaged = _averaged(value)
    if averaged is not None and depth < _MAX_DEPTH:
        kinds = {_returned(origin.value, ctx, depth + 1) for origin in ctx.origins(averaged)}
        return kinds.pop() if len(kinds) == 1 else ""
    return "logits" if _is_weighted(value, ctx, depth) else ""


def _averaged(value: Symbol) -> Value | None:
    """What a mean, a pooling or a division by a number is of."""
    if value.name.endswith(_POOLING_LAYERS):
        return value.inputs[1] if len(value.inputs) > 1 else None
    return value.inputs[0] if value.name in _AVERAGES else None


def _is_weighted(value: Value, ctx: Context, depth: int = 0) -> bool:
    """Whether a value is a product, or a sum, with a weight, however often multiplied: no logarithm looks like that."""
    if not isinstance(value, Symbol) or value.name not in _PRODUCTS or depth > _MAX_DEPTH:
        return False
    parts = [origin.value for part in value.inputs for origin in ctx.origins(part)]
    if value.name == "+":
        each = [{_returned(origin.value, ctx, depth + 1) for origin in ctx.origins(part)} for part in value.inputs]
        if any(kinds == {"logits"} for kinds in each):
            return True
    return any(_is_weight(part) or _is_weighted(part, ctx, depth + 1) for part in parts)


def _is_weight(value: Value) -> bool:
    if isinstance(attribute_of(value, "weight", "bias"), Instance):
        return True
    return isinstance(value, Instance) and value.library_name == "torch.nn.Parameter"


def _fix(event: LossCall, source: Symbol, what: str) -> tuple[str, Edits]:
    if what == "probabilities":
        return _with_log_softmax(source)
    criterion = event.criterion
    name = "CrossEntropyLoss" if criterion is not None else "cross_entropy"
    made = criterion.site if isinstance(criterion, Instance) else event.site
    is_own = isinstance(criterion, Instance) and criterion.library_name != "torch.nn.NLLLoss"
    return f"Use `{name}`, which takes logits", rename_call(made, name) if made is not None and not is_own else Edits()


def _with_log_softmax(source: Symbol) -> tuple[str, Edits]:
    """The edits that make a softmax a log-softmax, where there is such a function."""
    made, name = source.site, "log_softmax"
    if source.name == "torch.nn.Softmax()" and isinstance(source.inputs[0], Instance):
        made, name = source.inputs[0].site, "LogSoftmax"
    has_log = "oftmax" in source.name and "gumbel" not in source.name and "2d" not in source.name
    return f"Use `{name}`", rename_call(made, name) if made is not None and has_log else Edits()
