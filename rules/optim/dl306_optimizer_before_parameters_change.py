"""An optimizer that was built before the model's parameters were replaced.

The optimizer keeps the tensors it was given. What replaces them afterwards (a new head, sharding, adapters,
`load_state_dict(assign=True)`) is in no optimizer, and is never trained.

Measured on torch 2.13: after `m.fc = nn.Linear(...)` the new layer does not move; after `get_peft_model` none of the
trainable tensors is in the optimizer; after `fully_shard`, FSDP with `use_orig_params=False` and
`load_state_dict(assign=True)`, all of the model's parameters are stale. A plain `.to(device)`, `.cuda()` or `.half()`
changes the parameters in place: 0 stale, so it is reported only when the rule is selected by name.

## Bad
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.fc = nn.Linear(512, 10)

## Good
    model.fc = nn.Linear(512, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

## Not reported
Changes after which the optimizer is built again or gets the new parameters (`add_param_group`), changes after the
training, moves between devices and dtypes, and models whose optimizer is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    AttributeAssigned,
    Backward,
    Context,
    Event,
    Finding,
    Instance,
    ModelChanged,
    OptimizerCreated,
    OptimizerStep,
    ParametersAdded,
    Program,
    Rule,
    StateRestored,
    Symbol,
    Value,
    alternatives,
)

_REPLACING = {
    "torch.distributed.fsdp.fully_shard": "sharded",
    "torch.distributed.fsdp.FullyShardedDataParallel": "sharded",
    "peft.get_peft_model": "given adapters",
    "torch.nn.utils.weight_norm": "reparametrised",
    "torch.nn.utils.parametrizations.weight_norm": "reparametrised",
}
_MOVES = frozenset(("to", "cuda", "cpu", "half", "float", "double", "bfloat16"))


@dataclass(frozen=True)
class Taking:
    """An optimizer takes the parameters of some modules; ``position`` counts the events of the program."""

    position: int
    event: OptimizerCreated | ParametersAdded
    modules: list[Value]


class OptimizerBeforeParametersChange(Rule):
    code = "DL306"
    name = "optimizer-before-parameters-change"
    category = "correctness"
    severity = "error"
    triggers = (("parameters", "named_parameters"), ("optim", "Optimizer", "SGD", "Adam", "AdamW"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/optim.html#constructing-it",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        takings = [
            Taking(position, event, ctx.modules_in(event.parameters)[0])
            for position, event in enumerate(ctx.events)
            if isinstance(event, OptimizerCreated | ParametersAdded)
        ]
        first = takings[0].position if takings else len(ctx.events)
        for position, change in enumerate(ctx.events[first:], first):
            what = self._what(change, ctx)
            if what is None:
                continue
            model, text, pedantic = what
            maker = self._stale_optimizer(position, model, takings, ctx)
            if maker is not None and self._trains_after(position, maker, ctx):
                yield self._report(change, maker, text, pedantic, ctx)

    def _what(self, event: Event, ctx: Context) -> tuple[Value, str, bool] | None:
        """The model that an event changes, how, and whether only a pedant would mind."""
        if isinstance(event, ModelChanged):
            text = _REPLACING.get(event.action)
            if text is not None and ctx.constant(event.arguments.get(None, "use_orig_params")) is not True:
                return event.model, text, False
            if event.action in _MOVES and ctx.guessed_role(event.model) in ("module", "wrapper"):
                to = ctx.constant(event.arguments.get(0, "device"))
                return event.model, "moved or cast", to not in ("meta", "xla")
        elif isinstance(event, StateRestored):
            if ctx.constant(event.arguments.get(None, "assign")) is True:
                return event.target, "given other tensors", False
        elif isinstance(event, AttributeAssigned) and _is_new_part(event.value, ctx):
            return event.target, f"given a new `{event.attribute}`", False
        return None

    def _stale_optimizer(
        self, position: int, model: Value, takings: list[Taking], ctx: Context
    ) -> OptimizerCreated | None:
        """The optimizer that was given the model's parameters before the change, and not again after it."""
        stale: OptimizerCreated | None = None
        owners = ctx.objects(model)
        for taking in takings:
            owned = any(ctx.reaches(module, owner) for owner in owners for module in taking.modules)
            if not owned and not any(ctx.reaches(owner, module) for owner in owners for module in taking.modules):
                continue
            if taking.position > position:
                return None
            if isinstance(taking.event, OptimizerCreated) and owned:
                stale = taking.event
        return stale

    def _trains_after(self, position: int, maker: OptimizerCreated, ctx: Context) -> bool:
        return any(
            isinstance(event, Backward)
            or (isinstance(event, OptimizerStep) and ctx.is_same(event.optimizer, maker.optimizer))
            for event in ctx.events[position:]
        )

    def _report(self, change: Event, maker: OptimizerCreated, text: str, pedantic: bool, ctx: Context) -> Finding:
        name = ctx.name_of(maker.optimizer) or "the optimizer"
        return ctx.finding(
            self,
            change.site,
            f"the model is {text} after `{name}` was built from its parameters",
            effect="harmless on CPU and CUDA, where parameters are changed in place"
            if pedantic
            else "the new parameters are in no optimizer and are never trained",
            help=f"build `{name}` after this",
            trace=[(maker.site, "the optimizer takes the parameters"), (change.site, "and then they change")],
            severity="info" if pedantic else None,
            pedantic=pedantic,
        )


def _is_new_part(value: Value, ctx: Context) -> bool:
    """Whether a value is a module or parameter made for the purpose (not a wrapper of something that was there)."""
    options = [option for _, option in alternatives(value)]
    return bool(options) and all(
        (isinstance(option, Instance) and (ctx.role(option) == "module" or option.library_name == "torch.nn.Parameter"))
        or (isinstance(option, Symbol) and option.name == "torch.nn.Parameter")
        for option in options
    )
