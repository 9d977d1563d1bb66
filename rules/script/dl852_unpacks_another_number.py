"""A tuple of the project's own function that is unpacked into another number of variables.

A model returns its features as well since last week, a loader function gives a third loader, and one of the callers
still has two names. Python finds out when it comes there: after the data have been read, in the first validation, or in
the script that draws the figures. Of a function that returns nothing, no variable can take anything either.

Measured on Python 3.11 (a script of three epochs, whose `evaluate` gives two numbers for three names): the first epoch
is trained, then comes `ValueError: not enough values to unpack (expected 3, got 2)`, and nothing is saved.

## Bad
    @torch.no_grad()
    def evaluate(model, loader):
        losses = [criterion(model(x), y).item() for x, y in loader]
        return sum(losses) / len(losses), max(losses)

    for epoch in range(epochs):
        train(model, train_loader, optimizer)
        loss, worst, accuracy = evaluate(model, val_loader)

## Good
    @torch.no_grad()
    def evaluate(model, loader):
        losses = [criterion(model(x), y).item() for x, y in loader]
        return sum(losses) / len(losses), max(losses)

    for epoch in range(epochs):
        train(model, train_loader, optimizer)
        loss, worst = evaluate(model, val_loader)

## Not reported
Lines that a script does not come to; functions that are stubs or return something else on some way, that have
decorators, or that are replaced somewhere; targets with a star; what is tried, where a `ValueError` is caught;
functions of a file that is found by a changed `sys.path`. In a notebook, or in a script of cells (`# %%`), which may
have been run in another order, it is a question, and so it is in a script that nobody imports and that the commands in
the project's notes leave out, while they run others, and in what a file only tries out of what others import of it.

## On real code
184 public repositories: 4 findings in the scripts of 4 of them, all true, and two questions: a score that the
validation gives no more, a model that is to give three maps, a hard example that is no longer returned. In 92 others
one finding, doubtful: a trial below the main guard of a file that another one has replaced. Of functions that return
nothing there is one in 480 repositories, true: a `return` that is commented out. In 1,300 others, as they were read, 16
of 25 were true, 3 false and 6 doubtful: examples below a main guard, and scripts that something else ends before. What
a long function returns that nothing else is asked of, and paths that are put together of `None`, end a script since.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Assumption, Context, Finding, Nothing, Rule, Site, UnpackingRefused

# ------------------------------------------------------------------------------------------------- excuses


def is_attempted(event: UnpackingRefused, ctx: Context) -> bool:
    """it is tried, and what Python says is caught"""
    return ctx.is_caught(event.site, _error(event))


def may_be_another_file(event: UnpackingRefused, ctx: Context) -> bool:
    """the file of the function is found along a path that code changes, so that it may be another one"""
    made = _unpacked(event)
    changes = (site for name in ("insert", "append", "extend") for site in ctx.method_calls(name, of="path"))
    return made is not None and made.module is not event.site.module and any(changes)


class UnpacksAnotherNumber(Rule):
    code = "DL852"
    name = "unpacks-another-number"
    category = "correctness"
    severity = "error"
    triggers = (("torch", "transformers", "lightning", "pytorch_lightning"),)
    of_files = True
    references = ("https://docs.python.org/3/reference/simple_stmts.html#assignment-statements",)
    excuses = (is_attempted, may_be_another_file)

    def on_unpacking_refused(self, event: UnpackingRefused, ctx: Context) -> Iterator[Finding]:
        if ctx.excused(self, event):
            return
        parts = " or ".join(str(number) for number in event.parts)
        given = f"{parts} values" if parts else f"what `{_function(event)}` returns, which is nothing"
        taken = f"{event.count} variables are to take" if event.count else "an item is read of"
        yield ctx.finding(
            self,
            event,
            f"{taken} {given}",
            assuming=(*ctx.assumed_to_get_to(event.site), *_assumed_of_trial(ctx)),
            effect=f"Python raises a {_error(event)} here, and the run ends",
            help="take as many values as are returned, or return as many as are taken"
            if parts
            else f"return from `{_function(event)}` what is taken here",
            trace=[
                *ctx.calls_to(event),
                *_put_together(event),
                (event.site, f"is unpacked into {event.count} variables" if event.count else "is read by an index"),
            ],
        )


def _assumed_of_trial(ctx: Context) -> list[Assumption]:
    """That somebody runs a file which only tries out, or shows, what others import of it."""
    name = ctx.program.module.file.name
    return [Assumption("effect", f"somebody runs `{name}` itself, which is there for others")] if ctx.is_trial else []


def _error(event: UnpackingRefused) -> str:
    """What Python raises."""
    return "ValueError" if event.parts else "TypeError"


def _function(event: UnpackingRefused) -> str:
    """The function that returns nothing."""
    return event.value.function.name if isinstance(event.value, Nothing) else ""


def _unpacked(event: UnpackingRefused) -> Site | None:
    """Where the values are put together, or the function begins that returns nothing."""
    return event.value.function.site if isinstance(event.value, Nothing) else event.value.site


def _put_together(event: UnpackingRefused) -> Iterator[tuple[Site, str]]:
    """Where the values come from, if that is another line."""
    made = _unpacked(event)
    if made is not None and (made.module is not event.site.module or made.line != event.site.line):
        yield made, "the values are put together here" if event.parts else "this function returns nothing"
