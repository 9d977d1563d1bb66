"""Places for images among the tokens, and no images: what a processor made of them is left behind.

A processor of images and texts puts places for the images among the token ids, and the images beside them as
`pixel_values`. A model that is given the ids alone does not refuse them: it takes the places for words. It trains as if
nothing was wrong, and learns to describe pictures that it never sees.

Measured on transformers 5.23 (a small Llava, trained with `input_ids`, `attention_mask` and `labels` alone): it trains
without an error or a warning, with a loss of 4.12. Too few places, on the other hand, end with an error.

## Bad
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    processor = AutoProcessor.from_pretrained("llava-hf/llava-1.5-7b-hf")
    model = LlavaForConditionalGeneration.from_pretrained("llava-hf/llava-1.5-7b-hf")
    for images, texts, labels in loader:
        inputs = processor(images=images, text=texts, padding=True, return_tensors="pt")
        out = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels)
        out.loss.backward()

## Good
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    processor = AutoProcessor.from_pretrained("llava-hf/llava-1.5-7b-hf")
    model = LlavaForConditionalGeneration.from_pretrained("llava-hf/llava-1.5-7b-hf")
    for images, texts, labels in loader:
        inputs = processor(images=images, text=texts, padding=True, return_tensors="pt")
        out = model(**inputs, labels=labels)
        out.loss.backward()

## Not reported
Calls whose result nobody reads, or that get any other argument, such as embeddings or what is cached; texts that are
processed without images; models that ask for images, as those of BLIP and CLIP do, or that are not known to be of this
kind; collators that return something else than a dict with all its keys, or that speak of pixels anywhere.

## On real code
35 of 495 public repositories that use some processor: no finding. In a search of public code for calls with texts and
images no excerpt leaves the images behind; most hand on the whole batch. So little proves nothing, and the rule is off
by default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.api import Context, Event, Finding, Function, LibraryCall, ModelForward, Rule, Site, Symbol, Value

_TEXT_ALONE = frozenset(
    ("input_ids", "attention_mask", "labels", "position_ids", "token_type_ids", "use_cache", "return_dict",
     "output_hidden_states", "output_attentions", "logits_to_keep")
)  # fmt: skip
_ON_THE_WAY = (".to", ".cuda", ".long", ".contiguous", ".clone", ".detach")
_IMAGES = ("pixel", "image", "video", "patch")
_TRAINERS = ("Trainer", "SFTTrainer", "Seq2SeqTrainer")


class ImageTokensWithoutPixels(Rule):
    code = "DL963"
    name = "image-tokens-without-pixels"
    category = "correctness"
    severity = "error"
    default = False
    confirmable = True
    triggers = (("images",), ("input_ids",), ("from_pretrained",))
    references = ("https://huggingface.co/docs/transformers/tasks/image_text_to_text",)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        ids = event.arguments.get(0, "input_ids")
        given = event.arguments.keywords
        if ids is None or not event.arguments.exact or not _TEXT_ALONE.issuperset(given):
            return
        if len(event.arguments.positional) > 1 or not ctx.reads_images(event.model):
            return
        made = _processed(_batch_of(ids), ctx.all_of(LibraryCall), ctx)
        if made is not None and not ctx.exclusive(made, event) and ctx.is_used(event.result):
            yield self._report(event, event.site, made, ctx, event.model)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        trainer = event.name.rpartition(".")[2]
        collate, model = event.arguments.get(None, "data_collator"), event.arguments.get(0, "model")
        if trainer not in _TRAINERS or not isinstance(collate, Function) or model is None:
            return
        returned = _keys_of_dict(collate.node)
        if returned is None or "input_ids" not in returned or not ctx.reads_images(model):
            return
        if any(word in ast.unparse(collate.node) for word in ("pixel", "patch_")):
            return
        calls = ctx.data.calling(collate, Symbol("batch", site=event.site))
        made = next((each for each in calls if isinstance(each, LibraryCall) and _takes_images(each, ctx)), None)
        if made is not None:
            yield self._report(event, made.site, made, ctx, model)

    def _report(self, event: Event, place: Site, made: LibraryCall, ctx: Context, model: Value) -> Finding:
        return ctx.finding(
            self,
            place,
            "the model gets the places of images among the tokens, and no images",
            on=[event, made, model],
            assuming=ctx.assumed_use(event.result, "the trainer") if isinstance(event, LibraryCall) else (),
            effect="it trains without an error, on texts about pictures that it never sees",
            help="hand on all that the processor has made, `pixel_values` with the rest",
            trace=[(made.site, "the processor makes tokens and pixels"), (event.site, "the tokens alone are used")],
        )


def _takes_images(call: LibraryCall, ctx: Context) -> bool:
    images = call.arguments.keywords.get("images")
    is_processor = call.name.startswith("transformers.") and call.name.endswith("Processor.from_pretrained()")
    return is_processor and images is not None and not ctx.is_none(images)


def _batch_of(ids: Value) -> Value | None:
    """What the token ids are a part of: `batch["input_ids"]`, `batch.input_ids`, on whichever device."""
    ids = _before_moves(ids)
    is_part = isinstance(ids, Symbol) and ids.name in ("item", "attribute") and ids.detail == "input_ids"
    return _before_moves(ids.inputs[0]) if is_part and isinstance(ids, Symbol) and ids.inputs else None


def _before_moves(value: Value) -> Value:
    while isinstance(value, Symbol) and value.name in _ON_THE_WAY and value.inputs:
        value = value.inputs[0]
    return value


def _processed(batch: Value | None, calls: Sequence[LibraryCall], ctx: Context) -> LibraryCall | None:
    """The call of a processor with images that a batch comes from."""
    found = (call for call in calls if call.result is batch and _takes_images(call, ctx))
    return next(found, None)


def _keys_of_dict(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str] | None:
    """The keys of the one dict that a function returns, if it returns no other and writes them all."""
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    if len(returned) != 1 or not isinstance(returned[0], ast.Dict):
        return None
    keys = [getattr(key, "value", None) for key in returned[0].keys]
    is_text = all(isinstance(key, str) and not any(part in key for part in _IMAGES) for key in keys)
    return frozenset(str(key) for key in keys) if is_text else None
