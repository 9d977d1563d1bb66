"""A layer that is made in the constructor, and that no code uses.

The layer is there: it is counted, saved and handed to the optimizer, which never moves it, as it has no gradient. What
`forward` computes is another network than the constructor describes: a layer was forgotten, or its neighbor was called
twice. `DistributedDataParallel` stops with an error, as it waits for gradients that never come.

Measured on torch 2.13 (a network of three layers whose second is never called): after 200 steps of AdamW the weight of
the second is what it was at the start, to the last bit, and stands in the state dict like the others.

## Bad
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(64, 64)
            self.fc2 = nn.Linear(64, 64)

        def forward(self, x):
            return self.fc1(F.relu(self.fc1(x)))

## Good
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(64, 64)
            self.fc2 = nn.Linear(64, 64)

        def forward(self, x):
            return self.fc2(F.relu(self.fc1(x)))

## Not reported
Layers without parameters; classes that look up their layers by name or go over them, other than to set their weights,
or that a library has written `forward` for, or whose `forward` calls nothing, or has an arm that is not written yet
(`pass`, a `TODO`); layers that other code reads off an object of the class, or off what may be one while no other class
has an attribute of that name (where others have, the finding is a question); layers of which a comment has a use that
was switched off; the last layers of a class that has pretrained weights, whose state dict has to fit (others in its
file are a question, and so are last layers that another class of the same name does use). To set the weights of a
layer, or to give it a hook, is no use of it.

## On real code
233 public repositories: 16 findings in 6, all true: layers that were forgotten or left over, 8 of them in a class
whose `forward` uses other names than its constructor. Three others were not: two stubs, and a layer that pretrained
weights have; all are silent now. In 44 others 4, 1 of them true; the others were for a part that is not written yet.

Of bugs that were written into 40 places of other repositories, which nobody had looked at, it finds 33, 18 of them as
questions.

It is a warning where a neighbor of the same kind, whose name differs in one word, is called twice instead; then layers
of classes of the project count as well. Otherwise it is a note: of 50 findings in 31 batches of unread repositories 25
were true, 6 false and 19 doubtful: drafts, layers that are left out on purpose, and some that only tell a function
which device the module is on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Class,
    Context,
    Finding,
    Instance,
    Items,
    Rule,
    Site,
    Table,
    alternatives,
    attribute_of,
    flatten,
    is_placeholder,
)

_BASES = (
    "torch.nn.Module",
    "pytorch_lightning.LightningModule",
    "lightning.LightningModule",
    "lightning.pytorch.LightningModule",
    "mmcv.runner.BaseModule",
    "mmengine.model.BaseModule",
)
_NO_FORWARD = ("abc.ABC", "typing.Generic")  # bases that bring no method
_LOOKUPS = frozenset(("children", "named_children", "_modules", "getattr", "__dict__", "__getattr__", "get_submodule"))
_LOOKING = frozenset(("vars", "eval", "exec", "locals"))  # functions: `self.eval()` is another matter

_KEEPING = (ast.Return, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Await)
_SETTING = re.compile(r"(?i)init|normal|uniform|constant|zero|ones|fill|kaiming|xavier|orthogonal|reset")
_ASKING = frozenset(
    (
        "isinstance",
        "hasattr",
        "getattr",
        "print",
        "type",
        "len",
        "str",
        "items",
        "values",
        "keys",
        "parameters",
        "named_parameters",
        "children",
        "named_children",
        "modules",
        "size",
        "dim",
        "sqrt",
    )
)

_NOT_TO_FIT = Assumption("effect", "it is not only there for pretrained weights to fit")
_USERS = ("optimizer", "scheduler")  # which have the parameters of all layers
_WEIGHTS = frozenset(("weights", "params", "parameters", "fast_weights", "vars", "theta"))
_PRETRAINED = frozenset(("pretrained", "load_url", "model_zoo", "load_state_dict_from_url"))
_OPEN = re.compile(r"(?i)#.*(\btodo\b|\bfixme\b|placeholder|not (yet )?implemented|to be implemented)")
_LEFT_OUT = re.compile(r"(?i)#.*(unused|not used)")  # beside a layer: in `forward` it may be said of anything


# ------------------------------------------------------------------------------------------------- excuses


def is_looked_up(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """the class goes over its layers, other than to set their weights, or looks them up by a name that is computed"""
    nodes = [node for each in cls.lineage for node in _not_in_preparations(each.node)]
    others = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _asks_others(node, event.attribute)}
    return any(
        getattr(node, "attr", getattr(node, "id", "")) in _LOOKUPS or getattr(node, "id", "") in _LOOKING
        for node in nodes
        if id(node) not in others
    )


def _asks_others(call: ast.Call, name: str) -> bool:
    """Whether a call is `getattr` with a name that certainly is another one: `f"layer{i}"` is never `head`."""
    asked = call.args[1] if len(call.args) > 1 and getattr(call.func, "id", "") == "getattr" else None
    while isinstance(asked, ast.BinOp) and isinstance(asked.op, ast.Add | ast.Mod):
        asked = asked.left
    if isinstance(asked, ast.JoinedStr):
        begins = asked.values[0] if asked.values else None
        return isinstance(begins, ast.Constant) and not name.startswith(str(begins.value))
    if not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
        return False
    begins_with = re.split(r"[%{]", asked.value)[0]
    is_whole = asked is call.args[1]
    return name != asked.value if is_whole else not name.startswith(begins_with)


def _not_in_preparations(cls: ast.AST) -> Iterator[ast.AST]:
    """What stands in a class, but for loops that only set weights."""
    pending = [cls]
    while pending:
        node = pending.pop()
        if not isinstance(node, ast.For) or not _only_prepares(node):
            yield node
            pending.extend(ast.iter_child_nodes(node))


def _only_prepares(loop: ast.For) -> bool:
    """Whether a loop calls only what sets weights (`nn.init.normal_(m.weight)`), and keeps and returns nothing."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    if loop.orelse or any(isinstance(node, _KEEPING) for node in inside):
        return False
    stored = (node for node in inside if isinstance(node, ast.Name | ast.Subscript) and isinstance(node.ctx, ast.Store))
    targets = (node for node in inside if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    if any(True for _ in stored) or any(ast.unparse(each.value) == "self" for each in targets):
        return False
    called = [ast.unparse(node.func).rpartition(".")[2] for node in inside if isinstance(node, ast.Call)]
    return any(map(_SETTING.search, called)) and all(_SETTING.search(each) or each in _ASKING for each in called)


def is_used_by_a_library(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """a library has written `forward`"""
    return not {*cls.library_bases} <= {*_BASES, *_NO_FORWARD}


def is_registered_twice(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """the layer is in another attribute as well, or what is in it is"""
    held = event.target.attributes.items() if isinstance(event.target, Instance) else ()
    own = (event.attribute, *_LOOKUPS)
    others = [value for name, value in held if name not in own and ctx.role(value) not in _USERS]
    listed = (each for value in others if isinstance(value, Items | Table) for each in flatten(value))
    if any(ctx.has_parameters(each) and ctx.reaches(event.value, each) for each in listed):
        return True
    # a buffer that is registered by its name is not known, and reaches the module whose attribute it is
    return any(ctx.reaches(value, event.value) for value in others if attribute_of(value) is not event.target)


def is_read_elsewhere(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """other code reads it off an object of the class, or off what can be nothing else that has one"""
    return ctx.is_read_outside(_maker(event, cls), event.attribute) is True


def _maker(event: AttributeAssigned, cls: Class) -> Class:
    """The class, or the one of its ancestors, whose constructor makes the layer: others may derive from that one."""
    own = (each for each in cls.lineage if each.module is event.site.module)
    return next((each for each in own if each.node.lineno <= event.site.line <= (each.node.end_lineno or 0)), cls)


def is_commented_out(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """a comment in the class has a use of it that was switched off, or one in another file that names the class"""
    use = rf"\.{re.escape(event.attribute)}\b"
    comments = (text for each in cls.lineage for text in ctx.comments_in(Site(each.module, each.node)))
    if any(re.search(use, text) for text in comments):
        return True
    return ctx.project_mentions(rf"#.*{use}", rf"\b{re.escape(cls.name)}\b", where="elsewhere")


def is_for_pretrained_weights(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """the class has pretrained weights, whose state dict has to fit, and no later layer is used"""
    if _PRETRAINED.isdisjoint(cls.module.words) or _is_followed(event, cls, ctx):
        return False
    named = (each for each in cls.module.tree.body if cls.name in cls.module.words_in(each))
    return any(not _PRETRAINED.isdisjoint(cls.module.words_in(each)) for each in named)


def is_no_forward(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """`forward` calls nothing, or there is none and nothing else uses a layer: a stub, for a test or to be written"""
    forward = ctx.member(event.target, "forward")
    if forward is None:
        uses = [each for name in _layers(event, ctx) for each in ctx.attribute_uses(cls, name)]
        return all(each.method == "__init__" for each in uses)
    body = getattr(getattr(forward, "node", None), "body", [])
    calls = (node for each in body if not isinstance(each, ast.Raise) for node in ast.walk(each))
    return not any(isinstance(node, ast.Call) for node in calls)


def is_functional(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """`forward` is given weights, as in meta-learning: its layers only hold those to begin with"""
    forward = ctx.member(event.target, "forward")
    given = forward.node.args.args if forward is not None and isinstance(forward.node, ast.FunctionDef) else []
    return any(each.arg in _WEIGHTS for each in given)


def is_unfinished(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """`forward` has an arm that is not written yet, or a comment says that something is not"""
    forward = ctx.member(event.target, "forward")
    if forward is None or forward.site is None:
        return False
    lines = ctx.lines_at(event.site)
    if any(_LEFT_OUT.search(line) for line in lines):
        return True
    tests = (node for node in ast.walk(forward.node) if isinstance(node, ast.If))
    arms = (arm for test in tests if not _is_check(test) for arm in (test.body, test.orelse) if arm)
    texts = (*ctx.comments_in(forward.site), *lines)
    return any(all(map(is_placeholder, arm)) for arm in arms) or any(_OPEN.search(text) for text in texts)


def _is_check(test: ast.If) -> bool:
    """Whether a condition is only there to refuse what does not hold: `if fits: pass`, `else: raise`."""
    others = test.orelse[0] if len(test.orelse) == 1 else None
    return isinstance(others, ast.Raise | ast.Assert) and not is_placeholder(others)


class UnusedSubmodule(Rule):
    code = "DL223"
    name = "unused-submodule"
    category = "correctness"
    severity = "info"
    since = "0.1.0"
    triggers = (("Module", "LightningModule"), ("forward",))
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",)
    excuses = (
        is_used_by_a_library,
        is_no_forward,
        is_unfinished,
        is_functional,
        is_for_pretrained_weights,
        is_looked_up,
        is_registered_twice,
        is_commented_out,
        is_read_elsewhere,
    )

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        owner, layer = event.target, event.value
        cls = owner.cls if isinstance(owner, Instance) else None
        if not isinstance(cls, Class) or not isinstance(layer, Instance) or event.frame.function != "__init__":
            return
        if not ctx.is_module(owner) or not ctx.has_parameters(layer) or ctx.uses_layer(cls, event.attribute):
            return
        instead = _called_instead(event, cls, ctx)
        is_known = layer.library_name.startswith("torch.nn.") or instead is not None
        if is_known and not ctx.excused(self, event, cls):
            yield self._report(event, layer, cls, instead, ctx)

    def _report(
        self, event: AttributeAssigned, layer: Instance, cls: Class, instead: Site | None, ctx: Context
    ) -> Finding:
        assumed = []
        is_cut = not _is_followed(event, cls, ctx) and ctx.has_twin(cls, event.attribute)
        if is_cut or not _PRETRAINED.isdisjoint(cls.module.words):
            assumed.append(_NOT_TO_FIT)
        if ctx.is_read_outside(_maker(event, cls), event.attribute) is None:
            assumed.append(
                Assumption("effect", f"what reads a `{event.attribute}` elsewhere reads that of another class")
            )
        return ctx.finding(
            self,
            event,
            f"no code uses the `{ctx.class_name(layer)}` in `{event.attribute}`",
            on=[layer],
            assuming=assumed,
            effect="it is saved and counted and never trained: the network is another one than it says",
            help="call it in `forward`, or take it out",
            severity="warning" if instead is not None else None,
            trace=[(event.site, "it is made here"), (instead, "and its neighbor is called once more here")]
            if instead is not None
            else (),
        )


def _called_instead(event: AttributeAssigned, cls: Class, ctx: Context) -> Site | None:
    """Where `forward` calls a neighbor of the same kind for the second time, whose name differs in one word."""
    held = event.target.attributes.items() if isinstance(event.target, Instance) else ()
    kind = event.value.cls if isinstance(event.value, Instance) else None
    for name, value in held:
        if name == event.attribute or not isinstance(value, Instance) or value.cls != kind:
            continue
        calls = [
            each.site
            for each in ctx.attribute_uses(cls, name)
            if each.method == "forward" and _is_what_is_called(each.site, ctx)
        ]
        if len(calls) > 1 and _differ_in_one_word(name, event.attribute) and not _in_other_arms(calls, ctx):
            return calls[-1]
    return None


def _is_what_is_called(use: Site, ctx: Context) -> bool:
    call = next(iter(ctx.ancestors(use, ast.expr)), None)
    return isinstance(call, ast.Call) and call.func is use.node


def _in_other_arms(calls: list[Site], ctx: Context) -> bool:
    """Whether conditions stand around calls: one of them may be made instead of another."""
    return any(next(iter(ctx.ancestors(call, ast.If, ast.IfExp, ast.Lambda)), None) is not None for call in calls)


def _differ_in_one_word(left: str, right: str) -> bool:
    ours, theirs = (re.findall(r"[a-z]+|[A-Z][a-z]*|\d+", name) for name in (left, right))
    return len(ours) == len(theirs) > 1 and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1


def _layers(event: AttributeAssigned, ctx: Context) -> list[str]:
    """The names of the layers with weights in attributes of the module, in the order in which they were made."""
    held = event.target.attributes.items() if isinstance(event.target, Instance) else ()
    made = [(name, [option for _, option in alternatives(value)]) for name, value in held]
    return [name for name, options in made if any(ctx.is_module(each) and ctx.has_parameters(each) for each in options)]


def _is_followed(event: AttributeAssigned, cls: Class, ctx: Context) -> bool:
    """Whether a layer with weights that is made after this one is used: what a network leaves out for its features
    are the last ones."""
    names = _layers(event, ctx)
    after = names[names.index(event.attribute) + 1 :] if event.attribute in names else []
    return any(ctx.uses_layer(cls, name) for name in after)
