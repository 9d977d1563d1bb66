"""Batches that tokenizers of transformers pad: at which side, and which calls of a model read their ids."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from dllint.assumptions import Assumption, Assumptions
from dllint.context.phases import Phases
from dllint.context.sources import Sources
from dllint.dataclass import dataclass
from dllint.events import Event, LibraryCall
from dllint.interp.ask.data_shapes import loader_of, part_of_sample
from dllint.interp.ask.pipelines import sample_of
from dllint.interp.run import graph
from dllint.interp.source.late_masks import MASKS, late_masks
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Const, Instance, Items, OpenAttributes, Symbol, Value

_CALL = ".from_pretrained()"
_ALWAYS_RIGHT = ("gpt2", "gpt-neo", "gpt-j", "pythia", "opt-", "llama-2", "llama-7b")
_DECODERS = (*_ALWAYS_RIGHT, "llama", "mistral", "qwen", "gemma", "falcon", "phi", "bloom", "gpt")
# Encoders, whose tokens see all others, but for what a mask takes out.
_ENCODERS = ("bert", "electra", "mpnet", "minilm", "luke", "longformer", "layoutlm")
_WITH_MASK_LATER = ("layoutlm", "rocbert", "roc-bert")  # behind boxes, shapes and sounds
_OF_SPEECH = ("hubert",)  # whose models are called alike; whether they take a mask depends on their normalization
_WITH_OWN_PADDING = (*_ENCODERS, "t5", "bart", "nllb", "m2m100", "marian", "opus-mt", "pegasus", "prophetnet")
_KEEPING = (".to", ".cuda", ".cpu", ".long", ".contiguous")
_ADAPTED = ("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training", ".merge_and_unload")
_MAX_LAYERS = 8
_OF_ONE = (".squeeze", ".flatten", ".clone", ".detach", "torch.tensor", "torch.as_tensor")
_CAUSAL = ("ForCausalLM", "LMHeadModel")
_HEADS_OF_ENCODERS = ("ForTokenClassification", "ForMaskedLM", "ForMultipleChoice", "ForQuestionAnswering")
_NO_MODELS = ("Config", "Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor")
_OF_IMAGES = tuple(
    f"{name}ForConditionalGeneration"
    for name in ("Blip2", "Llava", "LlavaNext", "Qwen2VL", "Qwen2_5_VL", "Idefics2", "Idefics3", "Mllama", "VipLlava")
)  # decoders that are given images as well
_SEEING = (
    "Llava", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL", "Idefics", "PaliGemma", "Mllama", "Gemma3ForConditional", "SmolVLM",
    "InternVL", "Mistral3", "AutoModelForVision2Seq", "AutoModelForImageTextToText", "AutoModelForMultimodalLM",
)  # fmt: skip
_PROCESSOR = "Processor"  # what has a tokenizer and takes images


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """A batch of texts that a tokenizer pads, and what is taken for granted by saying so."""

    call: LibraryCall
    tokenizer: Instance
    assumptions: Assumptions


class Tokenizing(Phases, Sources):
    """What tokenizers make of texts."""

    def padded_right(self) -> Iterator[PaddedBatch]:
        """The batches of several texts that are padded at the right, as no code of the program says otherwise."""
        if self.project_mentions(r"padding_side", r"['\"]left['\"]", where="here"):
            return
        for batch, name in self._padded():
            sided: Assumptions = ()
            if not any(known in name for known in _ALWAYS_RIGHT) and not _is_told_right(batch.tokenizer):
                sided = (
                    Assumption("effect", "the tokenizer pads at the right, as most do unless they are told otherwise"),
                )
            yield replace(batch, assumptions=(*sided, *batch.assumptions))

    def padded_batches(self) -> Iterator[PaddedBatch]:
        """The batches of several texts that a tokenizer pads, at whichever side."""
        yield from (batch for batch, _ in self._padded())

    def _padded(self) -> Iterator[tuple[PaddedBatch, str]]:
        """The batches that are padded, each with the name that its tokenizer was loaded by."""
        fetched = (event for dataset in self.data.made for event in self.data.fetching(dataset))
        for call in (*self.all_of(LibraryCall), *(event for event in fetched if isinstance(event, LibraryCall))):
            tokenizer = call.arguments.positional[0] if call.arguments.positional else None
            if not call.name.endswith(_CALL) or not isinstance(tokenizer, Instance):
                continue
            is_processor = _PROCESSOR in call.name  # which takes images first
            if "Tokenizer" not in call.name and not is_processor:
                continue
            padding = call.arguments.keywords.get("padding")
            kind = self.constant(padding) if padding is not None else None
            texts = call.arguments.get(None if is_processor else 1, "text")
            if kind in (True, "longest", "max_length") and (kind == "max_length" or self._may_be_several(texts)):
                several = Assumption("name", "there are several texts of different lengths in a batch")
                yield (
                    PaddedBatch(call, tokenizer, () if isinstance(texts, Items) else (several,)),
                    self._source(tokenizer),
                )

    def _may_be_several(self, texts: Value | None) -> bool:
        """Whether what is tokenized may be several texts: not one text, a list of one, or one of those of a list."""
        if isinstance(texts, Items):
            return len(texts.items) > 1 or not texts.exact
        if not isinstance(texts, Symbol):
            return False
        if texts.name == "element":
            return any(texts.inputs[0] is event.loader for event in self.data.loaders)
        return texts.name in ("unknown", "parameter", "item", "attribute", "call")

    def _source(self, made: Instance) -> str:
        """The name by which a model or tokenizer was loaded; empty if that is not known."""
        return str(self.constant(made.arguments.get(0, "pretrained_model_name_or_path")) or "").lower()

    def has_own_padding(self, tokenizer: Value | None) -> bool:
        """Whether a tokenizer certainly pads with a token that stands for nothing else, by its class or its name."""
        if not isinstance(tokenizer, Instance) or not tokenizer.library_name.endswith(_CALL.removesuffix("()")):
            return False
        cls = tokenizer.library_name.removesuffix(".from_pretrained")
        name = self._source(tokenizer) if cls.startswith("transformers.Auto") else cls.lower()
        is_known = any(each in name for each in _WITH_OWN_PADDING) and not any(each in name for each in _DECODERS)
        held = tokenizer.attributes
        is_set = any(key.startswith("pad_token") and not _is_read(held, value) for key, value in held.items())
        return cls.startswith("transformers.") and is_known and not is_set

    def loaded_model(self, model: Value | None) -> Instance | None:
        """The model of transformers that a value is, as it was loaded: behind its adapters, and on whichever device."""
        for _ in range(_MAX_LAYERS):
            if isinstance(model, Symbol) and model.inputs and (model.name in _KEEPING or model.name in _ADAPTED):
                model = model.inputs[0]
            elif isinstance(model, Instance) and model.library_name.startswith("peft."):
                model = model.arguments.get(0, "model")
            else:
                break
        name = model.library_name if isinstance(model, Instance) else ""
        is_loaded = name.startswith("transformers.") and name.endswith(".from_pretrained")
        return model if is_loaded and isinstance(model, Instance) else None

    def is_encoder(self, model: Value | None) -> bool:
        """Whether a model is certainly an encoder of transformers, by its class or by what it was loaded from."""
        objects = self.objects(model) if model is not None else []
        return bool(objects) and all(isinstance(each, Instance) and self._is_encoder(each) for each in objects)

    def _is_encoder(self, model: Instance) -> bool:
        cls = model.library_name.removesuffix(".from_pretrained")
        name = self._source(model) if cls.startswith("transformers.Auto") else cls.lower()
        is_known = cls.startswith("transformers.") and any(known in name for known in _ENCODERS)
        is_known = is_known and not any(known in name for known in _OF_SPEECH)
        return is_known and not cls.endswith((*_CAUSAL, "Tokenizer", "TokenizerFast", "Config", "EncoderDecoderModel"))

    def takes_mask_second(self, model: Value | None) -> bool:
        """Whether a model is certainly an encoder whose second argument is its mask, as it is but for a few kinds."""
        return self.is_encoder(model) and not any(
            any(other in f"{each.library_name} {self._source(each)}".lower() for other in _WITH_MASK_LATER)
            for each in self.objects(model)
            if isinstance(each, Instance)
        )

    def encoders_alone(self) -> Assumptions | None:
        """What is assumed by whoever takes all models of transformers that the program loads to be encoders.

        ``None`` where it loads none, or some other.
        """
        calls = [each for each in self.all_of(LibraryCall) if each.name.endswith(".from_pretrained")]
        loaded = [each for each in calls if each.name.startswith("transformers.")]
        models = [each for each in loaded if not each.name.removesuffix(".from_pretrained").endswith(_NO_MODELS)]
        guessed = [each for each in models if not self.is_encoder(each.result)]
        names = [each.name.removesuffix(".from_pretrained").rpartition(".")[2] for each in guessed]
        is_open = [
            isinstance(each.result, Instance) and not self._source(each.result) and name.startswith("AutoModel")
            for each, name in zip(guessed, names, strict=True)
        ]
        if not models or not all(is_open) or not all(name.endswith(_HEADS_OF_ENCODERS) for name in names):
            return None
        return tuple(Assumption("name", f"`{name}` loads an encoder, as most of its kind are") for name in names)

    def masks_after_padding(self) -> Iterator[tuple[Site, Site]]:
        """The masks for attention that are ones for a whole list, each with the place above that pads this list."""
        seen: set[int] = set()
        for name in MASKS:
            for module, tree in self.trees(name):
                if id(tree) not in seen:
                    seen.add(id(tree))
                    yield from ((Site(module, each.mask), Site(module, each.padding)) for each in late_masks(tree))

    def ids_of(self, value: Value | None, batch: PaddedBatch) -> bool:
        """Whether a value is the token ids of a batch, on whichever device, or of samples that a loader stacks."""
        while isinstance(value, Symbol) and value.name in _KEEPING and value.inputs:
            value = value.inputs[0]
        if isinstance(value, Symbol) and value.name == "item" and isinstance(value.inputs[0], Symbol):
            loader = loader_of(value.inputs[0])
            value = _whole(part_of_sample(value, loader, self._sample_of)) if loader is not None else value
        is_part = isinstance(value, Symbol) and value.name in ("item", "attribute") and value.detail == "input_ids"
        if not is_part or not isinstance(value, Symbol) or not value.inputs:
            return False
        return self._is_result(value.inputs[0], batch) or self._is_result(_moved_by_part(value.inputs[0]), batch)

    def name_in_batch(self, value: Value) -> str:
        """What a part of a tokenized batch is called, on whichever device: by its key, or as the variable for it."""
        while isinstance(value, Symbol) and value.name in _KEEPING and value.inputs:
            value = value.inputs[0]
        is_part = isinstance(value, Symbol) and value.name in ("item", "attribute") and isinstance(value.detail, str)
        return str(value.detail) if is_part and isinstance(value, Symbol) else self.name_of(value)

    def _sample_of(self, dataset: Instance) -> Value | None:
        if id(dataset) not in self._samples:
            self._samples[id(dataset)] = sample_of(self._machine, dataset)
        return self._samples[id(dataset)]

    @cached_property
    def _samples(self) -> dict[int, Value | None]:
        """The samples of datasets by their identity, each worked out once."""
        return {}

    def _is_result(self, value: Value, batch: PaddedBatch) -> bool:
        while isinstance(value, Symbol) and value.name in _KEEPING and value.inputs:
            value = value.inputs[0]
        if not isinstance(value, Symbol) or not isinstance(batch.call.result, Symbol):
            return False
        place = value.site.node if value.site is not None and value.name == batch.call.result.name else None
        return value is batch.call.result or place is batch.call.site.node  # that of a sample is made each time

    def is_decoder(self, model: Value | None) -> bool:
        """Whether a model is certainly a causal one of transformers, by its class or by what it was loaded from."""
        objects = self.objects(model) if model is not None else []
        return bool(objects) and all(isinstance(each, Instance) and self._is_decoder(each) for each in objects)

    def _is_decoder(self, model: Instance) -> bool:
        cls = model.library_name.removesuffix(".from_pretrained")
        name = self._source(model)
        is_plain = cls == "transformers.AutoModel" and any(known in name for known in _DECODERS)
        is_of_images = cls.removeprefix("transformers.").startswith(_OF_IMAGES) and (
            not cls.startswith("transformers.Blip2") or "-opt-" in name  # with which others, an encoder-decoder goes
        )
        return cls.startswith("transformers.") and (cls.endswith(_CAUSAL) or is_plain or is_of_images)

    def reads_images(self, model: Value | None) -> bool:
        """Whether a model is certainly one of transformers that reads images where tokens say so, and texts alone."""
        loaded = self.loaded_model(model)
        return loaded is not None and loaded.library_name.removeprefix("transformers.").startswith(_SEEING)

    def brought_by(self, event: Event, values: tuple[Value, ...], batch: PaddedBatch) -> Value | None:
        """The value that brings a batch to a call: one of its arguments, or the batch expanded (`model(**batch)`)."""
        result = batch.call.result
        found = next((value for value in values if any(each is result for each in graph.sources(value, 60))), None)
        call, made = event.site.node, batch.call.site.node
        if found is not None or not isinstance(call, ast.Call) or batch.call.frame is not event.frame:
            return found
        expanded = [_tokenized(keyword.value) for keyword in call.keywords if keyword.arg is None]
        assigned = next((node for node in ancestors(batch.call.site) if isinstance(node, ast.Assign)), None)
        is_assigned = assigned is not None and _tokenized(assigned.value) is made
        targets = (
            [each.id for each in assigned.targets if isinstance(each, ast.Name)] if assigned and is_assigned else []
        )
        is_it = any(each is made or (isinstance(each, ast.Name) and each.id in targets) for each in expanded)
        return result if is_it else None


def _moved_by_part(value: Value) -> Value:
    """The batch whose parts are moved in one expression: `{key: part.to(device) for key, part in batch.items()}`."""
    for names in (_KEEPING, ("item",), ("element",), (".items",)):
        if not isinstance(value, Symbol) or value.name not in names or not value.inputs:
            return value
        value = value.inputs[0]
    return value


def _is_told_right(tokenizer: Instance) -> bool:
    """Whether the program itself says that a tokenizer, or the one of a processor, pads at the right."""
    of_processor = tokenizer.attributes.get("tokenizer") if _PROCESSOR in tokenizer.library_name else None
    held = of_processor.attribute("padding_side") if isinstance(of_processor, Symbol) else None
    told = (held, tokenizer.attributes.get("padding_side"), tokenizer.arguments.get(None, "padding_side"))
    return any(isinstance(each, Const) and each.value == "right" for each in told)


def _is_read(held: Mapping[str, Value], value: Value) -> bool:
    """Whether an attribute is held because somebody read it, and not because it was set."""
    return isinstance(held, OpenAttributes) and held.is_read(value)


def _whole(part: Value | None) -> Value | None:
    """What a row was taken of: `encodings["input_ids"][index]`."""
    while isinstance(part, Symbol) and part.inputs:
        key = part.inputs[1] if part.name == "item" and len(part.inputs) > 1 else None
        is_row = key is not None and not isinstance(key, Items) and not isinstance(getattr(key, "value", None), str)
        if not is_row and part.name not in _KEEPING and part.name not in _OF_ONE:
            break
        part = part.inputs[0]
    return part


def _tokenized(node: ast.expr) -> ast.expr:
    """The call of the tokenizer in `tokenizer(...).to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        node = node.func.value
    return node
