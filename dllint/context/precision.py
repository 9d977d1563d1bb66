"""In which precision the parameters of a module are kept."""

from __future__ import annotations

from typing import Literal

from dllint.context.freezing import Freezing
from dllint.context.paths import Paths
from dllint.dataclass import dataclass
from dllint.events import AttributeAssigned, Event, ModelChanged, OptimizerStep
from dllint.sites import Site
from dllint.values import Arguments, External, Instance, Symbol, Value

Precision = Literal["float16", "bfloat16", "float32", "float64"]

_METHODS: dict[str, Precision] = {
    "half": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
}
_DTYPES: dict[str, Precision] = {
    "torch.float16": "float16",
    "torch.bfloat16": "bfloat16",
    "torch.float32": "float32",
    "torch.float64": "float64",
    "torch.half": "float16",
    "torch.float": "float32",
    "torch.double": "float64",
}
_KEEPING = frozenset(("to", "cuda", "cpu", "train", "eval", "compile", "share_memory"))


@dataclass(frozen=True, slots=True)
class Cast:
    """Where the parameters of a module get their precision. ``evidence`` is what that rests on."""

    precision: Precision
    site: Site
    evidence: Event | Value


class Precisions(Freezing, Paths):
    """The precision of parameters."""

    def cast_of(self, module: Value, before: Event) -> Cast | None:
        """What has last set the precision of all parameters of a module before an event, if that is known.

        Nothing is known of what was frozen or changed in part: a few parameters may have another one.
        """
        changed = [e for e in self.all_of(ModelChanged) if self.position(e) < self.position(before)]
        mine = [event for event in changed if any(self.is_part(module, each) for each in self.objects(event.model))]
        if self._is_changed_in_part(module):
            return None
        for event in reversed(mine):
            precision = _METHODS.get(event.action) or _dtype_in(event.arguments)
            if precision is not None:
                return Cast(precision, event.site, event)
            if event.action not in _KEEPING or _may_be_dtype(event.arguments):
                return None
        given = _dtype_of_constructor(module)
        if given is None or not isinstance(module, Instance) or module.site is None:
            return None
        return Cast(given, module.site, module)

    def _is_changed_in_part(self, module: Value) -> bool:
        assigned = (e for e in self.all_of(AttributeAssigned) if e.attribute in ("data", "weight", "bias"))
        return any(
            self.reaches(module, part)
            for part in (
                *(part for freeze in self.freezes for part in self.modules_switched(freeze)),
                *(part for event in assigned for part in (self.modules_in(event.target)[0] or [event.target])),
            )
        )

    def first_step_of(self, optimizer: Value) -> OptimizerStep | None:
        """The first step that an optimizer takes in the program."""
        return next((step for step in self.steps() if self.is_same(step.optimizer, optimizer)), None)


def _dtype_in(arguments: Arguments) -> Precision | None:
    names = (value.name for value in arguments.all() if isinstance(value, External))
    return next((_DTYPES[name] for name in names if name in _DTYPES), None)


def _may_be_dtype(arguments: Arguments) -> bool:
    """Whether ``to`` is given something that may be a type: two things, or one that is called so."""
    given = arguments.all()
    if "dtype" in arguments.keywords or len(given) > 1 or not arguments.exact:
        return True
    return any(isinstance(value, Symbol) and "type" in value.hint for value in given)


def _dtype_of_constructor(module: Value) -> Precision | None:
    if not isinstance(module, Instance):
        return None
    given = module.arguments.keywords.get("torch_dtype", module.arguments.keywords.get("dtype"))
    return _DTYPES.get(given.name) if isinstance(given, External) else None
