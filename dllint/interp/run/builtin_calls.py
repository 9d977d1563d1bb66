"""Calls of Python's builtins that matter to values: ``len``, ``isinstance``, ``getattr``, ``dict``, ``zip`` …"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeGuard

from dllint.choices import Choice, alternatives, choose
from dllint.forms import attribute_of
from dllint.interp.run.attributes import attributes_of, class_of, get_attribute, set_attribute
from dllint.interp.run.classes import find_member, has_unknown_base
from dllint.interp.run.containers import is_conditional
from dllint.interp.run.overriding import overridden
from dllint.interp.run.samples import parts_of_sample
from dllint.interp.run.unrolling import listed, numbers_of
from dllint.sites import Site
from dllint.values import (
    Absent,
    Arguments,
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

_MAX_NESTING = 4
_MAX_MAPPED = 8
_TENSOR = "torch.Tensor"
MAPPED = (Function, BoundMethod, Instance)
Builtin = Callable[["Machine", Arguments, Site], Value | None]


def _len(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    value = arguments.get(0, None)
    if value is None:
        return None
    lengths = [(guards, _length(machine, option, site)) for guards, option in alternatives(value)]
    known = [(guards, Const(length, site)) for guards, length in lengths if length is not None]
    return choose(known) if len(known) == len(lengths) else None


def _length(machine: Machine, value: Value, site: Site) -> int | None:
    """How many items a value has: one that is written out, or a sample of a dataset."""
    value = listed(machine, value, site)
    if isinstance(value, Items) and value.exact and not is_conditional(value):
        return len(value.items)
    numbers = parts_of_sample(machine, value)
    return numbers.pop() if len(numbers) == 1 else None


def _isinstance(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    if len(arguments.positional) != 2:
        return None
    value, wanted = arguments.positional
    candidates = wanted.items if isinstance(wanted, Items) else (wanted,)
    answers = [(guards, _is_any_of(machine, option, candidates)) for guards, option in alternatives(value)]
    if all(answer is None for _, answer in answers):
        return None
    unknown = Symbol("call", (value, wanted), site)
    return choose([(guards, unknown if answer is None else Const(answer, site)) for guards, answer in answers])


def _is_tensor(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """``torch.is_tensor(x)``, which is ``isinstance(x, torch.Tensor)``."""
    return _isinstance(machine, Arguments((*arguments.positional, External(_TENSOR))), site)


def _is_any_of(machine: Machine, value: Value, candidates: Sequence[Value]) -> bool | None:
    answers = {_is_instance_of(machine, value, candidate) for candidate in candidates}
    return True if True in answers else False if answers == {False} else None


def _is_instance_of(machine: Machine, value: Value, wanted: Value) -> bool | None:
    if isinstance(value, Const) and isinstance(wanted, External) and wanted.name in _TYPES:
        return isinstance(value.value, _TYPES[wanted.name])
    if isinstance(value, Const) and (
        isinstance(wanted, Class) or (isinstance(wanted, External) and wanted.name.startswith("torch."))
    ):
        return False
    if (
        isinstance(value, Items)
        and isinstance(wanted, External)
        and wanted.name in ("list", "tuple", "set", "dict", "str")
    ):
        return value.kind == wanted.name
    if isinstance(value, Items | Table) and isinstance(wanted, External) and wanted.name == _TENSOR:
        return False
    if isinstance(value, Table | Instance) and isinstance(wanted, External) and wanted.name in _TYPES:
        if isinstance(value, Table):
            return wanted.name == "dict"
        if isinstance(value.cls, str) and value.cls.startswith("torch."):
            return False  # optimizers, schedulers and modules are no plain containers
    if isinstance(value, Symbol) and isinstance(wanted, External) and wanted.name in _SEQUENCES:
        return False if value.name in _NEVER_SEQUENCES else None
    if not isinstance(value, Instance):
        return None
    if isinstance(value.cls, Class):
        if isinstance(wanted, Class):
            return _derives_from(value.cls, wanted)
        return True if isinstance(wanted, External) and wanted.name in value.cls.library_bases else None
    if not isinstance(wanted, External):
        return None
    if wanted.name == value.cls:
        return True
    if value.cls.startswith(_SCHEDULERS) and wanted.name.startswith(_SCHEDULERS):
        return None if wanted.name.endswith("LRScheduler") else False  # none of the others has one derived from it
    is_final = machine.facts.role(wanted.name) in ("loss-class", "wrapper")  # from which no class of torch's derives
    return False if is_final and machine.facts.role(value.cls) else None


def _derives_from(cls: Class, wanted: Class) -> bool | None:
    """Whether objects that are made of a class are of another one; what is said of a class may be said of one below."""
    if any(each.node is wanted.node for each in cls.lineage):
        return True
    may_be = any(each.node is cls.node for each in wanted.lineage) or any(
        each.name == wanted.name for each in cls.lineage
    )
    return None if may_be or has_unknown_base(cls) else False


_SCHEDULERS = "torch.optim.lr_scheduler."
_SEQUENCES = frozenset(("tuple", "list", "str"))
_NEVER_SEQUENCES = frozenset(("|", "&", "^", "-", "/", "//", "@", "**", "<<", ">>", "~", "negative", "not", "compare"))
_TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "tuple": tuple,
    "dict": dict,
}


def _getattr(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    base, name = arguments.get(0, None), arguments.get(1, None)
    if base is not None and isinstance(name, Choice):
        rest = arguments.positional[2:]
        each = [(guards, _getattr(machine, Arguments((base, o, *rest)), site)) for guards, o in name.options]
        known = [(guards, value) for guards, value in each if value is not None]
        return choose(known) if len(known) == len(each) else None
    if base is None or not isinstance(name, Const) or not isinstance(name.value, str):
        return None
    found = get_attribute(machine, base, name.value, site)
    default = arguments.get(2, None)
    if default is not None and attribute_of(found) is not None:
        return choose([((), found), ((), default)])
    return found


def _setattr(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    base, name, value = (arguments.get(i, None) for i in range(3))
    if base is None or value is None:
        return None
    if isinstance(name, Const) and isinstance(name.value, str):
        set_attribute(machine, base, name.value, value)
    else:  # some attribute, under a name that is not known
        overridden(machine, base)
        if isinstance(base, Instance | Symbol):
            machine.write(base.attributes, f"<{len(base.attributes)}>", value)
    return Const(None)


def _hasattr(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    base, name = arguments.get(0, None), arguments.get(1, None)
    if isinstance(base, Instance) and isinstance(name, Const) and name.value in base.attributes:
        options = alternatives(base.attributes[name.value])
        if not any(isinstance(option, Absent) or attribute_of(option) is base for _, option in options):
            return Const(True, site)  # and it was not only read, where it may be set, or may not be set yet
    return None


def make_dict(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """``dict(...)`` and ``OrderedDict(...)``."""
    first = arguments.get(0, None)
    if first is None:
        return Table(arguments.keywords, site, exact=arguments.exact)
    if isinstance(first, Table):
        return Table({**first.contents, **arguments.keywords}, site, exact=arguments.exact)
    if isinstance(first, Items) and first.exact:
        pairs = [item.items for item in first.items if isinstance(item, Items) and len(item.items) == 2]
        if len(pairs) == len(first.items) and all(isinstance(key, Const) for key, _ in pairs):
            entries = {key.value: value for key, value in pairs if isinstance(key, Const)}
            return Table({**entries, **arguments.keywords}, site)
    return None


def _sequence(kind: str) -> Builtin:
    def make(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
        first = arguments.get(0, None)
        if first is None:
            return machine.fresh(Items(kind, (), site))
        copied = Items(kind, first.items, site, exact=first.exact) if isinstance(first, Items) else None
        return machine.fresh(copied) if copied is not None else None

    return make


def _zip(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    parts = [listed(machine, part, site) for part in arguments.positional]
    longest = max((len(part.items) for part in parts if isinstance(part, Items)), default=0)
    parts = [numbers_of(part, longest) or part for part in parts]
    if not longest or not all(isinstance(part, Items) and part.exact for part in parts):
        return None
    columns = [part.items for part in parts if isinstance(part, Items)]
    rows = [Items("tuple", row, site, exact=arguments.exact) for row in zip(*columns, strict=False)]
    return Items("list", rows, site)


def _enumerate(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    first = arguments.get(0, None)
    first = listed(machine, first, site) if first is not None else None
    if not isinstance(first, Items) or not first.exact:
        return None
    return Items("list", [Items("tuple", (Const(i), item), site) for i, item in enumerate(first.items)], site)


def next_of(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    """``iterator.next()``, which iterators of Python 2 have, and which those of loaders had: as ``next(iterator)``."""
    is_iterator = isinstance(base, Symbol) and base.name in ("iter", ".__iter__")
    return machine.call(External("next"), Arguments((base,)), site) if is_iterator else None


def _next(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """``next(batches)``, of an object of the project that says what comes next."""
    first = arguments.get(0, None)
    if not isinstance(first, Instance) or not isinstance(first.cls, Class):
        return None
    member = find_member(machine, first.cls, "__next__")
    return machine.invoke(member, Arguments(), site, receiver=first) if isinstance(member, Function) else None


def _vars(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    first = arguments.get(0, None)
    return attributes_of(first, site) if isinstance(first, Instance) else None


def _asdict(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """``dataclasses.asdict``: the fields of an object, and of objects in them."""
    first = arguments.get(0, "obj")
    return _fields_of(first, site, _MAX_NESTING) if first is not None and _is_dataclass(first) else None


def _fields_of(instance: Instance, site: Site, depth: int) -> Table:
    fields: dict[str, Value] = {}
    for name, value in instance.attributes.items():
        fields[name] = _fields_of(value, site, depth - 1) if depth and _is_dataclass(value) else value
    return Table(fields, site)


def _is_dataclass(value: Value) -> TypeGuard[Instance]:
    if not isinstance(value, Instance) or not isinstance(value.cls, Class):
        return False
    return any(ancestor.dataclass for ancestor in value.cls.lineage)


def _exec(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """Code that is not known may set the constants of the module: they are only what it starts with."""
    variables = machine.module_scope(site.module).variables  # type: ignore[arg-type]
    for name, value in list(variables.items()):
        if isinstance(value, Const) and isinstance(value.value, bool | int | float | str):
            machine.write(variables, name, Setting(name, value, value.site))
    return None


def _filter(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """``filter(f, xs)`` yields some of ``xs``."""
    given = arguments.get(1, None)
    return Symbol("filter", (given,), site) if given is not None else None


def _map(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """``map(f, xs)`` of a few things that are written out; of others see ``assignment``, where it is taken apart."""
    function, given = arguments.get(0, None), arguments.get(1, None)
    if len(arguments.positional) != 2 or not isinstance(function, MAPPED) or not isinstance(given, Items):
        return None
    if not given.exact or len(given.items) > _MAX_MAPPED or is_conditional(given):
        return None
    return Items("list", [machine.call(function, Arguments((each,)), site) for each in given.items], site)


def _callable(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    first = arguments.get(0, None)
    answers = [(guards, _is_callable(option)) for guards, option in alternatives(first)] if first is not None else []
    if all(answer is None for _, answer in answers):
        return None
    unknown = Symbol("call", arguments.positional, site)
    return choose([(guards, unknown if answer is None else Const(answer, site)) for guards, answer in answers])


def _is_callable(value: Value) -> bool | None:
    if isinstance(value, Function | BoundMethod | Class | Partial):
        return True
    return False if isinstance(value, Const) else None


def _type(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
    """The class of an object; with three arguments, ``type`` makes a class."""
    only = arguments.positional[0] if len(arguments.positional) == 1 and not arguments.keywords else None
    return class_of(only) if isinstance(only, Instance) else None


def _number(function: Callable[[object], object]) -> Builtin:
    def make(machine: Machine, arguments: Arguments, site: Site) -> Value | None:
        first = arguments.get(0, None)
        default = first.default if isinstance(first, Setting) else first
        if (
            isinstance(default, Const)
            and isinstance(default.value, int | float | str)
            and len(arguments.positional) == 1
        ):
            try:
                converted = Const(function(default.value), site)
            except (ValueError, OverflowError):
                return None
            return Setting(first.name, converted, site) if isinstance(first, Setting) else converted
        return None

    return make


BUILTINS: dict[str, Builtin] = {
    "len": _len,
    "isinstance": _isinstance,
    "torch.is_tensor": _is_tensor,
    "getattr": _getattr,
    "setattr": _setattr,
    "object.__setattr__": _setattr,
    "hasattr": _hasattr,
    "dict": make_dict,
    "list": _sequence("list"),
    "tuple": _sequence("tuple"),
    "set": _sequence("set"),
    "zip": _zip,
    "enumerate": _enumerate,
    "next": _next,
    "vars": _vars,
    "dataclasses.asdict": _asdict,
    "exec": _exec,
    "filter": _filter,
    "map": _map,
    "callable": _callable,
    "type": _type,
    "int": _number(lambda value: int(value)),  # type: ignore[call-overload]
    "float": _number(lambda value: float(value)),  # type: ignore[arg-type]
    "str": _number(str),
}
