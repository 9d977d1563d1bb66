"""A parameter that nothing fills: `nn.Parameter(torch.empty(n))`.

`torch.empty` and `torch.Tensor(sizes)` reserve memory and leave in it what was there. Often that is zeros from the
operating system, which is why it seems to work; after some training it is old activations, and sometimes NaN.

Measured on torch 2.13: of three `torch.empty(1000, 10)` made after tensors of that size were freed, the largest numbers
were 4.4e6, 4.7e3 and 4.4e6; a `torch.empty(64, 64)` in the same process held 4.1e6.

## Bad
    class Gate(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size, size))

        def forward(self, x):
            return x @ self.weight

## Good
    class Gate(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size, size))
            nn.init.xavier_uniform_(self.weight)

        def forward(self, x):
            return x @ self.weight

## Not reported
Parameters that are handed to a function or changed in place; those that the class or code that names it may fill: by
name, in a loop over all parameters, with a function of other code, or from a checkpoint in a project that trains
nothing; classes that build on others of other packages; `torch.Tensor(values)` of values. Where the project may load
weights of others, the finding is a question.

## Fix (unsafe)
Draws small random numbers instead: `torch.randn(...) * 0.02`. Unsafe because it changes the numbers, as it should.

## On real code
138 public repositories: no finding.

Off by default: in 28 batches of unread repositories all 4 findings were false: weights are loaded into the model, by
code that does not name it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Class,
    Context,
    Edits,
    Finding,
    Instance,
    Rule,
    Site,
    Symbol,
    replace_range,
    statement_around,
)

_EMPTY = frozenset(("torch.empty", "torch.Tensor", "torch.FloatTensor", "torch.cuda.FloatTensor"))
_LIGHTNING = ("pytorch_lightning", "lightning", "lightning.pytorch")
_BASES = frozenset(("torch.nn.Module", *(f"{name}.LightningModule" for name in _LIGHTNING)))
_LAYERS = r"Linear|Conv(Transpose)?\dd|_ConvNd|(Batch|Instance)Norm(\dd)?|(Layer|Group)Norm|Embedding|LSTM|GRU|RNN"
_FILLS = r"\binit\.\w|\.(?:normal|uniform|fill|zero|copy|trunc)\w*_\("
_INITIALIZES = r"\binit_[a-z]|[a-z]_init\b|_init_[a-z]|initiali[sz]e|\breset_(?:param|weight)"
_ALL = ("parameters", "state_dict")  # what a loop goes through that fills whatever there is
_HANDED_ON = ("self.register_parameter", "rearrange", "repeat", "einops.rearrange", "einops.repeat", "len", "print")
_TRAINS = r"\.backward\(|\bTrainer\("
_FOREIGN = r"(?i)pretrain|fine_?tun|strict=|\burl|download|\bhub\b|convert"  # of weights that others have trained

Nodes = dict[int, ast.AST]

_NOT_LOADED = Assumption("effect", "nobody loads weights of others into it")


# ------------------------------------------------------------------------------------------------- excuses


def is_touched(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """a method hands it on, changes it in place or takes `.data` of it outside of `forward`, or none reads it"""
    assert isinstance(owner.cls, Class)
    uses = ctx.attribute_uses(owner.cls, event.attribute)
    outside = (next(ctx.ancestors(use.site, ast.AST)) for use in uses if use.method != "forward")
    return not uses or not all(map(_only_reads, outside))


def is_filled_elsewhere(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """the class, or code that names it, fills this parameter or all of them"""
    assert isinstance(owner.cls, Class)
    cls, names = owner.cls, [event.attribute, *_variables_of(made)]
    words = (event.attribute, "Parameter", "parameters", "hasattr", cls.name)
    own = (node for ancestor in cls.lineage for node in ast.walk(ancestor.node))
    nodes = _without_arms([*own, *ctx.code_around(cls)], event.attribute, cls, ctx)
    if any(_fills_all(node, nodes) or _initializes(node, words, cls, ctx) for node in nodes.values()):
        return True
    if any(_fills(node, name) for node in nodes.values() for name in names):
        return True
    return any(map(_loads, nodes.values())) and not ctx.project_mentions(_TRAINS)


def builds_on_others(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """the class has ancestors in other packages, or some that go over all parameters, which may fill it"""
    assert isinstance(owner.cls, Class)
    cls = owner.cls
    goes_over = len(cls.lineage) > 1 and ctx.is_said_in(cls, r"parameters\(|state_dict|__dict__|\bapply\(")
    return goes_over or not {*cls.library_bases} <= _BASES or not cls.library_bases


class UninitializedParameter(Rule):
    code = "DL828"
    name = "uninitialized-parameter"
    category = "correctness"
    severity = "error"
    default = False
    triggers = (("Parameter",), ("empty", "Tensor", "FloatTensor"))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.empty.html",)
    excuses = (builds_on_others, is_touched, is_filled_elsewhere)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        owner, value = event.target, event.value
        if not isinstance(owner, Instance) or not isinstance(owner.cls, Class) or not isinstance(value, Instance):
            return
        made = value.arguments.get(0, "data") if value.library_name == "torch.nn.Parameter" else None
        if isinstance(made, Symbol) and _is_reserved(made, ctx) and not ctx.excused(self, event, owner, made):
            yield self._report(event, made, ctx)

    def _report(self, event: AttributeAssigned, made: Symbol, ctx: Context) -> Finding:
        assert made.site is not None
        return ctx.finding(
            self,
            made.site,
            f"`{event.attribute}` is a parameter that nothing fills: its numbers are what was in memory",
            on=[event, event.value],
            effect="the model starts from arbitrary numbers, which may be huge or NaN",
            help=f"fill it, as by `nn.init.xavier_uniform_(self.{event.attribute})`",
            trace=[(made.site, "reserves memory and sets nothing"), (event.site, "becomes a parameter")],
            fix=("Draw small random numbers", _drawn(made.site, ctx)),
            assuming=[_NOT_LOADED] if _may_be_loaded(ctx) else (),
        )


def _variables_of(made: Symbol) -> list[str]:
    """The variables that it is bound to where it is made: a helper fills them, and returns the parameter."""
    statement = statement_around(made.site) if made.site is not None else None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _only_reads(parent: ast.AST) -> bool:
    """Whether a part of it is an operand, an argument of a function of torch, or the owner of a method that copies."""
    if isinstance(parent, ast.Attribute):
        return parent.attr != "data" and not parent.attr.endswith("_")
    if isinstance(parent, ast.Call):
        called = ast.unparse(parent.func)
        return called in _HANDED_ON or (called.startswith(("torch.", "F.")) and not called.endswith("_"))
    return isinstance(parent, ast.BinOp | ast.Compare)


def _fills(node: ast.AST, attribute: str = "") -> bool:
    is_fill = isinstance(node, ast.Call) and re.search(_FILLS, f"{ast.unparse(node.func)}(") is not None
    return is_fill and attribute in ast.unparse(node)


def _fills_all(node: ast.AST, kept: Nodes) -> bool:
    """Whether a loop fills all parameters."""
    is_loop = isinstance(node, ast.For) and any(word in ast.unparse(node.iter) for word in _ALL)
    return is_loop and any(_fills(each) for each in ast.walk(node) if id(each) in kept)


def _without_arms(nodes: Iterable[ast.AST], attribute: str, cls: Class, ctx: Context) -> Nodes:
    """Nodes without those in arms of a test that lets other modules or parameters through: by how the name ends, or
    layers of torch."""
    kept = {id(node): node for node in nodes}
    for test in [node for node in kept.values() if isinstance(node, ast.If)]:
        if _is_of_others(test.test, attribute, cls, ctx):
            for each in (each for statement in test.body for each in ast.walk(statement)):
                kept.pop(id(each), None)
    return kept


def _is_of_others(test: ast.expr, attribute: str, cls: Class, ctx: Context) -> bool:
    """Whether a test is of how a name ends, and this one does not, or whether something is a layer of torch."""
    match test:
        case ast.BoolOp(ast.And(), parts) | ast.BoolOp(ast.Or(), parts):
            found = [_is_of_others(part, attribute, cls, ctx) for part in parts]
            return any(found) if isinstance(test.op, ast.And) else all(found)
        case ast.Call(ast.Attribute(ast.Name(), "endswith"), [ast.Constant(str(end))]):
            *held, last = end.split(".")
            place = rf"\b{re.escape(held[-1])}\b.{{0,3}}[=:]\s*(?:\w+\.)*{re.escape(cls.name)}\(" if held else ""
            return not attribute.endswith(last) or (bool(place) and not ctx.project_mentions(place))
        case ast.Call(ast.Name("isinstance"), [_, ast.Tuple(kinds)]):
            return all(_is_layer(kind, cls) for kind in kinds)
        case ast.Call(ast.Name("isinstance"), [_, kind]):
            return _is_layer(kind, cls)
    return False


def _is_layer(kind: ast.expr, cls: Class) -> bool:
    """Whether an expression names a class of layers that torch has, and not this one: `nn.Linear`."""
    name = ast.unparse(kind).rpartition(".")[2]
    return name != cls.name and re.fullmatch(_LAYERS, name) is not None


def _loads(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "load_state_dict"


def _may_be_loaded(ctx: Context) -> bool:
    """Whether some code loads weights that may be those of others, rather than what the project trains and saves."""
    loads = r"\.load_state_dict\("
    if ctx.program.kind == "module":
        return ctx.project_mentions(loads, where="here") and ctx.project_mentions("pretrained", where="here")
    if not ctx.project_mentions(loads):
        return False
    is_own = ctx.project_mentions(_TRAINS) and ctx.project_mentions(r"\.save\(|Checkpoint\(")
    return not is_own or ctx.project_mentions(loads, _FOREIGN)


def _initializes(node: ast.AST, words: Sequence[str], cls: Class, ctx: Context) -> bool:
    """Whether a function is called, or handed to `apply`, that may fill any parameter: one of other code, or with these
    words in it."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr == "apply" and len(node.args) == 1:
        called = node.args[0]
    elif re.search(_INITIALIZES, ast.unparse(called).rpartition(".")[2]) is None or _is_of_part(called):
        return False
    name = ast.unparse(called).rpartition(".")[2]
    found = [each for _, tree in ctx.trees(name) for each in ast.walk(tree) if getattr(each, "name", "") == name]
    is_own = ast.unparse(called).startswith("self.")
    return (not found and not is_own) or any(_has_words(each, words, cls, ctx) for each in found)


