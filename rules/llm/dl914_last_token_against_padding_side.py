"""The last position of a padded batch, taken for the last token: at the right, it is padding.

`hidden[:, -1]` is the state of the last token only where the padding stands at the left. Most tokenizers pad at the
right, so that all but the longest text of a batch are represented by a padding token.

Measured on transformers 5.23 (a llama of two layers that counts, texts of 2 and of 6 tokens in one batch): the state at
`[:, -1]` of the shorter texts differs from the state of their last token by .72 of its norm; padded at the left, by
.0000002.

## Bad
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    print(model(**batch).logits[:, -1].argmax(-1))

## Good
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2", padding_side="left")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    print(model(**batch).logits[:, -1].argmax(-1))

## Not reported
Programs in which anything sets `padding_side` to `"left"`; positions that are computed from the mask; encoders. A
tokenizer whose side is not known from its name, and batches whose texts are not seen, are questions.

## On real code
75 public repositories that load models of transformers or build a `nn.Transformer`: no finding.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from functools import partial

from dllint.api import Context, Finding, ModelForward, Rule, Site, Symbol, Value

_LAST = ("(:, -1)", "(:, -1, :)", "(:, -1, ...)", "(..., -1, :)")
_STATES = ("logits", "last_hidden_state", "hidden_states")


class LastTokenAgainstPaddingSide(Rule):
    code = "DL914"
    name = "last-token-against-padding-side"
    category = "correctness"
    severity = "error"
    triggers = (("padding",), ("from_pretrained",), _STATES)
    references = ("https://huggingface.co/docs/transformers/pad_truncation",)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        last = next(_last_of(event.result), None)
        if last is None or last.site is None or not ctx.is_decoder(event.model) or not _is_output_of(last, event, ctx):
            return
        for batch in ctx.padded_right():
            brought = ctx.brought_by(event, tuple(event.arguments.all()), batch)
            is_beside = brought is not None and _branches(last.site, ctx) <= _branches(batch.call.site, ctx)
            if brought is not None and is_beside and not ctx.exclusive(batch.call, event):
                assumed = ctx.assumed_of_computation(brought, partial(operator.is_, batch.call.result))
                yield ctx.finding(
                    self,
                    last.site,
                    "the last position is padding for all but the longest text",
                    on=[event, batch.call, event.model, batch.tokenizer, batch.call.arguments.keywords["padding"]],
                    assuming=(*batch.assumptions, *assumed),
                    effect="most texts are represented by a token that stands for nothing",
                    help="pad at the left, or take the position from the mask: `mask.sum(1) - 1`",
                    trace=[
                        (batch.call.site, "padded at the right"),
                        (event.site, "the model reads the batch"),
                        (last.site, "the last position"),
                    ],
                )
                return


def _last_of(output: Value) -> Iterator[Symbol]:
    """Where the last position of the states that a model returns is taken."""
    held = [each for name in _STATES if isinstance(output, Symbol) and (each := output.attribute(name)) is not None]
    layers = [inner for each in held if isinstance(each, Symbol) for inner in each.attributes.values()]
    for value in (*held, *layers):
        for part in value.attributes.values() if isinstance(value, Symbol) else ():
            if isinstance(part, Symbol) and part.name == "item" and str(part.detail) in _LAST:
                yield part


def _is_output_of(last: Symbol, event: ModelForward, ctx: Context) -> bool:
    """Whether the states are those of this call and of no other one, and somebody reads them."""
    if last.site is None or any(True for _ in ctx.ancestors(event.site, ast.IfExp, ast.Dict)) or not ctx.is_used(last):
        return False
    return ctx.scope(last.site) == ctx.scope(event.site)


def _branches(site: Site, ctx: Context) -> set[ast.AST]:
    """The conditions around a place, as they are written."""
    return {*ctx.ancestors(site, ast.If, ast.IfExp)}
