"""Bugs that a run can show, to be written into training scripts of others.

A mutator looks at the tree of a script, and yields the places at which it can write its bug. It comes with the codes by
which `dllint confirm` may name the bug: that of its rule, and those of what the bug does in a run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mutating import Code, Edit, keyword_of, name_of, without_keyword

Write = Callable[[Code], Iterator[Edit]]


@dataclass(frozen=True)
class Mutator:
    """What writes a kind of bug: its name in the table, and the codes that name it, that of the rule first."""

    name: str
    codes: tuple[str, ...]
    write: Write


MUTATORS: list[Mutator] = []


def mutates(name: str, *codes: str) -> Callable[[Write], Write]:
    """Enter a mutator."""

    def enter(write: Write) -> Write:
        MUTATORS.append(Mutator(name, codes, write))
        return write

    return enter


@mutates("softmax before the cross-entropy", "DL101")
def softmax_twice(code: Code) -> Iterator[Edit]:
    return _wrapped(code, _losses(code, "CrossEntropyLoss", "cross_entropy"), "({}).softmax(1)")


@mutates("sigmoid before a binary cross-entropy with logits", "DL103")
def sigmoid_twice(code: Code) -> Iterator[Edit]:
    losses = _losses(code, "BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
    return _wrapped(code, losses, "({}).sigmoid()")


@mutates("`nll_loss` of probabilities", "DL104")
def probabilities(code: Code) -> Iterator[Edit]:
    for call in code.calls("log_softmax"):
        yield code.replace(call.func, code.source(call.func).replace("log_softmax", "softmax"))


@mutates("input and target of a binary cross-entropy are swapped", "DL111")
def swapped(code: Code) -> Iterator[Edit]:
    for call in _losses(code, "BCELoss", "binary_cross_entropy"):
        if len(call.args) > 1:
            first, second = call.args[:2]
            text = code.text[code.span(first)[1] : code.span(second)[0]]
            start, end = code.span(first)[0], code.span(second)[1]
            yield Edit(start, end, code.source(second) + text + code.source(first), call.lineno)


@mutates("input and target of a squared error are broadcast", "DL117")
def broadcast(code: Code) -> Iterator[Edit]:
    losses = _losses(code, "MSELoss", "SmoothL1Loss", "mse_loss", "smooth_l1_loss")
    return _wrapped(code, losses, "({}).unsqueeze(-1)")


@mutates("no step", "DL201")
def no_step(code: Code) -> Iterator[Edit]:
    for call in _steps(code):
        yield code.replace(call, "None")


@mutates("no `zero_grad`", "DL202")
def no_clearing(code: Code) -> Iterator[Edit]:
    for call in code.calls("zero_grad"):
        yield code.replace(call, "None")


@mutates("`zero_grad` between backward pass and step", "DL203", "optimizer-trains-nothing")
def cleared_late(code: Code) -> Iterator[Edit]:
    for block in _blocks(code):
        clear, backward, step = (_first(block, name) for name in ("zero_grad", "backward", "step"))
        if clear is not None and backward is not None and step is not None and clear < backward < step:
            yield _moved(code, block, clear, step)


@mutates("step before the backward pass", "DL204")
def stepped_early(code: Code) -> Iterator[Edit]:
    for block in _blocks(code):
        backward, step = (_first(block, name) for name in ("backward", "step"))
        if backward is not None and step is not None and backward < step:
            yield _moved(code, block, backward, step + 1)


@mutates("the loss is made a number before the backward pass", "DL206", "optimizer-trains-nothing")
def made_a_number(code: Code) -> Iterator[Edit]:
    for call in code.calls("backward"):
        if isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
            loss = code.source(call.func.value)
            yield code.replace(call, f"torch.tensor(float({loss}), requires_grad=True).backward()")


@mutates("no `eval()`", "DL207")
def no_evaluation_mode(code: Code) -> Iterator[Edit]:
    if _depends_on_mode(code):
        for call in code.calls("eval"):
            if not call.args:
                yield code.replace(call, "None")


@mutates("no `train()` after the evaluation", "DL208")
def no_training_mode(code: Code) -> Iterator[Edit]:
    if _depends_on_mode(code) and any(not call.args for call in code.calls("eval")):
        for call in code.calls("train"):
            if not call.args and isinstance(code.parents[id(call)], ast.Expr):
                yield code.replace(call, "None")


@mutates("an evaluation with gradients", "DL209")
def with_gradients(code: Code) -> Iterator[Edit]:
    if any(not call.args for call in code.calls("eval")):
        for call in code.calls("no_grad"):
            if isinstance(code.parents[id(call)], ast.withitem):
                yield code.replace(call, "torch.enable_grad()")


@mutates("losses are added up with their graphs", "DL211")
def kept_graphs(code: Code) -> Iterator[Edit]:
    for node in code.nodes:
        if not isinstance(node, ast.AugAssign) or "loss" not in code.source(node.target):
            continue
        around = code.outer(node, ast.With)
        if not (
            isinstance(around, ast.With) and name_of(getattr(around.items[0].context_expr, "func", around)) == "no_grad"
        ):
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and name_of(call.func) == "item" and isinstance(call.func, ast.Attribute):
                    yield code.replace(call, code.source(call.func.value))


@mutates("gradients are clipped after the step", "DL212")
def clipped_late(code: Code) -> Iterator[Edit]:
    for block in _blocks(code):
        clip, step = (_first(block, name) for name in ("clip_grad_norm_", "step"))
        if clip is not None and step is not None and clip < step:
            yield _moved(code, block, clip, step + 1)


@mutates("the optimizer is made again in each iteration", "DL217")
def made_again(code: Code) -> Iterator[Edit]:
    for call in _steps(code):
        loop = code.outer(call, (ast.For, ast.While))
        name = code.source(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        made = [node for node in code.nodes if isinstance(node, ast.Assign) and code.source(node.targets[0]) == name]
        scope = code.outer(call, ast.FunctionDef)
        if isinstance(loop, ast.For | ast.While) and made and code.outer(made[0], ast.FunctionDef) is scope:
            start = code.span(loop.body[0])[0]
            text = code.source(made[0]) + "\n" + " " * loop.body[0].col_offset
            yield Edit(start, start, text, loop.body[0].lineno)


@mutates("the optimizer gets but a part of the parameters", "DL307")
def half_the_parameters(code: Code) -> Iterator[Edit]:
    for call in _optimizers(code):
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Call) and name_of(given.func) == "parameters":
            yield code.replace(given, f"list({code.source(given)})[2:]")


@mutates("layers are in a plain list", "DL308")
def plain_list(code: Code) -> Iterator[Edit]:
    for call in code.calls("ModuleList"):
        if len(call.args) == 1:
            yield code.replace(call, f"list({code.source(call.args[0])})")


@mutates("a learning rate of 1e-9", "DL312")
def far_too_slow(code: Code) -> Iterator[Edit]:
    return _rates(code, "1e-9")


@mutates("a learning rate of 30", "DL312", "loss-not-finite", "weights-not-finite")
def far_too_fast(code: Code) -> Iterator[Edit]:
    return _rates(code, "30.0")


@mutates("the scheduler of epochs steps with each batch", "DL303", "DL304", "DL305")
def schedule_of_batches(code: Code) -> Iterator[Edit]:
    """The scheduler's step goes to where the optimizer steps, if both are in one function."""
    for call in code.calls("step"):
        if isinstance(call.func, ast.Attribute) and "sched" in code.source(call.func.value):
            for step in _steps(code):
                if code.outer(step, ast.FunctionDef) is code.outer(call, ast.FunctionDef):
                    yield code.replace(step, f"{code.source(step)}; {code.source(call)}")


