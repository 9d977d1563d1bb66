"""Numbers up to 1 that are scaled by one more than an integer type can hold, so that the largest wrap around.

`(wave * 32768).astype(np.int16)` turns 1.0 into -32768, the loudest sample into a click at full scale, and
`(image * 256).astype(np.uint8)` turns white into black. All other numbers are right, so it is seldom noticed.

Measured on torch 2.13 and numpy 2.4: 1.0 becomes -32768 as int16 and 0 as uint8, and so it is with `.to(torch.int16)`,
`.short()` and `.byte()`.

## Bad
    wave = wave / np.abs(wave).max()
    samples = (wave * 32768).astype(np.int16)
    pixels = (image * 256).astype(np.uint8)

## Good
    wave = wave / np.abs(wave).max()
    samples = (wave * 32767).astype(np.int16)
    pixels = (image * 255).astype(np.uint8)

## Not reported
What is clipped or taken modulo, random numbers, which stay below 1, and factors that are not the whole range of the
type (`depth * 256` as uint16). Where neither a division by the peak nor the name of a picture says that 1.0 is reached,
it is only a question: a wave that was read from a file of the same type never does, and depths and labels may stay far
below.

## Fix (unsafe)
Scales by the largest number that the type has. Unsafe because all numbers change a little.

## On real code
283 public repositories: no finding, and one question: speech that a model makes, which may reach 1.0.
In 1,300 others, as they were read, there were 2, both doubtful: depths in units of 256 metres, and a function that
nothing calls. Bytes are reported only of what is called a picture since, or was divided by its peak.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import Assumption, Context, Edits, Finding, Program, Rule, Site, nodes_of, replace_range

_RANGES = {"int16": 2**15, "short": 2**15, "uint8": 2**8, "byte": 2**8, "uint16": 2**16, "int32": 2**31}
_CASTS = ("astype", "to", "type", "short", "byte", "int16", "uint8", "uint16", "int32")
_LIBRARIES = ("np", "numpy", "torch")


@dataclass(frozen=True, slots=True)
class _Scaling:
    """A cast to ``type`` at ``cast`` of what is multiplied by ``factor`` at ``product``."""

    cast: ast.Call
    type: str
    product: ast.BinOp
    factor: ast.expr


# ------------------------------------------------------------------------------------------------- excuses


def is_bounded(place: Site, scaling: _Scaling, ctx: Context) -> bool:
    """it is clipped, or random and below 1"""
    words = {text for node in ctx.made_of(place, scaling.cast) for text in _words(node)}
    return bool(
        words & {"clip", "clamp", "minimum", "min", "fmod", "remainder", "rand", "random", "uniform", "softmax"}
    )


class IntegerOverflowOnScaling(Rule):
    code = "DL419"
    name = "integer-overflow-on-scaling"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("int16", "short", "uint8", "byte", "uint16", "int32"),)
    of_files = True
    fix_safety = "unsafe"
    references = ("https://numpy.org/doc/stable/reference/generated/numpy.ndarray.astype.html",)
    excuses = (is_bounded,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for node in nodes_of(program.module.tree).of(ast.Call):
            kind = _type_cast_to(node)
            scaling = _scaling(node, kind, program, ctx) if kind else None
            if scaling is not None:
                place = Site(program.module, scaling.product)
                if not ctx.excused(self, place, scaling):
                    yield self._report(place, scaling, ctx)

    def _report(self, place: Site, scaling: _Scaling, ctx: Context) -> Finding:
        size = _RANGES[scaling.type]
        reaches_one = _is_of_peak_one(place, scaling, ctx) or _is_of_picture(place, scaling, ctx)
        factor = Site(place.module, scaling.factor)
        edits = replace_range(factor, str(size - 1)) if isinstance(scaling.factor, ast.Constant) else Edits()
        return ctx.finding(
            self,
            place,
            f"1.0 times {size} is more than {_in_full(scaling.type)} can hold, and wraps around",
            assuming=() if reaches_one else [Assumption("effect", "a number reaches 1.0")],
            effect="the largest numbers become 0"
            if scaling.type in ("uint8", "byte", "uint16")
            else "peaks change their sign",
            help=f"multiply by {size - 1}, or clip before the cast",
            trace=[(place, f"up to {size}"), (Site(place.module, scaling.cast), f"as {_in_full(scaling.type)}")],
            fix=(f"Multiply by {size - 1}", edits),
        )


def _in_full(kind: str) -> str:
    return {"short": "int16", "byte": "uint8"}.get(kind, kind)


def _type_cast_to(call: ast.Call) -> str:
    """The integer type that a call casts to; empty if it casts to none of those."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in _RANGES:
        return str(name)
    given = [*call.args, *(keyword.value for keyword in call.keywords)] if name in _CASTS else []
    for each in given:
        kind = each.value if isinstance(each, ast.Constant) else getattr(each, "attr", "")
        if kind in _RANGES:
            return str(kind)
    return ""


def _scaling(call: ast.Call, kind: str, program: Program, ctx: Context) -> _Scaling | None:
    """The product that a call casts to a type, if its factor is one more than the largest number of that type."""
    is_method = isinstance(call.func, ast.Attribute) and (call.func.attr not in _RANGES or not call.args)
    cast = call.func.value if is_method and isinstance(call.func, ast.Attribute) else next(iter(call.args), None)
    for node in ctx.stands_for(Site(program.module, call), cast) if cast is not None else ():
        if isinstance(node, ast.BinOp):
            sides = (node.right, node.left) if isinstance(node.op, ast.Mult) else ()
            factor = next((each for each in sides if ctx.number_at(Site(program.module, each)) == _RANGES[kind]), None)
            return _Scaling(call, kind, node, factor) if factor is not None else None
    return None


def _is_of_peak_one(place: Site, scaling: _Scaling, ctx: Context) -> bool:
    """Whether what is scaled was divided by its largest number."""
    for side in (scaling.product.left, scaling.product.right):
        for node in ctx.stands_for(place, side):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                return bool({"max", "amax", "peak"} & set(_words(node.right)))
    return False


def _is_of_picture(place: Site, scaling: _Scaling, ctx: Context) -> bool:
    """Whether what becomes bytes is called a picture, and neither a map of labels nor of depths.

    White is 1.0 in pictures; what else is scaled to bytes may stay far below.
    """
    if scaling.type not in ("uint8", "byte"):
        return False
    sides = (side for side in (scaling.product.left, scaling.product.right) if side is not scaling.factor)
    names = [name for side in sides for name in _names_of(side)]
    return ctx.speaks_of("picture", *names) and not ctx.speaks_of("dense-target", *names)


def _names_of(value: ast.expr) -> Iterator[str]:
    """What a value is called, without what methods and parts are taken of it: `image` of `self.image[0].cpu()`."""
    inner: ast.expr | None = value
    while inner is not None:
        if isinstance(inner, ast.Call):
            holder = inner.func.value if isinstance(inner.func, ast.Attribute) else None
            is_function = isinstance(holder, ast.Name) and holder.id in _LIBRARIES
            inner = next(iter(inner.args), None) if is_function else holder
        elif isinstance(inner, ast.Subscript):
            inner = inner.value
        else:
            if isinstance(inner, ast.Name | ast.Attribute):
                yield inner.id if isinstance(inner, ast.Name) else inner.attr
            return


def _words(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Attribute):
            yield each.id if isinstance(each, ast.Name) else each.attr
