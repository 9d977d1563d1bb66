"""`load_state_dict(…, strict=False)` whose answer nobody looks at.

With `strict=False` every parameter that has no match in the file keeps its initial value, and no error says so. The
call answers which keys were missing and which were unexpected; thrown away, a wrong prefix or a renamed layer goes
unnoticed, and the "pretrained" model is a random one.

Measured on torch 2.13 (a network of 4 tensors): a state dict with the prefix `module.` or `_orig_mod.`, the whole
`{"state_dict": …}` and an empty dict all load 0 of 4 tensors without an error or a warning (4 missing, 4 unexpected).

## Bad
    state = torch.load("pretrained.pt")
    model.load_state_dict(state, strict=False)

## Good
    state = torch.load("pretrained.pt")
    missing, unexpected = model.load_state_dict(state, strict=False)
    print(missing, unexpected)

## Not reported
Answers that are printed, returned or compared; states whose entries the code chooses itself (a comprehension with a
condition, `pop`, `del`), that come from elsewhere than a file, or that other code has made; a second try where the
strict one fails; states that by their names are a part of a model, such as adapters. That the names differ is certain
where the program has saved the file from a model of another class or in another wrapper, and where entries that are
chosen by how their names begin (`k.startswith("model.head.")`) get names of which the model has none; otherwise it is
assumed, and the finding is a question (`--possible`).

## Fix (safe)
Prints the answer, where it is thrown away on the spot.

## On real code
269 public repositories, of which 35 have `strict=False`: 4 findings in 3 of them, all true. Of 6 questions one is
doubtful: it loads shards onto meta tensors. In 127 others 2 findings, in 123 more 5, all doubtful, as nothing told that
the names differ; such are questions now. In 363 others, after entries under names of which the model has none were
added: no finding of these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    Rule,
    StateRestored,
    path_texts,
    replace_range,
    statement_around,
)

_UNREAD = "nobody looks at which keys `strict=False` left out"
_CHECK = "print or check the answer: `missing, unexpected = model.load_state_dict(state, strict=False)`"
_DIFFERENT = Assumption("effect", "the file has other names than the model, of which nothing tells")


def chosen_by_hand(event: StateRestored, ctx: Context) -> bool:
    """the code chooses the entries that are loaded, or takes some out, and the model may have them"""
    return ctx.is_filtered(event) and not ctx.names_that_fit_nothing(event)


def made_elsewhere(event: StateRestored, ctx: Context) -> bool:
    """the state is not read from a file here, or code that is not seen has made it"""
    return not ctx.is_from_file(event) or ctx.is_made_unseen(event)


def tried_before(event: StateRestored, ctx: Context) -> bool:
    """it is the second try, where the strict one fails"""
    return ctx.is_retried(event.site)


def is_a_part(event: StateRestored, ctx: Context) -> bool:
    """by its names, the state is a part of a model (adapters, a head)"""
    paths = [text for read in ctx.checkpoints.reads for text in path_texts(read.path)]
    state = ctx.name_of(event.state) if event.state is not None else ""
    function = event.frame.stack()
    return ctx.speaks_of("partial-state", state, *paths, *(frame.function for frame in function))


def loads_itself(event: StateRestored, ctx: Context) -> bool:
    """the model's class has a `load_state_dict` of its own"""
    return any(ctx.member(target, "load_state_dict") is not None for target in ctx.objects(event.target))


class StrictFalseResultIgnored(Rule):
    code = "DL604"
    name = "strict-false-result-ignored"
    category = "suspicious"
    severity = "warning"
    triggers = (("load_state_dict",), ("strict", "False"))
    confirmable = True
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",)

    excuses = (loads_itself, chosen_by_hand, made_elsewhere, tried_before, is_a_part)

    def on_state_restored(self, event: StateRestored, ctx: Context) -> Iterator[Finding]:
        strict = event.arguments.get(1, "strict")
        if strict is None or ctx.constant(strict) is not False or ctx.is_read_at(event.site):
            return
        if ctx.excused(self, event):
            return
        unfit = sorted(ctx.names_that_fit_nothing(event))
        is_statement = isinstance(statement_around(event.site), ast.Expr) and not unfit
        edits = replace_range(event.site, f"print({ctx.source_of(event.site)})") if is_statement else Edits()
        yield ctx.finding(
            self,
            event,
            f"`strict=False` leaves out all that is chosen: the model has no `{unfit[0]}`" if unfit else _UNREAD,
            on=[strict, event.state],
            assuming=() if unfit or ctx.is_of_other_make(event) else (_DIFFERENT,),
            effect="where the names do not match, nothing is loaded, and the model keeps its initial weights",
            help="give the entries the names that they have in the model" if unfit else _CHECK,
            trace=[(event.site, "the answer is thrown away")],
            fix=("Print the answer", edits),
        )
