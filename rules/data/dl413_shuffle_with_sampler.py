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
from dataclasses import dataclass

from dllint.api import (
    Choice,
    Const,
    Context,
    Edits,
    Finding,
    Guards,
    Instance,
    Items,
    LoaderCreated,
    Rule,
    Site,
    Value,
    alternatives,
    replace_range,
)


@dataclass(frozen=True)
class _Clash:
    """A flag that tells the loader to shuffle, a sampler, and the conditions under which it is given each."""

    on: Guards
    flag: Value
    present: Guards
    sampler: Value


def of_unknown_sampler(event: LoaderCreated, clash: _Clash, ctx: Context) -> bool:
    """nothing is known of the sampler"""
    return not isinstance(clash.sampler, Instance | Items)


def either_by_condition(event: LoaderCreated, clash: _Clash, ctx: Context) -> bool:
    """the loader may be given only one of the two, whatever the conditions"""
    held = {guard.key() for guard in (*clash.present, *event.guards)}
    if any(guard.key() not in held for guard in clash.on) or not ctx.consistent(event.guards, clash.present):
        return True
    others = (guards for guards, flag in alternatives(event.options["shuffle"]) if flag is not clash.flag and guards)
    return any(all(guard.key() in held for guard in guards) for guards in others)  # as where it is taken out


class ShuffleWithSampler(Rule):
    code = "DL413"
    name = "shuffle-with-sampler"
    category = "correctness"
    severity = "error"
    triggers = (("shuffle",), ("sampler", "batch_sampler"))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",)

    excuses = (either_by_condition, of_unknown_sampler)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        shuffle = event.options.get("shuffle")
        clashes = [
            (name, _Clash(on, flag, present, sampler))
            for name in ("sampler", "batch_sampler")
            for on, flag in (alternatives(shuffle) if shuffle is not None else ())
            if isinstance(flag, Const) and flag.value is True
            for present, sampler in (alternatives(event.options[name]) if name in event.options else ())
            if not ctx.is_none(sampler)
        ]
        for name, clash in clashes:
            if not ctx.excused(self, event, clash):
                yield self._report(event, name, clash, ctx)
                return

    def _report(self, event: LoaderCreated, name: str, clash: _Clash, ctx: Context) -> Finding:
        always, what = not isinstance(event.options[name], Choice), name.replace("_", " ")
        made = [(clash.sampler.site, f"the {what}")] if clash.sampler.site is not None else []
        return ctx.finding(
            self,
            event,
            f"`shuffle=True` together with `{name}`",
            on=[*clash.on, *clash.present, event.options[name], event.options["shuffle"]],
            effect=f"`DataLoader` raises `ValueError: {name} option is mutually exclusive with …`"
            + ("" if always else f" as soon as there is a {what}"),
            help="let the sampler shuffle: drop `shuffle`"
            if always
            else f"shuffle only without it: `shuffle={name} is None`",
            trace=[*made, (event.site, "the loader is given both")],
            fix=(
                "Let the sampler shuffle" if always else "Shuffle only without a sampler",
                _shuffle_otherwise(event.site, name, always, ctx),
            ),
        )


def _shuffle_otherwise(site: Site, option: str, always: bool, ctx: Context) -> Edits:
    """Replace ``True``, where it is written in the call itself."""
    given = {keyword.arg: keyword.value for keyword in site.node.keywords} if isinstance(site.node, ast.Call) else {}
    shuffle, sampler = given.get("shuffle"), given.get(option)
    if not (isinstance(shuffle, ast.Constant) and shuffle.value is True):
        return Edits()
    place = Site(site.module, shuffle)
    if always:
        return replace_range(place, "False")
    if not isinstance(sampler, ast.Name | ast.Attribute):
        return Edits()
    return replace_range(place, f"{ctx.source_of(Site(site.module, sampler))} is None")
