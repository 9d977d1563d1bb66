"""Code that nothing in the project asks for: arms that all known values of an option leave out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from dllint.assumptions import Assumption
from dllint.context.sources import Sources
from dllint.dataclass import dataclass
from dllint.events import Event
from dllint.interp.run.guards import outcome_of_test
from dllint.interp.run.operators import COMPARISONS
from dllint.interp.source.flags import is_never_on
from dllint.interp.source.given_arguments import values_given
from dllint.interp.source.known_settings import SETTINGS, Known, default_of, known_values, last_name, literal_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.phases import topic_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Const, Setting, Symbol, Table, Value

_COMPARISONS = {kind: compare for kind, compare in COMPARISONS.items() if kind not in (ast.Is, ast.IsNot)}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE
}  # fmt: skip
_CHOSEN_PER_RUN = ("phase", "resume", "mode")
_CASES = ("lower", "upper")
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Test:
    """An expression that is true, or not, on the way to a place; what options it reads by default, ``is_off``."""

    node: ast.expr
    outcome: bool
    is_off: bool


@dataclass(frozen=True, slots=True)
class _Question:
    """What a test asks of an option: ``config.name``, ``config["name"]``, or a parameter, which has no ``owner``.

    One in a section of its own, ``config["section"]["name"]``, is nested; its owner is the whole, ``config``.
    """

    name: str
    owner: str
    is_met: Callable[[Any], bool]
    operand: Any = None
    is_nested: bool = False


class SwitchedOff(Sources):
    """Conditions that nothing in the project is known to meet."""

    def switched_off(self, site: Site, event: Event | None = None) -> Iterator[Assumption]:
        """That somebody asks for what the conditions around a place, or on the way to an event, need.

        Of an option, all values are known where the project writes them down, in settings or as the default of a
        parameter, and neither a user nor code can give it others. One that a comment offers may be chosen, and so may
        any of what is set in one place alone or in a section of the settings, unless what is done then needs a setting
        that is nowhere. What a run is for and whether it goes on is chosen each time. A variable that a function binds
        once, to a constant, has no other value in it.
        """
        told: set[str] = set()
        for test in (*_tests_around(site), *_tests_before(event)):
            text = ast.unparse(test.node)
            if text not in told and _topic(test.node) not in _CHOSEN_PER_RUN and self._is_never(test, site):
                told.add(text)
                is_so = "is true" if test.outcome else "is false"
                yield Assumption("no-default", f"`{text}` {is_so}, which nothing in the project asks for")

    def as_setting(self, value: Value | None) -> Setting | None:
        """A value as a setting with its default, if it is one or is looked up with a constant for its default.

        ``config.get("mode", "min")`` is one where neither code of the project nor its files of settings give ``mode``
        another value, and the mapping is not what keywords of a call are collected in.
        """
        if isinstance(value, Setting):
            return value
        if not isinstance(value, Symbol) or value.name != ".get" or value.arguments is None:
            return None
        key, default = value.arguments.get(0, "key"), value.arguments.get(1, "default")
        if not isinstance(key, Const) or not isinstance(key.value, str) or not isinstance(default, Const):
            return None
        mapping = value.inputs[0]
        is_written = isinstance(mapping, Table) and mapping.site is not None  # `{"lr": 0.1, **options}`
        if not isinstance(mapping, Symbol) and not is_written:
            return None
        known = self._known(key.value)
        is_set = known.is_open or any(each != default.value for each in known.set_to)
        return None if is_set else Setting(key.value, default, value.site)

    def _is_never(self, test: _Test, site: Site) -> bool:
        """Whether no known value of the options that a test reads gives it its outcome."""
        if isinstance(test.node, ast.BoolOp):  # none of `a or b`
            parts = (_parts_of(each, test.outcome, test.is_off) for each in test.node.values)
            return all(any(self._is_never(each, site) for each in part) for part in parts)
        if self._is_never_given(test, site) or self._is_flag_never_on(test, site) or _is_of_constant(test, site):
            return True
        question = _question_of(test.node)
        known = self._known(question.name) if question is not None else None
        if question is None or known is None or known.is_open:
            return False
        if not all(_contradicts(question, each, test.outcome) for each in (*known.set_to, *known.passed)):
            return False
        if not question.owner:
            return test.is_off and bool(known.passed) and self._is_never_passed(question.name)
        is_offered = question.is_nested or len(known.set_to) == 1
        is_offered = is_offered or any(_names(remark, question.operand) for remark in known.remarks)
        return bool(known.set_to) and (not is_offered or self._needs_more(question, test, site))

    def _known(self, name: str) -> Known:
        if name not in self._known_by_name:
            self._known_by_name[name] = known_values(self._machine.project, self.program.module, name)
        return self._known_by_name[name]

    @cached_property
    def _known_by_name(self) -> dict[str, Known]:
        return {}

    def _is_never_passed(self, name: str) -> bool:
        """Whether all callers of the functions in the program's file that have a parameter leave it at its default."""
        nodes = nodes_of(self.program.module.tree)
        if not self.is_application(self.program.module):
            return False
        for function in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef):
            names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
            if default_of(function.args, name) is None or name not in names:
                continue
            around = next(iter(ancestors(Site(self.program.module, function))), None)
            owner = around if isinstance(around, ast.ClassDef) else None
            called = owner if owner is not None and function.name == "__init__" else function
            place = names.index(name) - (owner is not None)
            calls = (each.node for each in self.callers(Site(self.program.module, called)))
            if any(isinstance(call, ast.Call) and _reaches(call, place) for call in calls):
                return False
        return True

    def _is_never_given(self, test: _Test, site: Site) -> bool:
        """Whether a test is about a parameter, and all calls of its function give that what the test is not after."""
        asked = _asked_of_parameter(test.node)
        function = next((each for each in ancestors(site) if isinstance(each, _FUNCTION)), None)
        if asked is None or function is None:
            return False
        name, is_met = asked
        module = self._machine.project.module(site.module.source.path)
        arguments = function.args
        if name not in [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]:
            return False
        if module is None or not self._machine.project.is_whole_around(module) or not self.is_application(module):
            return False
        values = values_given(self._machine.project, module, function, name, test.node)
        return bool(values) and all(_is_other(is_met, each, test.outcome) for each in values)

    def _is_flag_never_on(self, test: _Test, site: Site) -> bool:
        """Whether a test is for an attribute of the object that is off by default, and that nobody switches on."""
        node = test.node
        if not test.outcome or not isinstance(node, ast.Attribute) or getattr(node.value, "id", "") != "self":
            return False
        owner = next((each for each in ancestors(site) if isinstance(each, ast.ClassDef)), None)
        module = self._machine.project.module(site.module.source.path)
        if owner is None or module is None or not self.is_application(module):
            return False
        project = self._machine.project
        return project.is_whole_around(module) and is_never_on(project, module, owner, node.attr)

    def _needs_more(self, question: _Question, test: _Test, site: Site) -> bool:
        """Whether the arm behind a test reads a setting of the same object that the project has nowhere."""
        branches = (each for each in ancestors(site) if isinstance(each, ast.If))
        branch = next((each for each in branches if test.node in nodes_of(each.test).all), None)
        if branch is None:
            return False
        when_true = [(each.node, each.outcome) for each in _parts_of(branch.test, True, False)]
        for statement in branch.body if (test.node, test.outcome) in when_true else branch.orelse:
            nodes = nodes_of(statement)
            passed = {id(call.func) for call in nodes.of(ast.Call)}
            if question.is_nested:  # where what has settings of its own may be a section
                passed |= {id(each.value) for each in nodes.of(ast.Attribute, ast.Subscript)}
            for node in nodes.of(ast.Attribute):
                if id(node) not in passed and ast.unparse(node.value) == question.owner:
                    known = self._known(node.attr)
                    if not known.set_to and not known.is_open:
                        return True
        return False


