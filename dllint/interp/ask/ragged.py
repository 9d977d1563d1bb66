"""Parts of samples that differ in length from sample to sample: words or characters of a text, objects of an image."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.choices import Choice, alternatives, choose
from dllint.forms import element_of
from dllint.interp.run.graph import sources, sources_under
from dllint.interp.source.positions import ancestors
from dllint.sites import Guard, Guards
from dllint.values import Class, Const, Instance, Items, Symbol, Table, Value

OF_OBJECTS = frozenset(
    f"torchvision.datasets.{name}" for name in ("CocoDetection", "VOCDetection", "Kitti", "WIDERFace")
)
_MAX_DEPTH = 12
_WITH_TARGET = 3  # the inputs of a call of a transform with an image and its target
_WORDS = frozenset(
    (".tokenize", ".word_tokenize", ".encode", ".loadAnns", "nltk.word_tokenize", "nltk.tokenize.word_tokenize",
     "jieba.cut", "jieba.lcut")
)  # fmt: skip
_TEXTS = frozenset((".strip", ".lstrip", ".rstrip", ".lower", ".upper", ".replace", ".read", ".readline", ".decode"))
_LIMITING = frozenset(("padding", "max_length", "maxsplit", "truncation", "pad_to_max_length"))
_MASKS = frozenset(("<", "<=", ">", ">=", "==", "!=", "&", "|", "~", "not", "compare"))
_DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_FILLING = frozenset(("repeat", "cycle", "islice", "zip_longest", "ljust", "rjust", "resize"))
_SAME = frozenset(
    ("torch.tensor", "torch.Tensor", "torch.LongTensor", "torch.FloatTensor", "torch.IntTensor", "torch.as_tensor",
     "torch.from_numpy", "numpy.array", "numpy.asarray", "list", ".long", ".float", ".int", ".to", ".type", ".astype",
     ".reshape")
)  # fmt: skip


def is_filled_up(cause: Symbol, dataset: Instance) -> bool:
    """Whether code may bring words or objects to one length: it measures how many are missing, or repeats an entry.

    Lists that a library has made are filled up in place, and in helpers: their values do not tell. So the dataset is
    asked, and the class in which they are made, or else the function.
    """
    around = (
        [node for node in ancestors(cause.site) if isinstance(node, _DEFINITIONS)] if cause.site is not None else []
    )
    classes = [each.node for each in dataset.cls.lineage] if isinstance(dataset.cls, Class) else []
    return any(_fills_up(node) for each in (*around[-1:], *classes) for node in ast.walk(each))


def _fills_up(node: ast.AST) -> bool:
    """``n - len(ids)``, ``[0] * missing``, ``while len(ids) < n``, ``range(len(ids), n)``, ``repeat(0)``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return _is_length(node.left) or _is_length(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        is_list = any(isinstance(side, ast.List | ast.ListComp) for side in sides)
        return is_list and not any(isinstance(side, ast.Constant) or _is_length(side) for side in sides)
    if isinstance(node, ast.While):
        return any(_is_length(each) for each in ast.walk(node.test))
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name == "resize" and any(isinstance(each, ast.Tuple) for each in node.args):
            return False  # an image
        return name in _FILLING or (name == "range" and len(node.args) > 1 and any(map(_is_length, node.args)))
    return False


def _is_length(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def ragged_in(sample: Value, guards: Guards = (), depth: int = 0) -> Iterator[tuple[Guards, Symbol]]:
    """What makes parts of a sample differ in length, each with its conditions."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(sample, Choice):
        found = [(more, list(ragged_in(option, (), depth + 1))) for more, option in sample.options]
        if all(causes for _, causes in found):
            yield guards + found[0][1][0][0], found[0][1][0][1]
        else:
            yield from ((guards + more + inner, cause) for more, causes in found for inner, cause in causes)
        return
    cause = _cause(sample)
    if cause is not None:
        yield guards, cause
        return
    held = sample.items if isinstance(sample, Items) and sample.exact else ()
    held = tuple(sample.contents.values()) if isinstance(sample, Table) else held
    for each in held:
        yield from ragged_in(each, guards, depth + 1)


def asks_for_entries(guard: Guard, dataset: Instance) -> bool:
    """Whether a condition is that a list of a dataset, into which something was put, is not empty: a sample says so."""
    node = guard.node
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return False
    held = dataset.attributes.get(node.attr)
    return guard.relation == "truthy" and guard.holds and isinstance(held, Items) and bool(held.items)


def without_others(sample: Value, dataset: Instance) -> Value:
    """A sample without the others of the dataset that it may be: `return self[index + 1]` where one cannot be read."""
    options = sample.options if isinstance(sample, Choice) else ()
    own = [(guards, option) for guards, option in options if not _is_item_of(option, dataset)]
    return choose(own) if own else sample


def _is_item_of(value: Value, dataset: Instance) -> bool:
    return isinstance(value, Symbol) and value.name == "item" and value.inputs[0] is dataset


def is_text(value: Value) -> bool:
    """Whether a value is a text, or one of several: a list with an entry for each of its characters is as long."""
    if not isinstance(value, Symbol) or not value.inputs:
        return False
    return is_text(value.inputs[0]) if value.name == "item" else value.name in _TEXTS


def _cause(value: Value, depth: int = 0) -> Symbol | None:
    """The words or objects of which a value has one entry each, in any case."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Choice):
        causes = [_cause(option, depth + 1) for _, option in alternatives(value)]
        return causes[0] if all(cause is not None for cause in causes) else None
    if isinstance(value, Items):
        return _cause_in_list(value, depth) if value.kind == "list" and not value.exact else None
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    if value.name in _WORDS:
        return value if _is_open(value) and (value.name != ".encode" or _is_of_tokenizer(value)) else None
    if value.name == ".convert_tokens_to_ids" and len(value.inputs) > 1:
        return _cause(value.inputs[1], depth + 1)
    if value.name == "item":
        return _cause_in_part(value, depth)
    if value.name in _SAME:
        return _cause(value.inputs[0], depth + 1)
    if value.name == "+":
        has_list = any(isinstance(each, Items) and each.kind == "list" for each in value.inputs)
        causes = [_cause_in_sum(each, has_list, depth) for each in value.inputs]
        is_known = all(
            cause is not None or _has_one_length(each) for cause, each in zip(causes, value.inputs, strict=True)
        )
        return next((cause for cause in causes if cause is not None), None) if is_known else None
    return None


def _cause_in_sum(value: Value, has_list: bool, depth: int) -> Symbol | None:
    """The same for a part of a sum. Of a sum with a list, what `encode` has returned is a list, too."""
    is_list = has_list and isinstance(value, Symbol) and value.name == ".encode" and _is_open(value)
    return value if is_list and isinstance(value, Symbol) else _cause(value, depth + 1)


def _is_of_tokenizer(words: Symbol) -> bool:
    """Whether `encode` is known to be that of a tokenizer: a model of sentences or of boxes has one as well."""
    maker = words.inputs[0]
    return isinstance(maker, Instance) and "Tokenizer" in maker.library_name


def _has_one_length(value: Value) -> bool:
    """Whether a list always has as many entries: what is added and has not may fill up what is missing."""
    return isinstance(value, Const) or (isinstance(value, Items) and value.exact)


def _cause_in_list(value: Items, depth: int) -> Symbol | None:
    """The same for a list that something was appended to for each word or object, in any case."""
    if any(isinstance(item, Const) or _is_computed(item) for item in value.items):  # which may fill it up
        return None
    for item in value.items:
        is_number = isinstance(item, Symbol) and item.name.rpartition(".")[2].startswith(("float", "int"))  # of a table
        for guards, source in sources_under(item, 40):
            gone_over = element_of(source)
            if gone_over is None or guards:
                continue
            if isinstance(gone_over, Symbol) and gone_over.name == ".split" and _is_open(gone_over) and not is_number:
                return gone_over
            cause = _cause(gone_over, depth + 1)
            if cause is not None:
                return cause
            if isinstance(gone_over, Symbol) and is_text(gone_over):
                return gone_over
    return None


def _cause_in_part(value: Symbol, depth: int) -> Symbol | None:
    """The same for the entries that a mask leaves, the target of a detection, and one that was transformed."""
    whole, key = value.inputs[0], value.inputs[1] if len(value.inputs) > 1 else None
    if isinstance(whole, Symbol) and whole.name == ".__getitem__" and value.detail == 1:
        return value if _has_objects(whole.inputs[0]) else None
    is_transformed = isinstance(whole, Symbol) and (whole.name == "call" or whole.name.endswith("()"))
    if is_transformed and isinstance(whole, Symbol) and value.detail == 1:
        image, given = whole.inputs[1:] if len(whole.inputs) == _WITH_TARGET else (None, None)
        if image is None or given is None or any(ragged_in(image, (), depth + 2)):
            return None
        return next((cause for _, cause in ragged_in(given, (), depth + 2)), None)
    if isinstance(whole, Table):
        inside = whole.contents.get(value.detail)
        return _cause(inside, depth + 1) if inside is not None else None
    is_mask = isinstance(key, Symbol) and key.name in _MASKS  # indices pick as many as there are of them
    return _cause(whole, depth + 1) if is_mask else None


def _has_objects(dataset: Value) -> bool:
    """Whether the target of a dataset is a list of the objects in an image."""
    bases = dataset.cls.library_bases if isinstance(dataset, Instance) and isinstance(dataset.cls, Class) else ()
    return any(base in OF_OBJECTS for base in bases)


def _is_open(words: Symbol) -> bool:
    """Whether nothing says how many there are; `text.encode()` is no list of words, but bytes."""
    given = words.arguments
    if words.name == ".encode" and isinstance(given.get(0, None) if given is not None else None, Const | None):
        return False
    has_separator = words.name == ".split" and len(words.inputs) > 1
    return not has_separator and (given is None or _LIMITING.isdisjoint(given.keywords))


def _is_computed(value: Value) -> bool:
    """Whether a length or a product takes part in a value: it may fill up what is missing."""
    return any(
        isinstance(source, Symbol) and source.name in ("*", "len", "max", "min") for source in sources(value, 40)
    )
