"""An evaluation of a language model that counts padding.

Models of transformers leave labels of -100 out of the loss, and no others. Where the labels of a padded batch are its
`input_ids`, the loss is a mean over the padding too, and its exponential says more of how long the longest text of the
batch is than of the model. The same texts one by one have another perplexity, and so have larger batches.

Measured on transformers 5.23 (a small llama that was trained without padding): the perplexity of padded batches is
1444, that of the same texts without their padding 2.47. A model that was taught to pad comes out too good instead.

## Bad
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    with torch.no_grad():
        loss = model(**batch, labels=batch["input_ids"]).loss
    print(torch.exp(loss))

## Good
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    with torch.no_grad():
        loss = model(**batch, labels=batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)).loss
    print(torch.exp(loss))

## Not reported
Texts that are tokenized one by one; labels that are set to -100 somewhere, and files in which anything is; encoders and
encoder-decoders; outputs that nobody reads; calls with gradients, whose labels are those of a training; slices, which
may be of one text; batches that are padded in another branch.

## Fix (unsafe)
Sets the labels of padding to -100, where the batch has a name. Unsafe because it changes the number that is reported.

## On real code
10 of 495 public repositories in which `input_ids` become `labels`: no finding. In a search of public code for calls of
this form 3 of 10 pad, none of which takes the padding out, and one reports a perplexity; most score one text after the
other. So little proves nothing, and the rule is off by default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    ModelForward,
    PaddedBatch,
    Rule,
    Symbol,
    Value,
    alternatives,
    set_argument,
)

_COPYING = (".clone", ".detach")
_MASKED = r"(?<!\d)-\s?100\b|ignore_index|masked_fill|torch\.where"


# ------------------------------------------------------------------------------------------------- excuses


def is_masked(event: ModelForward, batch: PaddedBatch, ctx: Context) -> bool:
    """some code of the program's files takes padding out of labels or losses"""
    return ctx.project_mentions(_MASKED, where="here")


def is_in_another_branch(event: ModelForward, batch: PaddedBatch, ctx: Context) -> bool:
    """the batch is padded where the model is not called"""
    return ctx.exclusive(batch.call, event)


class PerplexityOverPadding(Rule):
    code = "DL908"
    name = "perplexity-over-padding"
    category = "correctness"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("labels",), ("padding",), ("from_pretrained",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/transformers/perplexity",)
    excuses = (is_in_another_branch, is_masked)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        labels = event.arguments.keywords.get("labels")
        if labels is None or event.grad != "off" or not ctx.is_decoder(event.model) or not ctx.is_used(event.result):
            return
        given = [_uncopied(each) for _, each in alternatives(labels)]
        padded = (batch for batch in ctx.padded_batches() if all(ctx.ids_of(each, batch) for each in given))
        batch = next(padded, None)
        if batch is None or ctx.excused(self, event, batch):
            return
        yield ctx.finding(
            self,
            event,
            "the loss of this evaluation counts the padding of the batch",
            on=[event, batch.call, labels],
            assuming=batch.assumptions,
            effect="the loss and its perplexity depend on the padding, and so on what is in a batch together",
            help="set the labels to -100 where the attention mask is 0",
            trace=[(batch.call.site, "the texts are padded here"), (event.site, "and all of them are labels")],
            fix=("Set the labels of padding to -100", _edits(event, ctx)),
        )


def _uncopied(labels: Value) -> Value:
    while isinstance(labels, Symbol) and labels.name in _COPYING and labels.inputs:
        labels = labels.inputs[0]
    return labels


def _edits(event: ModelForward, ctx: Context) -> Edits:
    """Mask the labels, where they are written as the ids of a variable: `batch["input_ids"]`, `batch.input_ids`."""
    call = event.site.node
    given = call.keywords if isinstance(call, ast.Call) else []
    written = next((keyword.value for keyword in given if keyword.arg == "labels"), None)
    if not isinstance(written, ast.Subscript | ast.Attribute) or not isinstance(written.value, ast.Name):
        return Edits()
    text = f'{ast.unparse(written)}.masked_fill({written.value.id}["attention_mask"] == 0, -100)'
    return set_argument(event.site, "labels", text.replace("'", '"'))
