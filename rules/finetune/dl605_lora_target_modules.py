"""Layers named for adapters that the model does not have.

`target_modules` names layers by the last part of their names, which differs from family to family: `q_proj` in Llama is
`query` in BERT and a part of `c_attn` in GPT-2; `wi` of the first T5 is `wi_0` and `wi_1` in Flan-T5; `gate_up_proj` of
Phi-3 is two layers in Gemma. What is not found is left out, and peft says nothing as long as one name fits: these
layers get no adapter. Where none fits, `get_peft_model` raises, and so does a trainer of trl that is given the
configuration.

Measured with peft 0.21 and transformers 5.23: a list of which a part is absent gives no error and no warning; one of
which all is absent ends in a `NoMatchingPeftModuleError`.

## Bad
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("facebook/opt-350m")
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"]))

## Good
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("facebook/opt-350m")
    model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj", "fc1", "fc2"]))

Of a model whose family is not known, names are reported that no decoder has beside the others of the list: `query_proj`
of DeBERTa next to `k_proj` and `gate_proj`, where there is no `q_proj`.

## Not reported
Other names for models whose family does not follow from the name they are loaded by; names that no family has, such as
those of heads; lists that are not written out, or name layers of so many families that they are for any model, or of
both versions of T5.

## On real code
135 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Const, Context, Finding, Instance, Items, LibraryCall, Rule, alternatives

_LLAMA = frozenset(("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))
_BERT = frozenset(("query", "key", "value", "dense"))
_OPT = frozenset(("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"))
_NEOX = frozenset(("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"))
_T5 = frozenset(("q", "k", "v", "o", "wi", "wo"))
_GATED_T5 = frozenset(("q", "k", "v", "o", "wi_0", "wi_1", "wo"))  # since version 1.1
_ANY_T5 = _T5 | _GATED_T5
_GPT2 = frozenset(("c_attn", "c_proj", "c_fc"))
_DISTILBERT = frozenset(("q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"))
_DEBERTA = frozenset(("query_proj", "key_proj", "value_proj", "dense"))
_PHI2 = frozenset(("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"))
_PHI3 = frozenset(("qkv_proj", "o_proj", "gate_up_proj", "down_proj"))
_LAYERS = (  # of models by what their names begin with, as they are written on the hub
    ("llama", _LLAMA), ("meta-llama", _LLAMA), ("tinyllama", _LLAMA), ("mistral-7b", _LLAMA), ("qwen2-", _LLAMA),
    ("qwen2.5-", _LLAMA), ("gemma-2b", _LLAMA), ("gemma-7b", _LLAMA), ("gemma-2-", _LLAMA), ("bert-", _BERT),
    ("phi-2", _PHI2), ("phi-3-mini", _PHI3), ("phi-3-medium", _PHI3), ("phi-3.5-mini", _PHI3), ("smollm", _LLAMA),
    ("zephyr-7b", _LLAMA), ("vicuna-", _LLAMA), ("qwen3-", _LLAMA), ("falcon-7b", _NEOX), ("falcon-40b", _NEOX),
    ("roberta-", _BERT | {"out_proj"}), ("xlm-roberta-", _BERT | {"out_proj"}), ("opt-", _OPT), ("whisper-", _OPT),
    ("bloom-", _NEOX), ("bloomz-", _NEOX), ("pythia-", _NEOX), ("gpt-neox", _NEOX), ("t5-v1_1-", _GATED_T5),
    ("t5-", _ANY_T5), ("flan-t5-", _GATED_T5), ("mt5-", _GATED_T5), ("gpt2", _GPT2), ("distilgpt2", _GPT2),
    ("dialogpt", _GPT2), ("distilbert-", _DISTILBERT), ("deberta-v3-", _DEBERTA),
)  # fmt: skip
_IN_DECODERS = {"query_proj": "q_proj", "key_proj": "k_proj", "value_proj": "v_proj"}
_FIRST_T5 = ("t5-small", "t5-base", "t5-large", "t5-3b", "t5-11b")
_KNOWN = frozenset[str]().union(*(names for _, names in _LAYERS))
_OTHER_LAYERS = ("-vl", "-moe", "-audio", "vision")  # families within families, whose layers have more names
_OF_ANY_MODEL = 4


class LoraTargetModules(Rule):
    code = "DL605"
    name = "lora-target-modules"
    category = "suspicious"
    severity = "warning"
    triggers = (("get_peft_model", "peft_config"), ("target_modules",), ("from_pretrained",))
    references = ("https://huggingface.co/docs/peft/package_reference/lora#peft.LoraConfig.target_modules",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        is_trainer = event.name.startswith("trl.") and event.name.endswith("Trainer")
        if event.name != "peft.get_peft_model" and not is_trainer:
            return
        model = ctx.loaded_model(event.arguments.get(0, "model"))
        config = event.arguments.get(None if is_trainer else 1, "peft_config")
        if model is None or not isinstance(config, Instance):
            return
        loaded, layers = _loaded(model, ctx)
        given = config.arguments.keywords.get("target_modules")
        names = _names_in_list(given) if isinstance(given, Items) else []
        if layers <= _ANY_T5 and {"wi", "wi_0"} <= {*names}:
            return  # for whichever version of it
        absent = (
            [name for name in names if name in _KNOWN - layers] if layers else _of_encoders(names if loaded else [])
        )
        families = sum(any(name in family for name in absent) for family in {family for _, family in _LAYERS})
        if not absent or families >= _OF_ANY_MODEL:
            return
        is_silent = any(name in layers or not layers for name in names)
        listed = ", ".join(f"`{name}`" for name in absent[:2])
        yield ctx.finding(
            self,
            event,
            f"no layer of this model is called {listed}{', …' if len(absent) > 2 else ''}",
            on=[model, config, given],
            assuming=ctx.assumed_use(event.result, "the trainer") if is_trainer else (),
            effect="they get no adapter, and nothing says so" if is_silent else "peft finds no layer, and raises",
            help=f"name layers that `{loaded}` has, such as `{sorted(layers)[0]}`"
            if layers
            else f"call it `{_IN_DECODERS[absent[0]]}`, as the others are called",
            trace=[
                (place.site, text)
                for place, text in ((model, "the model is loaded here"), (config, "and its layers are named here"))
                if place.site is not None
            ],
            severity=None if is_silent else "info",
        )


def _loaded(model: Instance, ctx: Context) -> tuple[str, frozenset[str]]:
    """The name by which a model is loaded, and the layers that it then has."""
    name = ctx.constant(model.arguments.get(0, "pretrained_model_name_or_path"))
    if not isinstance(name, str) or any(each in name.lower() for each in _OTHER_LAYERS):
        return "", frozenset()
    last = name.lower().rpartition("/")[2]
    if last in _FIRST_T5:
        return name, _T5
    return name, next((layers for begin, layers in _LAYERS if last.startswith(begin)), frozenset())


def _of_encoders(names: list[str]) -> list[str]:
    """The projections that are called as in DeBERTa, in a list that calls others as decoders with gates do."""
    own = _LLAMA & {*names}
    if not own & {"gate_proj", "up_proj"} or not own & {*_IN_DECODERS.values()}:
        return []
    return [name for name in names if name in _IN_DECODERS and _IN_DECODERS[name] not in own]


def _names_in_list(given: Items) -> list[str]:
    """The texts in a list, if it has nothing else."""
    options = [option for item in given.items for _, option in alternatives(item)]
    texts = [each.value for each in options if isinstance(each, Const) and isinstance(each.value, str)]
    return texts if given.exact and len(texts) == len(options) else []
