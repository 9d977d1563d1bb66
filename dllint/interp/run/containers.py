"""Lists, tuples, dicts and what iteration yields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dllint.choices import Choice, alternatives, choose, present
from dllint.forms import shaped_tensor
from dllint.interp.run import names, overriding
from dllint.interp.run.asked_entries import entries_asked_for
from dllint.interp.run.classes import role_of
from dllint.interp.run.modules import sequence_items
from dllint.sites import Site
from dllint.values import (
    Absent,
    Arguments,
    BoundMethod,
    Const,
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


RANK = "<rank>"  # among the attributes of a tensor: the number of its axes, which unpacking its shape tells


def is_conditional(value: Items) -> bool:
    """Whether some items of a list are there only under conditions."""
    return any(isinstance(option, Absent) for item in value.items for _, option in alternatives(item))


def get_item(machine: Machine, base: Value, index: Value, text: str, site: Site) -> Value:
    """``base[index]``; ``text`` is the index as written, which tells unknown indices apart."""
    if isinstance(base, Items):
        return _from_items(machine, base, index, text, site)
    if isinstance(base, Table):
        if isinstance(index, Const) and index.value in base.contents:
            return present(names.under_path(machine, base.contents[index.value]))
        values = [] if isinstance(index, Const) else entries_asked_for(machine, base, index, site)
        if values and base.exact:
            return choose(values)
        rest = base.contents.get(Table.REST)
        if isinstance(rest, Symbol):  # of what a comprehension computes for each key, this is one
            rest = _symbolic_item(machine, rest, index, text, site)
        if rest is not None and not isinstance(rest, Const):
            return choose([*values, ((), present(rest))])
        return Symbol("item", (base, index), site, detail=text)
    if isinstance(base, Choice):
        usable = [o for o in base.options if not (isinstance(o[1], Const) and o[1].value is None)] or base.options
        return choose([(guards, get_item(machine, option, index, text, site)) for guards, option in usable])
    if isinstance(base, Setting):
        inner = get_item(machine, base.default, index, text, site)
        return Setting(f"{base.name}[{text}]", inner, site) if isinstance(inner, Const) else inner
    if isinstance(base, Symbol | Instance):
        return _symbolic_item(machine, base, index, text, site)
    return Symbol("item", (base, index), site, detail=text, grad=machine.grad)


def _symbolic_item(machine: Machine, base: Symbol | Instance, index: Value, text: str, site: Site) -> Value:
    """An unknown item is the same symbol on every read, so that ``nets["G"]`` keeps its identity."""
    key = _key_of(index, text)
    known = base.attributes.get(key)
    if known is not None:
        if isinstance(known, Symbol) and known.name == "item" and known.grad == "off":
            known.grad = machine.grad  # a row of a parameter that was first read without gradients is computed anew
        return known
    if isinstance(base, Instance):
        found = _instance_item(machine, base, index)
        if found is not None:
            return found
    value = Symbol(
        "item", (base, index), site, detail=index.value if isinstance(index, Const) else text, grad=machine.grad
    )
    base.attributes[key] = value  # reading changes nothing: the other arms of a branch may see the same symbol
    return value


def _key_of(index: Value, text: str) -> str:
    """Under what an item is kept among the attributes of what it belongs to: ``nets[name]`` may be ``nets["G"]``."""
    if isinstance(index, Const) and index.value is not None:  # which stands for a slice
        return f"[{index.value!r}]"
    return f"[{text}]"


def _instance_item(machine: Machine, base: Instance, index: Value) -> Value | None:
    """An item of ``nn.Sequential``, ``nn.ModuleList`` or ``nn.ModuleDict``."""
    contained = base.arguments.positional[0] if base.arguments.positional else None
    if base.library_name in machine.facts.sequential:
        items = sequence_items(machine, base)
        if (
            items
            and isinstance(index, Const)
            and isinstance(index.value, int)
            and -len(items) <= index.value < len(items)
        ):
            return items[index.value]
        if items and len(items) == 1 and not isinstance(index, Const):
            return items[0]  # each of those that a loop has made
    held = modules_held(base)
    if held is not None:
        return _from_items(machine, held, index, "", base.site or held.site)  # type: ignore[arg-type]
    if base.library_name == "torch.nn.ModuleDict" and isinstance(contained, Table) and isinstance(index, Const):
        return contained.contents.get(index.value)
    return None


def modules_held(modules: Value) -> Items | None:
    """What an ``nn.ModuleList`` holds, as far as it is known: what it was made of, or what was appended to it since."""
    if not isinstance(modules, Instance) or modules.library_name != "torch.nn.ModuleList":
        return None
    contained = modules.arguments.get(0, "modules")
    appended = modules.attributes.get("<items>")
    if contained is None and isinstance(appended, Items):
        return Items("list", appended.items, appended.site, exact=False)
    return contained if isinstance(contained, Items) and appended is None else None


def _from_items(machine: Machine, base: Items, index: Value, text: str, site: Site) -> Value:
    items = base.items
    if isinstance(index, Const) and isinstance(index.value, int) and not isinstance(index.value, bool):
        if base.exact and -len(items) <= index.value < len(items) and not is_conditional(base):
            return names.under_path(machine, items[index.value])
        if not base.exact and len(items) == 1:
            return items[0]
    elif items and len(items) <= Choice.LIMIT:
        return choose([((), item) for item in items])
    return Symbol("item", (base, index), site, detail=text, grad=machine.grad)


def get_slice(machine: Machine, base: Value, bounds: list[Value], site: Site) -> Value:
    """``base[a:b:c]``."""
    if isinstance(base, Items) and base.exact and all(isinstance(bound, Const) for bound in bounds):
        values: list[Any] = [bound.value for bound in bounds if isinstance(bound, Const)]
        return machine.fresh(Items(base.kind, base.items[slice(*values)], site))
    if isinstance(base, Items):
        return machine.fresh(Items(base.kind, base.items, site, exact=False))
    return Symbol("slice", (base, *bounds), site, grad=machine.grad)


def unpack(machine: Machine, value: Value, count: int, site: Site) -> list[Value]:
    """The values that ``a, b = value`` binds."""
    if isinstance(value, Items) and value.exact and len(value.items) == count:
        return [names.under_path(machine, item) for item in value.items]
    _tell_rank(value, count)
    if isinstance(value, Choice):
        options = [
            (guards, unpack(machine, option, count, site)) for guards, option in value.options if _is_unpackable(option)
        ]
        if options:
            return [choose([(guards, parts[i]) for guards, parts in options]) for i in range(count)]
    return [get_item(machine, value, Const(i), str(i), site) for i in range(count)]


def _tell_rank(shape: Value, count: int) -> None:
    """``a, b = x.shape`` tells that ``x`` has two axes, whichever branch it stands in."""
    tensor = shaped_tensor(shape)
    if isinstance(tensor, Symbol):
        tensor.attributes[RANK] = Const(count)


def _is_unpackable(value: Value) -> bool:
    return not (isinstance(value, Const) and value.value is None)


def element_of(machine: Machine, value: Value, site: Site) -> Value:
    """What one iteration over ``value`` yields."""
    if isinstance(value, Items):
        items = [((), present(item)) for item in value.items]
        return choose(items) if items else Symbol("element", (value,), site)
    if isinstance(value, Symbol):
        return _symbolic_element(machine, value, site)
    if isinstance(value, Table):
        return Symbol("key", (value,), site)
    if isinstance(value, Choice):
        filled = [option for option in value.options if not _is_empty(option[1])] or value.options
        return choose([(guards, element_of(machine, option, site)) for guards, option in filled])
    if isinstance(value, Instance):
        return _instance_element(machine, value, site)
    return Symbol("element", (value,), site)


def _is_empty(value: Value) -> bool:
    """Whether a value is a container with nothing in it, over which no loop makes an iteration."""
    return isinstance(value, Items) and value.exact and not value.items


def _symbolic_element(machine: Machine, value: Symbol, site: Site) -> Value:
    name, inputs = value.name, value.inputs
    if name == "generator":
        return inputs[0]
    if name in ("iter", "list", "tuple", "reversed", "sorted", "set") or name in machine.facts.iteration_wrappers:
        if inputs:
            return element_of(machine, inputs[0], site)
    elif name == "enumerate" and inputs:
        return Items("tuple", (Symbol("counter", (inputs[0],), site), element_of(machine, inputs[0], site)), site)
    elif name == "zip":
        return Items("tuple", [element_of(machine, part, site) for part in inputs], site)
    elif name == ".items" and inputs and isinstance(inputs[0], Table):
        return Items("tuple", (Symbol("key", (inputs[0],), site), _any_entry(inputs[0], site)), site)
    elif name == ".values" and inputs and isinstance(inputs[0], Table):
        return _any_entry(inputs[0], site)
    elif name in ("range", "numpy.arange"):
        return Symbol("counter", inputs, site)
    return Symbol("element", (value,), site)


def _any_entry(table: Table, site: Site) -> Value:
    """Some value of a dict."""
    rest = table.contents.get(Table.REST)
    values = [((), present(value)) for key, value in table.contents.items() if key is not Table.REST]
    if rest is not None and not isinstance(rest, Const):
        values.append(((), present(rest)))
    return choose(values) if values else Symbol("element", (table,), site)


def _instance_element(machine: Machine, value: Instance, site: Site) -> Value:
    """The batch that a loader yields: what its collate function returns, if that is known."""
    if role_of(machine, value) == "loader":
        return batch_of(machine, value, site)
    contained = value.arguments.positional[0] if value.arguments.positional else None
    held = modules_held(value)
    if held is not None:
        return element_of(machine, held, site)
    if value.library_name in ("torch.nn.ModuleList", "torch.nn.ModuleDict") and contained is not None:
        return element_of(machine, contained, site)
    if value.library_name in machine.facts.sequential:
        return Symbol("element", (value,), site)
    if value.library_name in machine.facts.iteration_wrappers and contained is not None:
        return element_of(machine, contained, site)
    return Symbol("element", (value,), site)


def batch_of(machine: Machine, loader: Instance, site: Site) -> Value:
    """One batch of a data loader."""
    known = loader.attributes.get("<batch>")
    if known is not None:
        return known
    signature = machine.facts.signatures.get(loader.library_name, ())
    position = signature.index("collate_fn") if "collate_fn" in signature else None
    collate = loader.arguments.get(position, "collate_fn")
    batch: Value = Symbol("element", (loader,), site)
    is_object = isinstance(collate, Instance) and not isinstance(collate.cls, str)
    if collate is not None and (is_object or isinstance(collate, Function | BoundMethod | Partial)):
        loader.attributes["<batch>"] = batch
        with machine.aside():
            result = machine.call(collate, Arguments((Symbol("samples", (loader,), site),)), site)
        if not (isinstance(result, Const) or (isinstance(result, Symbol) and result.name == "unknown")):
            batch = result
    loader.attributes["<batch>"] = batch
    return batch


# ---------------------------------------------------------------------------------------------- container methods


def call_method(machine: Machine, base: Items | Table, name: str, arguments: Arguments, site: Site) -> Value:
    """A method of a list, tuple, set or dict."""
    if isinstance(base, Table):
        return _table_method(machine, base, name, arguments, site)
    first = arguments.get(0, None)
    if name in ("append", "add") and first is not None:
        extend(machine, base, (first,), exact=True)
    elif name == "extend" and first is not None:
        if isinstance(first, Items):
            extend(machine, base, first.items, exact=first.exact)
            if (tail := _tail_of(first)) is not None:
                machine.write(base.contents, "tail", tail)
        else:
            extend(machine, base, (element_of(machine, first, site),), exact=False)
    elif name == "insert" and len(arguments.positional) == 2:
        _insert(machine, base, arguments.positional[0], arguments.positional[1])
    elif name in ("pop", "remove", "clear", "sort", "reverse"):
        machine.write(base.contents, "exact", False)
        if name == "pop":
            return element_of(machine, base, site)
    elif name == "copy":
        return machine.fresh(Items(base.kind, base.items, site, exact=base.exact))
    else:
        return Symbol(f".{name}", (base, *arguments.positional), site, arguments=arguments)
    return Const(None)


def added(left: Items, right: Items, site: Site) -> Items:
    """``left + right``."""
    made = Items(left.kind, left.items + right.items, site, exact=left.exact and right.exact)
    if (tail := _tail_of(right)) is not None:
        made.contents["tail"] = tail
    return made


def _tail_of(items: Items) -> Items | None:
    """The end of a list, if it is repeated so many times as nobody knows."""
    return items if items.times is not None else items.tail


def extend(machine: Machine, base: Items, more: tuple[Value, ...], *, exact: bool) -> None:
    """Add items at the end of a list."""
    machine.write(base.contents, "items", base.items + more)
    if not exact or machine.in_foreign_loop(base):
        machine.write(base.contents, "exact", False)


def _insert(machine: Machine, base: Items, position: Value, item: Value) -> None:
    items = list(base.items)
    if isinstance(position, Const) and isinstance(position.value, int):
        items.insert(position.value, item)
        machine.write(base.contents, "items", tuple(items))
        if machine.in_foreign_loop(base):
            machine.write(base.contents, "exact", False)
    else:
        extend(machine, base, (item,), exact=False)


def _table_method(machine: Machine, base: Table, name: str, arguments: Arguments, site: Site) -> Value:
    first, second = arguments.get(0, None), arguments.get(1, None)
    if name in ("get", "pop", "setdefault") and isinstance(first, Const):
        known = base.contents.get(first.value)
        if known is not None:
            if name == "pop":
                machine.delete(base.contents, first.value)
            otherwise = second if second is not None else Const(None) if name != "pop" else None
            return present(names.under_path(machine, known), otherwise)
        if name == "setdefault" and second is not None:
            machine.write(base.contents, first.value, second)
        if base.exact:
            return second if second is not None else Const(None)
    elif name == "get" and first is not None and base.exact and base.contents:
        otherwise = second if second is not None else Const(None)
        return choose([*entries_asked_for(machine, base, first, site), ((), otherwise)])
    elif name == "update":
        new: dict[Any, Value] = dict(arguments.keywords)
        if isinstance(first, Table):
            new = {**merged(base.contents, first.contents), **new}
        elif first is not None:
            new[Table.REST] = first
        overriding.set_entries(machine, base, new, exact=arguments.exact and Table.REST not in new)
        for key, value in new.items():
            machine.write(base.contents, key, value)
        return Const(None)
    elif name == "values" and base.exact:
        return Items("list", tuple(base.entries().values()), site)
    elif name == "items" and base.exact:
        pairs = [Items("tuple", (Const(key), value), site) for key, value in base.entries().items()]
        return Items("list", pairs, site)
    elif name == "keys" and base.exact:
        return Items("list", [Const(key) for key in base.entries()], site)
    elif name == "copy":
        return Table(base.contents, site)
    return Symbol(f".{name}", (base, *arguments.positional), site, arguments=arguments)


def merged(old: Mapping[Any, Value], new: Mapping[Any, Value]) -> dict[Any, Value]:
    """The entries of ``new``; where one may be absent, the old one stays in its place."""
    return {key: present(value, old.get(key)) if key in old else value for key, value in new.items()}


def entries_of(value: Value) -> tuple[dict[Any, Value], bool]:
    """The entries of what may be one of several dicts, and whether they are all."""
    options = alternatives(value)
    tables = [(guards, option) for guards, option in options if isinstance(option, Table)]
    keys = dict.fromkeys(key for _, table in tables for key in table.entries())
    unknown = [(guards, option) for guards, option in options if isinstance(option, Symbol)]
    entries = {
        key: choose(
            [(guards, table.contents.get(key, table.contents.unset(key))) for guards, table in tables]
            + [(guards, Symbol("item", (option, Const(key)), option.site, detail=key)) for guards, option in unknown]
        )
        for key in keys
    }
    return entries, len(tables) == len(options) and all(table.exact for _, table in tables)


def has_key(table: Table, key: Any, wanted: bool) -> bool | None:
    """Whether a test for a key of a known dict has the wanted outcome; ``None`` where that depends on a condition."""
    value = table.contents.get(key)
    if value is not None and any(isinstance(option, Absent) for _, option in alternatives(value)):
        return None
    return (value is not None) is wanted


def delete_item(machine: Machine, base: Value, index: Value) -> None:
    """``del base[index]``."""
    if isinstance(base, Table) and isinstance(index, Const):
        machine.delete(base.contents, index.value)
    elif isinstance(base, Items):
        machine.write(base.contents, "exact", False)


def set_item(machine: Machine, base: Value, index: Value, text: str, value: Value) -> None:
    """``base[index] = value``."""
    if isinstance(base, Table):
        if isinstance(index, Const) and isinstance(index.value, str | int | float | bool):
            overriding.set_entries(machine, base, {index.value: value}, exact=True)
            machine.write(base.contents, index.value, value)
        else:
            overriding.set_entries(machine, base, {}, exact=False)
            machine.write(base.contents, Table.REST, value)
    elif isinstance(base, Items):
        items = list(base.items)
        known = isinstance(index, Const) and isinstance(index.value, int) and -len(items) <= index.value < len(items)
        if known and isinstance(index, Const):
            items[index.value] = value
            machine.write(base.contents, "items", tuple(items))
        else:
            extend(machine, base, (value,), exact=False)
    elif isinstance(base, Symbol | Instance):
        machine.write(base.attributes, _key_of(index, text), value)
    elif isinstance(base, Setting):
        set_item(machine, base.default, index, text, value)
    elif isinstance(base, Choice):
        for _, option in base.options:
            set_item(machine, option, index, text, value)