def _reaches(call: ast.Call, place: int) -> bool:
    """Whether a call gives, or may give, an argument at a position."""
    return len(call.args) > place or any(isinstance(each, ast.Starred) for each in call.args)


def _tests_around(site: Site) -> Iterator[_Test]:
    """The tests that have an outcome where a place in the source is reached, innermost first."""
    inner: ast.AST = site.node
    around = list(ancestors(site))
    parameters = next((each.args for each in around if isinstance(each, _FUNCTION)), None)
    for node in around:
        if isinstance(node, ast.If | ast.IfExp):
            body = node.body if isinstance(node.body, list) else [node.body]
            others = node.orelse if isinstance(node.orelse, list) else [node.orelse]
            for arm, outcome in ((body, True), (others, False)):
                if any(inner is each for each in arm):
                    for test in _parts_of(node.test, outcome, False):
                        yield _Test(test.node, test.outcome, _is_off(test, parameters))
        if isinstance(node, _FUNCTION | ast.ClassDef):
            return
        inner = node


def _is_off(test: _Test, parameters: ast.arguments | None) -> bool:
    """Whether the default of the parameter that a test is about gives it another outcome."""
    question = _question_of(test.node)
    default = default_of(parameters, question.name) if parameters is not None and question is not None else None
    if question is None or default is None:
        return False
    is_known, value = literal_of(default)
    return is_known and _contradicts(question, value, test.outcome)


def _tests_before(event: Event | None) -> Iterator[_Test]:
    """The tests that have an outcome on the way to an event."""
    for guard in event.guards if event is not None else ():
        if guard.node is not None and guard.by_default is not True:
            yield _Test(guard.node, outcome_of_test(guard), guard.by_default is False)


