"""A run that goes on from a checkpoint and counts its epochs from 0 again.

The checkpoint has the epoch, the model and the optimizer are restored, but the loop begins with epoch 0. The run makes
all its epochs once more: what depends on the epoch (schedules, warm-up, file names, logs) is repeated, and a run of 90
epochs that was stopped after 60 makes 150.

Measured on torch 2.13 (a cosine over 10 epochs, resumed after 5): 15 epochs in all instead of 10. Where the learning
rate is computed from the epoch, its sum is 9.8 times the base rate instead of 5.5. A `CosineAnnealingLR` that is
restored runs past its end, and the rate has risen to .35 of the base rate in the last epoch.

## Bad
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Good
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(checkpoint["epoch"] + 1, epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Not reported
Loops whose beginning, or whose count, comes from what was read, unless that is a default, as nothing in the project
writes the name that is looked up; weights that are loaded without the optimizer, unless the epoch of a checkpoint of
the program's own is looked up and not used, or the one after it (`checkpoint["epoch"] + 1`) worked out and only shown;
what is loaded to fine-tune, as a condition says; checkpoints without an epoch, and loops that do not go over a plain
range, unless a variable that was given the epoch is set back before anything reads it; loops that pass over epochs by
their number; those that begin with a number by which it goes whether, or from which file, a checkpoint is read; and
those that somebody has begun anew by hand, as a comment at them has a range that begins with a variable, or one beside
the weights has the state of the optimizer. Where a condition of it speaks of pretrained weights (`if pretrained is not
None`), it is a question.

## On real code
269 public repositories, of which 40 load the state of an optimizer: no finding, and 1 question, which is true: a helper
sets `args.start_epoch`, and the loop goes over `range(args.epochs)`. In about 200, after epochs that are looked up for
nothing were added: no finding. In 363 others, after epochs that are set back were added: none of these.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dllint.api import (
    Assumption,
    Context,
    Continuation,
    Finding,
    Instance,
    Loop,
    Overwritten,
    Program,
    Restored,
    Rule,
    Setting,
    StateRead,
    Symbol,
    Value,
    alternatives,
)

_GOES_ON = Assumption("effect", "what is read is where the run goes on, not what another one begins with")
_RANGES = ("range", "trange", "tqdm.trange")
_RANGE_LEFT_OUT = re.compile(r"\brange\(\s*(?![\s\d])[^,()]+,")
_OWNERS = frozenset(("self", "args", "opt", "opts", "config", "cfg", "params"))  # what has numbers of all kinds


def counted_on(found: Continuation, ctx: Context) -> bool:
    """the epoch that was read decides where the loop begins, or is counted on"""
    return ctx.counts_on(found)


def read_elsewhere(found: Continuation, ctx: Context) -> bool:
    """other code looks the epoch up"""
    keys = {ctx.progress_in(saved) for saved in found.saved} - {""}
    return not any(key in found.keys for key in keys) and any(ctx.is_entry_read(key) for key in keys)


def skips_epochs(found: Continuation, ctx: Context) -> bool:
    """the loop passes over the epochs that were made before, by their number"""
    return any(_skips_by_number(loop.site.node) for loop in _loops(ctx))


def _skips_by_number(loop: ast.AST) -> bool:
    """Whether a loop compares what it counts and goes on with the next turn: ``if epoch < start: continue``."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return False
    counted = loop.target.id
    return any(
        isinstance(each, ast.If)
        and isinstance(each.test, ast.Compare)
        and isinstance(each.body[-1], ast.Continue)
        and any(isinstance(node, ast.Name) and node.id == counted for node in ast.walk(each.test))
        for each in loop.body
    )


def says_where_to_begin(found: Continuation, ctx: Context) -> bool:
    """whether, or what, is read goes by the number that the loop begins with: who resumes says where"""
    begun = {name for loop in _loops(ctx) for name in _names_of_first(loop.site.node)}
    return any(begun & names for restored in found.restored for names in _conditions_of(restored, ctx))


def _names_of_first(loop: ast.AST) -> set[str]:
    """The variables and attributes in the first number of the range that a loop goes over."""
    calls = (node for node in ast.walk(loop.iter) if isinstance(node, ast.Call)) if isinstance(loop, ast.For) else ()
    firsts = [call.args[0] for call in calls if ast.unparse(call.func) in _RANGES and len(call.args) > 1]
    return {name for first in firsts for name in _variables_in(first)}


def _conditions_of(restored: Restored, ctx: Context) -> Iterator[set[str]]:
    """The variables in what it is asked before a checkpoint is read or put back, and in the path that is read."""
    for guard in (*restored.event.guards, *restored.read.guards):
        yield _variables_in(guard.node) if guard.node is not None else set()
    read = restored.read.site.node
    for path in read.args[:1] if isinstance(read, ast.Call) else ():
        yield _variables_in(path)


def _variables_in(expression: ast.expr) -> set[str]:
    nodes = [*ast.walk(expression)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return (names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}) - _OWNERS


def is_begun_by_hand(found: Continuation, ctx: Context) -> bool:
    """a comment at the loop has a range that begins with a variable: somebody has put this one in its place"""
    said = (text for loop in _loops(ctx) for text in ctx.comments_at(loop.site))
    return any(_RANGE_LEFT_OUT.search(text) is not None for text in said)


def _loops(ctx: Context) -> list[Loop]:
    """The outermost loops in which optimizers step."""
    return [loop for step in ctx.steps() for loop in ctx.loops_around(step)[-1:]]


