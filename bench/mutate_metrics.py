"""Bugs of the rules about metrics: sums, means, and what is chosen by them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mutating import Code, Edit, mutates, name_of, names_in

_VALIDATION = ("val", "valid", "test", "eval", "dev")


@mutates("DL871")
def last_batch_metric(code: Code) -> Iterator[Edit]:
    """``total += loss.item()`` becomes ``total = loss.item()`` in an evaluation that uses the total afterwards."""
    for node in code.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(name), op=ast.Add(), value=value) if ".item()" in code.source(value):
                loop, function = (code.outer(node, kind) for kind in ((ast.For, ast.While), ast.FunctionDef))
                if not isinstance(loop, ast.For) or not isinstance(function, ast.FunctionDef):
                    continue
                is_evaluation = "eval()" in code.source(function) and "backward" not in code.source(function)
                is_own = names_in(code.source(loop)).count(name) == 1 and "loss" in name
                end = code.source(function)[code.span(loop)[1] - code.span(function)[0] :]
                if is_evaluation and is_own and name in names_in(end) and "loader" in code.source(loop.iter):
                    yield code.replace(node, f"{name} = {code.source(value)}")


@mutates("DL872")
def accumulator_not_reset(code: Code) -> Iterator[Edit]:
    """The line that sets a loss to zero at the start of an epoch, which is averaged in it, moves before the epochs.

    Where the average takes the place of the sum (`total /= n`), little is left of it in the next epoch.
    """
    for node in code.nodes:
        loop = code.parents.get(id(node))
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(0)) if isinstance(loop, ast.For):
                body = "".join(code.source(each) for each in loop.body)
                is_mean = f"{name} +=" in body and re.search(rf"\b{name} ?/(?!=)", body) is not None
                is_measured = "loss" in name or "acc" in name or "correct" in name
                is_epoch = "epoch" in code.source(loop.target) and body.count(f"{name} = ") == 1
                is_epoch = is_epoch and f"{name}.backward" not in body
                if node in loop.body and is_mean and is_measured and is_epoch and len(loop.body) > 1:
                    start, (_, end) = code.span(loop)[0], code.span(node)
                    moved = f"{code.source(node)}\n{' ' * loop.col_offset}"
                    kept = code.text[start : code.span(node)[0]] + "pass"
                    yield Edit(start, end, moved + kept, loop.lineno)


@mutates("DL873")
def wrong_average(code: Code) -> Iterator[Edit]:
    """A sum over samples that is divided by their number becomes one of the means of batches."""
    for node in code.nodes:
        match node:
            case ast.AugAssign(target=ast.Name(name), op=ast.Add(), value=ast.BinOp(left, ast.Mult(), right)):
                sides = (left, right) if ".item()" in code.source(left) else (right, left)
                loss, size = (code.source(side) for side in sides)
                words = code.around(node).replace(" ", "")
                is_mean = any(
                    f"{name}{sign}len({part}" in words and ".dataset)" in words
                    for sign in ("/", "/=")
                    for part in ("", "self.")
                )
                is_known = "CrossEntropyLoss(" in code.text or "cross_entropy(" in code.text or "MSELoss(" in code.text
                if is_known and ".item()" in loss and ("size" in size or "len(" in size or "shape" in size) and is_mean:
                    yield code.replace(node.value, loss)


@mutates("DL874")
def scored_on_wrong_split(code: Code) -> Iterator[Edit]:
    """The loader for validation is made from the dataset of the one for training."""
    if "backward()" not in code.text:
        return
    made = {}
    for node in code.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func, [ast.Name() as dataset, *_]) as call):
                if name_of(func) == "DataLoader":
                    made[name] = (dataset, call)
    training = next((dataset for name, (dataset, _) in made.items() if "train" in name), None)
    for name, (dataset, call) in made.items():
        in_scope = training is not None and code.around(call) == code.around(training)
        is_plain = (
            in_scope and "sampler" not in code.source(call) and training is not None and dataset.id != training.id
        )
        if is_plain and any(name.startswith(part) for part in _VALIDATION) and f"in {name}" in code.text:
            yield code.replace(dataset, training.id)


@mutates("DL875")
def best_by_training_metric(code: Code) -> Iterator[Edit]:
    """The best checkpoint is chosen by the loss of training."""
    for node in code.nodes:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(name), comparators=[ast.Name(best)])) if "best" in best:
                around = code.outer(node, ast.For)
                part = next((part for part in ("val", "valid", "dev") if part in name.split("_")), "")
                other = name.replace(part, "train") if part else ""
                is_saved = "save" in code.source(node) or "state_dict" in code.source(node)
                if part and is_saved and isinstance(around, ast.For) and other in names_in(code.source(around)):
                    start, end = code.span(node.test)[0], code.span(node.body[-1])[1]
                    words = re.sub(rf"\b{name}\b", other, code.text[start:end])
                    yield Edit(start, end, words, node.lineno)
