"""Where the files of a project load checkpoints, as it is written there: for code that another program runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.interp.source.later_reads import later_reads
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.interp.source.trees import walk
from dllint.sites import Module, Site

LOADS = re.compile(r"\bload\b")
_STRICT = ("weights_only", "pickle_module")
_GETTERS = frozenset(("get", "pop"))
# What tensors, dicts and lists have; whatever has another attribute is none of them.
PLAIN_ATTRIBUTES = frozenset(
    ("shape", "dtype", "device", "data", "grad", "T", "mT", "H", "mH", "ndim", "is_cuda", "requires_grad", "real",
     "imag", "grad_fn", "is_leaf", "layout", "is_sparse", "itemsize", "nbytes", "names", "size", "keys", "values",
     "items", "get", "pop", "copy", "update", "append", "__class__", "__dict__", "__len__", "name", "state_dict",
     "_metadata", "module", "_orig_mod")
)  # fmt: skip
_MAX_STEPS = 3  # from a name to what it was assigned


@dataclass(frozen=True, slots=True)
class Load:
    """A call of ``torch.load``: the name of the file, and the keys that are looked up in what was read.

    ``file`` is the last part of the path, with `*` for what is filled in; empty if nothing of it is known. ``path`` is
    all of it where it is one constant text, else empty. ``needed`` are the keys without which the lookup fails,
    ``objects`` those of entries of which an attribute is read that only objects have. ``is_default`` says that the call
    leaves it to torch what may be unpickled.
    """

    site: Site
    file: str
    path: str
    keys: frozenset[str]
    needed: frozenset[str]
    objects: frozenset[str]
    is_default: bool


def loads_in(module: SourceModule) -> Sequence[Load]:
    """The calls of ``torch.load`` in a file: asked for again and again, for each checkpoint that is written.

    Most files that load something else have none: that is known without their trees.
    """
    if loads_in in module.told:
        return ()
    known = module.derived.get(loads_in)
    if known is None:
        known = module.derived[loads_in] = tuple(_find_loads(module))
        if not known:
            module.told[loads_in] = known
    return known


def _find_loads(module: SourceModule) -> Iterator[Load]:
    calls = module.calls.get("load", ())
    spellings = _spellings(module) if calls else frozenset()
    for call in calls:
        if ast.unparse(call.func) in spellings:
            names = [keyword.arg for keyword in call.keywords]
            path = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "f"), None)
            file = file_name(_pattern(path, module, call, _MAX_STEPS)) if path is not None else ""
            is_default = None not in names and not any(name in _STRICT for name in names)
            keys, needed = keys_written(call, module), keys_written(call, module, needed=True)
            constant = _constant(path, module, call)
            yield Load(Site(module, call), file, constant, keys, needed, _objects_in(call, module, keys), is_default)


def _constant(path: ast.expr | None, module: SourceModule, place: ast.AST, steps: int = _MAX_STEPS) -> str:
    """A path of texts and of names for them, if all of it is known; empty where an option has a part in it."""
    if path is None or steps < 0:
        return ""
    callees = {id(node) for each in walk(path) if isinstance(each, ast.Call) for node in walk(each.func)}
    for node in walk(path):
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in callees:
            continue
        found = _assigned(node, module, place) if isinstance(node, ast.Name) else None
        if not _constant(found, module, place, steps - 1):
            return ""
    text = _pattern(path, module, place, steps)
    return "" if "*" in text or "{" in text or "%" in text else text


def is_other_folder(left: str, right: str) -> bool:
    """Whether two constant paths name files in two folders, however far up the program that asks for them starts."""
    parts = [re.split(r"[/\\]", path)[-2::-1] for path in (left, right)]
    mine, others = ([part for part in each if part not in ("", ".", "..")] for each in parts)
    return any(folder != other for folder, other in zip(mine, others, strict=False))


def _spellings(module: SourceModule) -> frozenset[str]:
    """What ``torch.load`` is called in a file, by its imports."""
    found: set[str] = set()
    for node in nodes_of(module.tree).of(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            found |= {f"{alias.asname or alias.name}.load" for alias in node.names if alias.name == "torch"}
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            found |= {alias.asname or alias.name for alias in node.names if alias.name == "load"}
    return frozenset(found)


def file_name(pattern: str) -> str:
    """The last part of a path with `*` for what is not known; empty where that says little."""
    name = re.sub(r"%[.\d]*\w|\{.*?\}", "*", re.split(r"[/\\]", pattern)[-1])
    name = re.sub(r"\*+", "*", name)
    stem = name.rpartition(".")[0] or name
    return name if len(re.findall(r"\w", stem)) > 2 else ""


def is_file_of(name: str, pattern: str) -> bool:
    """Whether a file is called so, or the number in its name is one that is filled in: `run_0099.pt` of `run_*.pt`."""
    if name == pattern:
        return True
    return pattern != "" and re.fullmatch(re.escape(pattern).replace(r"\*", r"\d+"), name) is not None


def fits_pattern(name: str, pattern: str) -> bool:
    """Whether a file may be called so: `net_best.pt` of `net_*.pt`, whatever is filled in."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name) is not None


