"""Labels of a detector that leave no class for the background.

Faster R-CNN, Mask R-CNN and Keypoint R-CNN of torchvision have a class more than there are kinds of objects: 0 is the
background, objects begin at 1. Labels of 0 teach the model that each object is background; `num_classes` without the
background lets the last kind of object run out of the table.

Measured on torch 2.13: over four classes the cross-entropy, which the detector takes of its boxes, raises `IndexError:
Target 4 is out of bounds` for the label 4. Labels of 0 raise nothing: they are those of boxes without an object.

## Bad
    def __getitem__(self, index):
        boxes = torch.as_tensor(self.boxes[index], dtype=torch.float32)
        labels = torch.zeros(len(boxes), dtype=torch.int64)
        return self.images[index], {"boxes": boxes, "labels": labels}

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(num_classes=2)

## Good
    def __getitem__(self, index):
        boxes = torch.as_tensor(self.boxes[index], dtype=torch.float32)
        labels = torch.ones(len(boxes), dtype=torch.int64)
        return self.images[index], {"boxes": boxes, "labels": labels}

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn(num_classes=2)

## Not reported
Files that have, or go with files that have, another detector (RetinaNet, FCOS, DETR, YOLO), whose first class is an
object; in another folder of the project it says nothing of these labels. Lists of classes that name the background, or
that are not written down; labels of images without objects: those that are made, or given, under a condition or after
one that leaves the method; labels that get other values afterwards.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Program, Rule, Site, nodes_of

_DETECTORS = r"(faster|mask|keypoint)_?rcnn|FastRCNNPredictor|(Faster|Mask|Keypoint)RCNN"
_OTHERS = r"(?i)retinanet|\bfcos|\bdetr\b|yolo|ssd300|ssdlite|efficientdet"
_BACKGROUND = ("background", "__background__", "_background_", "bg")

# ------------------------------------------------------------------------------------------------- excuses


def is_for_another_detector(place: Site, ctx: Context) -> bool:
    """no such detector goes with this file, or one does that begins at 0"""
    if ctx.project_mentions(_DETECTORS, where="here"):
        return ctx.project_mentions(_OTHERS, where="related")
    return not ctx.project_mentions(_DETECTORS) or ctx.project_mentions(_OTHERS)


class LabelOffByOne(Rule):
    code = "DL514"
    name = "label-off-by-one"
    category = "correctness"
    severity = "warning"
    triggers = (("labels", "FastRCNNPredictor", "num_classes"), ("boxes", "detection"))
    references = ("https://docs.pytorch.org/vision/stable/models/faster_rcnn.html",)
    excuses = (is_for_another_detector,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if not event.name.startswith("torchvision.models.detection."):
            return
        position = 1 if event.name.endswith("FastRCNNPredictor") else None
        given = event.arguments.get(position, "num_classes")
        place = given.site if given is not None else None
        node = place.node if place is not None else None
        classes = _counted_list(place, node, ctx) if place is not None and isinstance(node, ast.expr) else None
        if classes is not None and place is not None and not ctx.excused(self, place):
            yield ctx.finding(
                self,
                event,
                "`num_classes` counts the kinds of objects, and the background is one more",
                on=[given],
                effect="the last kind of object has no place, or the first one is taken for background",
                help="add one for the background, and begin labels at 1",
                trace=[(Site(place.module, classes), "names no background"), (event.site, "and needs a class for it")],
            )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        if program.kind != "module" or "boxes" not in program.module.words:
            return
        for node in nodes_of(program.module.tree).of(ast.FunctionDef):
            given = list(_given_as_labels(node))
            zeros = [_zeros_behind(Site(program.module, label), label, node, ctx) for label in given]
            if zeros and zeros[0] is not None and None not in zeros:
                place = Site(program.module, zeros[0])
                if not ctx.excused(self, place):
                    yield ctx.finding(
                        self,
                        place,
                        "all objects have the label 0, which is that of the background",
                        effect="the detector learns that there is nothing to find",
                        help="begin labels at 1: `torch.ones`",
                        trace=[(place, "is the label of the background"), (Site(program.module, given[0]), "is given")],
                    )


def _counted_list(place: Site, node: ast.expr, ctx: Context) -> ast.expr | None:
    """The list of names whose length an expression is, if it names no background."""
    for each in ctx.made_of(place, node):
        if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "len" and len(each.args) == 1:
            for named in ctx.made_of(place, each.args[0]):
                if isinstance(named, ast.List | ast.Tuple) and named.elts:
                    texts = [getattr(name, "value", None) for name in named.elts]
                    are_names = all(isinstance(text, str) for text in texts)
                    return named if are_names and not any(str(text).lower() in _BACKGROUND for text in texts) else None
    return None


def _given_as_labels(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """What a function puts under the key `labels`, where it puts something under `boxes` as well."""
    found: dict[str, list[ast.expr]] = {"labels": [], "boxes": []}
    for node in nodes_of(function).of(ast.Dict, ast.Assign):
        entries: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            entries = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            entries = [(node.targets[0].slice, node.value)]
        for key, value in entries:
            if isinstance(key, ast.Constant) and key.value in found:
                found[key.value].append(value)
    yield from found["labels"] if found["boxes"] else ()


def _zeros_behind(place: Site, label: ast.expr, function: ast.FunctionDef, ctx: Context) -> ast.expr | None:
    """The zeros that labels are in any case: no condition leads to them, and nothing changes them afterwards."""
    behind = list(ctx.stands_for(place, label))
    made = next((each for each in behind if _is_zeros(each)), None)
    names = {each.id for each in behind if isinstance(each, ast.Name)}
    if made is None or any(_hangs_on_condition(Site(place.module, each), function, ctx) for each in (made, label)):
        return None
    return None if any(_alters_labels(each, names) for each in ast.walk(function)) else made


def _hangs_on_condition(place: Site, function: ast.FunctionDef, ctx: Context) -> bool:
    """Whether a condition in a function decides whether something happens, around it or by leaving above it."""
    around = {id(each) for each in ctx.ancestors(place, ast.If, ast.IfExp, ast.Try, ast.Match)}
    within = any(id(each) in around for each in ast.walk(function))
    above = (each for each in nodes_of(function).of(ast.If) if each.lineno < place.line)
    leaving = (ast.Return, ast.Continue, ast.Break)
    return within or any(isinstance(node, leaving) for each in above for node in ast.walk(each))


def _alters_labels(node: ast.AST, names: set[str]) -> bool:
    """Whether something changes the tensor of a variable, or what an entry `labels` holds."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr.endswith("_") and ast.unparse(node.func.value) in names
    if isinstance(node, ast.AugAssign):
        return _variable_of_part(node.target) in names or "labels" in ast.unparse(node.target)
    targets = node.targets if isinstance(node, ast.Assign) else []
    inside = [each.value for each in targets if isinstance(each, ast.Subscript)]
    return any(_variable_of_part(each) in names or "labels" in ast.unparse(each) for each in inside)


def _variable_of_part(node: ast.expr) -> str:
    """The variable that an expression takes a part of."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_zeros(node: ast.expr) -> bool:
    """Whether an expression makes zeros, and not none of them."""
    if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "zeros" or not node.args:
        return False
    size = node.args[0]
    sizes = size.elts if isinstance(size, ast.Tuple | ast.List) else [size]
    return len(sizes) == 1 and not (isinstance(sizes[0], ast.Constant) and sizes[0].value == 0)
