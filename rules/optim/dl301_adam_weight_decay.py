"""L2 regularization where weight decay was meant: `Adam(weight_decay=...)`.

`Adam`, `NAdam` and `RAdam` add `weight_decay * w` to the gradient and then divide by its running size. What is left is
not the decay that papers quote for AdamW: it is far stronger wherever gradients are small.

Measured on torch 2.13 (weight 1, 1000 steps, lr 1e-3, decay 1e-2): AdamW shrinks the weight by .00997 whatever the
gradient; Adam by .743, .540, .0947 and .0010 for gradients of 1e-4, 1e-2, 1e-1 and 10. A network with layer norms ends
at a test accuracy of .6012 instead of .6420, its gains at .257 instead of 1.148. At 1e-4 the two are alike.

## Bad
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-2)

## Good
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)

## Not reported
`decoupled_weight_decay=True`, a decay of zero, and other optimizers; a value that is called `l2` or a regularization,
or a call that a comment calls so; a call that makes an `AdamW` as well, to compare the two; DDPG, whose paper trains
its critic with an L2 of 0.01 (arXiv:1509.02971). Values below 5e-3, such as the 5e-4 of graph networks, and values that
are not known, are shown only when the rule is selected by name, and so are larger ones in files that use a library of
graph networks, where L2 is tuned on purpose.

## Fix (unsafe)
Uses `AdamW`, or `decoupled_weight_decay=True` for `NAdam` and `RAdam`. Unsafe because it changes training: for a
regularization of equal strength the value must be tuned again.

## On real code
742 public repositories: 20 findings in 11 of them, all true: decays of 0.01 to 0.3, which are recipes for `AdamW`. Of
62 in unread ones 32 were true, 15 false (13 in one project, whose settings say zero) and 15 doubtful: a decay that is
chosen by hand may be the L2 that it says. So it is a note. Small ones, a common choice for `Adam` itself, are shown
only when the rule is selected by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Guards,
    Instance,
    Items,
    OptimizerCreated,
    Rule,
    Table,
    Value,
    alternatives,
    assumed_under,
    rename_call,
    set_argument,
)

_AS_ADAMW = 5e-3  # from here on it is a value from a recipe for AdamW


# ------------------------------------------------------------------------------------------------- excuses


def is_decoupled(event: OptimizerCreated, optimizer: Instance, decays: list[Value], ctx: Context) -> bool:
    """the optimizer is told to decouple the decay"""
    decoupled = optimizer.arguments.keywords.get("decoupled_weight_decay")
    return decoupled is not None and ctx.constant(decoupled) is not False


def is_called_l2(event: OptimizerCreated, optimizer: Instance, decays: list[Value], ctx: Context) -> bool:
    """the code says that L2 is wanted: in the call, in the line above it, or where the value is set"""
    places = (event.site, *(decay.site for decay in decays if decay.site is not None))
    return any(ctx.speaks_of("coupled-decay", *ctx.lines_at(place)) for place in places)


def is_of_ddpg(event: OptimizerCreated, optimizer: Instance, decays: list[Value], ctx: Context) -> bool:
    """it is for a critic of DDPG, whose paper asks for an L2 of 0.01 with Adam"""
    file = event.site.module.source.path
    names = [file.stem, file.parent.name, *(part for frame in event.frame.stack() for part in frame.scope.split("."))]
    around = next(ctx.ancestors(event.site, ast.ClassDef), None)
    texts = (node.value for node in ast.walk(around) if isinstance(node, ast.Constant)) if around is not None else ()
    names += [text for text in texts if isinstance(text, str)]  # such as the name of its checkpoint
    return ctx.speaks_of("l2-recipe", *names)


def is_compared(event: OptimizerCreated, optimizer: Instance, decays: list[Value], ctx: Context) -> bool:
    """the same call makes an optimizer with decoupled decay as well, to compare the two"""
    same_call = (other for other in ctx.all_of(OptimizerCreated) if other.site.node is event.site.node)
    return any("torch.optim.AdamW" in ctx.library_bases(other.optimizer) for other in same_call)


def is_chosen_instead(event: OptimizerCreated, optimizer: Instance, decays: list[Value], ctx: Context) -> bool:
    """the program offers AdamW in its place, in another branch or under another key: who gets Adam asked for it"""
    around = next(ctx.ancestors(event.site, ast.Dict), None)
    others = (
        other
        for other in ctx.all_of(OptimizerCreated)
        if ctx.never_both(event, other)
        or (around is not None and next(ctx.ancestors(other.site, ast.Dict), None) is around)
    )
    return any(base.endswith(".AdamW") for other in others for base in ctx.library_bases(other.optimizer))


class AdamWeightDecay(Rule):
    code = "DL301"
    name = "adam-weight-decay"
    category = "suspicious"
    severity = "info"
    default = False
    preview = True
    triggers = (("Adam", "NAdam", "RAdam"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://arxiv.org/abs/1711.05101",)
    excuses = (is_decoupled, is_called_l2, is_of_ddpg, is_compared, is_chosen_instead)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer = event.optimizer
        if not isinstance(optimizer, Instance) or not optimizer.library_name.startswith("torch.optim."):
            return
        if not ctx.speaks_of("coupled-decay-optimizer", optimizer.library_name):
            return
        given = [(guards, value) for guards, value in _decays(event, optimizer, ctx) if ctx.constant(value) != 0]
        if given and not ctx.excused(self, event, optimizer, [value for _, value in given]):
            guards, decay = max(given, key=lambda pair: _rank(pair[1], ctx))
            yield self._report(event, optimizer, decay, guards, ctx)

    def _report(
        self, event: OptimizerCreated, optimizer: Instance, decay: Value, guards: Guards, ctx: Context
    ) -> Finding:
        name = ctx.class_name(optimizer)
        amount = ctx.constant(decay)
        shown = f"={amount:g}" if isinstance(amount, int | float) else ""
        trace = [(decay.site, "the decay is set here")] if decay.site is not None else []
        is_large = _rank(decay, ctx) >= _AS_ADAMW and not ctx.imports("torch_geometric", "dgl")
        return ctx.finding(
            self,
            event,
            f"`{name}` adds `weight_decay{shown}` to the gradient: that is L2, not the decay of `AdamW`",
            on=[decay],
            assuming=[*assumed_under(guards)],  # which parameters are in its group does not matter
            effect="where gradients are small, the decay is far stronger than that of `AdamW`, and accuracy suffers"
            if is_large
            else "hardly noticeable at small values; at larger ones far stronger than the decay of `AdamW`",
            help="use `AdamW`" if name == "Adam" else f"use `{name}(..., decoupled_weight_decay=True)`",
            trace=[*trace, (event.site, f"and `{name}` treats it as part of the gradient")],
            fix=("Use `AdamW`" if name == "Adam" else "Decouple the decay", _decoupled(event, optimizer, name)),
            pedantic=not is_large,
        )


def _decays(event: OptimizerCreated, optimizer: Instance, ctx: Context) -> Iterator[tuple[Guards, Value]]:
    """The weight decays that an optimizer is given, for all of its parameters or for groups of them, and when."""
    position = ctx.facts.signatures[optimizer.library_name].index("weight_decay")
    own = optimizer.arguments.get(position, "weight_decay")
    if own is not None:
        yield (), own
    for guards, group in _parameter_groups(event.parameters):
        if "weight_decay" in group.contents:
            yield guards, group.contents["weight_decay"]


def _parameter_groups(parameters: Value | None, under: Guards = ()) -> Iterator[tuple[Guards, Table]]:
    """The groups among some parameters, each with the conditions under which it is one of them."""
    for guards, option in alternatives(parameters) if parameters is not None else ():
        if isinstance(option, Table):
            yield under + guards, option
        elif isinstance(option, Items):
            for item in option.items:
                yield from _parameter_groups(item, under + guards)


def _rank(value: Value, ctx: Context) -> float:
    """Larger values come first, unknown ones last."""
    amount = ctx.constant(value)
    return amount if isinstance(amount, int | float) else 0.0


def _decoupled(event: OptimizerCreated, optimizer: Instance, name: str) -> Edits:
    """Use ``AdamW``; of ``NAdam`` and ``RAdam`` there is none, but an option."""
    call = event.site.node
    if not isinstance(call, ast.Call) or getattr(call.func, "attr", getattr(call.func, "id", "")) != name:
        return Edits()
    if name != "Adam":
        return set_argument(event.site, "decoupled_weight_decay", "True")
    groups = [group for _, group in _parameter_groups(event.parameters)]
    if "weight_decay" not in optimizer.arguments.keywords and not all("weight_decay" in g.contents for g in groups):
        return Edits()  # AdamW would give its own default to the others
    return rename_call(event.site, "AdamW")