def _pattern(node: ast.expr, module: SourceModule, place: ast.AST, steps: int) -> str:
    """A path as it is written: names stand for what they are assigned, options for defaults, `*` for the rest."""

    def of(part: ast.expr) -> str:
        return _pattern(part, module, place, steps)

    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "*"
    if isinstance(node, ast.Name | ast.Attribute):
        found = _assigned(node, module, place) if steps else None
        return _pattern(found, module, place, steps - 1) if found is not None else "*"
    if isinstance(node, ast.BinOp):
        return of(node.left) + ("/" if isinstance(node.op, ast.Div) else "") + of(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(of(part) for part in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return of(node.func.value)
    if isinstance(node, ast.Call):
        return "/".join(of(part) for part in node.args)
    return "*"


def _assigned(node: ast.Name | ast.Attribute, module: SourceModule, place: ast.AST) -> ast.expr | None:
    """What a name is assigned around a place, if that is one thing; of an option, its default."""
    if isinstance(node, ast.Name):
        around = enclosing_definition(Site(module, place)) or module.tree
        for tree in dict.fromkeys((around, module.tree)):
            values = [
                each.value
                for each in nodes_of(tree).of(ast.Assign)
                if any(isinstance(target, ast.Name) and target.id == node.id for target in each.targets)
            ]
            if values:
                return values[0] if len(values) == 1 else None
        return None
    for call in module.method_calls.get("add_argument", ()):
        flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if any(flag.lstrip("-").replace("-", "_") == node.attr for flag in flags):
            return next((keyword.value for keyword in call.keywords if keyword.arg == "default"), None)
    return None


def _objects_in(call: ast.Call, module: Module, keys: frozenset[str]) -> frozenset[str]:
    """The keys of entries that the function reads an attribute of, which only an object of some class can have."""
    around = enclosing_definition(Site(module, call)) or module.tree
    entries = {
        target.id: key
        for each in nodes_of(around).of(ast.Assign)
        if (key := _key_of(each.value)) in keys
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    called = {id(each.func) for each in nodes_of(around).of(ast.Call)}
    read = [each for each in nodes_of(around).of(ast.Attribute) if id(each) not in called]
    owners = [each.value for each in read if each.attr not in PLAIN_ATTRIBUTES]
    found = {entries.get(each.id, "") if isinstance(each, ast.Name) else _key_of(each) for each in owners}
    return frozenset(found & keys)


def _key_of(node: ast.expr) -> str:
    """The constant key of `checkpoint["args"]`; empty for anything else."""
    key = node.slice if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def keys_written(call: ast.Call, module: Module, *, needed: bool = False) -> frozenset[str]:
    """The constant keys that the function looks up in what a call returned, as long as a variable has it: not those of
    another arm, or of what the variable is given after it.

    With ``needed`` only those without which it fails: not those of ``get``, nor those that it tests for.
    """
    around = enclosing_definition(Site(module, call)) or module.tree
    names = {
        target.id
        for each in nodes_of(around).of(ast.Assign)
        if each.value is call
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    own = {id(read) for name in names for read in later_reads(name, Site(module, call), module)}
    found: set[str] = set()
    tested: set[str] = set()
    for each in nodes_of(around).of(ast.Subscript, ast.Call, ast.Compare):
        owner: ast.expr | None = None
        key: ast.expr | None = None
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Load):
            owner, key = each.value, each.slice
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in _GETTERS:
            owner, key = (each.func.value, each.args[0] if each.args else None) if not needed else (None, None)
        elif isinstance(each, ast.Compare) and isinstance(each.left, ast.Constant):
            tested.add(str(each.left.value))
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found |= {key.value} if owner is call or id(owner) in own else set()
    return frozenset(found - tested if needed else found)
