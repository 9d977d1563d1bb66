"""Schedulers: which of them nobody steps, while their optimizers train."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from dllint.context.optimizers import Optimizers
from dllint.context.paths import Paths
from dllint.context.sources import Sources, receiver_of
from dllint.dataclass import dataclass
from dllint.events import LibraryCall, OpaqueCall, OptimizerCreated, OptimizerStep, SchedulerCreated, SchedulerStep
from dllint.forms import attribute_of
from dllint.interp.ask.factors import spans_of
from dllint.interp.ask.first_rates import is_zero_at_first
from dllint.interp.run.roles import role_by_name
from dllint.interp.source.counted_loops import is_of_few_rounds
from dllint.interp.source.later_reads import later_reads
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition, statement_around
from dllint.interp.source.reached_calls import reached_calls
from dllint.sites import Module, Site
from dllint.structure import Loop
from dllint.values import Function, Instance, Items, Symbol, Value

_CHANGES = {"StepLR": "step_size", "MultiStepLR": "milestones"}
_STEEP = 0.95  # for each batch: 100 leave 1/170 of the rate
_FEW_BATCHES = 100
_PATIENCE = 10  # of `ReduceLROnPlateau`, where none is given
_POSITION_OF_GAMMA = {"StepLR": 2, "MultiStepLR": 2, "ExponentialLR": 1}


_ARGUMENT = re.compile(  # of a call, in a line of its own: `# lr=scheduler,`, `# scheduler,`, `# scheduler=scheduler`
    r"#+\s*(?:(?:\w+\s*=\s*)?(?:\w+\.)*(\w+)\s*,|(?P<same>\w+)\s*=\s*(?:\w+\.)*(?P=same))\s*"
)
_STEPPED = re.compile(r"\b(\w+)\.step\(")


@dataclass(frozen=True, slots=True)
class Unstepped:
    """A scheduler that nobody steps, a step of its optimizer, and a step of another scheduler of that, if any."""

    made: SchedulerCreated
    step: OptimizerStep
    other: SchedulerStep | None


class Schedules(Optimizers, Paths, Sources):
    """The schedulers of a program."""

    def unstepped_schedulers(self) -> list[Unstepped]:
        """The schedulers of optimizers that take steps in a loop, which certainly nobody steps.

        None where any step is taken by a scheduler that is not known, or where one goes to code that may step it.
        """
        steps = self.all_of(SchedulerStep)
        if not all(isinstance(each, Instance) for event in steps for each in self.objects(event.scheduler)):
            return []
        found: list[Unstepped] = []
        for made in self.all_of(SchedulerCreated):
            taken = self._step_after(made)
            if taken is None or any(self.reaches(event.scheduler, made.scheduler) for event in steps):
                continue
            is_kept = self._is_handed_on(made) or self._is_stepped_unseen(made, steps)
            if not is_kept or self._is_overwritten(made):
                others = (event for event in steps if self._has_optimizer(event.scheduler, made.optimizer))
                found.append(Unstepped(made, taken, next(others, None)))
        return found

    def may_set_last_epoch(self) -> bool:
        """Whether any code of the program's files may tell a scheduler the last epoch, or keeps one under that name.

        `last_epoch=-1` is what it is without, and a parameter of that name is what the caller makes of it.
        """
        for _, tree in self.trees("last_epoch"):
            nodes = nodes_of(tree)
            given = (each.value for each in nodes.of(ast.keyword) if each.arg == "last_epoch")
            held: list[ast.Name | ast.Attribute] = list(nodes.names.get("last_epoch", ()))
            held += nodes.attributes.get("last_epoch", ())
            texts = (each.value for each in nodes.of(ast.Constant))
            if any(ast.unparse(each) != "-1" for each in given) or "last_epoch" in texts:
                return True
            if any(isinstance(each.ctx, ast.Store) for each in held):
                return True
        return False

    def is_set_to_batches(self, value: Value) -> bool:
        """Whether a value is an attribute that another method of its class sets to a number of batches.

        So is `self.steps`, where a `setup` that a framework calls has `self.steps = len(self.train_loader) * epochs`.
        """
        if attribute_of(value) is None or not isinstance(value, Symbol) or value.site is None:
            return False
        read, owner = ast.unparse(value.site.node), next(iter(self.ancestors(value.site, ast.ClassDef)), None)
        if owner is None or not read.startswith("self."):
            return False
        put = nodes_of(owner).of(ast.Assign)
        made = [each.value for each in put if any(ast.unparse(target) == read for target in each.targets)]
        return any(map(_counts_batches, made))

    def may_step_elsewhere(self, step: SchedulerStep) -> bool:
        """Whether the scheduler of a step takes others at another place, or is given to code that is not seen."""
        given = [each.scheduler for each in self.all_of(SchedulerStep) if each is not step]
        given += [value for each in self.all_of(OpaqueCall) for value in (*each.values, each.receiver) if value]
        return any(self.is_same(value, step.scheduler) for value in given)

    def is_constant_schedule(self, scheduler: Value) -> bool:
        """Whether the factor of each rate is a constant as it is written: `LambdaLR(optimizer, lambda step: 1)`.

        A product with zero counts for what it is. So does a rate that is multiplied by 1 now and then: `gamma=1.0`.
        """
        made = [each for each in self.objects(scheduler) if isinstance(each, Instance)]
        return bool(made) and all(map(self._is_of_one_factor, made))

    def spans_of_schedule(self, scheduler: Instance) -> tuple[Value, ...]:
        """By what the function of a `LambdaLR` divides the step: how long the parts of its schedule are.

        None where it multiplies the step by something first, or where there are several functions.
        """
        factor = scheduler.arguments.get(1, "lr_lambda")
        return spans_of(self._machine, factor) if factor is not None else ()

    def begins_with_zero(self, scheduler: Value) -> bool:
        """Whether the first rate of a schedule is zero, as the project's function for it is written."""
        functions = [self._function_of(each) for each in self.objects(scheduler)]
        return bool(functions) and all(each is not None and is_zero_at_first(each) for each in functions)

    def warms_up(self, scheduler: Value) -> bool:
        """Whether a schedule begins with a warm-up, by its class and function, which no argument switches off."""
        return any(map(self._is_of_warm_up, self.objects(scheduler)))

    def _is_of_warm_up(self, scheduler: Value) -> bool:
        if not self.speaks_of("warm-up", *self.library_bases(scheduler), self.class_name(scheduler)):
            return False
        given = scheduler.arguments.keywords if isinstance(scheduler, Instance) else {}
        if any("warm" in name and self.constant(value) == 0 for name, value in given.items()):
            return False
        is_of_function = isinstance(scheduler, Instance) and scheduler.library_name.endswith(".LambdaLR")
        function = self._function_of(scheduler) if is_of_function else None
        return not is_of_function or (function is not None and "warm" in ast.unparse(function).lower())

    def _function_of(self, scheduler: Value) -> ast.Lambda | ast.FunctionDef | None:
        """The function of the project that gives the factor, or the rates, of a schedule."""
        given = scheduler.arguments.get(1, "lr_lambda") if isinstance(scheduler, Instance) else None
        found = given if isinstance(given, Function) else self.member(scheduler, "get_lr")
        node = found.node if found is not None else None
        return node if isinstance(node, ast.Lambda | ast.FunctionDef) else None

    def is_over_at_once(self, scheduler: Instance) -> bool:
        """Whether a decay is so steep that an epoch of batches leaves nothing of the rate."""
        name = scheduler.library_name.rpartition(".")[2]  # not that of a class of the project
        if name not in ("ExponentialLR", "StepLR"):
            return False
        given = scheduler.arguments.get(_POSITION_OF_GAMMA[name], "gamma")
        gamma = self.constant(given) if given is not None and not self.is_none(given) else 0.1
        period = self.constant(scheduler.arguments.get(1, "step_size")) if name == "StepLR" else 1
        if not isinstance(gamma, int | float) or not isinstance(period, int) or period < 1:
            return False
        return bool(gamma ** (_FEW_BATCHES // period) <= _STEEP**_FEW_BATCHES)

    def is_beyond_run(self, scheduler: Value, epochs: Value | None) -> bool:
        """Whether a scheduler that counts epochs would change the rate for the first time after the last of them.

        Args:
            scheduler: what is made, as by `MultiStepLR(optimizer, [30, 60])`.
            epochs: how many there are, if that is known.
        """
        made = [each for each in self.objects(scheduler) if isinstance(each, Instance)]
        count = self.constant(epochs) if epochs is not None else None
        firsts = [self._first_change(each) for each in made]
        return isinstance(count, int) and bool(firsts) and all(first is not None and count <= first for first in firsts)

    def _first_change(self, scheduler: Instance) -> int | None:
        """After how many epochs a scheduler changes the rate, where it does so now and then."""
        kind = scheduler.library_name.rpartition(".")[2]
        if kind == "ReduceLROnPlateau":
            patience = scheduler.arguments.get(3, "patience")
            number = self.constant(patience) if patience is not None else _PATIENCE
            return number + 1 if isinstance(number, int) else None  # the first of all is the best until then
        given = scheduler.arguments.get(1, _CHANGES[kind]) if kind in _CHANGES else None
        numbers = given.items if isinstance(given, Items) and given.exact else (given,)
        found = [self.constant(each) for each in numbers if each is not None]
        return min((each for each in found if isinstance(each, int)), default=None)

    def is_switched_off(self, made: SchedulerCreated, loop: Site) -> bool:
        """Whether a loop has the step of a scheduler, or of another by its name, in a comment: that is a decision.

        The function around the loop counts as well. So does a call that had the scheduler for an argument, by a comment
        where the scheduler is made: `# scheduler=scheduler,`.
        """
        around = enclosing_definition(loop)
        place = loop if around is None else Site(loop.module, around)
        called = (name for text in self.comments_in(place) for name in _STEPPED.findall(text))
        own = self.name_of(made.scheduler)
        if any(name == own or role_by_name(name) == "scheduler" for name in called):
            return True
        maker = enclosing_definition(made.site)
        comments = self.comments_in(Site(made.site.module, made.site.module.tree if maker is None else maker))
        taken_out = (match for text in comments if (match := _ARGUMENT.fullmatch(text)) is not None)
        return any(own in match.groups() for match in taken_out)

    def _is_of_one_factor(self, scheduler: Instance) -> bool:
        kind = scheduler.library_name.rpartition(".")[2]
        if kind in _POSITION_OF_GAMMA:
            return bool(self.constant(scheduler.arguments.get(_POSITION_OF_GAMMA[kind], "gamma")) == 1)
        factor = scheduler.arguments.get(1, "lr_lambda") if kind == "LambdaLR" else None
        return isinstance(factor, Function) and isinstance(factor.node, ast.Lambda) and _is_number(factor.node.body)

    def _step_after(self, made: SchedulerCreated) -> OptimizerStep | None:
        """A step that the scheduler's optimizer takes in a loop, in a run in which the scheduler is made.

        A loop over a few batches tries out whether a training would run, and needs no schedule. Of what a loop of runs
        makes anew, only what lies within a run counts: epochs and their batches.
        """
        around = self.loops_around(made)
        if around and not self._is_made_with_its_optimizer(made, around[0]):
            return None
        for step in self.steps():
            loops = [loop for loop in self.loops_around(step) if loop not in around]
            is_trial = len(loops) == 1 and (bool(around) or is_of_few_rounds(loops[0].site.node))
            is_repeated = bool(loops) and not is_trial
            is_later = self.position(step) > self.position(made) and not self.exclusive(step, made)
            if is_repeated and is_later and not self.is_managed(step) and self.is_same(step.optimizer, made.optimizer):
                return step
        return None

    def _is_made_with_its_optimizer(self, made: SchedulerCreated, loop: Loop) -> bool:
        """Whether a loop makes the optimizer of a scheduler anew as well: each iteration is a run of its own."""
        return any(
            loop in self.loops_around(event) and self.is_same(event.optimizer, made.optimizer)
            for event in self.all_of(OptimizerCreated)
        )

    def _has_optimizer(self, scheduler: Value, optimizer: Value | None) -> bool:
        return any(
            self.is_same(made.scheduler, scheduler) and self.is_same(made.optimizer, optimizer)
            for made in self.all_of(SchedulerCreated)
        )

    def _is_handed_on(self, made: SchedulerCreated) -> bool:
        """Whether a scheduler goes to another one, to code that is not seen, or to a caller that is not."""
        for event in self.all_of(SchedulerCreated, LibraryCall, OpaqueCall):
            if isinstance(event, SchedulerCreated):
                is_given = event is not made and self.reaches(event.scheduler, made.scheduler)
            elif isinstance(event, OpaqueCall):
                is_given = self.opaque_to(event, made.scheduler) and not self.speaks_of("harmless-call", event.name)
            else:
                assert isinstance(event, LibraryCall)
                is_given = any(self.reaches(given, made.scheduler) for given in event.arguments.all())
                is_given = is_given and not self.speaks_of("harmless-call", event.name)
            if is_given:
                return True
        return self._is_returned(made)

    def _are_never_reached(self, calls: Sequence[Site]) -> bool:
        """Whether a script that is run gets to none of some calls, as nothing in it leads to what they stand in.

        Methods may be called by a library that has the object.
        """
        if any(True for call in calls for _ in self.ancestors(call, ast.ClassDef)):
            return False
        script, project = self.program.module, self._machine.project
        if self.program.kind != "module" or not isinstance(script, SourceModule):
            return False
        reached = {_place(call) for call in reached_calls(script, project.reading_each(project.closure(script)))}
        return not any(_place(call.node) in reached for call in calls)

    @staticmethod
    def _is_overwritten(made: SchedulerCreated) -> bool:
        """Whether a scheduler goes to a variable that gets another value before anything reads it."""
        statement = statement_around(made.site)
        if not isinstance(statement, ast.Assign) or statement.value is not made.site.node:
            return False
        target = statement.targets[0]
        if len(statement.targets) > 1 or not isinstance(target, ast.Name) or enclosing_definition(made.site) is None:
            return False
        return not any(True for _ in later_reads(target.id, made.site, made.site.module))

    def _is_returned(self, made: SchedulerCreated) -> bool:
        """Whether the function that makes a scheduler returns it, by its name, and nobody is seen to call that."""
        function = enclosing_definition(made.site)
        if function is None or self.program.alone is None or self.program.alone.node is not function:
            return False
        name = self.name_of(made.scheduler)
        returned = [
            each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value is not None
        ]
        return any(isinstance(node, ast.Name) and node.id == name for value in returned for node in ast.walk(value))

    def _is_stepped_unseen(self, made: SchedulerCreated, steps: Sequence[SchedulerStep]) -> bool:
        """Whether code that was not followed steps what may be the scheduler, by its name."""
        followed = {event.site.node for event in (*steps, *self.steps())}
        name = self.name_of(made.scheduler)
        unseen = [call for call in self.method_calls("step") if call.node not in followed]
        named = [(call, receiver_of(call.node).rpartition(".")[2]) for call in unseen]
        may_be_it = [call for call, called in named if called == name or role_by_name(called) == "scheduler"]
        if may_be_it and not self._are_never_reached(may_be_it):
            return True
        kept = name.rpartition(".")[2] if made.frame.owner else ""  # by an object, which other files may have
        stepped = rf"\.{re.escape(kept)}\.step\("
        return bool(kept) and (
            self.project_mentions(stepped, where="elsewhere") or self._is_in_notebook(stepped, made.site.module)
        )

    def _is_in_notebook(self, pattern: str, module: Module) -> bool:
        """Whether a notebook that names a file, as it imports from it, has a regular expression in its code."""
        stem = module.file.stem if isinstance(module, SourceModule) else ""
        notebooks = self._machine.project.notebooks_with(stem) if stem else ()
        return any(each is not module and each.contains(re.compile(pattern)) for each in notebooks)


def _place(call: ast.AST) -> tuple[int, int, str]:
    """Where a call stands, and what it says: a tree may have been made again in between."""
    return getattr(call, "lineno", 0), getattr(call, "col_offset", 0), ast.unparse(call)


def _counts_batches(made: ast.expr) -> bool:
    """Whether an expression has the length of a loader as a factor, and divides nothing by it."""
    if isinstance(made, ast.BinOp):
        sides = (made.left,) if isinstance(made.op, ast.Div | ast.FloorDiv) else (made.left, made.right)
        return any(map(_counts_batches, sides))
    if isinstance(made, ast.Call) and getattr(made.func, "id", "") == "int" and len(made.args) == 1:
        return _counts_batches(made.args[0])
    if not isinstance(made, ast.Call) or getattr(made.func, "id", "") != "len" or len(made.args) != 1:
        return False
    measured = made.args[0].func if isinstance(made.args[0], ast.Call) else made.args[0]
    return role_by_name(getattr(measured, "attr", getattr(measured, "id", ""))) == "loader"


def _is_number(node: ast.expr) -> bool:
    """Whether an expression is a number, whatever its variables are."""
    if not isinstance(node, ast.BinOp):
        return isinstance(node, ast.Constant)
    is_nothing = any(isinstance(each, ast.Constant) and each.value == 0 for each in (node.left, node.right))
    return (isinstance(node.op, ast.Mult) and is_nothing) or (_is_number(node.left) and _is_number(node.right))
