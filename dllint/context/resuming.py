"""Resuming: whether a program goes on training from what it has saved, and what says so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from dllint.assumptions import Assumption, Assumptions
from dllint.context.checkpoints import (
    CheckpointView,
    Part,
    Saved,
    is_same_path,
    keys_needed,
    keys_read,
    path_pattern,
    path_texts,
)
from dllint.context.loading import LOADS, Load, file_name, is_file_of, is_other_folder, loads_in
from dllint.context.saved_paths import has_another_name, is_fixed, is_other_file, is_that_of_others
from dllint.context.warm_starts import WarmStarts
from dllint.dataclass import dataclass
from dllint.events import Event, OpaqueCall, OptimizerStep, StateRead, StateRestored
from dllint.interp.source.nodes import nodes_of
from dllint.values import Instance, Symbol, Value

_UNPICKLES_MORE = r"\bsafe_globals\b|add_safe_globals|TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD|torch\.load\s*=(?!=)"

_STARTS_AGAIN = re.compile(
    r"(?i)\b(?:fresh|cold|not|without)\W+(?:the )?optimi[sz]er(?:\W+\w+)? (?:state|momentum)"
    r"|\b(?:fresh|cold)\W+optimi[sz]er\b"
    r"|\boptimi[sz]er\b[^.\n]{0,40}\b(?:not (?:restored|loaded|saved|resumed)|starts? (?:fresh|cold|again|over|anew)"
    r"|from scratch|is reset|re-?initiali[sz]ed)\b"
    r"|\bweights only\b|\bfresh\W[^.\n]{0,20}\boptimi[sz]ers?\b"
)


@dataclass(frozen=True, slots=True)
class Resumption:
    """Code that reads a checkpoint back before it trains on; ``values`` are the state that it has."""

    event: Event
    read: StateRead
    assumptions: Assumptions = ()
    values: tuple[Value, ...] = ()


class Resuming(WarmStarts):
    """Checkpoints as states to go on from."""

    @cached_property
    def checkpoints(self) -> CheckpointView:
        """What the program saves, and what it reads back."""
        return CheckpointView(self._machine, self._structure)

    @cached_property
    def says_optimizer_starts_again(self) -> bool:
        """Whether a help text or a message of the script says that its optimizer does not go on as it was."""
        texts = (each.value for each in nodes_of(self.program.module.tree).of(ast.Constant))
        return any(isinstance(each, str) and _STARTS_AGAIN.search(each) is not None for each in texts)

    def follows_another(self, model: Value) -> bool:
        """Whether a model gets the weights of another one again and again, as a target network does, not by steps."""
        for event in self.all_of(StateRestored):
            state = event.state
            if self.loops_around(event) and self.is_same(event.target, model) and isinstance(state, Symbol):
                owners = self.objects(state.inputs[0]) if state.name == "state_dict" and state.inputs else []
                if owners and not any(self.is_same(owner, model) for owner in owners):
                    return True
        return False

    def resumption(self, saved: Saved) -> Resumption | None:
        """Where the program reads a checkpoint back before it trains on, if it does."""
        if self._is_saved_before_training(saved):
            return None  # the weights that training begins with, to be put back
        for event, read in self._loads(saved):
            if not self.consistent(event.guards, saved.event.guards):
                continue  # it is trained, or else taken from an earlier run as it is
            if self._is_read_back(event, saved, read):
                continue
            model = event.target if isinstance(event, StateRestored) else None
            steps = [step for step in self.steps() if model is None or self.may_train(step.optimizer, model)]
            steps = [step for step in steps if not self._is_taken_instead(step, event)]
            found = self._is_earlier_one(saved, read)
            if self._starts_anew(saved, read):
                continue
            following = self.checkpoints.steps_that_follow(event, steps) if found is not None else ()
            if found is not None and following and not self._begins_another_phase(saved, steps, following):
                state = event.state if isinstance(event, StateRestored) else None
                return Resumption(event, read, found, (state,) if state is not None else ())
        return None

    def readers(self, saved: Saved) -> list[tuple[StateRead, Assumptions]]:
        """Where the program reads a checkpoint that it writes, and what is assumed by taking it for that one.

        It is the same file, has the keys that are looked up in what is read, or is an earlier one to resume from.
        """
        keys = {part.key for part in saved.parts if part.key}
        found: list[tuple[StateRead, Assumptions]] = []
        for read in self.checkpoints.reads:
            wanted = keys_read(read)
            is_alike = len(wanted) > 1 and wanted <= keys and not is_other_file(saved, read)
            if is_alike or is_same_path(saved.event.path, read.path):
                found.append((read, ()))
        resumption = self.resumption(saved) if not found else None
        if resumption is None or is_other_file(saved, resumption.read):
            return found
        return [(resumption.read, resumption.assumptions)]

    def keys_needed(self, read: StateRead) -> set[str]:
        """The keys that are looked up in what was read, and without which that fails: no `get`, and no test before.

        Where it is handed to another function, or a key is put together, those under which states are put back count.
        """
        events = (restored.event for restored in self.checkpoints.restored if restored.read is read)
        return keys_needed(read) | {key for event in events if (key := self._key_needed(event, read))}

    def _key_needed(self, event: StateRestored, read: StateRead) -> str:
        """The key under which a state is looked up on the spot, if nothing is done where there is none."""
        state = event.state
        if not isinstance(state, Symbol) or state.name != "item" or state.inputs[0] is not read.result:
            return ""
        key = state.detail if isinstance(state.detail, str) else ""
        is_tested = any(guard.relation == "in" or key in str(guard.subject) for guard in event.guards)
        is_caught = any(any(self.ancestors(each.site, ast.Try)) for each in (event, read))
        return "" if is_tested or is_caught else key

    def loads_elsewhere(self, saved: Saved) -> Iterator[Load]:
        """Where other code of the project, which this program does not run, loads a checkpoint that it writes.

        By the name of the file, and one of its keys if any are looked up; or by several keys, if the file is not known.
        """
        keys = {part.key for part in saved.parts if part.key}
        yield from (load for load in self.loads_of_file(saved) if not load.keys or load.keys & keys)
        for load in self._loads_nearby(saved):
            if not load.file and len(load.keys) > 1 and load.keys <= keys:
                yield load

    def loads_of_file(self, saved: Saved) -> Iterator[Load]:
        """Where other code loads a file of the name of a checkpoint, from the same folder or one above or below."""
        file, path = file_name(path_pattern(saved.event.path)), self.constant(saved.event.path)
        constant = path if isinstance(path, str) else ""
        same = (load for load in self._loads_nearby(saved) if file != "" and is_file_of(load.file, file))
        yield from (load for load in same if not is_other_folder(constant, load.path))

    def _loads_nearby(self, saved: Saved) -> Iterator[Load]:
        run = {id(read.site.node) for read in self.checkpoints.reads}
        own = saved.event.site.module.source.path.parent
        project = self._machine.project
        for module in project.reading_each(project.mentioning(LOADS)):
            folder = module.file.parent
            if folder in (own, *own.parents) or own in folder.parents:
                yield from (load for load in loads_in(module) if id(load.site.node) not in run)

    def is_overwritten(self, saved: Saved) -> bool:
        """Whether a checkpoint is written to one and the same path again and again, as far as can be told."""
        path = saved.event.path
        return path is not None and self.is_saved_again_and_again(saved) and is_fixed(path)

    @cached_property
    def unpickles_more(self) -> bool:
        """Whether the project has ``torch.load`` unpickle more than by default wherever it is called."""
        return self.project_mentions(_UNPICKLES_MORE, where="related")

    def is_for_use(self, saved: Saved) -> bool:
        """Whether the names a checkpoint is saved under speak of a result rather than of a state to go on from."""
        functions = [frame.function for frame in saved.event.frame.stack()]
        return self.speaks_of("export", *functions, *path_texts(saved.event.path))

    def is_trained(self, value: Value) -> bool:
        """Whether a value is a model that an optimizer has the parameters of."""
        return any(
            self.is_same(value, model) for step in self.steps() for model in self.parameters_of(step.optimizer)[0]
        )

    def is_restored(self, target: Value, *, while_training: bool = True) -> bool:
        """Whether the program puts a state back into an object, or hands it to code that may do so.

        Code in a training loop that changes the object in each step does not, if ``while_training`` is false. A
        scheduler of the library holds its optimizer, and leaves it as it is.
        """
        name = self.name_of(target)
        for event in self.all_of(StateRestored):
            if self.is_same(event.target, target):
                return True
            if self.reaches(event.target, target) and not self._is_known_scheduler(event.target):
                return True
            if name and self.name_of(event.target) == name:
                return True  # what was made anew under the same name
        calls = [event for event in self.all_of(OpaqueCall) if self.opaque_to(event, target)]
        if while_training or not calls:
            return bool(calls)
        loops = {id(loop) for step in self.steps() for loop in self.loops_around(step)}
        return not all(any(id(loop) in loops for loop in self.loops_around(event)) for event in calls)

    def _is_known_scheduler(self, value: Value) -> bool:
        """Whether a value is a learning-rate scheduler whose class is one of a library's."""
        options = self.objects(value)
        is_of_library = all(isinstance(each, Instance) and isinstance(each.cls, str) for each in options)
        return bool(options) and is_of_library and self.guessed_role(value) == "scheduler"

    def is_of_a_part(self, saved: Saved) -> bool:
        """Whether all states in a checkpoint are those of parts of what an optimizer trains.

        The head of a network alone is kept to be put into another one: nobody goes on training from it.
        """
        owners = [
            owner
            for part in saved.parts
            if isinstance(part.value, Symbol) and part.value.name == "state_dict"
            for owner in self.objects(part.value.inputs[0])
        ]
        trained = [module for step in self.steps() for module in self.parameters_of(step.optimizer)[0]]
        return bool(owners and trained) and all(
            any(self._is_inside(owner, module) for module in trained)
            and not any(self.is_same(owner, module) or self.reaches(owner, module) for module in trained)
            for owner in owners
        )

    def _is_inside(self, part: Value, module: Value) -> bool:
        """Whether something is an attribute or item of a module, at whatever depth."""
        if isinstance(module, Instance):
            return self.is_part(part, module)
        while isinstance(part, Symbol) and part.name in ("attribute", "item", "element") and part.inputs:
            part = part.inputs[0]
            if self.is_same(part, module):
                return True
        return False

    def progress_in(self, saved: Saved) -> str:
        """The key of an epoch or step in a checkpoint, if there is one."""
        return next((part.key for part in saved.parts if self.speaks_of("progress", part.key)), "")

    def _is_saved_before_training(self, saved: Saved) -> bool:
        """Whether no step that may train one of the models in a checkpoint is taken before it is written."""
        states = (part.value for part in saved.parts)
        models = [each.inputs[0] for each in states if isinstance(each, Symbol) and each.name == "state_dict"]
        known = all(isinstance(each, Instance) for model in models for each in self.objects(model))
        steps = [
            step
            for step in self.steps()
            if not (models and known) or any(self.may_train(step.optimizer, model) for model in models)
        ]
        first = next((event for event in self.events if event is saved.event or event in steps), None)
        return first is saved.event and bool(steps) and not self.is_saved_again_and_again(saved)

    def _is_read_back(self, event: Event, saved: Saved, read: StateRead) -> bool:
        """Whether a run reads what it has itself written before: the best weights, or those to train further."""
        if self._is_put_back_in_training(event, saved, read):
            return True
        written = (
            other.event
            for other in self.checkpoints.saved
            if other.site.node is saved.site.node or is_same_path(other.event.path, read.path)
        )
        shared = {id(loop) for loop in self.loops_around(event) if not self.is_of_runs(loop)}
        return any(
            self.position(other) < self.position(event)
            and not any(id(loop) in shared for loop in self.loops_around(other))
            for other in written
        )

    def _is_put_back_in_training(self, event: Event, saved: Saved, read: StateRead) -> bool:
        """Whether a state is put back in the loop over the epochs that writes it, and the optimizer lives on, as where
        the rate is lowered from the best weights on; not where that loop asks whether training is resumed."""
        loops = (loop for loop in self.loops_around(event) if not self.is_of_runs(loop))
        shared = any(loop in self.loops_around(saved.event) and self.trains(loop) for loop in loops)
        return shared and not any(guard.topic == "resume" for guard in (*event.guards, *read.guards))

    def _begins_another_phase(
        self, saved: Saved, steps: Sequence[OptimizerStep], following: Sequence[OptimizerStep]
    ) -> bool:
        """Whether what training goes on with has optimizers of its own: none of those that led to the checkpoint.

        A phase that is over, such as a pretraining, is kept as it ended; the state of its optimizer is of no use.
        """
        if self.is_saved_again_and_again(saved):
            return False
        led = [step.optimizer for step in steps if self.position(step) < self.position(saved.event)]
        ahead = [step.optimizer for step in following]
        known = all(isinstance(each, Instance) for each in (*led, *ahead))
        return bool(led) and known and not any(self.is_same(one, other) for one in led for other in ahead)

    def _starts_anew(self, saved: Saved, read: StateRead) -> bool:
        """Whether the weights are taken and the progress is not, which the program does read from another file."""
        key = self.progress_in(saved)
        others = (keys_read(other) for other in self.all_of(StateRead) if other is not read)
        return bool(key) and key not in keys_read(read) and any(key in keys for keys in others)

    def may_train(self, optimizer: Value, model: Value) -> bool:
        """Whether an optimizer may have parameters of a model; of those that are not known, the only one does."""
        modules, _ = self.parameters_of(optimizer)
        if not modules:
            return len(self.stepped_optimizers()) == 1
        return any(self.reaches(model, module) or self.reaches(module, model) for module in modules)

    def _loads(self, saved: Saved) -> Iterator[tuple[Event, StateRead]]:
        """Where a model's state, or a whole model, is taken from a file as this checkpoint has it."""
        for restored in self.checkpoints.restored:
            keys = {part.key for part in saved.parts if self._is_state_of(part, restored.event.target)}
            if restored.key in keys or (keys and not restored.key):
                yield restored.event, restored.read
        whole = {part.key for part in saved.parts if part.key and self.is_trained(part.value)}
        for event in self.all_of(StateRead):
            if whole & keys_read(event):
                yield event, event

    def _is_state_of(self, part: Part, target: Value) -> bool:
        value = part.value
        return isinstance(value, Symbol) and value.name == "state_dict" and self.is_same(value.inputs[0], target)

    def _is_earlier_one(self, saved: Saved, read: StateRead) -> Assumptions | None:
        """What is assumed by taking what is read for an earlier one of these checkpoints; ``None`` if it is not one."""
        if self._is_written_by_another(saved, read):
            return None
        if is_same_path(saved.event.path, read.path):
            return ()
        if self.is_for_use(saved) or not self.is_saved_again_and_again(saved) or has_another_name(saved, read.path):
            return None
        if saved.is_dict and self.speaks_of("progress", *keys_read(read)):
            return ()
        names = [guard.subject for guard in read.guards]
        names += [frame.function for frame in read.frame.stack()] + path_texts(read.path)
        said = next((name for name in names if self.speaks_of("resuming", name)), None)
        if said is None or self._begins_others_anew or self._speaks_of_fine_tuning(read, said):
            return None
        return (Assumption("name", f"`{said.rpartition(':')[2]}` is for resuming, as its name says"),)

    def _is_written_by_another(self, saved: Saved, read: StateRead) -> bool:
        """Whether another call writes the very file that is read, whose name is written out, as that of this is not."""
        others = [each.event.path for each in self.checkpoints.saved if each is not saved]
        return is_that_of_others(read.path, saved.event.path, others)

    @cached_property
    def _begins_others_anew(self) -> bool:
        """Whether a model that is trained, and saved, is put back nowhere: what is read is where another one begins."""
        states = (part.value for saved in self.checkpoints.saved for part in saved.parts)
        owners = (each.inputs[0] for each in states if isinstance(each, Symbol) and each.name == "state_dict")
        return any(self.is_trained(owner) and not self.is_restored(owner) for owner in owners)
