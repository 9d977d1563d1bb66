"""A layer that is made again in each call of `forward`: its weights are random, and never trained.

What `forward` makes is not registered, so no optimizer has its parameters, `to(device)` does not move it and no
checkpoint keeps it. Each call multiplies by another random matrix. The layers around it still learn, so the loss falls
a little.

Measured on torch 2.13 (a linear layer in the middle of three; three seeds): test accuracies of .302, .290 and .337
instead of .957, .941 and .961. The model has 4 parameters instead of 6.

## Bad
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            x = nn.Linear(128, 64)(x)
            return self.fc(x)

## Good
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(128, 64)
            self.fc = nn.Linear(64, 10)

        def forward(self, x):
            return self.fc(self.hidden(x))

## Not reported
Layers without random weights (activations, pooling, normalization); those that are made once, below a condition, and
kept as an attribute; those whose weights are set afterwards; random projections under `no_grad`; layers in a method
that makes an optimizer of their weights, to adapt them to a few samples. Where `forward` draws other random numbers, or
the class is called random, it is a question: random layers are a way to change pictures. In a branch of `forward` of
which nothing that is known tells whether it is taken it is a question. Several layers of one branch are one finding.

## On real code
138 public repositories: no finding. In 138 others, read with the rule as it was, 2, both true; 1 in 184 more was false,
a classifier that is trained where it is made, which is silent now. In 1,300 others 2 of 3
were true; the third, doubtful, changes pictures by random convolutions, and is a question.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from dllint.api import (
    Assumption,
    Context,
    Finding,
    Instance,
    ModelForward,
    OptimizerCreated,
    Rule,
    Site,
    nodes_of,
    statement_around,
)

_RANDOM = frozenset(
    ("Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
     "Embedding", "EmbeddingBag", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "MultiheadAttention",
     "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer")
)  # fmt: skip
_IS_REACHED = Assumption("effect", "the branch is taken in which it is made, which nothing that is known decides")
_IS_NOT_MEANT = Assumption("effect", "its weights are not random on purpose, as other numbers that `forward` draws are")
_DRAWS = ("rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform", "uniform_", "bernoulli")


# ------------------------------------------------------------------------------------------------- excuses


def is_made_once(event: ModelForward, layer: Instance, ctx: Context) -> bool:
    """it is made below a condition and kept as an attribute"""
    statement = statement_around(layer.site) if layer.site is not None else None
    is_kept = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute)
    return is_kept and layer.site is not None and any(True for _ in ctx.ancestors(layer.site, ast.If, ast.Try))


def has_weights_set(event: ModelForward, layer: Instance, ctx: Context) -> bool:
    """its weights are set afterwards"""
    return any(name in layer.attributes for name in ("weight", "bias", "data"))


def is_random_projection(event: ModelForward, layer: Instance, ctx: Context) -> bool:
    """no gradients are computed there"""
    return event.grad != "on"


def is_trained_there(event: ModelForward, layer: Instance, ctx: Context) -> bool:
    """the method makes an optimizer of its weights, as an adaptation to a few samples does"""
    here = (made for made in ctx.all_of(OptimizerCreated) if made.frame is event.frame)
    return any(made.parameters is not None and ctx.reaches(made.parameters, layer) for made in here)


class LayerCreatedInForward(Rule):
    code = "DL222"
    name = "layer-created-in-forward"
    category = "correctness"
    severity = "error"
    triggers = (tuple(sorted(_RANDOM)), ("forward",))
    references = ("https://docs.pytorch.org/docs/stable/notes/modules.html",)
    excuses = (is_made_once, has_weights_set, is_random_projection, is_trained_there)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        layer = event.model
        if not isinstance(layer, Instance) or layer.site is None or not layer.library_name.startswith("torch.nn."):
            return
        if layer.library_name.rpartition(".")[2] not in _RANDOM or event.frame.function != "forward":
            return
        definition = event.frame.definition
        if definition is None or not ctx.is_within(layer.site, definition) or event.frame.receiver is None:
            return
        if ctx.is_module(event.frame.receiver) and not ctx.excused(self, event, layer):
            yield self._report(event, layer, ctx)

    def _report(self, event: ModelForward, layer: Instance, ctx: Context) -> Finding:
        assert layer.site is not None
        name, branch = ctx.class_name(layer), _branch(layer.site, ctx)
        return ctx.finding(
            self,
            layer.site,
            f"`forward` makes a new `{name}` in each call: its weights are random and never trained",
            on=[event],
            assuming=[
                *([_IS_REACHED] if _is_in_open_branch(event, ctx) else ()),
                *([_IS_NOT_MEANT] if _draws_otherwise(event, ctx) else ()),
            ],
            effect="the model multiplies by other random numbers in each call, and loses what it has learned before",
            help="make it in `__init__`, as an attribute",
            trace=[
                *([(branch, "this branch of `forward` makes it")] if branch is not None else []),
                (layer.site, "is made here, in `forward`"),
                (event.site, "and called"),
            ],
        )


def _branch(site: Site, ctx: Context) -> Site | None:
    """The test in the function around a place by which it is reached."""
    inside = takewhile(lambda node: not isinstance(node, ast.FunctionDef), ctx.ancestors(site, ast.AST))
    branch = next((node for node in inside if isinstance(node, ast.If)), None)
    return Site(site.module, branch.test) if branch is not None else None


def _draws_otherwise(event: ModelForward, ctx: Context) -> bool:
    """Whether `forward` draws random numbers by itself, as what changes pictures does, or its name says so."""
    definition = event.frame.definition
    if definition is None:
        return False
    calls = nodes_of(definition.node).of(ast.Call)
    drawn = any(getattr(each.func, "attr", getattr(each.func, "id", "")) in _DRAWS for each in calls)
    return drawn or ctx.speaks_of("random-map", event.frame.owner)


def _is_in_open_branch(event: ModelForward, ctx: Context) -> bool:
    """Whether the layer is called under a condition in `forward` that does not hold by default, as far as is known."""
    definition = event.frame.definition
    return definition is not None and any(
        guard.by_default is not True
        and guard.topic != "mode"
        and guard.node is not None
        and ctx.is_within(Site(event.site.module, guard.node), definition)
        for guard in event.guards
    )
