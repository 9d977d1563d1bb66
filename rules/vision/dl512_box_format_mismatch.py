"""Boxes in COCO's format, given to a detector that takes corners.

COCO writes a box as its left upper corner with width and height, and the detection models of torchvision take the left
upper and the right lower corner. A width that is taken for a coordinate makes a box of another place and size, or none.

Measured on torch 2.13 (10,000 boxes in images of 640 x 480, sides from 16 to 316): taken for corners, 78 % of them have
no positive width and height, which torchvision refuses in training, and the mean overlap with the right ones is .06.

The same is wrong where a dataset makes width and height itself, of two corners: `[x1, y1, x2 - x1, y2 - y1]`.

## Bad
    class Detections(torch.utils.data.Dataset):
        def __getitem__(self, index):
            annotations = coco.loadAnns(coco.getAnnIds(index))
            boxes = torch.tensor([annotation["bbox"] for annotation in annotations])
            return images[index], {"boxes": boxes}

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn()

## Good
    class Detections(torch.utils.data.Dataset):
        def __getitem__(self, index):
            annotations = coco.loadAnns(coco.getAnnIds(index))
            boxes = torch.tensor([annotation["bbox"] for annotation in annotations])
            return images[index], {"boxes": torchvision.ops.box_convert(boxes, "xywh", "xyxy")}

    model = torchvision.models.detection.fasterrcnn_resnet50_fpn()

## Not reported
Functions that add anything to boxes or call something whose name speaks of a format; annotations of files that do not
use COCO's API, which may have any format, unless the width and the height are made there; these, too, where some code
of the project makes corners of them or speaks of another kind of detector (YOLO, DETR); projects without a detector of
torchvision.

## On real code
284 public repositories, of which 8 use COCO's API: no finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Program, Rule, Site, nodes_of

_CONVERT = "torchvision.ops.box_convert"
_FORMATS = ("convert", "xyxy", "xywh", "cxcywh", "voc", "corner", "format", "fmt")
_API = ("loadAnns", "imgToAnns")
_MAKING = ("tensor", "as_tensor", "FloatTensor", "Tensor", "array", "asarray", "stack")
_TO_CORNERS = r"box_convert|xywh_?(to|2)_?xyxy|(to|2)_?xyxy|to_?corners|\bbbox_params|(?i:detr|yolo|effdet)"
_DETECTORS = r"models\.detection|fasterrcnn_|maskrcnn_|retinanet_|\bFasterRCNN\b|\bMaskRCNN\b|\bRetinaNet\b"

# ------------------------------------------------------------------------------------------------- excuses


def is_converted(place: Site, function: ast.FunctionDef, ctx: Context) -> bool:
    """the function adds something, or speaks of a format"""
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
            return True
        name = getattr(node, "attr", getattr(node, "id", getattr(node, "arg", None)))
        if isinstance(name, str) and any(word in name.lower() for word in _FORMATS):
            return True
    return False


def is_for_another_model(place: Site, function: ast.FunctionDef, ctx: Context) -> bool:
    """the project has no detector of torchvision"""
    return not any(True for _ in ctx.trees("detection")) and not ctx.project_mentions(_DETECTORS)


class BoxFormatMismatch(Rule):
    code = "DL512"
    name = "box-format-mismatch"
    category = "correctness"
    severity = "warning"
    triggers = (("box_convert", "__getitem__", *_API),)
    references = ("https://docs.pytorch.org/vision/stable/models/faster_rcnn.html",)
    excuses = (is_converted, is_for_another_model)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != _CONVERT:
            return
        given = ctx.constant(event.arguments.get(1, "in_fmt"))
        if isinstance(given, str) and given == ctx.constant(event.arguments.get(2, "out_fmt")):
            yield ctx.finding(
                self,
                event,
                f"boxes are converted from `{given}` to `{given}`, which changes nothing",
                on=list(event.arguments.all()),
                effect="they keep a format that somebody meant to change",
                help="name the format that the boxes have, and that which is needed",
            )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        module = program.module
        for node in nodes_of(module.tree).of(ast.FunctionDef) if program.kind == "module" else ():
            for boxes in _given_as_boxes(node):
                place = Site(module, boxes)
                read = next((each for each in ctx.made_of(place, boxes) if _is_of_coco(place, each, ctx)), None)
                if read is not None and not ctx.excused(self, place, node):
                    yield self._report(place, Site(module, read), ctx)
                    break
                made = next(_with_sizes(boxes, node), None) if node.name == "__getitem__" else None
                is_excused = is_for_another_model(place, node, ctx) or ctx.project_mentions(_TO_CORNERS)
                if made is not None and not is_excused:
                    yield self._report_sizes(place, Site(module, made), ctx)
                    break

    def _report_sizes(self, place: Site, made: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            made,
            "boxes get a width and a height, and are given as corners",
            effect="most boxes have no area, and the others lie elsewhere: the detector learns nothing",
            help="keep both corners: `[x1, y1, x2, y2]`",
            trace=[(made, "a corner, the width and the height"), (place, "and torchvision takes two corners")],
        )

    def _report(self, place: Site, read: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            "boxes of COCO, with width and height, are given as corners",
            effect="most boxes have no area, and the others lie elsewhere: the detector learns nothing",
            help='convert them: `torchvision.ops.box_convert(boxes, "xywh", "xyxy")`',
            trace=[
                (read, "COCO gives a corner, the width and the height"),
                (place, "and torchvision takes two corners"),
            ],
        )


def _given_as_boxes(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """What a function puts under the key `boxes`."""
    for node in nodes_of(function).of(ast.Dict, ast.Assign):
        if isinstance(node, ast.Dict):
            entries = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in entries if isinstance(key, ast.Constant) and key.value == "boxes")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            key = node.targets[0].slice
            yield from [node.value] if isinstance(key, ast.Constant) and key.value == "boxes" else []


def _with_sizes(boxes: ast.expr, function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The boxes `[x1, y1, x2 - x1, y2 - y1]` that a function puts into a variable, or a list; none if one is made
    otherwise, or something is added to them."""
    names = {node.id for node in ast.walk(boxes) if isinstance(node, ast.Name)}
    nodes = nodes_of(function)
    for each in nodes.of(ast.Assign):
        if len(each.targets) == 1 and isinstance(each.targets[0], ast.Name) and each.targets[0].id in names:
            names |= {node.id for node in ast.walk(each.value) if isinstance(node, ast.Name)}
    made: list[ast.expr] = []
    for call in nodes.of(ast.Call):
        owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "append" else None
        if isinstance(owner, ast.Name) and owner.id in names:
            made.extend(call.args)
    changed = (ast.unparse(each) for each in nodes.of(ast.AugAssign, ast.BinOp) if _adds(each))
    if any(re.search(rf"\b{name}\b *\[", text) for text in changed for name in names):
        return
    if made and all(map(_has_sizes, made)):
        yield from made


