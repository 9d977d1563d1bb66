"""A checkpoint that is written under one key and read under another.

The saving and the loading code were written at different times: the state is saved as `model_state_dict` and looked up
as `state_dict`, or saved bare and looked up by a key. The run that loads it stops with a `KeyError` after hours of
training; where a whole checkpoint is given to `load_state_dict(…, strict=False)`, nothing stops and nothing is loaded.

Measured on torch 2.13 (a network of 4 tensors): a missing key raises `KeyError`, the whole checkpoint given to
`load_state_dict` raises `RuntimeError` (4 keys missing, 2 unexpected), and with `strict=False` it loads 0 of 4 tensors
without a word.

## Bad
    torch.save({"model_state_dict": model.state_dict(), "epoch": 3}, "last.pt")
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["state_dict"])

## Good
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, "last.pt")
    checkpoint = torch.load("last.pt")
    model.load_state_dict(checkpoint["state_dict"])

## Not reported
Keys that some file of the project writes, that are tested for (`"ema" in checkpoint`) or looked up with `get`;
checkpoints that may have more entries than are seen; files of another name.

## On real code
About 150 public repositories: no finding. The one question was false, as the program writes back what it has read; that
is silent now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from dllint.api import (
    Context,
    Finding,
    Program,
    Restored,
    Rule,
    Saved,
    Site,
    StateRead,
    Symbol,
    is_same_path,
)

_ENTRIES = frozenset(
    ("model", "net", "network", "state", "state_dict", "model_state_dict", "model_state", "net_state_dict", "optimizer",
     "optimizer_state_dict", "epoch", "step", "weights")
)  # fmt: skip


def written_elsewhere(keys: list[str], ctx: Context) -> bool:
    """some file of the project writes an entry of this name"""
    return any(ctx.is_entry_written(key, everywhere=True) for key in keys)


class CheckpointKeyMismatch(Rule):
    code = "DL721"
    name = "checkpoint-key-mismatch"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("load", "save", "load_state_dict"), ("torch",), ("save",))
    references = ("https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html",)

    excuses = (written_elsewhere,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        known = [saved for saved in ctx.checkpoints.saved if saved.event.function == "torch.save"]
        for read in ctx.checkpoints.reads:
            written = [saved for saved in known if is_same_path(saved.event.path, read.path)]
            if written and all(map(_is_known, written)):
                yield from self._check_read(read, written, ctx)
        for saved in known:
            if _is_known(saved):
                yield from self._check_elsewhere(saved, ctx)

    def _check_read(self, read: StateRead, written: list[Saved], ctx: Context) -> Iterator[Finding]:
        """What is looked up in a file that the program itself has written."""
        missing = _missing(ctx.keys_needed(read), written)
        if missing and not ctx.excused(self, missing):
            yield self._report(missing, written[0], read.site, [read, read.path], ctx)
        for restored in ctx.checkpoints.restored:
            if restored.read is read and _is_of_all(restored) and all(saved.is_dict for saved in written):
                states = [part for part in written[0].parts if ctx.checkpoints.kind(part.value) == "module"]
                if states and not missing:
                    yield self._report_whole(restored, written[0], ctx)

    def _check_elsewhere(self, saved: Saved, ctx: Context) -> Iterator[Finding]:
        """What other code of the project looks up in the file."""
        for load in ctx.loads_of_file(saved):
            missing = _missing(load.needed, [saved])
            if missing and not ctx.excused(self, missing):
                yield self._report(missing, saved, load.site, [], ctx)
                return

    def _report(self, missing: list[str], saved: Saved, load: Site, on: list[object], ctx: Context) -> Finding:
        has = ", ".join(f"`{key}`" for key in sorted(_keys([saved]))) or "a bare state dict"
        return ctx.finding(
            self,
            saved.event,
            f"`{missing[0]}` is looked up in a checkpoint that is saved without it",
            on=[*on, saved.event.path, *(part.given for part in saved.parts)],
            effect="whoever loads it gets a KeyError, after training is done",
            help=f"use one key for both: the checkpoint has {has}",
            trace=[(saved.site, "this is saved"), (load, f"and `{missing[0]}` is looked up in it")],
        )

    def _report_whole(self, restored: Restored, saved: Saved, ctx: Context) -> Finding:
        key = next(part.key for part in saved.parts if ctx.checkpoints.kind(part.value) == "module")
        given = [part.given for part in saved.parts]
        return ctx.finding(
            self,
            restored.event,
            f"the whole checkpoint is given to `load_state_dict`, and the state is its entry `{key}`",
            on=[saved.event, restored.read, restored.read.path, restored.event.state, *given],
            effect="all keys are missing: a RuntimeError, or with `strict=False` weights that stay as they were made",
            help=f'load `checkpoint["{key}"]`',
            trace=[(saved.site, "this is saved"), (restored.event.site, "and all of it is loaded")],
        )


def _is_known(saved: Saved) -> bool:
    """Whether all entries of a checkpoint are seen, or it is a bare state dict."""
    if not saved.is_dict:
        return all(isinstance(part.value, Symbol) and part.value.name == "state_dict" for part in saved.parts)
    return saved.exact and not any("*" in part.key for part in saved.parts)


def _missing(wanted: Collection[str], written: list[Saved]) -> list[str]:
    """The keys that a file does not have; in a bare state dict, others are the names of parameters."""
    names = set(wanted) - _keys(written)
    return sorted(names if all(saved.is_dict for saved in written) else names & _ENTRIES)


def _keys(written: list[Saved]) -> set[str]:
    return {part.key.partition(".")[0] for saved in written for part in saved.parts if part.key}


def _is_of_all(restored: Restored) -> bool:
    return restored.event.state is restored.read.result
