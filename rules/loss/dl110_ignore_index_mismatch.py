"""Labels that are set to one number to be left out, and a loss that leaves out another.

Cross-entropies leave out the label `ignore_index`, -100 by default. A dataset that sets labels to -1 needs a loss that
is told so: to any other loss, -1 is a class that does not exist. So is the 255 of segmentation maps, where there are
fewer classes, or where the loss is told to leave out a number below 0.

Measured on torch 2.13 (7 classes, labels of which some are -1, `ignore_index` not given): `IndexError: Target -1 is out
of bounds` on the CPU; on a GPU a device-side assertion, after which nothing runs any more.

## Bad
    y = x.roll(-1, dims=1)
    y[:, :4] = -1
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
    loss.backward()

## Good
    y = x.roll(-1, dims=1)
    y[:, :4] = -1
    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=-1)
    loss.backward()

## Not reported
Numbers that are not known; 255 where nothing tells how many classes there are; labels that are also set to what the
loss leaves out, or from a mark to a class (`y[y == 255] = 0`); targets that are computed with,
clamped or indexed by a mask on the way. Padding is DL108's.

## Fix (unsafe)
Passes the number to the loss. Unsafe because it changes the loss, as it should.

## On real code
411 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Const, Context, Finding, Instance, LossCall, Rule, set_argument

_LEAVING_OUT = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")


class IgnoreIndexMismatch(Rule):
    code = "DL110"
    name = "ignore-index-mismatch"
    category = "correctness"
    severity = "error"
    triggers = (("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss"),)
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        given = event.options.get("ignore_index", Const(-100))
        number = ctx.constant(given)
        if event.loss not in _LEAVING_OUT or event.target is None or not isinstance(number, int):
            return
        marks = ctx.marks_in(event.target)
        if any(mark.number == number for mark in marks):
            return
        mark = next((mark for mark in marks if mark.number < 0 or _is_no_class(mark.number, event, ctx)), None)
        if mark is None:
            return
        made = event.criterion.site if isinstance(event.criterion, Instance) else event.site
        edits = set_argument(made, "ignore_index", str(mark.number)) if made is not None else None
        yield ctx.finding(
            self,
            event,
            f"labels are set to {mark.number} to be left out, and the loss leaves out {number}",
            on=[given],
            assuming=ctx.assumed_use(event.result, "the loss"),
            effect="torch stops at the first of them: `Target is out of bounds`, or an assertion on the GPU",
            help=f"pass `ignore_index={mark.number}` to the loss",
            trace=[(mark.site, "labels are set here"), (event.site, "and are no class to the loss")],
            fix=("Leave these labels out", edits) if edits is not None else None,
        )


def _is_no_class(number: int, event: LossCall, ctx: Context) -> bool:
    """Whether a number is beyond the classes of a loss, or this is told to leave out another that cannot be a class."""
    classes = ctx.shape(event.input).axis(1)
    if classes is not None and isinstance(classes.known, int):
        return number >= classes.known
    told = ctx.constant(event.options.get("ignore_index"))
    return isinstance(told, int) and told < 0
