"""The state of an interpretation: where we are, under which conditions, and what has been recorded so far."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from dllint.choices import otherwise
from dllint.dataclass import dataclass
from dllint.events import Event, Frame, ModeChange
from dllint.interp.run.guards import names_in
from dllint.interp.run.handed_on import options_handed_on
from dllint.interp.run.joining import MISSING, CallError, distinguished
from dllint.interp.run.journal import Activation, State, Writes
from dllint.interp.run.trial import Trial
from dllint.interp.sieve.relevance import Concerned, Relevance
from dllint.interp.source.facts import Facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.positions import enclosing_definition
from dllint.interp.source.project import Project
from dllint.sites import Guard, Guards, Site
from dllint.structure import Arm, Block, Branch, Invocation, Leave, Loop
from dllint.terms import Framework, Role
from dllint.values import Arguments, Class, Function, Instance, Items, OpenAttributes, Scope, Symbol, Value

E = TypeVar("E", bound=Event)

Place = tuple[str, int]  # the path of a file as users see it, and a line

MAX_DEPTH = 24
MAX_STEPS = 12_000  # statements of one program
MAX_STEPS_OF_MODULE = 40_000  # statements of all programs of a module; behind that, each gets a small share
_SHARE = 1_500
_WITHOUT_GRADIENTS = frozenset(("validation_step", "test_step", "predict_step"))  # Lightning calls them under `no_grad`
MAX_LEFT_OUT = 6  # methods of an object that are noted
MAX_STEPS_OF_TRIAL = 4_000  # statements of what is run only in order to answer a question
MAX_LINES_PER_FUNCTION = 400  # how many lines of one function are interpreted, over all its calls in a program
MIN_CALLS_PER_FUNCTION = 3
MAX_OPENED = 2_000_000  # characters of the imported files that names are looked up in


class LimitError(Exception):
    """The interpretation took longer than it may."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Definitions of other files that a program has called, and the rules that it was shown to (None: all)."""

    concerned: Concerned | None
    places: frozenset[Place]


@dataclass(frozen=True, slots=True)
class Operations:
    """What a machine does with code: the functions of this room that all others need, each given the machine first."""

    evaluate: Callable[[Machine, ast.expr, Scope], Value]
    execute: Callable[[Machine, ast.stmt, Scope], str | None]
    execute_block: Callable[[Machine, Sequence[ast.stmt], Scope], str | None]
    call: Callable[[Machine, Value, Arguments, Site], Value]
    call_method: Callable[[Machine, Value, str, Arguments, Site], Value]
    invoke: Callable[..., Value]


