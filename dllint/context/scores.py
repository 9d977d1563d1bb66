"""Losses and metrics: what loops over batches add up, and what they leave behind."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption
from dllint.context.phases import Phase, Phases
from dllint.dataclass import dataclass
from dllint.events import Backward, Event, Frame, LossCall, ModelForward
from dllint.interp.source.batchwise import (
    Mean,
    Sum,
    as_number,
    averages_in,
    begins_list,
    begun_before,
    counts_samples,
    is_bound_in,
    last_bound,
    lists_in,
    means_after,
    plain,
    sums_in,
)
from dllint.interp.source.given_arguments import argument_of, place_of
from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.left_entries import entries_left
from dllint.interp.source.loss_terms import is_term_of, part_taken
from dllint.interp.source.meters import (
    TORCHMETRICS,
    Kind,
    Meter,
    default_meters,
    defaults_of,
    kind_of_class,
    may_be_given,
    meters_in,
)
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.phases import phase_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.interp.source.remainders import Remainder, remainders
from dllint.sites import Site
from dllint.structure import Loop, walk
from dllint.values import Symbol, Value

_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_REDUCTIONS = ("reduction", "size_average", "reduce")


def _last(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _given_dataset(call: ast.AST) -> ast.expr | None:
    """What a call that makes a loader is given for the dataset, as it is written."""
    if not isinstance(call, ast.Call):
        return None
    return next((each.value for each in call.keywords if each.arg == "dataset"), call.args[0] if call.args else None)


@dataclass(frozen=True, slots=True)
class BatchLoop:
    """A loop over batches that calls a model, computes a loss or goes backward: ``event`` is the first that does.

    ``outer`` is the loop around it in the same function, if there is one.
    """

    loop: Loop
    event: Event
    outer: Loop | None = None

    @property
    def node(self) -> ast.For:
        assert isinstance(self.loop.site.node, ast.For)
        return self.loop.site.node

    def site(self, node: ast.AST) -> Site:
        """A place in the loop's file."""
        return Site(self.loop.site.module, node)


