"""Transforms of the project that do what only an image of PIL can do: ``image.convert("L")``, ``w, h = image.size``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.forms import attribute_of
from dllint.interp.run.graph import sources_under
from dllint.interp.source import trees
from dllint.sites import Guards, Site
from dllint.values import Arguments, Class, Function, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_METHODS = frozenset(
    (".convert", ".crop", ".filter", ".getbands", ".getbbox", ".getpixel", ".paste", ".rotate", ".thumbnail")
)
_SAME = frozenset((".resize", ".copy", ".transpose"))  # tensors and arrays have these as well
_LIBRARIES = ("PIL.ImageOps.", "PIL.ImageEnhance.")
_ASKING = frozenset(("isinstance", "hasattr", "is_tensor", "is_pil_image", "_is_pil_image", "type"))


def picture_use(machine: Machine, transform: Value) -> tuple[Guards, Site] | None:
    """Where, and when, a transform treats what it gets as an image of PIL; ``None`` if a tensor may do as well."""
    if isinstance(transform, Instance) and transform.library_name.endswith(".Lambda"):
        transform = transform.arguments.get(0, "lambd") or transform
    is_own = isinstance(transform, Function) or (isinstance(transform, Instance) and isinstance(transform.cls, Class))
    if not is_own or transform.site is None:
        return None
    given, site = Symbol("index", site=transform.site), transform.site
    trial = machine.tried(lambda: machine.call(transform, Arguments((given,)), site))
    made = trial.result
    is_asking = any(_asks(function) for function in (*trial.reached, getattr(transform, "node", None)))
    if made is None or is_asking:
        return None
    for guards, use in sources_under(made):
        if isinstance(use, Symbol) and use.site is not None and _is_of_picture(use) and _stems_from(use, given):
            return guards, use.site
    return None


def _is_of_picture(use: Symbol) -> bool:
    """Whether a value is what only an image of PIL gives."""
    if use.name == "attribute":
        return use.detail in ("width", "height")
    if use.name in ("item", "element"):
        return attribute_of(use.inputs[0], "size") is not None
    return use.name in _METHODS or use.name.startswith(_LIBRARIES)


def _stems_from(use: Value, given: Value, depth: int = 0) -> bool:
    """Whether a value is asked of the image that a transform got, as it was or changed as images of PIL are."""
    if use is given:
        return True
    if isinstance(use, Choice):
        return any(_stems_from(option, given, depth + 1) for _, option in alternatives(use) if depth < 8)
    if not isinstance(use, Symbol) or not use.inputs or depth > 8:
        return False
    is_step = depth == 0 or use.name in _METHODS | _SAME or attribute_of(use, "size") is not None
    return is_step and _stems_from(use.inputs[0], given, depth + 1)


def _asks(function: ast.AST | None) -> bool:
    """Whether code asks what kind of thing it got, or tries: it takes several."""
    for node in trees.walk(function) if function is not None else ():
        if isinstance(node, ast.Try):
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in _ASKING:
            return True
    return False
