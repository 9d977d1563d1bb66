"""Checkpoints that Accelerate names and counts itself, from 0 again after a run is resumed.

With `automatic_checkpoint_naming` the folders are `checkpoint_0`, `checkpoint_1`, … and a resumed run starts at 0 once
more. `total_limit` then deletes the folder with the lowest number, which is now the newest, and the next `load_state()`
takes the one with the highest, which is old.

Measured on accelerate 1.15 (a limit of 3; five saves, resumed, two more): the folders left are 1, 3 and 4, and the next
run resumes from the fifth save: both saves of the second run are lost. With `iteration=5` it resumes from the seventh.

## Bad
    config = ProjectConfiguration(project_dir="runs", automatic_checkpoint_naming=True, total_limit=3)
    accelerator = Accelerator(project_config=config)
    if resume:
        accelerator.load_state()
    for epoch in range(epochs):
        train(model, loader, optimizer)
        accelerator.save_state()

## Good
    config = ProjectConfiguration(project_dir="runs", automatic_checkpoint_naming=True, total_limit=3)
    accelerator = Accelerator(project_config=config)
    if resume:
        accelerator.load_state()
        config.iteration = last_checkpoint + 1
    for epoch in range(epochs):
        train(model, loader, optimizer)
        accelerator.save_state()

## Not reported
Configurations that are given an `iteration`, or whose counter is set anywhere; runs that are never resumed; states that
are saved under names of the project's own.

## On real code
276 public repositories: no finding; few of them use these libraries to resume.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule

_COUNTERS = ("iteration", "save_iteration")


# ------------------------------------------------------------------------------------------------- excuses


def counts_on(event: LibraryCall, ctx: Context) -> bool:
    """the counter is set, where the configuration is made or later"""
    return "iteration" in event.arguments.keywords or any(
        isinstance(node, ast.Attribute) and node.attr in _COUNTERS and isinstance(node.ctx, ast.Store)
        for counter in _COUNTERS
        for _, tree in ctx.trees(counter)
        for node in ast.walk(tree)
    )


def is_named_by_hand(event: LibraryCall, ctx: Context) -> bool:
    """no state is saved without a name, or none is loaded"""
    saves = [site.node for site in ctx.method_calls("save_state")]
    loads = list(ctx.method_calls("load_state"))
    return not loads or not any(isinstance(call, ast.Call) and not call.args for call in saves)


class AccelerateNamingAfterResume(Rule):
    code = "DL720"
    name = "accelerate-naming-after-resume"
    category = "correctness"
    severity = "error"
    triggers = (("ProjectConfiguration",), ("automatic_checkpoint_naming",), ("load_state",))
    references = ("https://huggingface.co/docs/accelerate/usage_guides/checkpoint",)
    excuses = (counts_on, is_named_by_hand)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name.rpartition(".")[2] != "ProjectConfiguration" or not event.name.startswith("accelerate."):
            return
        named = event.arguments.keywords.get("automatic_checkpoint_naming")
        limit = event.arguments.keywords.get("total_limit")
        if named is None or ctx.constant(named) is not True or limit is None or not ctx.constant(limit):
            return
        if not ctx.excused(self, event):
            loads = list(ctx.method_calls("load_state"))
            yield ctx.finding(
                self,
                event,
                "a resumed run counts its checkpoints from 0 again, and the limit deletes them",
                on=[named, limit],
                effect="what is saved after a run was resumed is deleted first, and the next run resumes before it",
                help="set `iteration` to the number of the last checkpoint plus one after `load_state`",
                trace=[(event.site, "counts from 0"), (loads[0], "a run is resumed here, and the counter is not set")],
            )
