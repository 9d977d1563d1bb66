"""A model that samples with guidance, and that is never trained without its condition.

Classifier-free guidance leads a sample from what a model predicts without a condition to what it predicts with one.
Both have to be learned: in training, the condition is left out now and then. Where the probability of that is 0, the
prediction without a condition is what the model happened to be made with, and guidance leads anywhere.

Measured on torch 2.13 (16 numbers in 8 clusters, which are the condition, a denoiser of three layers, DDIM of 100
steps, three seeds): with a scale of 4, samples of a model that never missed its condition are 8 to 10 from the data
(energy distance, in deviations), and .01 from it where a tenth was left out. Without guidance both are .004 from it.

## Bad
    class Denoiser(nn.Module):
        def __init__(self, cond_drop_prob=0.0):
            super().__init__()
            self.fc, self.embed = nn.Linear(16, 16), nn.Embedding(9, 16)
            self.cond_drop_prob = cond_drop_prob

        def forward(self, x, c, drop=None):
            drop = self.cond_drop_prob if drop is None else drop
            dropped = torch.zeros(len(x)).uniform_() < drop
            return self.fc(x + self.embed(torch.where(dropped, 8, c)))

        def guided(self, x, c, cond_scale=6.0):
            null = self(x, c, drop=1.0)
            return null + cond_scale * (self(x, c, drop=0.0) - null)

    denoiser = Denoiser()
    optimizer = torch.optim.Adam(denoiser.parameters())
    for x, y in loader:
        noise = torch.randn_like(x)
        loss = F.mse_loss(denoiser(x + noise, y), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    class Denoiser(nn.Module):
        def __init__(self, cond_drop_prob=0.1):
            super().__init__()
            self.fc, self.embed = nn.Linear(16, 16), nn.Embedding(9, 16)
            self.cond_drop_prob = cond_drop_prob

        def forward(self, x, c, drop=None):
            drop = self.cond_drop_prob if drop is None else drop
            dropped = torch.zeros(len(x)).uniform_() < drop
            return self.fc(x + self.embed(torch.where(dropped, 8, c)))

        def guided(self, x, c, cond_scale=6.0):
            null = self(x, c, drop=1.0)
            return null + cond_scale * (self(x, c, drop=0.0) - null)

    denoiser = Denoiser()
    optimizer = torch.optim.Adam(denoiser.parameters())
    for x, y in loader:
        noise = torch.randn_like(x)
        loss = F.mse_loss(denoiser(x + noise, y), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Not reported
Models without such a probability. Files that draw whether something is left out (`random() < p`), or that give another
probability to any call. Models that nothing guides: no argument or default of a scale other than 0 and 1. Models that
begin with weights from a file: they may know the case without a condition.

## On real code
8 public repositories that speak of a scale of guidance: no finding.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from functools import partial

from dllint.api import Backward, Class, Context, Finding, Instance, Rule, Site, StateRead, Value, nodes_of

_SCALES = ("cond_scale", "cfg_scale", "guidance_scale", "guidance_weight", "cfg_strength", "guidance")
_DRAWS = ("rand", "random", "random_sample", "rand_like", "bernoulli")


def begins_with_weights(model: Instance, ctx: Context) -> bool:
    """weights are read from a file"""
    return bool(ctx.all_of(StateRead)) or any(True for _ in ctx.method_calls("from_pretrained"))


def draws_what_is_left_out(model: Instance, ctx: Context) -> bool:
    """code draws whether something is left out, or gives another probability"""
    for _, tree in [each for word in _SCALES for each in ctx.trees(word)]:
        nodes = nodes_of(tree)
        for test in nodes.of(ast.Compare):
            if any(ast.unparse(each.func).rpartition(".")[2] in _DRAWS for each in nodes_of(test).of(ast.Call)):
                return True
        for keyword in nodes.of(ast.keyword):
            if ctx.speaks_of("conditioning-dropout", keyword.arg or "") and not _is_all_or_nothing(keyword.value):
                return True
    return False


class NoConditioningDropout(Rule):
    code = "DL946"
    name = "no-conditioning-dropout"
    category = "suspicious"
    severity = "info"
    default = False
    confirmable = True
    triggers = (
        ("backward",),
        ("cond_scale", "cfg_scale", "guidance_scale", "guidance_weight", "cfg_strength", "guidance"),
    )
    excuses = (begins_with_weights, draws_what_is_left_out)
    references = ("https://arxiv.org/abs/2207.12598",)

    def __init__(self) -> None:
        self._told: set[int] = set()

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        models = ctx.models_behind(event.loss, with_gradients=True) if event.loss is not None else []
        for model in [part for each in models for part in (each, *_parts_of_model(each))]:
            if not isinstance(model, Instance) or not isinstance(model.cls, Class) or id(model) in self._told:
                continue
            self._told.add(id(model))
            for name, value in model.attributes.items():
                if not ctx.speaks_of("conditioning-dropout", name) or ctx.constant(value) not in (0, 0.0):
                    continue
                guided = next(_guided(ctx), None) if ctx.attribute_uses(model.cls, name) else None
                if guided is not None and ctx.constant(value) is not False and not ctx.excused(self, model):
                    yield self._report(event, model, name, guided, ctx)

    def _report(self, event: Backward, model: Instance, name: str, guided: Site, ctx: Context) -> Finding:
        value = model.attributes[name]
        made = model.site or event.site
        return ctx.finding(
            self,
            made,
            f"`{name}` is 0, and samples are made with guidance",
            on=[event, model, value, *model.choices],
            assuming=ctx.assumed_of_computation(event.loss, partial(operator.is_, model)) if event.loss else (),
            effect="what is predicted without a condition is never learned, and guidance leads away from that",
            help="leave the condition out of a tenth of the samples in training",
            trace=[
                (made, "the model always gets its condition"),
                (event.site, "and is trained so"),
                (guided, "and here its samples are led away from what it predicts without one"),
            ],
        )


def _parts_of_model(model: Value) -> Iterator[Value]:
    """The models of the project that are attributes of another one: that of a process, as `diffusion.model`."""
    if isinstance(model, Instance):
        yield from (each for each in model.attributes.values() if isinstance(each, Instance))


def _guided(ctx: Context) -> Iterator[Site]:
    """Where the scale of guidance is a number other than 0 and 1, as an argument or as a default."""
    for module, tree in [each for word in _SCALES for each in ctx.trees(word)]:
        for keyword in nodes_of(tree).of(ast.keyword):
            if ctx.speaks_of("guidance", keyword.arg or "") and _is_scale(keyword.value):
                yield Site(module, keyword.value)
        for function in nodes_of(tree).of(ast.FunctionDef):
            given = function.args
            named = [*given.posonlyargs, *given.args]
            pairs = [*zip(named[len(named) - len(given.defaults) :], given.defaults, strict=True)]
            pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
            for argument, default in pairs:
                if ctx.speaks_of("guidance", argument.arg) and _is_scale(default):
                    yield Site(module, default)


def _is_scale(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1)


def _is_all_or_nothing(node: ast.expr) -> bool:
    """Whether a probability is none at all, 0 or 1, as guidance gives it."""
    return isinstance(node, ast.Constant) and node.value in (None, 0, 1)
