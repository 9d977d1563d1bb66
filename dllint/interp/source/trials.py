"""What a file does when it is run itself: all it is for, a trial of what it defines, or an example of its use."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypeGuard

from dllint.interp.source.bindings import Definition
from dllint.interp.source.known_settings import last_name
from dllint.interp.source.trees import walk

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule

_LIBRARIES = frozenset(
    ("torch", "nn", "F", "np", "numpy", "math", "librosa", "time", "torchinfo", "torchsummary", "thop", "pprint",
     "triton", "timeit", "warnings")
)  # fmt: skip
_FILES = frozenset(("save", "load", "savez", "savetxt", "loadtxt", "genfromtxt", "write_wav"))
_LOOKS = frozenset(
    ("size", "shape", "dim", "numel", "nelement", "element_size", "parameters", "named_parameters", "buffers",
     "modules", "named_modules", "children", "to", "cuda", "cpu", "eval", "float", "half", "item", "mean", "sum",
     "forward", "state_dict", "keys", "items", "values", "format", "tolist", "detach", "numpy", "view", "reshape",
     "permute", "unsqueeze", "squeeze", "append", "join", "random_", "normal_", "uniform_", "backward",
     "named_children", "astype", "type", "clone", "flatten", "transpose", "max", "min", "argmax", "all",
     "any", "repeat", "expand", "double", "long", "int", "contiguous", "requires_grad_", "flip", "chunk", "split",
     "sum", "prod", "std", "var", "norm", "abs", "exp", "log", "sqrt", "pow", "gather", "fill_", "zero_", "apply",
     "add", "expand_as", "view_as", "bool", "square", "t", "bmm", "matmul", "mm", "allclose", "register_forward_hook")
)  # fmt: skip
_HARMLESS = frozenset(
    ("summary", "profile", "get_model_complexity_info", "Variable", "LongTensor", "FloatTensor", "Tensor",
     "FlopCountAnalysis", "clever_format")
)  # fmt: skip
_WORKERS = re.compile(
    r"Loader|Dataset|Data$|Trainer|Parser|Config|Optim|Adam|SGD|Env|Agent|App|Tk|Server|Popen|Process|Thread|Pool|Fire"
)
_MODELS = "torchvision.models."
_WORK = re.compile(
    r"(?:\w+_)?(?:train|fit|main|run|save|backward|dump|export|generate|predict|preprocess|evaluate|test)(?:_\w+)?"
    r"|\w*parse\w*_args|ArgumentParser|Fire|write\w*|to_(?:csv|json|excel)|savez\w*|imwrite|\w*Trainer|launch"
)
_EXPORTS = re.compile(r"#\s*\|?\s*export")  # as nbdev does
_CALL = re.compile(r"#\s*(?:[\w, ]+=\s*)?(\w+)\(")
_EXAMPLE = re.compile(r"(?i)\bexamples?\b")
PARSING = frozenset(("ArgumentParser", "add_argument", "add_argument_group", "set_defaults", "parse_args",
                      "parse_known_args"))  # fmt: skip
_UPDATING = frozenset(("step", "zero_grad", "clip_grad_norm_"))
_DOING = ast.Call | ast.For | ast.While
_MAX_DEPTH = 4
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def is_tried_out(module: SourceModule, *, with_options: bool = False) -> bool:
    """Whether all that a file does when it is run is to try out what it defines: no data, no training, no files.

    Args:
        module: the file.
        with_options: whether it may read options of a command line, which a model may need to be made.
    """
    guards = [statement for statement in module.tree.body if is_main_guard(statement)]
    allowed = PARSING if with_options else frozenset()
    return bool(guards) and all(is_trial(module, guard, allowed=allowed) for guard in guards)


def is_trained_on_numbers(module: SourceModule) -> bool:
    """Whether all that a file does when it is run is to train what it defines on numbers that it makes up.

    Nothing comes in, and nothing is kept. Of a script that nobody imports it may be all that it is for.
    """
    guards = [statement for statement in module.tree.body if is_main_guard(statement)]
    return bool(guards) and all(is_trial(module, guard, allowed=_UPDATING) for guard in guards)


def is_tried_in_notebook(module: SourceModule) -> bool:
    """Whether all that the cells of a notebook do is to try out what they define. What is exported is for others."""
    if module.source.notebook is None or any(_EXPORTS.match(text) for text in module.comments.values()):
        return False
    done = [statement for statement in module.tree.body if not isinstance(statement, Definition)]
    defines = len(done) < len(module.tree.body)
    return defines and all(is_trial(module, statement) for statement in done)


def defines_only(module: SourceModule) -> bool:
    """Whether running a file does nothing but to import and to define: it is there for others."""
    defining = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, Definition)
    return all(
        isinstance(statement, defining) or not any(isinstance(node, _DOING) for node in walk(statement))
        for statement in module.tree.body
    )


def call_left_out(module: SourceModule) -> str:
    """The call of a function of the file that a comment below its main guard has left of what it did; or nothing."""
    for guard in filter(is_main_guard, module.tree.body):
        last = len(module.source.line_starts)
        for line in range(guard.lineno, last + 1):
            called = _CALL.match(module.comments.get(line, ""))
            bound = module.bindings.names.get(called[1], ()) if called is not None else ()
            if called is not None and any(isinstance(each, _FUNCTION) for each in bound):
                return called[1]
    return ""


def is_main_guard(statement: ast.stmt) -> bool:
    """Whether a statement is ``if __name__ == "__main__":``."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in walk(statement.test)
    )