class Machine(State):
    """Interprets one entry point of a project. :func:`dllint.interp.run.wiring.new_machine` makes one."""

    def __init__(
        self, project: Project, facts: Facts, main: SourceModule, relevance: Relevance | None, operations: Operations
    ) -> None:
        super().__init__()
        self.evaluate: Callable[[ast.expr, Scope], Value] = partial(operations.evaluate, self)
        self.execute: Callable[[ast.stmt, Scope], str | None] = partial(operations.execute, self)
        self.execute_block: Callable[[Sequence[ast.stmt], Scope], str | None] = partial(operations.execute_block, self)
        self.call: Callable[[Value, Arguments, Site], Value] = partial(operations.call, self)
        self.call_method: Callable[[Value, str, Arguments, Site], Value] = partial(operations.call_method, self)
        self.invoke: Callable[..., Value] = partial(operations.invoke, self)
        self.project = project
        self.facts = facts
        self.main = main
        self.relevance = relevance
        self.scopes: dict[SourceModule, Scope] = {}
        self._opened: dict[SourceModule, bool] = {main: True}
        self._characters = 0  # of those that are
        self.block: Block | None = None
        self.frame = Frame("")
        self.grad = "on"
        self.contexts: frozenset[str] = frozenset()
        self.activation: Activation | None = None
        self.reached: set[ast.AST] = set()
        self.as_script = False  # whether the module is run from its first line, and what came before is known
        self.handed_on: set[Instance] = set()  # options in which others may have been set, nobody knows which
        self.modes_of_files: list[ModeChange[Value]] = []  # that the top levels of files have left modules in
        self.asked_stars: set[tuple[SourceModule, str]] = set()  # names that star imports are asked for
        self.reaches: list[Reach] = []
        self.attempts: dict[tuple[Value, str, str], Trial] = {}  # by those who look at one program
        self.settled: dict[ast.AST, bool | None] = {}  # comparisons of numbers that are drawn, whatever these are
        self.receivers: dict[Symbol, Instance] = {}  # of the calls of methods that were not entered, by their results
        self.calls_left_out: dict[Instance, list[tuple[Function, Arguments]]] = {}
        self._called_elsewhere: set[Place] = set()
        self.nested: list[Function] = []
        self.forwards: dict[Symbol, Value] = {}
        self.choices: dict[int, Value] = {}
        self.loss_classes: dict[ast.AST, bool] = {}
        self.lacking: dict[tuple[ast.AST, str], bool] = {}  # whether objects of a class certainly lack an attribute
        self.has_process_group: bool | None = None  # whether the project may start one, if that was asked
        self.tested: dict[int, tuple[Value, Guard]] = {}
        self.roles: dict[Class, Role] = {}
        self.frameworks: dict[Class, Framework] = {}
        self.steps = 0
        self.truncated = False
        self.failed_at: Site | None = None  # where the module certainly fails when it is run
        self.loop_depth = 0
        self._budget = MAX_STEPS
        self._spent = 0
        self.deadline = float("inf")
        self._running: list[Function] = []
        self._calls: dict[ast.AST, int] = {}
        self._interrupted: list[tuple[Guards, Writes]] = []

    # ------------------------------------------------------------------------------------------ recording

    def emit(self, event: E) -> E:
        """Record an event with the circumstances in which it happens."""
        if self.block is not None:
            event.frame = self.frame
            event.grad = self.grad
            event.contexts = self.contexts
            event.guards = tuple(self.path)
            self.block.items.append(event)
            self.handed_on.update(options_handed_on(event))
        return event

    def keep_modes(self, events: Iterable[Event]) -> None:
        """Note in which modes the top level of a file leaves modules, for the programs that find them so."""
        self.modes_of_files += (event for event in events if isinstance(event, ModeChange))

    def leave(self, kind: str, site: Site) -> str:
        """Record that control leaves the current block, and return the kind."""
        if self.block is not None:
            self.block.items.append(Leave(kind, site))
        return kind

    def refused(self, error: CallError) -> str:
        """Record that control leaves by a call that cannot be made."""
        if self.activation is not None:
            self.activation.refused = True
        return self.leave("raise", error.site)

    def catch(self) -> None:
        """Forget that control has just left by ``raise``: somebody catches it here."""
        last = self.block.items[-1] if self.block is not None and self.block.items else None
        if self.block is not None and isinstance(last, Leave) and last.kind == "raise":
            self.block.items.pop()

    @contextmanager
    def recording(self, block: Block | None) -> Iterator[None]:
        """Record into ``block`` (or nowhere) for a while; a call that cannot be made ends what is recorded."""
        outer, self.block = self.block, block
        try:
            yield
        except CallError as error:
            self.refused(error)
        finally:
            self.block = outer

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Interpret something whose effects on values last but whose events, guards and modes are not of this place.

        Used for what is evaluated on demand: bindings of imported modules, forwards of models, default arguments.
        """
        saved = (self.block, self.path, self.grad, self.contexts, self.activation, self._journal, self.frame)
        self.block, self.path, self.grad, self.contexts, self._journal = None, [], "on", frozenset(), None
        try:
            yield
        finally:
            self.block, self.path, self.grad, self.contexts, self.activation, self._journal, self.frame = saved

    def tried(self, body: Callable[[], Value]) -> Trial:
        """What some code gives and does when it is run now, for somebody who asks.

        Nothing of it lasts but what it wrote into values that it made, it has limits of its own, and nothing of it is
        sieved: the answer does not depend on what else is asked.
        """
        kept = self.relevance, self.reached, self._calls, self.steps, self._budget, self.truncated, self.settled
        self.relevance, self.reached, self._calls, self.steps, self._budget = None, set(), {}, 0, MAX_STEPS_OF_TRIAL
        self.settled = {}
        block, result = Block(), None
        writes: Writes = {}  # nothing, where the call cannot be made
        try:
            with self.aside(), self.recording(block):
                result, writes = self.run_arm((), body)
            for container, key, value in writes.values():
                if value is not MISSING and isinstance(container, OpenAttributes) and self._has_made(container.owner):
                    container[key] = value
            return Trial(result, block, frozenset(self.reached), self.settled)
        finally:
            self.relevance, self.reached, self._calls, self.steps, self._budget, self.truncated, self.settled = kept

    def left_out(self, receiver: Instance, method: Function, arguments: Arguments, result: Symbol) -> None:
        """Note a call of a method that is not entered, for those who ask what it does."""
        self.receivers[result] = receiver
        calls = self.calls_left_out.setdefault(receiver, [])
        if len(calls) < MAX_LEFT_OUT and not any(known.node is method.node for known, _ in calls):
            calls.append((method, arguments))

    def _has_made(self, value: Value) -> bool:
        """Whether a value was made in a definition that was called meanwhile: nobody else has it."""
        return value.site is not None and enclosing_definition(value.site) in self.reached

    def end_program(self, concerned: Concerned | None, *, counts: bool) -> None:
        """A program has been interpreted: note the definitions of other files that it called, if that ``counts``."""
        places, self._called_elsewhere = self._called_elsewhere, set()
        self.attempts.clear()
        if places and counts:
            self.reaches.append(Reach(concerned, frozenset(places)))

    def branch(self, site: Site, arms: list[tuple[Guards, Any]]) -> list[Any]:
        """Interpret each arm (guards, callable) from the current state and join the outcomes.

        An arm's callable returns a pair: what leaves (``return``, ``break``, … or ``None``) and a result. The results
        are returned in order; arms that leave do not take part in the join. An arm of which no condition is known gets
        one of its own: what holds in it does not hold anyway.
        """
        outcomes, recorded, live = [], [], []
        before, grads = self.grad, set()
        for guards, body in distinguished(arms, site):
            outer, self.held, self.grad = self.block, (), before
            block = self.block = Block() if outer is not None else None
            try:
                (left, result), writes = self.run_arm(guards, partial(self._run_to_end, body))
            finally:
                self.block = outer
            outcomes.append((left, result, writes))
            if block is not None:
                recorded.append(Arm(guards, block))
            if left is None:
                live.append((guards + self.held, writes))
                grads.add(self.grad)
            elif left in ("break", "continue"):
                self._interrupted.append((guards, writes))
            elif left == "return" and self.activation is not None:
                self.activation.end((*self.path[self.activation.path_start :], *guards), writes)
        if self.block is not None and any(arm.body.items for arm in recorded):
            self.block.items.append(Branch(site, recorded))
        self.grad = "unknown" if len(grads) > 1 else next(iter(grads), before)
        if live:
            self.join(live)
        return outcomes

    def _run_to_end(self, body: Callable[[], tuple[str | None, Any]]) -> tuple[str | None, Any]:
        """What comes of an arm, which may end in a call that cannot be made."""
        depth, grad, contexts = len(self.path), self.grad, self.contexts
        try:
            return body()
        except CallError as error:
            del self.path[depth:]
            self.grad, self.contexts = grad, contexts
            return self.refused(error), None

    # ------------------------------------------------------------------------------------------ limits

    @property
    def seconds(self) -> float:
        """The CPU time of this thread, but for what it took to glance at the files of the project, once for all."""
        return time.thread_time() - self.project.seconds_glancing

    def tick(self) -> bool:
        """Count a step; false when the budget of this interpretation is used up.

        Raises:
            LimitError: the deadline has passed.
        """
        self.steps += 1
        self.truncated = self.truncated or self.steps > self._budget
        if self.steps % 256 == 0 and self.seconds > self.deadline:
            raise LimitError
        return self.steps <= self._budget

    def may_open(self, module: SourceModule) -> bool:
        """Whether names are looked up in a module. Those of a very large package are looked up in a part of it."""
        opened = self._opened.get(module)
        if opened is None:
            opened = self._opened[module] = self._characters < MAX_OPENED
            self._characters += module.source.characters if opened else 0
        return opened

    def may_call(self, function: Function) -> bool:
        """Whether a call of the function can be interpreted: not too deep, not recursive, not too often."""
        node = function.node
        if len(self._running) >= MAX_DEPTH or self.steps > self._budget:
            return False
        if sum(1 for running in self._running if running.node is node) > 1:
            return False
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        return self._calls.get(node, 0) < max(MIN_CALLS_PER_FUNCTION, MAX_LINES_PER_FUNCTION // lines)

    @contextmanager
    def calling(self, function: Function, scope: Scope, frame: Frame, site: Site) -> Iterator[Activation]:
        """Interpret inside a call of ``function``; behind it, what its branches that returned wrote may hold, too."""
        node = function.node
        self._calls[node] = self._calls.get(node, 0) + 1
        if self.block is not None:
            self.reached.add(node)
            if function.module is not self.main:
                self._called_elsewhere.add((function.module.path, node.lineno))
        saved = (self.block, self.frame, self.activation, self.grad)
        if self.block is not None:
            self.block.items.append(Invocation(frame, site, body := Block()))
            self.block = body
        self.frame = frame
        activation = self.activation = Activation(len(self.path), scope.variables, self.activation)
        if function.grad is not None:
            self.grad = function.grad
        elif frame.framework == "lightning" and function.name in _WITHOUT_GRADIENTS and not saved[1].owner:
            self.grad = "off"
        is_own, grad = function.grad is not None or self.grad != saved[3], saved[3]
        self._running.append(function)
        try:
            yield activation
            grad = grad if is_own else activation.grad_after(grad, self.grad)
        finally:
            self._running.pop()
            (self.block, self.frame, self.activation, _), self.grad = saved, grad
            self.held = ()  # it speaks of the variables of the function
            for guards, writes in activation.ended:
                self.join([(otherwise(guards), {}), (guards, writes)])

    @contextmanager
    def looping(self, loop: Loop) -> Iterator[None]:
        """Record the body of a loop; behind it, what its ``break`` and ``continue`` branches wrote may hold, too."""
        outer, interrupted = self.block, self._interrupted
        self._interrupted = []
        self.loop_depth += 1
        if outer is not None:
            outer.items.append(loop)
            self.block = loop.body
        try:
            yield
        finally:
            self.block = outer
            self.loop_depth -= 1
            pending, self._interrupted = self._interrupted, interrupted
            for guards, writes in pending:
                self.join([((), {}), (guards, writes)])

    def renew_budget(self) -> None:
        """Start counting afresh, for the next program of the same module."""
        self._spent += self.steps
        self._budget = MAX_STEPS if self._spent < MAX_STEPS_OF_MODULE else _SHARE
        self.steps = 0
        self.truncated = False
        self._calls.clear()

    def fresh(self, items: Items) -> Items:
        """A list that is made here, by whoever runs now: see `made` and `in_foreign_loop`."""
        items.contents["depth"] = self.loop_depth
        self.made(items.contents)
        return items

    def in_foreign_loop(self, items: Items) -> bool:
        """Whether a list is changed inside a loop that is not known to run once since the list was made."""
        return bool(self.loop_depth > items.contents.get("depth", 0))

    def scope_of(self, test: ast.expr) -> str:
        """The function whose variables a test reads, for the guards that it makes.

        Where a caller has merely passed them on under the same names, it is the caller: ``if scaler is not None`` says
        the same in ``backward(loss, scaler)`` and in the function that calls it.
        """
        frame, activation = self.frame, self.activation
        if activation is None:
            return frame.scope
        own = [name for name in names_in(test) if name in activation.variables]
        while own and activation.caller is not None and frame.caller is not None:
            outer = activation.caller.variables
            if not all(outer.get(name) is activation.variables[name] for name in own):
                break
            frame, activation = frame.caller, activation.caller
        return frame.scope

    def module_scope(self, module: SourceModule) -> Scope:
        """The variables of a module: those executed (the entry's) or evaluated on demand."""
        scope = self.scopes.get(module)
        if scope is None:
            scope = self.scopes[module] = Scope(module)
        return scope

    def site(self, module: SourceModule, node: ast.AST) -> Site:
        return Site(module, node)
