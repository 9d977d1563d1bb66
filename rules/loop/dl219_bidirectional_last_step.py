"""The last step of a bidirectional layer, of which half has seen one step only.

A bidirectional layer returns for each step what it has read up to there from the left, and what it has read up to there
from the right. At the last step, the half that reads from the right has just begun: of everything before it knows
nothing. The state that the layer ends in has the end of both readings.

Measured on torch 2.13 (an LSTM of 24 units in each direction tells the first of 40 tokens, three seeds, 500 steps): by
the final states of both directions a test accuracy of 1.00, by `out[:, -1]` .08 to .09, where one in ten is chance.

## Bad
    rnn = nn.LSTM(64, 128, batch_first=True, bidirectional=True)
    out, (hidden, cell) = rnn(x)
    scores = head(out[:, -1])

## Good
    rnn = nn.LSTM(64, 128, batch_first=True, bidirectional=True)
    out, (hidden, cell) = rnn(x)
    scores = head(torch.cat([hidden[-2], hidden[-1]], dim=1))

Above another layer that reads in both directions (`num_layers=2`), the last step of what it is given has seen all of
the sequence: its half is weaker than it could be, and not blind. There this is a note, also where the number of layers
is not known.

## Not reported
Layers of which it is not known that they read in both directions, sequences of one step, halves that are taken where
each reading ends (`out[:, -1, :128]`), padded sequences that were packed, and code that uses the final state, or the
first step, as well.

## On real code
211 public repositories with bidirectional layers or a `squeeze()`: 2 findings, both true, one of
them in a tutorial that many have copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dllint.api import Context, Finding, Instance, ModelForward, Rule, Site, Size, Steps, Symbol, Value

_OF_ONE = "the direction that reads from the end knows nothing of the sequence but its last step"
_OF_TWO = "the direction that reads from the end has of the other steps only what the layer below tells at the last one"
_NEAR = 12  # values before what a layer is given


# ------------------------------------------------------------------------------------------------- excuses


def is_of_one_step(event: ModelForward, steps: Steps, ctx: Context) -> bool:
    """the sequences have one step, which both directions have seen"""
    axis = 0 if ctx.is_batch_first(steps.layer) is False else 1
    return ctx.shape(steps.given).axis(axis) == Size()


def is_state_used(event: ModelForward, steps: Steps, ctx: Context) -> bool:
    """the layer's final state goes into the same layer, so that the end of both readings is there as well"""
    sources = (source for value in event.arguments.all() for source in islice(ctx.sources(value), 2 * _NEAR))
    return any(_is_state(source, steps.result) for source in sources)


def _is_state(value: Value, result: Symbol) -> bool:
    return isinstance(value, Symbol) and value.name == "item" and value.inputs[0] is result and value.detail == 1


def is_first_step_used(event: ModelForward, steps: Steps, ctx: Context) -> bool:
    """the first step goes into a layer as well, at which the reading from the end is complete"""
    given = (value for each in ctx.all_of(ModelForward) for value in each.arguments.all())
    near = (source for value in given for source in islice(ctx.sources_inside(value, deep=False), 2 * _NEAR))
    return any(first is not None and first.result is steps.result for first in map(ctx.first_step, near))


class BidirectionalLastStep(Rule):
    code = "DL219"
    name = "bidirectional-last-step"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    since = "0.1.0"
    triggers = (("bidirectional",), ("LSTM", "GRU", "RNN"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html",)
    excuses = (is_of_one_step, is_state_used, is_first_step_used)

    def __init__(self) -> None:
        self._told: list[Site] = []

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        near = (
            source for value in event.arguments.all() for source in islice(ctx.sources_inside(value, deep=False), _NEAR)
        )
        for value in near:
            steps = ctx.last_step(value)
            at = value.site
            if steps is None or at is None or at in self._told or not ctx.is_bidirectional(steps.layer):
                continue
            if not ctx.excused(self, event, steps):
                self._told.append(at)
                yield self._report(steps, at, ctx)

    def _report(self, steps: Steps, at: Site, ctx: Context) -> Finding:
        made, is_above = steps.layer.site, _is_above_another(steps, ctx)
        return ctx.finding(
            self,
            at,
            f"half of `{ctx.source_of(at)}` has read one step: this `{ctx.class_name(steps.layer)}` is bidirectional",
            on=[steps.layer],
            severity="info" if is_above else None,
            effect=_OF_TWO if is_above else _OF_ONE,
            help="use the final states of both directions: `torch.cat([hidden[-2], hidden[-1]], dim=1)`",
            trace=[(made, "it reads in both directions")] if made is not None else [],
        )


def _is_above_another(steps: Steps, ctx: Context) -> bool:
    """Whether what a layer is given for the last step has seen all of them: by its lower layers, of which an unknown
    number may be several, or by another such one."""
    layers = steps.layer.arguments.get(2, "num_layers")
    if layers is not None and ctx.constant(layers) != 1:
        return True
    below = ctx.models_behind(steps.given)
    return any(isinstance(each, Instance) and ctx.is_bidirectional(each) for each in below)
