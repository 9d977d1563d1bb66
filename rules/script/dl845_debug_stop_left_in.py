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
Stops under a condition or in an `except`, unless the condition is a fixed number of turns (`if index > 10: break`), and
a comment says that it is for debugging, or it ends what fills the lists of a dataset after a few rows (`if index > 10:`
as the last thing) and no comment says why; scripts that do not train, and files that only try out what others import of
them; functions and files that are for debugging, as their names say; a `break` in a loop over steps that takes one
batch from a shuffled loader each time (a question where it counts thousands of epochs), or the only one; code after an
`exit()` that neither trains nor keeps anything, nor evaluates where nothing above does; stops after one that has ended
the run before, perhaps in a file that is imported; a debugger as the last thing that a script does which does not
train, be it for each of several batches. What stands below an exit of a run that has trained, or has saved or exported
what it was for, is a question only: it may be an earlier experiment.

## On real code
276 public repositories: 4 findings in 3 of them. 3 are true: an `embed()` in the loop over batches, a `breakpoint()` in
each validation and one at the end; 1 was doubtful, of a file that only tries a dataset out, and is silent now. In 1,300
others, as they were read, 14 of 20 were true and 6 doubtful: exits where all was done, above an earlier way to do it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dllint.api import (
    Assumption,
    Context,
    Event,
    Finding,
    Leave,
    LibraryCall,
    Loop,
    OptimizerStep,
    Program,
    Rule,
    Site,
    nodes_of,
)

_DEBUGGERS = ("pdb.set_trace", "ipdb.set_trace", "pudb.set_trace", "IPython.embed", "code.interact", "breakpoint")
_EXITS = ("exit", "quit", "sys.exit", "os._exit")
_RESULTS = ("backward", "fit", "train", "export", "save", "save_pretrained", "savefig", "imwrite", "to_csv")
_MANY = 2000  # epochs: as many as there are steps in other loops
_FEW = 50  # rows
_OF_FEW = re.compile(r"(?i)calib|few|shot|subset|sample|example|preview|demo|mini|small|prompt|probe|show|plot")
_TO_LINTERS = re.compile(r"#\s*(?:noqa|type:|pragma|pylint|[A-Z]{1,4}\d{3,4}\b)")
_DATASETS = ("TensorDataset", "from_dict", "from_list", "DataLoader")
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom


# ------------------------------------------------------------------------------------------------- excuses


def is_for_debugging(event: Event, ctx: Context) -> bool:
    """the function or the file is for debugging, as its name says"""
    names = (*(frame.scope for frame in event.frame.stack()), event.site.path.rpartition("/")[2])
    return ctx.speaks_of("debugging", *names) or ctx.speaks_of("benchmark", *names)


def trains_nothing(event: Event, ctx: Context) -> bool:
    """no code of the script computes gradients, or it is there for others: it is a place to try things out"""
    has_steps = any(True for _ in ctx.all_of(OptimizerStep))
    return ctx.is_trial or not (has_steps or ctx.mentions("backward", where="here"))


def is_never_reached(event: Event, ctx: Context) -> bool:
    """the run has ended before: at an exit of a file that it imports, or one above"""
    exits = (each for each in ctx.all_of(LibraryCall) if each.name in _EXITS and not each.guards)
    first = next((each for each in exits if not ctx.loops_around(each)), None)
    return first is not None and ctx.position(first) < ctx.position(event)


def is_the_end_of_a_look(event: Event, ctx: Context) -> bool:
    """it is a debugger as the last thing that a script does which does not train: it was made to look at something"""
    is_debugger = isinstance(event, LibraryCall) and event.name in _DEBUGGERS
    if not is_debugger or any(True for _ in ctx.all_of(OptimizerStep)):
        return False
    return all(_is_last(site, ctx) for site in (event.site, *(called for called, _ in ctx.calls_to(event))))


def has_one_batch(event: Event, ctx: Context) -> bool:
    """the loader has a single batch, so that nothing is left to be seen"""
    around = ctx.loops_around(event)[:1]
    is_step = isinstance(event, OptimizerStep)
    return is_step and any(one.loop in around and ctx.has_one_batch(one) for one in ctx.batch_loops)


