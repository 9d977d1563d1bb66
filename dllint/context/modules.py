"""What rules can ask about modules: what is one, what has parameters, and who uses the attributes of a class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from dllint.choices import alternatives
from dllint.context.objects import Objects
from dllint.dataclass import dataclass
from dllint.events import AttributeAssigned, ModeChange
from dllint.forms import attribute_of
from dllint.interp.run import classes
from dllint.interp.source.attribute_readers import is_only_prepared
from dllint.interp.source.nodes import nodes_of
from dllint.sites import Site
from dllint.values import Absent, Class, Const, Instance, Items, Symbol, Table, Value

_CONTAINERS = frozenset(("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"))
_OF_PARAMETERS = ("parameters", "named_parameters")
_OF_MODULES = ("children", "modules", "named_children", "named_modules")
_TAKEN_FROM = ("element", "item", "slice", "list", "filter", "enumerate")
_PARAMETERS = frozenset(("weight", "bias", "in_proj_weight", "in_proj_bias", "pos_embed", "cls_token"))
_PARTS = re.compile(r"features|classifier|fc|conv1|bn1|layer[1-4]|backbone|encoder|decoder|head|stem")
_MAX_DEPTH = 6


@dataclass(frozen=True, slots=True)
class AttributeUse:
    """A place where a method of a class reads an attribute: ``self.layers``, or that of another object."""

    method: str
    site: Site


class Modules(Objects):
    """Modules, their parameters and their attributes."""

    def has_held(self, owner: Value, part: Value) -> bool:
        """Whether something was an attribute of an object, or a part of one, even if another has taken its place."""
        return any(
            self.is_same(event.target, owner) and isinstance(event.value, Instance) and self.is_part(part, event.value)
            for event in self.all_of(AttributeAssigned)
            if event.value is not None
        )

    def is_module(self, value: Value) -> bool:
        """Whether a value is certainly a module, whichever of several it is."""
        options = self.objects(value)
        return bool(options) and all(self._is_one_module(option) for option in options)

    def _is_one_module(self, value: Value) -> bool:
        if isinstance(value, Instance):
            if isinstance(value.cls, Class):
                return classes.derives_from_module(self._machine, value.cls)
            return self.role(value) in ("module", "wrapper")
        if not isinstance(value, Symbol):
            return False
        if _comes_from(value, _OF_MODULES) or any(self.is_same(e.model, value) for e in self.all_of(ModeChange)):
            return True  # nothing but modules has children, or a mode
        owner = attribute_of(value)
        is_library = isinstance(owner, Instance) and bool(owner.library_name) and self.role(owner) == "module"
        return is_library and bool(_PARTS.fullmatch(str(value.detail)))

    def is_parameter(self, value: Value) -> bool:
        """Whether a value is certainly a parameter of a module."""
        if isinstance(value, Instance):
            return value.library_name == "torch.nn.Parameter"
        if not isinstance(value, Symbol):
            return False
        is_part = attribute_of(value, *_PARAMETERS) is not None
        return value.name == "torch.nn.Parameter" or is_part or _comes_from(value, _OF_PARAMETERS)

    def has_parameters(self, value: Value) -> bool | None:
        """Whether a module, or one of those in a list or dict, has parameters; ``None`` where that is not known.

        A layer whose weight is given and not trained, as one that filters images, has none.
        """
        return self._has_parameters(value, 0)

    def _has_parameters(self, value: Value, depth: int) -> bool | None:
        if depth > _MAX_DEPTH:
            return None
        if isinstance(value, Items | Table):
            inner = value.items if isinstance(value, Items) else tuple(value.entries().values())
            return _any_of((self._has_parameters(item, depth + 1) for item in inner), exact=value.exact)
        answers = {self._of_one(option, depth) for _, option in alternatives(value)}
        return answers.pop() if len(answers) == 1 else None

    def _of_one(self, value: Value, depth: int) -> bool | None:
        if isinstance(value, Const | Absent):
            return False
        if isinstance(value, Symbol) and self.is_parameter(value):
            return True
        if not isinstance(value, Instance):
            return None
        if isinstance(value.cls, Class):
            held = value.attributes.values() if classes.derives_from_module(self._machine, value.cls) else ()
            options = (option for each in held for _, option in alternatives(each))
            return True if any(self._has_parameters(each, depth + 1) for each in options) else None
        if self.is_parameter(value):
            return True
        if value.cls in _CONTAINERS:
            given = [*value.arguments.all(), *_appended(value)]
            return _any_of((self._has_parameters(each, depth + 1) for each in given), exact=value.arguments.exact)
        if self._is_filter(value) or self._is_without_scale(value):
            return False
        return self.facts.has_parameters(value.library_name)

    def _is_without_scale(self, layer: Instance) -> bool:
        """Whether a layer that normalizes is told to have no scale and no bias: `BatchNorm1d(8, affine=False)`."""
        told = (layer.arguments.keywords.get(name) for name in ("affine", "elementwise_affine"))
        return any(each is not None and self.constant(each) is False for each in told)

    def _is_filter(self, layer: Instance) -> bool:
        """Whether a layer was given a weight that is not trained."""
        weight = layer.attributes.get("weight")
        made = [option for _, option in alternatives(weight)] if weight is not None else []
        flags = [
            each.arguments.get(1, "requires_grad")
            for each in made
            if isinstance(each, Instance | Symbol) and each.arguments is not None
        ]
        return bool(flags) and all(flag is not None and self.constant(flag) is False for flag in flags)

    def attribute_uses(self, cls: Class, name: str) -> tuple[AttributeUse, ...]:
        """Where the methods of a class and of its ancestors in the project read an attribute of some name."""
        return tuple(
            AttributeUse(method.name, Site(ancestor.module, node))
            for ancestor in cls.lineage
            for method in ancestor.node.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in nodes_of(method).attributes.get(name, ())
            if isinstance(node.ctx, ast.Load)
        )

    def uses_layer(self, cls: Class, name: str) -> bool:
        """Whether a method of a class or of its ancestors does more with an attribute than to set its weights."""
        return any(not is_only_prepared(each.site) for each in self.attribute_uses(cls, name))


def _comes_from(value: Symbol, methods: tuple[str, ...]) -> bool:
    """Whether a value is an element of what one of these methods of a module returns."""
    for _ in range(4):
        if value.name in methods:
            return True
        inner = value.inputs[0] if value.name in _TAKEN_FROM and value.inputs else None
        if not isinstance(inner, Symbol):
            return False
        value = inner
    return False


def _appended(container: Instance) -> list[Value]:
    """What was put into a container after it was made."""
    held = container.attributes.get("<items>")
    return [held] if held is not None else []


def _any_of(answers: Iterable[bool | None], *, exact: bool) -> bool | None:
    """Whether one of several parts has what is asked for, where ``exact`` says that they are all."""
    found = list(answers)
    if any(found):
        return True
    return None if None in found or not exact else False
