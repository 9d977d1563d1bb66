"""A part of a checkpoint that is saved and never restored, though training goes on from the checkpoint.

Whoever saves the optimizer's state, the average of the weights or the best score means the next run to have it. A run
that reads the checkpoint and leaves them there begins with a cold optimizer, begins its average again, or takes its
first epoch for the best one so far and overwrites the file of the best model.

Measured on torch 2.13 (3-layer network, resumed after 5,000 steps of Adam, median of 5 seeds): without the optimizer's
state the first update is 12.7 times as long, and after 200 steps the training loss is still .0167 instead of .0138.

## Bad
    optimizer = optim.Adam(model.parameters())
    start = 0
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        start = checkpoint["epoch"] + 1
    for epoch in range(start, epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Good
    optimizer = optim.Adam(model.parameters())
    start = 0
    if os.path.exists("last.pt"):
        checkpoint = torch.load("last.pt")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["epoch"] + 1
    for epoch in range(start, epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, "last.pt")

## Not reported
Parts that a file of the program, or one beside or below it, looks up (of averages: that code looks up which the run may
come to); objects whose state is restored from elsewhere,
or that code which is not seen gets hold of; weights that are loaded for a run of its own. Of what is kept in a file
beside the checkpoints (`history.json`), the best score alone. Schedulers and scalers have rules of their own (DL713,
DL714), and so have epochs (DL711).

## On real code
269 public repositories, of which 40 load the state of an optimizer: no finding. Scores in a file beside the checkpoint:
no finding in 763.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Continuation, Finding, Part, Program, Rule, Saved, SideFile, Site, StateRead, Symbol


def looked_up(place: Site, part: Part, found: Continuation, ctx: Context) -> bool:
    """a file of the program, or one beside or below it, looks the entry up"""
    if _is_average(part, ctx):  # which other scripts take up to evaluate it
        return ctx.may_take_up(part.key, found)
    return part.key in found.keys or ctx.is_entry_read(part.key.rpartition(".")[2])


def restored_otherwise(place: Site, part: Part, found: Continuation, ctx: Context) -> bool:
    """the object is restored from elsewhere, or code that is not seen gets hold of it"""
    value = part.value
    if not isinstance(value, Symbol) or value.name != "state_dict":
        return False
    return ctx.is_restored(value.inputs[0], while_training=not _is_average(part, ctx))


def taken_as_a_whole(place: Site, part: Part, found: Continuation, ctx: Context) -> bool:
    """the dict that it is an entry of is looked up, and none of its entries by name"""
    whole = part.key.rpartition(".")[0]
    return whole in found.keys and not any(key.startswith(f"{whole}.") for key in found.keys)


class SavedButNotRestored(Rule):
    code = "DL722"
    name = "saved-but-not-restored"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("load_state_dict", "step"), ("load",), ("load_state_dict",), ("save", "save_checkpoint"))
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",)

    excuses = (looked_up, taken_as_a_whole, restored_otherwise)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found = ctx.continuation if ctx.all_of(StateRead) else None
        for saved in found.saved if found is not None else ():
            for part in saved.parts:
                what = _name_of_part(part, saved, ctx)
                if found is not None and what and not ctx.excused(self, saved.place_of(part), part, found):
                    yield self._report(part, saved, what, found, ctx)
                    return
        for beside in ctx.side_files if found is not None and _keeps_best(ctx) else ():
            yield from (self._report_beside(key, beside, ctx) for key in beside.left if _is_lost_score(key, ctx))

    def _report_beside(self, key: str, beside: SideFile, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            beside.written,
            f"`{key}` is saved beside the checkpoint, and nothing reads it when training goes on",
            on=[beside.read],
            effect=_EFFECTS["score"],
            help=f'take `["{key}"]` up where the other entries are',
            trace=[
                (beside.written.site, "this is saved"),
                (beside.read.site, "and not taken out of what is read here"),
            ],
        )

    def _report(self, part: Part, saved: Saved, what: str, found: Continuation, ctx: Context) -> Finding:
        place, readers = saved.place_of(part), [read for read, _ in ctx.readers(saved)]
        of_it = [each for each in found.restored if each.read in readers] or found.restored[:1]
        restored = min(of_it, key=lambda each: len(ctx.assumptions_of(each.event)))  # any of them: the run goes on
        return ctx.finding(
            self,
            place,
            f"`{part.key}` is saved, and nothing restores it when training goes on",
            on=[saved.event, restored.event, restored.unsure, part.given if what == "optimizer" else None],
            assuming=found.assumptions,
            effect=_EFFECTS[what],
            help=f'take `checkpoint["{part.key}"]` up where the model\'s state is loaded',
            trace=[(place, "this is saved"), (restored.read.site, "and not taken out of what is read here")],
        )


_EFFECTS = {
    "score": "the first epoch of a resumed run is taken for the best so far, and overwrites the best model",
    "average": "a resumed run begins its average again: for many steps it is that of other weights",
    "optimizer": "a resumed run begins with a cold optimizer: its first updates have the wrong length",
}


def _name_of_part(part: Part, saved: Saved, ctx: Context) -> str:
    """What a part is, if a run that goes on needs it and no other rule is for it."""
    if not part.key or "*" in part.key:
        return ""
    if ctx.checkpoints.kind(part.value) == "optimizer" and isinstance(part.value, Symbol):
        return "optimizer"
    if _is_average(part, ctx):
        return "average"
    is_score = ctx.speaks_of("score", part.key) and part.key.startswith("best") and not _is_record(part, saved)
    return "score" if is_score and (_is_of_best(saved) or ctx.is_saved_again_and_again(saved)) else ""


def _is_record(part: Part, saved: Saved) -> bool:
    """Whether a score only goes with the best one, by their names: `"best_ssim": ssim` beside `"best_loss": best`."""
    names = {each.key: _written_as(saved.place_of(each)) for each in saved.parts}
    own = names.pop(part.key, "")
    return own != "" and not own.startswith("best") and any(name.startswith("best") for name in names.values())


def _written_as(place: Site) -> str:
    """The variable or attribute that stands at a place; empty for any other expression."""
    return getattr(place.node, "id", "") or getattr(place.node, "attr", "")


def _is_of_best(saved: Saved) -> bool:
    """Whether a checkpoint is written where a score is compared with the best one so far."""
    return any(name.rpartition(":")[2].startswith("best") for guard in saved.event.guards for name in guard.names)


def _keeps_best(ctx: Context) -> bool:
    return any(map(_is_of_best, ctx.checkpoints.saved))


def _is_lost_score(key: str, ctx: Context) -> bool:
    """Whether an entry is the best score so far, and no file looks one up that is called so."""
    return key.startswith("best") and ctx.speaks_of("score", key) and not ctx.is_entry_read(key)


def _is_average(part: Part, ctx: Context) -> bool:
    """Whether a part is the average of a model's weights, as its key says and as it is made of such weights."""
    if "." in part.key or not ctx.speaks_of("weight-average", part.key):
        return False
    return any(isinstance(each, Symbol) and each.name in _WEIGHTS for each in ctx.sources(part.value))


_WEIGHTS = frozenset(("state_dict", "parameters", "named_parameters", ".parameters", ".named_parameters"))
