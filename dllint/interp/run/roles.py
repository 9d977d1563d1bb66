"""What kind of object a value is, for dispatch: known roles, and guesses from names where nothing is known."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.interp.run.classes import role_of
from dllint.terms import Role
from dllint.values import (
    Absent,
    BoundMethod,
    Class,
    Const,
    External,
    Function,
    Instance,
    Items,
    Partial,
    Setting,
    Symbol,
    Table,
    Value,
)

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_HINTS: tuple[tuple[Role, re.Pattern[str]], ...] = (
    ("scheduler", re.compile(r"(^|_)(lr_?)?sched(uler)?s?(_|\d|$)|scheduler|^lrs$")),
    ("scaler", re.compile(r"(^|_)(grad_?|amp_?|loss_?)?scaler(_|\d|$)")),
    ("optimizer", re.compile(r"(^|_)(opt|optim|optimi[sz]er)s?(_|\d|$)|optimi[sz]er|^[a-z]{1,3}_?optim?$")),
    ("loader", re.compile(r"loader|(^|_)dl(_|$)")),
    (
        "module",
        re.compile(
            r"(^|_)(model|net|network|module|encoder|decoder|generator|discriminator|critic|actor|policy)s?(_|\d|$)"
            r"|model$|^net[A-Z]|^[GD]$|^net$",
            re.IGNORECASE,
        ),
    ),
)

_DESCRIBES = re.compile(r"_(name|name_or_path|path|dir|file|id|type|kind|args|kwargs|config|cfg|size|dim|key|str)s?$")
_BY_METHOD: dict[str, Role] = {".lr_schedulers": "scheduler", ".optimizers": "optimizer"}


def role_by_method(value: Value) -> Role:
    """The role of what a method of a framework returns: of ``self.optimizers()``, or an empty string."""
    return _BY_METHOD.get(value.name, "") if isinstance(value, Symbol) else ""


def guess_role(value: Value) -> Role:
    """A role guessed from the names an unresolved value goes by. Never evidence, only a way to dispatch a call."""
    return role_by_method(value) or role_by_name(_key_of(value)) or role_by_name(name_of(value))


def _key_of(value: Value) -> str:
    """The key by which a value was taken from something unresolved: of ``state["optimizer"]``, or an empty string."""
    if not isinstance(value, Symbol) or value.name != "item" or value.hint:
        return ""
    return value.detail if isinstance(value.detail, str) and isinstance(value.inputs[1], Const) else ""


@lru_cache(maxsize=4096)
def role_by_name(name: str) -> Role:
    """The role that a name speaks of, or an empty string."""
    if name and not _DESCRIBES.search(name):
        for role, pattern in _HINTS:
            if pattern.search(name):
                return role
    return ""


def name_of(value: Value) -> str:
    """The name an unresolved value goes by: a parameter, an attribute, the variable it was first bound to."""
    for _ in range(4):
        if not isinstance(value, Symbol):
            return getattr(value, "hint", "")
        if value.hint:
            return value.hint
        if value.name in ("attribute", "parameter", "unknown") and isinstance(value.detail, str):
            return value.detail
        if value.name not in ("item", "element") or not value.inputs:
            return ""
        key = _key_of(value)
        if role_by_name(key):
            return key
        value = value.inputs[0]
    return ""


def known_or_guessed(machine: Machine, value: Value) -> Role:
    """The role of a value as it is known, else as its name suggests."""
    if isinstance(value, Choice):
        return "module" if are_modules(machine, value) else common_role(machine, value)
    role = role_of(machine, value)
    if role or isinstance(value, Symbol):
        return role or guess_role(value)
    return "optimizer" if isinstance(value, Instance) and value.library_name.endswith("Optimizer") else ""


def common_role(machine: Machine, choice: Choice) -> Role:
    """The role that a value has whichever option it is: that of an optimizer or a scheduler, since these act alike.

    Options that have no methods of either (``None``, a dict of optimizers) would raise, and drop out.
    """
    options = [option for _, option in choice.options if not isinstance(option, Const | Items | Table | Absent)]
    found = {known_or_guessed(machine, option) for option in options}
    return found.pop() if found in ({"optimizer"}, {"scheduler"}) else ""


def are_modules(machine: Machine, choice: Choice) -> bool:
    """Whether a value is, whichever option it is, a module as the library defines it (or as its name suggests)."""
    for _, option in choice.options:
        if isinstance(option, Instance):
            if role_of(machine, option) not in ("module", "wrapper"):
                return False
            if isinstance(option.cls, Class) and not option.cls.members.keys().isdisjoint(_OVERRIDDEN):
                return False
        elif not isinstance(option, Symbol) or option.name in ("parameters", "named_parameters"):
            return False
        if isinstance(option, Symbol) and guess_role(option) not in ("module", ""):
            return False
    return True


_OVERRIDDEN = frozenset(("train", "eval", "__call__", "parameters", "state_dict", "to", "cuda"))


def can_act(machine: Machine, value: Value, depth: int = 0) -> bool:
    """Whether a value is, or holds, something that acts when it is called: a model, a loss, an optimizer, code."""
    if isinstance(value, (Const, External)):  # most values are
        return False
    if isinstance(value, Symbol):
        return bool(guess_role(value))
    if isinstance(value, (Function, BoundMethod, Partial)):
        return True
    if isinstance(value, Class):
        return not any(ancestor.dataclass for ancestor in value.lineage)
    if isinstance(value, Instance):
        if role_of(machine, value):
            return True
        held = (*value.attributes.values(), *value.arguments.all())
        return depth < 2 and any(can_act(machine, inner, depth + 1) for inner in held)
    if isinstance(value, Items):
        return any(can_act(machine, item, depth + 1) for item in value.items)
    if isinstance(value, Table):
        return any(can_act(machine, item, depth + 1) for item in value.contents.values() if isinstance(item, Value))
    if isinstance(value, Choice):
        return any(can_act(machine, option, depth + 1) for _, option in value.options)
    return isinstance(value, Setting) and can_act(machine, value.default, depth + 1)


def matters(machine: Machine, value: Value) -> bool:
    """Whether an unresolved call that receives this value could change how training goes."""
    if isinstance(value, Instance):
        return True
    if isinstance(value, Symbol):
        if value.name in ("parameter", "attribute", "item", "forward", "call") or guess_role(value):
            return True
        return any(isinstance(held, Instance) for held in value.inputs)
    if isinstance(value, Items):
        return any(matters(machine, item) for item in value.items)
    if isinstance(value, Choice):
        return any(matters(machine, option) for _, option in value.options)
    return isinstance(value, Setting) and matters(machine, value.default)
