"""A batch of texts that was padded, and a model that is not told where.

Without `attention_mask`, a model takes padding for text: each token of a shorter text attends to it, and a mean over
all positions counts it. `generate` works out a mask by itself, but not where padding and the end of a text are one
token.

Measured on transformers 5.23 (three seeds): a BERT of two layers that was trained with masks to tell which of two kinds
of tokens is more frequent, in texts of 4 to 39 tokens, is right about 99.6 % with masks, and about 86 % without (1.00
and .73 for texts of less than 10); their mean over positions is another by .57 to .84 of its norm. What a GPT-2 of two
layers generates behind 6 tokens of padding differs in 2 to 12 % of the tokens.

## Bad
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    model = AutoModel.from_pretrained("bert-base-uncased")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    print(model(batch["input_ids"]).last_hidden_state.mean(1))

## Good
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    model = AutoModel.from_pretrained("bert-base-uncased")
    batch = tokenizer(["one", "one, two, three"], padding=True, return_tensors="pt")
    print(model(**batch).pooler_output)

A `forward` that takes an `attention_mask` and calls an encoder without reading it has forgotten it just the same, if
code of the project pads texts. So has a script that pads a list by hand, `ids += [pad] * (longest - len(ids))`, and
takes `[1] * len(ids)` for its mask afterwards: the mask is 1 for padding, too. A call that passes the numbers of the
segments second, `bert(input_ids, token_type_ids, attention_mask)`, as releases before 2.0 took them, has them for a
mask.

## Not reported
Single texts; decoders, unless they generate and the file makes padding and end one token; encoder-decoder models, whose
`generate` works out the mask; calls with arguments that are not seen. Parts of other models are not looked at.

## Fix (unsafe)
Passes the mask of the batch, where its ids are passed as `batch["input_ids"]` or `batch.input_ids`. Unsafe because it
changes the results, as it should.

## On real code
790 public repositories, of which 97 have a tokenizer pad: no finding, and no question. In 363 others 1 finding: it was
false, as one text is padded at a time, and is silent now. None of them makes a mask after the padding. Segments in the
place of the mask, in 523: 2 findings in one of them, both true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Event,
    Finding,
    ModelForward,
    OpaqueCall,
    PaddedBatch,
    Program,
    Rule,
    Site,
    Value,
    nodes_of,
    set_argument,
)

_MASKS = ("attention_mask", "encoder_attention_mask", "inputs_embeds")
_TAKEN = ("attention_mask", "attention_masks", "attn_mask")
_SEGMENTS = ("token_type_ids", "token_type_id", "token_types", "segment_ids", "segment_id", "segments")
_PADS = (
    r"\bpadding\s*=\s*(True|['\"](max_length|longest))|\bpad_to_max_length\s*=\s*True|\bDataCollatorWithPadding\b"
    r"|\bpad_on_left\b|\bpad_token_segment_id\b|\bconvert_examples_to_features\(|\bpad_sequence\("
)


def is_handled_by_hand(event: Event, batch: PaddedBatch | None, ctx: Context) -> bool:
    """the model gets a mask, or arguments that are not seen"""
    call = event.site.node
    given = [keyword.arg for keyword in call.keywords] if isinstance(call, ast.Call) else [None]
    return any(name is None or name in _MASKS for name in given) or len(getattr(call, "args", ())) > 1


def is_in_another_run(event: Event, batch: PaddedBatch | None, ctx: Context) -> bool:
    """the batch is made where the model is not called"""
    return batch is not None and ctx.exclusive(batch.call, event)


class AttentionMaskNotPassed(Rule):
    code = "DL917"
    name = "attention-mask-not-passed"
    category = "correctness"
    severity = "warning"
    triggers = (("padding", "attention_mask", "attention_masks", "attn_mask", "input_mask"), ("from_pretrained",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/transformers/glossary#attention-mask",)
    excuses = (is_handled_by_hand, is_in_another_run)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        if ctx.is_encoder(event.model) and ctx.is_used(event.result):
            found = list(self._judge(event, event.model, tuple(event.arguments.all()), ctx))
            found += self._judge_order(event, ctx)
            yield from found or self._judge_forgotten(event, ctx)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        encoders = ctx.encoders_alone()
        for mask, padding in ctx.masks_after_padding() if encoders is not None else ():
            yield ctx.finding(
                self,
                mask,
                "the mask is made when the padding is there already, and takes it for text",
                assuming=encoders or (),
                effect="the texts attend to their padding, and mean something else than alone",
                help="make the mask before the padding, and pad it with zeros",
                trace=[(padding, "the list is padded here"), (mask, "and counted with its padding")],
            )

    def _judge_forgotten(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        """What the function around a call takes as a mask, and nothing in it reads."""
        forgotten = _unread_mask(event)
        if forgotten is None or ctx.excused(self, event, None) or not ctx.project_mentions(_PADS):
            return
        yield ctx.finding(
            self,
            event,
            f"`{forgotten.arg}` is taken, and the model is not told which tokens are padding",
            on=[event],
            effect="the shorter texts attend to padding, and mean something else than alone",
            help=f"pass `attention_mask={forgotten.arg}`",
            trace=[(Site(event.site.module, forgotten), "the mask is taken here"), (event.site, "and not handed on")],
            fix=("Pass the mask", set_argument(event.site, "attention_mask", forgotten.arg)),
        )

    def _judge_order(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        """What is called segments by whoever passes it, and stands where the model takes its mask."""
        call = event.site.node
        written = call.args[1] if isinstance(call, ast.Call) and len(call.args) > 1 else None
        given = event.arguments.positional[1] if len(event.arguments.positional) > 1 else None
        name = _key_written(written) if written is not None else ""
        if given is None or ctx.is_none(given) or name not in _SEGMENTS or not ctx.takes_mask_second(event.model):
            return
        if ctx.name_in_batch(given) not in (*_SEGMENTS, ""):  # it is something else to whoever calls the function
            return
        yield ctx.finding(
            self,
            event,
            f"`{name}` is passed second, where the model takes its attention mask",
            on=[event, event.model],
            assuming=[Assumption("name", f"`{name}` are numbers of segments, as their name says")],
            effect="padding is attended to like words, and of two segments only the second is",
            help="pass the mask and the segments by their names",
            trace=[(event.site, "`attention_mask` is the second parameter")],
        )

    def on_opaque_call(self, event: OpaqueCall, ctx: Context) -> Iterator[Finding]:
        is_generation = event.name == "generate" and ctx.is_decoder(event.receiver)
        if is_generation and ctx.project_mentions(r"pad_token(_id)?\s*=\s*\S*eos_token", where="here"):
            yield from self._judge(event, event.receiver, event.values, ctx)

    def _judge(self, event: Event, model: Value | None, given: tuple[Value, ...], ctx: Context) -> Iterator[Finding]:
        for batch in ctx.padded_batches():
            ids = next((value for value in given if ctx.ids_of(value, batch)), None)
            if ids is None or ctx.excused(self, event, batch):
                continue
            yield ctx.finding(
                self,
                event,
                "the model is not told which tokens of the batch are padding",
                on=[event, batch.call, model, batch.tokenizer, batch.call.arguments.keywords["padding"]],
                assuming=batch.assumptions,
                effect="the shorter texts attend to padding, and mean something else than alone",
                help="pass `attention_mask` of the same batch",
                trace=[(batch.call.site, "the batch is padded here"), (event.site, "the model gets its ids alone")],
                fix=("Pass the mask of the batch", _mask_passed(event, ctx)),
            )
            return


def _unread_mask(event: ModelForward) -> ast.arg | None:
    """The parameter for a mask of the function around a call, if nothing in the function reads it."""
    around = event.frame.definition
    function = around.node if around is not None else None
    if around is None or not isinstance(function, ast.FunctionDef) or around.module is not event.site.module:
        return None
    given = [*function.args.args, *function.args.kwonlyargs]
    names = nodes_of(function).names
    return next((each for each in given if each.arg in _TAKEN and each.arg not in names), None)


def _key_written(written: ast.expr) -> str:
    """The last part of what a variable, an attribute or an entry is called."""
    key = written.slice if isinstance(written, ast.Subscript) else None
    named = key.value if isinstance(key, ast.Constant) else getattr(written, "attr", getattr(written, "id", ""))
    return named if isinstance(named, str) else ""


def _mask_passed(event: Event, ctx: Context) -> Edits:
    """The mask as the ids are written: `batch["attention_mask"]` beside `batch["input_ids"]`."""
    call = event.site.node
    written = (
        [*call.args[:1], *(each.value for each in call.keywords if each.arg == "input_ids")]
        if isinstance(call, ast.Call)
        else []
    )
    text = ast.unparse(written[0]) if written else ""
    mask = text.replace("['input_ids']", '["attention_mask"]').replace(".input_ids", ".attention_mask")
    return set_argument(event.site, "attention_mask", mask) if mask != text else Edits()
