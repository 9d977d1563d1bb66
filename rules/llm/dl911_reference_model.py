"""A reference model of a preference loss that is the policy itself, or is not what the policy began as.

A loss over pairs of answers (DPO) compares how far the policy has moved from a frozen copy of its beginning. Where the
reference is the policy, under another name, each difference is 0: the loss rests at ln 2 = .6931, the first value that
a right one has, too. With `no_grad` around the reference the policy is still pushed, and nothing holds it back; without
it there is no gradient at all. `DPOTrainer` without a `ref_model` loads one by the name in the configuration of the
model: what the model has learned since it was loaded is not in it.

Measured on torch 2.13 (a GRU that counts in steps of 1 or of 2 and is to prefer 1; 200 steps of Adam, beta .1, three
seeds; the logarithm of the probability of an answer that is rejected, -.75 at the start): with a copy, -50 and a loss
of .008; with the policy as reference, -139 under `no_grad` and -.75 without it, and a loss of .6931. On trl 1.16 a
policy that was changed in memory begins with a loss of .7136, and its reference has the weights of the disk.

## Bad
    policy = AutoModelForCausalLM.from_pretrained("gpt2")
    reference = policy
    for chosen, rejected in loader:
        margin = logps(policy, chosen) - logps(policy, rejected)
        with torch.no_grad():
            before = logps(reference, chosen) - logps(reference, rejected)
        loss = -F.logsigmoid(0.1 * (margin - before)).mean()
        loss.backward()

    def logps(model, tokens):
        scores = model(tokens).logits[:, :-1].log_softmax(-1)
        return scores.gather(2, tokens[:, 1:, None]).squeeze(2).sum(1)

## Good
    policy = AutoModelForCausalLM.from_pretrained("gpt2")
    reference = copy.deepcopy(policy).requires_grad_(False)
    for chosen, rejected in loader:
        margin = logps(policy, chosen) - logps(policy, rejected)
        with torch.no_grad():
            before = logps(reference, chosen) - logps(reference, rejected)
        loss = -F.logsigmoid(0.1 * (margin - before)).mean()
        loss.backward()

    def logps(model, tokens):
        scores = model(tokens).logits[:, :-1].log_softmax(-1)
        return scores.gather(2, tokens[:, 1:, None]).squeeze(2).sum(1)

## Not reported
References that are switched on in the policy itself, as by `disable_adapter()`; probabilities that were computed before
the training; losses without a reference; models that are not seen to be one and the same. Trainers of trl that get a
reference, adapters or probabilities computed before; models that nothing changed after they were loaded, or that were
saved and loaded again; releases before trl 0.29 (`KTOTrainer`: 1.2), which copy the model.

## On real code
440 public repositories, of which 11 learn from preferences: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Choice,
    Const,
    Context,
    Event,
    Finding,
    Instance,
    LibraryCall,
    ModeChange,
    ModelForward,
    OpaqueCall,
    Rule,
    StateRestored,
    Symbol,
    Value,
    attribute_of,
)

_SINCE = {"trl.DPOTrainer": "0.29", "trl.KTOTrainer": "1.2"}
_MERGES = (".merge_and_unload", ".merge_adapter")
_METHODS = frozenset(
    (".sum", ".mean", ".gather", ".squeeze", ".unsqueeze", ".view", ".reshape", ".to", ".float", ".chunk", ".split",
     ".masked_fill", ".contiguous", ".flatten")
)  # fmt: skip
_DEEPEST = 25
_DEEPEST = 12


# ------------------------------------------------------------------------------------------------- excuses


def is_switched(policy: ModelForward, reference: ModelForward, ctx: Context) -> bool:
    """something between the two calls gets the model, or sets an attribute: it may switch adapters off"""
    first, last = sorted((ctx.position(policy), ctx.position(reference)))
    changes = (each for each in ctx.all_of(OpaqueCall, AttributeAssigned, StateRestored) if _may_switch(each, policy))
    return any(first < ctx.position(each) < last for each in changes)


def _may_switch(event: Event, policy: ModelForward) -> bool:
    if not isinstance(event, OpaqueCall):
        return True
    return any(value is policy.model for value in (event.receiver, *event.values))


class ReferenceModel(Rule):
    code = "DL911"
    name = "reference-model"
    category = "correctness"
    severity = "error"
    default = False
    confirmable = True
    triggers = (("logsigmoid", "LogSigmoid", "DPOTrainer", "KTOTrainer"),)
    references = ("https://huggingface.co/docs/trl/dpo_trainer", "https://arxiv.org/abs/2305.18290")
    excuses = (is_switched,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name == "torch.logsigmoid":
            yield from self._judge_loss(event, ctx)
        elif event.name in _SINCE:
            yield from self._judge_trainer(event, _SINCE[event.name], ctx)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        if ctx.class_name(event.model) == "LogSigmoid":
            yield from self._judge_loss(event, ctx)

    def _judge_loss(self, event: LibraryCall | ModelForward, ctx: Context) -> Iterator[Finding]:
        margin = event.arguments.get(0, "input")
        if margin is None or not ctx.goes_backward(event.result):
            return
        behind = {id(value) for value in ctx.sources(margin)}
        calls = [each for each in ctx.all_of(ModelForward) if id(each.result) in behind]
        if not calls or any(each.model is not calls[0].model for each in calls):
            return
        pair = next(_same_calls(calls, ctx), None)
        if pair is None or not _Way(pair, ctx).is_settled(margin) or ctx.excused(self, *pair):
            return
        policy, reference = pair
        is_off = reference.grad == "off"
        yield ctx.finding(
            self,
            event,
            "the reference of this loss is the policy itself",
            on=[policy, reference, policy.model],
            effect="the loss rests at ln 2, and nothing keeps the policy near its beginning"
            if is_off
            else "the difference is always 0: there is no gradient, and nothing is learned",
            help="copy the policy before the training, with `copy.deepcopy`, and freeze the copy",
            trace=[
                *([(policy.model.site, "the model that is both")] if policy.model.site is not None else []),
                (reference.site, "is called as the reference"),
                (event.site, "and compared with itself"),
            ],
        )

    def _judge_trainer(self, event: LibraryCall, since: str, ctx: Context) -> Iterator[Finding]:
        model, reference = event.arguments.get(0, "model"), event.arguments.get(1, "ref_model")
        if model is None or not event.arguments.exact or not (reference is None or ctx.is_none(reference)):
            return
        if _has_adapters(event, ctx) or _computes_before(event, ctx) or ctx.runs_before("trl", since):
            return
        change = next(_changes_of_policy(event, model, ctx), None)
        if change is None or ctx.mentions("_name_or_path"):
            return
        what, at = change
        yield ctx.finding(
            self,
            event,
            "the reference is loaded from the disk, where this model is another one",
            on=[model, at],
            assuming=[*ctx.assumed_version("trl", since), *ctx.assumed_use(event.result, "the trainer")],
            effect="the loss compares with the weights before, and pulls the policy back to them",
            help="pass a frozen copy as `ref_model`, or save the model and load it again",
            trace=[(at.site, what), (event.site, "without a `ref_model` it is loaded by the name of the model")],
        )


def _same_calls(calls: list[ModelForward], ctx: Context) -> Iterator[tuple[ModelForward, ModelForward]]:
    """The calls of one model with the same arguments in one turn of a loop, of which one has to be the reference."""
    for policy in calls:
        for reference in calls:
            if reference is policy or policy.grad != "on" or reference.grad == "unknown":
                continue
            if reference.grad == "on" and ctx.position(reference) < ctx.position(policy):
                continue
            if ctx.loops_around(policy)[:1] == ctx.loops_around(reference)[:1] and _agree(policy, reference):
                yield policy, reference


class _Way:
    """The way from a margin to the calls behind it."""

    def __init__(self, calls: tuple[ModelForward, ...], ctx: Context) -> None:
        self._results = [call.result for call in calls]
        self._ctx = ctx
        self._known: dict[int, bool | None] = {}

    def is_settled(self, value: Value, depth: int = 0) -> bool | None:
        """Whether all between a value and the calls is done by known operations; ``None`` if none is behind it."""
        if any(value is result for result in self._results):
            return True
        if depth > _DEEPEST or not isinstance(value, Symbol | Choice):
            return None
        if id(value) not in self._known:
            self._known[id(value)] = self._look_behind(value, depth)
        return self._known[id(value)]

    def _look_behind(self, value: Symbol | Choice, depth: int) -> bool | None:
        inner = value.inputs if isinstance(value, Symbol) else self._ctx.inside(value)
        found = {self.is_settled(each, depth + 1) for each in inner} - {None}
        if not found or isinstance(value, Choice):
            return False if found else None
        is_known = value.name in _METHODS or not (value.name.startswith(".") or value.name == "call")
        return is_known and found == {True}


def _agree(left: ModelForward, right: ModelForward) -> bool:
    """Whether two calls certainly have the same arguments."""
    mine, others = left.arguments, right.arguments
    if len(mine.positional) != len(others.positional) or mine.keywords.keys() != others.keywords.keys():
        return False
    pairs = [*zip(mine.positional, others.positional, strict=True)]
    pairs += [(value, others.keywords[key]) for key, value in mine.keywords.items()]
    return mine.exact and others.exact and all(_is_equal(one, other) for one, other in pairs)


def _is_equal(left: Value, right: Value, depth: int = 0) -> bool:
    """Whether two values are computed alike from the very same ones."""
    if left is right:
        return True
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value)
    if not isinstance(left, Symbol) or not isinstance(right, Symbol) or depth > _DEEPEST or not left.inputs:
        return False
    if left.name != right.name or left.detail != right.detail or len(left.inputs) != len(right.inputs):
        return False
    return all(_is_equal(one, other, depth + 1) for one, other in zip(left.inputs, right.inputs, strict=True))


def _has_adapters(event: LibraryCall, ctx: Context) -> bool:
    given = event.arguments.get(None, "peft_config")
    return given is not None and not ctx.is_none(given)


def _computes_before(event: LibraryCall, ctx: Context) -> bool:
    """Whether the probabilities of the reference are computed by the model itself, or the settings are not known."""
    settings = event.arguments.get(2, "args")
    if settings is None or ctx.is_none(settings):
        return False
    if not isinstance(settings, Instance) or not settings.arguments.exact:
        return True
    given = settings.arguments.get(None, "precompute_ref_log_probs")
    return given is not None and ctx.constant(given) is not False


def _changes_of_policy(event: LibraryCall, model: Value, ctx: Context) -> Iterator[tuple[str, Event]]:
    """What has changed a model after it was loaded and before a trainer gets it, in words and as an event."""
    owner = attribute_of(model, "model")  # `trainer.model`
    for change in ctx.all_of(ModeChange, StateRestored, OpaqueCall):
        if ctx.position(change) >= ctx.position(event) or ctx.exclusive(change, event):
            continue
        if isinstance(change, OpaqueCall):
            if isinstance(model, Symbol) and model.name in _MERGES and change.site is model.site:
                yield "adapters are merged into the model here", change
        elif isinstance(change, StateRestored):
            if change.target is model and _is_loaded(model):
                yield "other weights are loaded into the model here", change
        elif not isinstance(change, ModeChange) or not isinstance(change.model, Instance):
            continue
        elif change.model.library_name.endswith("Trainer"):
            trained = change.model.arguments.get(0, "model")
            adapters = change.model.arguments.get(None, "peft_config")
            is_plain = (adapters is None or ctx.is_none(adapters)) and _is_loaded(trained)
            if is_plain and (trained is model or change.model is owner):
                yield "the model is trained here", change


def _is_loaded(model: Value | None) -> bool:
    """Whether a model is one of transformers without adapters, or will be, as it is given by its name."""
    if isinstance(model, Instance):
        return model.library_name.startswith("transformers.")
    return isinstance(model, Const) and isinstance(model.value, str)
