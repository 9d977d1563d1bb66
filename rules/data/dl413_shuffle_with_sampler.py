"""`shuffle=True` for a loader that also has a sampler.

The order in which a loader visits its dataset is either shuffled by the loader or decided by a sampler. Given both,
`DataLoader` raises.

Measured on torch 2.13: `ValueError: sampler option is mutually exclusive with shuffle`, and `ValueError: batch_sampler
option is mutually exclusive with batch_size, shuffle, sampler, and drop_last`. With a sampler that exists only in
distributed runs the script works on one device and fails on the cluster.

## Bad
    sampler = DistributedSampler(dataset) if args.distributed else None
    loader = DataLoader(dataset, batch_size=64, shuffle=True, sampler=sampler)

## Good
    sampler = DistributedSampler(dataset) if args.distributed else None
    loader = DataLoader(dataset, batch_size=64, shuffle=sampler is None, sampler=sampler)

## Not reported
`shuffle` that is computed (`shuffle=(sampler is None)`) or a setting, a sampler that may be `None` whenever `shuffle`
is true, and a sampler of which nothing is known.

## Fix (safe)
`shuffle=False`, or `shuffle=sampler is None` where the sampler may be `None`: the code as it stands cannot run with
the sampler.

## On real code
742 public repositories: 1 finding, true, in a branch that nobody runs (code that raises does not stay).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Choice,
    Const,
    Context,
    Edit,
    Finding,
    Guards,
    Instance,
    Items,
    LoaderCreated,
    Rule,
    Site,
    Value,
    alternatives,
    offer,
    replace_range,
)


class ShuffleWithSampler(Rule):
    code = "DL413"
    name = "shuffle-with-sampler"
    category = "correctness"
    severity = "error"
    triggers = (("shuffle",), ("sampler", "batch_sampler"))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        shuffle = event.options.get("shuffle")
        if shuffle is None:
            return
        for option in ("sampler", "batch_sampler"):
            sampler = event.options.get(option)
            bad = _clash(shuffle, sampler, event.guards, ctx) if sampler is not None else None
            if bad is not None and sampler is not None:
                yield self._report(event, option, sampler, bad, ctx)
                return

    def _report(self, event: LoaderCreated, option: str, whole: Value, sampler: Value, ctx: Context) -> Finding:
        always = not isinstance(whole, Choice)
        message = "Let the sampler shuffle" if always else "Shuffle only without a sampler"
        edits = _edits(event.site, option, always, ctx)
        trace = [(event.site, "the loader is given both")]
        if sampler.site is not None:
            trace.insert(0, (sampler.site, f"the {option.replace('_', ' ')}"))
        return ctx.finding(
            self,
            event,
            f"`shuffle=True` together with `{option}`",
            effect=f"`DataLoader` raises `ValueError: {option} option is mutually exclusive with …`"
            + ("" if always else f" as soon as there is a {option.replace('_', ' ')}"),
            help="let the sampler shuffle: drop `shuffle`"
            if always
            else f"shuffle only without it: `shuffle={option} is None`",
            trace=trace,
            fixes=offer(message, edits, "safe", of=event.site, at=event.site),
            on=[event.options.get("sampler"), event.options.get("shuffle")] if not always else [],
        )


def _clash(shuffle: Value, sampler: Value, here: Guards, ctx: Context) -> Value | None:
    """A sampler that the loader certainly gets although it is told to shuffle, or ``None``."""
    for on, flag in alternatives(shuffle):
        if not (isinstance(flag, Const) and flag.value is True):
            continue
        for present, option in alternatives(sampler):
            held = {guard.key() for guard in (*present, *here)}
            shuffles = all(guard.key() in held for guard in on) and not _is_replaced(flag, shuffle, held)
            if shuffles and isinstance(option, Instance | Items) and ctx.consistent(here, present):
                return option
    return None


def _is_replaced(flag: Value, whole: Value, held: set[tuple[str, str, str, bool]]) -> bool:
    """Whether an argument is something else under conditions that hold, as where it is taken out for a sampler."""
    others = (guards for guards, option in alternatives(whole) if option is not flag and guards)
    return any(all(guard.key() in held for guard in guards) for guards in others)


def _edits(site: Site, option: str, always: bool, ctx: Context) -> tuple[Edit, ...]:
    """Replace ``True``, where it is written in the call itself."""
    if not isinstance(site.node, ast.Call):
        return ()
    given = {keyword.arg: keyword.value for keyword in site.node.keywords}
    shuffle, sampler = given.get("shuffle"), given.get(option)
    if not (isinstance(shuffle, ast.Constant) and shuffle.value is True):
        return ()
    place = Site(site.module, shuffle)
    if always:
        return replace_range(place, "False")
    if not isinstance(sampler, ast.Name | ast.Attribute):
        return ()
    return replace_range(place, f"{ctx.source_of(Site(site.module, sampler))} is None")
