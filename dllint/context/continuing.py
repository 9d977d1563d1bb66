"""Runs that go on from a checkpoint: what they put back of it before they train, and what they leave."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import alternatives
from dllint.context.checkpoints import Restored, Saved, keys_needed, keys_read
from dllint.context.filtering import Filtering
from dllint.context.loading import Load
from dllint.context.uses import is_next_only_shown, is_read
from dllint.dataclass import dataclass
from dllint.events import OptimizerStep, StateRead
from dllint.interp.run import graph
from dllint.interp.source.batchwise import last_bound
from dllint.interp.source.bindings import Definition
from dllint.interp.source.entry_names import GETTERS, is_looked_up, may_write, only_looks_up
from dllint.interp.source.later_reads import later_reads
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition, statement_around
from dllint.interp.source.set_back import block_around, set_back
from dllint.sites import Site
from dllint.structure import Loop
from dllint.values import Const, Symbol, Value

_LOOKED_UP = frozenset(("item", ".get", ".pop"))
_NEAR = 6  # lines


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a run takes from files before it trains on.

    ``restored`` are the states that are put back, the model's first; ``keys`` are what is looked up by name; ``saved``
    are the checkpoints of the same program that are taken for what is read.
    """

    reads: tuple[StateRead, ...]
    restored: tuple[Restored, ...]
    keys: frozenset[str]
    saved: tuple[Saved, ...]
    assumptions: Assumptions = ()


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A variable that gets the epoch to go on from (``taken``) and then a first number (``begun``), unread between."""

    name: str
    restored: Restored
    taken: Site
    begun: Site


class Continuing(Filtering):
    """Training that goes on."""

    @cached_property
    def continuation(self) -> Continuation | None:
        """How the program goes on from a checkpoint, if it does: it restores more than the weights of a model.

        Who loads weights alone begins a run of its own; who restores an optimizer, or counts on from an epoch, goes on.
        """
        found = self._restoring
        if found is None:
            return None
        has_optimizer = any(self.guessed_role(each.event.target) == "optimizer" for each in found.restored)
        begins_there = has_optimizer or any(self._begins_at(loop, found.reads) for loop in self._training_loops)
        return found if begins_there else None

    @cached_property
    def restart(self) -> Continuation | None:
        """How the program takes up a checkpoint of its own whose epoch it looks up for nothing, if it does.

        Where a comment has the state of the optimizer, somebody has made it a run of its own.
        """
        found = self._restoring
        if found is None or not found.saved or any(map(self._leaves_optimizer_by_hand, found.restored)):
            return None
        items = [item for read in found.reads for item in items_of(read.result) if self._is_progress(item, found.reads)]
        return found if items and not any(map(self._is_made_use_of, items)) else None

    @cached_property
    def overwritten_progress(self) -> tuple[Overwritten, ...]:
        """Where the epoch or step that a run goes on from gets a first number again before anything reads it.

        It is a variable of that name which is assigned beside an optimizer that is put back, whatever it is computed
        from: `epoch = int(path.stem)` and below `epoch = 0`, where a training loop begins with it.
        """
        found = self.continuation
        restored = found.restored if found is not None else ()
        optimizers = [each for each in restored if self.guessed_role(each.event.target) == "optimizer"]
        return tuple(each for one in optimizers for each in self._overwritten_beside(one))

    def _overwritten_beside(self, restored: Restored) -> Iterator[Overwritten]:
        module = restored.event.site.module
        loops = {id(loop.site.node) for loop in self._training_loops}
        for statement in block_around(restored.event.site):
            found = set_back(Site(module, statement))
            is_meant = found is not None and self.speaks_of("progress", found.name)
            if found is not None and is_meant and any(id(loop) in loops for loop in found.loops):
                yield Overwritten(found.name, restored, Site(module, statement), found.begun)

    def _leaves_optimizer_by_hand(self, restored: Restored) -> bool:
        """Whether a comment beside what is put back would put back an optimizer: `# optimizer.load_state_dict(...)`."""
        comments, line = restored.event.site.module.comments, restored.event.site.line
        near = (comments.get(each, "") for each in range(line - _NEAR, line + _NEAR + 1))
        return any("load_state_dict" in text and "optim" in text for text in near)

    def _is_made_use_of(self, item: Symbol) -> bool:
        """Whether what was looked up is ever read, also as an attribute; the epoch after it, but to print it."""
        if item.site is None:
            return True
        if is_next_only_shown(item.site, self._machine.project.closure(self.program.module)):
            return False
        statement = statement_around(item.site)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Attribute):
            return is_read(item.site)
        if statement.value is not item.site.node:
            return True  # something is computed from it
        attributes = (
            node for _, tree in self.trees(target.attr) for node in nodes_of(tree).attributes.get(target.attr, ())
        )
        return any(isinstance(node.ctx, ast.Load) for node in attributes)

    @cached_property
    def _restoring(self) -> Continuation | None:
        """What the program puts back before it trains, if a model that it trains after that is among it.

        An optimizer that is put back only where its steps are in another branch, or that another one replaces before
        the next step, is not among it, nor is what is put back on a condition that speaks of fine-tuning: that is a run
        of its own.
        """
        steps = self.steps()
        early = [
            (each, following)
            for each in self.checkpoints.restored
            if not self.is_managed(each.event)
            and not any(
                guard.holds and self.speaks_of("fine-tuning", str(guard.subject)) for guard in each.event.guards
            )
            and (following := self.checkpoints.steps_that_follow(each.event, steps))
        ]
        models = [
            each
            for each, following in early
            if self.guessed_role(each.event.target) in ("module", "wrapper")
            and self._is_trained_by(each, steps, following)
        ]
        if not models:
            return None
        others = [each for each, following in early if each not in models and self._steps_in(each, following)]
        reads = tuple(dict.fromkeys(each.read for each in (*models, *(each for each, _ in early))))
        pairs = [(saved, *pair) for saved in self.checkpoints.saved for pair in self.readers(saved) if pair[0] in reads]
        keys = frozenset(key for read in reads for key in keys_read(read))
        assumed = tuple(dict.fromkeys(each for _, _, assumptions in pairs for each in assumptions))
        kept = tuple({id(saved): saved for saved, _, _ in pairs}.values())
        lacking = self._lacking(reads) if self.checkpoints.saved else ()
        return Continuation(reads, (*models, *others), keys, kept, (*assumed, *lacking))

    def _is_trained_by(
        self, restored: Restored, steps: Sequence[OptimizerStep], following: Sequence[OptimizerStep]
    ) -> bool:
        """Whether some steps may train a model that is put back, and what follows may be one of them: where it is not
        known which parameters an optimizer has (it came out of the file as well), it may."""
        own = [step for step in steps if self.may_train(step.optimizer, restored.event.target)]
        return bool(own) and any(step in own or not self.parameters_of(step.optimizer)[0] for step in following)

    def _steps_in(self, restored: Restored, following: Sequence[OptimizerStep]) -> bool:
        """Whether what is put back is no optimizer of which all steps are known to be before, or in another branch."""
        own = [step for step in self.steps() if self.is_same(step.optimizer, restored.event.target)]
        return not own or any(step in following for step in own)

    def _lacking(self, reads: Sequence[StateRead]) -> Assumptions:
        """That what is read has an entry which it needs, and which nothing in the project ever writes.

        Who goes on from what the project saves itself fails there, with `KeyError`.
        """
        for key in sorted(key for read in reads for key in keys_needed(read)):
            users = self._machine.project.reading_each(self._machine.project.mentioning(re.compile(rf"\b{key}\b")))
            is_noted = not key.isidentifier() or any(self._machine.project.notebooks_with(key))
            if not is_noted and all(module.has_tree and only_looks_up(module.tree, key) for module in users):
                return (Assumption("effect", f"the checkpoint has `{key}`, which nothing in the project writes"),)
        return ()

    def fails_to_read(self, saved: Saved, read: StateRead) -> bool:
        """Whether a run that reads a checkpoint always fails: it looks up an entry that this one does not have, under a
        name that nothing in the project writes."""
        if not saved.is_dict or not saved.exact or any(self.ancestors(read.site, ast.Try)):
            return False
        missing = keys_needed(read) - {part.key for part in saved.parts}
        return any(
            self._is_always_looked_up(key, read) and self._is_written_nowhere(key, by_attribute=False)
            for key in missing
        )

    def _is_always_looked_up(self, key: str, read: StateRead) -> bool:
        """Whether the function that reads looks an entry up under no more conditions than it reads under."""
        conditional = (ast.If, ast.IfExp, ast.BoolOp, ast.For, ast.While, ast.Try, ast.Lambda)
        scope = enclosing_definition(read.site) or read.site.module.tree
        around = set(self.ancestors(read.site, *conditional))
        places = (Site(read.site.module, each) for each in nodes_of(scope).of(ast.Subscript) if is_looked_up(each, key))
        return any(around.issuperset(self.ancestors(place, *conditional)) for place in places)

    def resumed_elsewhere(self, saved: Saved) -> Iterator[Load]:
        """Where code that this program does not run takes a model and its optimizer out of a checkpoint."""
        keys: dict[str, set[str]] = {}
        for part in saved.parts:
            keys.setdefault(self.checkpoints.kind(part.value), set()).add(part.key)
        needed = [keys.get(kind, set()) - {""} for kind in ("module", "optimizer")]
        yield from (load for load in self.loads_elsewhere(saved) if all(each & load.keys for each in needed))

    def counts_on(self, continuation: Continuation) -> bool:
        """Whether an epoch or step that was read decides where the training begins, or how it is counted."""
        reads = continuation.reads
        progress = (item for read in reads for item in items_of(read.result) if self._is_progress(item, reads))
        names = {name for item in progress if (name := self.name_of(item))}
        for loop in self._training_loops:
            if loop.kind != "for" or self._begins_at(loop, reads):
                return True
            guards = (guard for event in self.events if loop in self.loops_around(event) for guard in event.guards)
            if any(names & {name.rpartition(":")[2] for name in guard.names} for guard in guards):
                return True
        parts = (part.value for saved in self.checkpoints.saved for part in saved.parts)
        return any(self._is_progress(source, reads) for value in parts for source in self._counted_from(value, reads))

    @cached_property
    def _training_loops(self) -> tuple[Loop, ...]:
        """The outermost loops in which optimizers step, but for those of runs."""
        around = ([loop for loop in self.loops_around(step) if not self.is_of_runs(loop)] for step in self.steps())
        return tuple({id(loops[-1]): loops[-1] for loops in around if loops}.values())

    def _begins_at(self, loop: Loop, reads: Sequence[StateRead]) -> bool:
        """Whether a loop goes over what was computed from an epoch that was read, which it does not only end behind.

        `range(done, epochs)` and `range(epochs - done)` do; `range(0, done + epochs)` makes those of before again.
        """
        if loop.iterable is None:
            return False
        return any(self._is_progress(source, reads) for source in self._counted_from(loop.iterable, reads))

    def _counted_from(self, value: Value, reads: Sequence[StateRead]) -> Iterator[Value]:
        """What a number or what a loop goes over was computed from, but not the end of a range that begins anew."""

        def begins_anew(each: Value) -> bool:
            if not isinstance(each, Symbol) or each.name not in ("range", "counter") or not each.inputs:
                return False
            *first, stop = each.inputs[:2]
            return all(isinstance(one, Const) for one in first) and self._ends_behind(stop, reads)

        return graph.sources(value, 60, begins_anew)

    def _ends_behind(self, stop: Value, reads: Sequence[StateRead]) -> bool:
        """Whether a number is an epoch that was read, and others added to it."""
        options = (option for _, option in alternatives(stop))
        sums = [each for each in options if isinstance(each, Symbol) and each.name == "+"]
        return any(
            self._is_progress(part, reads) or self._ends_behind(part, reads) for each in sums for part in each.inputs
        )

    def _is_progress(self, value: Value, reads: Sequence[StateRead]) -> bool:
        """Whether a value is the epoch or step of a checkpoint that was read."""
        if not isinstance(value, Symbol) or value.name not in _LOOKED_UP or len(value.inputs) < 2:
            return False
        key = value.inputs[1]
        is_read = any(value.inputs[0] is read.result for read in reads) and not self.is_looked_up_in_vain(value)
        return is_read and isinstance(key, Const) and self.speaks_of("progress", str(key.value))

    def is_looked_up_in_vain(self, value: Value) -> bool:
        """Whether a value is looked up in a checkpoint, with a number for its default, under a name that nothing in the
        project writes, where the program writes checkpoints with an epoch or step under another one."""
        if not isinstance(value, Symbol) or value.name != ".get" or len(value.inputs) != 3:
            return False
        checkpoint, key, default = value.inputs
        is_number = isinstance(default, Const) and isinstance(default.value, int)
        if not is_number or not isinstance(key, Const) or not isinstance(key.value, str):
            return False
        is_of_checkpoint = any(checkpoint is read.result for read in self.checkpoints.reads)
        saved = self.checkpoints.saved
        if not is_of_checkpoint or not any(map(self.progress_in, saved)):
            return False
        return self._is_written_nowhere(key.value, by_attribute=not all(each.exact for each in saved))

    def _is_written_nowhere(self, key: str, *, by_attribute: bool) -> bool:
        project, pattern = self._machine.project, re.compile(rf"\b{re.escape(key)}\b")
        own = (each for each in project.closure(self.program.module) if each.contains(pattern))
        users = dict.fromkeys((*own, *project.mentioning(pattern), *project.notebooks_with(key)))
        return not any(
            not each.has_tree or may_write(each.tree, key, of_attributes=by_attribute)
            for each in project.reading_each(users)
        )

    def is_entry_read(self, key: str) -> bool:
        """Whether a file of the program, or one in its folder or below, looks up an entry of this name."""
        pattern, main = re.compile(rf"\b{re.escape(key)}\b"), self.program.module
        own = self._machine.project.closure(main)
        near = (m for m in self._machine.project.mentioning(pattern) if main.file.parent in m.file.parents)
        for module in self._machine.project.reading_each((*own, *near)):
            if module.contains(pattern) and any(is_looked_up(node, key) for node in module.entry_makers):
                return True
        return False

    def is_left_out(self, key: str, continuation: Continuation) -> bool:
        """Whether an entry is looked up for an optional parameter alone, which the call that reads leaves at ``None``:
        ``if scheduler: scheduler.load_state_dict(checkpoint["scheduler"])``."""
        reads = [read for read in continuation.reads if key in keys_read(read)]
        come_to = {item.detail for read in continuation.reads for item in items_of(read.result)}
        return key not in come_to and bool(reads) and all(_is_for_an_option(read.site, key) for read in reads)

    def may_take_up(self, key: str, continuation: Continuation) -> bool:
        """Whether a run that goes on may come to an entry of what it reads, in whatever code.

        It certainly does not where it looks entries up one by one, by other names, and where what looks up one of this
        name in its files stands in functions that it does not come to.
        """
        if key in continuation.keys or not all(is_only_looked_up(read.site) for read in continuation.reads):
            return True
        pattern, project = re.compile(rf"\b{re.escape(key)}\b"), self._machine.project
        return any(
            self._may_come_to(Site(module, node))
            for module in project.reading_each(project.closure(self.program.module))
            if module.contains(pattern)
            for node in module.entry_makers
            if is_looked_up(node, key)
        )

    def _may_come_to(self, place: Site) -> bool:
        """Whether a run may come to a place: to no function that neither was called nor is named in its main file."""
        function = enclosing_definition(place)
        if not isinstance(function, Definition) or place.module is self.program.module:
            return True
        is_called = any(
            isinstance(each, Definition) and (each.name, each.lineno) == (function.name, function.lineno)
            for each in self._machine.reached  # whose trees may have been made again
        )
        named = nodes_of(self.program.module.tree)
        return is_called or function.name in named.names or function.name in named.attributes


def items_of(read: Value | None) -> Iterator[Symbol]:
    """The entries that are looked up in what was read."""
    held = read.attributes.values() if isinstance(read, Symbol) else ()
    for value in held:
        for _, option in alternatives(value):
            if isinstance(option, Symbol) and option.name == "item":
                yield option


def _is_for_an_option(read: Site, key: str) -> bool:
    """Whether the function around looks an entry up only to restore parameters from it that are ``None`` by default."""
    function = enclosing_definition(read)
    if not isinstance(function, ast.FunctionDef):
        return False
    given, nodes = function.args, nodes_of(function)
    ordered = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(ordered[len(ordered) - len(given.defaults) :], given.defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    optional = {each.arg for each, default in pairs if isinstance(default, ast.Constant) and default.value is None}
    restored = {
        id(part)
        for call in nodes.of(ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict"
        if isinstance(call.func.value, ast.Name) and call.func.value.id in optional
        for part in call.args
    }
    return all(id(node) in restored for node in nodes.of(ast.Subscript, ast.Call) if is_looked_up(node, key))


def is_only_looked_up(read: Site) -> bool:
    """Whether nothing is done with what was read but to look up entries by constant names, in the same function."""
    call, module = read.node, read.module
    statement, scope = statement_around(read), enclosing_definition(read) or module.tree
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(statement, ast.Assign) or statement.value is not call or not isinstance(target, ast.Name):
        return False
    reads = later_reads(target.id, read, module)
    own = [each for each in reads if last_bound(target.id, scope, each.lineno) is call]
    return all(_looks_up(Site(module, each)) for each in own)


def _looks_up(name: Site) -> bool:
    """Whether a variable is read to look up an entry by a constant name, or to ask whether there is one."""
    above = list(islice(ancestors(name), 2))
    if isinstance(above[0], ast.Subscript):
        return isinstance(above[0].slice, ast.Constant) and isinstance(above[0].ctx, ast.Load)
    if isinstance(above[0], ast.Compare):
        return all(isinstance(each, ast.In | ast.NotIn) for each in above[0].ops)
    if not isinstance(above[0], ast.Attribute) or not isinstance(above[1], ast.Call):
        return False
    given = above[1].args[:1]
    return above[0].attr == "keys" or (above[0].attr in GETTERS and bool(given) and isinstance(given[0], ast.Constant))
