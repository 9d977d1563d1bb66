"""Whether a module behaves differently in training and in evaluation mode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dllint.interp.classes import has_unknown_base, role_of
from dllint.values import Absent, Choice, Class, Const, Instance, Items, Setting, Symbol, Table, Value, alternatives

if TYPE_CHECKING:
    from dllint.interp.machine import Machine

_CONTAINERS = frozenset(
    ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.DataParallel",
     "torch.nn.parallel.DistributedDataParallel", "torch.compile", "accelerate.PreparedModel")
)  # fmt: skip
_SENSITIVE = re.compile(  # what is only asked in order to save memory changes no result
    r"[dD]ropout|BatchNorm|batch_norm|^(?!.*checkpoint).*\.training\b", re.MULTILINE
)


def is_mode_sensitive(machine: Machine, value: Value, depth: int = 0) -> bool | None:
    """``True`` if some part of a module depends on the mode, ``False`` if none does, ``None`` if that is not known."""
    if depth > 8:
        return None
    if isinstance(value, Const | Setting | Absent):
        return False
    if isinstance(value, Choice):
        return _any(is_mode_sensitive(machine, option, depth + 1) for _, option in value.options)
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
    if name in facts.mode_insensitive or name in facts.loss_functions:
        return False
    if name.startswith(facts.mode_insensitive_prefixes):
        return False
    if name in facts.mode_insensitive_by_default:
        return None if any(key.startswith(("norm", "drop")) for key in value.arguments.keywords) else False
    if facts.role(name) == "wrapper" and name not in _CONTAINERS and value.arguments.positional:
        return _any(is_mode_sensitive(machine, o, depth + 1) for _, o in alternatives(value.arguments.positional[0]))
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
    code = "\n".join(_code_of(ancestor) for ancestor in cls.lineage)
    if _SENSITIVE.search(code):
        return True
    answers: list[bool | None] = [None if has_unknown_base(cls) else False]
    for name, attribute in value.attributes.items():
        is_called = f"self.{name}(" in code
        for _, option in alternatives(attribute):
            if isinstance(option, Items | Table) or role_of(machine, option) in ("module", "wrapper"):
                answers.append(is_mode_sensitive(machine, option, depth + 1))
            elif is_called and isinstance(option, Instance | Symbol):
                answers.append(None)  # else it is a setting, or what was read of one
    return _any(answers)


def _code_of(cls: Class) -> str:
    """The source of a class without its comments."""
    source = cls.module.source
    last = cls.node.end_lineno or cls.node.lineno
    return "\n".join(source.line_text(number).partition("#")[0] for number in range(cls.node.lineno, last + 1))
