"""Padding with the EOS token, by a collator that takes padding out of the labels: the model never learns to stop.

`tokenizer.pad_token = tokenizer.eos_token` is what most scripts do where a tokenizer has no padding. But
`DataCollatorForLanguageModeling` finds padding by its token, and sets all labels that are the padding token to -100:
each real EOS as well. Answers go on until the limit, and begin to repeat themselves.

Measured on transformers 5.23 (a llama of two layers, 16 sentences that end with EOS, 300 steps): the labels of a
sentence are `[3, 4, 5, 6, -100]`; 0 of 16 generated sentences stop, all have the 21 tokens that are allowed. With a
padding token of its own, 16 of 16 stop, after 5 tokens. The training loss is .0024 in both.

## Bad
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling, Trainer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    tokenizer.pad_token = tokenizer.eos_token
    texts = [question + answer + tokenizer.eos_token for question, answer in pairs]
    collator = DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False)
    trainer = Trainer(model=model, args=args, train_dataset=tokenize(texts), data_collator=collator)
    trainer.train()

## Good
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling, Trainer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    model.resize_token_embeddings(len(tokenizer))
    texts = [question + answer + tokenizer.eos_token for question, answer in pairs]
    collator = DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False)
    trainer = Trainer(model=model, args=args, train_dataset=tokenize(texts), data_collator=collator)
    trainer.train()

## Not reported
Collators that pad by length (`DataCollatorForSeq2Seq`, those of TRL); masked language models; a padding token that is
set to something else later. Where no code puts an EOS token at the end of the texts, there is none to be masked: that
is a question. So it is where they end with the mark of a turn (`<|im_end|>`, `<|eot_id|>`), which need not be the EOS
token of the tokenizer, where the padding is set only if the tokenizer has none, and its name does not tell (Qwen and
gemma have one), and where only `add_eos_token=True` asks for it: the tokenizers of llama, mistral and gemma do as they
are told, others (GPT-2, phi) take no notice.

## On real code
75 public repositories that load models of transformers: no finding, and one question, of texts whose ends are not
seen. In batches of unread repositories 6 findings, 4 of them true and 2 false: texts that ended with `<|im_end|>`, and
a tokenizer for which that is not EOS. One more was false: the model is Qwen, whose padding token is another one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Context,
    Finding,
    Instance,
    LibraryCall,
    OpaqueCall,
    Rule,
    Site,
    Symbol,
    Value,
    attribute_of,
)

_COLLATOR = "DataCollatorForLanguageModeling"
_PADDING = ("pad_token", "pad_token_id")
_EOS = ("eos_token", "eos_token_id")
_ENDS_OF_TURNS = ("<|im_end|>", "<|eot_id|>")  # which a tokenizer may have beside its EOS
_ENDS = ("</s>", "<|endoftext|>", "<eos>", *_ENDS_OF_TURNS)
_OBEYING = re.compile(r"(?i)llama|mistral|mixtral|gemma|vicuna|zephyr")
_UNPADDED = re.compile(r"(?i)gpt|llama|mistral|mixtral|pythia|phi-[12]|vicuna|zephyr|stablelm|tiny-?random|smollm")
_UNKNOWN = "the texts end with the EOS token, as those of a model that is to stop do"


# ------------------------------------------------------------------------------------------------- excuses


def is_set_again(padded: AttributeAssigned, ctx: Context) -> bool:
    """the tokenizer gets another padding token, here or in code that is not seen"""
    tokenizer = padded.target
    others = [event for event in ctx.all_of(AttributeAssigned) if event is not padded and event.attribute in _PADDING]
    if any(ctx.is_same(event.target, tokenizer) and not _is_eos(event, ctx) for event in others):
        return True
    calls = [event for event in ctx.all_of(OpaqueCall) if event.receiver is not None]
    return any(
        event.name == "add_special_tokens" and ctx.is_same(event.receiver, tokenizer) and _names_padding(event)
        for event in calls
        if event.receiver is not None
    )


class PadTokenIsEos(Rule):
    code = "DL903"
    name = "pad-token-is-eos"
    category = "correctness"
    severity = "error"
    triggers = ((_COLLATOR,), _PADDING, _EOS)
    references = ("https://huggingface.co/docs/transformers/main_classes/data_collator",)
    excuses = (is_set_again,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if not event.name.startswith("transformers.") or event.name.rpartition(".")[2] != _COLLATOR:
            return
        masked, tokenizer = event.arguments.get(1, "mlm"), event.arguments.get(0, "tokenizer")
        if masked is None or ctx.constant(masked) is not False or tokenizer is None or not ctx.is_used(event.result):
            return
        for padded in ctx.all_of(AttributeAssigned):
            if padded.attribute in _PADDING and ctx.is_same(padded.target, tokenizer) and _is_eos(padded, ctx):
                if not ctx.excused(self, padded):
                    yield self._report(event, masked, padded, ctx)
                return

    def _report(self, event: LibraryCall, masked: Value, padded: AttributeAssigned, ctx: Context) -> Finding:
        ends = list(_ends(ctx))
        end = next((site for site in ends if not _is_end_of_turn(site.node)), next(iter(ends), None))
        shown = [(end, "the texts end with it")] if end is not None else []
        return ctx.finding(
            self,
            event,
            "this collator masks every EOS token, which is also the padding",
            on=[masked, padded],
            assuming=(*_assumed_end(end, ctx), *_assumed_padding(padded, ctx)),
            effect="the model never learns to stop",
            help="add a padding token of its own, and call `resize_token_embeddings`",
            trace=[(padded.site, "padding is EOS"), *shown, (event.site, "labels that are padding become -100")],
        )


def _assumed_end(end: Site | None, ctx: Context) -> tuple[Assumption, ...]:
    """What is assumed of the end of the texts, where nothing shows that it is the EOS token of this tokenizer."""
    if end is None:
        return (Assumption("effect", _UNKNOWN),)
    if _is_end_of_turn(end.node):
        return (Assumption("effect", "the EOS token of this tokenizer is the mark with which the texts end"),)
    if isinstance(end.node, ast.keyword) and not _is_obeyed(end, ctx):
        return (Assumption("effect", "the tokenizer puts an EOS token at the end of each text, as it is asked to"),)
    return ()


def _assumed_padding(padded: AttributeAssigned, ctx: Context) -> tuple[Assumption, ...]:
    """That the tokenizer has no padding token of its own, where one is set only then, and its name does not tell."""
    tests = (each.test for each in ctx.ancestors(padded.site, ast.If))
    if not any(word in ast.unparse(test) for test in tests for word in _PADDING):
        return ()
    made = padded.target.arguments if isinstance(padded.target, Instance | Symbol) else None
    given = made.get(0, "pretrained_model_name_or_path") if made is not None else None
    name = str(ctx.constant(given)) if given is not None else ""
    return () if _UNPADDED.search(name) else (Assumption("effect", "the tokenizer has no padding token of its own"),)


def _is_obeyed(asked: Site, ctx: Context) -> bool:
    """Whether `add_eos_token=True` is told a tokenizer that does so, as the name of its model says."""
    call = next(ctx.ancestors(asked, ast.Call), None)
    names = [each.value for each in call.args if isinstance(each, ast.Constant)] if isinstance(call, ast.Call) else []
    return any(_OBEYING.search(str(name)) for name in names)


def _is_eos(event: AttributeAssigned, ctx: Context) -> bool:
    """Whether what is assigned is the EOS token of the same tokenizer."""
    owner = attribute_of(event.value, *_EOS)
    return owner is not None and ctx.is_same(owner, event.target)


def _names_padding(event: OpaqueCall) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == "pad_token" for each in ast.walk(event.site.node))


def _ends(ctx: Context) -> Iterator[Site]:
    """Where code speaks of the EOS token for another purpose than to pad: as the end of a text."""
    for word in (*_EOS, "add_eos_token", "apply_chat_template", "endoftext", "s", "im_end", "eot_id", "eos"):
        for module, tree in ctx.trees(word):
            padding = {id(inner) for node in ast.walk(tree) if _is_padding(node) for inner in ast.walk(node)}
            for node in ast.walk(tree):
                if id(node) not in padding and _is_end(node):
                    yield Site(module, node)


def _is_padding(node: ast.AST) -> bool:
    """Whether a node sets what pads or where generation ends, or makes a prompt, rather than what a text ends with."""
    if isinstance(node, ast.Assign):
        names = {getattr(each, "attr", "") or getattr(each, "id", "") for each in node.targets}
        return not names.isdisjoint((*_PADDING, *_EOS))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return True  # `[tokenizer.eos_token_id] * missing`
    if isinstance(node, ast.Call):
        asked = [each.value for each in node.keywords if each.arg == "add_generation_prompt"]
        return any(isinstance(each, ast.Constant) and each.value is True for each in asked)
    return isinstance(node, ast.keyword) and node.arg in (*_PADDING, *_EOS)


def _is_end_of_turn(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).rstrip().endswith(_ENDS_OF_TURNS)


def _is_end(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in (*_EOS, "apply_chat_template")
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.rstrip().endswith(_ENDS)
    return isinstance(node, ast.keyword) and node.arg == "add_eos_token"
