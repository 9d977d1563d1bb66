"""Whether a module behaves differently in training and in evaluation mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dllint.interp.classes import has_unknown_base
from dllint.values import Absent, Class, Const, Instance, Items, Setting, Symbol, Table, Value, alternatives

if TYPE_CHECKING:
    from dllint.interp.machine import Machine

_CONTAINERS = frozenset(
    ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.DataParallel",
     "torch.nn.parallel.DistributedDataParallel", "torch.compile", "accelerate.PreparedModel")
)  # fmt: skip
_SENSITIVE = re.compile(r"[dD]ropout|BatchNorm|batch_norm|^(?!.*checkpoint).*\.training\b")  # checkpointing costs time


def is_mode_sensitive(machine: Machine, value: Value, depth: int = 0) -> bool | None:
    """``True`` if some part of a module depends on the mode, ``False`` if none does, ``None`` if that is not known."""
    if depth > 8:
        return None
    if isinstance(value, Const | Setting | Absent):
        return False
    if isinstance(value, Items):
        return _any(is_mode_sensitive(machine, o, depth + 1) for item in value.items for _, o in alternatives(item))
    if isinstance(value, Table):
        return _any(is_mode_sensitive(machine, item, depth + 1) for item in value.contents.values())
    if isinstance(value, Instance):
        return _of_instance(machine, value, depth)
    return None


def _any(answers: object) -> bool | None:
    found = list(answers)  # type: ignore[call-overload]
    if any(answer is True for answer in found):
        return True
    return None if any(answer is None for answer in found) else False


def _of_instance(machine: Machine, value: Instance, depth: int) -> bool | None:
    facts = machine.facts
    name = value.library_name
    if name in facts.mode_sensitive:
        return _has_rate(value)
    if name in facts.mode_sensitive_with_dropout:
        dropout = value.arguments.keywords.get("dropout")
        return not (dropout is None or (isinstance(dropout, Const) and dropout.value == 0))
    if name in facts.mode_insensitive or name in facts.loss_functions or name.startswith(facts.mode_insensitive_prefixes):
        return False
    if name in facts.mode_insensitive_by_default:
        return None if any(key.startswith(("norm", "drop")) for key in value.arguments.keywords) else False
    if name in _CONTAINERS:
        appended = value.attributes.get("<items>")
        parts = [*value.arguments.all(), *([appended] if appended is not None else [])]
        return _any(is_mode_sensitive(machine, part, depth + 1) for part in parts)
    if not isinstance(value.cls, Class):
        return True if name.startswith(facts.mode_sensitive_prefixes) else None
    return _of_project_module(machine, value, value.cls, depth)


def _has_rate(value: Instance) -> bool:
    """Dropout with a constant rate of zero changes nothing."""
    rate = value.arguments.get(0, "p") if "Dropout" in value.library_name else None
    return not (isinstance(rate, Const) and rate.value == 0)


def _of_project_module(machine: Machine, value: Instance, cls: Class, depth: int) -> bool | None:
    answers: list[bool | None] = []
    for ancestor in cls.lineage:
        source = ancestor.module.source
        lines = (source.line_text(n).partition("#")[0] for n in range(ancestor.node.lineno, (ancestor.node.end_lineno or 0) + 1))
        if any(_SENSITIVE.search(line) for line in lines):
            answers.append(True)
    answers.append(None if has_unknown_base(cls) else False)
    for attribute in value.attributes.values():
        for _, option in alternatives(attribute):
            if isinstance(option, Instance | Items | Table):
                answers.append(is_mode_sensitive(machine, option, depth + 1) if _may_be_module(option) else False)
            elif isinstance(option, Symbol) and option.name not in ("parameter", "unknown"):
                answers.append(None if option.name in ("call", "attribute") else False)
    return _any(answers)


def _may_be_module(value: Value) -> bool:
    return (
        not isinstance(value, Instance)
        or isinstance(value.cls, Class)
        or not value.cls.startswith(("argparse.", "torch.Gen"))
    )
