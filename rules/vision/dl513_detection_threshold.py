"""A score below which detections are thrown away before their average precision is taken.

Average precision is the area below a curve that goes on to the least certain detection. A threshold of .5, which is
right for drawing boxes, cuts the curve off where precision is still high: models look worse than they are, and those
with low scores most of all, so that the wrong one of two may win.

Measured with numpy (1,000 objects, 900 of them found, 3,100 false detections, scores from beta distributions): average
precision .674 with all detections, .673 above .05, .629 above .3, .483 above .5 and .241 above .7.

## Bad
    def evaluate(model, loader):
        metric = MeanAveragePrecision()
        for images, targets in loader:
            metric.update(non_max_suppression(model(images), conf_thres=0.5), targets)
        return metric.compute()

## Good
    def evaluate(model, loader):
        metric = MeanAveragePrecision()
        for images, targets in loader:
            metric.update(non_max_suppression(model(images), conf_thres=0.001), targets)
        return metric.compute()

## Not reported
Thresholds below .3, settings, and those in functions that take no average precision, such as for drawing. A mask,
`scores >= 0.5`, is reported where what it picks is given to the metric, and a test of each score where it keeps one
out of results in the format of COCO. The default of a parameter counts as a number where all callers leave it.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from dllint.api import Context, Finding, LibraryCall, Program, Rule, Site, nodes_of

_THRESHOLDS = frozenset(
    ("conf_thres", "conf_thresh", "conf_threshold", "confidence_threshold", "score_thr", "score_thresh",
     "score_threshold", "box_score_thresh", "min_score")
)  # fmt: skip
_SCORING = ("MeanAveragePrecision", "average_precision", "ap_per_class", "COCOeval", "CocoEvaluator", "calculate_map")
_HIGH = 0.3
_SCORES = re.compile(r"(?i)(^|_)(scores?|confs?|confidences?)$")
_RESULT = frozenset(("image_id", "category_id", "score"))  # an entry of the results that COCO's tools read
_MAX_HOPS = 4


class DetectionThreshold(Rule):
    code = "DL513"
    name = "detection-threshold"
    category = "suspicious"
    severity = "info"
    triggers = (_SCORING,)
    references = ("https://cocodataset.org/#detection-eval",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        named = {id(each.site.node) for each in ctx.all_of(LibraryCall) if each.name.rpartition(".")[2] in _SCORING}
        for module, function in _scoring(program, ctx):
            for call in nodes_of(function).of(ast.Call):
                given = _threshold(call)
                if given is not None:
                    yield self._report(Site(module, given.value), f"`{given.arg}`", function, ctx)
            for cut in _masks(function, named) if isinstance(function, ast.FunctionDef) else ():
                yield self._report(Site(module, cut), f"`{ast.unparse(cut)}`", function, ctx)
        is_module = program.kind == "module" and any(word in program.module.words for word in _SCORING)
        for function in nodes_of(program.module.tree).of(ast.FunctionDef) if is_module else ():
            for test, call in _kept_from_results(function):
                if _is_high(test.comparators[0], function, program, ctx):
                    yield self._report(Site(program.module, test), f"`{ast.unparse(test)}`", call, ctx)

    def _report(self, place: Site, what: str, function: ast.AST, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"{what} throws detections away before their average precision is taken",
            effect="average precision comes out too low, and lowest for models with low scores",
            help="pass a small threshold, such as 0.001",
            trace=[(place, "cuts the curve off"), (Site(place.module, function), "takes average precision")],
        )


def _scoring(program: Program, ctx: Context) -> Iterator[tuple[Any, ast.AST]]:
    """The functions that take average precision, under whatever name that was imported."""
    for event in ctx.all_of(LibraryCall):
        if isinstance(event, LibraryCall) and event.name.rpartition(".")[2] in _SCORING and event.frame.definition:
            yield event.frame.definition.module, event.frame.definition.node
    for node in nodes_of(program.module.tree).of(ast.FunctionDef) if program.kind == "module" else ():
        calls = [each.func for each in nodes_of(node).of(ast.Call)]
        if any(getattr(called, "id", getattr(called, "attr", "")) in _SCORING for called in calls):
            yield program.module, node


def _masks(function: ast.FunctionDef, named: set[int]) -> Iterator[ast.Compare]:
    """The masks `scores > 0.5` by which a function picks what it gives to what takes average precision."""
    assigned = [each for each in nodes_of(function).of(ast.Assign) if len(each.targets) == 1]
    sinks = _variables_read_in(list(_given_to_scoring(function, assigned, named)))
    for _ in range(_MAX_HOPS):  # back from there to what is computed of the masked
        bound = [each.value for each in assigned if sinks & _variables_read_in([each.targets[0]])]
        sinks |= _variables_read_in(
            [*bound, *(each.args[0] for each in _appended(function) if _list_appended_to(each) in sinks)]
        )
    masks = {each.targets[0].id: each.value for each in assigned if isinstance(each.targets[0], ast.Name)}
    for one in assigned:
        picked = [each.slice for each in ast.walk(one.value) if isinstance(each, ast.Subscript)]
        tests = [masks.get(each.id) if isinstance(each, ast.Name) else each for each in picked]
        if sinks & _variables_read_in([one.targets[0]]):
            found = (each for each in tests if isinstance(each, ast.Compare) and _keeps_above(each))
            test = next(found, None)
            if test is not None and _is_high_number(test.comparators[0]):
                yield test
                return


def _given_to_scoring(function: ast.FunctionDef, assigned: list[ast.Assign], named: set[int]) -> Iterator[ast.expr]:
    """What average precision is taken of in a function."""
    metrics = {ast.unparse(each.targets[0]) for each in assigned if _is_scoring(each.value, named)}
    for call in nodes_of(function).of(ast.Call):
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        is_update = owner in metrics and getattr(call.func, "attr", "") in ("update", "forward")
        if _is_scoring(call, named) or is_update or ast.unparse(call.func) in metrics:
            yield from call.args
            yield from (each.value for each in call.keywords)


def _kept_from_results(function: ast.FunctionDef) -> Iterator[tuple[ast.Compare, ast.Call]]:
    """The tests of a score that decide whether a detection is among the results, in the format of COCO."""
    for call in _appended(function):
        entries = call.args[0] if isinstance(call.args[0], ast.Dict) else ast.Dict([], [])
        held = {getattr(key, "value", ""): value for key, value in zip(entries.keys, entries.values, strict=True)}
        scores = _variables_read_in([held["score"]]) if held.keys() >= _RESULT else set()
        for branch in nodes_of(function).of(ast.If) if scores else ():
            test = branch.test
            if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not _variables_read_in([test.left]) <= scores:
                continue
            is_inside = branch.lineno < call.lineno <= (branch.body[-1].end_lineno or 0)
            is_skip = isinstance(branch.body[0], ast.Continue) and branch.lineno < call.lineno
            below, above = isinstance(test.ops[0], ast.Lt | ast.LtE), isinstance(test.ops[0], ast.Gt | ast.GtE)
            if _variables_read_in([test.left]) and ((is_inside and above) or (is_skip and below)):
                yield test, call


def _is_high(limit: ast.expr, function: ast.FunctionDef, program: Program, ctx: Context) -> bool:
    """Whether a limit is a high number, or a parameter with one for its default that all callers leave as it is."""
    if not isinstance(limit, ast.Name):
        return _is_high_number(limit)
    given = function.args.args
    defaults = dict(zip([each.arg for each in given[::-1]], function.args.defaults[::-1], strict=False))
    if not _is_high_number(defaults.get(limit.id)):
        return False
    position = [each.arg for each in given].index(limit.id)
    stores = [each for each in nodes_of(function).names.get(limit.id, ()) if isinstance(each.ctx, ast.Store)]
    calls = [each.node for each in ctx.callers(Site(program.module, function))]
    return bool(calls) and not stores and all(_leaves(each, limit.id, position) for each in calls)


def _leaves(call: ast.AST, name: str, position: int) -> bool:
    """Whether a call gives nothing for a parameter."""
    if not isinstance(call, ast.Call) or any(isinstance(each, ast.Starred) for each in call.args):
        return False
    return len(call.args) <= position and not any(each.arg in (name, None) for each in call.keywords)


def _is_scoring(node: ast.expr, named: set[int]) -> bool:
    """Whether average precision is taken, or what does so is made: by its name, or that which it was imported by."""
    func = node.func if isinstance(node, ast.Call) else None
    return id(node) in named or getattr(func, "id", getattr(func, "attr", "")) in _SCORING


def _appended(function: ast.FunctionDef) -> Iterator[ast.Call]:
    calls = nodes_of(function).of(ast.Call)
    return (each for each in calls if getattr(each.func, "attr", "") in ("append", "extend") and len(each.args) == 1)


def _list_appended_to(call: ast.Call) -> str:
    """The variable that a method is called of."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""


def _variables_read_in(nodes: list[ast.expr]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _keeps_above(test: ast.Compare) -> bool:
    """Whether a test is true of high scores, as what is compared is called."""
    left = test.left
    if isinstance(left, ast.Subscript) and isinstance(left.slice, ast.Constant):
        left = left.slice
    called = getattr(left, "id", getattr(left, "attr", getattr(left, "value", "")))
    is_score = isinstance(called, str) and _SCORES.search(called) is not None
    return is_score and len(test.ops) == 1 and isinstance(test.ops[0], ast.Gt | ast.GtE)


def _is_high_number(node: ast.AST | None) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, float) and _HIGH <= value < 1


def _threshold(call: ast.Call) -> ast.keyword | None:
    """A threshold of scores that is written out in a call, and high."""
    for given in call.keywords:
        if given.arg in _THRESHOLDS and _is_high_number(given.value):
            return given
    return None
