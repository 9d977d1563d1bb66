"""A tensor that the module does not know: a parameter that was moved, or a tensor as a plain attribute.

A module registers parameters, and what `register_buffer` is told. `nn.Parameter(x).to(device)` is the result of a copy,
and no parameter any more; `torch.randn(..., requires_grad=True)` never was one. Neither is trained, saved or moved. A
random table as a plain attribute is not in the state dict: whoever loads the checkpoint draws another one.

Measured on torch 2.13: after `self.b = nn.Parameter(torch.zeros(3)).to(torch.float64)` and `self.w = torch.randn(3,
requires_grad=True)`, `named_parameters()` and `state_dict()` have 0 entries for them; a parameter that is moved is a
plain tensor with `is_leaf` false.

## Bad
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1)).cuda()

        def forward(self, x):
            return x * self.scale

## Good
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return x * self.scale

## Not reported
Attributes that `forward` does not read; those that something else handles (an optimizer that gets them, `state_dict` of
one's own, `register_buffer` of the same name); those that the constructor is given; zeros, with which recurrent layers
begin; random tensors under a seed of the class, in classes without parameters, in those that draw such numbers in other
methods, too; what the constructor registers after all, `self.b = nn.Parameter(self.b)`; casts to the precision that
it has and moves to the CPU, which do nothing, casts to one that is not known, and moves of what is no new tensor and
may be there already. As a question only:
what `forward` reads in arms alone that nothing asks for, modules that are made and that nobody calls, and random
tensors where nothing saves the model (to print a state dict is not to save it).

## On real code
168 public repositories: no finding, after two that were doubtful: zeros that a recurrent layer begins with. In 1,300
others, as they were read, 7 of 11 were true, and 4 doubtful, all of which are questions since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Class,
    Context,
    External,
    Finding,
    Guards,
    Instance,
    ModelChanged,
    Rule,
    Site,
    Symbol,
    Value,
    alternatives,
    assumed_of_options,
    nodes_of,
    statement_around,
)

_NEW = frozenset(
    ("arange", "empty", "eye", "FloatTensor", "full", "linspace", "normal", "ones", "rand", "randn", "tensor", "Tensor",
     "zeros")
)  # fmt: skip
_MOVES = ("to", "cuda", "half", "double")
_CASTS = {"half": "float16", "double": "float64"}
_LONGER = {"float": "float32", "half": "float16", "double": "float64"}
_STATES = ("torch.zeros", "torch.zeros_like", "torch.empty")  # what recurrent layers begin with
_SAVES = (  # a model: not a figure, an array or the vectors of words
    r"(?i)torch\.save|(?<![\w.])save\(|(model|net|network)\w*\.save|save_(model|pretrained|weights|checkpoint)"
    r"|(pickle|joblib|dill)\.dump|(?<!\.)\bstate_dict|load_state_dict|trainer|lightning|checkpoint"
)
_RANDOM = ("torch.randn", "torch.rand", "torch.normal", "torch.randperm", "torch.randint")


# ------------------------------------------------------------------------------------------------- excuses


def is_not_of_forward(event: AttributeAssigned, owner: Instance, value: Value, ctx: Context) -> bool:
    """`forward` does not read it, or something besides the constructor sets it"""
    assert isinstance(owner.cls, Class)
    return event.frame.function != "__init__" or not _is_read_by_forward(owner.cls, event.attribute, ctx)


def is_handed_in(event: AttributeAssigned, owner: Instance, value: Value, ctx: Context) -> bool:
    """the constructor is given it, by code that may train and move it"""
    statement = statement_around(event.site)
    given = statement.value if isinstance(statement, ast.Assign) else None
    constructor = event.frame.definition.node if event.frame.definition is not None else None
    if not isinstance(given, ast.Name) or not isinstance(constructor, ast.FunctionDef):
        return False
    return given.id in {each.arg for each in (*constructor.args.args, *constructor.args.kwonlyargs)}


def is_handled(event: AttributeAssigned, owner: Instance, value: Value, ctx: Context) -> bool:
    """other code handles it: it names the attribute, or the class keeps its own books

    A parameter that was moved is no leaf, which no optimizer takes: only another value of the attribute helps it.
    """
    assert isinstance(owner.cls, Class)
    keeps = r"def (state_dict|parameters|_apply|to|load_state_dict)\b|register_|manual_seed|persist"
    if ctx.is_said_in(owner.cls, keeps):
        return True
    if isinstance(value, Instance):
        return ctx.project_mentions(rf"(?<!self)\.{event.attribute}\s*=(?!=)")
    trees = (nodes_of(tree) for _, tree in ctx.trees(event.attribute))
    named = (ast.unparse(node.value) for tree in trees for node in tree.attributes.get(event.attribute, ()))
    return any(text != "self" for text in named) or ctx.project_mentions(rf"(?<!self)\.{event.attribute}\b")


def is_drawn_anew(event: AttributeAssigned, owner: Instance, value: Value, ctx: Context) -> bool:
    """the class draws such numbers in other methods, too: any will do, and these are for looking at results"""
    assert isinstance(owner.cls, Class)
    made, statement = _before_move(value), statement_around(event.site)
    if statement is None or not isinstance(made, Symbol) or made.name not in _RANDOM:
        return False
    calls = {ast.unparse(each.func) for each in ast.walk(statement) if isinstance(each, ast.Call)}
    methods = [each for each in owner.cls.node.body if getattr(each, "name", "__init__") != "__init__"]
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) in calls
        for method in methods
        for node in ast.walk(method)
    )


def is_set_again(event: AttributeAssigned, owner: Instance, value: Value, ctx: Context) -> bool:
    """the constructor makes a parameter of it afterwards, or something else that is no such tensor"""
    return any(
        later.target is owner
        and later.attribute == event.attribute
        and ctx.position(later) > ctx.position(event)
        and not ctx.exclusive(event, later)
        and not any(_what_is_wrong(later, option, ctx) for _, option in alternatives(later.value))
        for later in ctx.all_of(AttributeAssigned)
    )


def _is_read_by_forward(cls: Class, attribute: str, ctx: Context) -> bool:
    """Whether `forward` reads an attribute, or calls a method that does."""
    return "forward" in _readers(cls, attribute, ctx)


def _readers(cls: Class, attribute: str, ctx: Context) -> set[str]:
    """The methods that read an attribute, or call one that does."""
    pending, seen = [attribute], set[str]()
    for name in pending:  # which grows meanwhile
        users = {use.method for use in ctx.attribute_uses(cls, name)} - seen
        seen |= users
        pending += users - {"__init__"}
    return seen


def _assumed_of_reads(owner: Instance, attribute: str, ctx: Context) -> Iterator[Assumption]:
    """That somebody calls the module where it is made, and asks for what reads the attribute."""
    assert isinstance(owner.cls, Class)
    made = ctx.callers(Site(owner.cls.module, owner.cls.node))
    if made and not any(map(ctx.is_read_at, made)):
        yield Assumption("effect", "somebody calls the module, which no code that makes it does")
    uses = [each for each in ctx.attribute_uses(owner.cls, attribute) if each.method != "__init__"]
    assumed = [tuple(ctx.switched_off(each.site)) for each in uses]
    if all(assumed):
        yield from next(iter(assumed), ())


class UnregisteredTensor(Rule):
    code = "DL827"
    name = "unregistered-tensor"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("Parameter", "requires_grad", "randn", "rand", "normal", "randperm", "randint"), ("Module",))
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",)
    excuses = (is_not_of_forward, is_handed_in, is_handled, is_drawn_anew, is_set_again)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        owner, options = event.target, alternatives(event.value)
        if not isinstance(owner, Instance) or not isinstance(owner.cls, Class) or not ctx.is_module(owner):
            return
        for guards, value in options:
            what = _what_is_wrong(event, value, ctx) if value.site is not None else ""
            is_alone = len(options) == 1 and ctx.has_parameters(owner)
            if what and (what != "random" or is_alone) and not ctx.excused(self, event, owner, value):
                yield self._report(event, owner, value, guards, what, ctx)
                return

    def _report(
        self, event: AttributeAssigned, owner: Instance, value: Value, guards: Guards, what: str, ctx: Context
    ) -> Finding:
        messages = {
            "moved": "`{}` is no parameter: moving one makes a plain tensor",
            "learned": "`{}` is a plain tensor with gradients, and no parameter of the module",
            "random": "`{}` is a random tensor that is not in the state dict",
        }
        assert value.site is not None
        is_random = what == "random"
        return ctx.finding(
            self,
            event,
            messages[what].format(event.attribute),
            on=[guards, value],
            assuming=[
                *assumed_of_options(event.value, "the value"),
                *_assumed_of_reads(owner, event.attribute, ctx),
                *(_is_saved(ctx) if is_random else ()),
            ],
            effect="who loads the checkpoint draws other numbers, and the model that was trained is lost"
            if is_random
            else "it is never trained, saved or moved with the module",
            help=f"call `self.register_buffer({event.attribute!r}, ...)`"
            if is_random
            else "make it an `nn.Parameter`, and move the module",
            trace=[
                *ctx.class_hop(event.target),
                (value.site, "is made here"),
                (event.site, "and the module does not register it"),
            ],
        )


def _what_is_wrong(event: AttributeAssigned, value: Value, ctx: Context) -> str:
    if isinstance(value, Instance):
        return "moved" if value.library_name == "torch.nn.Parameter" and _is_moved(event, value, ctx) else ""
    made = _before_move(value)
    if not isinstance(made, Symbol) or not made.name.startswith("torch.") or made.arguments is None:
        return ""
    flag = made.arguments.keywords.get("requires_grad")
    if flag is not None and ctx.constant(flag) is True and made.name not in _STATES:
        return "learned"
    return "random" if made.name in _RANDOM else ""


def _is_saved(ctx: Context) -> Iterator[Assumption]:
    """That somebody saves the model, if nothing in the project saves anything."""
    if ctx.sees_whole_project and not ctx.project_mentions(_SAVES):
        yield Assumption("effect", "somebody saves the model, which nothing in the project does")


def _before_move(value: Value) -> Value:
    """What was made, before it was moved."""
    return value.inputs[0] if isinstance(value, Symbol) and value.name in (".to", ".cuda") and value.inputs else value


def _is_moved(event: AttributeAssigned, parameter: Instance, ctx: Context) -> bool:
    """Whether what is assigned is written as ``nn.Parameter(...).to(device)``, and another tensor comes of that."""
    statement = statement_around(event.site)
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or parameter.site is None:
        return False
    is_moved = call.func.attr in _MOVES and call.func.value is parameter.site.node
    moves = (each for each in ctx.all_of(ModelChanged) if each.model is parameter and each.site.node is call)
    return is_moved and _is_made_on_cpu(parameter) and all(_changes_it(each, parameter, ctx) for each in moves)


def _changes_it(move: ModelChanged, parameter: Instance, ctx: Context) -> bool:
    """Whether a move or cast certainly makes another tensor: the same device and precision give the same parameter."""
    made = _data_of(parameter)
    own = made.arguments.keywords.get("dtype") if isinstance(made, Symbol) and made.arguments is not None else None
    precision = _precision(own) if own is not None else "float32"
    if move.action in _CASTS:
        return precision not in ("", _CASTS[move.action])
    given = [value for name, value in move.arguments.keywords.items() if name not in ("non_blocking", "copy")]
    return move.action == "cuda" or any(
        precision not in ("", _precision(each)) if _is_dtype(each) else not _is_cpu(each, ctx)
        for each in (*move.arguments.positional, *given)
        if not _is_unknown_dtype(each, move)
    )


def _is_dtype(value: Value) -> bool:
    return isinstance(value, External) and value.name.startswith("torch.")


def _precision(dtype: Value) -> str:
    """What a type is called, under the longer of its names; empty if it is not known."""
    name = dtype.name.removeprefix("torch.") if isinstance(dtype, External) else ""
    return _LONGER.get(name, name)


def _is_unknown_dtype(value: Value, move: ModelChanged) -> bool:
    """Whether a value may be a type, perhaps the one that the parameter has: ``.to(dtype)``, ``.to(x.dtype)``."""
    is_told = move.arguments.keywords.get("dtype") is value
    is_read = isinstance(value, Symbol) and "dtype" in (value.hint, value.detail)
    return not isinstance(value, External) and (is_told or is_read)


def _is_cpu(device: Value, ctx: Context) -> bool:
    """Whether a device is the CPU, where a new tensor is."""
    name = device.arguments.get(0, "device") if isinstance(device, Instance) else device
    if isinstance(device, Symbol) and device.name == "torch.device" and device.inputs:
        name = device.inputs[0]
    return name is not None and ctx.constant(name) in ("cpu", True, False)


def _data_of(parameter: Instance) -> Value | None:
    return parameter.arguments.get(0, "data")


def _is_made_on_cpu(parameter: Instance) -> bool:
    """Whether a parameter is a new tensor that nobody has moved yet; any other may be where it is moved to."""
    made = _data_of(parameter)
    tensor = made.site.node if made is not None and made.site is not None else None
    is_new = isinstance(made, Symbol) and made.name.rpartition(".")[2] in _NEW and made.name.startswith("torch.")
    return is_new and isinstance(tensor, ast.Call) and all(each.arg != "device" for each in tensor.keywords)