class DebugStopLeftIn(Rule):
    code = "DL845"
    name = "debug-stop-left-in"
    category = "correctness"
    severity = "warning"
    triggers = (("set_trace", "embed", "interact", "breakpoint", "exit", "quit", "_exit", "break"), ("torch",))
    references = ("https://docs.python.org/3/library/functions.html#breakpoint",)
    excuses = (is_for_debugging, trains_nothing, is_never_reached, is_the_end_of_a_look, has_one_batch)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _DEBUGGERS and _is_always_met(event, ctx) and not ctx.excused(self, event):
            yield self._report(event.site, event, "a debugger waits here in each run", "the run stops and waits", ctx)
        elif event.name in _EXITS and _is_always_met(event, ctx) and not ctx.excused(self, event):
            loop = next((loop for loop in ctx.loops_around(event) if ctx.trains(loop)), None)
            if loop is not None:
                what, effect = "this ends the run in the first iteration of the training", "nothing else is trained"
                yield self._report(event.site, event, what, effect, ctx)
            elif _leaves_undone(event, ctx):
                what, effect = "this ends the run, and there is more to do below it", "what stands below never runs"
                yield self._report(event.site, event, what, effect, ctx, _assumed_of_rest(event, ctx))

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
            what, effect = "each epoch ends after its first batch", "the other batches are never seen"
            assumed = [] if says_so else _assumed_of_epochs(loops[1], ctx)
            yield self._report(stop.site, event, what, effect, ctx, assumed)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if program.kind != "module":
            return
        trains = any(True for _ in ctx.all_of(OptimizerStep)) or ctx.mentions("backward", where="here")
        if ctx.is_trial or not (trains or ctx.mentions("fit", where="here")):
            return
        for module, tree in ctx.trees("enumerate"):
            stops = ((loop, stop) for loop in nodes_of(tree).of(ast.For) if (stop := _stop_by_count(loop)) is not None)
            for loop, stop in stops:
                yield from self._stopped_by_count(Site(module, loop), Site(module, stop), ctx)

    def _stopped_by_count(self, loop: Site, stop: Site, ctx: Context) -> Iterator[Finding]:
        """Loops that end after so many turns, of which a comment says that it is to debug, or that read a few rows."""
        names = (ctx.scope(stop), stop.path.rpartition("/")[2])
        if ctx.speaks_of("debugging", *names) or ctx.speaks_of("benchmark", *names):
            return
        said = _comments_beside(stop)
        step = next((each for each in ctx.steps() if _is_around(loop, each, ctx)), None)
        says_so = any(ctx.speaks_of("debugging", text) for text in said)
        if says_so and step is not None:
            what, effect = "each epoch ends after its first batches", "the other batches are never seen"
        elif (says_so or not said) and _reads_a_few(loop, stop, ctx):
            what, effect = "the data ends after its first rows", "the model is trained with these alone"
        else:
            return
        yield ctx.finding(
            self,
            stop,
            what,
            on=[step] if step is not None else [],
            effect=effect,
            help="remove it, or put it under an option",
            trace=[(loop, "this goes over all of them"), (stop, "and ends here, as by a fixed number")],
        )

    def _report(
        self, at: Site, event: Event, message: str, effect: str, ctx: Context, assuming: Sequence[Assumption] = ()
    ) -> Finding:
        return ctx.finding(
            self,
            at,
            message,
            on=[event],
            effect=effect,
            help="remove it, or put it under an option",
            assuming=assuming,
            trace=[*ctx.calls_to(event), (at, "is met without any condition")],
        )


def _is_always_met(event: Event, ctx: Context) -> bool:
    """Whether nothing decides about an event, or only what decides about the training as well."""
    if ctx.program.kind != "module":
        return False
    return not event.guards or any(not ctx.conditions_beyond(event, step) for step in ctx.all_of(OptimizerStep))


def _leaves_undone(event: Event, ctx: Context) -> bool:
    """Whether what stands below an exit trains or keeps something, or evaluates what nothing above it has evaluated."""
    above, below = _reached_around(event, ctx)
    if ctx.speaks_of("lasting", *(below - above)):
        return True
    return ctx.speaks_of("evaluation", *(below - above)) and not ctx.speaks_of("evaluation", *above)


def _assumed_of_rest(event: Event, ctx: Context) -> list[Assumption]:
    """That a run which has trained or kept results above an exit is to go on below it, not an earlier experiment."""
    above, _ = _reached_around(event, ctx)
    return [] if above.isdisjoint(_RESULTS) else [Assumption("effect", "what stands below is no earlier experiment")]


def _reached_around(event: Event, ctx: Context) -> tuple[set[str], set[str]]:
    """The names of what is called above an exit, and below it up to the next one of its block."""
    own = {each.name: each for each in nodes_of(event.site.module.tree).of(ast.FunctionDef)}
    above, below = _around_exit(event, ctx)
    end = next((index for index, each in enumerate(below) if _is_exit(each)), len(below))
    return _names_reached(above, own), _names_reached(below[:end], own)


