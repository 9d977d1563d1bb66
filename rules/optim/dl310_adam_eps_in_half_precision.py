"""Parameters in float16 with an `eps` that rounds to zero in it.

Adam and its relatives divide by the root of an average of squared gradients, plus `eps`. In float16 the average of
gradients below 5e-3 underflows to zero, and so does the default `eps` of 1e-8: the division gives infinity or `nan`.

Measured on torch 2.13 (a small network, all in float16): with an `eps` of 1e-8 parameters are not finite after the
first step of Adam, NAdam, RMSprop and Adagrad; 1e-7, which is often recommended, ends at a loss of 4717, 1e-6 at 41.6,
and 1e-5 at .419 (.498 in float32). In bfloat16 1e-8 is no problem, and neither are fused optimizers, which compute in
float32.

## Bad
    net = nn.Linear(10, 2).half()
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good
    net = nn.Linear(10, 2)
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## Not reported
Models that are in float32 under autocast, or in bfloat16; models of which a part is frozen or has another precision;
fused optimizers, and an `eps` of 1e-5 or more; optimizers of other libraries, which may keep a copy in float32; those
that are given copies of the parameters, as masters in float32. An optimizer for which no backward pass of the model is
seen while it is in float16, and steps through a `GradScaler`, which refuses such gradients with an error.

## On real code
138 public repositories: no finding. In others two, both false: masters that were cloned before the cast, and a loop
that only scores. It reports since where a backward pass for this optimizer comes between the cast and the step.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Backward, Context, Event, Finding, Instance, OptimizerCreated, Rule, Symbol, Value

_EPS_AT = {  # the position of `eps`
    **dict.fromkeys(("torch.optim.Adam", "torch.optim.AdamW", "torch.optim.NAdam", "torch.optim.RMSprop"), 3),
    "torch.optim.Adagrad": 5,
}
_ENOUGH = 1e-5
_OTHER_TENSORS = frozenset(
    (".clone", ".detach", ".float", ".double", ".to", ".type", "torch.clone", "copy.deepcopy", "torch.nn.Parameter")
)


def is_given_copies(event: OptimizerCreated, ctx: Context) -> bool:
    """it is given tensors that were made of the parameters, and that the model's cast leaves as they are"""
    given = event.parameters
    made = ctx.sources_up_to(given, lambda each: isinstance(each, Instance)) if given is not None else ()
    symbols = [each for each in made if isinstance(each, Symbol)]
    return any(each.name in _OTHER_TENSORS or (each.name, each.detail) == ("attribute", "data") for each in symbols)


def _is_otherwise(event: OptimizerCreated, cast: Event | Value, ctx: Context) -> bool:
    """Whether the model is cast only where another optimizer is made: in the other arm of a branch."""
    return isinstance(cast, Event) and not ctx.consistent(event.guards, cast.guards)


def _backward_for(made: OptimizerCreated, ctx: Context) -> Backward | None:
    """The first backward pass of a model whose gradients an optimizer steps with afterwards.

    A step through a gradient scaler is none: that refuses gradients in float16, with an error.
    """
    steps = [each for each in ctx.steps() if ctx.is_same(each.optimizer, made.optimizer) and each.scaler is None]
    for event in ctx.all_of(Backward):
        is_later = ctx.position(event) > ctx.position(made)
        is_used = is_later and any(ctx.position(step) > ctx.position(event) for step in steps)
        if is_used and ctx.gives_gradients(event.loss, made.optimizer):
            return event
    return None


class AdamEpsInHalfPrecision(Rule):
    code = "DL310"
    name = "adam-eps-in-half-precision"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("Adam", "AdamW", "NAdam", "RMSprop", "Adagrad"), ("half", "float16"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html",)
    excuses = (is_given_copies,)

    def on_optimizer_created(self, event: OptimizerCreated, ctx: Context) -> Iterator[Finding]:
        optimizer = event.optimizer
        if not isinstance(optimizer, Instance) or optimizer.library_name not in _EPS_AT or ctx.is_prepared(optimizer):
            return
        given, used = optimizer.arguments, _backward_for(event, ctx)
        eps, fused = given.get(_EPS_AT[optimizer.library_name], "eps"), given.keywords.get("fused")
        number = ctx.constant(eps) if eps is not None else 0.0
        if used is None or not given.exact or not isinstance(number, int | float) or number >= _ENOUGH:
            return
        if fused is not None and ctx.constant(fused) is not False:
            return
        if ctx.excused(self, event):
            return
        for module in ctx.parameters_of(optimizer)[0]:
            cast = ctx.cast_of(module, used)
            if cast is not None and cast.precision == "float16" and not _is_otherwise(event, cast.evidence, ctx):
                written = f"an `eps` of {number:g}" if eps is not None else "the default `eps`"
                yield ctx.finding(
                    self,
                    event,
                    f"{written} is zero for parameters in float16",
                    on=[cast.evidence, eps, event.parameters, module, ctx.left_alone(used, module)],
                    effect="the first step divides by zero, and parameters become infinite or nan",
                    help="keep the parameters in float32 and compute under `torch.autocast`",
                    trace=[
                        (cast.site, "the parameters are in float16"),
                        (event.site, "and `eps` is 0 in it"),
                    ],
                )
                return
