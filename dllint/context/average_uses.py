"""What is done with moving averages of weights: whether anything is ever computed, or made, with the averaged ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.context.averages import COUNTS, UPDATES, Average, Averages, keeps, name_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.interp.source.topics import speaks_of
from dllint.interp.source.trees import walk
from dllint.sites import Site

_LOOKED_AFTER = UPDATES | {
    "to", "cuda", "cpu", "eval", "train", "float", "half", "load_state_dict", "requires_grad_", "save_pretrained",
    "register", "pin_memory", "reset", "set", "initted", "items"
}  # fmt: skip
_PASSED_BY = ("isinstance", "hasattr", "print", "len", "requires_grad", "set_requires_grad", "id", "type", "prepare")
_LISTED = ("parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "children", "modules")
_UNWRAPPING = ("parameters", "named_parameters", "unwrap_model", "deepcopy", "prepare", "module", "to", "DataParallel")


class AverageUses(Averages):
    """What the averages of a program are for."""

    def is_average_used(self, average: Average) -> bool:
        """Whether any code does more with an average than to make, update, move, save and restore it.

        In doubt it does: whatever gets it may use its weights. What the class of an average does itself is no use.
        """
        for module, tree in self.trees(average.name):
            nodes = nodes_of(tree)
            for node in (*nodes.names.get(average.name, ()), *nodes.attributes.get(average.name, ())):
                site = Site(module, node)
                if not _is_looked_after(site) and not _is_inside_average(site):
                    return True
        return False

    def names_averaged(self, average: Average) -> frozenset[str]:
        """The names, in the file where an average is made, of the model that it is an average of.

        There are none where the average is one of several things, or is not made of what it is updated with.
        """
        tree, node = average.site.module.tree, average.site.node
        nodes = nodes_of(tree)
        made = _making_call(node.value) if isinstance(node, ast.Assign) else None
        is_only_one = len([*_bound_to(average.name, tree)]) == 1
        if made is None or not is_only_one or _is_inside_average(average.site):
            return frozenset()
        calls = [made]
        for call in nodes.of(ast.Call):
            owner = name_of(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            updates = name_of(call.func) in UPDATES or "ema" in name_of(call.func)
            if updates and average.name in (owner, *map(name_of, call.args)):
                calls.append(call)
        given = {name for call in calls for each in call.args for name in _models_in(each)} - {average.name, ""}
        found = {name for name in given if not speaks_of("weight-average", name)}
        for node in nodes.of(ast.Assign):
            for target, value in _pairs(node):
                name = name_of(target)
                if found & set(_models_in(value)) and len([*_bound_to(name, tree)]) == 1:
                    found |= {name} - {""} if not speaks_of("weight-average", name) else set()
        is_made_of_it = any(name in found for each in made.args for name in _models_in(each))
        return frozenset(found) if is_made_of_it else frozenset()


def _making_call(value: ast.expr) -> ast.Call | None:
    """The call that makes an average: `deepcopy(model)` in `deepcopy(model).eval() if use_ema else None`."""
    if isinstance(value, ast.IfExp) and isinstance(value.orelse, ast.Constant):
        value = value.body
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and name_of(value.func) in _LOOKED_AFTER
    ):
        value = value.func.value
    return value if isinstance(value, ast.Call) and name_of(value.func) != "get" else None


def _bound_to(name: str, tree: ast.Module) -> Iterator[ast.expr]:
    """What a file binds a name to, but for `None` and for what is made of the same thing again."""
    for node in nodes_of(tree).of(ast.Assign):
        for target, value in _pairs(node):
            if name_of(target) != name or (isinstance(value, ast.Constant) and value.value is None):
                continue
            if not any(name_of(each) == name for each in walk(value)):
                yield value


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds to what, one by one: `a, b = c, d`, and `a, b = prepare(c, d)`."""
    target, value = node.targets[0], node.value
    if not isinstance(target, ast.Tuple):
        yield target, value
        return
    values = value.elts if isinstance(value, ast.Tuple) else value.args if isinstance(value, ast.Call) else []
    yield from zip(target.elts, values, strict=False)


