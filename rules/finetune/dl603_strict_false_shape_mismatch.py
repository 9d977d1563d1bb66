"""`load_state_dict(…, strict=False)` of a state whose layers have other sizes than those of the model.

`strict=False` lets names differ, not shapes. A head for 1,000 classes that is loaded into one for 10 raises a
`RuntimeError`, and it does so after all that fits was copied: code that catches the error goes on with a model that is
loaded in part.

Measured on torch 2.13 (a network of 4 tensors, a head for 10 classes into one for 3): "size mismatch for fc.weight:
copying a param with shape torch.Size([10, 8]) from checkpoint, the shape in current model is torch.Size([3, 8])", with
`strict=False` as without; the other 2 tensors are those of the checkpoint by then.

## Bad
    from torchvision.models import resnet18

    pretrained = resnet18(weights="DEFAULT")
    model = resnet18(num_classes=10)
    print(model.load_state_dict(pretrained.state_dict(), strict=False))

## Good
    from torchvision.models import resnet18

    pretrained = resnet18(weights="DEFAULT")
    state = {name: each for name, each in pretrained.state_dict().items() if not name.startswith("fc.")}
    model = resnet18(num_classes=10)
    print(model.load_state_dict(state, strict=False))

## Not reported
States whose entries the code chooses; layers that are replaced after the state is loaded, as is right; sizes that are
not known on both sides; calls whose error is caught. That a setting has its default is assumed.

## On real code
790 public repositories, of which 85 have `strict=False`: no finding. Where this happens, torch raises, so that it does
not get that far.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Rule, StateRestored


def chosen_entries(event: StateRestored, ctx: Context) -> bool:
    """the code chooses the entries that are loaded, or takes some out"""
    return ctx.is_filtered(event)


def loads_in_its_own_way(event: StateRestored, ctx: Context) -> bool:
    """the model's class has a `load_state_dict` of its own"""
    return any(ctx.member(target, "load_state_dict") is not None for target in ctx.objects(event.target))


def is_caught(event: StateRestored, ctx: Context) -> bool:
    """the error is caught"""
    return any(True for _ in ctx.ancestors(event.site, ast.Try))


class StrictFalseShapeMismatch(Rule):
    code = "DL603"
    name = "strict-false-shape-mismatch"
    category = "correctness"
    severity = "info"
    triggers = (("load_state_dict",), ("strict", "False"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",)
    excuses = (is_caught, loads_in_its_own_way, chosen_entries)

    def on_state_restored(self, event: StateRestored, ctx: Context) -> Iterator[Finding]:
        strict = event.arguments.get(1, "strict")
        if strict is None or ctx.constant(strict) is not False:
            return
        misfit = ctx.misfit(event)
        if misfit is None or ctx.excused(self, event):
            return
        trace = [(misfit.saved.site, "the state has this size"), (misfit.loaded.site, "the model has this one")]
        yield ctx.finding(
            self,
            event,
            f"`{misfit.name}` has another size in the state than in the model, and `strict=False` does not help",
            on=[strict, event.state, event.target, *ctx.left_alone(event, event.target)],
            effect="torch raises an error, after it has loaded what fits",
            help=f"leave the entries of `{misfit.name}` out, or replace the layer after the state is loaded",
            trace=[*((site, text) for site, text in trace if site is not None), (event.site, "loaded here")],
        )
