"""Samples that are never scored: `drop_last=True` in a loader for evaluation.

The last batch is dropped if it is not full. Of a set that is smaller than a batch nothing is left: the mean over no
batches is a division by zero, or a loss of 0 that is the best one ever. The metric is that of a part of the data, and
which part depends on the batch size.

It is a note: seldom does a set lose more than a few samples in a thousand.

Measured on torch 2.13 with batches of 64: of 1,000 samples 960 are scored, of 100 samples 64, and of 50 none.

## Bad
    test_set = datasets.CIFAR10("data", train=False, transform=transforms.ToTensor())
    test_loader = DataLoader(test_set, batch_size=64, drop_last=True)
    model.eval()
    with torch.no_grad():
        for x, y in test_loader:
            loss += criterion(model(x), y)

## Good
    test_set = datasets.CIFAR10("data", train=False, transform=transforms.ToTensor())
    test_loader = DataLoader(test_set, batch_size=64)
    model.eval()
    with torch.no_grad():
        for x, y in test_loader:
            loss += criterion(model(x), y)

## Not reported
Loaders that are also trained on, those whose batches nobody scores, or of which only a number is taken (`islice`,
endless rounds, `if i == steps: break`), `drop_last` that is computed, models that keep a state for a batch of fixed
size (`init_hidden(batch_size)`), losses and models of the project that are told it, collate functions that read the
size of a batch, and well-known sets that are a multiple of the batch (1,000 of CIFAR's 10,000). Where a sampler of the
project makes the batches, or their size is a round number (50, 1,000), as that of made-up sets is, it is a question.

## Fix (safe)
Takes `drop_last=True` out: what is scored is scored as before, and the rest besides.

## On real code
138 public repositories: 3 findings in 3 of them, all true. In 127 others 6 findings: 3 true, 2 doubtful (samples made
at random, an example in a copy of a library) and 1 false, a loader that is shuffled and cut by `islice`, which is
silent now. In 276 more 13: 10 true, 1 false, a set that fills its batches, and 2 doubtful, with a collate function
for batches of one size; these three are silent now. In 138 more 6: 1 true and 5 false, which a loss for full
batches, a sampler and sets of round sizes explain; four of these are silent or questions now. Of all that was read
before anything was mended two in three were true: too few for a warning.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    BoundMethod,
    Class,
    Context,
    Finding,
    Function,
    Instance,
    LoaderCreated,
    Program,
    Rule,
    Value,
    nodes_of,
    remove_argument,
)

_ROUND = 5
_SIZE = re.compile(r"(?:batch|chunk)_?size", re.IGNORECASE)

# ------------------------------------------------------------------------------------------------- excuses


def is_trained_on(event: LoaderCreated, ctx: Context) -> bool:
    """gradients are computed from its batches"""
    return ctx.data.is_trained_on(event.loader)


def is_not_scored(event: LoaderCreated, ctx: Context) -> bool:
    """nobody computes a loss or a metric from its batches"""
    return not ctx.is_scored(event.loader)


def needs_full_batches(event: LoaderCreated, ctx: Context) -> bool:
    """the model keeps a state for a batch of fixed size, or it, the loss or what makes the batch is told its size"""
    collate = event.options.get("collate_fn")
    function = collate.function if isinstance(collate, BoundMethod) else collate
    code = ast.walk(function.node) if isinstance(function, Function) else ()
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in code)
    return any(map(_SIZE.fullmatch, names)) or ctx.mentions("init_hidden", where="related") or _tells_a_module(ctx)


def _tells_a_module(ctx: Context) -> bool:
    """Whether a loss or model of the project is made for batches of a size."""
    modules = {
        node.name
        for _, tree in ctx.trees("Module")
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Module") for base in node.bases)
    }
    calls = (node for _, tree in ctx.trees("batch_size") for node in nodes_of(tree).of(ast.Call))
    made = (call for call in calls if getattr(call.func, "id", getattr(call.func, "attr", "")) in modules)
    given = (each for call in made for each in (*call.args, *(keyword.value for keyword in call.keywords)))
    return any(_SIZE.fullmatch(_last_word(each)) for each in given)


def _last_word(node: ast.expr) -> str:
    """``batch_size`` of ``batch_size``, ``args.batch_size`` and ``config["batch_size"]``."""
    if isinstance(node, ast.Subscript):
        return str(getattr(node.slice, "value", ""))
    return str(getattr(node, "id", getattr(node, "attr", "")))


def is_read_in_part(event: LoaderCreated, ctx: Context) -> bool:
    """a number of batches is taken from it, or from endless rounds over it, whether it drops one or not"""
    return ctx.is_read_in_part(event.loader)


def has_only_full_batches(event: LoaderCreated, ctx: Context) -> bool:
    """the number of its samples is a multiple of the batch size"""
    samples, size = ctx.data.number_of_samples(event.dataset), ctx.data.batch_size(event.loader)
    return bool(samples and size and samples % size == 0)


class DropLastInEval(Rule):
    code = "DL422"
    name = "drop-last-in-eval"
    category = "correctness"
    severity = "info"
    triggers = (("DataLoader",), ("drop_last",))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",)
    excuses = (is_trained_on, is_not_scored, needs_full_batches, is_read_in_part, has_only_full_batches)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            drops = event.options.get("drop_last")
            if drops is None or ctx.constant(drops) is not True or _is_one_by_one(event, ctx):
                continue
            if _is_for_evaluation(event, ctx) and not ctx.excused(self, event):
                yield self._report(event, drops, ctx)

    def _report(self, event: LoaderCreated, drops: Value, ctx: Context) -> Finding:
        outer = ctx.data.datasets(event.dataset)[:1]
        is_told = bool(outer) and ctx.data.is_told_part(outer[0])
        name = ctx.called(event.loader, "loader")
        by_name = Assumption("name", f"{name} is for evaluation, as names say")
        is_shuffled = ctx.constant(event.options.get("shuffle")) is True
        missed = "each pass leaves out others" if is_shuffled else "its last samples are never scored"
        return ctx.finding(
            self,
            event,
            f"`drop_last=True` in {name}, which is for evaluation: {missed}",
            on=[drops],
            assuming=[*(() if is_told else (by_name,)), *ctx.assumed_batches(event.loader), *_assumed_rest(event, ctx)],
            effect="the metric leaves out up to a batch of samples, and all of a set that is smaller than a batch",
            help="leave `drop_last` out where nothing is trained",
            trace=[(event.site, "the last batch is dropped if it is not full")],
            fix=("Take `drop_last` out", remove_argument(event.site, "drop_last")),
        )


def _is_for_evaluation(event: LoaderCreated, ctx: Context) -> bool:
    outer = ctx.data.datasets(event.dataset)[:1]
    told = [ctx.data.part(dataset) for dataset in outer]
    return ctx.data.part_of_loader(event) == "eval" and "train" not in told


def _assumed_rest(event: LoaderCreated, ctx: Context) -> list[Assumption]:
    """That samples are left over where a sampler of the project may see to it, or where nothing tells their number and
    batches have a round size, as sets often have that people make."""
    sampler = event.options.get("sampler", event.options.get("batch_sampler"))
    if isinstance(sampler, Instance) and isinstance(sampler.cls, Class):
        return [Assumption("effect", f"`{sampler.cls.name}` does not fill the batches")]
    size = ctx.data.batch_size(event.loader)
    if size and size % _ROUND == 0 and ctx.data.number_of_samples(event.dataset) is None:
        return [Assumption("effect", f"the number of samples is no multiple of {size}")]
    return []


def _is_one_by_one(event: LoaderCreated, ctx: Context) -> bool:
    """Whether a batch is a single sample, as it is by default: nothing is ever dropped."""
    size = event.options.get("batch_size")
    return size is None or ctx.is_none(size) or ctx.constant(size) == 1
