"""Scaling of rotary positions that is written into the configuration of a model which is there already.

The layers take the scaling from the configuration when they are made. Whoever sets `model.config.rope_scaling` (of late
`rope_parameters`) after `from_pretrained` changes what the configuration says, and nothing else: positions past those
that the model was trained with are read as before. What is saved afterwards says that it is scaled, so that the weights
are loaded later with a scaling that they were not trained with.

Measured on transformers 5.24 (a llama of two layers for 64 positions, 200 tokens): set afterwards to a linear scaling
by 4, all logits are the very same, to a difference of 0, and the second frequency stays .316; set before, it is .079,
and logits of up to .64 differ by up to .005 in a model without training.

## Bad
    from transformers import AutoModelForCausalLM, Trainer

    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
    model.config.rope_scaling = {"type": "linear", "factor": 2.0}
    Trainer(model=model, args=args, train_dataset=dataset).train()

## Good
    from transformers import AutoConfig, AutoModelForCausalLM, Trainer

    config = AutoConfig.from_pretrained("meta-llama/Llama-2-7b-hf")
    config.rope_scaling = {"type": "linear", "factor": 2.0}
    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", config=config)
    Trainer(model=model, args=args, train_dataset=dataset).train()

## Not reported
Configurations that a model is made with later; models that are only saved, so that the configuration counts when they
are loaded again; `None`; programs that make the rotary layers anew (`_init_rope`, `rotary_emb`). Of sequences that are
longer than the model was made for only a run can tell.

## On real code
440 public repositories, 12 of them made to train language models: no finding. One of them sets a scaling, in the
configuration that the model is made with.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Context,
    Finding,
    Instance,
    LibraryCall,
    ModelForward,
    OpaqueCall,
    Rule,
    Value,
    attribute_of,
)

_SCALINGS = ("rope_scaling", "rope_parameters")
_LOADS = (".from_pretrained", ".from_config", "._from_config")
_REMAKING = ("_init_rope", "rotary_emb", "inv_freq", "rope_init_fn", "post_init", "RotaryEmbedding")
_SAVES = ("save_pretrained", "push_to_hub")


# ------------------------------------------------------------------------------------------------- excuses


def is_made_anew(event: AttributeAssigned, model: Instance, ctx: Context) -> bool:
    """some code of the program makes rotary layers"""
    return any(ctx.mentions(word) for word in _REMAKING)


def is_for_another(event: AttributeAssigned, model: Instance, ctx: Context) -> bool:
    """a model is made with the configuration later"""
    later = (call for call in ctx.all_of(LibraryCall) if ctx.position(call) > ctx.position(event))
    return any(_is_same_config(given, event.target, ctx) for call in later for given in call.arguments.all())


def is_only_saved(event: AttributeAssigned, model: Instance, ctx: Context) -> bool:
    """the model is not used afterwards, but perhaps saved"""
    return not any(ctx.position(event) < ctx.position(use) for use in _uses_of_model(model, ctx))


def _uses_of_model(model: Instance, ctx: Context) -> Iterator[ModelForward | OpaqueCall | LibraryCall]:
    """Where a model is called or handed on, but to be saved."""
    for call in ctx.all_of(ModelForward, OpaqueCall, LibraryCall):
        if isinstance(call, ModelForward):
            given: tuple[Value | None, ...] = (call.model,)
        elif isinstance(call, LibraryCall):
            given = call.arguments.all()
        elif isinstance(call, OpaqueCall) and call.name not in _SAVES:
            given = (call.receiver, *call.values)
        else:
            continue
        if any(each is not None and ctx.reaches(each, model) for each in given):
            yield call


def _is_same_config(given: Value, config: Value, ctx: Context) -> bool:
    owner, other = attribute_of(given, "config"), attribute_of(config, "config")
    return given is config or (owner is not None and other is not None and ctx.is_same(owner, other))


class InertRopeScaling(Rule):
    code = "DL906"
    name = "inert-rope-scaling"
    category = "correctness"
    severity = "error"
    default = False
    confirmable = True
    triggers = (_SCALINGS, ("from_pretrained", "from_config", "_from_config"))
    references = ("https://huggingface.co/docs/transformers/internal/rope_utils",)
    excuses = (is_made_anew, is_for_another, is_only_saved)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        if event.attribute not in _SCALINGS or ctx.is_none(event.value):
            return
        model = _model_configured_by(event, ctx)
        if model is None or model.site is None or ctx.excused(self, event, model):
            return
        yield ctx.finding(
            self,
            event,
            f"`{event.attribute}` is set when the model is there already, and changes nothing",
            on=[model, event.value],
            effect="positions are not scaled, though the configuration that is saved says so",
            help="set it in a configuration, and pass this to `from_pretrained`",
            trace=[(model.site, "the rotary layers are made here"), (event.site, "and do not look again")],
        )


def _model_configured_by(event: AttributeAssigned, ctx: Context) -> Instance | None:
    """The model that an attribute of whose configuration is set, if it was made before."""
    owner = attribute_of(event.target, "config")
    if owner is not None:
        return owner if isinstance(owner, Instance) and _is_loaded_model(owner) else None
    for call in ctx.all_of(LibraryCall):
        made = call.result
        if ctx.position(call) > ctx.position(event) or not isinstance(made, Instance) or not _is_loaded_model(made):
            continue
        if call.arguments.get(None, "config") is event.target and not ctx.exclusive(call, event):
            return made
    return None


def _is_loaded_model(model: Instance) -> bool:
    name = model.library_name
    cls = next((name.removesuffix(way) for way in _LOADS if name.endswith(way)), "").rpartition(".")[2]
    return name.startswith("transformers.") and ("Model" in cls or "For" in cls)