def _has_words(function: ast.AST, words: Sequence[str], cls: Class, ctx: Context) -> bool:
    """Whether a function speaks of something other than by making it: `self.weight = nn.Parameter(torch.empty(n))`."""
    kept = _without_arms(ast.walk(function), words[0], cls, ctx)
    for made in [node for node in kept.values() if isinstance(node, ast.Assign) and _is_new_parameter(node.value)]:
        for each in ast.walk(made):
            kept.pop(id(each), None)
    told = {
        part
        for node in kept.values()
        for part in (getattr(node, "attr", ""), getattr(node, "id", ""), getattr(node, "value", ""))
        if isinstance(part, str)
    }
    return any(word in part for part in told for word in words)


def _is_new_parameter(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "Parameter"


def _is_of_part(called: ast.expr) -> bool:
    """Whether it is a method of a part of the module: `self.layer.reset_parameters`."""
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Attribute)


def _is_reserved(made: Symbol, ctx: Context) -> bool:
    """Whether memory is reserved: ``torch.Tensor(3, 4)`` has sizes, ``torch.Tensor(values)`` has values."""
    if made.name not in _EMPTY or made.arguments is None or made.site is None:
        return False
    given = made.arguments.positional
    return made.name == "torch.empty" or len(given) > 1 or (len(given) == 1 and isinstance(ctx.constant(given[0]), int))


def _drawn(site: Site, ctx: Context) -> Edits:
    call = site.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return Edits()
    sizes = ", ".join(ctx.source_of(Site(site.module, each)) for each in call.args)
    rest = "".join(f", {ctx.source_of(Site(site.module, each))}" for each in call.keywords)
    return replace_range(site, f"{ctx.source_of(Site(site.module, call.func.value))}.randn({sizes}{rest}) * 0.02")