class Scores(Phases):
    """How a program measures."""

    @cached_property
    def batch_loops(self) -> tuple[BatchLoop, ...]:
        """The loops over batches in which a model is called, a loss computed or a backward pass made, each once."""
        over_loaders = {id(one.loop) for one in self.data.passes}
        found: dict[int, BatchLoop] = {}
        for loop, around in self._structure.loops:
            is_of_batches = id(loop) in over_loaders or self.goes_over_loader(loop) or self.counts_batches(loop)
            if isinstance(loop.site.node, ast.For) and is_of_batches:
                events = (event for event in walk(loop.body) if isinstance(event, ModelForward | LossCall | Backward))
                event = next(events, None)
                if event is not None:
                    outer = next((each for each in around if each.frame is loop.frame), None)
                    found.setdefault(id(loop.site.node), BatchLoop(loop, event, outer))
        return tuple(found.values())

    def left_by(self, one: BatchLoop) -> Iterator[Remainder]:
        """The variables that a loop binds to something of one batch alone, and that are read after it."""
        yield from remainders(one.node, self._around(one))

    def entries_left_by(self, one: BatchLoop) -> Iterator[Remainder]:
        """The entries of dicts that a loop binds to something of one batch alone, and that are divided after it."""
        yield from entries_left(one.node, self._around(one))

    def summed_in(self, one: BatchLoop) -> Iterator[Sum]:
        """What a loop over batches adds up or appends to a list: `total += loss.item()`."""
        yield from sums_in(one.node)
        yield from lists_in(one.node)

    def meters_in(self, outer: Loop) -> Iterator[Meter]:
        """The meters that the function around a loop makes before it, and that nothing in it resets or gets hold of.

        They are objects of torchmetrics, or of classes of the project that add up what they are told.
        """
        module: Any = outer.site.module
        around = enclosing_definition(outer.site) or module.tree
        kinds: dict[str, Kind] = {}
        for node in nodes_of(around).of(ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Name) and len(node.targets) == 1:
                kind = self._kind_made_by(node.value, module)
                kinds.update({target.id: kind} if kind is not None else {})
        if isinstance(outer.site.node, ast.stmt) and kinds:
            yield from meters_in(outer.site.node, around, kinds)

    def meters_by_default(self, one: BatchLoop) -> Iterator[Meter]:
        """The meters that are the default of a parameter of the function around a loop: made once, for all its calls.

        No call that is known hands one over, and nothing in the function resets them or gets hold of them.
        """
        module: Any = one.loop.site.module
        around = enclosing_definition(one.loop.site)
        if not isinstance(around, ast.FunctionDef):
            return
        made = {name: self._kind_made_by(default, module) for name, default in defaults_of(around).items()}
        kinds = {name: kind for name, kind in made.items() if kind is not None}
        if kinds:
            project = self._machine.project
            files = [each for each in project.closure(self.program.module) if around.name in each.words]
            trees = [each.tree for each in project.reading_each(files)]
            for meter in default_meters(around, kinds):
                if not any(may_be_given(around, meter.name, tree) for tree in trees):
                    yield meter

    def _kind_made_by(self, call: ast.expr, module: Any) -> Kind | None:
        """The meters of which an expression makes one, if it does."""
        made = call.func if isinstance(call, ast.Call) else None
        if not isinstance(made, ast.Name | ast.Attribute):
            return None
        imported = imported_names(module.tree)
        name = imported.get(made.id, made.id) if isinstance(made, ast.Name) else dotted_name(made, imported)
        is_known = self.facts.canonical(name).startswith("torchmetrics.")
        return TORCHMETRICS if is_known else self._kind_of_meters(name.rpartition(".")[2] or _last(made))

    def _kind_of_meters(self, name: str) -> Kind | None:
        """The meters that a class of the project describes; all classes of the name, if there are several."""
        if name not in self._kinds_of_meters:
            project = self._machine.project
            closure = project.closure(self.program.module)
            files = [each for each in closure if name in each.words and "reset" in each.words]
            classes = (
                definition
                for module in project.reading_each(files)
                for definition in nodes_of(module.tree).of(ast.ClassDef)
                if definition.name == name
            )
            kinds = [kind_of_class(each) for each in classes]
            self._kinds_of_meters[name] = kinds[0] if kinds and all(each == kinds[0] for each in kinds) else None
        return self._kinds_of_meters[name]

    @cached_property
    def _kinds_of_meters(self) -> dict[str, Kind | None]:
        """What the classes of a name describe, each worked out once."""
        return {}

    def means_in(self, around: Site, name: str) -> Iterator[Mean]:
        """Where a sum or list of some name is averaged in a statement: `total / n`, `np.mean(values)`."""
        yield from averages_in(around.node, name)

    def begun_before(self, name: str, loop: Loop) -> Site | None:
        """Where a sum or list begins with nothing before a loop, if nothing in the loop gives it another value."""
        module: Any = loop.site.module
        node = loop.site.node
        if not isinstance(node, ast.stmt) or is_bound_in(node, name):
            return None
        begun = begun_before(name, node, enclosing_definition(loop.site) or module.tree)
        return Site(module, begun) if begun is not None else None

    def begins_list(self, begun: Site, name: str) -> bool:
        """Whether what begins there, under a name, is a list, however things are put into it (`values += [value]`)."""
        return begins_list(begun.node, name)

    def has_one_batch(self, one: BatchLoop) -> bool:
        """Whether a batch of the loader is as large as what it goes over, by how its size is computed or is known."""
        loaders = [loader for each in self.data.passes if each.loop is one.loop for loader in each.loaders]
        if loaders and all(map(self._is_one_batch, loaders)):
            return True
        made = (event for event in self.data.loaders if any(event.loader is loader for loader in loaders))
        sizes = (size for event in made if (size := event.options.get("batch_size")) is not None)
        return any(_is_of_all(list(self.sources(size))) for size in sizes)

    def _is_one_batch(self, loader: Value) -> bool:
        size = self.data.batch_size(loader)
        made = (event for event in self.data.loaders if event.loader is loader)
        counts = [self.data.number_of_samples(event.dataset) for event in made]
        return size is not None and bool(counts) and all(count is not None and count <= size for count in counts)

    def means_after(self, one: BatchLoop, name: str) -> Iterator[Mean]:
        """Where a sum of some name is averaged after a loop over batches, as the loop left it."""
        yield from means_after(one.node, name, self._around(one))

    def counts_samples(self, one: BatchLoop, divisor: ast.expr) -> bool:
        """Whether a number is that of the samples in all batches of a loop, as it is written: `len(loader.dataset)`."""
        counted = divisor.args[0] if isinstance(divisor, ast.Call) and len(divisor.args) == 1 else None
        if isinstance(divisor, ast.Call) and counted is not None and _last(divisor.func) == "len":
            loaders = [loader for each in self.data.passes if each.loop is one.loop for loader in each.loaders]
            made = [event for event in self.data.loaders if any(event.loader is loader for loader in loaders)]
            sets = [given for event in made if (given := _given_dataset(event.site.node)) is not None]
            if sets and all(ast.unparse(each) == ast.unparse(counted) for each in sets):
                return True
        return counts_samples(divisor, one.node, self._around(one))

    def batch_mean_in(self, one: BatchLoop, added: Sum) -> LossCall | None:
        """The loss that is added up in a loop, just as it is, if it is known to be the mean over a batch."""
        expression = plain(added.added, one.node)
        loss = self.loss_in(one, expression)
        if loss is None:
            loss = self._returned_by(one, added, expression)
        elif loss.site.node is not expression:
            return None
        if loss is None:
            return None
        options = {name: value for name, value in loss.options.items() if name in _REDUCTIONS}
        return loss if all(self.constant(value) == "mean" for value in options.values()) else None

    @staticmethod
    def _around(one: BatchLoop) -> ast.AST:
        module: Any = one.loop.site.module
        return enclosing_definition(one.loop.site) or module.tree

    def loss_in(self, one: BatchLoop, expression: ast.AST) -> LossCall | None:
        """The loss that an expression in a loop computes or makes a number of, if it is one that is known."""
        roots = [expression, *([plain(expression, one.node)] if isinstance(expression, ast.expr) else [])]
        nodes = {id(node) for root in roots for node in ast.walk(root)}
        losses = (event for event in walk(one.loop.body) if isinstance(event, LossCall))
        return next((event for event in losses if id(event.site.node) in nodes), None)

    def _returned_by(self, one: BatchLoop, added: Sum, call: ast.AST) -> LossCall | None:
        """The loss that a function of the project computes and returns for a call in a loop, perhaps as a number, first
        among several things, or as a term of a sum with fixed weights."""
        for event in walk(one.loop.body):
            frame = event.frame
            if isinstance(event, LossCall) and frame.call is not None and frame.call.node is call and frame.definition:
                function = frame.definition.node
                returns = [each.value for each in nodes_of(function).of(ast.Return)]
                whole = returns[0] if len(returns) == 1 else None
                returned = part_taken(whole, added, one.node, call) if whole is not None else None
                if returned is not None and is_term_of(event.site.node, returned, function):
                    return event
        return None

    def compared_with_best(self, event: Event) -> Iterator[Site]:
        """The new values that are compared with the best so far (`loss < best_loss`) where that decides an event."""
        tested = {id(guard.node) for guard in event.guards if guard.node is not None}
        places = [(event.site, event.frame)]
        places += ((frame.call, frame.caller) for frame in event.frame.stack() if frame.call and frame.caller)
        for place, frame in places:
            tests = (node.test for node in ancestors(place) if isinstance(node, ast.If))
            for node in (each for test in tests for each in ast.walk(test) if id(each) in tested):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], _ORDER) and len(node.ops) == 1:
                    sides = (node.left, node.comparators[0])
                    new = [side for side in sides if not self.speaks_of("record", ast.unparse(side))]
                    if len(new) == 1:
                        yield _as_given(Site(place.module, new[0]), frame)

    def has_validation(self, loops: Iterable[Loop]) -> bool:
        """Whether held-out data that is not called a test set is evaluated in one of some loops."""
        within = {id(loop) for loop in loops}
        for one in self.batch_loops:
            inside = any(id(loop) in within for loop in self.loops_around(one.event) if loop is not one.loop)
            if inside and self.phase(one.event).is_evaluation and not self._is_test(one.loop):
                return True
        return False

    def has_test(self, loops: Iterable[Loop]) -> bool:
        """Whether data that is called a test set is gone over in one of some loops, or it is not known what is."""
        within = {id(loop) for loop in loops}
        inside = [
            loop
            for loop, around in self._structure.loops
            if any(id(each) in within for each in around) and self.goes_over_loader(loop)
        ]
        return not inside or any(map(self._is_test, inside))

    def _is_test(self, loop: Loop) -> bool:
        names = [*(frame.function for frame in loop.frame.stack())]
        if loop.iterable is not None:
            names.extend(self.names_behind(loop.iterable))
        return self.speaks_of("test-set", *names) and not self.speaks_of("validation-set", *names)

    def is_of_validation(self, score: Site, loops: Iterable[Loop]) -> bool:
        """Whether a score is added up over data that is not called a test set, in one of some loops, or comes of a call
        that is given what is called a validation set."""
        loops = tuple(loops)
        adding = (self._adding(score, loop) for loop in loops)
        if any(one is not None and not self._is_test(one.loop) for one in adding):
            return True
        made = [self._made_in(score, loop) for loop in loops]
        calls = [each for one in made if one is not None for each in ast.walk(one) if isinstance(each, ast.Call)]
        given = [
            ast.unparse(each) for call in calls for each in call.args if isinstance(each, ast.Name | ast.Attribute)
        ]
        return any(self.speaks_of("validation-set", each) and not self.speaks_of("test-set", each) for each in given)

    def _made_in(self, score: Site, outer: Loop) -> ast.expr | None:
        """What a score was last bound to in a loop, before it is read."""
        assert isinstance(score.node, ast.expr)
        return last_bound(ast.unparse(as_number(score.node)), outer.site.node, score.node.lineno)

    def _adding(self, score: Site, outer: Loop) -> BatchLoop | None:
        """The last loop over batches, in a loop over epochs, that adds up a score which is read after it."""
        assert isinstance(score.node, ast.expr)
        line, made = score.node.lineno, self._made_in(score, outer)
        roots = [score.node] if made is None else [score.node, made]
        named = {ast.unparse(each) for root in roots for each in ast.walk(root) if isinstance(each, ast.expr)}
        adding = [
            one
            for one in self.batch_loops
            if one.outer is outer
            and (one.node.end_lineno or 0) < line
            and named & {each.name for each in self.summed_in(one)}
        ]
        return max(adding, key=lambda one: one.node.lineno, default=None)

    @staticmethod
    def phase_of_name(name: str) -> str:
        """What something is for by its name: `training`, `evaluation`, `inference` or `unknown`."""
        return phase_of(name)

    def phase_of_score(self, place: Site, outer: Loop) -> Phase:
        """In which phase a loss or metric was computed that is read in a loop over epochs.

        The loop over batches tells it that adds it up, or else its name, or that of the function that returns it.
        Nothing is known where its name says something else than the loop.
        """
        score, made = place.node, self._made_in(place, outer)
        assert isinstance(score, ast.expr)
        adding = self._adding(place, outer)
        if adding is not None:
            found, named = self.phase(adding.event), phase_of(ast.unparse(as_number(score)).rpartition(".")[2])
            return found if named in ("unknown", found.name) else Phase("unknown")
        calls = [each.func for each in ast.walk(made) if isinstance(each, ast.Call)] if made is not None else []
        for text in (ast.unparse(as_number(score)), *map(ast.unparse, calls)):
            phase = phase_of(text.rpartition(".")[2])
            if phase != "unknown":
                told = f"`{text}` is of {phase}, as its name says"
                return Phase(phase, told, (Assumption("name", told),))
        return Phase("unknown")


