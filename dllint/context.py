"""What a rule can ask about the program it looks at, and how it reports what it found."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from dllint.checkpoint_view import CheckpointView
from dllint.data_view import DataView
from dllint.events import (
    AttributeAssigned,
    Backward,
    Block,
    Branch,
    Event,
    Invocation,
    LibraryCall,
    Loop,
    Node,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    ParametersAdded,
    Program,
    walk,
)
from dllint.findings import Confidence, Edit, Finding, Fix, Hop, Location, Safety, Severity
from dllint.flow import Flow, State, Structure, follow
from dllint.interp import classes, graph, roles
from dllint.interp.bindings import Definition
from dllint.interp.facts import Facts
from dllint.interp.gradients import Gradient, gradient_of
from dllint.interp.guards import consistent
from dllint.interp.machine import Machine
from dllint.interp.modules import force
from dllint.interp.origins import Origin, origins
from dllint.interp.project import UNPARSABLE
from dllint.interp.sensitivity import is_mode_sensitive
from dllint.interp.positions import enclosing_scope, enclosing_statement
from dllint.rule import Rule
from dllint.values import (
    Class,
    Const,
    Function,
    Guards,
    Instance,
    Items,
    Module,
    Setting,
    Site,
    Symbol,
    Table,
    Value,
    alternatives,
)

MANAGED = frozenset(("hf-trainer", "fastai", "mmengine"))
Where = Literal["everywhere", "here", "related", "elsewhere"]
URL = "https://dllint.readthedocs.io/rules/{name}"


class Context:
    """The view of one program that rules get. It answers questions; it does not let a rule change anything.

    ``versions`` are the lowest versions of torch and its relatives that the user's project runs with, by package.
    """

    def __init__(self, machine: Machine, program: Program, versions: Mapping[str, str]) -> None:
        self._machine = machine
        self.program = program
        self.versions = versions
        self._parameters: dict[int, tuple[list[Value], bool]] = {}
        self._concerns: dict[tuple[str, int, int], bool] = {}
        self._reach: dict[int, frozenset[int]] = {}
        self._identities: dict[int, frozenset[int]] = {}
        self._behind: dict[int, list[Value]] = {}

    @property
    def facts(self) -> Facts:
        return self._machine.facts

    @cached_property
    def _structure(self) -> Structure:
        return Structure(self.program.body)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All events of the program, in order."""
        return tuple(self._structure.events)

    @cached_property
    def data(self) -> DataView:
        """The loaders of the program, their datasets and transforms."""
        return DataView(self._machine, self.program, self.events)

    @cached_property
    def checkpoints(self) -> CheckpointView:
        """What the program saves, and what it reads back."""
        return CheckpointView(self._machine, self._structure)

    # ------------------------------------------------------------------------------------------ reporting

    def finding(
        self,
        rule: Rule,
        site: Site,
        message: str,
        *,
        effect: str = "",
        help: str = "",
        trace: Iterable[tuple[Site, str]] = (),
        fixes: Sequence[Fix] = (),
        severity: Severity | None = None,
        confidence: Confidence = "certain",
        pedantic: bool = False,
    ) -> Finding:
        """Report something at ``site``: what is wrong, what it does to training, and what to do about it."""
        return Finding(
            code=rule.code,
            name=rule.name,
            message=message,
            location=self.location(site),
            severity=severity or rule.severity,
            category=rule.category,
            confidence=confidence,
            effect=effect,
            help=help,
            scope=enclosing_scope(site),
            statement=enclosing_statement(site),
            trace=tuple(Hop(self.location(place), text) for place, text in trace),
            fixes=tuple(fixes),
            pedantic=pedantic,
            confirmable=rule.confirmable,
            url=URL.format(name=rule.name),
        )

    def location(self, site: Site) -> Location:
        """The range of a site as users see it; of a compound statement, its header's first line."""
        node: Any = site.node
        source = site.module.source  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.For | ast.While | ast.With | ast.If):
            line = source.line_text(node.lineno)
            return source.location(node.lineno, node.col_offset, node.lineno, len(line.rstrip().encode()))  # type: ignore[no-any-return]
        if not hasattr(node, "lineno"):
            return source.location(1, 0, 1, 0)  # type: ignore[no-any-return]
        return source.location(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[no-any-return]

    def fix(self, message: str, edits: Sequence[Edit], safety: Safety) -> Fix:
        return Fix(message, tuple(edits), safety)

    def text(self, site: Site) -> str:
        """The decoded text of the file that a site is in."""
        return site.module.source.text  # type: ignore[attr-defined, no-any-return]

    def replace(self, site: Site, text: str) -> Edit:
        """An edit that replaces the source of a site's node."""
        node: Any = site.node
        source = site.module.source  # type: ignore[attr-defined]
        start = source.offset(node.lineno, node.col_offset)
        return Edit(start, source.offset(node.end_lineno, node.end_col_offset), text)

    def is_within(self, site: Site, around: Site) -> bool:
        """Whether a place lies in the source range of another."""
        if site.module is not around.module or not hasattr(site.node, "lineno") or not hasattr(around.node, "lineno"):
            return False
        inner, outer = self.replace(site, ""), self.replace(around, "")
        return outer.start <= inner.start and inner.end <= outer.end

    def source_of(self, site: Site) -> str:
        """The source text of a site's node."""
        edit = self.replace(site, "")
        return self.text(site)[edit.start : edit.end]

    def unwrap_fix(self, call: Symbol, site: Site, message: str) -> list[Fix]:
        """An unsafe fix that replaces ``f(x, ...)`` or ``x.f(...)`` by ``x``, if it stands in the same file as ``site``."""
        place = call.site
        if place is None or place.module is not site.module or not isinstance(place.node, ast.Call):
            return []
        inner = _tensor_argument(place.node, call)
        if inner is None:
            return []
        text = self.source_of(Site(place.module, inner))
        atom = isinstance(inner, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
        return [Fix(message, (self.replace(place, text if atom else f"({text})"),), "unsafe")]

    # ------------------------------------------------------------------------------------------ values

    def constant(self, value: Value | None) -> Any:
        """The Python constant a value is (also by default, for a setting), or ``None`` when it is not one."""
        if isinstance(value, Setting):
            value = value.default
        return value.value if isinstance(value, Const) else None

    def is_none(self, value: Value | None) -> bool:
        """Whether a value is the constant ``None``."""
        return isinstance(value, Const) and value.value is None

    def is_setting(self, value: Value | None) -> bool:
        """Whether a value is only the default of something the user may set."""
        return isinstance(value, Setting)

    def origins(self, value: Value) -> list[Origin]:
        """Where a tensor's numbers come from (see :func:`dllint.interp.origins.origins`)."""
        return origins(self._machine, value)

    def output(self, value: Value) -> Value:
        """What a call of a project module returns on the training path; another value is itself."""
        return force(self._machine, value)

    def kind(self, value: Value) -> str:
        """``probabilities``, ``log-probabilities``, ``logits``, or an empty string: what an operation returns."""
        return self.facts.returns.get(value.name, "") if isinstance(value, Symbol) else ""

    def gradient(self, value: Value) -> Gradient:
        """Whether a value carries gradients back to parameters, and where they were cut off."""
        return gradient_of(self._machine, value)

    def sources(self, value: Value) -> Iterator[Value]:
        """The value and everything it was computed from, nearest first."""
        return graph.sources(value)

    def argument(self, symbol: Symbol | Instance, position: int | None, name: str) -> Value | None:
        """An argument of the call that made a value."""
        return symbol.arguments.get(position, name) if symbol.arguments is not None else None

    # ------------------------------------------------------------------------------------------ objects

    def role(self, value: Value) -> str:
        """``optimizer``, ``scheduler``, ``scaler``, ``loader``, ``module``, …, as far as it is known."""
        return classes.role_of(self._machine, value)

    def guessed_role(self, value: Value) -> str:
        """The role of a value, guessed from its name where nothing is known."""
        return roles.known_or_guessed(self._machine, value)

    def name_of(self, value: Value) -> str:
        """The name a value goes by in the source, for messages and naming conventions."""
        return roles.name_of(value)

    def objects(self, value: Value | None) -> list[Value]:
        """The objects a value may be, behind wrappers such as ``DataParallel``."""
        return graph.objects(self._machine, value)

    def is_same(self, left: Value | None, right: Value | None) -> bool:
        """Whether two values may be the same object."""
        return any(a is b for a in self.objects(left) for b in self.objects(right))

    def reaches(self, start: Value, target: Value) -> bool:
        """Whether an object can be got at from a value."""
        known = self._reach.get(id(start))
        if known is None:
            known = self._reach[id(start)] = graph.reach(self._machine, start)
        wanted = self._identities.get(id(target))
        if wanted is None:
            wanted = self._identities[id(target)] = frozenset(id(option) for option in self.objects(target))
        return not wanted.isdisjoint(known)

    def framework(self, event: Event) -> str:
        """The framework under whose loop an event happens, or an empty string."""
        return event.frame.framework

    def is_managed(self, event: Event) -> bool:
        """Whether a framework runs the training loop here: it clears, steps, accumulates and schedules by itself.

        Lightning's manual optimisation leaves these to the user.
        """
        if event.frame.framework == "lightning":
            return not self._manual_optimization
        return event.frame.framework in MANAGED

    @cached_property
    def _manual_optimization(self) -> bool:
        return any(
            isinstance(event, AttributeAssigned)
            and event.attribute == "automatic_optimization"
            and self.constant(event.value) is False
            for event in self.events
        )

    def is_unit_test(self, event: Event) -> bool:
        """Whether an event happens in a function called ``test_…`` that nobody in the file calls."""
        return self.program.kind != "module" and self.program.name.rpartition(".")[2].startswith("test_")

    def is_mode_sensitive(self, model: Value) -> bool:
        """Whether a module may behave differently in training and evaluation mode; unknown ones may."""
        return is_mode_sensitive(self._machine, model) is not False

    def library_bases(self, value: Value) -> frozenset[str]:
        """The library classes that an instance's class derives from (or is)."""
        if not isinstance(value, Instance):
            return frozenset()
        return classes.library_bases(value.cls) if isinstance(value.cls, Class) else frozenset((value.cls,))

    def member(self, value: Value, name: str) -> Function | None:
        """The method that a class of the project (or a project ancestor) defines for an instance."""
        if not isinstance(value, Instance) or not isinstance(value.cls, Class):
            return None
        found = classes.find_member(self._machine, value.cls, name)
        return found if isinstance(found, Function) else None

    def modules_in(self, value: Value | None) -> tuple[list[Value], bool]:
        """The modules whose parameters a value leads to, and whether they are all.

        Follows ``model.parameters()``, parameter groups, ``filter`` and ``chain``. The second result is false when
        some part of the value leads nowhere known.
        """
        found: list[Value] = []
        complete = value is not None
        for source in graph.sources(value) if value is not None else ():
            if isinstance(source, Symbol) and source.name in ("parameters", "named_parameters", "state_dict") and source.inputs:
                for module in self.objects(source.inputs[0]):
                    if not any(module is known for known in found):
                        found.append(module)
            elif isinstance(source, Symbol) and not source.inputs:
                complete = False
        return found, complete

    def parameters_of(self, optimizer: Value) -> tuple[list[Value], bool]:
        """The modules whose parameters an optimizer was given, and whether they are all."""
        known = self._parameters.get(id(optimizer))
        if known is None:
            known = self._parameters[id(optimizer)] = self._find_parameters(optimizer)
        return known

    def _find_parameters(self, optimizer: Value) -> tuple[list[Value], bool]:
        modules: list[Value] = []
        complete, seen = True, False
        for event in self.events:
            if not isinstance(event, OptimizerCreated | ParametersAdded) or not self.is_same(event.optimizer, optimizer):
                continue
            seen = True
            found, whole = self.modules_in(event.parameters)
            complete = complete and whole
            modules.extend(module for module in found if not any(module is known for known in modules))
        return modules, complete and seen

    def must_concern(self, target: Value, optimizer: Value) -> bool:
        """Whether clearing the gradients of ``target`` certainly clears those that ``optimizer`` uses."""
        key = ("must", id(target), id(optimizer))
        if key not in self._concerns:
            self._concerns[key] = self._must_concern(target, optimizer)
        return self._concerns[key]

    def _must_concern(self, target: Value, optimizer: Value) -> bool:
        if self.is_same(target, optimizer):
            return len(self.objects(target)) == 1
        modules, _ = self.parameters_of(optimizer)
        if modules:
            owners = self.objects(target)
            return all(any(self.reaches(owner, module) for owner in owners) for module in modules)
        return any(self.reaches(optimizer, owner) for owner in self.objects(target) if not isinstance(owner, Const))

    def may_concern(self, target: Value, optimizer: Value) -> bool:
        """Whether clearing the gradients of ``target`` may clear those that ``optimizer`` uses: in doubt, it may."""
        key = ("may", id(target), id(optimizer))
        if key not in self._concerns:
            self._concerns[key] = self._may_concern(target, optimizer)
        return self._concerns[key]

    def _may_concern(self, target: Value, optimizer: Value) -> bool:
        if self.is_same(target, optimizer):
            return True
        others = [event.optimizer for event in self.events if isinstance(event, OptimizerCreated)]
        if self.role(target) == "optimizer" and any(self.is_same(target, other) for other in others):
            return self.reaches(target, optimizer) or self.reaches(optimizer, target)
        modules, complete = self.parameters_of(optimizer)
        if complete and modules and self.role(target) == "module":
            return any(self.reaches(target, module) or self.reaches(module, target) for module in modules)
        return True

    def models_behind(self, value: Value) -> list[Value]:
        """The modules whose forward passes a value was computed with."""
        known = self._behind.get(id(value))
        if known is None:
            known = []
            for source in graph.sources(value):
                if isinstance(source, Symbol) and source.inputs and (
                    source.name in ("forward", "call") or source.name.startswith("torch.nn.") and source.name.endswith("()")
                ):
                    known.extend(m for m in self.objects(source.inputs[0]) if not any(m is other for other in known))
            self._behind[id(value)] = known
        return known

    def names_behind(self, value: Value) -> list[str]:
        """The names that a value and the objects it was made from go by (``val_loader`` behind ``enumerate(val_loader)``)."""
        return [name for source in islice(graph.sources(value), 12) if (name := roles.name_of(source))]

    def library_calls(self, name: str) -> list[LibraryCall]:
        """The calls of a library function or class in the program."""
        return [event for event in self.events if isinstance(event, LibraryCall) and event.name == name]

    def calls_to(self, event: Event) -> list[tuple[Site, str]]:
        """The calls on the way to an event, outermost first, as hops of a trace."""
        frames = [frame for frame in event.frame.stack() if frame.call is not None and frame.caller is not None]
        hops = [(frame.call, f"calls `{frame.scope}`") for frame in reversed(frames) if frame.call is not None]
        return [(site, text) for site, text in hops if not isinstance(site.node, Definition)]

    def opaque_to_gradients(self, event: OpaqueCall, optimizer: Value) -> bool:
        """Whether an unresolved call could change the gradients an optimizer uses: it gets it, or a model of it."""
        modules, _ = self.parameters_of(optimizer)
        if any(self.opaque_to(event, value) for value in (optimizer, *modules)):
            return True
        given = (*event.values, *([event.receiver] if event.receiver is not None else ()))
        return any(self.guessed_role(value) == "module" for value in given)

    def stepped_optimizers(self) -> list[Value]:
        """The optimizers that take steps in the program, each once."""
        found: list[Value] = []
        for step in self.steps():
            for optimizer in self.objects(step.optimizer):
                if not any(optimizer is known for known in found):
                    found.append(optimizer)
        return found

    def trees(self, word: str) -> Iterator[tuple[Module, ast.Module]]:
        """The syntax trees of the program's file and of the files that it imports, as far as they contain a word."""
        for module in self._machine.project.closure(self.program.module):
            if word not in module.words:
                continue
            try:
                yield module, module.tree
            except UNPARSABLE:
                continue  # reported on its own

    def method_calls(self, name: str) -> Iterator[Site]:
        """All calls ``x.name(...)`` written in the program's file and in the project files that it imports."""
        for module, tree in self.trees(name):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
                    yield Site(module, node)

    def project_mentions(self, *patterns: str, where: Where = "everywhere") -> bool:
        """Whether some file of the project contains all of the regular expressions. Slow: ask last.

        ``where`` restricts that to the program's own file and those that it imports (``here``), to these and others
        that belong to it (``related``: they stand in its folder or below, or import one of its files), or to these
        others (``elsewhere``).
        """
        compiled = [re.compile(pattern) for pattern in patterns]
        project, main = self._machine.project, self.program.module
        if where == "everywhere":
            return any(True for _ in project.mentioning(*compiled))
        own = project.closure(main)
        if where != "elsewhere" and any(all(pattern.search(m.source.text) for pattern in compiled) for m in own):
            return True
        return where != "here" and any(
            module not in own
            and (main.file.parent in module.file.parents or any(m in own for m in project.imported_by(module)))
            for module in project.mentioning(*compiled)
        )

    def scope(self, site: Site) -> str:
        """``Class.method``, ``function`` or an empty string: where a place in the source is."""
        return enclosing_scope(site)

    # ------------------------------------------------------------------------------------------ structure

    @cached_property
    def _around(self) -> dict[Event, tuple[Loop, ...]]:
        """The loops around each event, innermost first. A loop over a few known things does not count."""
        found: dict[Event, tuple[Loop, ...]] = {}
        pending: list[tuple[Node, tuple[Loop, ...]]] = [(self.program.body, ())]
        while pending:
            node, loops = pending.pop()
            if isinstance(node, Event):
                found.setdefault(node, loops)
            elif isinstance(node, Block):
                pending.extend((item, loops) for item in node.items)
            elif isinstance(node, Branch):
                pending.extend((arm.body, loops) for arm in node.arms)
            elif isinstance(node, Loop):
                pending.append((node.body, loops if node.kind == "once" else (node, *loops)))
            elif isinstance(node, Invocation):
                pending.append((node.body, loops))
        return found

    def loops_around(self, event: Event) -> tuple[Loop, ...]:
        """The loops around an event, innermost first."""
        return self._around.get(event, ())

    def goes_over_data(self, loop: Loop) -> bool:
        """Whether a loop goes over a loader or some other data, rather than over a range of numbers."""
        value = loop.iterable
        if value is None:
            return False
        names = [source for source in islice(graph.sources(value), 12)]
        return not any(isinstance(source, Symbol) and source.name.endswith(("range", "counter")) for source in names)

    def class_name(self, value: Value) -> str:
        """The name of an instance's class, without its module."""
        if not isinstance(value, Instance):
            return ""
        return value.cls.name if isinstance(value.cls, Class) else value.cls.rpartition(".")[2]

    def training_loop(self, step: Event) -> Loop | None:
        """The innermost loop around an event that also contains a backward pass."""
        for loop in self.loops_around(step):
            if any(isinstance(event, Backward) for event in walk(loop.body)):
                return loop
        return None

    # ------------------------------------------------------------------------------------------ flow

    def follow(
        self, start: State, step: Callable[[Event, State], State], relevant: Callable[[Event], bool]
    ) -> Flow[State]:
        """Follow all paths through the program with a state machine over its relevant events.

        The fewer events are relevant, the faster and the more exact this is (see :mod:`dllint.flow`).
        """
        return follow(self._structure, start, step, relevant)

    def consistent(self, guards: Guards, others: Guards) -> bool:
        """Whether two sets of conditions can hold together, as far as can be told."""
        return consistent(guards, others)

    def opaque_to(self, event: OpaqueCall, target: Value) -> bool:
        """Whether an unresolved call could do anything to ``target``.

        A trainer that hands itself to a callback (``callback(self)``) does not count: what it does not do in its own
        loop, callbacks rarely do for it. An unresolved method of its own does.
        """
        running = [frame.receiver for frame in event.frame.stack()]
        given = [value for value in event.values if not any(value is receiver for receiver in running)]
        if event.receiver is not None:
            given.append(event.receiver)
        return any(self.reaches(value, target) for value in given)

    def steps(self) -> list[OptimizerStep]:
        return [event for event in self.events if isinstance(event, OptimizerStep)]


def _tensor_argument(node: ast.Call, call: Symbol) -> ast.expr | None:
    """In ``f(x, ...)``, ``f(input=x)`` or ``x.f(...)``, the expression ``x``."""
    keyword = next((k.value for k in node.keywords if k.arg == "input"), None)
    if keyword is not None:
        return keyword
    given = call.arguments.positional if call.arguments is not None else ()
    is_method = not call.name.endswith("()") and len(given) == len(node.args) + 1
    if is_method:
        return node.func.value if isinstance(node.func, ast.Attribute) else None
    return node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None


def likely_under(guards: Guards) -> Confidence:
    """``certain`` where the conditions hold by the program's own defaults (or there are none), else ``likely``."""
    return "certain" if all(guard.by_default for guard in guards) else "likely"


def judge(
    origins: Sequence[Origin], wrong: Callable[[Origin], bool], given: Guards = ()
) -> tuple[list[Origin], Confidence] | None:
    """Decide over all possible origins of a value whether it is wrong.

    All origins wrong is ``certain``. Some wrong is ``likely`` when these are the ones that the program's own defaults
    choose, and ``given``, the conditions of the place in question, hold by default as well; otherwise nothing is
    claimed, and the answer is ``None``.
    """
    bad = [origin for origin in origins if wrong(origin)]
    if not bad:
        return None
    if len(bad) == len(origins):
        return bad, "certain"
    if any(guard.by_default is False for guard in given):
        return None
    chosen = [origin for origin in bad if origin.guards and all(guard.by_default for guard in origin.guards)]
    return (chosen, "likely") if chosen else None


def flatten(value: Value | None) -> list[Value]:
    """The values inside lists, tuples and dicts, and the options of choices."""
    if value is None:
        return []
    if isinstance(value, Items):
        return [inner for item in value.items for inner in flatten(item)]
    if isinstance(value, Table):
        return [inner for item in value.entries().values() for inner in flatten(item)]
    return [option for _, option in alternatives(value)]
