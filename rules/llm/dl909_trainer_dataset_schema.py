"""Data whose columns a trainer of trl does not read.

Each trainer looks for columns by fixed names: `SFTTrainer` for `text`, `messages`, or `prompt` and `completion`,
`DPOTrainer` and `RewardTrainer` for `chosen` and `rejected`, `GRPOTrainer` for `prompt`. Data with `question` and
`answer` is of no use to them; the run ends when the model has been loaded, with a `KeyError` that has one name in it.

Measured on trl 1.16: data with `prompt` and `response` given to `SFTTrainer` ends with `KeyError: 'completion'`, data
without any of the names with `KeyError: 'text'`, data with `prompt` and `completion` given to `DPOTrainer` with
`KeyError: 'chosen'`: 0 steps are made.

## Bad
    from datasets import Dataset
    from trl import SFTTrainer

    pairs = Dataset.from_dict({"question": questions, "answer": answers})
    SFTTrainer(model="Qwen/Qwen2.5-0.5B", train_dataset=pairs).train()

## Good
    from datasets import Dataset
    from trl import SFTTrainer

    pairs = Dataset.from_dict({"prompt": questions, "completion": answers})
    SFTTrainer(model="Qwen/Qwen2.5-0.5B", train_dataset=pairs).train()

## Not reported
Data of which not all columns are known, such as what `load_dataset` gives; trainers that get a function for formatting
or a collator, settings that are not seen, those that name a column or take the data as it is; data with images or with
token ids.

## On real code
13 of 495 public repositories that call trainers of trl: no finding. Hardly any of them writes the columns down beside
the trainer; most load data that is not there. So little proves nothing, and the rule is off by default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Function, Instance, Items, LibraryCall, Rule, Symbol, Table, Value

_PAIRS = (("chosen", "rejected"),)
_READS = {
    "SFTTrainer": (("text",), ("messages",), ("conversations",), ("prompt", "completion")),
    "DPOTrainer": _PAIRS,
    "ORPOTrainer": _PAIRS,
    "CPOTrainer": _PAIRS,
    "RewardTrainer": _PAIRS,
    "KTOTrainer": (("prompt", "completion", "label"), *_PAIRS),
    "GRPOTrainer": (("prompt",),),
    "RLOOTrainer": (("prompt",),),
}
_BY_ITSELF = ("ids", "image", "label_", "video")  # in names of columns that only data with a form of its own has
_OTHERWISE = ("formatting_func", "data_collator", "dataset_text_field", "dataset_kwargs")
_SAME_COLUMNS = (".select", ".shuffle", ".filter", ".train_test_split", ".flatten_indices", ".shard", ".sort")
_MOST = 12  # operations on the data


# ------------------------------------------------------------------------------------------------- excuses


def is_read_otherwise(event: LibraryCall, columns: frozenset[str], ctx: Context) -> bool:
    """the trainer or its settings say how the data is read, or are not seen"""
    settings = event.arguments.get(None, "args")
    given = [*event.arguments.keywords]
    if settings is not None and not ctx.is_none(settings):
        if not isinstance(settings, Instance) or not settings.arguments.exact:
            return True
        given += settings.arguments.keywords
    return not event.arguments.exact or any(name in _OTHERWISE for name in given)


def has_a_form_of_its_own(event: LibraryCall, columns: frozenset[str], ctx: Context) -> bool:
    """the data has images or token ids"""
    return any(part in column for column in columns for part in _BY_ITSELF)


class TrainerDatasetSchema(Rule):
    code = "DL909"
    name = "trainer-dataset-schema"
    category = "correctness"
    severity = "error"
    default = False
    confirmable = True
    triggers = (tuple(_READS), ("train_dataset",))
    references = ("https://huggingface.co/docs/trl/dataset_formats",)
    excuses = (is_read_otherwise, has_a_form_of_its_own)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        package, _, trainer = event.name.rpartition(".")
        data = event.arguments.get(None, "train_dataset")
        if package.partition(".")[0] != "trl" or trainer not in _READS or data is None:
            return
        columns = _columns(data, ctx)
        if columns is None or any(columns.issuperset(names) for names in _READS[trainer]):
            return
        if ctx.excused(self, event, columns):
            return
        wanted = ", or ".join(" and ".join(f"`{name}`" for name in names) for names in _READS[trainer])
        yield ctx.finding(
            self,
            event,
            f"`{trainer}` does not find the columns that it reads in this data",
            on=[event, data],
            effect="the run ends with a `KeyError` when the data is prepared",
            help=f"rename the columns: it reads {wanted}",
            trace=[
                *([(data.site, "the data is made here")] if data.site is not None else []),
                (event.site, "for this"),
            ],
        )


def _columns(data: Value, ctx: Context, depth: int = 0) -> frozenset[str] | None:
    """The names of all columns of a dataset, if they are known."""
    if not isinstance(data, Symbol) or not data.inputs or depth > _MOST:
        return None
    if data.name in ("datasets.Dataset.from_dict", "datasets.Dataset.from_list"):
        return _keys_given(data.inputs[0])
    if data.name == ".map":
        return _mapped(data, ctx, depth)
    if data.name in _SAME_COLUMNS or (data.name == "item" and ctx.constant(data.inputs[-1]) in ("train", "test")):
        return _columns(data.inputs[0], ctx, depth + 1)
    return None


def _keys_given(given: Value) -> frozenset[str] | None:
    """The keys of a dict, or of each of the dicts in a list."""
    if isinstance(given, Items) and given.items:
        found = {_keys_given(each) for each in given.items if isinstance(each, Table)}
        return found.pop() if len(found) == 1 and all(isinstance(each, Table) for each in given.items) else None
    if not isinstance(given, Table) or not all(isinstance(key, str) for key in given.contents):
        return None
    return frozenset(str(key) for key in given.contents)


def _mapped(data: Symbol, ctx: Context, depth: int) -> frozenset[str] | None:
    """The columns of data that a function was applied to: what it returns, and what is not removed."""
    function, removed = ctx.argument(data, 0, "function"), ctx.argument(data, 99, "remove_columns")
    made = _keys_returned(function.node) if isinstance(function, Function) else None
    if made is None:
        return None
    if isinstance(removed, Symbol) and removed.name == "attribute" and removed.detail == "column_names":
        return made
    before = _columns(data.inputs[0], ctx, depth + 1)
    names = [ctx.constant(each) for each in removed.items] if isinstance(removed, Items) else []
    is_known = before is not None and (removed is None or isinstance(removed, Items))
    return (before - {str(name) for name in names}) | made if is_known and before is not None else None


def _keys_returned(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str] | None:
    """The keys of the dicts that a function returns, if all of them are written with the same."""
    if isinstance(function, ast.Lambda):
        returned: list[ast.expr | None] = [function.body]
    else:
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    found = {_keys_written(node) for node in returned}
    return found.pop() if len(found) == 1 else None


def _keys_written(node: ast.expr | None) -> frozenset[str] | None:
    keys = node.keys if isinstance(node, ast.Dict) else [None]
    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return frozenset(names) if len(names) == len(keys) else None
