"""Cross-entropy over a single class.

The softmax of one logit is 1, whatever it is. The loss is zero from the first step on, so is its gradient, and nothing
is trained. A model with one output for two classes wants `binary_cross_entropy_with_logits`, or a second output.

Measured on torch 2.13: the loss is 0.0 and the gradient of each parameter 0, for any target that does not raise.

## Bad
    net = nn.Linear(10, 1)
    loss = F.cross_entropy(net(x), y)
    loss.backward()

## Good
    net = nn.Linear(10, 1)
    loss = F.binary_cross_entropy_with_logits(net(x).squeeze(1), y.float())
    loss.backward()

## Not reported
Outputs of another size, or one that is not known or is set from outside; outputs that are reshaped or joined first;
losses under a condition, where another loss of the same output is computed under the opposite one.

## On real code
138 public repositories: 1 finding, true: an example of distributed training whose model has one output.
Of 3 in unread ones 1 was true, 1 doubtful (the same example again) and 1 false: a condition on the targets chose
between this loss and a binary one, as another chose the count of outputs. The first condition tells it since.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, LossCall, Rule, Shape, Size, Symbol, judge

_LOSS = "torch.nn.functional.cross_entropy"


def has_another_loss(event: LossCall, ctx: Context) -> bool:
    """under the opposite condition another loss is computed of the same output: it is for models of one class"""
    mine = [origin.value for origin in ctx.origins(event.input)] if event.input is not None else []
    others = [each.input for each in ctx.all_of(LossCall) if ctx.exclusive(each, event)]
    theirs = [origin.value for each in others if each is not None for origin in ctx.origins(each)]
    return any(one is other for other in theirs for one in mine)


class SingleLogitCrossEntropy(Rule):
    code = "DL115"
    name = "single-logit-cross-entropy"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("cross_entropy", "CrossEntropyLoss"), ("Linear",))
    confirmable = True
    excuses = (has_another_loss,)
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.input is None or event.loss != _LOSS or not _is_of_one_class(ctx.shape(event.input)):
            return
        verdict = judge(ctx.origins(event.input), lambda each: _layer_of(each.value) is not None, event.guards)
        if verdict is None or ctx.excused(self, event):
            return
        bad, assumed = verdict
        layer = _layer_of(bad[0].value)
        made = layer.site if layer is not None else None
        yield ctx.finding(
            self,
            event,
            "cross-entropy over a single class is always zero",
            effect="the loss and its gradient are 0 from the first step on: nothing is trained",
            help="use `binary_cross_entropy_with_logits`, or an output for each class",
            trace=[
                *([(made, "this layer has one output")] if made is not None else []),
                *reversed(bad[0].hops),
                (event.site, "the loss takes it for the only class"),
            ],
            assuming=[*assumed, *ctx.assumed_use(event.result, "the loss")],
        )


def _is_of_one_class(shape: Shape) -> bool:
    """Whether the last axis has one step, and may be that of the classes."""
    return shape.axis(-1) == Size() and shape.rank in (None, 2)


def _layer_of(value: object) -> Instance | None:
    """The linear layer that has made a value."""
    if not isinstance(value, Symbol) or value.name != "torch.nn.Linear()":
        return None
    return value.inputs[0] if isinstance(value.inputs[0], Instance) else None
