"""Whether a layer drops anything: the rates that layers and networks are given, and those that they have by default."""

from __future__ import annotations

import ast

from dllint.choices import Choice, alternatives
from dllint.values import Arguments, Class, Const, Instance, Items, Setting, Symbol, Value

_PLACES = {"TransformerEncoderLayer": 3, "TransformerDecoderLayer": 3, "Transformer": 5}
_REORDERING = frozenset(("list", "tuple", "reversed", "sorted", ".copy"))


def has_rate(value: Instance) -> bool | None:
    """Whether a layer drops anything: one with a rate of zero does not. ``None`` where nothing tells the rate."""
    rate = value.arguments.get(*place_of_rate(value.library_name))
    return True if rate is None else is_rate(rate)


def is_rate(rate: Value) -> bool | None:
    """Whether a rate is not zero, or one of several of which one is not; ``None`` where nothing tells."""
    if is_zero(rate):
        return False
    numbers = [
        option for _, option in alternatives(rate) if isinstance(option, Const | Setting) and not is_zero(option)
    ]
    return True if numbers or isinstance(rate, Items) else None


def place_of_rate(name: str) -> tuple[int | None, str]:
    """The position and the keyword by which a layer of torch's gets its rate of dropout."""
    last = name.rpartition(".")[2]
    return (0, "p") if "Dropout" in last else (_PLACES.get(last), "dropout")


def drops_inside(value: Instance) -> bool | None:
    """Whether a layer was given a rate of dropout, and has something to drop.

    A recurrent layer drops between its layers (`torch.nn.LSTM <https://docs.pytorch.org/docs/stable/generated/
    torch.nn.LSTM.html>`_): with one, which is the default, it drops nothing. ``None`` where nothing tells the rate.
    """
    is_attention = value.library_name == "torch.nn.MultiheadAttention"
    dropout = value.arguments.get(2 if is_attention else 5, "dropout")
    layers = value.arguments.get(2, "num_layers")
    if dropout is None or is_zero(dropout):
        return False
    has_several = is_attention or not (layers is None or (isinstance(layers, Const) and layers.value == 1))
    return is_rate(dropout) if has_several else False


def drops_nothing(value: Instance, cls: Class) -> bool:
    """Whether a constructor takes rates of dropout, and each is given as zero, or not given and zero by default."""
    init = next(
        (found for each in cls.lineage if isinstance(found := each.members.get("__init__"), ast.FunctionDef)), None
    )
    if init is None:
        return False
    signature = init.args
    names = [each.arg for each in (*signature.posonlyargs, *signature.args)]
    defaults = dict(zip(reversed(names), reversed(signature.defaults), strict=False))
    defaults.update(
        (each.arg, default)
        for each, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
        if default is not None
    )
    rates = [name for name in (*names, *defaults) if "drop" in name]
    given = {name: value.arguments.get(index, name) for index, name in enumerate(names[1:])}  # without `self`
    given |= {name: value.arguments.get(None, name) for name in defaults if name not in given}
    return bool(rates) and all(
        is_zero(rate) if (rate := given.get(name)) is not None else is_written_as_zero(defaults.get(name))
        for name in rates
    )


def is_told_to_drop_nothing(value: Instance) -> bool:
    """Whether a network of a library is given a rate of zero, itself or by its configuration: what it has beside those
    of which that is said is not known then."""
    config = value.arguments.keywords.get("config")
    options = [value, *(option for _, option in alternatives(config))] if config is not None else [value]
    given = (each.arguments for each in options if isinstance(each, Instance | Symbol))
    rates = (rate for arguments in given if arguments is not None for rate in _rates_in(arguments))
    return any(map(is_zero, rates))


def _rates_in(arguments: Arguments) -> list[Value]:
    return [each for name, each in arguments.keywords.items() if "drop" in name]


def is_zero(rate: Value) -> bool:
    """Whether a rate is zero or not given, at least by default: of a list with one for each layer, all of them."""
    if isinstance(rate, Setting):
        return is_zero(rate.default)
    if isinstance(rate, Choice):
        return all(is_zero(option) for _, option in alternatives(rate))
    if isinstance(rate, Items):
        return all(map(is_zero, rate.items))
    if isinstance(rate, Symbol) and rate.name in _REORDERING and rate.inputs:
        return is_zero(rate.inputs[0])
    return isinstance(rate, Const) and not rate.value


def is_written_as_zero(rate: ast.expr | None) -> bool:
    """The same of what is written somewhere."""
    if isinstance(rate, ast.List | ast.Tuple):
        return all(map(is_written_as_zero, rate.elts))
    return isinstance(rate, ast.Constant) and not rate.value