@mutates("nothing is shuffled", "DL415")
def unshuffled(code: Code) -> Iterator[Edit]:
    for call in code.calls("DataLoader"):
        shuffle = keyword_of(call, "shuffle")
        if shuffle is not None and code.source(shuffle.value) == "True":
            yield code.replace(shuffle.value, "False")


@mutates("images are scaled twice", "DL504", "input-range")
def scaled_twice(code: Code) -> Iterator[Edit]:
    for call in code.calls("Normalize"):
        if len(call.args) == 2:
            yield code.replace(call, f"transforms.Normalize({code.source(call.args[0])}, (255.0,))")


@mutates("padding is not ignored", "DL108", "DL902")
def padding_counts(code: Code) -> Iterator[Edit]:
    for call in code.calls("CrossEntropyLoss", "cross_entropy"):
        if keyword_of(call, "ignore_index"):
            yield without_keyword(code, call, "ignore_index")


@mutates("no state of the optimizer in the checkpoint", "DL701")
def half_a_checkpoint(code: Code) -> Iterator[Edit]:
    for node in code.nodes:
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is not None and isinstance(key, ast.Constant) and "optim" in str(key.value):
                    yield code.replace(value, "None")


@mutates("gradients flow into a bootstrap target", "DL956")
def live_target(code: Code) -> Iterator[Edit]:
    for node in code.nodes:
        if isinstance(node, ast.With) and "gamma" in (text := code.source(node)) and "target" in text:
            item = node.items[0].context_expr
            if isinstance(item, ast.Call) and name_of(item.func) == "no_grad":
                yield code.replace(item, "torch.enable_grad()")


