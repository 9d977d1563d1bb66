"""Tokens that a tokenizer gets, and a model that has no embeddings for them.

`add_tokens` and `add_special_tokens` give the new tokens the next free numbers. The embedding of the model has as many
rows as before, so that the first text with such a token fails; on a GPU that is an assertion somewhere else, and on
some models, whose table is larger than their vocabulary, a row that was never trained.

Measured on transformers 5.23 (a llama with 23 tokens, one more added): `IndexError: index out of range in self`; after
`resize_token_embeddings(len(tokenizer))` it runs.

## Bad
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<question>", "<answer>"]})
    out = model(**tokenizer(texts, return_tensors="pt"))

## Good
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<question>", "<answer>"]})
    model.resize_token_embeddings(len(tokenizer))
    out = model(**tokenizer(texts, return_tensors="pt"))

## Not reported
Projects that resize anywhere but before the tokens are added, or build a model by the length of the tokenizer; tokens
that such models have already (`[PAD]`, `<pad>`); models that come from another place than the tokenizer, as they may
have been resized before. Models whose table may be larger than their vocabulary are a question.

## Fix (unsafe)
Resizes the embeddings after the tokens were added. Unsafe because the model gets more parameters.

## On real code
75 public repositories that load models of transformers or build a `nn.Transformer`: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Const,
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    ModelForward,
    OpaqueCall,
    Rule,
    Site,
    Value,
    insert_after,
    is_bound_at,
    nodes_of,
    receiver_of,
)

_USUAL = frozenset(
    ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<pad>", "<s>", "</s>", "<unk>", "<mask>", "<|endoftext|>", "<bos>",
     "<eos>", "<|pad|>", "pad_token", "eos_token", "bos_token", "unk_token", "cls_token", "sep_token", "mask_token",
     "additional_special_tokens")
)  # fmt: skip
_EXACT = ("gpt2", "bert", "llama-2", "electra")
_LARGER = "the table of embeddings has no rows to spare beyond the vocabulary"

_RESIZES = "resize_token_embeddings"


# ------------------------------------------------------------------------------------------------- excuses


def is_resized(event: OpaqueCall, model: Instance, ctx: Context) -> bool:
    """some code of the project resizes embeddings, or asks how many tokens there are"""
    in_vain = _resized_in_vain(event, model, ctx) if ctx.mentions(_RESIZES) else []
    if in_vain is None:
        return True
    counted = {id(node) for call in in_vain for node in ast.walk(call.site.node)}
    return any(
        event.receiver is not None and any(ctx.is_same(given, event.receiver) for given in call.arguments.all())
        for call in ctx.library_calls("len")
        if id(call.site.node) not in counted
    )


def adds_nothing_new(event: OpaqueCall, model: Instance, ctx: Context) -> bool:
    """the tokens are those that models have anyway, or are not written out"""
    call = event.site.node
    given = [each for part in getattr(call, "args", []) for each in ast.walk(part)]
    texts = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return not set(texts) - _USUAL


def _resized_in_vain(event: OpaqueCall, model: Instance, ctx: Context) -> list[OpaqueCall] | None:
    """The calls that resize embeddings, if all are before the tokens are added, or of other models.

    ``None`` where one of them may be in time.
    """
    if ctx.mentions(_RESIZES, where="elsewhere"):
        return None
    calls = [call for call in ctx.all_of(OpaqueCall) if call.name == _RESIZES]
    attributes = (each for _, tree in ctx.trees(_RESIZES) for each in nodes_of(tree).of(ast.Attribute))
    written = [each for each in attributes if each.attr == _RESIZES]
    seen = {id(call.site.node.func) for call in calls if isinstance(call.site.node, ast.Call)}
    if event.guards or ctx.loops_around(event) or any(id(each) not in seen for each in written):
        return None
    return calls if all(_is_in_vain(call, event, model, ctx) for call in calls) else None


def _is_in_vain(call: OpaqueCall, event: OpaqueCall, model: Instance, ctx: Context) -> bool:
    """Whether a call resizes another model, or this one to the length that a tokenizer has before it gets more."""
    if not isinstance(call.receiver, Instance):
        return False
    if not ctx.is_same(call.receiver, model):
        return True
    size = call.site.node.args[0] if isinstance(call.site.node, ast.Call) and call.site.node.args else None
    is_length = isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and size.func.id == "len"
    is_before = call.frame is event.frame and ctx.position(call) < ctx.position(event) and not ctx.loops_around(call)
    return is_length and is_before


class TokensAddedWithoutResize(Rule):
    code = "DL904"
    name = "tokens-added-without-resize"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("add_tokens", "add_special_tokens"), ("from_pretrained",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/transformers/main_classes/tokenizer",)
    excuses = (adds_nothing_new, is_resized)

    def on_opaque_call(self, event: OpaqueCall, ctx: Context) -> Iterator[Finding]:
        tokenizer = event.receiver
        if event.name not in ("add_tokens", "add_special_tokens") or not isinstance(tokenizer, Instance):
            return
        name = _pretrained(tokenizer, ctx)
        if name is None or "Tokenizer" not in tokenizer.library_name:
            return
        for loaded in ctx.all_of(LibraryCall):
            model = loaded.result
            if not isinstance(model, Instance) or not _is_model(loaded) or ctx.exclusive(event, loaded):
                continue
            if not _is_same_name(_pretrained(model, ctx), name) or not _is_called(model, ctx):
                continue
            if not ctx.excused(self, event, model):
                yield self._report(event, loaded, name, ctx)
            return

    def _report(self, event: OpaqueCall, loaded: LibraryCall, name: Value, ctx: Context) -> Finding:
        text = str(ctx.constant(name)).lower()
        is_exact = any(each in text for each in _EXACT)
        return ctx.finding(
            self,
            event,
            "the model has no embeddings for the tokens that are added here",
            on=[loaded, loaded.result, name],
            assuming=() if is_exact else (Assumption("effect", _LARGER),),
            effect="the first text with one of them fails, or is read at a row that was never trained",
            help="call `model.resize_token_embeddings(len(tokenizer))` after this",
            trace=[(event.site, "the tokenizer gets more tokens"), (loaded.site, "the model stays as it is")],
            fix=("Resize the embeddings", _resized(event, loaded, ctx)),
        )


def _pretrained(value: Instance, ctx: Context) -> Value | None:
    """What an object was loaded by, if it was made by `from_pretrained`."""
    if not value.library_name.endswith(".from_pretrained"):
        return None
    return value.arguments.get(0, "pretrained_model_name_or_path")


def _is_model(loaded: LibraryCall) -> bool:
    cls = loaded.name.removesuffix(".from_pretrained").rpartition(".")[2]
    return loaded.name.startswith("transformers.") and ("Model" in cls or "For" in cls)


def _is_called(model: Instance, ctx: Context) -> bool:
    """Whether the model is called, or handed to a trainer."""
    calls = (each for event in ctx.all_of(OpaqueCall) for each in (event.receiver, *event.values))
    return any(ctx.is_same(event.model, model) for event in ctx.all_of(ModelForward)) or any(
        each is not None and ctx.is_same(each, model) for each in calls
    )


def _is_same_name(left: Value | None, right: Value) -> bool:
    if left is None:
        return False
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value)
    return left is right


def _resized(event: OpaqueCall, loaded: LibraryCall, ctx: Context) -> Edits:
    """The call that resizes, after both are there, where they have names."""
    model, tokenizer = ctx.name_of(loaded.result), receiver_of(event.site.node)
    later, earlier = sorted((event.site, loaded.site), key=lambda site: -site.line)
    if not model or not tokenizer.isidentifier() or later.module is not earlier.module:
        return Edits()
    is_here = later is loaded.site or is_bound_at(event.site, model, loaded.site)
    return insert_after(Site(later.module, later.node), _call(model, tokenizer)) if is_here else Edits()


def _call(model: str, tokenizer: str) -> str:
    return f"{model}.resize_token_embeddings(len({tokenizer}))"
