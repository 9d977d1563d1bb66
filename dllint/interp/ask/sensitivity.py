"""Whether a module behaves differently in training and in evaluation mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives
from dllint.dataclass import dataclass
from dllint.events import AttributeAssigned
from dllint.interp.ask.built_layers import builds_sensitive_layer
from dllint.interp.ask.dropout import drops_inside, drops_nothing, has_rate, is_told_to_drop_nothing, is_zero
from dllint.interp.ask.mode_reads import asks_for_mode
from dllint.interp.ask.norms import has_batch_norm
from dllint.interp.ask.parameter_holders import only_holds_parameters
from dllint.interp.ask.settings_in_files import is_off_by_default
from dllint.interp.ask.used_parts import Use, is_passed_over, use_of
from dllint.interp.run.classes import has_unknown_base, role_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.tensor_names import MAKES_TENSOR
from dllint.sites import Guards
from dllint.values import Absent, Class, Const, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_PLAIN = ("vit_tiny_", "vit_small_", "vit_base_", "vit_large_", "vit_huge_", "deit_")  # of timm
_CONTAINERS = frozenset(
    ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.DataParallel",
     "torch.nn.parallel.DistributedDataParallel", "torch.compile", "accelerate.PreparedModel")
)  # fmt: skip
_WORDS = re.compile(r"[dD]ropout|drop_?(prob|rate|path)|BatchNorm|batch_norm")
_NORMS = re.compile(r"BatchNorm|batch_norm")
_ARITHMETIC = frozenset(("-", "/", "//", "%", "**"))  # lists of layers are added and multiplied
_RATE_OF_ZERO = re.compile(r"\w*drop\w*(: \w+)? ?= ?0(\.0*)?(?![\w.])")


class Sensitivity(IntEnum):
    """What is known of whether a module depends on the mode; of several parts, the highest counts.

    Attributes:
        NONE: no layer does.
        OFF: one does, which is there only where a setting has another value than by default.
        UNKNOWN: not all layers are known, and nothing speaks for one that does.
        UNTOLD: one may drop something, at a rate that nothing tells.
        WORDS: words in the code speak for one that does.
        BUILT: the code names one that does, and makes it in any case.
        KNOWN: one does.
    """

    NONE = 0
    OFF = 1
    UNKNOWN = 2
    UNTOLD = 3
    WORDS = 4
    BUILT = 5
    KNOWN = 6


_LISTING = ("list", "tuple", "slice", "item", "element", "iter", "next")  # ways to some of the children of a module
# Their last child, the classifier, has all that depends on the mode: https://docs.pytorch.org/vision/stable/models/vgg.html
_DROPS_LAST = re.compile(r"torchvision\.models\.(?:vgg(?:11|13|16|19)|alexnet|squeezenet1_[01])")
_KNOWN_OR_NOT = {True: Sensitivity.KNOWN, False: Sensitivity.UNKNOWN}


@dataclass(slots=True)
class _Search:
    """What one question has found out so far: the parts of a module with their answers, by identity.

    ``whole`` is the module that the question is about, which is called; of its parts, any method may be.
    ``as_loaded`` takes parts that ``from_pretrained`` returned to be in evaluation mode, as they are then. Those that
    are ``switched``, by identity, have a mode of their own, whatever that of the whole is.
    ``conditions`` are those under which an object is given a value as an attribute, by all of these. ``uses`` has what
    the code of a class uses, by its identity and whether it is the whole.
    """

    machine: Machine
    whole: Value
    as_loaded: bool
    switched: Set[int]
    conditions: dict[tuple[int, str, int], list[Guards]]
    known: dict[int, tuple[Value, Sensitivity]] = field(default_factory=dict)
    uses: dict[tuple[int, bool], Use] = field(default_factory=dict)


def sensitivity_of(
    machine: Machine,
    value: Value,
    assigned: Iterable[AttributeAssigned],
    *,
    as_loaded: bool = False,
    switched: Set[int] = frozenset(),
) -> Sensitivity:
    """What is known of whether a module depends on the mode.

    With ``as_loaded``, nobody has set the mode of it as a whole: what ``from_pretrained`` returned is in evaluation
    mode. The parts that are ``switched``, by identity, do not count: their mode is set by itself. ``assigned`` are the
    attributes that the program sets, which tell under which conditions a module has a layer.
    """
    conditions: dict[tuple[int, str, int], list[Guards]] = {}
    for event in assigned:
        conditions.setdefault((id(event.target), event.attribute, id(event.value)), []).append(event.guards)
    return _answer(_Search(machine, value, as_loaded, switched, conditions), value)


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


def _answer(search: _Search, value: Value) -> Sensitivity:
    if isinstance(value, Const | Setting | Absent) or (isinstance(value, Symbol) and value.detail == "<items>"):
        return Sensitivity.NONE  # the last is what a container holds where nothing has been appended
    if isinstance(value, Symbol) and (value.name in _ARITHMETIC or MAKES_TENSOR.fullmatch(value.name)):
        return Sensitivity.NONE  # a number, such as a size or a rate, or a state that begins with zeros
    known = search.known.get(id(value))
    if known is not None:
        return known[1]
    search.known[id(value)] = value, Sensitivity.NONE  # what is a part of itself adds nothing
    found = _of_parts(search, value)
    search.known[id(value)] = value, found
    return found


def _of_parts(search: _Search, value: Value) -> Sensitivity:
    if isinstance(value, Choice):
        return _highest(_of_option(search, guards, option) for guards, option in value.options)
    if isinstance(value, Items):
        return _highest(_answer(search, item) for item in value.items)
    if isinstance(value, Table):
        return _highest(_answer(search, item) for item in value.contents.values())
    if isinstance(value, Instance):
        return _of_instance(search, value)
    return _of_children(search, value) if isinstance(value, Symbol) else Sensitivity.UNKNOWN


def _of_children(search: _Search, value: Symbol) -> Sensitivity:
    """What is known of some of the children of a network: `list(gpt2.children())[0]`, `list(vgg.children())[:-1]`.

    They are in the mode that the network came in. Of those of a library's, which have a part of its layers each, a norm
    is known where they all normalize.
    """
    part: Value = value
    is_last_cut = False
    while isinstance(part, Symbol) and part.inputs:
        whole = part.inputs[0]
        drops_last = isinstance(whole, Instance) and _DROPS_LAST.fullmatch(whole.library_name) is not None
        if part.name == "attribute" and drops_last and part.detail in ("features", "avgpool"):
            return Sensitivity.NONE
        if part.name == "children":
            is_none = (drops_last and is_last_cut) or _answer(search, whole) is Sensitivity.NONE
            return Sensitivity.NONE if is_none else _KNOWN_OR_NOT[has_batch_norm(search.machine, whole)]
        if part.name not in _LISTING:
            break
        stop = part.inputs[2] if part.name == "slice" and len(part.inputs) > 2 else None
        is_last_cut |= isinstance(stop, Const) and isinstance(stop.value, int) and stop.value < 0
        part = whole
    return Sensitivity.UNKNOWN


def _of_option(search: _Search, guards: Guards, option: Value) -> Sensitivity:
    """What is known of one of several parts, which may be there under some conditions only."""
    found = _answer(search, option)
    is_off = found > Sensitivity.UNKNOWN and is_off_by_default(search.machine, guards)
    return Sensitivity.OFF if is_off else found


def _highest(answers: Iterable[Sensitivity]) -> Sensitivity:
    return max(answers, default=Sensitivity.NONE)


def _of_instance(search: _Search, value: Instance) -> Sensitivity:
    facts = search.machine.facts
    name = value.library_name
    if search.as_loaded and name.startswith("transformers.") and name.endswith(".from_pretrained"):
        return Sensitivity.NONE
    if id(value) in search.switched:
        return Sensitivity.NONE
    if "BatchNorm" in name and name in facts.mode_sensitive:
        return _of_statistics(value, 3 if "Lazy" in name else 4, kept_by_default=True)
    if name in facts.mode_sensitive:
        return _if(has_rate(value))
    if name in facts.mode_sensitive_with_dropout:
        return _if(drops_inside(value))
    if "InstanceNorm" in name and name in facts.mode_insensitive:
        return _of_statistics(value, 4, kept_by_default=False)
    if name in facts.mode_insensitive or name in facts.loss_functions:
        return Sensitivity.NONE
    if name.startswith(facts.mode_insensitive_prefixes):
        return Sensitivity.NONE
    if name in facts.mode_insensitive_by_default:
        is_told = any(key.startswith(("norm", "drop")) for key in value.arguments.keywords)
        return Sensitivity.UNKNOWN if is_told else Sensitivity.NONE
    if facts.role(name) == "wrapper" and name not in _CONTAINERS and value.arguments.positional:
        return _answer(search, value.arguments.positional[0])
    if name in _CONTAINERS:
        appended = value.attributes.get("<items>")
        parts = [*value.arguments.all(), *([appended] if appended is not None else [])]
        return _highest(_answer(search, part) for part in parts)
    if name == "timm.create_model" and _has_no_rates(value):
        return Sensitivity.NONE
    last = value.attributes.get("classifier") if _DROPS_LAST.fullmatch(name) else None
    if isinstance(last, Instance) and _answer(search, last) is Sensitivity.NONE:
        return Sensitivity.NONE  # it has taken the place of the one with its dropout
    if not isinstance(value.cls, Class):
        is_known = name.startswith(facts.mode_sensitive_prefixes) and not is_told_to_drop_nothing(value)
        return Sensitivity.KNOWN if is_known else Sensitivity.UNKNOWN
    return _of_project_module(search, value, value.cls)


def _has_no_rates(value: Instance) -> bool:
    """Whether a model of timm is a plain vision transformer, whose rates of dropout are all zero unless it is told.

    https://huggingface.co/docs/timm/reference/models, ``timm.models.vision_transformer``
    """
    told = value.arguments.get(0, "model_name")
    name = told.value if isinstance(told, Const) else None
    is_plain = isinstance(name, str) and name.startswith(_PLAIN) and "_patch" in name
    return is_plain and value.arguments.exact and not any("drop" in key for key in value.arguments.keywords)


def _if(condition: bool | None) -> Sensitivity:
    if condition is None:
        return Sensitivity.UNTOLD
    return Sensitivity.KNOWN if condition else Sensitivity.NONE


def _of_statistics(value: Instance, place: int, *, kept_by_default: bool) -> Sensitivity:
    """A norm depends on the mode if it keeps statistics of what it sees, to use them in evaluation mode.

    Otherwise it takes those of the batch in both modes (`torch.nn.BatchNorm2d <https://docs.pytorch.org/docs/stable/
    generated/torch.nn.BatchNorm2d.html>`_, ``track_running_stats``).
    """
    kept = value.arguments.get(place, "track_running_stats")
    if kept is None:
        return _if(kept_by_default)
    if isinstance(kept, Const):
        return _if(bool(kept.value))
    if isinstance(kept, Setting):
        return Sensitivity.OFF if is_zero(kept.default) else Sensitivity.KNOWN
    return Sensitivity.KNOWN if kept_by_default else Sensitivity.UNKNOWN


def _of_project_module(search: _Search, value: Instance, cls: Class) -> Sensitivity:
    """What the parts say; what they leave open is decided by the code, and by the words that it has for layers."""
    code = "\n".join(_code_of(ancestor) for ancestor in cls.lineage)
    key = (id(cls), value is search.whole)
    use = search.uses[key] = search.uses.get(key) or use_of(cls, called=key[1])
    asks = _if(asks_for_mode(value, cls, use.methods))
    answers = [Sensitivity.UNKNOWN if has_unknown_base(cls) else Sensitivity.NONE, asks]
    for name, attribute in value.attributes.items():
        reads = use.of(name)
        if reads == [] or is_passed_over(value, reads or []) or only_holds_parameters(cls, name):
            continue
        is_called = f"self.{name}(" in code
        for guards, option in alternatives(attribute):
            if id(option) in search.switched:
                continue  # also of one that is not known
            if isinstance(option, Items | Table) or role_of(search.machine, option) in ("module", "wrapper"):
                found = _of_option(search, guards, option)
                is_unmet = is_passed_over(value, reads or [], by_default=True)
                is_off = found > Sensitivity.UNKNOWN and (is_unmet or _is_left_out(search, value, cls, name))
                answers.append(Sensitivity.OFF if is_off else found)
            elif is_called and isinstance(option, Instance | Symbol):
                # what is not called is a setting, or what was read of one
                answers.append(_of_children(search, option) if isinstance(option, Symbol) else Sensitivity.UNKNOWN)
    whole = _highest(answers)
    if whole is not Sensitivity.UNKNOWN and whole is not Sensitivity.WORDS:
        return whole
    if builds_sensitive_layer(search.machine, value, cls):
        return Sensitivity.BUILT
    words = _NORMS if drops_nothing(value, cls) else _WORDS
    return Sensitivity.WORDS if words.search(_RATE_OF_ZERO.sub("", code)) else whole


def _is_left_out(search: _Search, value: Instance, cls: Class, name: str) -> bool:
    """Whether a module is given an attribute only where its own code asks for a setting that is off by default."""
    ways = search.conditions.get((id(value), name, id(value.attributes[name])), ())
    if not ways:
        return False
    own = {id(node) for ancestor in cls.lineage for node in nodes_of(ancestor.node).all}
    inner = (tuple(guard for guard in guards if id(guard.node) in own) for guards in ways)
    return all(is_off_by_default(search.machine, guards) for guards in inner)


def _code_of(cls: Class) -> str:
    """The source of a class without its comments."""
    source = cls.module.source
    last = cls.node.end_lineno or cls.node.lineno
    return "\n".join(source.line_text(number).partition("#")[0] for number in range(cls.node.lineno, last + 1))
