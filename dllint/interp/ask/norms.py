"""Whether a module has normalizations with a scale, or batch norms that keep statistics of what they see."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.interp.run.classes import role_of
from dllint.interp.run.graph import sources
from dllint.interp.source.nodes import nodes_of
from dllint.values import Class, Const, Instance, Items, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_NORMS = frozenset(f"torch.nn.{kind}" for kind in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"))
_SCALED = _NORMS | {f"torch.nn.{kind}" for kind in ("LayerNorm", "GroupNorm", "RMSNorm")}
_NORMS_MADE_LATER = frozenset(f"torch.nn.LazyBatchNorm{n}d" for n in (1, 2, 3))
_CONTAINERS = frozenset(("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"))
_FUNCTIONS = frozenset(("layer_norm", "group_norm", "rms_norm", "batch_norm", "instance_norm"))
_PARAMETER = "torch.nn.Parameter"
_MAX_DEPTH = 8
_MAX_SOURCES = 12


def has_norm(machine: Machine, value: Value, depth: int = 0) -> bool:
    """Whether a module certainly has a normalization with a scale of its own, whichever of several it is."""
    options = [option for _, option in alternatives(value)] if depth <= _MAX_DEPTH else []
    return bool(options) and all(_is_normalized(machine, option, depth) for option in options)


def _is_normalized(machine: Machine, value: Value, depth: int) -> bool:
    if isinstance(value, Items | Table):
        return any(has_norm(machine, item, depth + 1) for item in value.contents.values())
    if not isinstance(value, Instance):
        return False
    if isinstance(value.cls, Class):
        held = (each for each in value.attributes.values() if role_of(machine, each) in ("module", "wrapper", ""))
        return any(has_norm(machine, each, depth + 1) for each in held) or _scales_what_it_normalizes(value)
    if value.library_name in _SCALED:
        return not {"affine", "elementwise_affine"} & value.arguments.keywords.keys()
    if value.library_name in _CONTAINERS or machine.facts.role(value.library_name) == "wrapper":
        return any(has_norm(machine, each, depth + 1) for each in value.arguments.all())
    return has_batch_norm(machine, value, depth + 1)


def _scales_what_it_normalizes(module: Instance) -> bool:
    """Whether a module of the project calls a function that normalizes, with a parameter of its own for the scale."""
    own = {
        name
        for name, value in module.attributes.items()
        if any(isinstance(each, Instance) and each.cls == _PARAMETER for _, each in alternatives(value))
    }
    lineage = module.cls.lineage if own and isinstance(module.cls, Class) else ()
    return any(
        getattr(call.func, "attr", getattr(call.func, "id", "")) in _FUNCTIONS
        and any(
            part.attr in own for given in _given(call) for part in ast.walk(given) if isinstance(part, ast.Attribute)
        )
        for cls in lineage
        for call in nodes_of(cls.node).of(ast.Call)
    )


def _given(call: ast.Call) -> tuple[ast.expr, ...]:
    return (*call.args, *(keyword.value for keyword in call.keywords))


def has_batch_norm(machine: Machine, value: Value, depth: int = 0) -> bool:
    """Whether a module certainly has a batch norm with running statistics, whichever of several it is."""
    if depth > _MAX_DEPTH:
        return False
    options = [option for _, option in alternatives(value)]
    return bool(options) and all(_has_one(machine, option, depth) for option in options)


def _has_one(machine: Machine, value: Value, depth: int) -> bool:
    if isinstance(value, Items | Table):
        return any(has_batch_norm(machine, item, depth + 1) for item in value.contents.values())
    if isinstance(value, Symbol):  # a part of a library's network, its layers, or the first of them
        if value.name == "attribute" and isinstance(value.inputs[0], Instance):
            return machine.facts.has_batch_norms(f"{value.inputs[0].library_name}.{value.detail}")
        taken = (each for each in sources(value, _MAX_SOURCES) if isinstance(each, Symbol) and each.inputs)
        return any(each.name == "children" and has_batch_norm(machine, each.inputs[0], depth + 1) for each in taken)
    if not isinstance(value, Instance):
        return False
    if isinstance(value.cls, Class):
        held = [each for each in value.attributes.values() if role_of(machine, each) in ("module", "wrapper", "")]
        return any(has_batch_norm(machine, each, depth + 1) for each in held)
    name = value.library_name
    if name in _NORMS or name in _NORMS_MADE_LATER:
        kept = value.arguments.get(None if name in _NORMS_MADE_LATER else 4, "track_running_stats")
        return kept is None or (isinstance(kept, Const) and kept.value is True)
    if name in _CONTAINERS or machine.facts.role(name) == "wrapper":
        return any(has_batch_norm(machine, each, depth + 1) for each in value.arguments.all())
    given = value.arguments.get(0, "model_name")
    called = f"{name}:{given.value}" if isinstance(given, Const) and isinstance(given.value, str) else name
    return machine.facts.has_batch_norms(called)


def normalizes_vectors(machine: Machine, value: Value) -> bool:
    """Whether a module certainly has a batch norm of vectors: each sample gives one value for a channel."""
    names = layers_in(machine, value)
    return "torch.nn.BatchNorm1d" in names and not any(name.endswith("Conv1d") for name in names)


def layers_in(machine: Machine, value: Value, depth: int = 0) -> frozenset[str]:
    """The library classes of the layers in a module and of what wraps them, as far as they are certain."""
    own: frozenset[str] = frozenset()
    if isinstance(value, Items | Table):
        held = list(value.contents["items"] if isinstance(value, Items) else value.contents.values())
    elif not isinstance(value, Instance) or depth > _MAX_DEPTH:
        return own
    elif isinstance(value.cls, Class):
        held = [each for each in value.attributes.values() if role_of(machine, each) in ("module", "wrapper", "")]
    elif value.library_name in _CONTAINERS:
        held = list(value.arguments.all())
    elif machine.facts.role(value.library_name) == "wrapper":
        own, held = frozenset((value.library_name,)), list(value.arguments.all())
    else:
        return frozenset((value.library_name,))
    return own.union(*(layers_in(machine, each, depth + 1) for each in held))
