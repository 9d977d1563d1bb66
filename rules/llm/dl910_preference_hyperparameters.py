"""A learning rate or a beta for learning from preferences that is far from what works.

A loss over pairs of answers (DPO, KTO) goes on for as long as the two can be told further apart, which they soon can by
making both unlikely. What is held against it is a learning rate of about a tenth of that for supervised fine-tuning,
and beta, which weighs how far the policy is from the reference. Trainers of trl begin with 1e-6 and 0.1.

Measured on torch 2.13 (a GRU that counts in steps of 1 or of 2 and is to prefer 1; 200 steps of Adam, three seeds; the
logarithm of the probability of the answers that are preferred, -.74 at the start): at the rate that it was trained with
at first, divided by 3, -.1 to -.4; at 17 times the first rate -10 to -17, so that it counts in neither way any more,
while the loss falls to .0000. With a beta of .001 the answers that are rejected come to -135 to -142, with .1 to -50.

## Bad
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    args = DPOConfig(output_dir="out", learning_rate=5e-5, beta=0.1)
    DPOTrainer(model=model, args=args, train_dataset=pairs).train()

## Good
    from transformers import AutoModelForCausalLM
    from trl import DPOConfig, DPOTrainer

    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    args = DPOConfig(output_dir="out", learning_rate=5e-7, beta=0.1)
    DPOTrainer(model=model, args=args, train_dataset=pairs).train()

## Not reported
Rates up to 1e-5, and up to 1e-4 where adapters are trained or it is not known what is; betas from 0.01 to 0.5, and any
of another loss than that of DPO (`loss_type="ipo"`); what is computed, given by the user or left as it is; models made
to try code out (`tiny-…`); loops that are written by hand, of which a run can tell.

## On real code
440 public repositories, of which 11 learn from preferences: 1 finding, doubtful: a rate of 2e-4 for adapters, in a
notebook of a course that takes about 20 steps. So the rule is off by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dllint.api import Context, Finding, Instance, LibraryCall, Rule, Value

_TRAINERS = frozenset(("trl.DPOTrainer", "trl.KTOTrainer", "trl.experimental.kto.KTOTrainer", "trl.trainer.DPOTrainer"))
_SETTINGS = frozenset(("DPOConfig", "KTOConfig", "TrainingArguments"))
_OF_ALL, _OF_ADAPTERS = 1e-5, 1e-4
_LEAST, _MOST = 0.01, 0.5
_LOSSES = ("sigmoid", "kto")


class PreferenceHyperparameters(Rule):
    code = "DL910"
    name = "preference-hyperparameters"
    category = "suspicious"
    severity = "warning"
    default = False
    confirmable = True
    triggers = (("DPOTrainer", "KTOTrainer"), ("learning_rate", "beta"))
    references = ("https://huggingface.co/docs/trl/dpo_trainer", "https://arxiv.org/abs/2305.18290")

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name not in _TRAINERS or _is_made_to_try(event, ctx):
            return
        settings = event.arguments.get(None, "args")
        given = settings.arguments.keywords if isinstance(settings, Instance) and _is_settings(settings, ctx) else {}
        rate, most = given.get("learning_rate"), _OF_ALL if _trains_all(event, ctx) else _OF_ADAPTERS
        number = _number_written(rate, ctx)
        if rate is not None and number is not None and number > most:
            what, effect = f"a learning rate of {number:g}", "the policy leaves what it has learned within a few steps"
            yield self._report(event, rate, what, effect, f"begin with {most / 20:g}", ctx)
        beta = given.get("beta") or event.arguments.get(None, "beta")
        number = _number_written(beta, ctx)
        if beta is not None and number is not None and not _LEAST <= number <= _MOST and _is_of_dpo(event, given, ctx):
            is_small = number < _LEAST
            what = f"a beta of {number:g}"
            effect = "nothing keeps the policy near the reference" if is_small else "the policy hardly moves"
            yield self._report(event, beta, what, effect, "begin with 0.1", ctx)

    def _report(self, event: LibraryCall, value: Value, what: str, effect: str, help: str, ctx: Context) -> Finding:
        site = value.site or event.site
        return ctx.finding(
            self,
            site,
            f"{what} is far from what learning from preferences bears",
            on=[event, value],
            assuming=ctx.assumed_use(event.result, "the trainer"),
            effect=effect,
            help=help,
            trace=[(site, "it is set here"), (event.site, "for this trainer")],
        )


def _is_settings(settings: Instance, ctx: Context) -> bool:
    return ctx.class_name(settings) in _SETTINGS


def _number_written(value: Value | None, ctx: Context) -> float | None:
    """The number that is written in the code; ``None`` where the user sets it."""
    if value is None or ctx.is_setting(value):
        return None
    number = ctx.constant(value)
    return float(number) if isinstance(number, int | float) and not isinstance(number, bool) else None


def _trains_all(event: LibraryCall, ctx: Context) -> bool:
    """Whether all parameters of a model are trained, as it is loaded as it is, and no adapters are put on."""
    model, adapters = event.arguments.get(0, "model"), event.arguments.get(None, "peft_config")
    is_plain = isinstance(model, Instance) and model.library_name.startswith("transformers.")
    is_named = isinstance(ctx.constant(model), str)
    return (is_plain or is_named) and (adapters is None or ctx.is_none(adapters)) and event.arguments.exact


def _is_made_to_try(event: LibraryCall, ctx: Context) -> bool:
    model = event.arguments.get(0, "model")
    given = [*model.arguments.all()] if isinstance(model, Instance) else [model]
    return any("tiny" in str(ctx.constant(each)).lower() for each in given if each is not None)


def _is_of_dpo(event: LibraryCall, given: Mapping[str, Value], ctx: Context) -> bool:
    kind = given.get("loss_type") or event.arguments.get(None, "loss_type")
    return kind is None or ctx.constant(kind) in _LOSSES