def _models_in(node: ast.expr) -> Iterator[str]:
    """The name of a model that an expression is, or has the parameters of: `unet.parameters()`."""
    while isinstance(node, ast.Call):
        function = node.func
        if name_of(function) not in _UNWRAPPING:
            return
        is_method = isinstance(function, ast.Attribute) and not node.args
        node = function.value if is_method and isinstance(function, ast.Attribute) else node.args[0]
        if isinstance(node, ast.Starred):
            return
    if isinstance(node, ast.Attribute) and node.attr == "module":
        node = node.value
    yield name_of(node)


def _is_inside_average(site: Site) -> bool:
    """Whether a place stands in a class that is itself an average, by its name."""
    return any(isinstance(each, ast.ClassDef) and speaks_of("weight-average", each.name) for each in ancestors(site))


def _is_looked_after(site: Site) -> bool:
    """Whether what is done with an average at a place leaves its weights unused: it is moved, updated, or saved."""
    node = site.node
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        return True
    around = list(ancestors(site))
    for parent in around:
        if isinstance(parent, ast.Attribute):
            if COUNTS.search(parent.attr):
                return True
        elif isinstance(parent, ast.Call) and parent.func is node:
            return _is_upkeep(parent, node, around)
        elif not isinstance(parent, ast.BoolOp):
            return _is_tested(parent, node) or _is_put_away(node, around)
        node = parent
    return False


def _is_upkeep(call: ast.Call, function: ast.AST, around: list[ast.AST]) -> bool:
    """Whether the call of a method of an average is one that looks after it."""
    name = function.attr if isinstance(function, ast.Attribute) else ""
    above = around[around.index(call) + 1 :]
    if name in _LISTED:
        loop = next((each for each in around if isinstance(each, ast.For | ast.comprehension | ast.stmt)), None)
        is_gone_over = isinstance(loop, ast.For) and any(each is call for each in walk(loop.iter))
        return is_gone_over or _is_put_away(call, above)
    return name in _LOOKED_AFTER and _is_result_dropped(call, above)


def _is_result_dropped(call: ast.Call, above: list[ast.AST]) -> bool:
    """Whether nothing but the average itself gets what a call returns: `ema = ema.to(device).eval()`."""
    node: ast.AST = call
    for parent in above:
        if isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and parent.func is node):
            if isinstance(parent, ast.Attribute) and parent.attr not in _LOOKED_AFTER:
                return False
        elif isinstance(parent, ast.Assign):
            return speaks_of("weight-average", name_of(parent.targets[0]))
        elif not isinstance(parent, ast.IfExp | ast.BoolOp):
            return isinstance(parent, ast.Expr)
        node = parent
    return False


def _is_tested(parent: ast.AST, node: ast.AST) -> bool:
    """Whether it is only asked whether there is an average."""
    is_test = isinstance(parent, ast.If | ast.IfExp | ast.While | ast.Assert) and parent.test is node
    return is_test or isinstance(parent, ast.Compare | ast.UnaryOp)


def _is_put_away(node: ast.AST, around: list[ast.AST]) -> bool:
    """Whether an average is given to what saves or updates it, or put into a dict."""
    for parent in around:
        if isinstance(parent, ast.Dict):
            return True
        if isinstance(parent, ast.Assign):
            return any(isinstance(target, ast.Subscript) for target in parent.targets)
        if isinstance(parent, ast.Call):
            name = name_of(parent.func)
            is_update = name.startswith(("update", "ema_", "step_ema")) or name in UPDATES
            return is_update or name in _PASSED_BY or keeps(ast.unparse(parent.func))
        if isinstance(parent, ast.stmt):
            return False
        if not isinstance(parent, ast.keyword | ast.IfExp | ast.Attribute):
            return False
    return False
