"""A new head behind LoRA that is neither trained nor saved: nothing tells PEFT that the model classifies.

`get_peft_model` freezes all but the adapters. With `task_type="SEQ_CLS"` it adds the head, which was drawn at random,
to what is trained and saved; without, and without `modules_to_save`, the adapters learn to make sense of random
weights. If the head is unfrozen by hand it is trained, and not saved: after loading it is another one.

Measured on peft 0.21: of a BERT for classification, the classifier has no gradients with no `task_type`, and has them
with `SEQ_CLS`. Where a head was unfrozen by hand, the scores after loading differ by up to 6.45.

## Bad
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=4)
    config = LoraConfig(r=8, target_modules=["query", "value"])
    model = get_peft_model(model, config)

## Good
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=4)
    config = LoraConfig(task_type="SEQ_CLS", r=8, target_modules=["query", "value"])
    model = get_peft_model(model, config)

## Not reported
Configurations with a `task_type` for classification or with `modules_to_save`; models without a new head; models that
were loaded from a folder of the project's own, whose head may be trained. The `RewardTrainer` of TRL is looked at like
`get_peft_model`, which it calls.

## Fix (unsafe)
Adds the `task_type`. Unsafe because the head is trained then, as it should.

## On real code
276 public repositories: no finding; few of them use PEFT for classification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.api import Assumption, Context, Finding, Instance, LibraryCall, Rule, set_argument

_TASKS = {
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
}
_WITH_HEAD = re.compile(
    r"vqa|squad|sst|mnli|snli|ner\b|finetuned|sentiment|emotion|-qa\b|reward", re.IGNORECASE
)  # in names
_TRAINERS = ("trl.RewardTrainer", "trl.trainer.RewardTrainer")  # which call `get_peft_model` themselves
_CONFIGS = ("LoraConfig", "IA3Config", "AdaLoraConfig", "LoHaConfig", "LoKrConfig")


class LoraHeadNotSaved(Rule):
    code = "DL606"
    name = "lora-head-not-saved"
    category = "correctness"
    severity = "error"
    triggers = (("get_peft_model", "RewardTrainer"), _CONFIGS, ("from_pretrained",))
    fix_safety = "unsafe"
    references = ("https://huggingface.co/docs/peft/developer_guides/troubleshooting#randomly-initialized-layers",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name not in ("peft.get_peft_model", *_TRAINERS):
            return
        position = 1 if event.name not in _TRAINERS else None
        model, config = event.arguments.get(0, "model"), event.arguments.get(position, "peft_config")
        if not isinstance(model, Instance) or not isinstance(config, Instance) or not config.arguments.exact:
            return
        cls = model.library_name.removesuffix(".from_pretrained")
        task = next((task for ending, task in _TASKS.items() if cls.endswith(ending)), "")
        if not task or not cls.startswith("transformers.") or config.library_name.rpartition(".")[2] not in _CONFIGS:
            return
        given = config.arguments.keywords
        if config.arguments.positional or "modules_to_save" in given or "task_type" in given:
            return
        name = model.arguments.get(0, "pretrained_model_name_or_path")
        loaded = ctx.constant(name) if name is not None else None
        unknown = Assumption("effect", "the head is a new one: the model was not loaded with a trained one")
        is_plain = isinstance(loaded, str) and loaded.count("/") < 2 and not loaded.startswith((".", "/"))
        is_plain = is_plain and not _WITH_HEAD.search(str(loaded))
        yield ctx.finding(
            self,
            event,
            f"the head of `{cls.rpartition('.')[2]}` is frozen: the configuration has no `task_type`",
            on=[model, config],
            assuming=() if is_plain else (unknown,),
            effect="its weights stay random, and are not among what `save_pretrained` saves",
            help=f'pass `task_type="{task}"`, or name the head in `modules_to_save`',
            trace=[
                (place.site, text)
                for place, text in ((model, "the model, with a new head"), (config, "the configuration"))
                if place.site is not None
            ],
            fix=("Say what the task is", set_argument(config.site, "task_type", f'"{task}"'))
            if config.site is not None
            else None,
        )