def is_plain_main_guard(statement: ast.stmt) -> TypeGuard[ast.If]:
    """Whether a statement is a main guard without more to its test, and without an ``else``."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    match statement.test:
        case ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]):
            return True
        case ast.Compare(ast.Constant("__main__"), [ast.Eq()], [ast.Name("__name__")]):
            return True
    return False


def has_main_guard(module: SourceModule) -> bool:
    """Whether a file can be run itself."""
    return any(is_main_guard(statement) for statement in module.tree.body)


def is_example(module: SourceModule) -> bool:
    """Whether a file that is run itself only shows how what it defines is used: it trains, writes and reads options of
    nothing. That is so of what others import; of a script it says nothing."""
    guards = [statement for statement in module.tree.body if is_main_guard(statement)]
    return bool(guards) and all(_says_so(module, guard) or not _does_work(module, guard) for guard in guards)


def needs_more_to_be_shown(module: SourceModule) -> bool:
    """Whether a file of functions imports or defines below its main guard what these have no need of."""
    defines = any(isinstance(statement, _FUNCTION) for statement in module.tree.body)
    guards = [statement for statement in module.tree.body if is_main_guard(statement)]
    more = (ast.Import, ast.ImportFrom, ast.ClassDef)
    return defines and any(isinstance(node, more) for guard in guards for node in walk(guard))


def is_trial(module: SourceModule, block: ast.stmt, depth: int = 0, *, allowed: AbstractSet[str] = frozenset()) -> bool:
    """Whether statements only make objects, call them on numbers that they make up, and show what comes of it.

    Functions and methods of some other names are ``allowed``, too.
    """
    if depth == _MAX_DEPTH:
        return False
    own, imported = _bound_in(block)
    calls = (node for node in walk(block) if isinstance(node, ast.Call))
    for call in calls:
        name = last_name(call.func)
        is_name = isinstance(call.func, ast.Name)
        if name in allowed or (is_name and name in own):
            continue
        does_work = is_name and name in imported and _WORK.fullmatch(name) is not None
        if does_work or not _is_harmless(module, call, depth):
            return False
    return True


def _bound_in(block: ast.stmt) -> tuple[AbstractSet[str], AbstractSet[str]]:
    """What a block calls objects, functions of its own (their code is looked at with it) and what it is given; and what
    it imports."""
    names: set[str] = set()
    imported: set[str] = set()
    for node in walk(block):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, _FUNCTION) and node is not block:
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported.update(alias.asname or alias.name for alias in node.names)
    return names - imported, imported


def _says_so(module: SourceModule, guard: ast.stmt) -> bool:
    """Whether the first comment below a main guard calls what follows an example."""
    comments = [text for line, text in module.comments.items() if guard.lineno <= line <= (guard.end_lineno or 0)]
    return bool(comments) and _EXAMPLE.search(comments[0]) is not None


def _is_harmless(module: SourceModule, call: ast.Call, depth: int) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        root = function.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in _LIBRARIES:
            return function.attr not in _FILES
        if function.attr in _LOOKS or ast.unparse(function).startswith(_MODELS):
            return True
        return _is_harmless_method(module, function.attr, depth)
    if not isinstance(function, ast.Name):
        return isinstance(function, ast.Call)  # `Net()(x)`: the call within is looked at, too
    name = function.id
    if name in _HARMLESS or (hasattr(builtins, name) and name not in ("open", "exec", "eval", "input", "__import__")):
        return True
    bound = module.bindings.names.get(name, [])
    own = [each for each in bound if isinstance(each, Definition)]
    if own:
        return all(isinstance(each, ast.ClassDef) or is_trial(module, each, depth + 1) for each in own)
    if module.binds(name) and not any(isinstance(each, ast.Import | ast.ImportFrom) for each in bound):
        return True  # a variable that holds what was made
    return name[:1].isupper() and not _WORKERS.search(name)


def _is_harmless_method(module: SourceModule, name: str, depth: int) -> bool:
    """Whether a method of the file's own classes, which no name of work gives away, only looks at its object, too.

    A layer that they keep may be called alone.
    """
    if name == "step" or _WORK.fullmatch(name):
        return False
    owners = [node for node in module.tree.body if isinstance(node, ast.ClassDef)]
    methods = [each for owner in owners for each in owner.body if isinstance(each, _FUNCTION) and each.name == name]
    if methods:
        return all(is_trial(module, each, depth + 1) for each in methods)
    return module.contains(re.compile(rf"\bself\.{name}\s*=\s*nn\."))


def _does_work(module: SourceModule, block: ast.stmt, depth: int = 0) -> bool:
    """Whether statements, or functions of the file that they call, do what a script is run for."""
    for call in (node for node in walk(block) if isinstance(node, ast.Call)):
        name = last_name(call.func)
        if _WORK.fullmatch(name):
            return True
        own = [each for each in module.bindings.names.get(name, ()) if isinstance(each, ast.FunctionDef)]
        if depth < _MAX_DEPTH and any(_does_work(module, each, depth + 1) for each in own):
            return True
    return False