class EpochRestarts(Rule):
    code = "DL711"
    name = "epoch-restarts"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("load_state_dict", "step"), ("load",), ("load_state_dict",))
    confirmable = True
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",)

    excuses = (counted_on, read_elsewhere, skips_epochs, says_where_to_begin, is_begun_by_hand)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if not ctx.all_of(StateRead):
            return
        told = False
        for finding in self._with_first_epoch(ctx):
            told = True
            yield finding
        if not told:
            yield from (self._overwritten(each, ctx) for each in ctx.overwritten_progress)

    def _with_first_epoch(self, ctx: Context) -> Iterator[Finding]:
        """Loops over a plain range, though the checkpoint has an epoch."""
        found = ctx.continuation or ctx.restart
        if found is None or not any(map(ctx.progress_in, found.saved)):
            return
        restored = [each for each in found.restored if ctx.guessed_role(each.event.target) == "optimizer"]
        if not restored and found is ctx.restart:
            restored = list(found.restored)
        loops = [loop for loop in _loops(ctx) if _begins_at_0(loop, restored, ctx)]
        if restored and loops and not ctx.excused(self, found):
            for each in restored:  # whichever of several optimizers it is, the epochs start again
                yield self._report(loops[0], each, found, ctx)

    def _overwritten(self, found: Overwritten, ctx: Context) -> Finding:
        name, restored = found.name, found.restored
        return ctx.finding(
            self,
            found.begun,
            f"training goes on from a checkpoint, and `{name}`, which was taken up, is set back before it is read",
            on=[restored.event, restored.unsure],
            effect="all epochs are made once more, and whatever depends on their number is repeated",
            help=f"let `{name}` begin above, before the checkpoint is read",
            trace=[
                (restored.event.site, "training goes on from a checkpoint"),
                (found.taken, f"`{name}` is taken up"),
                (found.begun, "and begins again"),
            ],
        )

    def _report(self, loop: Loop, restored: Restored, found: Continuation, ctx: Context) -> Finding:
        parts = [part for saved in found.saved for part in saved.parts if part.key == ctx.progress_in(saved) != ""]
        key = parts[0].key
        behind = ctx.assumptions_of(restored.event)  # what else got the optimizer does not say where a loop begins
        asked = (
            str(guard.subject) for guard in (*restored.event.guards, *restored.read.guards) if guard.node is not None
        )
        begins = [_GOES_ON] if any(ctx.speaks_of("starting-weights", each) for each in asked) else []
        return ctx.finding(
            self,
            loop.site,
            f"training goes on from a checkpoint, and its `{key}` is not taken up: the loop starts again",
            on=[restored.unsure, loop, parts[0].given],
            assuming=[*(each for each in behind if each.kind != "opaque"), *found.assumptions, *begins],
            effect="all epochs are made once more, and whatever depends on their number is repeated",
            help=f'begin with the epoch after that of the checkpoint: `range(checkpoint["{key}"] + 1, epochs)`',
            trace=[
                (restored.read.site, "a checkpoint is read"),
                (restored.event.site, "training goes on from it"),
                (loop.site, "and the epochs start again"),
            ],
        )


def _begins_at_0(loop: Loop, restored: Sequence[Restored], ctx: Context) -> bool:
    """Whether a loop goes over a range that begins with a constant, or an attribute that was set back to one."""
    sources = ctx.sources(loop.iterable) if loop.iterable is not None else ()
    given = next((each for each in sources if isinstance(each, Symbol | Instance) and _is_range(each)), None)
    if given is None or given.arguments is None or ctx.is_of_runs(loop):
        return False
    first, *others = given.arguments.positional or (None,)
    if first is None or not others:
        return first is not None
    return all(_is_first(each, restored, ctx) for _, each in alternatives(first))


def _is_first(number: Value, restored: Sequence[Restored], ctx: Context) -> bool:
    """Whether a number is 0 or 1, or what a checkpoint of the project never has, and so the default of that."""
    if ctx.constant(number) not in (0, 1):
        return ctx.is_looked_up_in_vain(number)
    return not ctx.is_setting(number) or any(_is_set_back(number, each, ctx) for each in restored)


def _is_set_back(first: Value, restored: Restored, ctx: Context) -> bool:
    """Whether an attribute, which other methods assign as well, gets its number below what puts back a checkpoint, in
    the same method: `self.resume(path)`, and `self.start_epoch = 0`. The object is made, and trains, in the program."""
    site = first.site if isinstance(first, Setting) else None
    assigned = next(ctx.ancestors(site, ast.stmt), None) if site is not None else None
    if site is None or not isinstance(first, Setting) or not isinstance(assigned, ast.Assign):
        return False
    if assigned.value is not site.node or [ast.unparse(target) for target in assigned.targets] != [first.name]:
        return False
    frames = list(restored.event.frame.stack())
    method = next(ctx.ancestors(site, ast.FunctionDef), None)
    inside = [frame for frame in frames if frame.definition is not None and frame.definition.node is method]
    made = [frame.receiver.site for frame in inside if isinstance(frame.receiver, Instance)]
    if not any(place is not None and isinstance(place.node, ast.Call) for place in made):
        return False
    places = [restored.event.site, *(frame.call for frame in frames if frame.call is not None)]
    here = [place for place in places if next(ctx.ancestors(place, ast.FunctionDef), None) is method]
    return any(place.line < site.line for place in here)


def _is_range(value: Symbol | Instance) -> bool:
    return isinstance(value, Symbol) and value.name in ("range", "tqdm.trange")