def _adds(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign | ast.BinOp) and isinstance(node.op, ast.Add)


def _has_sizes(box: ast.expr) -> bool:
    """Whether a box is written as a corner and what the other one is away from it."""
    if not isinstance(box, ast.List | ast.Tuple) or len(box.elts) != 4:
        return False
    corner = [ast.unparse(each) for each in box.elts[:2]]
    away = [
        ast.unparse(each.right) for each in box.elts[2:] if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub)
    ]
    return corner == away


def _annotations_of(expression: ast.expr) -> ast.expr | None:
    """What an expression takes the entries `bbox` of: `[a["bbox"] for a in annotations]`, as it is or as a tensor."""
    if isinstance(expression, ast.Call):
        is_tensor = getattr(expression.func, "attr", "") in _MAKING and bool(expression.args)
        return _annotations_of(expression.args[0]) if is_tensor else None
    read = expression.elt if isinstance(expression, ast.ListComp) else expression
    key = read.slice if isinstance(read, ast.Subscript) else None
    if not isinstance(read, ast.Subscript) or not isinstance(key, ast.Constant) or key.value != "bbox":
        return None
    return expression.generators[0].iter if isinstance(expression, ast.ListComp) else read.value


def _is_of_coco(place: Site, expression: ast.expr, ctx: Context) -> bool:
    """Whether an expression reads the boxes of annotations that COCO's API gives."""
    annotations = _annotations_of(expression)
    chain = ctx.stands_for(place, annotations) if annotations is not None else ()
    return any(getattr(getattr(each, "func", each), "attr", "") in _API for each in chain)
