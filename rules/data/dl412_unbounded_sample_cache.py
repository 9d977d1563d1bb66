"""A dataset that keeps each sample it has read, without a limit.

Every worker process has a copy of the dataset, and fills a cache of its own. Where workers are made again for each
epoch, which is the default, the cache is thrown away before it is read a second time; where they persist, or there are
none, memory grows until all samples are in it, in each worker once.

Measured on torch 2.13 (64 samples, 4 workers): without `persistent_workers` 0 of 64 samples come from the cache in
each of 4 epochs; with it 0, 30, 49 and 58.

## Bad
    from torch.utils.data import Dataset

    class Pictures(Dataset):
        def __init__(self, paths):
            self.paths = paths
            self.cache = {}

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            if index not in self.cache:
                self.cache[index] = load(self.paths[index])
            return self.cache[index]

## Good
    from torch.utils.data import Dataset

    class Pictures(Dataset):
        def __init__(self, file, shape):
            self.images = np.memmap(file, mode="r", shape=shape)

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return self.images[index]

## Not reported
Caches with a limit, or from which something is removed; those that an option switches on; shared memory; paths, open
files and numbers that are kept.

## On real code
276 public repositories: 3 findings in 2 of them, all true, after one that was false: an option of the caller's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Program, Rule, Site, attribute_of_self, nodes_of, sample_caches

_SHARED = ("share_memory", "memmap", "Manager", "shared_memory", "lmdb")
_REMOVING = frozenset(("pop", "popitem", "clear", "len"))
_HANDLES = ("open", "File", "ZipFile", "VideoReader", "VideoCapture", "connect", "Environment", "join", "len", "str")

# ------------------------------------------------------------------------------------------------- excuses


def is_limited(owner: ast.ClassDef, place: ast.AST, name: str, ctx: Context) -> bool:
    """something is removed from it, or its size is asked for"""
    for node in ast.walk(owner):
        is_removing = isinstance(node, ast.Delete) or (isinstance(node, ast.Call) and _name_called(node) in _REMOVING)
        if is_removing and any(attribute_of_self(each) == name for each in ast.walk(node)):
            return True
    return False


def is_switched_on(owner: ast.ClassDef, place: ast.AST, name: str, ctx: Context) -> bool:
    """an option switches it on"""
    inits = (each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    options = [argument.arg for init in inits for argument in (*init.args.args, *init.args.kwonlyargs)]
    if any(word in option.lower() for option in options for word in ("cache", "memory", "in_ram", "preload")):
        return True
    tests = [node.test for node in ast.walk(owner) if isinstance(node, ast.If) and _holds(node.body, place)]
    return any(isinstance(part, ast.Attribute) and part.attr != name for test in tests for part in ast.walk(test))


def is_shared(owner: ast.ClassDef, place: ast.AST, name: str, ctx: Context) -> bool:
    """it is in memory that workers share"""
    return any(word in ast.unparse(owner) for word in _SHARED)


def is_small(owner: ast.ClassDef, place: ast.AST, name: str, ctx: Context) -> bool:
    """what is kept is a path, an open file or a number"""
    value = place.value if isinstance(place, ast.Assign) else None
    is_handle = isinstance(value, ast.Call) and _name_called(value) in _HANDLES
    return is_handle or isinstance(value, ast.Constant | ast.BinOp | ast.Compare | ast.JoinedStr)


class UnboundedSampleCache(Rule):
    code = "DL412"
    name = "unbounded-sample-cache"
    category = "performance"
    severity = "info"
    triggers = (("__getitem__",), ("Dataset",))
    of_files = True
    references = ("https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",)
    excuses = (is_limited, is_switched_on, is_shared, is_small)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for owner in nodes_of(program.module.tree).of(ast.ClassDef):
            if isinstance(owner, ast.ClassDef) and any("Dataset" in ast.unparse(base) for base in owner.bases):
                for name, place in sample_caches(owner):
                    if not ctx.excused(self, owner, place, name):
                        yield self._report(name, Site(program.module, place), ctx)
                        break

    def _report(self, name: str, place: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"each sample stays in the cache `{name}`, of which every worker has its own",
            effect="memory grows up to all samples for each worker, or no sample is ever taken from the cache",
            help="read from a memory-mapped file, or limit the cache",
            trace=[(place, "is kept, and nothing is ever removed")],
        )


def _name_called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _holds(body: list[ast.stmt], place: ast.AST) -> bool:
    return any(node is place for each in body for node in ast.walk(each))