def _as_given(site: Site, frame: Frame) -> Site:
    """What a call gives for a value that is a parameter of the function it is read in; else the value itself."""
    while isinstance(site.node, ast.Name) and frame.definition and frame.call and frame.caller:
        function, call = frame.definition.node, frame.call.node
        name = _parameter_behind(site.node, function) if isinstance(function, ast.FunctionDef) else ""
        if not name or not isinstance(function, ast.FunctionDef) or not isinstance(call, ast.Call):
            break
        given = argument_of(call, name, place_of(function, name, is_method=frame.receiver is not None))
        if given is None:
            break
        site, frame = Site(frame.call.module, given), frame.caller
    return site


def _parameter_behind(read: ast.Name, function: ast.FunctionDef) -> str:
    """The parameter that a variable is, or that it was bound to once, turned round or not: ``score = -val_loss``."""
    nodes = nodes_of(function)
    stores = [each for each in nodes.names.get(read.id, ()) if not isinstance(each.ctx, ast.Load)]
    if not stores:
        return read.id
    bound = [each.value for each in nodes.of(ast.Assign) if len(stores) == 1 and stores[0] in each.targets]
    value = bound[0].operand if bound and isinstance(bound[0], ast.UnaryOp) else bound[0] if bound else None
    is_plain = isinstance(value, ast.Name) and all(isinstance(each.ctx, ast.Load) for each in nodes.names[value.id])
    return value.id if is_plain and isinstance(value, ast.Name) else ""


def _is_of_all(sources: list[Value]) -> bool:
    """Whether a size comes from a length as a whole, rather than from a part of it."""
    symbols = [each for each in sources if isinstance(each, Symbol)]
    return any(map(_is_length, symbols)) and not any(each.name in ("/", "//") for each in symbols)


def _is_length(value: Symbol) -> bool:
    """Whether a value is the length or the shape of something."""
    return value.name in ("len", ".size") or (value.name == "attribute" and value.detail == "shape")