def _is_exit(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS


def _around_exit(event: Event, ctx: Context) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements above and below the one of an event, in its block."""
    statement = next(ctx.ancestors(event.site, ast.Expr), None)
    for around in ctx.ancestors(event.site, ast.stmt, ast.Module):
        for block in (getattr(around, name, []) for name in ("body", "orelse", "finalbody")):
            if statement in block:
                at = block.index(statement)
                return block[:at], block[at + 1 :]
    return [], []


def _is_last(site: Site, ctx: Context) -> bool:
    """Whether nothing comes after a statement in its function, or at the top of its file, but what a loop repeats."""
    inner: ast.AST = next(ctx.ancestors(site, ast.stmt), site.node)
    for around in ctx.ancestors(site, ast.stmt, ast.Module):
        if around is inner:
            continue
        blocks = [getattr(around, name, []) for name in ("body", "orelse", "finalbody")]
        if not any(inner is block[-1] for block in blocks if block):
            return False
        if isinstance(around, ast.FunctionDef):
            return True
        inner = around
    return True


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


def _last_step(loop: Loop, ctx: Context) -> OptimizerStep:
    return [step for step in ctx.all_of(OptimizerStep) if ctx.loops_around(step)[:1] == (loop,)][-1]


def _assumed_of_epochs(loop: Loop, ctx: Context) -> list[Assumption]:
    """That a loop over very many epochs is not one over steps, each of which takes a batch by chance."""
    count = ctx.constant(ctx.loop_count(loop))
    is_of_steps = isinstance(count, int) and count >= _MANY
    return [Assumption("effect", "the loop counts epochs, although there are so many of them")] if is_of_steps else []


def _counts_epochs(loop: Loop, ctx: Context) -> bool:
    """Whether a loop is one over epochs by the name of what it counts."""
    return any("epoch" in name.lower() for name in loop.targets)


# ------------------------------------------------------------------------------------------------- a fixed number


def _stop_by_count(loop: ast.For) -> ast.If | None:
    """Where a loop ends by what it counts and by a number, and does nothing else: ``if index > 10: break``."""
    calls = [loop.iter, *(loop.iter.args[:1] if isinstance(loop.iter, ast.Call) else ())]  # `tqdm(enumerate(rows))`
    is_counted = any(isinstance(each, ast.Call) and ast.unparse(each.func) == "enumerate" for each in calls)
    counter = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and is_counted else None
    for each in loop.body if isinstance(counter, ast.Name) else ():
        match each:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=counted), comparators=[ast.Constant(value=int())]),
                body=[ast.Break()],
                orelse=[],
            ) if isinstance(counter, ast.Name) and counted == counter.id:
                return each
    return None


def _comments_beside(stop: Site) -> list[str]:
    """The comments in the lines of a statement, and in the one above it, but for those that speak to a linter."""
    comments, last = stop.module.comments, getattr(stop.node, "end_lineno", stop.line)
    beside = [comments[line] for line in range(stop.line - 1, last + 1) if line in comments]
    return [text for text in beside if _TO_LINTERS.match(text) is None]


def _is_around(loop: Site, step: OptimizerStep, ctx: Context) -> bool:
    """Whether a loop is the innermost one around a step, within another one that counts epochs."""
    loops = ctx.loops_around(step)
    return len(loops) > 1 and loops[0].site.node is loop.node and _counts_epochs(loops[1], ctx)


def _reads_a_few(loop: Site, stop: Site, ctx: Context) -> bool:
    """Whether a loop fills lists, of which a dataset is made, until its last statement finds more than a few rows.

    With ``index > 10`` there are twelve of them, a number that nobody has chosen.
    """
    test = stop.node.test if isinstance(stop.node, ast.If) else None
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Gt) or not isinstance(loop.node, ast.For):
        return False
    limit = getattr(test.comparators[0], "value", 0)
    around = next(ctx.ancestors(loop, ast.FunctionDef), None)
    if loop.node.body[-1] is not stop.node or not 0 < limit <= _FEW or around is None:
        return False
    appended = (call.func for call in nodes_of(loop.node).of(ast.Call) if isinstance(call.func, ast.Attribute))
    filled = {ast.unparse(each.value) for each in appended if each.attr == "append"}
    if any(_OF_FEW.search(name) for name in (around.name, *filled)):
        return False
    owner = next(ctx.ancestors(Site(loop.module, around), ast.ClassDef), None)
    is_dataset = owner is not None and any(getattr(each, "name", "") == "__getitem__" for each in owner.body)
    if is_dataset and around.name == "__init__" and any(name.startswith("self.") for name in filled):
        return True
    return _gets_to_dataset(filled, around, loop)


def _gets_to_dataset(filled: set[str], function: ast.FunctionDef, loop: Site) -> bool:
    """Whether a dataset is made of some lists in a function, or of what is made of them there."""
    made, nodes = set(filled), nodes_of(function)
    for each in nodes.of(ast.Assign):
        if any(name.id in made for name in nodes_of(each.value).of(ast.Name)):
            made |= {ast.unparse(target) for target in each.targets}
    imports = (alias for each in nodes_of(loop.module.tree).of(ast.ImportFrom) for alias in each.names)
    makers = {*_DATASETS, *(alias.asname for alias in imports if alias.name in _DATASETS)}
    calls = (call for call in nodes.of(ast.Call) if ast.unparse(call.func).rpartition(".")[2] in makers)
    return any(not made.isdisjoint(name.id for name in nodes_of(call).of(ast.Name)) for call in calls)
