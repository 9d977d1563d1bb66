"""A backward pass from a loss that was cut off from the model.

`.item()`, `.detach()`, `.data`, NumPy and `torch.tensor(loss)` cut the graph. Setting `requires_grad` on the result
makes the error message go away and trains nothing: the backward pass ends at the new tensor.

A penalty on weights that is computed from `state_dict()`, whose tensors are detached, or from `p.data`, is such a
number as well: it is added to the loss, and pulls no weight anywhere.

Measured on torch 2.13: `torch.tensor(loss.item(), requires_grad=True).backward()`, `loss.detach().requires_grad_()`,
`Variable(loss, requires_grad=True)` and `torch.tensor([l1, l2], requires_grad=True).mean().backward()` run silently and
leave the gradient of 100 % of the parameters at `None`. A squared distance of two layers has a gradient of norm 1.97 at
one of them from `parameters()`, and of 0 from `state_dict()`.

## Bad
    loss = torch.tensor(loss.item(), requires_grad=True)
    loss.backward()

## Good
    loss = criterion(model(x), y)
    loss.backward()

## Not reported
Losses of which some term still carries gradients (a detached target, a detached weight), inputs that are optimized
themselves (adversarial images, style transfer, latent codes), and losses whose parts cannot be followed. Penalties on
weights in programs that set gradients by hand, and those that take part of the weights with their gradients.

## Fix (unsafe)
Removes the line where it puts the new tensor in the place of the loss itself (`loss = torch.tensor(loss, ...)`). Unsafe
because training begins, as it should.

## On real code
742 public repositories: no finding. Of 50 losses laundered in them as a test, 48 were found. Penalties on weights: no
finding in 763.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Backward,
    Choice,
    Context,
    Edits,
    Finding,
    Guards,
    Rule,
    Site,
    Symbol,
    Value,
    assumed_under,
    receiver_of,
    remove,
    statement_around,
)

_WEIGHTS = frozenset(("parameters", "named_parameters", "state_dict"))
_OUTPUTS = frozenset(("forward", "call", "parameter"))
_CUTTING = ("weights", "detach", "leaf")
_MAX_TERMS = 60
_BOTH = 2  # factors of a product


class LaunderedLoss(Rule):
    code = "DL206"
    name = "laundered-loss"
    category = "correctness"
    severity = "error"
    triggers = (
        ("backward", "manual_backward"),
        ("requires_grad", "requires_grad_", "detach", "detach_", "item", "data", "numpy", "tensor", "tolist", "float",
         "state_dict"),
    )  # fmt: skip
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/autograd.html",)

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        if event.loss is None:
            return
        yield from self._check_penalties(event, event.loss, ctx)
        gradient = ctx.gradient(event.loss)
        cuts = [cut for cut in gradient.cuts if cut.reason in ("leaf", "detach")]
        if gradient.flows is not False or not cuts:
            return
        anew = next((cut for cut in cuts if cut.reason == "leaf"), None)
        cut = anew or cuts[0]
        if anew is not None:
            what = "made into a new tensor with `requires_grad`"
            effect = "the backward pass ends at the new tensor: no parameter gets a gradient, and no error says so"
        else:
            what = "detached from the model"
            effect = "no gradient reaches any parameter: torch raises here, or nothing is trained"
        yield ctx.finding(
            self,
            event,
            f"backward pass from a loss that was {what}",
            effect=effect,
            help="call `backward` on the loss as the criterion returned it; use `.item()` only for logging",
            trace=[(cut.site, "the graph is cut here"), (event.site, "so it depends on no model")],
            fix=("Keep the loss", _keep(cut.site)),
        )

    def _check_penalties(self, event: Backward, loss: Value, ctx: Context) -> Iterator[Finding]:
        """Terms of a loss that are computed from weights alone, and from nothing that carries gradients."""
        reported: set[int] = set()
        for guards, term in _added_terms(loss, ctx) if ctx.gradient(loss).flows else ():
            gradient = ctx.gradient(term)
            cut = next((each for each in gradient.cuts if each.reason in _CUTTING), None)
            if gradient.flows is not False or cut is None or id(cut.site.node) in reported:
                continue
            if not _is_penalty(term, ctx) or _has_own_gradients(ctx):
                continue
            reported.add(id(cut.site.node))
            yield ctx.finding(
                self,
                event,
                "a penalty on weights is added to the loss, and no gradient goes through it",
                assuming=assumed_under(guards),
                effect="it adds a number to the loss: the weights are trained as if it were not there",
                help="compute it from `parameters()`, without `.data`, `.detach()` or `.item()`",
                trace=[(cut.site, "the graph is cut here"), (event.site, "so this term is a constant")],
                confirmable=False,  # the rest of the loss has its gradients
            )


def _added_terms(loss: Value, ctx: Context) -> Iterator[tuple[Guards, Value]]:
    """What a loss is the sum of, without weights that scale it, each with the conditions under which it is added."""
    pending: list[tuple[Guards, Value]] = [((), loss)]
    seen = set[int]()
    for guards, value in pending:  # which grows meanwhile
        if id(value) in seen or len(seen) > _MAX_TERMS:
            continue
        seen.add(id(value))
        name, inputs = (value.name, value.inputs) if isinstance(value, Symbol) else ("", ())
        if isinstance(value, Choice):
            pending.extend((guards + more, option) for more, option in value.options)
        elif name in ("+", "-"):
            pending.extend((guards, each) for each in inputs)
        elif name == "*" and len(inputs) == _BOTH:  # where one factor carries gradients, all of the product does
            pending.extend((guards, one) for one, other in (inputs, inputs[::-1]) if not ctx.gradient(other).flows)
        elif name == "/" and len(inputs) == _BOTH and not ctx.gradient(inputs[1]).flows:
            pending.append((guards, inputs[0]))
        elif isinstance(value, Symbol):
            yield guards, value


def _is_penalty(term: Value, ctx: Context) -> bool:
    """Whether a term is computed from the parameters of modules, and from nothing that these return for an input."""
    found = [each for each in ctx.sources_up_to(term, _is_weights) if isinstance(each, Symbol)]
    has_weights = any(_is_weights(given) for each in found for given in each.inputs)
    return has_weights and not any(each.name in _OUTPUTS for each in found)


def _is_weights(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name in _WEIGHTS


def _has_own_gradients(ctx: Context) -> bool:
    """Whether a program sets gradients itself, as it may do for a penalty."""
    in_place = (call for name in ("add_", "sub_", "copy_") for call in ctx.method_calls(name))
    is_changed = any("grad" in receiver_of(call.node).split(".") for call in in_place)
    return is_changed or any(event.attribute == "grad" for event in ctx.all_of(AttributeAssigned))


def _keep(cut: Site) -> Edits:
    """Remove the statement that puts something cut off in the place of a variable: ``loss = f(loss)``."""
    statement = statement_around(cut)
    if not isinstance(statement, ast.Assign):
        return Edits()
    target = ast.unparse(statement.targets[0])
    reads = {ast.unparse(node) for node in ast.walk(statement.value) if isinstance(node, ast.Name | ast.Attribute)}
    return remove(cut) if len(statement.targets) == 1 and target in reads else Edits()
