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
Thresholds below .3, settings, and those in functions that take no average precision, such as for drawing.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from dllint.api import Context, Finding, LibraryCall, Program, Rule, Site, nodes_of

_THRESHOLDS = frozenset(
    ("conf_thres", "conf_thresh", "conf_threshold", "confidence_threshold", "score_thr", "score_thresh",
     "score_threshold", "box_score_thresh", "min_score")
)  # fmt: skip
_SCORING = ("MeanAveragePrecision", "average_precision", "ap_per_class", "COCOeval", "CocoEvaluator", "calculate_map")
_HIGH = 0.3


class DetectionThreshold(Rule):
    code = "DL513"
    name = "detection-threshold"
    category = "suspicious"
    severity = "info"
    triggers = (tuple(sorted(_THRESHOLDS)), _SCORING)
    references = ("https://cocodataset.org/#detection-eval",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for module, function in _scoring(program, ctx):
            for call in nodes_of(function).of(ast.Call):
                given = _threshold(call)
                if given is not None:
                    yield self._report(Site(module, given.value), given.arg or "", function, ctx)

    def _report(self, place: Site, name: str, function: ast.AST, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"`{name}` throws detections away before their average precision is taken",
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


def _threshold(call: ast.Call) -> ast.keyword | None:
    """A threshold of scores that is written out in a call, and high."""
    for given in call.keywords:
        value = given.value.value if isinstance(given.value, ast.Constant) else None
        if given.arg in _THRESHOLDS and isinstance(value, float) and _HIGH <= value < 1:
            return given
    return None
