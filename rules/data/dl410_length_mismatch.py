"""Lists of a dataset that are read beside each other and differ in length, or a length that is not that of the samples.

After `self.images = [x for x in images if os.path.exists(x)]` the lists go together up to the first image that is left
out. From there on every image has the label of another one, and the last labels are never read. Nothing fails, as
the shorter list decides the length. So it is where a loop fills two lists and one of them is filtered afterwards.

The same happens with a `__len__` that counts something else: the images, of which each has five captions, so that four
captions in five are never read; the files, of each of which six pieces are samples; or all characters of a text of
which each sample takes the next 128.

Measured on torch 2.13 (10 classes, 2,000 samples, three seeds): where one sample in a hundred is left out, accuracies
of .743, .194 and .279 instead of .971, .981 and .970; where one in ten is, .164, .041 and .149.

## Bad
    from torch.utils.data import Dataset

    class Pictures(Dataset):
        def __init__(self, paths, labels):
            self.paths = [path for path in paths if os.path.exists(path)]
            self.labels = labels

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            return Image.open(self.paths[index]), self.labels[index]

## Good
    from torch.utils.data import Dataset

    class Pictures(Dataset):
        def __init__(self, paths, labels):
            kept = [(path, label) for path, label in zip(paths, labels) if os.path.exists(path)]
            self.paths, self.labels = zip(*kept)

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, index):
            return Image.open(self.paths[index]), self.labels[index]

## Not reported
Lists that are both filtered, or of which one is made from the other; lists of indices, through which the others are
read; lists that are changed again; files of a folder that are chosen by their names, as there may be no others. A
`__getitem__` that asks where its index stands (a condition on it or on a length, `min`, a remainder of anything but
the parts of an entry), lists that are padded or joined with a part of themselves, samples that are filled up, and
files with a `collate_fn`, which may take windows that are shorter. Pieces of what is repeated, or where there is a
sampler. What is read at `index + 1` alone, and may be a dict whose keys begin at 1. Lists of which the constructor
compares the lengths; lengths that a class which extends the dataset tells, and subsets and samplers, which may leave
out the last samples. Whether a caller has left out the same entries is a question where the condition is a
parameter's, or of empty entries.

## On real code
283 public repositories, of which 18 filter what a dataset keeps: no finding. Of 2 in unread ones both were false:
entries of a dict, whose keys begin at 1. What else the pattern has in right programs was looked for among such that
were written for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Assumption,
    Context,
    Finding,
    Program,
    Rule,
    Site,
    counted_attribute,
    declared_length,
    filtered_beside,
    nodes_of,
    only_value,
    sample_reads,
    split_reads,
)

_DROPPING = frozenset(("dropna", "drop_duplicates", "query"))
_LISTING = ("listdir", "glob", "rglob", "iterdir", "scandir", "walk", "endswith", "suffix", "splitext")
_LISTS = frozenset(
    ("list", "sorted", "tuple", "readlines", "splitlines", "split", "listdir", "glob", "tolist", "array", "asarray",
     "loadtxt", "genfromtxt", "tensor", "from_numpy", "arange", "linspace", "zeros", "empty", "rand", "randn",
     "read_csv", "stack", "cat", "concatenate")
)  # fmt: skip
_PLAIN = frozenset(("values", "tolist", "to_numpy", "reset_index", "list"))

_JOINED = frozenset(("concatenate", "cat", "hstack", "append", "concat"))
_ADDED = frozenset(("zeros", "ones", "full", "zeros_like", "repeat", "tile"))
_CHOSEN = r"\bSubset\(|SubsetRandomSampler|class \w*Sampler"


@dataclass(frozen=True, slots=True)
class _Claim:
    """The class of a dataset, and what is left out of its entries: nothing where its length is wrong."""

    owner: ast.ClassDef
    kept: ast.expr | None = None


# ------------------------------------------------------------------------------------------------- excuses


def is_of_files(place: Site, claim: _Claim, ctx: Context) -> bool:
    """files of a folder are chosen by their names"""
    return claim.kept is not None and any(word in ast.unparse(claim.kept) for word in _LISTING)


def is_compared_in_length(place: Site, claim: _Claim, ctx: Context) -> bool:
    """the constructor compares the lengths of both, so that it would fail"""
    init = next(each for each in claim.owner.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    tests = (node.test for node in ast.walk(init) if isinstance(node, ast.Assert | ast.If))
    return claim.kept is not None and any(ast.unparse(test).count("len(") > 1 for test in tests)


def has_another_length(place: Site, claim: _Claim, ctx: Context) -> bool:
    """a class that extends the dataset tells its length"""
    name = claim.owner.name
    heirs = (
        each
        for _, tree in ctx.trees(name)
        for each in nodes_of(tree).of(ast.ClassDef)
        if any(name in (getattr(base, "id", ""), getattr(base, "attr", "")) for base in each.bases)
    )
    parts = (part for heir in heirs for part in heir.body)
    return claim.kept is None and any(isinstance(part, ast.FunctionDef) and part.name == "__len__" for part in parts)


def is_filled_up(place: Site, claim: _Claim, ctx: Context) -> bool:
    """what is read is put into a sample of full length: `sample[: len(part)] = part`"""
    fetch = next(each for each in claim.owner.body if isinstance(each, ast.FunctionDef) and each.name == "__getitem__")
    stored = (node for node in ast.walk(fetch) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
    return claim.kept is None and any(isinstance(each, ast.Slice) for node in stored for each in ast.walk(node.slice))


def is_not_all_asked_for(place: Site, claim: _Claim, ctx: Context) -> bool:
    """a subset or a sampler of the project may leave out the last samples"""
    return claim.kept is None and ctx.project_mentions(_CHOSEN, where="here")


class LengthMismatch(Rule):
    code = "DL410"
    name = "length-mismatch"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("__getitem__",),)
    of_files = True
    references = ("https://docs.pytorch.org/docs/stable/data.html#map-style-datasets",)
    excuses = (is_of_files, is_compared_in_length, is_filled_up, has_another_length, is_not_all_asked_for)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for node in program.module.tree.body:
            if isinstance(node, ast.ClassDef):
                yield from self._in_class(node, program, ctx)

    def _in_class(self, owner: ast.ClassDef, program: Program, ctx: Context) -> Iterator[Finding]:
        methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
        if not {"__init__", "__getitem__"} <= set(methods):
            return
        read = list(dict.fromkeys(_read_at_index(methods["__getitem__"])))
        if "__len__" in methods:
            yield from self._of_length(methods, owner, program, ctx)
        assigned = {name: only_value(name, owner, methods["__init__"]) for name in read}
        parameters = {each.arg for each in methods["__init__"].args.args} - _rebound(methods["__init__"])
        for name, value in assigned.items():
            if len(read) < 2 or value is None or not _is_filtered(value, parameters):
                continue
            other = next((each for each in read if _is_as_given(assigned[each], parameters)), None)
            place = Site(program.module, value)
            if other is not None and not ctx.excused(self, place, _Claim(owner, value)):
                assumed = _assumed_whole(value, other, parameters)
                yield self._report(place, name, other, Site(program.module, methods["__getitem__"]), ctx, assumed)
        for found in filtered_beside(owner, read):
            place = Site(program.module, found.node)
            if not ctx.excused(self, place, _Claim(owner, found.node)):
                yield self._report(place, found.name, found.other, Site(program.module, methods["__getitem__"]), ctx)

    def _of_length(
        self, methods: dict[str, ast.FunctionDef], owner: ast.ClassDef, program: Program, ctx: Context
    ) -> Iterator[Finding]:
        """A length that counts the entries of a list which is not read at the index of the sample."""
        length = declared_length(owner)
        name = counted_attribute(length) if length is not None else ""
        reads = list(sample_reads(methods["__getitem__"]))
        own = [read for read in reads if read.name == name]
        beyond = next((read for read in own if read.at in ("ahead", "window", "multiple")), None)
        others = next((read for read in reads if read.name != name and read.at == "index"), None)
        split = next((read for read in split_reads(methods["__getitem__"]) if read.name == name), None)
        if length is not None and split is not None and not _may_have_all(name, owner, methods["__init__"], ctx):
            yield self._report_split(Site(program.module, length), name, Site(program.module, split.node), ctx)
        if length is None or not own:
            return
        if all(read.at == "ahead" for read in own) and not _is_listed(name, owner, methods["__init__"]):
            return  # the index is a key, perhaps
        if ctx.excused(self, Site(program.module, length), _Claim(owner)):
            return
        if beyond is not None and not _is_padded(name, owner) and not ctx.mentions("collate_fn", where="here"):
            yield ctx.finding(
                self,
                Site(program.module, length),
                f"`__len__` counts every entry of `self.{name}`, and the last samples reach beyond its end",
                effect="the last samples are too short for a batch, or raise `IndexError`",
                help="count the samples: subtract what a sample takes beyond its index",
                trace=[(Site(program.module, beyond.node), "reads on from the index, or at a multiple of it")],
            )
        elif others is not None and all(read.at == "fraction" for read in own):
            yield ctx.finding(
                self,
                Site(program.module, length),
                f"`__len__` counts `self.{name}`, of which several samples share an entry",
                effect=f"most of `self.{others.name}` is never read",
                help=f"count the samples: return `len(self.{others.name})`",
                trace=[
                    (Site(program.module, own[0].node), "several indices lead to one entry"),
                    (Site(program.module, others.node), "and each to one of these"),
                ],
            )

    def _report_split(self, length: Site, name: str, read: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            length,
            f"`__len__` counts `self.{name}`, of which several samples are parts of one entry",
            effect="only the first entries are ever read, and the rest of the data are left out",
            help="count the samples: multiply by the parts of each entry",
            trace=[(read, "several indices lead to one entry, and the remainder takes a part of it")],
        )

    def _report(
        self, place: Site, name: str, other: str, reading: Site, ctx: Context, assumed: tuple[Assumption, ...] = ()
    ) -> Finding:
        return ctx.finding(
            self,
            place,
            f"`self.{name}` is filtered and `self.{other}` is not, and both are read at the same index",
            assuming=assumed,
            effect="from the first sample that is left out, inputs have the targets of others",
            help="filter both together, or keep a list of the indices that stay",
            trace=[
                (place, "entries are left out here"),
                (reading, f"and `self.{other}[index]` belongs to another one"),
            ],
        )


def _assumed_whole(value: ast.expr, other: str, parameters: set[str]) -> tuple[Assumption, ...]:
    """That the caller has not left out the same entries of the other list: it knows what it asks for by a parameter,
    and empty entries may stand at an end."""
    conditions: list[ast.expr] = []
    if isinstance(value, ast.ListComp):
        conditions = list(value.generators[0].ifs)
    elif isinstance(value, ast.Subscript):
        conditions = [value.slice]
    own = ast.unparse(value.value if isinstance(value, ast.Subscript) else getattr(value, "elt", value))
    is_asked = any(
        isinstance(node, ast.Name) and node.id in parameters and node.id != own
        for each in conditions
        for node in ast.walk(each)
    )
    is_of_empty = any(isinstance(each, ast.Name) or ast.unparse(each).endswith(".strip()") for each in conditions)
    if not is_asked and not is_of_empty:
        return ()
    return (Assumption("effect", f"`self.{other}` is given with the entries that are left out"),)


def _may_have_all(name: str, owner: ast.ClassDef, init: ast.FunctionDef, ctx: Context) -> bool:
    """Whether a list may have its entries several times, or a sampler may ask for more samples than it has entries."""
    made = only_value(name, owner, init)
    is_product = any(isinstance(node, ast.Mult) for node in ast.walk(made)) if made is not None else True
    return is_product or "repeat" in ast.unparse(made or init) or ctx.project_mentions("[Ss]ampler", where="here")


def _is_listed(name: str, owner: ast.ClassDef, init: ast.FunctionDef) -> bool:
    """Whether an attribute holds entries by their places for sure: what is handed in may hold them by keys."""
    made = only_value(name, owner, init)
    if isinstance(made, ast.Call):
        called = made.func.attr if isinstance(made.func, ast.Attribute) else getattr(made.func, "id", "")
        return called in _LISTS
    if made is None:  # it is filled, or made in several ways
        stored = (node for node in ast.walk(owner) if isinstance(node, ast.Assign))
        made = next((each.value for each in stored if f"self.{name}" in map(ast.unparse, each.targets)), None)
    return isinstance(made, ast.List | ast.ListComp | ast.Tuple)


def _is_padded(name: str, owner: ast.ClassDef) -> bool:
    """Whether something is appended to a list where it is made, so that the last samples may be whole."""
    assigned = [node for node in ast.walk(owner) if isinstance(node, ast.Assign | ast.AugAssign | ast.Call)]
    texts = [ast.unparse(node) for node in assigned if f"self.{name}" in ast.unparse(node)]
    made = [node.value for node in assigned if isinstance(node, ast.Assign) and f"self.{name}" in ast.unparse(node)]
    return any("pad" in text.lower() for text in texts) or any(map(_is_lengthened, made))


def _is_lengthened(value: ast.expr) -> bool:
    """Whether a value is joined with a part of itself, or with numbers that are made: `cat([x, x[:n]])`."""
    called = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    names = {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in called}
    if not names & _JOINED and not isinstance(value, ast.BinOp):
        return False
    cut = {
        ast.unparse(node.value)
        for node in ast.walk(value)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
    }
    read = [ast.unparse(node) for node in ast.walk(value) if isinstance(node, ast.Name | ast.Attribute)]
    return bool(names & _ADDED) or any(read.count(each) > 1 for each in cut)


def _read_at_index(method: ast.FunctionDef) -> Iterator[str]:
    """The attributes that are read at the index of the sample, as it is."""
    index = method.args.args[1].arg if len(method.args.args) > 1 else ""
    if index in _rebound(method):
        return
    for node in ast.walk(method):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id == index:
            held = node.value
            if isinstance(held, ast.Attribute) and held.attr in ("iloc", "values"):
                held = held.value
            if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and held.value.id == "self":
                yield held.attr


def _rebound(method: ast.FunctionDef) -> set[str]:
    return {node.id for node in ast.walk(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _is_filtered(value: ast.expr, parameters: set[str]) -> bool:
    """Whether a value is those of a parameter's entries that fulfil a condition."""
    if isinstance(value, ast.ListComp) and len(value.generators) == 1 and value.generators[0].ifs:
        one = value.generators[0]
        return _is_parameter(one.iter, parameters) and ast.unparse(value.elt) == ast.unparse(one.target)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _DROPPING:
        return _is_parameter(value.func.value, parameters)
    return (
        isinstance(value, ast.Subscript)
        and _is_parameter(value.value, parameters)
        and isinstance(value.slice, ast.Compare | ast.UnaryOp)
    )


def _is_as_given(value: ast.expr | None, parameters: set[str]) -> bool:
    """Whether a value is a parameter, or a column of it, with all its entries."""
    while isinstance(value, ast.Call | ast.Attribute):
        function = value.func if isinstance(value, ast.Call) else value
        if not isinstance(function, ast.Attribute):
            is_list = isinstance(value, ast.Call) and isinstance(function, ast.Name) and function.id == "list"
            value = value.args[0] if isinstance(value, ast.Call) and is_list and value.args else None
        else:
            value = function.value if function.attr in _PLAIN else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        value = value.value
    return value is not None and _is_parameter(value, parameters)


def _is_parameter(node: ast.expr, parameters: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in parameters
