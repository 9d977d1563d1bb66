"""Worker processes that are spawned by a script without `if __name__ == "__main__"`.

A worker that is spawned imports the script that it belongs to. What stands at the top of the script runs once more: the
training starts again in the worker, wants workers of its own, and Python stops it. Workers that are forked import
nothing, so the script runs under Linux, and fails under Windows, under macOS and with Python 3.14.

Measured on torch 2.13 with `spawn` and with `forkserver`: the worker prints `An attempt has been made to start a new
process before the current process has finished its bootstrapping phase`, and the script ends with `DataLoader worker
(pid(s) N) exited unexpectedly` at its first batch.

## Bad
    loader = DataLoader(train_set, num_workers=4, multiprocessing_context="spawn")
    for batch in loader:
        print(batch)

## Good
    def main():
        loader = DataLoader(train_set, num_workers=4, multiprocessing_context="spawn")
        for batch in loader:
            print(batch)

    if __name__ == "__main__":
        main()

## Not reported
Loaders without workers, or whose workers are forked; notebooks; functions that nothing calls here. Where a project does
not say how processes are started, it is a note that only those see who select this rule.

## On real code
276 public repositories: no finding. Where the rule is selected, 32 notes in 18 of them; the three that were read are
true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, LoaderCreated, Pass, Program, Rule, Site

# ------------------------------------------------------------------------------------------------- excuses


def is_forked(event: LoaderCreated, start: Site, ctx: Context) -> bool:
    """the workers are forked"""
    return ctx.data.start_method(event) == "fork"


def is_guarded(event: LoaderCreated, start: Site, ctx: Context) -> bool:
    """it stands under `if __name__ == "__main__"`"""
    return any("__name__" in ast.unparse(node.test) for node in ctx.ancestors(start, ast.If))


def is_in_a_notebook(event: LoaderCreated, start: Site, ctx: Context) -> bool:
    """cells are not imported by workers"""
    return start.module.source.notebook is not None


class MissingMainGuard(Rule):
    code = "DL416"
    name = "missing-main-guard"
    category = "correctness"
    severity = "warning"
    triggers = (("DataLoader",), ("num_workers",))
    of_files = True
    references = (
        "https://docs.pytorch.org/docs/stable/notes/windows.html#multiprocessing-error-without-if-clause-protection",
    )
    excuses = (is_forked, is_guarded, is_in_a_notebook)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            workers = ctx.data.workers(event)
            for each in ctx.data.passes:
                start = _start(each)
                if workers is None or not any(loader is event.loader for loader in each.loaders):
                    continue
                if not ctx.excused(self, event, start):
                    yield self._report(event, each, start, ctx)
                    return  # what follows does not run

    def _report(self, event: LoaderCreated, each: Pass, start: Site, ctx: Context) -> Finding:
        workers = ctx.data.workers(event)
        is_spawned = ctx.data.start_method(event) != ""
        return ctx.finding(
            self,
            start,
            "workers that are spawned import this script, and start it once more"
            if is_spawned
            else "where workers are spawned, they import this script and start it once more",
            on=[workers, workers.value if workers is not None else None, event.options.get("multiprocessing_context")],
            effect="the first iteration over the loader fails: a worker exits unexpectedly"
            if is_spawned
            else "under Windows, macOS and Python 3.14 the first iteration over the loader fails",
            help='move it under `if __name__ == "__main__":`',
            severity=None if is_spawned else "info",
            pedantic=not is_spawned,
            trace=[(event.site, "this loader has workers"), (each.loop.site, "which are started here")],
        )


def _start(each: Pass) -> Site:
    """Where the top of the script leads to a loop over batches: the loop itself, or a call."""
    frames = [frame for frame in each.loop.frame.stack() if frame.call is not None]
    outermost = frames[-1].call if frames else None
    return outermost if outermost is not None else each.loop.site
