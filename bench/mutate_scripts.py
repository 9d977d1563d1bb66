"""Bugs of the rules about scripts: options, seeds, what is saved."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mutating import Code, Edit, keyword_of, mutates, name_of, names_in


@mutates("DL841")
def argparse_type_bool(code: Code) -> Iterator[Edit]:
    """``action="store_true"`` becomes ``type=bool, default=False``."""
    for call in code.calls("add_argument"):
        action = keyword_of(call, "action")
        if action is not None and getattr(action.value, "value", None) == "store_true":
            given = [code.source(each) for each in call.args]
            given += [
                f"{each.arg}={code.source(each.value)}"
                for each in call.keywords
                if each.arg not in ("action", "default")
            ]
            yield code.replace(call, f"{code.source(call.func)}({', '.join([*given, 'type=bool', 'default=False'])})")


@mutates("DL843")
def call_does_not_bind(code: Code) -> Iterator[Edit]:
    """A call of a function of the same file loses its last positional argument, which has no default."""
    functions = {node.name: node for node in code.tree.body if isinstance(node, ast.FunctionDef)}
    for call in code.calls(*functions) if "import torch" in code.text else ():
        around = code.outer(call, (ast.FunctionDef, ast.ClassDef))
        if around is not None and getattr(around, "name", "") not in ("main", "train"):
            continue  # nobody may come there
        function = functions[name_of(call.func)]
        plain = isinstance(call.func, ast.Name) and not call.keywords and not function.args.defaults
        if plain and len(call.args) == len(function.args.args) >= 2 and not function.args.vararg:
            given = [code.source(each) for each in call.args[:-1]]
            yield code.replace(call, f"{call.func.id}({', '.join(given)})")  # type: ignore[attr-defined]


SEEDS = {"np.random.seed": ("np.random.shuffle(", "np.random.permutation("), "random.seed": ("random.shuffle(",)}


@mutates("DL844")
def seed_not_applied(code: Code) -> Iterator[Edit]:
    """A generator that draws is not seeded, where torch is; or the function that seeds is not called."""
    functions = {node.name for node in code.tree.body if isinstance(node, ast.FunctionDef) and "seed" in node.name}
    for node in code.nodes:
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        called = code.source(node.value.func)
        draws = [draw for draw in SEEDS.get(called, ()) if is_drawn_once(code, draw)]
        is_alone = code.text.count(f"{called}(") == 1
        is_trained = "backward()" in code.text and ".step()" in code.text
        is_only = called in functions and names_in(code.text).count(called) == 2 and called not in code.others()
        if is_trained and ((draws and is_alone and "torch.manual_seed(" in code.text) or is_only):
            yield code.replace(node, "pass")


def is_drawn_once(code: Code, draw: str) -> bool:
    """Whether the data is shuffled by a call that is in no loop, rather than in each epoch."""
    calls = [node for node in code.nodes if isinstance(node, ast.Call) and f"{code.source(node.func)}(" == draw]
    return any(code.outer(call, (ast.For, ast.While)) is None for call in calls)


@mutates("DL845")
def debug_stop_left_in(code: Code) -> Iterator[Edit]:
    """A training loop ends after its first batch."""
    for call in code.calls("step"):
        loop = code.outer(call, (ast.For, ast.While))
        statement = code.parents.get(id(call))
        if not (isinstance(loop, ast.For) and statement in loop.body):
            continue
        if "loader" in code.source(loop.iter):
            last = loop.body[-1]
            yield Edit(*[code.span(last)[1]] * 2, f"\n{' ' * last.col_offset}break", last.lineno + 1)


HANDED_ON = ("vars(", "__dict__", "**args", "**opt", "argparse_args", "wandb.init", "save_hyperparameters")


@mutates("DL846")
def unread_option(code: Code) -> Iterator[Edit]:
    """The one place that reads a number among the options has the number itself."""
    defaults = {}
    for call in code.calls("add_argument"):
        default = keyword_of(call, "default")
        name = getattr(call.args[-1], "value", "") if call.args else ""
        if default and isinstance(default.value, ast.Constant) and isinstance(default.value.value, int | float):
            defaults[str(name).lstrip("-").replace("-", "_")] = (code.source(default.value), call.lineno)
    if not defaults or any(word in code.text for word in HANDED_ON):
        return
    for name, (value, line) in defaults.items():
        reads = [node for node in code.nodes if isinstance(node, ast.Attribute) and node.attr == name]
        mentions = code.text.count(name) + code.text.count(name.replace("_", "-")) * ("_" in name)
        is_only = len(reads) == 1 and mentions == 2
        others = code.others() if is_only else ""
        is_only = is_only and not any(word in others for word in (name, name.replace("_", "-"), *HANDED_ON))
        if is_only:
            yield Edit(*code.span(reads[0]), value, line)


WRITES = ("save", "dump", "export", "checkpoint", "ckpt", "pickle", "push", "upload", "snapshot", "write_", "log_model")


@mutates("DL847")
def trained_model_never_saved(code: Code) -> Iterator[Edit]:
    """Of a script that trains for many epochs, all lines are gone that speak of saving anything."""
    lines = code.text.splitlines(keepends=True)
    is_script = "backward()" in code.text and ".step()" in code.text and " epoch in range" in code.text
    is_shown = any(word in str(code.path).lower() for word in SHOWN)
    is_run = "__main__" in code.text or any(
        isinstance(node, ast.For) and "epoch" in ast.unparse(node.target) for node in code.tree.body
    )
    if not is_script or not is_run or is_shown or "torch.save(" not in code.text or code.imports_own():
        return
    for node in code.nodes:
        is_simple = isinstance(node, ast.stmt) and not hasattr(node, "body")
        if not is_simple or not speaks_of_saving(code.source(node)):
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        lines[first : last + 1] = [f"{' ' * node.col_offset}pass\n"] + ["\n"] * (last - first)
    kept = "".join("\n" if line.lstrip().startswith("#") and speaks_of_saving(line) else line for line in lines)
    if not speaks_of_saving(kept) and " epoch in range" in kept:
        at = next((number for number, line in enumerate(lines, 1) if " epoch in range" in line), 0)
        yield Edit(0, len(code.text), kept, at)


SHOWN = ("demo", "example", "tutorial", "toy", "check", "search", "tune", "play", "bench", "debug", "eval")


def speaks_of_saving(text: str) -> bool:
    return any(word in text.lower() for word in WRITES)


PINNED = ("numpy=", "numpy<", "torch=", "torch<", "torch 1", "torch 0", "python 2", "python=", "torch>=1", "pytorch: 1")


@mutates("DL842")
def removed_name(code: Code) -> Iterator[Edit]:
    """What a library has no more: ``np.Inf``, ``np.float``, and ``verbose`` of a scheduler."""
    if any(word in code.repository.requirements for word in PINNED):
        return
    for node in code.nodes:
        if isinstance(node, ast.Attribute) and code.source(node) == "np.inf":
            yield code.replace(node, "np.Inf")
        elif isinstance(node, ast.Attribute) and code.source(node) == "np.float64":
            yield code.replace(node, "np.float")
    for call in code.calls("StepLR", "CosineAnnealingLR", "MultiStepLR", "ReduceLROnPlateau", "LambdaLR"):
        if call.args and keyword_of(call, "verbose") is None and name_of(call.func) != code.source(call.func):
            yield Edit(*[code.span(call)[1] - 1] * 2, ", verbose=True", call.lineno)
