"""Shapes of what comes from data: batches of loaders, and columns of tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from dllint.interp.ask.axis_indexing import is_place
from dllint.interp.ask.collected import is_drawn
from dllint.interp.ask.shape import Shape, joined
from dllint.interp.ask.sizes import Meaning, Size, of_axis
from dllint.values import Class, Const, Function, Instance, Items, Symbol, Table, Value

_TABLES = ("pandas.read_", "pandas.DataFrame")
_LOADER = "torch.utils.data.DataLoader"
_ENVIRONMENTS = ("gym.make", "gymnasium.make")
_OF_STEP = (1, 2, 3)  # the reward and whether the episode has ended; the fourth may be what else there is to know
_SAME_TABLE = (".drop", ".dropna", ".fillna", ".sample", ".reset_index", ".drop_duplicates", ".head")
TABLE_CALLS = (*_TABLES, *_SAME_TABLE)
POOLS_OF_GRAPHS = frozenset(
    f"{package}.global_{kind}_pool"
    for package in ("torch_geometric.nn", "torch_geometric.nn.pool", "torch_geometric.nn.glob")
    for kind in ("mean", "add", "max")
)
_MASKS = ("compare", "&", "|", "not", ".isin")
_WITH_CELLS = ("pandas.read_csv", "pandas.read_table", "pandas.read_excel")  # of which each holds a number or a text
ROWS = ("iloc", "loc")
_MEMORY = re.compile(r"(?i)replay|memory|buffer")
_BATCH_SIZE = re.compile(r"(?i)(.*_)?(batch_?size|bs)")
_CAPACITY = re.compile(r"(?i)(.*_)?(capacity|(mem(ory)?|max|buffer)_?(size|len))")


def from_data(
    item: Symbol, shape_of: Callable[[Value], Shape], sample_of: Callable[[Instance], Value | None]
) -> Shape | None:
    """The shape of a part of a batch, of a part of a split, or of a column."""
    base = item.inputs[0]
    if not isinstance(base, Symbol):
        return None
    loader = loader_of(base)
    if loader is not None:
        return _of_batch(item, base, loader, shape_of, sample_of)
    of_samples = _of_samples(item, base, shape_of, sample_of)
    if of_samples is not None:
        return of_samples
    if is_drawn_from_memory(base):
        return of_memory(item)
    if base.name.endswith(".train_test_split") and isinstance(item.detail, int):
        place = item.detail // 2
        return _of_part(item, shape_of(base.inputs[place])) if place < len(base.inputs) else None
    if base.name.startswith(_TABLES) and _is_name(item):
        return Shape((of_axis(item, 0),))
    if isinstance(item.inputs[-1], Items) and _is_table(item):
        return of_table(item)
    is_number = _is_of_step(item, base) or _is_cell(item, base)
    return Shape(()) if is_number else None


def _is_of_step(item: Symbol, base: Symbol) -> bool:
    """Whether a value is the reward, or the end, of one step of one environment: a number."""
    environment = base.inputs[0] if base.name == ".step" and base.inputs else None
    return getattr(environment, "name", "") in _ENVIRONMENTS and item.detail in _OF_STEP


def _is_cell(item: Symbol, base: Symbol) -> bool:
    """Whether a value is ``frame.iloc[i]["price"]`` or ``frame.loc[i, "price"]``: one number of a table."""
    index = item.inputs[1] if len(item.inputs) > 1 else None
    if isinstance(index, Items):
        is_pair = index.exact and len(index.items) == 2 and is_place(index.items[0])
        return is_pair and _is_of_rows(base) and isinstance(index.items[1], Const)
    return isinstance(index, Const) and isinstance(index.value, str | int) and _is_row(base)


def _is_row(value: Symbol) -> bool:
    """Whether a value is ``frame.iloc[i]``, or what ``frame.iterrows()`` yields with the index."""
    whole = value.inputs[0] if value.name == "item" and len(value.inputs) > 1 else None
    if not isinstance(whole, Symbol):
        return False
    rows = whole.inputs[0] if whole.name == "element" else None
    if isinstance(rows, Symbol) and rows.name == ".iterrows":
        return value.detail == 1 and _is_table(rows.inputs[0], _WITH_CELLS)
    return is_place(value.inputs[1]) and _is_of_rows(whole)


def _is_of_rows(value: Symbol) -> bool:
    return value.name == "attribute" and value.detail in ROWS and _is_table(value.inputs[0], _WITH_CELLS)


def is_drawn_from_memory(value: Value) -> bool:
    """Whether a value is what ``replay_buffer.sample(n)`` returns: transitions, in tensors of as many rows."""
    if not isinstance(value, Symbol) or len(value.inputs) < 2:
        return False
    source = value.inputs[0]
    if isinstance(source, Function):  # of the project, and not looked into
        owner, method = (source.owner.name if source.owner is not None else ""), source.name
    elif isinstance(source, Instance):
        owner = source.cls.name if isinstance(source.cls, Class) else source.library_name.rpartition(".")[2]
        method = value.name.rpartition(".")[2]
    else:
        return False
    is_one = isinstance(value.inputs[1], Const) and value.inputs[1].value == 1
    return method == "sample" and _MEMORY.search(owner) is not None and not is_one


def of_memory(part: Symbol) -> Shape:
    """A part of what was drawn from a memory, ``batch.rewards``: its first axis is that of the batch."""
    return Shape((of_axis(part.inputs[0], 0, meaning="batch"),), (part, 1))


def of_batch_size(made: Symbol) -> Shape | None:
    """``torch.zeros(batch_size)``: a row of numbers, one for each sample, as the name of its size says.

    ``numpy.zeros(capacity)`` is one as well, with one for each of the transitions of a memory.
    """
    call = made.site.node if made.site is not None else None
    given = made.arguments.positional if made.arguments is not None else ()
    if not isinstance(call, ast.Call) or len(call.args) != 1 or len(given) != 1 or given[0] == Const(1):
        return None
    name = getattr(call.args[0], "id", getattr(call.args[0], "attr", ""))
    if _BATCH_SIZE.fullmatch(name):
        return Shape((of_axis(made, 0, name, "batch"),))
    return Shape((of_axis(made, 0, name),)) if _CAPACITY.fullmatch(name) else None


def of_column(values: Symbol) -> Shape | None:
    """``frame["price"].values``: a row, as only a column of a table has this and is taken by one name."""
    column = values.inputs[0]
    is_column = isinstance(column, Symbol) and column.name == "item" and _is_name(column)
    return Shape((of_axis(column, 0),)) if is_column else None


def of_table(value: Value) -> Shape | None:
    """A table as a tensor: rows and columns, if it was read as one and lost some of them at most."""
    return Shape((of_axis(value, 0), of_axis(value, 1))) if _is_table(value) else None


def of_graphs(pooled: Symbol, nodes: Shape) -> Shape:
    """What a pooling makes of the nodes of a batch of graphs: a row for each graph."""
    return Shape((of_axis(pooled, 0, meaning="batch"), nodes.axis(-1) or of_axis(pooled, 1)))


def _is_table(value: Value, made_by: tuple[str, ...] = _TABLES) -> bool:
    """Whether a value is a table, or some rows and columns of one."""
    while (before := _table_before(value)) is not None:
        value = before
    return isinstance(value, Symbol) and value.name.startswith(made_by)


def _table_before(value: Value) -> Value | None:
    """The table of which another is a part."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    base = value.inputs[0]
    if value.name in _SAME_TABLE:
        return base
    if value.name != "item" or not isinstance(base, Symbol):
        return None
    if base.name.endswith(".train_test_split") and isinstance(value.detail, int):
        return base.inputs[value.detail // 2] if value.detail // 2 < len(base.inputs) else None
    index = value.inputs[1] if len(value.inputs) > 1 else None
    is_mask = isinstance(index, Symbol) and index.name in _MASKS
    return base if isinstance(index, Items) or is_mask else None


def _is_name(item: Symbol) -> bool:
    index = item.inputs[1] if len(item.inputs) > 1 else None
    return isinstance(index, Const) and isinstance(index.value, str)


def _of_part(part: Symbol, whole: Shape) -> Shape | None:
    """The rows of a split: as many axes as all of them have, and a number of rows of its own."""
    return Shape((of_axis(part, 0), *whole.sizes[1:]), whole.rest, whole.back) if whole.sizes else None


def loader_of(batch: Symbol) -> Instance | None:
    """The loader whose batches an iteration yields, or ``next(iter(loader))``."""
    source = batch.inputs[0] if batch.name in ("element", "next") and batch.inputs else None
    if isinstance(source, Symbol) and source.name == "iter" and source.inputs:
        source = source.inputs[0]
    return source if isinstance(source, Instance) and source.library_name == _LOADER else None


def _of_batch(
    item: Symbol,
    batch: Symbol,
    loader: Instance,
    shape_of: Callable[[Value], Shape],
    sample_of: Callable[[Instance], Value | None],
) -> Shape | None:
    """A part of a batch of a loader: what a dataset of tensors holds, with as many samples as the batch has."""
    if not makes_batches(loader):
        return None
    samples = of_axis(batch, 0, meaning="batch")
    dataset = loader.arguments.get(0, "dataset")
    if isinstance(dataset, Instance) and dataset.library_name.endswith(".TensorDataset"):
        held = dataset.arguments.positional
        if isinstance(item.detail, int) and item.detail < len(held):
            whole = shape_of(held[item.detail])
            if whole.rank:
                return Shape((samples, *whole.sizes[1:]))
    part = part_of_sample(item, loader, sample_of)
    one = shape_of(part) if part is not None else None
    return Shape((samples, *one.sizes)) if one is not None and one.rank is not None else Shape((samples,), (item, 1))


def part_of_sample(item: Symbol, loader: Instance, sample_of: Callable[[Instance], Value | None]) -> Value | None:
    """The part of a sample that a part of a loader's batches is stacked from."""
    dataset = _behind_split(loader.arguments.get(0, "dataset")) if makes_batches(loader) else None
    return _part_of(sample_of(dataset), item) if isinstance(dataset, Instance) else None


def _of_samples(
    item: Symbol, base: Symbol, shape_of: Callable[[Value], Shape], sample_of: Callable[[Instance], Value | None]
) -> Shape | None:
    """A part of one of the samples that a ``collate_fn`` is given, or that part of all of them: ``zip(*samples)``."""
    is_of_all = base.name == "zip" and len(base.inputs) == 1
    sample = base.inputs[0] if is_of_all else base
    given = sample.inputs[0] if isinstance(sample, Symbol) and sample.name == "element" else None
    loader = given.inputs[0] if isinstance(given, Symbol) and given.name == "samples" else None
    dataset = _behind_split(loader.arguments.get(0, "dataset")) if isinstance(loader, Instance) else None
    part = _part_of(sample_of(dataset), item) if isinstance(dataset, Instance) else None
    one = shape_of(part) if part is not None else None
    if one is None or one.rank is None:
        return None
    return Shape((of_axis(sample, 0, meaning="batch"), *one.sizes)) if is_of_all else one


def _behind_split(dataset: Value | None) -> Value | None:
    """The dataset of which another is a part: of `random_split`, or a `Subset`."""
    if isinstance(dataset, Symbol) and dataset.name == "item" and isinstance(dataset.inputs[0], Symbol):
        split = dataset.inputs[0]
        return split.inputs[0] if split.name.endswith(".random_split") and split.inputs else dataset
    if isinstance(dataset, Instance) and dataset.library_name.endswith(".Subset"):
        return dataset.arguments.get(0, "dataset")
    return dataset


def _part_of(sample: Value | None, item: Symbol) -> Value | None:
    """The part of a sample at a place, or under a key, which a part of a batch is stacked from."""
    if isinstance(sample, Items) and sample.exact and isinstance(item.detail, int):
        return sample.items[item.detail] if -len(sample.items) <= item.detail < len(sample.items) else None
    key = item.inputs[1] if len(item.inputs) > 1 else None
    if isinstance(sample, Table) and isinstance(key, Const) and isinstance(key.value, str):
        return sample.contents.get(key.value)
    return None


def of_whole_batch(batch: Symbol) -> Shape | None:
    """What a loader yields where it is used as one tensor, since the samples are tensors and no tuples."""
    loader = loader_of(batch)
    return Shape((of_axis(batch, 0, meaning="batch"),), (batch, 1)) if loader and makes_batches(loader) else None


def makes_batches(loader: Instance) -> bool:
    """Whether the samples are stacked by a loader's own collation, along a first axis."""
    given = loader.arguments
    if not given.exact:
        return False
    collate, sampler = given.get(6, "collate_fn"), given.get(4, "batch_sampler")
    is_own = collate is None or (isinstance(collate, Const) and collate.value is None) or _is_default(collate)
    size = given.get(1, "batch_size")
    return is_own and (sampler is not None or not (isinstance(size, Const) and size.value is None))


def _is_default(collate: Value) -> bool:
    return getattr(collate, "name", "").endswith("default_collate")


def listed(value: Items, shape_of: Callable[[Value], Shape]) -> Shape | None:
    """A tensor made of a list of numbers or of lists, of which all have one shape; there may be more than are known."""
    if not value.items:
        return None
    inner = shape_of(value.items[0]) if value.exact else joined([shape_of(each) for each in value.items], value)
    meaning: Meaning = "batch" if all(map(is_drawn, value.items)) else ""
    count = Size(len(value.items)) if value.exact else of_axis(value, 0, meaning=meaning)
    return Shape((count, *inner.sizes), inner.rest, inner.back) if inner is not None else Shape((count,), (value, 1))
