"""Whether a module behaves differently in training and in evaluation mode."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.interp.run.classes import has_unknown_base, role_of
from dllint.interp.source.tensor_names import MAKES_TENSOR
from dllint.values import Absent, Class, Const, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_CONTAINERS = frozenset(
    ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.DataParallel",
     "torch.nn.parallel.DistributedDataParallel", "torch.compile", "accelerate.PreparedModel")
)  # fmt: skip
_PLACE_OF_DROPOUT = {"TransformerEncoderLayer": 3, "TransformerDecoderLayer": 3, "Transformer": 5}
# Functions such as `F.dropout` depend on the mode by what they are told, which names it. What is only asked in order to
# save memory changes no result.
_ASKS_FOR_MODE = re.compile(r"^(?!.*checkpoint).*\.training\b", re.MULTILINE)
_WORDS = re.compile(r"[dD]ropout|drop_?(prob|rate|path)|BatchNorm|batch_norm")
_NORMS = re.compile(r"BatchNorm|batch_norm")
_ARITHMETIC = frozenset(("-", "/", "//", "%", "**"))  # lists of layers are added and multiplied
_REORDERING = frozenset(("list", "tuple", "reversed", "sorted", ".copy"))
_RATE_OF_ZERO = re.compile(r"\w*drop\w*(: \w+)? ?= ?0(\.0*)?(?![\w.])")


@dataclass(slots=True)
class _Search:
    """What one question has found out so far: the parts of a module with their answers, by identity.

    ``by_words`` lets words in the code decide what the parts leave open. ``as_loaded`` takes parts that
    ``from_pretrained`` returned to be in evaluation mode, as they are then.
    """

    machine: Machine
    by_words: bool = True
    as_loaded: bool = False
    known: dict[int, tuple[Value, bool | None]] = field(default_factory=dict)


def is_mode_sensitive(machine: Machine, value: Value, *, by_words: bool = True, as_loaded: bool = False) -> bool | None:
    """``True`` if some part of a module depends on the mode, ``False`` if none does, ``None`` if that is not known.

    With ``by_words``, the words that the code of a module has for layers tell of those that could not be resolved.
    With ``as_loaded``, nobody has set a mode: what ``from_pretrained`` returned is in evaluation mode.
    """
    return _answer(_Search(machine, by_words, as_loaded), value)


def has_unknown_layers(machine: Machine, value: Value) -> bool:
    """Whether the code of a module calls parts of it that something unresolved made."""
    if not isinstance(value, Instance) or not isinstance(value.cls, Class):
        return False
    code = "\n".join(_code_of(ancestor) for ancestor in value.cls.lineage)
    return any(
        _is_unresolved(option)
        for name, attribute in value.attributes.items()
        if f"self.{name}(" in code
        for _, option in alternatives(attribute)
    )


def _is_unresolved(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name == "call"


def _answer(search: _Search, value: Value) -> bool | None:
    if isinstance(value, Const | Setting | Absent) or (isinstance(value, Symbol) and value.detail == "<items>"):
        return False  # the last is what a container holds where nothing has been appended
    if isinstance(value, Symbol) and (value.name in _ARITHMETIC or MAKES_TENSOR.fullmatch(value.name)):
        return False  # a number, such as a size or a rate, or a state that begins with zeros
    known = search.known.get(id(value))
    if known is not None:
        return known[1]
    search.known[id(value)] = value, False  # what is a part of itself adds nothing
    found = _of_parts(search, value)
    search.known[id(value)] = value, found
    return found


def _of_parts(search: _Search, value: Value) -> bool | None:
    if isinstance(value, Choice):
        return _any(_answer(search, option) for _, option in value.options)
    if isinstance(value, Items):
        return _any(_answer(search, option) for item in value.items for _, option in alternatives(item))
    if isinstance(value, Table):
        return _any(_answer(search, item) for item in value.contents.values())
    if isinstance(value, Instance):
        return _of_instance(search, value)
    return None


def _any(answers: object) -> bool | None:
    found = list(answers)  # type: ignore[call-overload]
    if any(answer is True for answer in found):
        return True
    return None if any(answer is None for answer in found) else False


def _of_instance(search: _Search, value: Instance) -> bool | None:
    facts = search.machine.facts
    name = value.library_name
    if search.as_loaded and name.startswith("transformers.") and name.endswith(".from_pretrained"):
        return False
    if name in facts.mode_sensitive:
        return _has_rate(value)
    if name in facts.mode_sensitive_with_dropout:
        return _drops_inside(value)
    if name in facts.mode_insensitive or name in facts.loss_functions:
        return False
    if name.startswith(facts.mode_insensitive_prefixes):
        return False
    if name in facts.mode_insensitive_by_default:
        return None if any(key.startswith(("norm", "drop")) for key in value.arguments.keywords) else False
    if facts.role(name) == "wrapper" and name not in _CONTAINERS and value.arguments.positional:
        return _any(_answer(search, o) for _, o in alternatives(value.arguments.positional[0]))
    if name in _CONTAINERS:
        appended = value.attributes.get("<items>")
        parts = [*value.arguments.all(), *([appended] if appended is not None else [])]
        return _any(_answer(search, part) for part in parts)
    if not isinstance(value.cls, Class):
        return True if name.startswith(facts.mode_sensitive_prefixes) else None
    return _of_project_module(search, value, value.cls)


def _has_rate(value: Instance) -> bool:
    """Dropout with a rate of zero changes nothing."""
    name = value.library_name.rpartition(".")[2]
    place = (0, "p") if "Dropout" in name else (_PLACE_OF_DROPOUT.get(name), "dropout")
    rate = value.arguments.get(*place)
    return rate is None or not _is_zero(rate)


def _drops_inside(value: Instance) -> bool:
    """Whether a layer was given a rate of dropout, and has something to drop.

    A recurrent layer drops between its layers (`torch.nn.LSTM <https://docs.pytorch.org/docs/stable/generated/
    torch.nn.LSTM.html>`_): with one, which is the default, it drops nothing.
    """
    is_attention = value.library_name == "torch.nn.MultiheadAttention"
    dropout = value.arguments.get(2 if is_attention else 5, "dropout")
    layers = value.arguments.get(2, "num_layers")
    if dropout is None or _is_zero(dropout):
        return False
    return is_attention or not (layers is None or (isinstance(layers, Const) and layers.value == 1))


def _of_project_module(search: _Search, value: Instance, cls: Class) -> bool | None:
    """What the parts say; what they leave open is decided by the words that the code has for layers."""
    code = "\n".join(_code_of(ancestor) for ancestor in cls.lineage)
    answers: list[bool | None] = [None if has_unknown_base(cls) else False, bool(_ASKS_FOR_MODE.search(code))]
    for name, attribute in value.attributes.items():
        is_called = f"self.{name}(" in code
        for _, option in alternatives(attribute):
            if isinstance(option, Items | Table) or role_of(search.machine, option) in ("module", "wrapper"):
                answers.append(_answer(search, option))
            elif is_called and isinstance(option, Instance | Symbol):
                answers.append(None)  # else it is a setting, or what was read of one
    whole = _any(answers)
    if whole is not None or not search.by_words:
        return whole
    words = _NORMS if _drops_nothing(value, cls) else _WORDS
    return True if words.search(_RATE_OF_ZERO.sub("", code)) else None


def _drops_nothing(value: Instance, cls: Class) -> bool:
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
        _is_zero(rate) if (rate := given.get(name)) is not None else _is_zero_by_default(defaults.get(name))
        for name in rates
    )


def _is_zero(rate: Value) -> bool:
    """Whether a rate is zero or not given, at least by default: of a list with one for each layer, all of them."""
    if isinstance(rate, Setting):
        return _is_zero(rate.default)
    if isinstance(rate, Choice):
        return all(_is_zero(option) for _, option in alternatives(rate))
    if isinstance(rate, Items):
        return all(map(_is_zero, rate.items))
    if isinstance(rate, Symbol) and rate.name in _REORDERING and rate.inputs:
        return _is_zero(rate.inputs[0])
    return isinstance(rate, Const) and not rate.value


def _is_zero_by_default(default: ast.expr | None) -> bool:
    if isinstance(default, ast.List | ast.Tuple):
        return all(map(_is_zero_by_default, default.elts))
    return isinstance(default, ast.Constant) and not default.value


def _code_of(cls: Class) -> str:
    """The source of a class without its comments."""
    source = cls.module.source
    last = cls.node.end_lineno or cls.node.lineno
    return "\n".join(source.line_text(number).partition("#")[0] for number in range(cls.node.lineno, last + 1))