def _is_of_constant(test: _Test, site: Site) -> bool:
    """Whether a test is about a variable that the function around binds once, to a constant which it is not after."""
    question = _question_of(test.node)
    function = next((each for each in ancestors(site) if isinstance(each, _FUNCTION)), None)
    if question is None or question.owner or function is None:
        return False
    bound: list[ast.Name | ast.arg] = [
        each for each in nodes_of(function).of(ast.Name) if each.id == question.name and _is_binding(each)
    ]
    bound += [each for each in nodes_of(function).of(ast.arg) if each.arg == question.name]
    made = [each for each in function.body if isinstance(each, ast.Assign) and each.targets == bound]
    is_known, value = literal_of(made[0].value) if len(bound) == len(made) == 1 else (False, None)
    return is_known and _contradicts(question, value, test.outcome)


def _is_binding(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _parts_of(test: ast.expr, outcome: bool, is_off: bool) -> list[_Test]:
    """What is certain where a test is true, or false: of `a and b`, both."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _parts_of(test.operand, not outcome, is_off)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is outcome:
        return [part for each in test.values for part in _parts_of(each, outcome, is_off)]
    return [_Test(test, outcome, is_off)]


def _question_of(test: ast.expr) -> _Question | None:
    """What a test asks of an option, if it is about one and about nothing else that is not written there."""
    if not isinstance(test, ast.Compare):
        return _asked_of(test, bool)
    left, right, kind = test.left, test.comparators[0], type(test.ops[0])
    if isinstance(left, ast.Constant):
        left, right, kind = right, left, _MIRRORED.get(kind, ast.Is)
    is_known, operand = literal_of(right)
    compare = _COMPARISONS.get(kind)
    if len(test.ops) > 1 or not is_known or compare is None:
        return None
    return _asked_of(left, lambda value: bool(compare(value, operand)), operand)


def _topic(test: ast.expr) -> str:
    """What a test asks about. The section that a setting stands in, `cfg["training"]["clip"]`, says nothing of that."""
    question = _question_of(test)
    if question is None or not question.is_nested:
        return topic_of(test)
    several = question.operand if isinstance(question.operand, tuple | list | set) else (question.operand,)
    texts = [ast.Constant(each) for each in several if isinstance(each, str)]
    return topic_of(ast.Tuple([ast.Name(question.name), *texts]))


def _asked_of_parameter(test: ast.expr) -> tuple[str, Callable[[Any], bool]] | None:
    """The variable that a test is about, and what it asks of it: `size is None`, `size > 3`, `size`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        other = test.comparators[0]
        if isinstance(test.ops[0], ast.Is | ast.IsNot) and isinstance(other, ast.Constant) and other.value is None:
            is_none = isinstance(test.ops[0], ast.Is)
            return test.left.id, lambda value: (value is None) is is_none
    question = _question_of(test)
    return (question.name, question.is_met) if question is not None and not question.owner else None


def _is_other(is_met: Callable[[Any], bool], value: Any, outcome: bool) -> bool:
    """Whether a value gives a test another outcome."""
    try:
        return is_met(value) is not outcome
    except (TypeError, ValueError):
        return False


def _asked_of(node: ast.expr, is_met: Callable[[Any], bool], operand: Any = None) -> _Question | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CASES and not node.args:
            change = getattr(str, node.func.attr)
            return _asked_of(node.func.value, lambda value: is_met(change(value)), operand)
        key = literal_of(node.args[0])[1] if node.args and node.func.attr == "get" else None
        return _of_owner(node.func.value, key, is_met, operand)
    if isinstance(node, ast.Attribute):
        return _of_owner(node.value, node.attr, is_met, operand)
    if isinstance(node, ast.Subscript):
        return _of_owner(node.value, literal_of(node.slice)[1], is_met, operand)
    return _Question(node.id, "", is_met, operand) if isinstance(node, ast.Name) else None


def _of_owner(owner: ast.expr, name: object, is_met: Callable[[Any], bool], operand: Any) -> _Question | None:
    whole = owner
    while isinstance(whole, ast.Attribute | ast.Subscript) and not SETTINGS.search(last_name(whole)):
        whole = whole.value
    is_option = isinstance(name, str) and bool(SETTINGS.search(last_name(whole)))
    return _Question(str(name), ast.unparse(whole), is_met, operand, whole is not owner) if is_option else None


def _contradicts(question: _Question, value: Any, outcome: bool) -> bool:
    """Whether a value of an option gives a test another outcome. Nothing is something to be filled in."""
    if value is None or value == "":
        return False
    return _is_other(question.is_met, value, outcome)


def _names(remark: str, operand: Any) -> bool:
    """Whether a comment names what a test compares with."""
    several = operand if isinstance(operand, tuple | list | set) else (operand,)
    return any(isinstance(each, str) and each.lower() in remark.lower() for each in several)