def _depends_on_mode(code: Code) -> bool:
    layers = {"Dropout", "Dropout2d", "BatchNorm1d", "BatchNorm2d"}
    return not layers.isdisjoint(map(name_of, code.nodes))


def _losses(code: Code, *names: str) -> Iterator[ast.Call]:
    """Calls of one of these losses, as a function or by a name that one was given."""
    made = {
        name_of(node.targets[0])
        for node in code.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and name_of(node.value.func) in names
    }
    called = {*made, *(name for name in names if name.islower())} - {""}
    return (call for call in code.calls(*called) if call.args)


def _wrapped(code: Code, calls: Iterator[ast.Call], text: str) -> Iterator[Edit]:
    for call in calls:
        yield code.replace(call.args[0], text.format(code.source(call.args[0])))


def _steps(code: Code) -> Iterator[ast.Call]:
    """Calls of ``step`` of what is called an optimizer."""
    for call in code.calls("step"):
        if isinstance(call.func, ast.Attribute) and "opt" in code.source(call.func.value).lower():
            yield call


def _optimizers(code: Code) -> Iterator[ast.Call]:
    return code.calls("Adam", "AdamW", "SGD", "RMSprop", "Adadelta", "Adagrad", "RAdam")


def _rates(code: Code, rate: str) -> Iterator[Edit]:
    for call in _optimizers(code):
        if (keyword := keyword_of(call, "lr")) is not None:
            yield code.replace(keyword.value, rate)


def _blocks(code: Code) -> Iterator[list[ast.stmt]]:
    for node in code.nodes:
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield block


def _first(block: list[ast.stmt], name: str) -> int | None:
    """The number of the first statement of a block that is a call of this method; of ``step``, an optimizer's."""
    for number, statement in enumerate(block):
        call = statement.value if isinstance(statement, ast.Expr) else None
        is_it = isinstance(call, ast.Call) and name_of(call.func) == name
        if is_it and (name != "step" or "opt" in ast.unparse(statement).lower()):
            return number
    return None


def _moved(code: Code, block: list[ast.stmt], which: int, before: int) -> Edit:
    """A statement goes to another place further down in its block."""
    start = code.span(block[which])[0]
    end = code.span(block[before - 1])[1]
    between = code.text[code.span(block[which + 1])[0] : end]
    return Edit(
        start, end, f"{between}\n{' ' * block[which].col_offset}{code.source(block[which])}", block[which].lineno
    )
